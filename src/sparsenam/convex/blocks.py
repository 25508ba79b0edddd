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
    θⱼ ← (1 - aⱼ/(Lⱼ‖v‖))₊ v / (1 + b/Lⱼ). Where a block is orthonormal this is its exact minimiser.
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
    size = count * width
    inverse = quadratic.inverse_curvatures
    bars = thresholds[:, None] * inverse
    decay = 1.0 / (1.0 + ridge * inverse)
    visiting, everything = groups, True
    for sweep in range(1, max_sweeps + 1):
        largest = 0.0
        moving: list[int] = []
        for k in visiting:
            old = theta[:, :, k]
            target = old + pulls[:, :, k] * inverse[k][:, None, None]
            length = np.sqrt(np.einsum("fom,fom->f", target, target))
            keep = np.maximum(0.0, 1.0 - bars[k] / np.maximum(length, TINY)) * decay[k]
            if not keep.any() and not old.any():
                continue
            moving.append(k)
            step = target * keep[:, None, None] - old
            gain = float((np.einsum("fom,fom->f", step, step) / inverse[k]).max())
            if gain == 0.0:
                continue
            theta[:, :, k] += step
            rows = slice(k * width, (k + 1) * width)
            if quadratic.hessian.ndim == 3:
                pull -= np.matmul(step, quadratic.hessian[:, rows, :size])
            else:
                pull -= np.matmul(step[:, :, None, :], quadratic.hessian[:, :, rows, :size])[:, :, 0]
            largest = max(largest, gain)
        if largest < tol:
            if everything:
                return sweep
            visiting, everything = groups, True
        else:
            visiting, everything = moving, False
    return max_sweeps
