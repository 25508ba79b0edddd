"""A choice that was made, asked about again: rows given anew, since a fitted model keeps none, and their problem."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sparsenam.context import Context
from sparsenam.errors import ConstantColumnWarning, InputError, describe
from sparsenam.fit.plan import FitInput, Plan, convex_task, plan_of
from sparsenam.fit.problem import FamilyProblem
from sparsenam.selection.curve import Indices
from sparsenam.selection.task import ConvexTask
from sparsenam.tables.sample import Sample

if TYPE_CHECKING:
    from sparsenam.fit.pipeline import Fit  # which holds what the questions found

Units = frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The rows and the plan with which a fit is asked about again."""

    rows: FitInput
    plan: Plan

    def problem(self, sample: Sample) -> FamilyProblem:
        """Return the problem of a sample; that a column does not vary in it is no news."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConstantColumnWarning)
            return self.plan.pose(sample, self.rows.encoder)

    def task(self, problem: FamilyProblem, context: Context, where: str, fewest: int) -> ConvexTask:
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
        return convex_task(problem, self.plan, context)


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
    plan = plan_of(fit.estimator, fit.settings, family)
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


@dataclass(frozen=True, slots=True, eq=False)
class ColumnUnits:
    """What can be dropped or taken in: columns that share a group move together, with all their groups.

    ``groups`` and ``columns`` have those of each unit, ``free`` are the units with a group that is never penalised.
    """

    groups: tuple[Indices, ...]
    columns: tuple[Indices, ...]
    free: Units

    @classmethod
    def of(cls, task: ConvexTask) -> ColumnUnits:
        """Return the units of a task, in the order of its groups."""
        groups = np.arange(task.design.n_groups)
        columns = [task.columns(groups[[group]]) for group in groups]
        ends = np.repeat(groups, [part.size for part in columns]), groups.size + np.concatenate([*columns, groups[:0]])
        size = groups.size + len(task.column_names)
        joined = coo_array((np.ones(ends[0].size), ends), shape=(size, size))
        labels = connected_components(joined, directed=False)[1][groups]
        units = [np.flatnonzero(labels == label) for label in dict.fromkeys(labels.tolist())]
        free = [index for index, unit in enumerate(units) if np.isin(unit, task.free_groups).any()]
        return cls(tuple(units), tuple(map(task.columns, units)), frozenset(free))

    def containing(self, groups: Indices) -> Units:
        """Return the units of which some group is among those given."""
        return frozenset(index for index, unit in enumerate(self.groups) if np.isin(unit, groups).any())

    def groups_of(self, units: Units) -> Indices:
        """Return the groups of some units, ascending."""
        parts = [self.groups[unit] for unit in units]
        return np.sort(np.concatenate([np.zeros(0, dtype=np.intp), *parts]))

    def n_columns(self, units: Units) -> int:
        """Return the number of columns of some units."""
        return sum(self.columns[unit].size for unit in units)
