"""Questions about a choice that was made: would half of the rows make it too, and which other columns do as well.

They pose the problem of the fit again, on rows given anew, since a fitted model keeps none.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.context import Clock, Context, ProgressBar, Streams
from sparsenam.discover.alternatives import Alternatives, alternatives_of
from sparsenam.discover.stability import Stability, stability_of
from sparsenam.errors import ConstantColumnWarning, InputError, check_number, describe
from sparsenam.fit.value import Fit
from sparsenam.fitting.plan import FitInput, Plan, convex_task, plan_of, splitter
from sparsenam.fitting.problem import FitProblem, Mask, Vector
from sparsenam.model import AdditiveModel
from sparsenam.penalties import NeedsFirstFit
from sparsenam.selection import Compact
from sparsenam.selection.alternatives import AlternativeSearch, SearchResult, Tolerance, margin_for
from sparsenam.selection.stability import columns_in_halves, columns_mask, columns_with_hazard, complementary_halves
from sparsenam.selection.task import ConvexTask, twins_of
from sparsenam.selection.walk import HeldOutJudge
from sparsenam.tables import PreparedSample, Sample
from sparsenam.threads import one_thread

FEWEST_STABILITY_ROWS = 8  # from which there are halves to speak of
FEWEST_TO_JUDGE = 20  # from which rows held out tell sets of columns apart: five folds of four


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The rows and the plan with which a fit is asked about again."""

    rows: FitInput
    plan: Plan

    def problem(self, sample: Sample) -> FitProblem:
        """Return the problem of a sample; that a column does not vary in it is no news."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConstantColumnWarning)
            return self.plan.pose(sample, self.rows.encoder)


def question_of(
    fit: Fit,
    where: str,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    exposure: ArrayLike | None,
    groups: ArrayLike | None,
) -> Question:
    """Return rows as the fit read its rows, with the plan of its settings; raise where nothing was chosen."""
    family, encoder = fit.model.family, fit.encoder
    plan = plan_of(fit.estimator, fit.settings, None if fit.task == "survival" else family)
    if not plan.strategy.chooses:
        got = f"a {fit.estimator} whose network was trained on all columns"
        raise InputError(describe(where, "columns chosen by the convex problem", got, "fit with alpha='auto'"))
    given, units = fit.rows(X, y, sample_weight, None), None
    if exposure is not None:
        fit.response.with_exposure(given, exposure, family)  # raises where there are no rates
        units = np.asarray(exposure, dtype=np.float64)
    weights = fit.response.row_weights(given.target, given.weights, fit.settings.get("class_weight"))
    stratum = given.target.argmax(axis=1) if family.couples_outputs else None
    sample = plan.sample(encoder, given.terms, given.target, weights, units)
    return Question(FitInput(encoder, sample, groups=groups, stratum=stratum), plan)


@contextmanager
def asking(parameters: Mapping[str, Any]) -> Generator[Context]:
    """Give a context with the time, the seed and the progress bar that an estimator's parameters ask for."""
    seconds = parameters.get("max_seconds")
    if seconds is not None:
        check_number("max_seconds", seconds, 0.0, open_below=True)
    streams = Streams.from_random_state(parameters.get("random_state"))
    context = Context(streams, Clock(seconds), ProgressBar(parameters.get("verbose")))
    try:
        with one_thread():
            yield context
    finally:
        context.progress.close()


def measure_stability(fit: Fit, question: Question, n_pairs: int) -> Stability:
    """Return how often half of the rows would choose each column."""
    with asking(fit.settings) as context:
        found = keep_in_halves(question, fit.alpha, n_pairs, context)
    names = fit.encoder.names
    return stability_of(
        found.kept,
        found.candidates,
        names,
        kept=fit.kept_names,
        always_kept=[names[column] for column in np.flatnonzero(found.free)],
        substitutes=fit.substitutes,
        alpha=fit.alpha,
        asked_pairs=n_pairs,
    )


def find_alternatives(fit: Fit, question: Question, tolerance: float | Literal["auto"], most: int) -> Alternatives:
    """Return other sets of columns that predict about as well as those of the model."""
    allowed: float | None = None
    if isinstance(tolerance, str):
        if tolerance != "auto":
            raise InputError(describe("tolerance", "a share or 'auto'", repr(tolerance), "choose one"))
    else:
        check_number("tolerance", tolerance, 0.0)
        allowed = float(tolerance)
    with asking(fit.settings) as context:
        found, task = search_alternatives(question, fit.model, allowed, most, context)
    return alternatives_of(found, task.column_names, twins_of(task.prepared, fit.model, fit.encoder), allowed)


@dataclass(frozen=True, slots=True, eq=False)
class HalvesKept:
    """Which columns each half keeps (halves, columns), which could be dropped (columns,), and which never are."""

    kept: Mask
    candidates: Mask
    free: Mask


def keep_in_halves(question: Question, alpha: float, n_pairs: int, context: Context) -> HalvesKept:
    """Ask complementary halves of the rows which columns they keep at an alpha."""
    problem = question.problem(question.rows.sample)
    task = _task(problem, question, context, "stability", FEWEST_STABILITY_ROWS)
    if not alpha > 0.0:
        raise InputError(describe("stability", "an alpha that drops columns", "alpha 0", "choose a larger one"))
    generator = context.streams.generator("halves")
    groups = _codes(question, problem)
    halves = complementary_halves(problem.fold_target, n_pairs, generator, groups)
    context.progress.report("halves", 0, len(halves))

    def report(done: int) -> None:
        context.progress.report("halves", done, len(halves))

    if problem.solves_in_batches and not isinstance(task.penalty, NeedsFirstFit):
        kept = columns_in_halves(task, halves, alpha, report, context)
    else:
        kept = _columns_one_by_one(question, problem.counted, halves, alpha, report, context)
    free, varying = columns_mask(task, task.free_groups), columns_mask(task, np.arange(task.design.n_groups))
    return HalvesKept(kept, varying & ~free, free)


def _columns_one_by_one(
    question: Question, counted: Mask, halves: Mask, alpha: float, report: Callable[[int], None], context: Context
) -> Mask:
    """Return which columns each half keeps (halves, columns), each half a problem of its rows alone.

    Censored times need this, as each half has a baseline hazard, and penalties with weights from a first fit do.
    """
    sample, strategy, kept = question.rows.sample, question.plan.strategy, list[Mask]()
    out_of_time = context.clock.laps()
    for number, half in enumerate(halves, start=1):
        inside = np.zeros(counted.size, dtype=np.bool_)
        inside[np.flatnonzero(counted)[half]] = True
        problem = question.problem(replace(sample, weights=np.where(inside, sample.weights, 0.0)))
        task = convex_task(problem, question.plan, context)
        if problem.solves_in_batches or isinstance(task.penalty, NeedsFirstFit):
            choice = problem.choose(task, alpha, strategy.tol, strategy.quick, context)
            kept.append(columns_mask(task, choice.groups))
        else:  # choose would alternate with the hazard to many digits
            kept.append(columns_with_hazard(task, alpha, partial(_sample_at, problem)))
        report(number)
        if number % 2 == 0 and out_of_time():
            break
    return np.array(kept)


def _sample_at(problem: FitProblem, scores: Vector) -> PreparedSample:
    return problem.at(scores)[0].prepared


def search_alternatives(
    question: Question, model: AdditiveModel, tolerance: Tolerance, most: int, context: Context
) -> tuple[SearchResult, ConvexTask]:
    """Return other sets of columns within a margin of those that a model keeps, and the task whose units they have."""
    problem = question.problem(question.rows.sample)
    task = _task(problem, question, context, "alternatives", FEWEST_TO_JUDGE)
    splits = splitter(question.plan, question.rows, context)(problem).splits
    scores = model.scores(question.rows.sample.terms[problem.counted])
    task, loss = problem.judged_by(task, splits, scores)
    grouping, terms = problem.prepared.grouping, problem.prepared.terms
    chosen = [group for group, members in enumerate(grouping.members) if np.isin(terms[members], model.terms).any()]
    rule = question.plan.rule
    margin = margin_for(tolerance, rule if isinstance(rule, Compact) else Compact())
    judge, groups = HeldOutJudge.of(task, splits, loss), np.array(chosen, dtype=np.intp)
    search = AlternativeSearch(task, judge, groups, margin, question.plan.settings.max_features, context)
    return search.run(most), task


def _task(problem: FitProblem, question: Question, context: Context, where: str, fewest: int) -> ConvexTask:
    """Return the convex problem; raise where there is nothing to choose from, or too little to choose by."""
    rows = problem.prepared.weights.size
    if rows < fewest:
        raise InputError(describe(where, f"at least {fewest} rows", f"{rows}", "give more rows"))
    if (np.ptp(problem.fold_target, axis=0) == 0).any():
        got = f"one value in all {rows} rows"
        raise InputError(describe(where, "a target that varies", got, "give the rows of the fit"))
    if not problem.prepared.terms.size:
        raise InputError(describe(where, "columns that vary", "none in these rows", "give the rows of the fit"))
    if not problem.prepared.grouping.weights.any():
        got = "columns that are all always kept"
        raise InputError(describe(where, "columns to choose from", got, "penalise some of them"))
    return convex_task(problem, question.plan, context)


def _codes(question: Question, problem: FitProblem) -> NDArray[np.intp] | None:
    """Return the groups of the rows that count, numbered from 0, None where there are none."""
    if question.rows.groups is None:
        return None
    given = np.asarray(question.rows.groups)
    if given.shape != (problem.counted.size,):
        expected, got = f"{problem.counted.size} groups, one for each row", f"shape {given.shape}"
        raise InputError(describe("groups", expected, got, "give one for each row"))
    codes: NDArray[np.intp] = np.unique(given[problem.counted], return_inverse=True)[1]
    if codes.max() < 3:
        raise InputError(describe("groups", "at least 4 groups of rows", f"{int(codes.max()) + 1}", "leave them out"))
    return codes
