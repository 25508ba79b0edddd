"""Families of counts and amounts, with mean eˢ: Poisson and negative binomial; Gamma, and Tweedie for many zeros."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from array_api_compat import array_namespace
from scipy.optimize import minimize_scalar
from scipy.special import entr, gammaln

from sparsenam.errors import InputError, describe
from sparsenam.families.base import (
    ESTIMATING,
    SMALLEST_FLOAT,
    Array,
    Dispersion,
    Family,
    Matrix,
    TargetRange,
    Vector,
    bounded_exp,
    known_number,
    numeric_conjugate,
    softplus,
)


@dataclass(frozen=True, slots=True)
class LogFamily(Family):
    """A family whose score is the logarithm of the mean."""

    link = "log"

    def mean(self, scores: Array) -> Array:
        return bounded_exp(scores)

    def best_constant(self, target: Matrix, weights: Vector) -> Vector:
        """Return the logarithm of the weighted mean, kept finite when every y is 0."""
        return np.log(np.maximum(np.average(target, axis=0, weights=weights), 1e-6))


@dataclass(frozen=True, slots=True)
class Poisson(LogFamily):
    """eˢ - y s for y ≥ 0: the negative log-likelihood of counts with mean eˢ, up to a constant.

    With an exposure E, y with mean E eˢ has the loss of y/E with mean eˢ, times E: ``exposure_power`` is 1. The
    ``dispersion`` "pooled" estimates the variance as a multiple of the mean (quasi-likelihood), so that curves do not
    follow the noise of counts that vary more than Poisson's; "fixed" takes Poisson's variance.
    """

    dispersion: Dispersion = "pooled"
    name = "poisson"
    range = TargetRange(0.0, np.inf, "numbers not below 0")
    response = "count"
    variance_power = 1.0
    exposure_power = 1.0

    def loss(self, scores: Array, target: Array) -> Array:
        return (self.mean(scores) - target * scores).sum(-1)

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        return self.mean(scores)

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return Σₖ m log m - m, shape (rows,)."""
        return -np.sum(entr(mean) + mean, axis=-1)


# of an estimated overdispersion; at the least it is Poisson for all purposes
LEAST_OVERDISPERSION, MOST_OVERDISPERSION = 1e-6, 1e4


@dataclass(frozen=True, slots=True)
class NegativeBinomial(LogFamily):
    """(y + 1/κ) log(1 + κeˢ) - y s for counts y: mean μ = eˢ, variance μ + κμ² (NB2).

    ``overdispersion`` is κ > 0; towards 0 the family becomes Poisson. "auto" stands for a κ yet to be estimated: fit
    `first_family`, then go on with `estimated`. ``exposure_power`` is None: with mean E eˢ the variance Eμ + κE²μ² has
    another shape than that of y/E with any weight, so an exposure cannot be turned into one.
    """

    overdispersion: float | Literal["auto"] = 1.0
    name = "negative_binomial"
    range = TargetRange(0.0, np.inf, "numbers not below 0")
    response = "count"
    dispersion = "fixed"

    def __post_init__(self) -> None:
        if self.overdispersion != "auto" and not (0.0 < self.overdispersion < np.inf):
            got, remedy = repr(self.overdispersion), "use 'poisson' for 0"
            where = "overdispersion of NegativeBinomial"
            raise InputError(describe(where, "a number above 0 or 'auto'", got, remedy))

    @property
    def first_family(self) -> Poisson | None:
        """The family whose fit gives the means for `estimated`; None when κ is known."""
        return Poisson() if self.overdispersion == "auto" else None

    def estimated(self, scores: Matrix, target: Matrix, weights: Vector) -> Self:
        """Return the family with κ estimated from the first fit's scores (rows, outputs)."""
        return replace(self, overdispersion=estimated_overdispersion(self.mean(scores), target, weights))

    def loss(self, scores: Array, target: Array) -> Array:
        known = self._known()
        return ((target + 1.0 / known) * softplus(scores + math.log(known)) - target * scores).sum(-1)

    def gradient(self, scores: Array, target: Array) -> Array:
        mean = self.mean(scores)
        return (mean - target) / (1.0 + self._known() * mean)

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        """Return μ(1 + κy)/(1 + κμ)²: the Hessian itself."""
        mean, known = self.mean(scores), self._known()
        below = 1.0 + known * mean
        return (mean / below) * ((1.0 + known * target) / below)

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return Σₖ (y + 1/κ)(q log q + (1-q) log(1-q)) - m log κ with q = m/(y + 1/κ), shape (rows,)."""
        known = self._known()
        total = target + 1.0 / known
        share = mean / total
        share = np.where(np.abs(share - 1.0) < 1e-14, 1.0, share)
        return -np.sum(total * (entr(share) + entr(1.0 - share)) + mean * math.log(known), axis=-1)

    def _known(self) -> float:
        return known_number("overdispersion of NegativeBinomial", self.overdispersion)


def estimated_overdispersion(mean: Matrix, target: Matrix, weights: Vector) -> float:
    """Return the most likely κ for given means: the maximum over κ of Σᵢ wᵢ log NB(yᵢ; μᵢ, κ).

    One κ serves all outputs of mean and target (rows, outputs), with weights (rows,). Counts that vary no more than
    Poisson's give 1e-6.
    """
    shares = (weights / weights.sum())[:, None]
    safe = np.maximum(mean, SMALLEST_FLOAT)

    def cost(log_known: float) -> float:
        known = math.exp(log_known)
        size = 1.0 / known
        chances = gammaln(target + size) - gammaln(size) + target * np.log(known * safe)
        return -float(np.sum(shares * (chances - (target + size) * np.log1p(known * safe))))

    # ln Γ(y + 1/κ) - ln Γ(1/κ) loses digits as κ falls: a coarse walk first, so that noise is no minimum
    grid = np.linspace(math.log(LEAST_OVERDISPERSION), math.log(MOST_OVERDISPERSION), 60)
    costs = [cost(float(log_known)) for log_known in grid]
    best = int(np.argmin(costs))
    if best == 0 or costs[0] - costs[best] < 1e-8:
        return LEAST_OVERDISPERSION
    bounds = (float(grid[best - 1]), float(grid[min(best + 1, grid.size - 1)]))
    return math.exp(float(minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-8}).x))


@dataclass(frozen=True, slots=True)
class Gamma(LogFamily):
    """y e⁻ˢ + s for y > 0: the negative log-likelihood with mean eˢ and variance φ e²ˢ, times φ, up to a constant.

    An exposure E cancels: y with mean E eˢ is y/E with mean eˢ and the same weight, hence ``exposure_power`` 0.
    """

    name = "gamma"
    range = TargetRange(SMALLEST_FLOAT, np.inf, "numbers above 0")
    response = "amount"
    dispersion = "pearson"
    variance_power = 2.0
    exposure_power = 0.0

    def loss(self, scores: Array, target: Array) -> Array:
        return (self._ratio(scores, target) + scores).sum(-1)

    def gradient(self, scores: Array, target: Array) -> Array:
        return 1.0 - self._ratio(scores, target)

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        return self._ratio(scores, target)

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return Σₖ b log(b/y) - b with b = 1 - (m - y), shape (rows,); +∞ for b < 0."""
        rest = 1.0 - (mean - target)
        # m - y has lost digits when y is large, and must not fall out of the domain by that
        rest = np.where(np.abs(rest) < 1e-14 * (1.0 + np.abs(target)), 0.0, rest)
        return -np.sum(entr(rest) + rest * (1.0 + np.log(target)), axis=-1)

    def best_constant(self, target: Matrix, weights: Vector) -> Vector:
        return np.log(np.average(target, axis=0, weights=weights))

    def _ratio(self, scores: Any, target: Any) -> Any:
        """Return y e⁻ˢ, finite for every score."""
        return bounded_exp(array_namespace(scores).log(target) - scores)


@dataclass(frozen=True, slots=True)
class Tweedie(LogFamily):
    """y e^((1-p)s)/(p-1) + e^((2-p)s)/(2-p) for y ≥ 0: mean eˢ, variance φ e^(ps), a mass at 0.

    The ``power`` is p with 1 < p < 2: a sum of a Poisson number of Gamma amounts. Towards 1 it is Poisson, towards 2
    Gamma. With an exposure E, y with mean E eˢ has the loss of y/E with mean eˢ, times E^(2-p).
    """

    power: float = 1.5
    variance_power: float = field(init=False, repr=False)
    exposure_power: float | None = field(init=False, repr=False)
    name = "tweedie"
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
        share, size = self._parts(scores, target)
        return (share / (self.power - 1.0) + size / (2.0 - self.power)).sum(-1)

    def gradient(self, scores: Array, target: Array) -> Array:
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

    def _parts(self, scores: Any, target: Any) -> tuple[Any, Any]:
        """Return y e^((1-p)s) and e^((2-p)s), each finite for every score."""
        xp = array_namespace(scores)
        inverse = bounded_exp((1.0 - self.power) * scores, xp.log(xp.clip(target, min=1.0)))
        return target * inverse, bounded_exp((2.0 - self.power) * scores)


ESTIMATING.update(negative_binomial=lambda: NegativeBinomial(overdispersion="auto"))
