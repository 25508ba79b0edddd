"""From a sample to a fitted additive model: the one way through the rooms."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from sparsenam.convex.bank import hidden_columns, ramp_bank, with_output
from sparsenam.convex.certificate import Certificate
from sparsenam.convex.design import orthonormal_design
from sparsenam.convex.ramps import place_ramps
from sparsenam.convex.relaxed import refit_on
from sparsenam.convex.smoothing import smooth_fit
from sparsenam.estimators.network_fit import NetworkFit, TrainedNetwork, train_network
from sparsenam.estimators.settings import Settings
from sparsenam.families import Family
from sparsenam.model import AdditiveModel, finish, keep_features, mean_absolute_effects
from sparsenam.networks import MLPBank, SubnetBank, build_bank, initial_parameters
from sparsenam.penalties import NeedsFirstFit, Penalty, as_penalty
from sparsenam.selection import CVCurve
from sparsenam.selection.features import FeatureChoice, choose_features, linear_columns, ramp_columns
from sparsenam.selection.folds import Splits, balanced_splits
from sparsenam.streams import Streams
from sparsenam.tables import PreparedSample, Sample, prepare
from sparsenam.training import Deadline
from sparsenam.training.fit import History
from sparsenam.training.polish import polish

FOLDS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What every step of one fit needs."""

    prepared: PreparedSample
    family: Family
    settings: Settings
    streams: Streams
    clock: Deadline
    splits: Splits | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A fitted model with the story of its fit.

    ``norms`` are the group norms of all input features. ``certificate`` and ``curve`` are there when the convex
    problem chose the features.
    """

    model: AdditiveModel
    alpha: float
    norms: NDArray[np.float64]
    history: History
    stationarity: float | None = None
    certificate: Certificate | None = None
    curve: CVCurve | None = None


def fit_additive(sample: Sample, family: Family, settings: Settings, splits: Splits | None = None) -> Fitted:
    """Return the model that the settings give for the sample; ``splits`` are of the rows that count."""
    clock = Deadline(settings.max_seconds)
    streams = Streams.from_random_state(settings.random_state)
    family.range.check(sample.target, f"the {family.name} family")
    scaled = settings.standardize and family.standardizes_target
    prepared = prepare(sample, standardize=settings.standardize, standardize_target=scaled)
    task = Task(prepared, family, settings, streams, clock, splits)
    if settings.alpha != "auto" and not settings.starts_convex:
        return _fit_network(task, float(settings.alpha))
    return _fit_chosen(task)


def choose(task: Task) -> FeatureChoice:
    """Let the convex problem choose features, and alpha where the settings leave it open."""
    settings, prepared = task.settings, task.prepared
    splits = task.splits
    if settings.alpha == "auto" and splits is None:
        n_folds = min(FOLDS, prepared.weights.size)
        splits = balanced_splits(prepared.target, n_folds, task.streams.generator("folds"))
    return choose_features(
        prepared,
        task.family,
        as_penalty(settings.penalty),
        linear_columns(prepared) if settings.is_linear else ramp_columns(prepared),
        alpha=None if settings.alpha == "auto" else float(settings.alpha),
        splits=splits,
        rule=settings.rule,
        verbose=settings.verbose,
        out_of_time=task.clock.passed,
    )


def _fit_network(task: Task, alpha: float) -> Fitted:
    """Train the paper's model on all features, from random parameters and under the penalty."""
    settings, prepared = task.settings, task.prepared
    bank = build_bank(settings.architecture, prepared.names, prepared.target.shape[1], settings.activation)
    fit = NetworkFit(prepared, task.family, settings, task.streams, task.clock, bank)
    start = initial_parameters(bank, prepared.names, task.streams)
    penalty = as_penalty(settings.penalty)
    if isinstance(penalty, NeedsFirstFit):
        first = train_network(fit, start, penalty, penalty.first_alpha(alpha), stage="-first")
        penalty = penalty.adapted_to(first.norms)
    trained = train_network(fit, start, penalty, alpha)
    _warn_unless_converged(trained)
    model = finish(prepared, task.family, trained.bank, trained.theta, trained.active, trained.intercept)
    if not settings.chosen_solver().proximal and alpha > 0:
        model = keep_features(model, mean_absolute_effects(model, prepared) > settings.threshold)
    norms = np.zeros_like(trained.norms)
    norms[model.features] = trained.norms[model.features]
    fitted = Fitted(model, alpha, norms, trained.outcome.history, trained.outcome.stationarity)
    if not settings.refits:
        return fitted
    kept = np.flatnonzero(np.isin(prepared.features, model.features))
    own = replace(task, prepared=prepared.take(kept))
    inner = {int(place): row for row, place in enumerate(trained.active)}
    theta = trained.theta[[inner[int(place)] for place in kept]]
    return replace(_trained_on(own, bank.take(kept), theta, penalty, 0.0, "-refit"), alpha=alpha)


def _fit_chosen(task: Task) -> Fitted:
    """Let the convex problem choose the features, then fit them."""
    choice = choose(task)
    own = replace(task, prepared=task.prepared.take(choice.support))
    settings = task.settings
    if settings.hidden == "auto" and settings.starts_convex:
        fitted = _fit_smooth(own) if settings.refits else _fit_ramps(own, choice)
    else:
        fitted = _fit_architecture(own, choice)
    return replace(fitted, alpha=choice.alpha, certificate=choice.certificate, curve=choice.curve)


def _fit_smooth(own: Task) -> Fitted:
    """Fit ramps with smoothness chosen by the data, then train all parameters from there."""
    kept = own.prepared
    smooth = smooth_fit(kept.x, kept.target, kept.weights, own.family, out_of_time=own.clock.passed)
    trained = polish(smooth, kept.x, kept.target, kept.weights, own.family, own.streams, own.clock)
    model = finish(kept, own.family, trained.bank, trained.theta, _all(kept), trained.intercept)
    history: History = [
        {"epoch": epoch, "loss": value, "penalty": 0.0, "features": kept.features.size}
        for epoch, value in enumerate((trained.objective_before, trained.objective_after))
    ]
    return Fitted(model, 0.0, _sizes(model, kept), history)


def _fit_ramps(own: Task, choice: FeatureChoice) -> Fitted:
    """Train the penalised convex solution on, under the same penalty; it can still drop features."""
    kept = own.prepared
    count = choice.design.width
    ramps = [place_ramps(column, kept.weights, count) for column in kept.x]
    values = choice.design.original(choice.point.theta[0])[choice.support]
    coefficients = [values[place, : unit.size] for place, unit in enumerate(ramps)]
    bank, theta = ramp_bank(ramps, coefficients, kept.target.shape[1])
    return _trained_on(own, bank, theta, as_penalty(own.settings.penalty), choice.alpha, "")


def _fit_architecture(own: Task, choice: FeatureChoice) -> Fitted:
    """Train an architecture of the user's on the chosen features, by default without the penalty."""
    settings, kept = own.settings, own.prepared
    bank = build_bank(settings.architecture, kept.names, kept.target.shape[1], settings.activation)
    theta = initial_parameters(bank, kept.names, own.streams)
    if settings.starts_convex and isinstance(bank, MLPBank) and kept.features.size:
        theta = _with_convex_output(own, bank, theta)
    alpha = 0.0 if settings.refits else choice.alpha
    return _trained_on(own, bank, theta, as_penalty(settings.penalty), alpha, "")


def _with_convex_output(own: Task, bank: MLPBank, theta: Tensor) -> Tensor:
    """Return θ with the best output layers for its frozen hidden layers: the paper's random features."""
    kept = own.prepared
    n_features = kept.features.size
    design = orthonormal_design(
        lambda feature: hidden_columns(bank, theta, kept.x[feature], feature), n_features, kept.weights, roughness=0.0
    )
    solution, _ = refit_on(design, kept.target, own.family, kept.weights, np.arange(n_features))
    values = design.original(solution)
    padded = np.zeros((n_features, bank.tensors(theta)[-1].shape[1], kept.target.shape[1]))
    padded[:, : values.shape[1]] = values
    return with_output(bank, theta, padded)


def _trained_on(
    own: Task, bank: SubnetBank, theta: Tensor, penalty: Penalty, alpha: float, stage: str
) -> Fitted:
    """Train the bank on the sample's features, with the function norm as the penalty's group."""
    kept = own.prepared
    settings = replace(own.settings, penalize="function") if alpha > 0 else own.settings
    fit = NetworkFit(kept, own.family, settings, own.streams, own.clock, bank)
    trained = train_network(fit, theta, penalty, alpha, stage)
    _warn_unless_converged(trained)
    model = finish(kept, own.family, trained.bank, trained.theta, trained.active, trained.intercept)
    return Fitted(model, alpha, _sizes(model, kept), trained.outcome.history, trained.outcome.stationarity)


def _sizes(model: AdditiveModel, prepared: PreparedSample) -> NDArray[np.float64]:
    """Return the root mean square of each input feature's effect on the scale of the fit, 0 where dropped."""
    sizes = np.zeros(model.n_features_in)
    places = {int(feature): place for place, feature in enumerate(prepared.features)}
    x = prepared.x[[places[int(feature)] for feature in model.features]]
    with torch.no_grad():
        raw = model.bank.effects(model.theta, torch.as_tensor(np.ascontiguousarray(x))).numpy()
    centred = raw - model.offsets[:, None]
    squares = np.einsum("jik,i->j", centred**2, prepared.weights) / prepared.weights.sum()
    sizes[model.features] = np.sqrt(squares)
    return sizes


def _all(prepared: PreparedSample) -> NDArray[np.intp]:
    return np.arange(prepared.features.size)


def _warn_unless_converged(trained: TrainedNetwork) -> None:
    if not trained.outcome.converged:
        warnings.warn(
            f"The fit stopped after {len(trained.outcome.history)} iterations with stationarity "
            f"{trained.outcome.stationarity:.2g}, above tol; raise max_epochs or tol.",
            ConvergenceWarning,
            stacklevel=6,
        )
