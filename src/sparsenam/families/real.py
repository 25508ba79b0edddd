"""Families of real numbers: squared error, Huber's loss, quantiles."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
from array_api_compat import array_namespace
from scipy.special import entr

from sparsenam.errors import check_number
from sparsenam.families.base import (
    ESTIMATING,
    SMALLEST_FLOAT,
    Array,
    Family,
    Matrix,
    Vector,
    known_number,
    robust_center_and_scale,
    sigmoid,
    softplus,
)


@dataclass(frozen=True, slots=True)
class Gaussian(Family):
    """½ Σₖ (score - y)²; several outputs make it the multi-task model with one group over all outputs."""

    name = "gaussian"
    standardizes_target = True
    curvature = 1.0
    is_quadratic = True
    dispersion = "pearson"

    def loss(self, scores: Array, target: Array) -> Array:
        return (0.5 * (scores - target) ** 2).sum(-1)

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        return array_namespace(scores).ones_like(scores)

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return ½ Σₖ (mean² - y²), shape (rows,)."""
        return 0.5 * np.sum(mean**2 - target**2, axis=-1)

    def best_constant(self, target: Matrix, weights: Vector) -> Vector:
        return np.average(target, axis=0, weights=weights)


@dataclass(frozen=True, slots=True)
class Huber(Family):
    """½u² for |u| ≤ c and c|u| - ½c² beyond, u = s - y and c = width · scale.

    A ``width`` of 1.345 keeps 95 % of the efficiency of squares when residuals are normal. ``scale`` is the spread of
    the residuals without outliers, on the scale of the fit. "auto" stands for one yet to be measured: fit
    `first_family`, then go on with `estimated`.
    """

    width: float = 1.345
    scale: float | Literal["auto"] = 1.0
    name = "huber"
    standardizes_target = True
    curvature = 1.0
    robust_scale = True

    def __post_init__(self) -> None:
        check_number("width of Huber", self.width, 0.0, open_below=True)
        if self.scale != "auto":
            check_number("scale of Huber", self.scale, 0.0, open_below=True)

    @property
    def first_family(self) -> Self | None:
        """The family whose fit gives the residuals for `estimated`; None when the scale is known."""
        return replace(self, scale=1.0) if self.scale == "auto" else None

    def estimated(self, scores: Matrix, target: Matrix, weights: Vector) -> Self:
        """Return the family with the robust spread of the first fit's residuals as its scale."""
        _, spreads = robust_center_and_scale(target - scores, weights)
        return replace(self, scale=max(float(np.mean(spreads)), SMALLEST_FLOAT))

    def loss(self, scores: Array, target: Array) -> Array:
        over = scores - target
        inner = self._clipped(over)
        return (inner * (over - 0.5 * inner)).sum(-1)

    def gradient(self, scores: Array, target: Array) -> Array:
        return self._clipped(scores - target)

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        """Return min(1, c/|u|), the curvature of the parabola that touches the loss and lies above it everywhere.

        The second derivative itself is 0 for outliers, where a Newton step would have no length; this bound makes
        each step a weighted least-squares fit to y.
        """
        xp, bound = array_namespace(scores), self._bound()
        return bound / xp.clip(xp.abs(scores - target), min=bound)

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return Σₖ ½a² + a y with a = m - y, shape (rows,); +∞ for |a| > c."""
        slope, bound = mean - target, self._bound()
        outside = np.abs(slope) > bound + 1e-14 * (1.0 + np.abs(target))
        return np.where(outside, np.inf, slope * (0.5 * slope + target)).sum(axis=-1)

    def _clipped(self, over: Array) -> Array:
        return array_namespace(over).clip(over, min=-self._bound(), max=self._bound())

    def _bound(self) -> float:
        return self.width * known_number("scale of Huber", self.scale)


SMOOTHING = 0.02  # 1.8 times it is the noise added, so quantiles of residuals of spread 0.5 move by 0.3 %


@dataclass(frozen=True, slots=True)
class Quantile(Family):
    """ε log(1 + e^((s-y)/ε)) - τ(s - y): the pinball loss averaged over logistic noise of scale ε in y.

    Its minimum is the τ-quantile of y plus that noise, whose standard deviation is 1.8ε. ``mean`` is the quantile.
    The ``level`` is τ with 0 < τ < 1, 0.5 for the median; ``smoothing`` is ε > 0 on the scale of the fit, where y has
    variance 1.
    """

    level: float = 0.5
    smoothing: float = SMOOTHING
    curvature: float = field(init=False, repr=False)
    name = "quantile"
    standardizes_target = True
    robust_scale = True

    def __post_init__(self) -> None:
        check_number("level of Quantile", self.level, 0.0, 1.0, open_below=True, open_above=True)
        check_number("smoothing of Quantile", self.smoothing, 0.0, open_below=True)
        object.__setattr__(self, "curvature", 0.25 / self.smoothing)  # reached at s = y

    def loss(self, scores: Array, target: Array) -> Array:
        over = scores - target
        return (self.smoothing * softplus(over / self.smoothing) - self.level * over).sum(-1)

    def gradient(self, scores: Array, target: Array) -> Array:
        return sigmoid((scores - target) / self.smoothing) - self.level

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        """Return the larger of σ(1 - σ)/ε, the second derivative, and tanh(v)/(8εv) with v = |s-y|/2ε.

        The second derivative is nearly 0 except for the few rows within ε of their score, and Newton steps from it
        lead astray. Twice the second term is the curvature of the parabola that touches the loss and lies above it
        everywhere (Jaakkola and Jordan, 2000): steps of half that curvature go farther and still never go up.
        """
        xp = array_namespace(scores)
        away = xp.clip(xp.abs(scores - target) * (0.5 / self.smoothing), min=1e-6)
        bent = xp.tanh(away)
        return xp.maximum(0.25 * (1.0 - bent * bent), 0.125 * bent / away) / self.smoothing

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return Σₖ a y + ε(q log q + (1-q) log(1-q)) with a = m - y and q = τ + a, shape (rows,)."""
        slope = mean - target
        share = self.level + slope
        # m - y has lost digits when y is large, and must not fall out of the domain by that
        near = 1e-14 * (1.0 + np.abs(target))
        share = np.where(np.abs(share) < near, 0.0, np.where(np.abs(share - 1.0) < near, 1.0, share))
        return np.sum(slope * target - self.smoothing * (entr(share) + entr(1.0 - share)), axis=-1)


ESTIMATING.update(huber=lambda: Huber(scale="auto"))
