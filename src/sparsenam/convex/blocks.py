"""Block coordinate descent on a quadratic with a group penalty, many problems at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenam.convex.design import Array

SMALLEST_CURVATURE = 1e-10
TINY = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Quadratic:
    """½ θᵀHθ - qᵀθ over k groups of m, for every batch and output.

    Attributes
    ----------
    hessian
        Shape (batches, ≥ k·m, ≥ k·m) when all outputs share it, (batches, outputs, k·m, k·m) otherwise.
    inverse_curvatures
        One over the largest eigenvalue of each diagonal block, shape (k, batches).
    """

    hessian: Array
    inverse_curvatures: Array


def inverse_curvatures(hessian: Array, n_groups: int, width: int, first: int = 0) -> Array:
    """Return one over the top eigenvalue of the diagonal blocks ``first`` … , shape (n_groups, batches)."""
    places = [slice((first + i) * width, (first + i + 1) * width) for i in range(n_groups)]
    diagonal = np.stack([hessian[..., place, place] for place in places])
    top = np.linalg.eigvalsh(diagonal)[..., -1]
    if top.ndim == 3:  # one Hessian for each output: a group's step must suit all of them
        top = top.max(axis=2)
    return 1.0 / np.maximum(top, SMALLEST_CURVATURE)


def descend(
    quadratic: Quadratic,
    theta: Array,
    pull: Array,
    groups: list[int],
    thresholds: Array,
    ridge: float,
    tol: float,
    max_sweeps: int,
) -> int:
    """Sweep over the groups until no step lowers the model by about ``tol``; return the sweeps done.

    A group's step minimises its majorised model exactly: with v = θⱼ + pullⱼ/Lⱼ,
    θⱼ ← (1 - aⱼ/(Lⱼ‖v‖))₊ v / (1 + b/Lⱼ). Where a block is orthonormal this is its exact minimiser. A group
    without a threshold has no shrinkage to help along its flat directions, so its own system is solved instead.
    After a first full sweep only groups that are not zero are visited, until they settle; then all again.

    Parameters
    ----------
    theta
        Current point, shape (batches, outputs, k, m); changed in place.
    pull
        q - Hθ, shape (batches, outputs, k·m); kept up to date in place.
    groups
        Positions, 0 … k - 1, that may move.
    thresholds
        a, shape (k,), infinite for a group that must stay out.
    ridge
        b ≥ 0.
    """
    batches, outputs, count, width = theta.shape
    pulls = pull.reshape(batches, outputs, count, width)
    inverse = quadratic.inverse_curvatures
    bars = thresholds[:, None] * inverse
    decay = 1.0 / (1.0 + ridge * inverse)
    solvers = {k: _block_inverse(quadratic.hessian, k, width, ridge) for k in groups if thresholds[k] == 0.0}
    visiting, everything = groups, True
    for sweep in range(1, max_sweeps + 1):
        largest = 0.0
        moving: list[int] = []
        for k in visiting:
            old = theta[:, :, k]
            if k in solvers:
                step = _times(pulls[:, :, k] - ridge * old, solvers[k])
                moving.append(k)
                largest = max(largest, _take(quadratic.hessian, theta, pull, k, step, inverse[k]))
                continue
            target = old + pulls[:, :, k] * inverse[k][:, None, None]
            length = np.sqrt(np.einsum("fom,fom->f", target, target))
            keep = np.maximum(0.0, 1.0 - bars[k] / np.maximum(length, TINY)) * decay[k]
            if not keep.any() and not old.any():
                continue
            moving.append(k)
            step = target * keep[:, None, None] - old
            largest = max(largest, _take(quadratic.hessian, theta, pull, k, step, inverse[k]))
        if largest < tol:
            if everything:
                return sweep
            visiting, everything = groups, True
        else:
            visiting, everything = moving, False
    return max_sweeps


def _take(hessian: Array, theta: Array, pull: Array, k: int, step: Array, inverse: Array) -> float:
    """Move group k by ``step`` (batches, outputs, m) in place; return about how much that gains."""
    gain = float((np.einsum("fom,fom->f", step, step) / inverse).max())
    if gain > 0.0:
        count, width = theta.shape[2:]
        theta[:, :, k] += step
        pull -= _times(step, hessian[..., k * width : (k + 1) * width, : count * width])
    return gain


def _times(vectors: Array, matrices: Array) -> Array:
    """Return vectors (batches, outputs, m) times matrices that the outputs share or have one each."""
    if matrices.ndim == 3:
        return np.matmul(vectors, matrices)
    return np.matmul(vectors[:, :, None, :], matrices)[:, :, 0]


def _block_inverse(hessian: Array, k: int, width: int, ridge: float) -> Array:
    rows = slice(k * width, (k + 1) * width)
    block = hessian[..., rows, rows] + ridge * np.eye(width)
    return np.linalg.pinv(block, rcond=1e-9, hermitian=True).astype(np.float64, copy=False)
