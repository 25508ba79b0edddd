"""From trained sub-networks to a model in the units of the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.families import Family, best_intercept
from sparsenam.model.additive import AdditiveModel
from sparsenam.networks import SubnetBank
from sparsenam.tables import PreparedSample


def finish(
    prepared: PreparedSample,
    family: Family,
    bank: SubnetBank,
    theta: Tensor,
    active: NDArray[np.intp],
    intercept: NDArray[np.float64],
) -> AdditiveModel:
    """Return the model of the active features, with centred effects and the best intercept for them.

    ``bank`` and ``theta`` are of the active features alone; ``active`` are their places in ``prepared``.
    """
    theta = theta.double().cpu()
    raw = _outputs(bank, theta, prepared.x[active])
    offsets = np.einsum("jik,i->jk", raw, prepared.weights) / prepared.weights.sum()
    together = raw.sum(axis=0) - offsets.sum(axis=0)
    base = best_intercept(
        family, together, prepared.target, prepared.weights, intercept + offsets.sum(axis=0)
    )
    unit = prepared.target_scaling.scale
    return AdditiveModel(
        family=family,
        bank=bank,
        theta=theta,
        features=prepared.features[active],
        n_features_in=prepared.n_features_in,
        scaling=prepared.scaling.take(active),
        offsets=offsets,
        intercept=prepared.target_scaling.center + unit * base,
        target_scale=unit,
    )


def keep_features(model: AdditiveModel, kept: NDArray[np.bool_]) -> AdditiveModel:
    """Return the model of some of its features; effects are centred, so the intercept stays."""
    places = np.flatnonzero(kept)
    return replace(
        model,
        bank=model.bank.take(places),
        theta=model.theta[torch.as_tensor(places)],
        features=model.features[places],
        scaling=model.scaling.take(places),
        offsets=model.offsets[places],
    )


def mean_absolute_effects(model: AdditiveModel, prepared: PreparedSample) -> NDArray[np.float64]:
    """Return each kept feature's mean absolute effect over the training rows, on the scale of the fit."""
    places = {int(feature): place for place, feature in enumerate(prepared.features)}
    active = np.array([places[int(feature)] for feature in model.features], dtype=np.intp)
    centred = _outputs(model.bank, model.theta, prepared.x[active]) - model.offsets[:, None]
    return np.einsum("jik,i->j", np.abs(centred), prepared.weights) / prepared.weights.sum()


def _outputs(bank: SubnetBank, theta: Tensor, x: NDArray[np.float64]) -> NDArray[np.float64]:
    with torch.no_grad():
        return bank.effects(theta, torch.as_tensor(np.ascontiguousarray(x))).numpy()
