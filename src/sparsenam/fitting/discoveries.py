"""The columns that an `FDR` rule keeps: hypotheses by column, the test that can reach q, and the choice it makes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.errors import InputError, describe
from sparsenam.fitting.problem import FamilyProblem, FitProblem, Indices
from sparsenam.fitting.strategies import Strategy
from sparsenam.penalties import GroupLasso
from sparsenam.selection.alternatives import ColumnUnits
from sparsenam.selection.choose import Choice
from sparsenam.selection.discovery import FDR, FEWEST_DISCOVERY_ROWS, ColumnTests, decide, knockoff_tests, split_tests
from sparsenam.selection.knockoffs import MOST_KNOCKOFF_COLUMNS, DoubledSample, draw_knockoffs
from sparsenam.selection.split_test import split_p_values
from sparsenam.selection.task import ConvexTask
from sparsenam.tables import PreparedSample

Mask = NDArray[np.bool_]

HARDLY = 1e-9  # weight of rows that a design must not learn from


def discover(
    rule: FDR, problem: FitProblem, choice: Choice | None, strategy: Strategy, context: Context
) -> tuple[Choice | None, ColumnTests]:
    """Return the choice with the discovered groups and those that are never penalised, and the tests.

    The target's censored times are rates at the hazard of the default choice: a function of time alone is all that
    rows learn from each other by it.
    """
    prepared = problem.prepared
    if choice is None:  # no column varies
        nothing = split_tests(np.zeros(0), rule.q, "there is nothing to test", 0)
        return None, ColumnTests(nothing, (), np.zeros(0, dtype=np.intp))
    units = ColumnUnits.of(choice.task)  # columns that enter together are one hypothesis
    hypotheses = [groups for unit, groups in enumerate(units.groups) if unit not in units.free]
    scores = np.zeros((prepared.weights.size, 1)) if choice.start is None else choice.start.reshape(-1, 1)
    posed, _ = problem.at(scores)
    obstacle = obstacle_to_knockoffs(prepared, problem.column_of)
    tested = {int(group) for groups in hypotheses for group in groups}
    n_kept = sum(1 for groups in hypotheses if np.isin(groups, choice.groups).any())
    method, reason = decide(rule, len(hypotheses), n_kept, obstacle)
    generator = context.streams.generator("discoveries")
    if method == "knockoffs":
        if obstacle is not None:
            got, remedy = obstacle, "choose method='split' or 'auto'"
            raise InputError(describe("method='knockoffs' of FDR", "complete columns of numbers", got, remedy))
        drawn = draw_knockoffs(prepared.x, generator)
        doubled = DoubledSample.of(prepared, drawn.x, generator)
        task = _task(doubled.prepared, posed, strategy, context)
        tests = knockoff_tests(doubled.statistics(task), rule.q, reason, drawn.construction)
    else:
        p_values = _split(problem, posed, hypotheses, strategy, context, generator)
        tests = split_tests(p_values, rule.q, reason, prepared.weights.size)
    found = [hypotheses[index] for index in np.flatnonzero(tests.found)]
    free = np.setdiff1d(np.arange(len(prepared.grouping.members)), list(tested))
    groups = np.unique(np.concatenate([free, *found]).astype(np.intp))
    columns = tuple(choice.task.columns(part) for part in hypotheses)
    return replace(choice, groups=groups), ColumnTests(tests, columns, choice.task.columns(free))


def obstacle_to_knockoffs(prepared: PreparedSample, column_of: Indices) -> str | None:
    """Return in words what stands against knockoffs of a sample, None where nothing does."""
    if prepared.levels.any():
        return "the table has categories"
    if np.isnan(prepared.x).any():
        return "the table has missing cells"
    columns = column_of[prepared.terms]
    if np.unique(columns).size < columns.size:
        return "a column has several terms"
    if columns.size > MOST_KNOCKOFF_COLUMNS:
        return f"the table has more than {MOST_KNOCKOFF_COLUMNS} columns"
    return None


def _split(
    problem: FitProblem,
    posed: FamilyProblem,
    hypotheses: list[Indices],
    strategy: Strategy,
    context: Context,
    generator: np.random.Generator,
) -> NDArray[np.float64]:
    prepared = problem.prepared
    if prepared.weights.size < FEWEST_DISCOVERY_ROWS:
        return np.ones(len(hypotheses))
    whole = _task(prepared, posed, strategy, context)

    def task_for(rows: Mask) -> ConvexTask:
        # columns of categories read the target: those of a half must not see the other, only that its levels are there
        task = whole
        if prepared.levels.any():
            seen = prepared.weights * np.where(rows, 1.0, HARDLY)
            task = _task(replace(prepared, weights=seen), posed, strategy, context)
        return task.with_sample(replace(task.prepared, weights=posed.prepared.weights * rows))

    return split_p_values(task_for, problem.fold_target, hypotheses, generator, context)


def _task(prepared: PreparedSample, posed: FamilyProblem, strategy: Strategy, context: Context) -> ConvexTask:
    """Return the convex problem of a sample's terms, with target and weights of the posed problem."""
    terms = np.arange(prepared.n_terms)
    names = tuple(f"{term}" for term in terms)
    features = strategy.features(prepared, context)
    task = ConvexTask.of(prepared, posed.family, features, GroupLasso(), terms, names, strategy.norm)
    sample = replace(prepared, target=posed.prepared.target, weights=posed.prepared.weights)
    return task.with_sample(sample)
