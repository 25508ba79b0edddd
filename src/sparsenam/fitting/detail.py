"""Detail that the ramps of a smooth fit cannot hold: many more knots, and the columns that matter only with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.fitting.problem import FamilyProblem, FitProblem, Fitted
from sparsenam.fitting.residuals import left_out_of
from sparsenam.model import ShapeBank
from sparsenam.model.additive import finish
from sparsenam.selection.choose import Choice, CrossValidation
from sparsenam.selection.curve import BEYOND_DOUBT, CLEAR, CVCurve, held_out_counts, mean_and_error
from sparsenam.smooth.detail import DetailProblem, DetailRows
from sparsenam.tables.sample import Matrix, Vector

# λ of a standardised target, from smooth to rough; the walk ends where held-out rows lose by it, and a finer one of the
# chosen columns starts there
STRENGTHS, FINER = 10.0 ** np.arange(1.0, -3.0, -0.5), 10.0**-0.125
QUICK, EXACT = 3e-4, 1e-6  # relative residuals of fits that are compared, and of the one that is kept
SHRINKAGE = 2 ** (1 / 6)  # number of columns over that of the next fit that is compared

Indices = NDArray[np.intp]


def with_detail(
    problem: FitProblem,
    choice: Choice | None,
    fitted: Fitted,
    splits: Callable[[FitProblem], CrossValidation],
    context: Context,
) -> tuple[Choice | None, Fitted]:
    """Return the choice and the fit with finer curves, where ramps ran out and held-out rows clearly want them.

    Which columns matter was decided with few ramps each; among fine curves it may be others: the same folds say which.
    """
    shaped = fitted.smooth is not None and fitted.smooth.fit.shapes
    if choice is None or shaped or not isinstance(problem, FamilyProblem) or not problem.family.is_quadratic:
        return choice, fitted
    cross = splits(problem)
    if not held_out_counts(cross.splits, len(problem.prepared.target)).all():
        return choice, fitted
    search = _Search(problem, cross, context)
    every = np.arange(len(problem.prepared.grouping.members))
    given = choice.validated is None  # an alpha that was set keeps its columns
    strength = search.best_strength(choice.groups if given else every, STRENGTHS)
    groups = choice.groups if given else search.chosen_groups(choice, strength)
    if not groups.size:
        return choice, fitted
    strength = search.best_strength(groups, strength * FINER ** np.arange(8))
    test = cross.splits[0][1]
    smooth = left_out_of(problem, choice.support, fitted, test)
    gain = search.losses(smooth) - search.losses(search.held_out(groups, strength, 0)[test])
    if not _is_clear(gain, problem.prepared.weights[test]) or context.clock.passed():
        return choice, fitted
    return replace(choice, groups=groups), search.fit(groups, strength)


def _is_clear(differences: Vector, weights: Vector) -> bool:
    """Return whether differences (rows,) have a mean above 0 for certain."""
    mean, error = mean_and_error(differences, weights)
    return mean > CLEAR * error


@dataclass(slots=True, eq=False)
class _Search:
    """Fits of fine curves to the rows of folds, and what the first fold's held-out rows say of them."""

    problem: FamilyProblem
    cross: CrossValidation
    context: Context
    rows: DetailRows = field(init=False)
    fits: int = 0

    def __post_init__(self) -> None:
        prepared = self.problem.prepared
        self.rows = DetailRows.of(prepared.x, prepared.weights, prepared.levels)

    def losses(self, scores: Matrix) -> Vector:
        """Return the squared errors of the first fold's held-out rows, given their scores (rows, outputs)."""
        return np.sum((self.problem.prepared.target[self.cross.splits[0][1]] - scores) ** 2, axis=1)

    def best_strength(self, groups: Indices, strengths: Vector) -> float:
        """Return the λ of all terms, out of falling ones, up to which held-out rows gain."""
        weights, test = self.problem.prepared.weights, self.cross.splits[0][1]
        best, least, start = float(strengths[0]), np.inf, None
        for strength in strengths:
            _, values, scores = self._solved(groups, float(strength), 0, start)
            loss = float(weights[test] @ self.losses(scores[test]))
            if loss >= least:
                break
            best, least, start = float(strength), loss, values
            if self.context.clock.passed():
                break
        return best

    def chosen_groups(self, choice: Choice, strength: float) -> Indices:
        """Return the groups that the rule takes, on the way from all of them down.

        Part after part, those with the smallest effects are left out, up to a loss beyond doubt. Groups without a
        penalty stay.
        """
        prepared, (train, test) = self.problem.prepared, self.cross.splits[0]
        grouping, weights = prepared.grouping, prepared.weights[test]
        free = np.flatnonzero(grouping.weights == 0.0)
        center = np.average(prepared.target[train], axis=0, weights=prepared.weights[train])
        groups, walked = np.arange(len(grouping.members)), list[Indices]()
        losses = [self.losses(np.tile(center, (test.size, 1)))]
        while groups.size:
            detail, values, scores = self._solved(groups, strength, 0, None)
            walked.append(groups)
            losses.append(self.losses(scores[test]))
            best = min(losses, key=lambda each: float(weights @ each))
            behind, error = mean_and_error(losses[-1] - best, weights)
            if behind > BEYOND_DOUBT * error or self.context.clock.passed():
                break
            sizes = np.zeros(prepared.terms.size)
            sizes[grouping.terms_of(groups)] = detail.sizes_of_effects(values)
            by_group = np.array([sizes[grouping.members[group]].sum() for group in groups])
            order = np.argsort(-np.where(np.isin(groups, free), np.inf, by_group), kind="stable")
            groups = np.sort(groups[order[: max(int(groups.size / SHRINKAGE), free.size)]])
            if groups.size == walked[-1].size:
                break
        if free.size and walked[-1].size == free.size:  # the way led to its end, which is not the empty model
            losses[0] = losses.pop()
            walked.pop()
        points = [free, *walked[::-1]]
        curve = CVCurve(
            alphas=-np.arange(len(points), dtype=np.float64),  # in place of a penalty, the order
            supports=tuple(choice.task.columns(each) for each in points),
            losses=np.stack([losses[0], *losses[:0:-1]]),
            weights=weights,
            same_as=np.arange(len(points)),
            n_columns=len(choice.task.column_names),
        )
        return points[curve.choose(self.cross.rule, self.cross.max_features)]

    def held_out(self, groups: Indices, strength: float, fold: int) -> Matrix:
        """Return the scores of all rows by a fit to those that a fold does not hold out, shape (rows, outputs)."""
        return self._solved(groups, strength, fold, None)[2]

    def fit(self, groups: Indices, strength: float) -> Fitted:
        """Return the fit to all rows, with the scores that each row gets from the folds that hold it out."""
        terms = self.problem.prepared.grouping.terms_of(groups)
        prepared = self.problem.prepared.take(terms)
        detail, values, _ = self._solved(groups, strength, None, None, EXACT)
        bank, theta = ShapeBank.of(detail.functions(values), prepared.target.shape[1])
        center = np.average(prepared.target, axis=0, weights=prepared.weights)
        finished = finish(prepared, self.problem.family, bank, theta, np.arange(terms.size), center)
        scores, counts = np.zeros_like(prepared.target), np.zeros((len(prepared.target), 1))
        for fold, (_, test) in enumerate(self.cross.splits):
            scores[test] += self.held_out(groups, strength, fold)[test]
            counts[test] += 1.0
        return Fitted(finished.model, finished.norms(), left_out=scores / counts)

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
