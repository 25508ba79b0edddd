"""From a sample to a fitted additive model: the one way through the rooms."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from sparsenam.context import Clock, Context, Stage
from sparsenam.convex.design import orthonormal_design
from sparsenam.convex.features import FrozenFeatures, RampFeatures, RandomFeatures
from sparsenam.convex.relaxed import refit_on
from sparsenam.errors import InputError, describe
from sparsenam.estimators.network_fit import NetworkFit, TrainedNetwork, train_network
from sparsenam.estimators.settings import Settings
from sparsenam.estimators.watching import choice_of, counted, tell
from sparsenam.families import Family
from sparsenam.families.base import Settles, exposure_power, uses_robust_scale
from sparsenam.families.numerics import robust_center_and_scale
from sparsenam.fitting.threads import threads_for
from sparsenam.model import AdditiveModel, finish
from sparsenam.model.additive import fill_absent, outputs_of
from sparsenam.model.build import Finished
from sparsenam.networks import MLPBank, SubnetBank, build_bank, initial_parameters
from sparsenam.penalties import GroupLasso, JointGroupLasso, NeedsFirstFit, Penalty, as_penalty, priced
from sparsenam.selection.choose import ConvexTask, CrossValidation, FeatureChoice, choose_features
from sparsenam.selection.folds import Splits, balanced_splits
from sparsenam.selection.substitutes import stand_ins_of, twins_of
from sparsenam.smooth.fit import smooth_fit
from sparsenam.streams import Streams
from sparsenam.tables import PreparedSample, Sample, prepare
from sparsenam.tables.scaling import mean_and_deviation
from sparsenam.training import Deadline
from sparsenam.training.polish import polish, unpolished
from sparsenam.training.run import History

FOLDS = 5
TOUCHING = 0.01  # a feature this near to its condition is on it
CHOOSING = 0.6  # share of max_seconds for the choice of features; the rest is for their fit
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
    stand_ins: dict[str, dict[str, float]] = field(default_factory=dict)


def fit_additive(sample: Sample, family: Family, settings: Settings, splits: Splits | None = None) -> Fitted:
    """Return the model that the settings give for the sample; ``splits`` are of the rows that count."""
    clock = Deadline(settings.max_seconds)
    streams = Streams.from_random_state(settings.random_state)
    prepared = prepared_for(family, sample, standardize=settings.standardize)
    task = Task(prepared, family, settings, streams, clock, splits)
    if isinstance(family, Settles) and family.first_family is not None:
        first = _fit(replace(task, family=family.first_family))
        settled = family.settled(scores_of(prepared, first.model), prepared.target, prepared.weights)
        task = replace(task, family=settled)
    return _fit(task)


def prepared_for(family: Family, sample: Sample, *, standardize: bool = True) -> PreparedSample:
    """Check the target and bring the sample to the scale on which the family is fitted."""
    family.range.check(sample.target, f"the {family.name} family")
    measure = None
    if standardize and family.standardizes_target:
        measure = robust_center_and_scale if uses_robust_scale(family) else mean_and_deviation
    return prepare(sample, standardize=standardize, measure_target=measure, exposure_power=exposure_power(family))


def _fit(task: Task) -> Fitted:
    settings, prepared = task.settings, task.prepared
    if not prepared.features.size:  # every column is constant: nothing to choose
        return _fit_smooth(task)
    if settings.alpha != "auto" and not settings.starts_convex:
        return fit_network(task, float(settings.alpha))
    return _fit_chosen(task)


def choose(task: Task) -> FeatureChoice:
    """Let the convex problem choose features, and alpha where the settings leave it open."""
    settings, prepared = task.settings, task.prepared
    features: RandomFeatures = RampFeatures(prepared, RAMPS)
    if settings.is_linear:
        bank = MLPBank((), prepared.target.shape[1], "relu")
        features = FrozenFeatures(prepared.x, bank, torch.zeros(prepared.features.size, bank.size).double())
    convex = ConvexTask.of(prepared, task.family, features, as_penalty(settings.penalty))
    tell("choose", 0, settings.n_alphas)
    if settings.alpha != "auto":
        alpha = float(settings.alpha)
        return choice_of(convex, lambda: choose_features(convex, alpha))
    if not prepared.grouping.prices.any():  # everything is free: nothing to choose
        return choice_of(convex, lambda: choose_features(convex, 0.0))
    splits = task.splits
    if splits is None:
        n_folds = min(FOLDS, prepared.weights.size)
        splits = balanced_splits(prepared.target, n_folds, task.streams.generator("folds"))
    out_of_time = counted("choose", settings.n_alphas, task.clock.laps(CHOOSING))
    plan = CrossValidation(splits, settings.rule, settings.n_alphas, settings.verbose, out_of_time)
    return choice_of(convex, lambda: choose_features(convex, plan))


def fit_network(task: Task, alpha: float) -> Fitted:
    """Train the paper's model on all features, from random parameters and under the penalty."""
    settings, prepared = task.settings, task.prepared
    require_numbers(prepared)
    bank = build_bank(settings.architecture, prepared.names, prepared.target.shape[1], settings.activation)
    fit = NetworkFit(prepared, task.family, settings, task.streams, task.clock, bank)
    start = initial_parameters(bank, prepared.names, task.streams)
    penalty = _penalty_of(task)
    if isinstance(penalty, NeedsFirstFit):
        first = train_network(fit, start, penalty, penalty.first_alpha(alpha), stage="-first")
        penalty = penalty.adapted_to(first.norms)
    trained = train_network(fit, start, penalty, alpha)
    _warn_unless_converged(trained)
    finished = _finished(fit, trained)
    if not settings.chosen_solver().proximal and alpha > 0:
        finished = finished.keep(finished.mean_absolute > settings.threshold)
    model = finished.model
    norms = np.zeros_like(trained.norms)
    norms[model.features] = trained.norms[model.features]
    fitted = Fitted(model, alpha, norms, trained.outcome.history, trained.outcome.stationarity)
    fitted = replace(fitted, stand_ins=twins_of(prepared, model))
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
    if not task.clock.has_room_for((1.0 - CHOOSING) * task.clock.seconds):
        message = "max_seconds ran out while features were chosen: the choice may be too sparse; allow more."
        warnings.warn(message, ConvergenceWarning, stacklevel=5)
    settings = task.settings
    if settings.hidden == "auto" and settings.starts_convex and not settings.refits:
        own = replace(task, prepared=task.prepared.take(choice.support))
        fitted = fit_ramps(own, choice)
    else:
        fitted = _fit_and_reexamine(task, choice)
    stand_ins = stand_ins_of(choice, fitted.model)
    return replace(fitted, alpha=choice.alpha, choice=choice, stand_ins=stand_ins)


def _fit_and_reexamine(task: Task, choice: FeatureChoice) -> Fitted:
    """Fit the chosen features; wake dropped ones that the residuals would let in, and fit again."""
    support = choice.support
    while True:
        started = task.clock.elapsed()
        fitted = fit_features(task, support, choice.alpha)
        slack = choice.slack_at(scores_of(task.prepared, fitted.model))
        slack[support] = 0.0
        woken = np.flatnonzero(slack > 1.0 + TOUCHING)
        if not woken.size or not task.clock.has_room_for(task.clock.elapsed() - started):
            chosen = [int(place) for place in choice.support]
            late = [int(place) for place in support if int(place) not in chosen]
            return replace(fitted, woken=tuple(task.prepared.names[place] for place in late))
        support = np.sort(np.concatenate([support, woken]))


def scores_of(prepared: PreparedSample, model: AdditiveModel) -> NDArray[np.float64]:
    """Return the model's scores on the training rows and the scale of the fit, shape (rows, outputs)."""
    places = {int(feature): place for place, feature in enumerate(prepared.features)}
    x = prepared.x[[places[int(feature)] for feature in model.features]]
    centred = outputs_of(model.bank, model.theta, x) - model.offsets[:, None]
    fill_absent(centred, x, model.absent)
    base = (model.intercept - prepared.target_scaling.center) / prepared.target_scaling.scale
    base = base - np.log(prepared.exposure_unit)
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
        trained = train_network(fit, start, _penalty_of(own), float(alpha))
        finished = _finished(fit, trained)
        outcome = trained.outcome
        yield Fitted(finished.model, float(alpha), trained.norms, outcome.history, outcome.stationarity)
        theta, own = trained.theta, replace(own, prepared=prepared.take(trained.active))
        if own.clock.passed():
            return


class ToldProgress:
    """Progress that the fit's watcher sees."""

    def report(self, stage: Stage, done: int, total: int | None = None, note: str = "") -> None:
        """Tell the watcher."""
        tell("smooth", done)

    def close(self) -> None:
        """Do nothing."""


def _fit_smooth(own: Task) -> Fitted:
    """Fit ramps with smoothness chosen by the data, then train all parameters from there."""
    kept = own.prepared
    tell("smooth")
    with threads_for(kept.weights.size, kept.features.size):
        smooth = smooth_fit(
            kept.x,
            kept.target,
            kept.weights,
            own.family,
            levels=kept.levels,
            context=Context(own.streams, Clock(own.clock.seconds - own.clock.elapsed()), ToldProgress()),
        )
        tell("polish")
        if kept.is_plain:
            trained = polish(smooth, kept.x, kept.target, kept.weights, own.family, own.streams, own.clock)
        else:  # units that step from level to level, or that miss rows, have no kinks to move
            trained = unpolished(smooth)
    finished = finish(kept, own.family, trained.bank, trained.theta, _all(kept), trained.intercept)
    history: History = [
        {"epoch": epoch, "loss": value, "penalty": 0.0, "features": kept.features.size}
        for epoch, value in enumerate((trained.objective_before, trained.objective_after))
    ]
    return Fitted(finished.model, 0.0, finished.norms(), history)


def fit_ramps(own: Task, choice: FeatureChoice) -> Fitted:
    """Train the penalised convex solution on, under the same penalty; it can still drop features."""
    require_numbers(own.prepared)
    groups = choice.point.supports[0]
    coefficients = choice.task.design.original(choice.point.theta[0])[groups]
    bank, theta, _ = choice.task.features.network(groups, coefficients)
    return _trained_on(own, bank, theta, _penalty_of(own), choice.alpha, "")


def _fit_architecture(own: Task, alpha: float) -> Fitted:
    """Train an architecture of the user's on the sample's features."""
    settings, kept = own.settings, own.prepared
    require_numbers(kept)
    bank = build_bank(settings.architecture, kept.names, kept.target.shape[1], settings.activation)
    theta, intercept = initial_parameters(bank, kept.names, own.streams), None
    if settings.starts_convex and isinstance(bank, MLPBank) and kept.features.size:
        theta, intercept = _with_convex_output(own, bank, theta)
    return _trained_on(own, bank, theta, _penalty_of(own), alpha, "", intercept)


def _with_convex_output(own: Task, bank: MLPBank, theta: Tensor) -> tuple[Tensor, NDArray[np.float64]]:
    """Return θ and the intercept with the best output layers for frozen hidden layers: random features."""
    kept = own.prepared
    features = FrozenFeatures(kept.x, bank, theta)
    design = orthonormal_design(features.columns, kept.features.size, kept.weights, roughness=0.0)
    solution, intercept = refit_on(design, kept.target, own.family, kept.weights, _all(kept))
    coefficients = design.original(solution)
    means = np.einsum("jm,jmk->k", design.means, coefficients)
    return features.network(_all(kept), coefficients)[1], intercept - means


def _finished(fit: NetworkFit, trained: TrainedNetwork) -> Finished:
    return finish(
        fit.prepared, fit.family, trained.bank, trained.theta, trained.active, trained.intercept, filled=True
    )


def _penalty_of(task: Task) -> Penalty:
    """Return the penalty on the norms of all input features, groups and prices included."""
    penalty, prepared = as_penalty(task.settings.penalty), task.prepared
    grouping = prepared.grouping
    if grouping.is_trivial:
        if np.all(grouping.prices == 1.0):
            return penalty
        prices = np.ones(prepared.n_features_in)
        prices[prepared.features] = grouping.prices
        return priced(penalty, prices)
    if not (isinstance(penalty, GroupLasso) and np.ndim(penalty.weights) == 0):
        raise InputError(
            describe("feature_groups", "the penalty 'group_lasso'", repr(penalty), "choose that penalty")
        )
    members = tuple(prepared.features[own] for own in grouping.members)
    return JointGroupLasso(members, float(penalty.weights) * grouping.prices)


def require_numbers(prepared: PreparedSample) -> None:
    """Raise for a category: an architecture reads numbers, and codes of levels are none."""
    if prepared.levels.any():
        name = prepared.names[int(np.flatnonzero(prepared.levels)[0])]
        expected = "numbers or two-level categories for a network with hidden layers of your own"
        remedy = "leave hidden='auto', or give the category as 0/1 columns"
        raise InputError(describe(f"column {name!r}", expected, "a category", remedy))


def _trained_on(
    own: Task,
    bank: SubnetBank,
    theta: Tensor,
    penalty: Penalty,
    alpha: float,
    stage: str,
    intercept: NDArray[np.float64] | None = None,
) -> Fitted:
    """Train the bank on the sample's features, with the function norm as the penalty's group."""
    kept = own.prepared
    settings = replace(own.settings, penalize="function") if alpha > 0 else own.settings
    fit = NetworkFit(kept, own.family, settings, own.streams, own.clock, bank)
    trained = train_network(fit, theta, penalty, alpha, stage, intercept)
    _warn_unless_converged(trained)
    finished = _finished(fit, trained)
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
