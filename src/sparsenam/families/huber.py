"""Huber's loss: squares for the many, absolute values for outliers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.families.base import Array, Matrix, TargetRange
from sparsenam.families.robust import robust_center_and_scale, weighted_quantile
from sparsenam.families.roots import increasing_root


@dataclass(frozen=True, slots=True)
class Huber:
    """½u² for |u| ≤ c and c|u| - ½c² beyond, u = s - y and c = width · scale.

    Parameters
    ----------
    width
        In units of ``scale``; 1.345 keeps 95 % of the efficiency of squares when residuals are normal.
    scale
        The spread of the residuals without outliers, on the scale of the fit. "auto" stands for one yet to be
        measured: fit `first_family`, then go on with `settled`.
    """

    width: float = 1.345
    scale: float | Literal["auto"] = 1.0
    name: str = "huber"
    link: str = "identity"
    range: TargetRange = TargetRange()
    standardizes_target: bool = True
    curvature: float = 1.0
    robust_scale: bool = True

    def __post_init__(self) -> None:
        if not 0.0 < self.width < np.inf:
            raise InputError(describe("width of Huber", "a number above 0", repr(self.width), "try 1.345"))
        if self.scale != "auto" and not 0.0 < self.scale < np.inf:
            raise InputError(describe("scale of Huber", "a number above 0 or 'auto'", repr(self.scale), "try 1"))

    @property
    def first_family(self) -> Self | None:
        """The family whose fit gives the residuals for `settled`; None when the scale is known."""
        return replace(self, scale=1.0) if self.scale == "auto" else None

    def settled(self, scores: Matrix, target: Matrix, weights: NDArray[np.float64]) -> Self:
        """Return the family with the robust spread of the first fit's residuals as its scale."""
        _, spreads = robust_center_and_scale(target - scores, weights)
        return replace(self, scale=max(float(np.mean(spreads)), float(np.finfo(float).tiny)))

    def loss(self, scores: Array, target: Array) -> Array:
        """Return Σₖ ½u² or c|u| - ½c², shape (rows,)."""
        over = scores - target
        inner = self._clipped(over)
        return (inner * (over - 0.5 * inner)).sum(-1)

    def gradient(self, scores: Array, target: Array) -> Array:
        """Return u, cut off at ±c."""
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

    def mean(self, scores: Array) -> Array:
        """Return the scores."""
        return scores

    def best_constant(self, target: Matrix, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Huber's estimate of location, between median and mean."""
        shares = (weights / weights.sum())[:, None]
        return increasing_root(
            lambda own: np.sum(shares * self.gradient(own + np.zeros_like(target), target), axis=0),
            lambda own: np.sum(shares * self.hessian_diagonal(own + np.zeros_like(target), target), axis=0),
            weighted_quantile(target, weights, 0.5),
        )

    def _clipped(self, over: Array) -> Array:
        return array_namespace(over).clip(over, min=-self._bound(), max=self._bound())

    def _bound(self) -> float:
        if self.scale == "auto":
            remedy = "call settled() with a first fit, or give a number"
            raise InputError(describe("scale of Huber", "a number by now", "'auto'", remedy))
        return self.width * float(self.scale)
