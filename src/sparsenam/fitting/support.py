"""Questions about a choice that was made: would half of the rows make it too, and which other columns do as well.

They pose the problem of the fit again, on rows given anew, since a fitted model keeps none.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.context import Context
from sparsenam.errors import ConstantColumnWarning, InputError, describe
from sparsenam.fitting.pipeline import Plan, convex_task, splitter
from sparsenam.fitting.problem import FitProblem, Mask, Vector
from sparsenam.model import AdditiveModel
from sparsenam.penalties import NeedsFirstFit
from sparsenam.selection import Compact
from sparsenam.selection.alternatives import AlternativeSearch, SearchResult, Tolerance, margin_for
from sparsenam.selection.stability import columns_in_halves, columns_mask, columns_with_hazard, complementary_halves
from sparsenam.selection.task import ConvexTask
from sparsenam.selection.walk import HeldOutJudge
from sparsenam.tables import PreparedSample, Sample, TableEncoder

FEWEST_ROWS = 8  # from which there are halves to speak of
FEWEST_TO_JUDGE = 20  # from which rows held out tell sets of columns apart: five folds of four


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The rows and the settings with which a fit is asked about again.

    ``groups`` (rows,) are for splitters that need them, and are not torn apart by halves; ``answer`` (rows,) is for
    splitters that stratify.
    """

    encoder: TableEncoder
    sample: Sample
    plan: Plan
    groups: ArrayLike | None = None
    answer: NDArray[np.generic] | None = None

    def problem(self, sample: Sample) -> FitProblem:
        """Return the problem of a sample; that a column does not vary in it is no news."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConstantColumnWarning)
            return self.plan.pose(sample, self.encoder)


@dataclass(frozen=True, slots=True, eq=False)
class HalvesKept:
    """Which columns each half keeps (halves, columns), which could be dropped (columns,), and which never are."""

    kept: Mask
    candidates: Mask
    free: Mask


def keep_in_halves(question: Question, alpha: float, n_pairs: int, context: Context) -> HalvesKept:
    """Ask complementary halves of the rows which columns they keep at an alpha."""
    problem = question.problem(question.sample)
    task = _task(problem, question, context, "stability", FEWEST_ROWS)
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
    sample, strategy, kept = question.sample, question.plan.strategy, list[Mask]()
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
    problem = question.problem(question.sample)
    task = _task(problem, question, context, "alternatives", FEWEST_TO_JUDGE)
    splits = splitter(question.plan, question.sample, question.groups, question.answer, context)(problem).splits
    scores = model.scores(question.sample.terms[problem.counted])
    task, loss = problem.judged_by(task, splits, scores)
    grouping, terms = problem.prepared.grouping, problem.prepared.terms
    chosen = [group for group, members in enumerate(grouping.members) if np.isin(terms[members], model.terms).any()]
    rule = question.plan.rule
    margin = margin_for(tolerance, rule if isinstance(rule, Compact) else Compact())
    judge, groups = HeldOutJudge.of(task, splits, loss), np.array(chosen, dtype=np.intp)
    search = AlternativeSearch(task, judge, groups, margin, question.plan.max_features, context)
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
    if question.groups is None:
        return None
    given = np.asarray(question.groups)
    if given.shape != (problem.counted.size,):
        expected, got = f"{problem.counted.size} groups, one for each row", f"shape {given.shape}"
        raise InputError(describe("groups", expected, got, "give one for each row"))
    codes: NDArray[np.intp] = np.unique(given[problem.counted], return_inverse=True)[1]
    if codes.max() < 3:
        raise InputError(describe("groups", "at least 4 groups of rows", f"{int(codes.max()) + 1}", "leave them out"))
    return codes
