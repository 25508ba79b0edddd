"""Censored times as a problem of the pipeline: every choice and every fit alternates with the baseline hazard.

The convex problem chooses as for every family, with the partial likelihood as its loss; the kept terms are then
fitted. Both are Poisson fits that alternate with the baseline hazard, until the scores no longer move.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsenam.context import Context
from sparsenam.errors import InputError, describe
from sparsenam.families import Poisson, best_intercept
from sparsenam.fit.problem import FamilyProblem, Fitted, Fitter, Indices, Strategy, Vector
from sparsenam.model import AdditiveModel
from sparsenam.model.additive import lowered
from sparsenam.selection.choose import Choice, CrossValidation, HeldOutLoss, ValidatedPath, choose_at, cross_validate
from sparsenam.selection.curve import Splits, held_out_counts
from sparsenam.selection.task import ConvexTask
from sparsenam.survival import Baseline, RiskSets, Ties
from sparsenam.tables.encoder import TableEncoder
from sparsenam.tables.sample import Sample, prepare

Result = TypeVar("Result")

ITERATIONS = 30  # plain ones shrink the error by 2 to 25 on simulated data, mixed ones by more: 4 to 12 are enough
MEMORY = 4  # iterations that Anderson's mixing looks back
# changes of a score, and relative ones of the log-likelihood, at which exact fits and others have converged
EXACT_MOVE, EXACT_CHANGE = 1e-6, 1e-10
SMALL_MOVE, SMALL_CHANGE = 1e-2, 1e-6
# A fit that chooses its smoothness anew each time, or trains a network, may never come to rest: on simulated data the
# worst row moves by 0.005, but by 0.4 (root mean square 0.1) where two choices of smoothness alternate. It ends when
# so many iterations in a row came no nearer, with the one that moved least, and with a warning where even that one
# moved by more than `ROUGH` in the root mean square. Nor does an exact fit where few columns separate the events and
# the penalty hardly holds the scores: it ends when its iterations come nearer by less than a tenth, and gets more
# patience, since mixing may move back before it comes nearer.
REFIT_PATIENCE, EXACT_REFIT_PATIENCE, NEARER, ROUGH = 3, 5, 0.9, 0.1
CHOICES = 4  # each with the hazard that the fit on the last one gave; simulated data need 2 or 3
# duality gap of a penalised solution; in double precision so small that the alternation converges to many digits
COX_GAP, COX_GAP_IN_SINGLE = 1e-6, 1e-4


def alternate(
    likelihood: Callable[[Vector], float],
    fit: Callable[[Vector, int], tuple[Result, Vector]],
    start: Vector,
    *,
    exact: bool,
    out_of_time: Callable[[], bool],
) -> tuple[Result, Vector]:
    """Repeat ``fit`` until its scores are those that it was given; return the last fit and its scores (rows,).

    ``likelihood`` is the partial log-likelihood of scores (rows,). ``fit`` takes scores (rows,) and the number of the
    iteration, and fits Poisson rates to the hazard that the scores give. ``exact`` says whether each fit solves its
    problem exactly, so that the alternation can converge to many digits.
    """
    small, same = (EXACT_MOVE, EXACT_CHANGE) if exact else (SMALL_MOVE, SMALL_CHANGE)
    given, value, iteration = start - start.mean(), -np.inf, 0
    moves, images = list[Vector](), list[Vector]()
    least, best, since = np.inf, None, 0
    while True:
        iteration += 1
        result, scores = fit(given, iteration)
        scores = scores - scores.mean()
        last, value = value, likelihood(scores)
        move: Vector = scores - given
        if np.abs(move).max() <= small or abs(value - last) <= same * abs(value) or out_of_time():
            return result, scores
        size = float(np.sqrt(np.mean(move**2)))
        since = 0 if size < (NEARER if exact else 1.0) * least else since + 1
        if best is None or size < least:
            least, best = size, (result, scores)
        if iteration == ITERATIONS or since == (EXACT_REFIT_PATIENCE if exact else REFIT_PATIENCE):
            if exact or least > ROUGH:
                message = (
                    f"Scores and baseline hazard did not converge in {iteration} iterations: the last ones still moved "
                    f"the scores by {least:.2g} (root mean square); try fewer columns or another random_state."
                )
                warnings.warn(message, ConvergenceWarning, stacklevel=2)
            return best
        moves.append(move)
        images.append(scores)
        given = mixed(moves, images)


def mixed(moves: list[Vector], images: list[Vector]) -> Vector:
    """Return Anderson's mixing: the point where the last iterations, extrapolated linearly, would not move.

    ``images`` are the points reached, ``moves`` how far each is from where its iteration began. One that moved more
    than the one before it shows that the extrapolation went too far: then those before are forgotten.
    """
    too_far = len(moves) > 1 and np.linalg.norm(moves[-1]) > np.linalg.norm(moves[-2])
    first = -1 if too_far else -MEMORY
    del moves[:first], images[:first]
    if len(moves) == 1:
        return images[-1]
    changes = np.diff(moves, axis=0).T
    shares = np.asarray(np.linalg.lstsq(changes, moves[-1], rcond=None)[0], dtype=np.float64)
    return images[-1] - shares @ np.diff(images, axis=0)


@dataclass(frozen=True, eq=False)
class PartialLikelihoodLoss(HeldOutLoss):
    """Held-out loss by the partial likelihood of the rows of each fold among themselves.

    It depends on no hazard, and grows like the score where the Poisson loss of a held-out row grows like e^score. The
    loss of an event in fold F is log(Σ wⱼ e^{sⱼ}/Σ wⱼ) - sᵢ - log Λᵢ, summed over the rows j of F at risk, with Λ the
    hazard of the empty model: for equal scores it is the Poisson deviance. Rows without the event have 0.
    """

    parts: tuple[RiskSets, ...]
    base: Vector

    @classmethod
    def of(cls, risk_sets: RiskSets, splits: Splits) -> PartialLikelihoodLoss:
        """Return the loss for the test rows of some splits; what Poisson rates know of the rows are the events."""
        hazard = risk_sets.hazard(np.zeros(risk_sets.event.size), "breslow").rows
        base = np.zeros(hazard.size)
        base[risk_sets.event] = -np.log(hazard[risk_sets.event])
        counts = held_out_counts(splits, hazard.size)
        weights = risk_sets.weights * risk_sets.event * (counts > 0)
        parts = tuple(risk_sets.take(test) for _, test in splits)
        return cls(weights, counts, risk_sets.n_events, parts, base)

    def of_fold(self, fold: int, rows: Indices, scores: Vector) -> Vector:
        part = self.parts[fold]
        return part.event_losses(scores[:, 0]) - part.event_losses(np.zeros(rows.size)) + self.base[rows]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CoxProblem(FamilyProblem):
    """A sample of censored times, of which each choice and each fit is a sequence of Poisson problems.

    It holds the rows that were at risk at some event; ``terms`` (rows, n_terms) are their terms as encoded. The target
    of the prepared sample are martingale residuals, which stand for y where no hazard is known yet.
    """

    solves_in_batches: ClassVar[bool] = False  # each part of the rows has a hazard of its rows alone
    terms: Vector
    risk_sets: RiskSets
    ties: Ties

    @property
    def fold_target(self) -> Vector:
        """The rates of the empty model: folds have early and late events in each."""
        return self._at(self._no_scores(), self.prepared.weights.size).prepared.target

    def choose(self, task: ConvexTask, how: float | CrossValidation, strategy: Strategy, context: Context) -> Choice:
        """Choose terms by cross-validation where alpha is open, and solve the penalised partial likelihood.

        Norms are over the rows: no hazard enters the penalty. The hazard of the empty model makes strong effects look
        weak, so terms are chosen again with the hazard of the quick fit on those chosen before, until a choice repeats.
        Alpha is the largest on the first path, whose hazard is that of the empty model, that keeps all that was chosen.
        """
        if not isinstance(how, CrossValidation):
            choice, scores = self._solve(task, how, context)
            return replace(choice, start=scores)
        loss = PartialLikelihoodLoss.of(self.risk_sets, how.splits)
        scores, validated = self._no_scores(), list[ValidatedPath]()
        for number in range(CHOICES):
            sample = self._at(scores, self.prepared.weights.size).prepared
            validated.append(cross_validate(task.with_sample(sample), how, lambda given: loss, None, context))
            supports = [path.kept for path in validated]
            repeats = any(np.array_equal(supports[-1], before) for before in supports[:-1])
            if repeats or context.clock.passed():
                break
            part = context.within(f"choice{number}")
            _, scores = self._fit(strategy.quick, task.terms(supports[-1]), scores, part)
        first, kept = validated[0], validated[-1].kept
        enough = [point.alpha for point in first.points if np.isin(kept, point.supports[0]).all()]
        choice, _ = self._solve(task, max(enough, default=first.point.alpha), context)
        return replace(choice, support=task.terms(kept), validated=validated[-1], start=scores)

    def fit(self, fitter: Fitter, indices: Indices, start: Vector | None, context: Context) -> Fitted:
        """Fit some terms in alternation with the hazard, from some scores."""
        return self._fit(fitter, indices, self._no_scores() if start is None else start, context)[0]

    def scores(self, model: AdditiveModel) -> Vector:
        return model.scores(self.terms)

    def at(self, scores: Vector) -> tuple[FamilyProblem, Vector]:
        """Return the Poisson problem at the hazard of scores (rows, 1), and the scores as rates read them."""
        effects = scores - scores.mean()
        problem = self._at(effects[:, 0], self.risk_sets.n_events)
        target, weights = problem.prepared.target, problem.prepared.weights
        return problem, effects + best_intercept(problem.family, effects, target, weights, np.zeros(1))

    def judged_by(self, task: ConvexTask, splits: Splits, scores: Vector) -> tuple[ConvexTask, HeldOutLoss]:
        """Return the Poisson problem at the hazard of scores (rows, 1), and the partial likelihood as its loss."""
        sample = self._at(scores[:, 0] - scores[:, 0].mean(), self.prepared.weights.size).prepared
        return task.with_sample(sample), PartialLikelihoodLoss.of(self.risk_sets, splits)

    def finish(self, fitted: Fitted) -> Fitted:
        """Return the fit with effects and scores of mean 0 over the rows; the baseline hazard takes what they lose."""
        return replace(fitted, model=_centred(fitted.model, self.terms, self.risk_sets.weights))

    def baseline(self, model: AdditiveModel) -> tuple[Baseline, float]:
        """Return the hazard of a row of score 0 under a model, and the log partial likelihood of the rows."""
        hazard = self.risk_sets.hazard(self.scores(model)[:, 0], self.ties)
        return Baseline(self.risk_sets.event_times, np.cumsum(hazard.jumps)), hazard.log_likelihood

    def _at(self, scores: Vector, total: float) -> FamilyProblem:
        """Return the Poisson problem of rates δᵢ/Λᵢ with weights wᵢΛᵢ for Λ = Λ(scores), scores of shape (rows,).

        Λ is in a unit in which the mean rate is 1; the weights add up to ``total``.
        """
        risk_sets = self.risk_sets
        hazard = risk_sets.hazard(scores, self.ties).rows
        exposure = hazard * (risk_sets.n_events / float(risk_sets.weights @ hazard))
        weights = risk_sets.weights * exposure * (total / risk_sets.n_events)
        prepared = replace(self.prepared, target=(risk_sets.event / exposure)[:, None], weights=weights)
        return FamilyProblem(prepared, self.family, self.column_of, self.column_names, self.counted)

    def _no_scores(self) -> Vector:
        """Return zeros, shape (rows,): their hazard is that of Nelson and Aalen."""
        return np.zeros(self.risk_sets.event.size)

    def _fit(self, fitter: Fitter, indices: Indices, start: Vector, context: Context) -> tuple[Fitted, Vector]:
        # what chooses smoothness counts events; what trains a network takes weights of mean 1, as alpha is set for
        total = self.risk_sets.n_events if fitter.counts_rows else float(self.risk_sets.event.size)

        def step(scores: Vector, number: int) -> tuple[Fitted, Vector]:
            fitted = fitter.fit(self._at(scores, total).take(indices), context.within(f"iteration{number}"))
            return fitted, self.scores(fitted.model)[:, 0]

        return alternate(self._likelihood, step, start, exact=fitter.is_exact, out_of_time=context.clock.passed)

    def _likelihood(self, scores: Vector) -> float:
        return self.risk_sets.hazard(scores, self.ties).log_likelihood

    def _solve(self, task: ConvexTask, alpha: float, context: Context) -> tuple[Choice, Vector]:
        """Alternate the hazard with the penalised solution at an alpha; return it and its scores (rows,)."""
        exact, total = task.design.dtype == np.float64, self.prepared.weights.size

        def step(scores: Vector, number: int) -> tuple[Choice, Vector]:
            sample = self._at(scores, total).prepared
            choice = choose_at(task.with_sample(sample), alpha, context, COX_GAP if exact else COX_GAP_IN_SINGLE)
            return choice, choice.point.scores(choice.task.design)[:, 0]

        start, out_of_time = self._no_scores(), context.clock.passed
        return alternate(self._likelihood, step, start, exact=exact, out_of_time=out_of_time)


def cox_problem(
    sample: Sample, encoder: TableEncoder, ties: Ties, *, standardize: bool, limits: bool = False
) -> CoxProblem:
    """Return the problem of censored times; the target's columns are event, 0 or 1, and time.

    Rows that were at risk at no event are in no term of the partial likelihood, and left out.
    """
    event, time = (sample.target[:, 0] == 1.0) & (sample.weights > 0), sample.target[:, 1]
    if not event.any():
        raise InputError(describe("y", "at least one event", "none", "give rows that are not censored"))
    counted = (sample.weights > 0) & (time >= time[event].min())
    if np.count_nonzero(counted) < 2:
        expected = "two rows or more at risk at the first event"
        raise InputError(describe("y", expected, "one, all others censored before", "give more events"))
    at_risk = replace(sample, target=sample.target[:, :1], weights=np.where(counted, sample.weights, 0.0))
    prepared = prepare(at_risk, standardize=standardize, limits=limits)
    risk_sets = RiskSets.of(event[counted], time[counted], prepared.weights)
    hazard = risk_sets.hazard(np.zeros(risk_sets.event.size), ties).rows
    prepared = replace(prepared, target=(risk_sets.event - hazard)[:, None])
    columns, names, terms = encoder.term_columns, encoder.names, sample.terms[counted]
    return CoxProblem(prepared, Poisson("fixed"), columns, names, counted, terms=terms, risk_sets=risk_sets, ties=ties)


def _centred(model: AdditiveModel, terms: Vector, weights: Vector) -> AdditiveModel:
    """Return the model with effects of mean 0 over the rows where they are, and scores of mean 0 over all rows."""
    effects = model.kept_effects(terms)
    present = weights[:, None] * ~np.isnan(terms[:, model.terms])
    means = np.einsum("ij,ijk->jk", present / present.sum(axis=0), effects)
    moved = replace(model, functions=lowered(model.functions, means))
    total = np.average(moved.scores(terms), axis=0, weights=weights)
    return replace(moved, intercept=moved.intercept - total)
