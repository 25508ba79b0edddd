"""The best intercept for given effects."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsenam.families.base import Family, Matrix

STEPS = 500
SMALL = 1e-12


def best_intercept(
    family: Family, effects: Matrix, target: Matrix, weights: NDArray[np.float64], start: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return argmin over β of Σᵢ wᵢ loss(yᵢ, β + effectsᵢ), shape (outputs,).

    Steps of the mean gradient over the curvature bound never overshoot; squared error needs one of them.
    Where no bound exists (Poisson), Newton steps of at most 1 are taken.
    """
    intercept = np.array(start, dtype=np.float64)
    for _ in range(STEPS):
        scores = effects + intercept
        slope = np.average(family.gradient(scores, target), axis=0, weights=weights)
        if np.isfinite(family.curvature):
            intercept = intercept - slope / family.curvature
        else:
            bend = np.average(family.hessian_diagonal(scores, target), axis=0, weights=weights)
            intercept = intercept - np.clip(slope / np.maximum(bend, SMALL), -1.0, 1.0)
        if np.abs(slope).max() < SMALL:
            break
    return intercept
