"""Relaxed fits: the model refitted on a support without the group penalty, under a light ridge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sparsenam.convex.design import Array, Floats, GroupedDesign, Indices
from sparsenam.convex.problem import ConvexPoint, convex_problem
from sparsenam.convex.squared import GramCache
from sparsenam.families import Family

RIDGE = 1e-3
# With a logarithmic link a fold's fit runs away where few rows hold it: true columns of Tweedie targets were found
# in 4 of 6 samples with 0.001, 5 with 0.01, 6 with 0.03 and 0.1
RIDGE_OF_LOGARITHMS = 3e-2
SMALLEST_BEND = 1e-6
STEPS = 100
HALVINGS = 20


def refit_on(
    design: GroupedDesign,
    target: Array,
    family: Family,
    weights: Array,
    support: Sequence[int] | Indices,
    ridge: float = RIDGE,
) -> tuple[Array, Array]:
    """Return θ, shape (support, m, outputs), and β, shape (outputs,), of the relaxed fit on a support.

    They minimise Σᵢ wᵢ loss(yᵢ, β + Σⱼ Qⱼ,ᵢ θⱼ) + ½ ridge ‖θ‖², weights adding up to 1.
    """
    chosen = np.asarray(support, dtype=np.intp)
    columns = design.columns(chosen).astype(np.float64)
    start = np.zeros((target.shape[1], len(columns)))
    shares = weights / weights.sum()
    intercept = family.best_constant(target, shares)
    if chosen.size:
        start, intercept = ridge_fit(columns, target, family, shares, ridge, start, intercept, tol=1e-10)
    return start.reshape(target.shape[1], chosen.size, design.width).transpose(1, 2, 0).copy(), intercept


def ridge_fit(
    columns: Floats,
    target: Array,
    family: Family,
    weights: Array,
    ridge: float,
    theta: Array,
    intercept: Array,
    tol: float = 1e-5,
) -> tuple[Array, Array]:
    """Minimise Σ w loss + ½ ridge ‖θ‖² by Newton steps, from a start.

    Each output has a Hessian: exact for all families but the multinomial, where it is a bound.

    Parameters
    ----------
    columns
        Shape (k, rows).
    theta, intercept
        The start, shapes (outputs, k) and (outputs,).
    tol
        Stop when a step promises less than this, relative to the loss.
    """
    ones = np.ones((1, columns.shape[1]), columns.dtype)
    table = np.concatenate([columns, ones])
    size = len(columns)
    point = np.concatenate([theta, intercept[:, None]], axis=1)
    decay = np.append(np.full(size, ridge), 0.0)

    def scores_of(parameters: Array) -> Array:
        return (parameters.astype(table.dtype) @ table).astype(np.float64).T

    scores = scores_of(point)
    objective = float(weights @ family.loss(scores, target) + 0.5 * np.sum(decay * point**2))
    for _ in range(STEPS):
        residuals = (-weights[:, None] * family.gradient(scores, target)).astype(table.dtype)
        pull = (table @ residuals).T.astype(np.float64) - decay * point
        bends = weights[:, None] * np.maximum(family.hessian_diagonal(scores, target), SMALLEST_BEND)
        step = np.stack([_solve(table, bend, decay, row) for bend, row in zip(bends.T, pull, strict=True)])
        if family.couples_outputs:  # softmax does not see what all outputs share, the ridge does
            step -= (point + step).mean(axis=0)
        promise = float(np.sum(pull * step))
        change, length = scores_of(step), 1.0
        for _ in range(HALVINGS):
            moved = point + length * step
            loss = weights @ family.loss(scores + length * change, target)
            after = float(loss + 0.5 * np.sum(decay * moved**2))
            if after <= objective - 1e-4 * length * promise:
                break
            length *= 0.5
        else:
            break  # rounding: nothing left to gain
        point, scores, objective = moved, scores + length * change, after
        if promise < tol or family.is_quadratic:
            break
    return point[:, :size], point[:, size]


def _solve(table: Floats, bend: Array, decay: Array, pull: Array) -> Array:
    scaled = table * np.sqrt(bend).astype(table.dtype)
    hessian = np.asarray(scaled @ scaled.T, dtype=np.float64)
    hessian[np.diag_indices_from(hessian)] += decay + 1e-12 * np.trace(hessian) / len(hessian)
    return _cholesky_solve(hessian, pull)


def _cholesky_solve(matrix: Array, right: Array) -> Array:
    """Return matrix⁻¹ right; the matrix is used up."""
    return np.asarray(cho_solve(cho_factor(matrix, overwrite_a=True, check_finite=False), right))


class RelaxedFits:
    """Held-out scores of relaxed fits, remembered by batch and support.

    Give the same ``gram`` to ``convex_path``: squared loss then refits from sums already made.

    Attributes
    ----------
    held_out
        For each batch, the rows to score; by default those it leaves out of batch 0, and all rows for batch 0.
    """

    def __init__(
        self,
        design: GroupedDesign,
        target: Array,
        family: Family,
        batch_weights: Array,
        *,
        ridge: float | None = None,
        gram: GramCache | None = None,
        held_out: Sequence[Indices] | None = None,
    ) -> None:
        self.problem = convex_problem(design, target, family, batch_weights)
        self.ridge = (RIDGE_OF_LOGARITHMS if family.link == "log" else RIDGE) if ridge is None else ridge
        weights = self.problem.weights
        left = [np.flatnonzero((batch == 0) & (weights[0] > 0)) for batch in weights[1:]]
        self.held_out: tuple[Indices, ...] = (np.arange(design.n_rows), *(left if held_out is None else held_out))
        self._kept = [np.flatnonzero(batch > 0) for batch in weights]
        self._gram = GramCache(design, target, weights) if gram is None else gram
        self._constants = self.problem.constants()
        self._found: dict[tuple[int, tuple[int, ...]], Array] = {}

    def scores(self, batch: int, support: Indices, point: ConvexPoint | None = None) -> Array:
        """Return the scores of the held-out rows, shape (held-out rows, outputs).

        ``point`` lends its penalised fit as a start where Newton steps are needed.
        """
        key = (batch, tuple(int(j) for j in support))
        if key not in self._found:
            rows = self.held_out[batch]
            if not key[1]:
                self._found[key] = np.tile(self._constants[batch], (rows.size, 1))
            elif self.problem.family.is_quadratic:
                self._found[key] = self._squared(batch, support, rows)
            else:
                self._found[key] = self._newton(batch, support, rows, point)
        return self._found[key]

    def _squared(self, batch: int, support: Indices, rows: Indices) -> Array:
        gram = self._gram
        gram.add(support)
        indices = gram.rows_of(gram.index[support])
        hessian = gram.hessian[batch][np.ix_(indices, indices)]
        hessian[np.diag_indices_from(hessian)] += self.ridge
        theta = _cholesky_solve(hessian, gram.linear[batch][:, indices].T)
        intercept = gram.target_means[batch] - gram.means[batch, indices] @ theta
        columns = gram.columns[indices] if batch == 0 else gram.columns[np.ix_(indices, rows)]
        return intercept + columns.T @ theta.astype(columns.dtype)

    def _newton(self, batch: int, support: Indices, rows: Indices, point: ConvexPoint | None) -> Array:
        columns = self.problem.design.columns(support)
        start = np.zeros((self.problem.n_outputs, len(columns)))
        intercept = self._constants[batch]
        if point is not None and np.isin(support, point.active).all():
            indices = np.searchsorted(point.active, support)
            start = point.values[batch][indices].transpose(2, 0, 1).reshape(start.shape)
            intercept = point.intercepts[batch]
        kept = self._kept[batch]
        inside = columns if kept.size == columns.shape[1] else columns[:, kept]
        weights, target = self.problem.weights[batch, kept], self.problem.target.T[kept]
        family = self.problem.family
        theta, intercept = ridge_fit(inside, target, family, weights, self.ridge, start, intercept)
        return intercept + (theta.astype(columns.dtype) @ columns[:, rows]).T


def relaxed_scores(fits: RelaxedFits, point: ConvexPoint) -> Array:
    """Return the held-out scores of the relaxed fits at a path point, shape (rows, outputs).

    A row gets the score of the last batch that leaves it out, and NaN when none does.
    """
    scores = np.full((fits.problem.design.n_rows, fits.problem.n_outputs), np.nan)
    for batch in range(1, fits.problem.n_batches):
        scores[fits.held_out[batch]] = fits.scores(batch, point.supports[batch], point)
    return scores
