"""Poisson deviance for counts and rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from sparsenam.families.base import Array, Matrix, TargetRange
from sparsenam.families.exponential import bounded_exp


@dataclass(frozen=True, slots=True)
class Poisson:
    """eˢ - y s for y ≥ 0: the negative log-likelihood of counts with mean eˢ, up to a constant.

    With an exposure E, y with mean E eˢ has the loss of y/E with mean eˢ, times E: ``exposure_power`` is 1.
    """

    name: str = "poisson"
    link: str = "log"
    range: TargetRange = TargetRange(0.0, np.inf, "numbers not below 0")
    standardizes_target: bool = False
    curvature: float = np.inf
    exposure_power: float = 1.0

    def loss(self, scores: Array, target: Array) -> Array:
        """Return Σₖ eˢ - y s, shape (rows,)."""
        return (self.mean(scores) - target * scores).sum(-1)

    def gradient(self, scores: Array, target: Array) -> Array:
        """Return eˢ - y."""
        return self.mean(scores) - target

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        """Return eˢ: the Hessian itself."""
        return self.mean(scores)

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return Σₖ m log m - m, shape (rows,)."""
        return -np.sum(entr(mean) + mean, axis=-1)

    def mean(self, scores: Array) -> Array:
        """Return eˢ, finite for every score."""
        return bounded_exp(scores)

    def best_constant(self, target: Matrix, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithm of the weighted mean, kept finite when every y is 0."""
        return np.log(np.maximum(np.average(target, axis=0, weights=weights), 1e-6))
