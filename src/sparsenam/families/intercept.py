"""The best intercept for given effects."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsenam.families.base import Family, Matrix
from sparsenam.families.roots import increasing_root

STEPS = 500
SMALL = 1e-12


def best_intercept(
    family: Family, effects: Matrix, target: Matrix, weights: NDArray[np.float64], start: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return argmin over β of Σᵢ wᵢ loss(yᵢ, β + effectsᵢ), shape (outputs,).

    Each output has its own equation, solved by guarded Newton steps; squared error needs one of them. Only softmax
    ties the outputs together: there, steps of the mean gradient over the curvature bound never overshoot.
    """
    shares = (weights / weights.sum())[:, None]

    def slope(intercept: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.sum(shares * family.gradient(effects + intercept, target), axis=0)

    def bend(intercept: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.sum(shares * family.hessian_diagonal(effects + intercept, target), axis=0)

    intercept = np.array(start, dtype=np.float64)
    if family.name != "multinomial":
        return increasing_root(slope, bend, intercept)
    for _ in range(STEPS):
        change = slope(intercept)
        intercept = intercept - change / family.curvature
        if np.abs(change).max() < SMALL:
            break
    return intercept
