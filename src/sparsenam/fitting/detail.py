"""Detail that the ramps of a smooth fit cannot hold: many more knots, and the columns that matter with them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sparsenam.context import Context
from sparsenam.fitting.problem import FamilyProblem, FitProblem, Fitted
from sparsenam.fitting.residuals import left_out_of
from sparsenam.model import finish
from sparsenam.selection.choose import Choice, CrossValidation
from sparsenam.selection.curve import BEYOND_DOUBT, CLEAR, Compact, CVCurve, Evidence, held_out_counts, mean_and_error
from sparsenam.smooth.detail import DetailProblem, DetailRows
from sparsenam.tables.sample import Matrix, Vector

# λ of a standardised target, from smooth to rough; the walk ends where held-out rows lose by it, and a finer one of the
# chosen columns starts there
STRENGTHS, FINER = 10.0 ** np.arange(1.0, -3.0, -0.5), 10.0**-0.125
QUICK, EXACT = 3e-4, 1e-6  # relative residuals of fits that are compared, and of the one that is kept
SHRINKAGE = 2 ** (1 / 8)  # number of columns over that of the next fit that is compared
LEAST_ROWS = 100  # held out, to judge by
NEXT = 2  # numbers of columns above that which one fold takes, judged by all folds

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Detailed:
    """A choice and its fit; ``evidence`` is what held-out rows know of fine curves, None where the fit has none."""

    choice: Choice | None
    fitted: Fitted
    evidence: Evidence | None = None


def with_detail(
    problem: FitProblem,
    choice: Choice | None,
    fitted: Fitted,
    splits: Callable[[FitProblem], CrossValidation],
    context: Context,
) -> Detailed:
    """Return the choice and the fit with finer curves, where ramps ran out and held-out rows clearly want them.

    Which columns matter was decided with few ramps each; among fine curves it may be others. The largest fold decides
    on their strength and on columns, the rows of the others on whether such curves are taken at all.
    """
    as_before = Detailed(choice, fitted)
    shaped = fitted.smooth is not None and fitted.smooth.fit.shapes
    if choice is None or shaped or not isinstance(problem, FamilyProblem) or not problem.family.is_quadratic:
        return as_before
    cross, weights = splits(problem), problem.prepared.weights
    fold = max(range(len(cross.splits)), key=lambda each: len(cross.splits[each][1]))
    others = np.setdiff1d(np.flatnonzero(weights), cross.splits[fold][1])
    if (
        min(others.size, cross.splits[fold][1].size) < LEAST_ROWS
        or not held_out_counts(cross.splits, weights.size).all()
    ):
        return as_before
    search = _Search(problem, cross, fold, context)
    every = np.arange(len(problem.prepared.grouping.members))
    given = choice.validated is None  # an alpha that was set keeps its columns
    strength = search.best_strength(choice.groups if given else every, STRENGTHS)
    groups = choice.groups if given else search.chosen_groups(choice, strength)
    if not groups.size:
        return as_before
    strength = search.best_strength(groups, strength * FINER ** np.arange(8))
    scores = search.left_out(groups, strength)
    if context.clock.passed():
        message = "max_seconds ran out before finer curves, which this table may need, were tried; allow more."
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
        return as_before
    smooth = left_out_of(problem, choice.support, fitted, others)
    if not _is_clear(search.losses(smooth, others) - search.losses(scores[others], others), weights[others]):
        return as_before
    finer = replace(search.fit(groups, strength), left_out=scores)
    return Detailed(replace(choice, groups=groups), finer, search.evidence(scores))


class FineCompact(Compact):
    """`Compact` with its share of the loss itself: fine curves are there for the last per cents of it."""

    __slots__ = ()

    def margin(self, loss: float, gain: float, noise: Vector, luck: float, gain_noise: float) -> Vector:
        """Return how far losses may be above the best one, shape (points,)."""
        return super().margin(loss, min(gain, loss), noise, luck, gain_noise)


def _is_clear(differences: Vector, weights: Vector) -> bool:
    """Return whether differences (rows,) have a mean above 0 for certain."""
    mean, error = mean_and_error(differences, weights)
    return mean > CLEAR * error


@dataclass(frozen=True, slots=True, eq=False)
class _Tried:
    """A set of groups, the losses of held-out rows (rows,), and the size of each group's effect."""

    groups: Indices
    losses: Vector
    sizes: Vector = field(default_factory=lambda: np.zeros(0))

    def largest(self, count: int, free: Indices) -> Indices:
        """Return the groups with the largest effects, and those that are free, ``count`` in all."""
        order = np.argsort(-np.where(np.isin(self.groups, free), np.inf, self.sizes), kind="stable")
        return np.sort(self.groups[order[:count]])


@dataclass(slots=True, eq=False)
class _Search:
    """Fits of fine curves to the rows of folds, and what the held-out rows of one fold say of them."""

    problem: FamilyProblem
    cross: CrossValidation
    fold: int
    context: Context
    rows: DetailRows = field(init=False)
    fits: int = 0

    def __post_init__(self) -> None:
        prepared = self.problem.prepared
        self.rows = DetailRows.of(prepared.x, prepared.weights, prepared.levels)

    @property
    def test(self) -> Indices:
        """The rows that the fold holds out."""
        return self.cross.splits[self.fold][1]

    def losses(self, scores: Matrix, rows: Indices) -> Vector:
        """Return the squared errors of rows, given their scores (rows, outputs)."""
        return np.sum((self.problem.prepared.target[rows] - scores) ** 2, axis=1)

    def best_strength(self, groups: Indices, strengths: Vector) -> float:
        """Return the λ of all terms, out of falling ones, up to which held-out rows gain."""
        weights, best, least, start = self.problem.prepared.weights[self.test], float(strengths[0]), np.inf, None
        for strength in strengths:
            _, values, scores = self._solved(groups, float(strength), self.fold, start)
            loss = float(weights @ self.losses(scores[self.test], self.test))
            if loss >= least:
                break
            best, least, start = float(strength), loss, values
            if self.context.clock.passed():
                break
        return best

    def chosen_groups(self, choice: Choice, strength: float) -> Indices:
        """Return the groups that the rule takes, on the way from all of them down.

        Part after part, those with the smallest effects are left out, up to a loss beyond doubt. What the rule takes by
        the rows of one fold, and what is next to it, is judged by all rows then. Groups without a penalty stay.
        """
        grouping, weights = self.problem.prepared.grouping, self.problem.prepared.weights
        free, most = np.flatnonzero(grouping.weights == 0.0), len(grouping.members)
        counts = np.unique(np.rint(most / SHRINKAGE ** np.arange(1, 200)).astype(np.intp))[::-1]
        points = self._walk(counts[counts > 0], free, strength)[::-1]
        if points[0].groups.size > free.size:  # otherwise the way led to its end, which may not be the empty model
            points = [_Tried(free, self._empty(self.test)), *points]
        taken = self._taken(choice, points, weights[self.test])
        judged = [self._judged(point.groups, strength) for point in points[taken : taken + NEXT + 1]]
        if judged[0].groups.size > free.size:
            judged = [_Tried(free, self._empty(np.arange(weights.size))), *judged]
        return judged[self._taken(choice, judged, weights)].groups

    def left_out(self, groups: Indices, strength: float) -> Matrix:
        """Return the scores that each row gets from the folds that hold it out, shape (rows, outputs)."""
        target = self.problem.prepared.target
        scores, counts = np.zeros_like(target), np.zeros((len(target), 1))
        values = None
        for fold, (_, test) in enumerate(self.cross.splits):
            _, values, fitted = self._solved(groups, strength, fold, values)
            scores[test] += fitted[test]
            counts[test] += 1.0
        return scores / counts

    def fit(self, groups: Indices, strength: float) -> Fitted:
        """Return the fit to all rows."""
        terms = self.problem.prepared.grouping.terms_of(groups)
        prepared = self.problem.prepared.take(terms)
        detail, values, _ = self._solved(groups, strength, None, None, EXACT)
        center = np.average(prepared.target, axis=0, weights=prepared.weights)
        finished = finish(prepared, self.problem.family, tuple(detail.functions(values)), center)
        return Fitted(finished.model, finished.norms())

    def evidence(self, scores: Matrix) -> Evidence:
        """Return how far the loss of left-out scores (rows, outputs) is below that of none; folds chose nothing."""
        weights = self.problem.prepared.weights
        every = np.arange(weights.size)
        empty = self._empty(every)
        gain, error = mean_and_error(empty - self.losses(scores, every), weights)
        unit = mean_and_error(empty, weights)[0]
        return Evidence(gain / unit, error / unit, None, None, {}, gain / unit)

    def _walk(self, counts: Iterable[int], free: Indices, strength: float) -> list[_Tried]:
        """Return a fit of all groups and of fewer and fewer of them, up to a loss beyond doubt."""
        weights = self.problem.prepared.weights[self.test]
        tried = [self._try(np.arange(len(self.problem.prepared.grouping.members)), strength)]
        for count in counts:
            if self.context.clock.passed():
                break
            groups = tried[-1].largest(max(count, free.size), free)
            if groups.size == tried[-1].groups.size:
                continue
            tried.append(self._try(groups, strength))
            best = min(tried, key=lambda each: float(weights @ each.losses)).losses
            behind, error = mean_and_error(tried[-1].losses - best, weights)
            if behind > BEYOND_DOUBT * error:
                break
        return tried

    def _try(self, groups: Indices, strength: float) -> _Tried:
        detail, values, scores = self._solved(groups, strength, self.fold, None)
        grouping, sizes = self.problem.prepared.grouping, np.zeros(self.problem.prepared.terms.size)
        sizes[grouping.terms_of(groups)] = detail.sizes_of_effects(values)
        by_group = np.array([sizes[grouping.members[group]].sum() for group in groups])
        return _Tried(groups, self.losses(scores[self.test], self.test), by_group)

    def _taken(self, choice: Choice, points: list[_Tried], weights: Vector) -> int:
        """Return the index of the point that the rule takes, by losses of rows of these weights (rows,)."""
        rule = self.cross.rule
        curve = CVCurve(
            alphas=-np.arange(len(points), dtype=np.float64),  # in place of a penalty, the order
            supports=tuple(choice.task.columns(each.groups) for each in points),
            losses=np.stack([each.losses for each in points]),
            weights=weights,
            same_as=np.arange(len(points)),
            n_columns=len(choice.task.column_names),
        )
        fine = FineCompact(rule.tolerance, rule.share) if isinstance(rule, Compact) else rule
        return curve.choose(fine, self.cross.max_features)

    def _judged(self, groups: Indices, strength: float) -> _Tried:
        """Return groups with the losses of all rows, each left out."""
        every = np.arange(len(self.problem.prepared.target))
        losses = self.losses(self.left_out(groups, strength), every) if groups.size else self._empty(every)
        return _Tried(groups, losses)

    def _empty(self, rows: Indices) -> Vector:
        """Return the losses of rows without any column."""
        prepared = self.problem.prepared
        center = np.average(prepared.target, axis=0, weights=prepared.weights)
        return self.losses(np.tile(center, (rows.size, 1)), rows)

    def _solved(
        self, groups: Indices, strength: float, fold: int | None, start: Matrix | None, tol: float = QUICK
    ) -> tuple[DetailProblem, Matrix, Matrix]:
        """Return the problem of some groups and a fold's rows, its solution, and the scores of all rows."""
        prepared = self.problem.prepared
        weights = prepared.weights
        if fold is not None:
            weights = np.zeros_like(weights)
            train = self.cross.splits[fold][0]
            weights[train] = prepared.weights[train]
        terms = prepared.grouping.terms_of(groups)
        detail = DetailProblem(self.rows.take(terms), weights)
        center = np.average(prepared.target, axis=0, weights=weights)
        values = detail.solve(prepared.target - center, strength, start, tol)
        self.fits += 1
        self.context.progress.report("detail", self.fits)
        return detail, values, center + detail.effects(values)
