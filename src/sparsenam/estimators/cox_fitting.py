"""From censored times to a fitted additive model with proportional hazards.

The convex problem chooses features as for every family, with the partial likelihood as its loss; the kept features
are then fitted. Both are Poisson fits that take turns with the baseline hazard (`alternation`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sparsenam.convex.features import FrozenFeatures, RampFeatures, RandomFeatures
from sparsenam.errors import InputError, describe
from sparsenam.estimators.cox_validation import choose_by_partial_likelihood
from sparsenam.estimators.fitting import (
    FOLDS,
    RAMPS,
    TOUCHING,
    Fitted,
    Task,
    fit_features,
    fit_network,
    fit_ramps,
)
from sparsenam.estimators.settings import Settings
from sparsenam.families import Poisson
from sparsenam.fitting.threads import threads_for
from sparsenam.model import AdditiveModel
from sparsenam.networks import MLPBank
from sparsenam.penalties import as_penalty
from sparsenam.selection.choose import ConvexTask, CrossValidation, FeatureChoice, choose_features
from sparsenam.selection.folds import Splits, balanced_splits
from sparsenam.selection.substitutes import stand_ins_of
from sparsenam.streams import Streams
from sparsenam.survival.alternation import CoxLikelihood, Settled, settle
from sparsenam.survival.cox import Baseline, RiskSets, Ties
from sparsenam.tables import Sample, prepare
from sparsenam.training import Deadline

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Places = NDArray[np.intp]

CHOICES = 4  # of features, each with the hazard that the last one gave; simulated data need 2 or 3
LOWER = 0.95  # step in the search for an alpha
# duality gap of a penalised solution; in double precision so small that the turns end in a fixed point
GAP, GAP_IN_SINGLE = 1e-6, 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class CoxFitted:
    """A fit with effects centred over the rows, the hazard of a row of score 0, and the log partial likelihood."""

    fitted: Fitted
    baseline: Baseline
    log_likelihood: float


@dataclass(frozen=True, slots=True, eq=False)
class CoxTask:
    """What every step of one fit needs: the rows that count as columns (rows, features_in) and as a likelihood."""

    base: Task
    columns: Matrix
    likelihood: CoxLikelihood

    def at(self, scores: Vector) -> Task:
        """Return the Poisson task at the hazard of these scores, shape (rows,)."""
        settings = self.base.settings
        # what chooses smoothness counts events; what trains a network takes weights of mean 1, as alpha is set for
        smooth = settings.hidden == "auto" and settings.starts_convex and settings.refits
        total = self.likelihood.risk_sets.n_events if smooth else float(self.likelihood.risk_sets.event.size)
        return replace(self.base, prepared=self.likelihood.poisson(self.base.prepared, scores, total))

    def no_scores(self) -> Vector:
        """Return zeros, shape (rows,): their hazard is that of Nelson and Aalen."""
        return np.zeros(self.likelihood.risk_sets.event.size)

    def settle_model(self, start: Vector, fit: Callable[[Task], Fitted]) -> Settled[Fitted]:
        """Take turns between the hazard and a model, from some scores (rows,)."""

        def turn(scores: Vector) -> tuple[Fitted, Vector]:
            fitted = fit(self.at(scores))
            return fitted, fitted.model.scores(self.columns)[:, 0]

        exact = self.base.settings.is_linear and self.base.settings.chosen_solver().searches_step
        return settle(self.likelihood, turn, start, exact=exact, out_of_time=self.base.clock.passed)

    def settle_choice(self, start: Vector, convex: ConvexTask, alpha: float) -> Settled[FeatureChoice]:
        """Take turns between the hazard and the penalised solution at an alpha, from some scores (rows,)."""
        exact = convex.design.blocks.dtype == np.float64

        def turn(scores: Vector) -> tuple[FeatureChoice, Vector]:
            own = replace(convex, prepared=self.at(scores).prepared)
            choice = choose_features(own, alpha, GAP if exact else GAP_IN_SINGLE)
            return choice, choice.point.scores(choice.task.design)[:, 0]

        return settle(self.likelihood, turn, start, exact=exact, out_of_time=self.base.clock.passed)


def fit_cox(sample: Sample, settings: Settings, ties: Ties) -> CoxFitted:
    """Return the model that the settings give; the target's columns are event, 0 or 1, and time."""
    task = _read(sample, settings, ties)
    prepared = task.base.prepared
    if not prepared.terms.size:  # every column is constant: nothing to choose
        nothing = np.zeros(0, dtype=np.intp)
        plain = replace(task, base=replace(task.base, settings=Settings()))
        return _finished(task, plain.settle_model(task.no_scores(), lambda own: fit_features(own, nothing, 0.0)))
    if settings.alpha != "auto" and not settings.starts_convex:
        alpha = float(settings.alpha)
        return _finished(task, task.settle_model(task.no_scores(), lambda own: fit_network(own, alpha)))
    with threads_for(prepared.weights.size, prepared.terms.size):
        choice, start = _choose(task)
    if task.base.clock.passed():
        message = "max_seconds ran out while features were chosen: the choice may be too sparse; allow more."
        warnings.warn(message, ConvergenceWarning, stacklevel=5)
    return _finished(task, _fit_and_reexamine(task, choice, start))


def _read(sample: Sample, settings: Settings, ties: Ties) -> CoxTask:
    """Keep the rows that were at risk at some event: the others are in no term of the partial likelihood."""
    event, time = (sample.target[:, 0] == 1.0) & (sample.weights > 0), sample.target[:, 1]
    if not event.any():
        raise InputError(describe("y", "at least one event", "none", "give rows that are not censored"))
    counts = (sample.weights > 0) & (time >= time[event].min())
    if np.count_nonzero(counts) < 2:
        expected = "two rows or more at risk at the first event"
        raise InputError(describe("y", expected, "one, all others censored before", "give more events"))
    own = replace(sample, target=sample.target[:, :1], weights=np.where(counts, sample.weights, 0.0))
    prepared = prepare(own, standardize=settings.standardize)
    risk_sets = RiskSets.of(event[counts], time[counts], prepared.weights)
    # martingale residuals of the model without features stand for y where no hazard is known yet
    hazard = risk_sets.hazard(np.zeros(risk_sets.event.size), ties).rows
    prepared = replace(prepared, target=(risk_sets.event - hazard)[:, None])
    streams, clock = Streams.from_random_state(settings.random_state), Deadline(settings.max_seconds)
    base = Task(prepared, Poisson(), settings, streams, clock)
    return CoxTask(base, sample.terms[counts], CoxLikelihood(risk_sets, ties))


def _choose(task: CoxTask) -> tuple[FeatureChoice, Vector]:
    """Choose features by cross-validation where alpha is open, and solve the penalised partial likelihood.

    Norms are over the rows: no hazard enters the penalty. Scores (rows,) from which to go on come second.
    """
    settings, convex = task.base.settings, _convex_task(task.base)
    if settings.alpha != "auto":
        settled = task.settle_choice(task.no_scores(), convex, float(settings.alpha))
        return settled.result, settled.scores
    first, last, scores = _cross_validate(task, convex)
    choice = _keeping(task, convex, first, last.point.supports[0])
    return replace(choice, curve=last.curve, points=last.points), scores


def _cross_validate(task: CoxTask, convex: ConvexTask) -> tuple[FeatureChoice, FeatureChoice, Vector]:
    """Return the first and the last choice by cross-validation, and the last fit's scores (rows,).

    The hazard without features makes strong effects look weak, so the features are chosen again with the hazard of
    the fit on those chosen before, until a choice repeats. That fit is smooth, or linear as the model.
    """
    settings, out_of_time = task.base.settings, task.base.clock.passed
    plan = CrossValidation(_splits(task), settings.rule, settings.n_alphas, settings.verbose, out_of_time)
    scores, choices, quick = task.no_scores(), list[FeatureChoice](), task
    if not settings.is_linear:
        quick = replace(
            task, base=replace(task.base, settings=replace(settings, hidden="auto", init="convex", refit=True))
        )
    for _ in range(CHOICES):
        own = replace(convex, prepared=task.at(scores).prepared)
        choice = choose_by_partial_likelihood(own, plan, task.likelihood.risk_sets)
        repeats = any(np.array_equal(choice.support, before.support) for before in choices)
        choices.append(choice)
        if repeats or out_of_time():
            break
        kept = choice.support
        scores = quick.settle_model(scores, lambda own, kept=kept: fit_features(own, kept, 0.0)).scores
    return choices[0], choices[-1], scores


def _keeping(task: CoxTask, convex: ConvexTask, first: FeatureChoice, kept: Places) -> FeatureChoice:
    """Return the penalised solution at the largest alpha found whose groups of features include those to keep.

    An alpha found with a hazard held fixed means something else where the hazard follows the solution. The path
    without a hazard of its own (that of ``first``) is near: the search starts where it has the groups.
    """
    enough = [point.alpha for point in first.points if np.isin(kept, point.supports[0]).all()]
    alpha, scores = max(enough, default=first.alpha), task.no_scores()
    while True:
        settled = task.settle_choice(scores, convex, alpha)
        if np.isin(kept, settled.result.point.supports[0]).all() or task.base.clock.passed():
            return settled.result
        alpha, scores = LOWER * alpha, settled.scores


def _convex_task(task: Task) -> ConvexTask:
    prepared, settings = task.prepared, task.settings
    features: RandomFeatures = RampFeatures(prepared, RAMPS)
    if settings.is_linear:
        bank = MLPBank((), 1, "relu")
        features = FrozenFeatures(prepared.x, bank, torch.zeros(prepared.terms.size, bank.size).double())
    return ConvexTask.of(prepared, task.family, features, as_penalty(settings.penalty))


def _splits(task: CoxTask) -> Splits:
    """Return folds with early and late events in each."""
    rates = task.at(task.no_scores()).prepared.target
    return balanced_splits(rates, min(FOLDS, len(rates)), task.base.streams.generator("folds"))


def _fit_and_reexamine(task: CoxTask, choice: FeatureChoice, scores: Vector) -> Settled[Fitted]:
    """Fit the chosen features, from some scores; wake dropped ones that the residuals let in, and fit again."""
    settings, support = task.base.settings, choice.support
    keeps_penalty = settings.hidden == "auto" and settings.starts_convex and not settings.refits

    def fit(own: Task) -> Fitted:
        if keeps_penalty:
            return fit_ramps(replace(own, prepared=own.prepared.take(support)), choice)
        return fit_features(own, support, choice.alpha)

    while True:
        settled = task.settle_model(scores, fit)
        fitted, scores = settled.result, settled.scores
        convex = replace(choice.task, prepared=task.at(scores).prepared)
        slack = replace(choice, task=convex).slack_at(fitted.model.scores(task.columns))
        slack[support] = 0.0
        woken = np.flatnonzero(slack > 1.0 + TOUCHING)
        if keeps_penalty or not woken.size or task.base.clock.passed():
            late = [task.base.prepared.names[int(place)] for place in np.setdiff1d(support, choice.support)]
            stand_ins = stand_ins_of(choice, fitted.model)
            done = replace(fitted, alpha=choice.alpha, choice=choice, woken=tuple(late), stand_ins=stand_ins)
            return replace(settled, result=done)
        support = np.sort(np.concatenate([support, woken]))


def _finished(task: CoxTask, settled: Settled[Fitted]) -> CoxFitted:
    """Centre effects and scores over the rows; what they lose, the baseline hazard takes."""
    risk_sets, ties = task.likelihood.risk_sets, task.likelihood.ties
    model = _centred(settled.result.model, task.columns, risk_sets.weights)
    hazard = risk_sets.hazard(model.scores(task.columns)[:, 0], ties)
    baseline = Baseline(risk_sets.event_times, np.cumsum(hazard.jumps))
    return CoxFitted(replace(settled.result, model=model), baseline, hazard.log_likelihood)


def _centred(model: AdditiveModel, columns: Matrix, weights: Vector) -> AdditiveModel:
    """Return the model with effects of mean 0 over the rows where they are, and scores of mean 0 over all rows."""
    effects = model.kept_effects(columns)
    there = weights[:, None] * ~np.isnan(columns[:, model.terms])
    means = np.einsum("ij,ijk->jk", there / there.sum(axis=0), effects)
    shift = means / model.target_scale
    absent = model.absent - shift if model.absent.any() else model.absent  # 0 says that absent cells add nothing
    own = replace(model, offsets=model.offsets + shift, absent=absent)
    total = np.average(own.scores(columns), axis=0, weights=weights)
    return replace(own, intercept=own.intercept - total)
