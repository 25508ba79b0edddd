"""Center and spread that outliers cannot move."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsenam.families.base import Matrix

Vector = NDArray[np.float64]

NORMAL = 1.4826022185056018  # standard deviation of a normal variable over its median absolute deviation


def weighted_quantile(target: Matrix, weights: Vector, level: float) -> Vector:
    """Return for each output the smallest y with at least ``level`` of the weight up to it, shape (outputs,)."""
    order = np.argsort(target, axis=0, kind="stable")
    reached = np.cumsum(weights[order], axis=0)
    place = np.argmax(reached >= level * reached[-1] * (1.0 - 1e-12), axis=0)
    chosen = np.take_along_axis(order, place[None], axis=0)
    return np.take_along_axis(target, chosen, axis=0)[0]


def robust_center_and_scale(target: Matrix, weights: Vector) -> tuple[Vector, Vector]:
    """Return the weighted medians and 1.4826 median |y - median|, each of shape (outputs,).

    Where more than half of the weight lies on one value, the second would be 0 and is the standard deviation.
    """
    center = weighted_quantile(target, weights, 0.5)
    distances = np.abs(target - center)
    scale = NORMAL * weighted_quantile(distances, weights, 0.5)
    deviation = np.sqrt(np.average(distances**2, axis=0, weights=weights))
    return center, np.where(scale > 0, scale, deviation)
