"""From a sample to a fitted additive model: the one way through the rooms."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from sparsenam.convex.design import orthonormal_design
from sparsenam.convex.random_features import FrozenFeatures, RampFeatures, RandomFeatures
from sparsenam.convex.relaxed import refit_on
from sparsenam.convex.smoothing import smooth_fit
from sparsenam.estimators.network_fit import NetworkFit, TrainedNetwork, train_network
from sparsenam.estimators.settings import Settings
from sparsenam.estimators.threads import threads_for
from sparsenam.families import Family
from sparsenam.model import AdditiveModel, finish
from sparsenam.model.additive import outputs_of
from sparsenam.networks import MLPBank, SubnetBank, build_bank, initial_parameters
from sparsenam.penalties import NeedsFirstFit, Penalty, as_penalty
from sparsenam.selection.features import ConvexTask, CrossValidation, FeatureChoice, choose_features
from sparsenam.selection.folds import Splits, balanced_splits
from sparsenam.streams import Streams
from sparsenam.tables import PreparedSample, Sample, prepare
from sparsenam.training import Deadline
from sparsenam.training.fit import History
from sparsenam.training.polish import polish

FOLDS = 5
TOUCHING = 0.01  # a feature this near to its condition is on it
RAMPS = 16  # a feature for choosing; the fit that follows takes as many as it needs


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

    ``norms`` are the group norms of all input features. ``choice`` is there when the convex problem chose them,
    and ``woken`` names features that it had dropped but the final residuals let in.
    """

    model: AdditiveModel
    alpha: float
    norms: NDArray[np.float64]
    history: History
    stationarity: float | None = None
    choice: FeatureChoice | None = None
    woken: tuple[str, ...] = ()


def fit_additive(sample: Sample, family: Family, settings: Settings, splits: Splits | None = None) -> Fitted:
    """Return the model that the settings give for the sample; ``splits`` are of the rows that count."""
    clock = Deadline(settings.max_seconds)
    streams = Streams.from_random_state(settings.random_state)
    family.range.check(sample.target, f"the {family.name} family")
    scaled = settings.standardize and family.standardizes_target
    prepared = prepare(sample, standardize=settings.standardize, standardize_target=scaled)
    task = Task(prepared, family, settings, streams, clock, splits)
    if not prepared.features.size:  # every column is constant: nothing to choose
        return _fit_smooth(task)
    if settings.alpha != "auto" and not settings.starts_convex:
        return _fit_network(task, float(settings.alpha))
    return _fit_chosen(task)


def choose(task: Task) -> FeatureChoice:
    """Let the convex problem choose features, and alpha where the settings leave it open."""
    settings, prepared = task.settings, task.prepared
    features: RandomFeatures = RampFeatures(prepared, RAMPS)
    if settings.is_linear:
        bank = MLPBank((), prepared.target.shape[1], "relu")
        features = FrozenFeatures(prepared.x, bank, torch.zeros(prepared.features.size, bank.size).double())
    convex = ConvexTask.of(prepared, task.family, features, as_penalty(settings.penalty))
    if settings.alpha != "auto":
        return choose_features(convex, float(settings.alpha))
    splits = task.splits
    if splits is None:
        n_folds = min(FOLDS, prepared.weights.size)
        splits = balanced_splits(prepared.target, n_folds, task.streams.generator("folds"))
    plan = CrossValidation(splits, settings.rule, settings.n_alphas, settings.verbose, task.clock.passed)
    return choose_features(convex, plan)


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
    finished = finish(prepared, task.family, trained.bank, trained.theta, trained.active, trained.intercept)
    if not settings.chosen_solver().proximal and alpha > 0:
        finished = finished.keep(finished.mean_absolute > settings.threshold)
    model = finished.model
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
    with threads_for(task.prepared.weights.size, task.prepared.features.size):
        choice = choose(task)
    if task.clock.passed():
        message = "max_seconds ran out while features were chosen: the choice may be too sparse; allow more."
        warnings.warn(message, ConvergenceWarning, stacklevel=5)
    settings = task.settings
    if settings.hidden == "auto" and settings.starts_convex and not settings.refits:
        own = replace(task, prepared=task.prepared.take(choice.support))
        fitted = _fit_ramps(own, choice)
    else:
        fitted = _fit_and_reexamine(task, choice)
    return replace(fitted, alpha=choice.alpha, choice=choice)


def _fit_and_reexamine(task: Task, choice: FeatureChoice) -> Fitted:
    """Fit the chosen features; wake dropped ones that the residuals would let in, and fit again."""
    support = choice.support
    while True:
        fitted = fit_features(task, support, choice.alpha)
        slack = choice.slack_at(_scores(task.prepared, fitted.model))
        slack[support] = 0.0
        woken = np.flatnonzero(slack > 1.0 + TOUCHING)
        if not woken.size or task.clock.passed():
            chosen = [int(place) for place in choice.support]
            late = [int(place) for place in support if int(place) not in chosen]
            return replace(fitted, woken=tuple(task.prepared.names[place] for place in late))
        support = np.sort(np.concatenate([support, woken]))


def _scores(prepared: PreparedSample, model: AdditiveModel) -> NDArray[np.float64]:
    """Return the model's scores on the training rows and the scale of the fit, shape (rows, outputs)."""
    places = {int(feature): place for place, feature in enumerate(prepared.features)}
    x = prepared.x[[places[int(feature)] for feature in model.features]]
    centred = outputs_of(model.bank, model.theta, x) - model.offsets[:, None]
    base = (model.intercept - prepared.target_scaling.center) / prepared.target_scaling.scale
    return centred.sum(axis=0) + base


def fit_features(task: Task, support: NDArray[np.intp], alpha: float) -> Fitted:
    """Fit these places of the prepared sample; ``alpha`` serves where the settings keep the penalty."""
    own = replace(task, prepared=task.prepared.take(support))
    settings = task.settings
    if settings.hidden == "auto" and settings.starts_convex:
        return _fit_smooth(own)
    return _fit_architecture(own, 0.0 if settings.refits else alpha)


def fit_network_path(task: Task, alphas: NDArray[np.float64]) -> Iterator[Fitted]:
    """Yield penalised networks for rising alphas, each started from the one before it."""
    own, theta = task, None
    for alpha in alphas:
        settings, prepared = own.settings, own.prepared
        bank = build_bank(settings.architecture, prepared.names, prepared.target.shape[1], settings.activation)
        start = initial_parameters(bank, prepared.names, own.streams) if theta is None else theta
        fit = NetworkFit(prepared, own.family, settings, own.streams, own.clock, bank)
        trained = train_network(fit, start, as_penalty(settings.penalty), float(alpha))
        finished = finish(prepared, own.family, trained.bank, trained.theta, trained.active, trained.intercept)
        outcome = trained.outcome
        yield Fitted(finished.model, float(alpha), trained.norms, outcome.history, outcome.stationarity)
        theta, own = trained.theta, replace(own, prepared=prepared.take(trained.active))
        if own.clock.passed():
            return


def _fit_smooth(own: Task) -> Fitted:
    """Fit ramps with smoothness chosen by the data, then train all parameters from there."""
    kept = own.prepared
    with threads_for(kept.weights.size, kept.features.size):
        smooth = smooth_fit(kept.x, kept.target, kept.weights, own.family, out_of_time=own.clock.passed)
        trained = polish(smooth, kept.x, kept.target, kept.weights, own.family, own.streams, own.clock)
    finished = finish(kept, own.family, trained.bank, trained.theta, _all(kept), trained.intercept)
    history: History = [
        {"epoch": epoch, "loss": value, "penalty": 0.0, "features": kept.features.size}
        for epoch, value in enumerate((trained.objective_before, trained.objective_after))
    ]
    return Fitted(finished.model, 0.0, finished.norms(), history)


def _fit_ramps(own: Task, choice: FeatureChoice) -> Fitted:
    """Train the penalised convex solution on, under the same penalty; it can still drop features."""
    coefficients = choice.task.design.original(choice.point.theta[0])[choice.support]
    bank, theta = choice.task.features.network(choice.support, coefficients)
    return _trained_on(own, bank, theta, as_penalty(own.settings.penalty), choice.alpha, "")


def _fit_architecture(own: Task, alpha: float) -> Fitted:
    """Train an architecture of the user's on the sample's features."""
    settings, kept = own.settings, own.prepared
    bank = build_bank(settings.architecture, kept.names, kept.target.shape[1], settings.activation)
    theta = initial_parameters(bank, kept.names, own.streams)
    if settings.starts_convex and isinstance(bank, MLPBank) and kept.features.size:
        theta = _with_convex_output(own, bank, theta)
    return _trained_on(own, bank, theta, as_penalty(settings.penalty), alpha, "")


def _with_convex_output(own: Task, bank: MLPBank, theta: Tensor) -> Tensor:
    """Return θ with the best output layers for its frozen hidden layers: the paper's random features."""
    kept = own.prepared
    features = FrozenFeatures(kept.x, bank, theta)
    design = orthonormal_design(features.columns, kept.features.size, kept.weights, roughness=0.0)
    solution, _ = refit_on(design, kept.target, own.family, kept.weights, _all(kept))
    return features.network(_all(kept), design.original(solution))[1]


def _trained_on(own: Task, bank: SubnetBank, theta: Tensor, penalty: Penalty, alpha: float, stage: str) -> Fitted:
    """Train the bank on the sample's features, with the function norm as the penalty's group."""
    kept = own.prepared
    settings = replace(own.settings, penalize="function") if alpha > 0 else own.settings
    fit = NetworkFit(kept, own.family, settings, own.streams, own.clock, bank)
    trained = train_network(fit, theta, penalty, alpha, stage)
    _warn_unless_converged(trained)
    finished = finish(kept, own.family, trained.bank, trained.theta, trained.active, trained.intercept)
    outcome = trained.outcome
    return Fitted(finished.model, alpha, finished.norms(), outcome.history, outcome.stationarity)


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
