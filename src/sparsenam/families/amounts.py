"""Families of amounts: Gamma for positive ones, Tweedie for those that are often 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.special import entr

from sparsenam.errors import InputError, describe
from sparsenam.families.base import (
    FAMILIES,
    Array,
    Family,
    Matrix,
    TargetRange,
    Vector,
    bounded_exp,
    log_mean,
    numeric_conjugate,
)

SMALLEST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True)
class Gamma(Family):
    """y e⁻ˢ + s for y > 0: the negative log-likelihood with mean eˢ and variance φ e²ˢ, times φ, up to a constant.

    An exposure E cancels: y with mean E eˢ is y/E with mean eˢ and the same weight, hence ``exposure_power`` 0.
    """

    name = "gamma"
    link = "log"
    range = TargetRange(SMALLEST, np.inf, "numbers above 0")
    response = "amount"
    dispersion = "pearson"
    variance_power = 2.0
    exposure_power = 0.0

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

    def best_constant(self, target: Matrix, weights: Vector) -> Vector:
        """Return the logarithm of the weighted mean."""
        return log_mean(target, weights, least=0.0)

    def _ratio(self, scores: Any, target: Any) -> Any:
        """Return y e⁻ˢ, finite for every score."""
        return bounded_exp(array_namespace(scores).log(target) - scores)


@dataclass(frozen=True, slots=True)
class Tweedie(Family):
    """y e^((1-p)s)/(p-1) + e^((2-p)s)/(2-p) for y ≥ 0: mean eˢ, variance φ e^(ps), a mass at 0.

    Parameters
    ----------
    power
        p with 1 < p < 2: a sum of a Poisson number of Gamma amounts. Towards 1 it is Poisson, towards 2 Gamma.
        With an exposure E, y with mean E eˢ has the loss of y/E with mean eˢ, times E^(2-p).
    """

    power: float = 1.5
    variance_power: float = field(init=False, repr=False)
    exposure_power: float | None = field(init=False, repr=False)
    name = "tweedie"
    link = "log"
    range = TargetRange(0.0, np.inf, "numbers not below 0")
    response = "amount"
    dispersion = "pearson"

    def __post_init__(self) -> None:
        if not 1.0 < self.power < 2.0:
            remedy = "use 'poisson' for 1, 'gamma' for 2"
            raise InputError(describe("power of Tweedie", "a number above 1 and below 2", f"{self.power}", remedy))
        object.__setattr__(self, "variance_power", self.power)
        object.__setattr__(self, "exposure_power", 2.0 - self.power)

    def loss(self, scores: Array, target: Array) -> Array:
        """Return Σₖ y e^((1-p)s)/(p-1) + e^((2-p)s)/(2-p), shape (rows,)."""
        share, size = self._parts(scores, target)
        return (share / (self.power - 1.0) + size / (2.0 - self.power)).sum(-1)

    def gradient(self, scores: Array, target: Array) -> Array:
        """Return e^((2-p)s) - y e^((1-p)s)."""
        share, size = self._parts(scores, target)
        return size - share

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        """Return (2-p) e^((2-p)s) + (p-1) y e^((1-p)s): the Hessian itself."""
        share, size = self._parts(scores, target)
        return (2.0 - self.power) * size + (self.power - 1.0) * share

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return Σₖ sup over s of (m - y)s - loss, shape (rows,); closed for y = 0, else by Newton steps.

        With s = log y + v the slope a = m - y is met where e^((2-p)v) - e^((1-p)v) = a y^(p-2); for p = 3/2 the
        left is 2 sinh(v/2), whose inverse starts the steps.
        """
        target = np.broadcast_to(target, mean.shape)
        slope, none = mean - target, target == 0
        safe = np.where(none, 1.0, target)
        start = np.log(safe) + 2.0 * np.arcsinh(0.5 * slope * safe ** (self.power - 2.0))
        values = numeric_conjugate(self, slope[..., None], safe[..., None], start[..., None])
        rest = 2.0 - self.power
        size = np.where(slope > 0, slope, 1.0)
        at_none = np.where(slope > 0, size * (np.log(size) - 1.0) / rest, np.where(slope < 0, np.inf, 0.0))
        return np.where(none, at_none, values).sum(axis=-1)

    def mean(self, scores: Array) -> Array:
        """Return eˢ, finite for every score."""
        return bounded_exp(scores)

    def best_constant(self, target: Matrix, weights: Vector) -> Vector:
        """Return the logarithm of the weighted mean, kept finite when every y is 0."""
        return log_mean(target, weights)

    def _parts(self, scores: Any, target: Any) -> tuple[Any, Any]:
        """Return y e^((1-p)s) and e^((2-p)s), each finite for every score."""
        xp = array_namespace(scores)
        inverse = bounded_exp((1.0 - self.power) * scores, xp.log(xp.clip(target, min=1.0)))
        return target * inverse, bounded_exp((2.0 - self.power) * scores)


FAMILIES.update(gamma=Gamma, tweedie=Tweedie)
