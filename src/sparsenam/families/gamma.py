"""Gamma deviance for positive amounts whose spread grows with their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.special import entr

from sparsenam.families.base import Array, Matrix, TargetRange
from sparsenam.families.exponential import bounded_exp

SMALLEST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True)
class Gamma:
    """y e⁻ˢ + s for y > 0: the negative log-likelihood with mean eˢ and variance φ e²ˢ, times φ, up to a constant.

    An exposure E cancels: y with mean E eˢ is y/E with mean eˢ and the same weight, hence ``exposure_power`` 0.
    """

    name: str = "gamma"
    link: str = "log"
    range: TargetRange = TargetRange(SMALLEST, np.inf, "numbers above 0")
    standardizes_target: bool = False
    curvature: float = np.inf
    exposure_power: float = 0.0

    def loss(self, scores: Array, target: Array) -> Array:
        """Return Σₖ y e⁻ˢ + s, shape (rows,)."""
        return (self._ratio(scores, target) + scores).sum(-1)

    def gradient(self, scores: Array, target: Array) -> Array:
        """Return 1 - y e⁻ˢ."""
        return 1.0 - self._ratio(scores, target)

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        """Return y e⁻ˢ: the Hessian itself."""
        return self._ratio(scores, target)

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return Σₖ b log(b/y) - b with b = 1 - (m - y), shape (rows,); +∞ for b < 0."""
        rest = 1.0 - (mean - target)
        # m - y has lost digits when y is large, and must not fall out of the domain by that
        rest = np.where(np.abs(rest) < 1e-14 * (1.0 + np.abs(target)), 0.0, rest)
        return -np.sum(entr(rest) + rest * (1.0 + np.log(target)), axis=-1)

    def mean(self, scores: Array) -> Array:
        """Return eˢ, finite for every score."""
        return bounded_exp(scores)

    def best_constant(self, target: Matrix, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithm of the weighted mean."""
        return np.log(np.average(target, axis=0, weights=weights))

    def _ratio(self, scores: Any, target: Any) -> Any:
        """Return y e⁻ˢ, finite for every score."""
        return bounded_exp(array_namespace(scores).log(target) - scores)
