"""Squared error for one target or several."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from sparsenam.families.base import Array, Matrix, TargetRange


@dataclass(frozen=True, slots=True)
class Gaussian:
    """½ Σₖ (score - y)²; several outputs make it the multi-task model with one group over all outputs."""

    name: str = "gaussian"
    link: str = "identity"
    range: TargetRange = TargetRange()
    standardizes_target: bool = True
    curvature: float = 1.0

    def loss(self, scores: Array, target: Array) -> Array:
        """Return ½ Σₖ (score - y)², shape (rows,)."""
        return (0.5 * (scores - target) ** 2).sum(-1)

    def gradient(self, scores: Array, target: Array) -> Array:
        """Return score - y."""
        return scores - target

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        """Return ones: the Hessian itself."""
        return array_namespace(scores).ones_like(scores)

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return ½ Σₖ (mean² - y²), shape (rows,)."""
        return 0.5 * np.sum(mean**2 - target**2, axis=-1)

    def mean(self, scores: Array) -> Array:
        """Return the scores."""
        return scores

    def best_constant(self, target: Matrix, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted mean."""
        return np.average(target, axis=0, weights=weights)
