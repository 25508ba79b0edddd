"""Quadratic models of a loss, minimised by block descent on the rows: no Gram matrix, and softmax's whole Hessian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.design import Array, Floats
from sparsenam.convex.problem import SMALLEST_FLOAT

SMALLEST_CURVATURE = 1e-10
BLOCK_ROOT_STEPS = 12
ROOT_TOLERANCE = 1e-6  # of the last step: Newton's next error is about its square


@dataclass(frozen=True, slots=True, eq=False)
class RowModel:
    """½ Σᵢ cᵢᵀHᵢcᵢ - Σᵢ rᵢᵀcᵢ for changes c of the scores, shape (batches, outputs, rows), as all that follow.

    ``residuals`` r are minus the weighted gradient of the loss. Hᵢ = diag(``bends``), or with ``shares`` p of softmax,
    bends being wp, Hᵢ = w(diag(p) - ppᵀ). ``bounds`` is a diagonal that dominates Hᵢ.
    """

    residuals: Floats
    bends: Floats
    bounds: Floats
    shares: Floats | None

    def times(self, change: Floats) -> Floats:
        """Return Hᵢcᵢ; ``change`` is used up."""
        if self.shares is not None:
            change -= np.einsum("fon,fon->fn", self.shares, change)[:, None, :]
        change *= self.bends
        return change


def descend_on_rows(
    model: RowModel,
    constant_inverse: Array,
    columns: Floats,
    theta: Array,
    thresholds: Array,
    ridge: float,
    tol: float,
    max_sweeps: int,
) -> Array:
    """Minimise the model at c = β + Qᵀ(θ - θ₀), plus Σⱼ aⱼ‖θⱼ‖ + ½b‖θⱼ‖², over θ and β from θ₀ and 0.

    Sweeps visit the groups that are not zero and those that their gradient lets in, until no step gains about
    ``tol``. A visit costs two products with the group's columns, whatever the number of other groups.

    ``constant_inverse`` (batches, outputs, outputs) is the inverse of Σᵢ Hᵢ, ``columns`` (k·m, rows) is Q of k groups,
    ``theta`` (batches, outputs, k, m) is θ₀ and changed in place; ``thresholds`` a (batches, k) are infinite for groups
    that must stay out. Returns β, shape (batches, outputs).
    """
    blocks = columns.reshape(*theta.shape[2:], -1)
    metric, solvers = _metric(model.bounds, blocks, thresholds, ridge)
    left, shifts = model.residuals.copy(), np.zeros(theta.shape[:2])
    visiting = _wanted(left, columns, theta, thresholds)
    for _ in range(max_sweeps):
        shift = np.einsum("fop,fp->fo", constant_inverse, left.sum(axis=2, dtype=np.float64))
        shifts += shift
        left -= model.times(np.repeat(shift.astype(left.dtype)[:, :, None], left.shape[2], axis=2))
        largest, moved = 0.0, np.zeros_like(visiting)
        for k in np.flatnonzero(visiting).tolist():
            gain = _visit(model, left, blocks[k], theta[:, :, k], metric[k], thresholds[:, k], ridge, solvers.get(k))
            largest, moved[k] = max(largest, gain), gain > 0.0
        visiting = moved
        if largest < tol:
            moved = moved | theta.any(axis=(0, 1, 3))
            visiting = moved | _wanted(left, columns, theta, thresholds)
            if np.array_equal(visiting, moved):
                break
    return shifts


def _visit(
    model: RowModel,
    left: Floats,
    block: Floats,
    theta: Array,
    metric: Array,
    threshold: Array,
    ridge: float,
    solver: Array | None,
) -> float:
    """Move one group's θ (batches, outputs, m) and r - Hc in place; return about how much that gains.

    ``block`` has shape (m, rows), ``metric`` (batches, outputs), ``threshold`` (batches,), ``solver``
    (batches, outputs, m, m).
    """
    flat = left.reshape(-1, left.shape[2])  # a view: one product serves all batches and outputs
    pull = (flat @ block.T).astype(np.float64).reshape(theta.shape)
    if solver is None:
        step = shrunk(theta + pull / metric[:, :, None], metric, threshold, ridge, theta) - theta
    else:
        step = np.matmul((pull - ridge * theta)[:, :, None, :], solver)[:, :, 0]
    if model.shares is not None:
        # softmax does not see what all outputs share; without it every norm is smaller
        step -= (theta + step).mean(axis=1, keepdims=True)
    gain = float(np.einsum("fom,fom,fo->f", step, step, metric).max())
    if gain > 0.0:
        theta += step
        change = step.astype(left.dtype).reshape(len(flat), -1) @ block
        left -= model.times(change.reshape(left.shape))
    return gain


def shrunk(point: Array, metric: Array, threshold: Array, ridge: float, guess: Array) -> Array:
    """Return the θ, shape (batches, outputs, m), that minimises ½ Σₒ hₒ‖θₒ - vₒ‖² + a‖θ‖ + ½b‖θ‖² for each batch.

    It is 0 where ‖hv‖ ≤ a. Elsewhere θₒ = hₒvₒ t/((hₒ + b)t + a) with t = ‖θ‖, the root of
    1/√(Σₒ ‖hₒvₒ‖²/((hₒ + b)t + a)²) = 1. The left side is concave and rises, so that Newton's steps, whatever
    their start, come from below after the first. ``point`` is v and ``guess`` a point whose length is perhaps near that
    of θ, shape (batches, outputs, m); ``metric`` is h > 0 (batches, outputs), ``threshold`` a (batches,).
    """
    squares = metric**2 * np.einsum("fom,fom->fo", point, point)
    stretched = metric + ridge
    least = (np.sqrt(squares.sum(axis=1)) - threshold) / stretched.max(axis=1)
    outside = least > 0.0
    if not outside.any():
        return np.zeros_like(point)
    length = least = np.where(outside, least, 1.0)  # any number: a θ inside is 0
    if metric.shape[1] > 1:
        length = np.maximum(least, np.sqrt(np.einsum("fom,fom->f", guess, guess)))
        for _ in range(BLOCK_ROOT_STEPS):
            below = stretched * length[:, None] + threshold[:, None]
            terms = squares / below**2
            total = terms.sum(axis=1) + SMALLEST_FLOAT
            step = total * (np.sqrt(total) - 1.0) / ((terms * stretched / below).sum(axis=1) + SMALLEST_FLOAT)
            length = np.maximum(length + step, least)
            if (np.abs(step) <= ROOT_TOLERANCE * length)[outside].all():
                break
    factor = metric * length[:, None] / (stretched * length[:, None] + threshold[:, None])
    return np.where(outside[:, None, None], point * factor[:, :, None], 0.0)


def _metric(bounds: Floats, blocks: Floats, thresholds: Array, ridge: float) -> tuple[Array, dict[int, Array]]:
    """Return the top eigenvalues of Qⱼ diag(bounds) Qⱼᵀ, shape (groups, batches, outputs), and some inverses.

    Inverses (batches, outputs, m, m) are those of the groups without a threshold, which have no shrinkage to help
    along their flat directions.
    """
    count, width, rows = blocks.shape
    upper = np.triu_indices(width)
    grams = np.empty((count, *bounds.shape[:2], width, width))
    for block, gram in zip(blocks, grams, strict=True):
        sums = bounds.reshape(-1, rows) @ (block[upper[0]] * block[upper[1]]).T
        gram[..., upper[0], upper[1]] = gram[..., upper[1], upper[0]] = sums.reshape(*bounds.shape[:2], -1)
    solvers: dict[int, Array] = {}
    for k in np.flatnonzero(thresholds[0] == 0.0).tolist():
        penalised = grams[k] + ridge * np.eye(width)
        solvers[k] = np.asarray(np.linalg.pinv(penalised, rcond=1e-9, hermitian=True), dtype=np.float64)
    tops = np.asarray(np.linalg.eigvalsh(grams)[..., -1], dtype=np.float64)
    return np.maximum(tops, SMALLEST_CURVATURE), solvers


def _wanted(left: Floats, columns: Floats, theta: Array, thresholds: Array) -> NDArray[np.bool_]:
    """Return which groups are not zero or have a gradient above their threshold, shape (groups,)."""
    pulls = (left.reshape(-1, left.shape[2]) @ columns.T).reshape(theta.shape)
    norms = np.sqrt(np.einsum("fopm,fopm->fp", pulls, pulls))
    return (norms > thresholds).any(axis=0) | theta.any(axis=(0, 1, 3))
