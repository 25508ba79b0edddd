"""Families of counts: Poisson and negative binomial."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import entr, gammaln

from sparsenam.errors import InputError, describe
from sparsenam.families.base import (
    ESTIMATING,
    FAMILIES,
    Array,
    Family,
    Matrix,
    TargetRange,
    Vector,
    bounded_exp,
    known_number,
    log_mean,
    softplus,
)


@dataclass(frozen=True, slots=True)
class Poisson(Family):
    """eˢ - y s for y ≥ 0: the negative log-likelihood of counts with mean eˢ, up to a constant.

    With an exposure E, y with mean E eˢ has the loss of y/E with mean eˢ, times E: ``exposure_power`` is 1.
    """

    name = "poisson"
    link = "log"
    range = TargetRange(0.0, np.inf, "numbers not below 0")
    response = "count"
    dispersion = "fixed"
    variance_power = 1.0
    exposure_power = 1.0

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

    def best_constant(self, target: Matrix, weights: Vector) -> Vector:
        """Return the logarithm of the weighted mean, kept finite when every y is 0."""
        return log_mean(target, weights)


LEAST, MOST = 1e-6, 1e4  # of an estimated overdispersion; at the least it is Poisson for all purposes


@dataclass(frozen=True, slots=True)
class NegativeBinomial(Family):
    """(y + 1/κ) log(1 + κeˢ) - y s for counts y: mean μ = eˢ, variance μ + κμ² (NB2).

    ``exposure_power`` is None: with mean E eˢ the variance Eμ + κE²μ² has another shape than that of y/E with
    any weight, so an exposure cannot be turned into one.

    Parameters
    ----------
    overdispersion
        κ > 0; towards 0 the family becomes Poisson. "auto" stands for a κ yet to be estimated: fit `first_family`,
        then go on with `estimated`.
    """

    overdispersion: float | Literal["auto"] = 1.0
    name = "negative_binomial"
    link = "log"
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
        """Return Σₖ (y + 1/κ) log(1 + κeˢ) - y s, shape (rows,)."""
        known = self._known()
        return ((target + 1.0 / known) * softplus(scores + math.log(known)) - target * scores).sum(-1)

    def gradient(self, scores: Array, target: Array) -> Array:
        """Return (μ - y)/(1 + κμ)."""
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

    def mean(self, scores: Array) -> Array:
        """Return eˢ, finite for every score."""
        return bounded_exp(scores)

    def best_constant(self, target: Matrix, weights: Vector) -> Vector:
        """Return the logarithm of the weighted mean, kept finite when every y is 0."""
        return log_mean(target, weights)

    def _known(self) -> float:
        return known_number("overdispersion of NegativeBinomial", self.overdispersion)


def estimated_overdispersion(mean: Matrix, target: Matrix, weights: Vector) -> float:
    """Return the most likely κ for given means: the maximum over κ of Σᵢ wᵢ log NB(yᵢ; μᵢ, κ).

    One κ serves all outputs of mean and target (rows, outputs), with weights (rows,). Counts that vary no more than
    Poisson's give 1e-6.
    """
    shares = (weights / weights.sum())[:, None]
    safe = np.maximum(mean, np.finfo(float).tiny)

    def cost(log_known: float) -> float:
        known = math.exp(log_known)
        size = 1.0 / known
        chances = gammaln(target + size) - gammaln(size) + target * np.log(known * safe)
        return -float(np.sum(shares * (chances - (target + size) * np.log1p(known * safe))))

    # ln Γ(y + 1/κ) - ln Γ(1/κ) loses digits as κ falls: a coarse walk first, so that noise is no minimum
    grid = np.linspace(math.log(LEAST), math.log(MOST), 60)
    costs = [cost(float(log_known)) for log_known in grid]
    best = int(np.argmin(costs))
    if best == 0 or costs[0] - costs[best] < 1e-8:
        return LEAST
    bounds = (float(grid[best - 1]), float(grid[min(best + 1, grid.size - 1)]))
    return math.exp(float(minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-8}).x))


FAMILIES.update(poisson=Poisson, negative_binomial=NegativeBinomial)
ESTIMATING.update(negative_binomial=lambda: NegativeBinomial(overdispersion="auto"))
