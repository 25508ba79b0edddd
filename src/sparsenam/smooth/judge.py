"""Held-out scores of smooth fits on given groups: how cross-validation judges what a path point keeps.

The fits are those of restricted likelihood in the design's basis: in group j the prior precision of a column of
roughness e is (aⱼ + bⱼe)/(1 + e), and a few updates of Fellner and Schall set aⱼ, which shrinks the whole function,
and bⱼ, which shrinks its rough part. A fit starts from the strengths that the same fold found before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, lapack

from sparsenam.convex.design import Array, Floats, GroupedDesign, Indices
from sparsenam.convex.problem import convex_problem
from sparsenam.convex.squared import GramCache
from sparsenam.families import Family
from sparsenam.families.dispersion import dispersion
from sparsenam.smooth.prior import HIGHEST, JITTER, LARGEST_STEP, LOWEST

SQUARED_STEPS = 4  # updates of the strengths; warm starts do the rest
NEWTON_STEPS = 8  # each with an update of the strengths
FEW = 0.02  # change of the degrees of freedom, and of their share, at which the updates end
WEAK = 0.05  # share of the data's information in the first prior
STALE = 0.1  # relative change of the curvature after which the Hessian is summed anew
LIGHTEST = 1e-6  # of a working weight
LEAST_NOISE = 1e-8  # of σ², on the scale of a standardised target
HALVINGS = 8


@dataclass(eq=False)
class FoldState:
    """What a fold's fits have found so far: strengths a and b (groups, 2), NaN where unknown, noise and θ."""

    strengths: Array
    noise: float
    theta: Array
    intercept: Array


class SmoothJudge:
    """Held-out scores of smooth fits, remembered by batch and support.

    Give the same ``gram`` to ``convex_path``: squared loss is then judged by sums already made.

    Attributes
    ----------
    held_out
        For each batch, the rows to score; all rows for batch 0.
    """

    def __init__(
        self,
        design: GroupedDesign,
        target: Array,
        family: Family,
        batch_weights: Array,
        *,
        count: float,
        held_out: Sequence[Indices],
        gram: GramCache | None = None,
    ) -> None:
        """``count`` is the number of observations that batch 0 stands for."""
        self.problem = convex_problem(design, target, family, batch_weights)
        self.held_out: tuple[Indices, ...] = (np.arange(design.n_rows), *held_out)
        self.counts = count * batch_weights.sum(axis=1) / batch_weights[0].sum()
        self._gram = GramCache(design, target, batch_weights) if gram is None and family.is_quadratic else gram
        self._constants = self.problem.constants()
        self._rows = [np.flatnonzero(weights > 0) for weights in self.problem.weights]
        shape = (self.problem.n_outputs, design.n_groups, design.width)
        unknown = np.full((design.n_groups, 2), np.nan)
        self._states = [
            FoldState(unknown.copy(), 0.5, np.zeros(shape), constant.copy()) for constant in self._constants
        ]
        self._found: dict[tuple[int, bytes], Array] = {}

    def scores(self, batch: int, support: Indices) -> Array:
        """Return the scores of the batch's held-out rows under its fit on a support, shape (rows, outputs)."""
        key = batch, support.tobytes()
        if key not in self._found:
            if not support.size:
                self._found[key] = np.tile(self._constants[batch], (self.held_out[batch].size, 1))
            elif self.problem.family.is_quadratic:
                self._found[key] = self._squared(batch, support)
            else:
                self._found[key] = self._newton(batch, support)
        return self._found[key]

    def _squared(self, batch: int, support: Indices) -> Array:
        gram, state, count = self._gram, self._states[batch], self.counts[batch]
        assert gram is not None
        gram.add(support)
        columns = gram.rows_of(gram.index[support])
        hessian = count * gram.hessian[batch][np.ix_(columns, columns)]
        pull = count * gram.linear[batch][:, columns].T
        squares = count * float(np.sum(self.problem.weights[batch] * gram.centred[batch] ** 2))
        prior = Prior.of(self.problem.design, support, state, hessian.diagonal().mean() / state.noise)
        theta, freedom = pull, 0.0
        for _ in range(SQUARED_STEPS):
            factor = _factor(hessian / state.noise, prior.precision)
            theta = _solve(factor, pull / state.noise)
            before, freedom = freedom, prior.update(theta, [_variances(factor)], theta.shape[1])
            left = squares - float(np.sum(theta * (2.0 * pull - hessian @ theta)))
            degrees = max(count - freedom - 1.0, 1.0)
            state.noise = max(left / (theta.shape[1] * degrees), LEAST_NOISE)
            if abs(freedom - before) < FEW * (1.0 + freedom):
                break
        state.strengths[support] = prior.strengths
        intercept = gram.target_means[batch] - gram.means[batch, columns] @ theta
        rows = self.held_out[batch]
        read = gram.columns[columns] if batch == 0 else gram.columns[np.ix_(columns, rows)]
        return intercept + read.T @ theta.astype(read.dtype)

    def _newton(self, batch: int, support: Indices) -> Array:
        problem, state, family = self.problem, self._states[batch], self.problem.family
        everything = problem.design.columns(support)
        rows = self._rows[batch]
        columns = everything if rows.size == everything.shape[1] else everything[:, rows]
        target, weights = problem.target.T[rows], self.counts[batch] * problem.weights[batch, rows]
        theta = state.theta[:, support].reshape(problem.n_outputs, -1).T
        intercept = state.intercept
        scores = intercept + columns.T @ theta.astype(columns.dtype)
        working = WorkingProblem(family, target, weights, columns)
        prior, freedom, free = None, 0.0, problem.n_outputs - family.couples_outputs
        for _ in range(NEWTON_STEPS):
            noise = dispersion(family, scores, target, weights, freedom + 1.0)
            working.move(theta, scores)
            if prior is None:
                prior = Prior.of(problem.design, support, state, working.information / noise)
            goal, base = working.solve(prior.precision, noise)
            turn = base + columns.T @ goal.astype(columns.dtype) - scores
            step = _length(family, target, weights / noise, prior.precision, (theta, scores), (goal - theta, turn))
            theta, scores = theta + step * (goal - theta), scores + step * turn
            intercept = intercept + step * (base - intercept)
            before, freedom = freedom, prior.update(theta, working.variances(prior.precision, noise), free)
            if step == 1.0 and abs(freedom - before) < FEW * (1.0 + freedom):
                break
        assert prior is not None
        state.strengths[support], state.intercept = prior.strengths, intercept
        state.theta[:, support] = theta.T.reshape(problem.n_outputs, support.size, -1)
        read = everything if batch == 0 else everything[:, self.held_out[batch]]
        return intercept + read.T @ theta.astype(read.dtype)


class Prior:
    """The precisions of a support's columns, and the strengths a and b (groups, 2) that they come from."""

    def __init__(self, roughness: Array, strengths: Array) -> None:
        smooth = 1.0 / (1.0 + roughness)
        self._parts = np.stack([smooth, 1.0 - smooth], axis=2)  # (groups, m, 2)
        self.strengths = strengths

    @classmethod
    def of(cls, design: GroupedDesign, support: Indices, state: FoldState, information: float) -> Prior:
        """Return the prior with the strengths known so far; others get a share of the data's information."""
        known = state.strengths[support]
        return cls(design.roughness[support], np.where(np.isnan(known), WEAK * information, known))

    @property
    def precision(self) -> Array:
        """(a + be)/(1 + e) of every column, shape (groups · m,)."""
        return np.einsum("gmi,gi->gm", self._parts, self.strengths).ravel()

    def update(self, theta: Array, spreads: list[Array], free: int) -> float:
        """Take a step of Fellner and Schall from θ (columns, outputs); return the degrees of freedom of one output.

        ``spreads`` are posterior variances (columns,), one for all outputs or one for each; ``free`` is the number of
        outputs that are free to vary.
        """
        shape = self._parts.shape[:2]
        precision = self.precision
        gained = np.mean([1.0 / precision - spread for spread in spreads], axis=0)
        freedom = float(np.sum(precision * gained))
        parts, squares = free * gained.reshape(shape), np.sum(theta**2, axis=1).reshape(shape)
        above = np.maximum(np.einsum("gm,gmi->gi", parts, self._parts), 1e-12)
        below = np.maximum(np.einsum("gm,gmi->gi", squares, self._parts), 1e-14)
        self.strengths = np.clip(
            self.strengths * np.clip(above / below, 1.0 / LARGEST_STEP, LARGEST_STEP), LOWEST, HIGHEST
        )
        return freedom


class WorkingProblem:
    """The loss's second-order model about a point, the intercept eliminated.

    Outputs that share a bound on their curvature share one Hessian. It is summed anew only when the curvature has
    moved by more than `STALE`; the gradient is always that of the point.
    """

    def __init__(self, family: Family, target: Array, weights: Array, columns: Floats) -> None:
        self._family, self._target, self._weights, self._columns = family, target, weights, columns
        outputs = target.shape[1]
        self._parts = [slice(0, outputs)] if family.couples_outputs else [slice(k, k + 1) for k in range(outputs)]
        self._bends = np.zeros((target.shape[0], len(self._parts)))
        self._hessians: list[Array] = []
        self._means: list[Array] = []
        self._factors: list[Array] = []

    @property
    def information(self) -> float:
        """The mean diagonal of the Hessians."""
        return float(np.mean([hessian.diagonal().mean() for hessian in self._hessians]))

    def move(self, theta: Array, scores: Array) -> None:
        """Make the model about θ (columns, outputs) with its scores (rows, outputs)."""
        starts = [part.start for part in self._parts]
        bends = self._family.hessian_diagonal(scores, self._target)[:, starts]
        bends = self._weights[:, None] * np.maximum(bends, LIGHTEST)
        if not self._hessians or np.abs(bends - self._bends).sum() > STALE * self._bends.sum():
            self._bends = bends
            self._sum_hessians()
        self._theta, self._scores = theta, scores
        self._gradient = self._weights[:, None] * self._family.gradient(scores, self._target)

    def solve(self, precision: Array, noise: float) -> tuple[Array, Array]:
        """Return the minimiser θ (columns, outputs) under a prior precision (columns,), and its intercepts."""
        columns, goals, bases = self._columns, list[Array](), list[Array]()
        self._factors = []
        slopes = (columns @ self._gradient.astype(columns.dtype)).astype(np.float64)
        middle = self._scores - columns.T @ self._theta.astype(columns.dtype)
        for index, (part, hessian) in enumerate(zip(self._parts, self._hessians, strict=True)):
            means, total, theta = self._means[index], self._bends[:, index].sum(), self._theta[:, part]
            rest = self._gradient[:, part].sum(axis=0)
            pull: Array = hessian @ theta - (slopes[:, part] - means[:, None] * rest)
            factor = _factor(hessian / noise, precision)
            goal = _solve(factor, pull / noise)
            if self._family.couples_outputs:  # softmax does not see what all outputs share
                goal -= goal.mean(axis=1, keepdims=True)
            goals.append(goal)
            bases.append(middle[:, part].mean(axis=0) - rest / total - means @ (goal - theta))
            self._factors.append(factor)
        return np.hstack(goals), np.concatenate(bases)

    def variances(self, precision: Array, noise: float) -> list[Array]:
        """Return the posterior variances (columns,) of each output, or of all that share a Hessian.

        A bound that many classes share makes them look too sure, so their Hessian is brought to the mean curvature
        over the free directions first.
        """
        outputs = self._target.shape[1]
        if not self._family.couples_outputs or outputs == 2:
            return [_variances(factor) for factor in self._factors]
        free = (1.0 - np.sum(self._family.mean(self._scores) ** 2, axis=1)) / (outputs - 1.0)
        share = float(self._weights @ free) / float(self._bends[:, 0].sum())
        return [_variances(_factor(share / noise * self._hessians[0], precision))]

    def _sum_hessians(self) -> None:
        columns = self._columns
        self._hessians, self._means = [], []
        for bend in self._bends.T:
            total = float(bend.sum())
            means = (columns @ bend.astype(columns.dtype)).astype(np.float64) / total
            scaled = columns * np.sqrt(bend).astype(columns.dtype)
            self._hessians.append((scaled @ scaled.T).astype(np.float64) - total * np.outer(means, means))
            self._means.append(means)


def _factor(hessian: Array, precision: Array) -> Array:
    """Return the lower Cholesky factor of H + diag(precision); H is used up."""
    diagonal = np.diag_indices_from(hessian)
    hessian[diagonal] += precision + JITTER * hessian[diagonal].mean()
    return np.asarray(cholesky(hessian, lower=True, overwrite_a=True, check_finite=False), dtype=np.float64)


def _solve(factor: Array, right: Array) -> Array:
    return np.asarray(cho_solve((factor, True), right, check_finite=False), dtype=np.float64)


def _variances(factor: Array) -> Array:
    """Return the diagonal of the inverse, shape (columns,); the factor is used up."""
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    return inverse.diagonal().copy()


def _length(
    family: Family,
    target: Array,
    weights: Array,
    precision: Array,
    point: tuple[Array, Array],
    direction: tuple[Array, Array],
) -> float:
    """Return the first of 1, ½, ¼, … at which Σ w loss + ½ Σ p θ² is not above where it was; 0 if none is."""

    def objective(step: float) -> float:
        theta, scores = point[0] + step * direction[0], point[1] + step * direction[1]
        return float(weights @ family.loss(scores, target)) + 0.5 * float(precision @ np.sum(theta**2, axis=1))

    start, step = objective(0.0), 1.0
    for _ in range(HALVINGS):
        if objective(step) <= start + 1e-8 * abs(start):
            return step
        step *= 0.5
    return 0.0
