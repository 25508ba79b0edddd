"""From a sample to a fitted additive model: the one way through the rooms."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sparsenam.estimators.network_fit import NetworkFit, train_network
from sparsenam.estimators.settings import Settings
from sparsenam.families import Family
from sparsenam.model import AdditiveModel, finish, keep_features, mean_absolute_effects
from sparsenam.networks import build_bank, initial_parameters
from sparsenam.penalties import NeedsFirstFit, as_penalty
from sparsenam.streams import Streams
from sparsenam.tables import Sample, prepare
from sparsenam.training import Deadline
from sparsenam.training.fit import History


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A fitted model with the story of its fit. ``norms`` are the group norms of all input features."""

    model: AdditiveModel
    history: History
    stationarity: float
    norms: NDArray[np.float64]


def fit_additive(sample: Sample, family: Family, settings: Settings) -> Fitted:
    """Return the model that the settings give for the sample."""
    clock = Deadline(settings.max_seconds)
    streams = Streams.from_random_state(settings.random_state)
    family.range.check(sample.target, f"the {family.name} family")
    scaled = settings.standardize and family.standardizes_target
    prepared = prepare(sample, standardize=settings.standardize, standardize_target=scaled)
    bank = build_bank(settings.hidden, prepared.names, prepared.target.shape[1], settings.activation)
    fit = NetworkFit(prepared, family, settings, streams, clock, bank)
    start = initial_parameters(bank, prepared.names, streams)
    penalty = as_penalty(settings.penalty)
    if isinstance(penalty, NeedsFirstFit):
        first = train_network(fit, start, penalty, penalty.first_alpha(settings.alpha), stage="-first")
        penalty = penalty.adapted_to(first.norms)
    trained = train_network(fit, start, penalty, settings.alpha)
    if not trained.outcome.converged:
        warnings.warn(
            f"The fit stopped after {len(trained.outcome.history)} iterations with stationarity "
            f"{trained.outcome.stationarity:.2g}, above tol; raise max_epochs or tol.",
            ConvergenceWarning,
            stacklevel=4,
        )
    model = finish(prepared, family, trained.bank, trained.theta, trained.active, trained.intercept)
    if not settings.chosen_solver().proximal and settings.alpha > 0:
        model = keep_features(model, mean_absolute_effects(model, prepared) > settings.threshold)
    norms = np.zeros_like(trained.norms)
    norms[model.features] = trained.norms[model.features]
    return Fitted(model, trained.outcome.history, trained.outcome.stationarity, norms)
