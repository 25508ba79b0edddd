"""From trained sub-networks to a model in the units of the data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.families import Family, best_intercept
from sparsenam.model.additive import AdditiveModel, Matrix, Vector, fill_absent, outputs_of
from sparsenam.networks import SubnetBank
from sparsenam.tables import PreparedSample


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """A model, and how large its effects are over the training rows on the scale of the fit, shape (kept,).

    ``root_mean_square`` is the norm ‖hⱼ‖ₙ, ``mean_absolute`` the measure of the subgradient solvers' threshold.
    """

    model: AdditiveModel
    root_mean_square: Vector
    mean_absolute: Vector

    def keep(self, kept: NDArray[np.bool_]) -> Finished:
        """Return the model of some of its terms."""
        return Finished(keep_terms(self.model, kept), self.root_mean_square[kept], self.mean_absolute[kept])

    def norms(self) -> Vector:
        """Return ‖hⱼ‖ₙ of every term, 0 where dropped, shape (n_terms,)."""
        norms = np.zeros(self.model.n_terms)
        norms[self.model.terms] = self.root_mean_square
        return norms


def finish(
    prepared: PreparedSample,
    family: Family,
    bank: SubnetBank,
    theta: Tensor,
    active: NDArray[np.intp],
    intercept: Vector,
    *,
    filled: bool = False,
) -> Finished:
    """Return the model of the active terms, with centred effects and the best intercept for them.

    ``bank`` and ``theta`` are of the active terms alone; ``active`` are their indices in ``prepared``. ``filled``
    says that the training put the mean, 0, into absent cells; otherwise they add nothing.
    """
    theta, x = theta.double().cpu(), prepared.x[active]
    outputs = outputs_of(bank, theta, x)
    shares = prepared.weights / prepared.weights.sum()
    offsets = means_of_present(outputs, x, shares)
    outputs -= offsets[:, None]
    absent = np.zeros_like(offsets)
    if filled and active.size:
        absent = outputs_of(bank, theta, np.zeros((active.size, 1)))[:, 0] - offsets
    fill_absent(outputs, x, absent)
    start = intercept + offsets.sum(axis=0)
    base = best_intercept(family, outputs.sum(axis=0), prepared.target, prepared.weights, start)
    unit = prepared.target_scaling.scale
    model = AdditiveModel(
        family=family,
        bank=bank,
        theta=theta,
        terms=prepared.terms[active],
        n_terms=prepared.n_terms,
        scaling=prepared.scaling.take(active),
        offsets=offsets,
        intercept=prepared.target_scaling.center + unit * base + np.log(prepared.exposure_unit),
        target_scale=unit,
        absent=absent,
    )
    squares = np.einsum("jik,jik,i->j", outputs, outputs, shares)
    return Finished(model, np.sqrt(squares), np.einsum("jik,i->j", np.abs(outputs), shares))


def means_of_present(outputs: NDArray[np.float64], x: Matrix, shares: Vector) -> Matrix:
    """Return the mean of outputs (terms, rows, outputs) over the rows in which x (terms, rows) is not NaN."""
    present = ~np.isnan(x)
    if present.all():
        return np.einsum("jik,i->jk", outputs, shares)
    weights = present * shares
    return np.einsum("jik,ji->jk", outputs, weights / weights.sum(axis=1, keepdims=True))


def keep_terms(model: AdditiveModel, kept: NDArray[np.bool_]) -> AdditiveModel:
    """Return the model of some of its terms; effects are centred, so the intercept stays."""
    indices = np.flatnonzero(kept)
    return replace(
        model,
        bank=model.bank.take(indices),
        theta=model.theta[torch.as_tensor(indices)],
        terms=model.terms[indices],
        scaling=model.scaling.take(indices),
        offsets=model.offsets[indices],
        absent=model.absent[indices],
    )
