"""Relaxed fits: the model refitted on a support without the group penalty, under a light ridge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sparsenam.convex.design import Array, Floats, GroupedDesign, Indices
from sparsenam.convex.newton import STEP_HALVINGS
from sparsenam.families import Family

RIDGE = 1e-3
SMALLEST_RELAXED_BEND = 1e-6
RELAXED_STEPS = 100


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
        start, intercept = ridge_fit(columns, target, family, shares, ridge, start, intercept, tol=1e-13)
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
    for _ in range(RELAXED_STEPS):
        residuals = (-weights[:, None] * family.gradient(scores, target)).astype(table.dtype)
        pull = (table @ residuals).T.astype(np.float64) - decay * point
        bends = weights[:, None] * np.maximum(family.hessian_diagonal(scores, target), SMALLEST_RELAXED_BEND)
        step = np.stack([_solve(table, bend, decay, row) for bend, row in zip(bends.T, pull, strict=True)])
        if family.couples_outputs:  # softmax does not see what all outputs share, the ridge does
            step -= (point + step).mean(axis=0)
        promise = float(np.sum(pull * step))
        change, length = scores_of(step), 1.0
        for _ in range(STEP_HALVINGS):
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
