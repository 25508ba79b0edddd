"""Group LASSO, plain and weighted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenam.errors import InputError, describe
from sparsenam.penalties.base import Vector


@dataclass(frozen=True, slots=True, eq=False)
class GroupLasso:
    """α Σⱼ wⱼ‖Θⱼ‖ (the paper's eq. for Group LASSO); unequal weights give the adaptive kind.

    An infinite weight keeps its feature out.
    """

    weights: Vector | float = 1.0

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        if np.isnan(weights).any() or (weights < 0).any():
            expected = "weights of at least 0 (infinity keeps a feature out)"
            raise InputError(describe("GroupLasso", expected, f"{self.weights!r}", "correct the weights"))

    def value(self, norms: Vector, alpha: float) -> float:
        """Return α Σⱼ wⱼ rⱼ."""
        positive = norms > 0  # 0 · ∞ would be NaN
        return float(np.sum(self._thresholds(norms.size, alpha)[positive] * norms[positive]))

    def shrink(self, norms: Vector, alpha: float, step: Vector | float) -> Vector:
        """Return max(rⱼ - step α wⱼ, 0)."""
        return np.maximum(norms - step * self._thresholds(norms.size, alpha), 0.0)

    def slope(self, norms: Vector, alpha: float) -> Vector:
        """Return α wⱼ where rⱼ > 0."""
        thresholds = self._thresholds(norms.size, alpha)
        if np.isinf(thresholds[norms > 0]).any():
            expected = "finite weights for a subgradient solver"
            raise InputError(describe("GroupLasso", expected, "an infinite one", "use a proximal solver"))
        return np.where(norms > 0, thresholds, 0.0)

    def lasso_and_ridge(self, n_features: int, alpha: float) -> tuple[Vector, float]:
        """Return (α wⱼ)ⱼ and 0."""
        return self._thresholds(n_features, alpha), 0.0

    def _thresholds(self, n_features: int, alpha: float) -> Vector:
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.ndim and weights.shape != (n_features,):
            expected = f"one weight for each of the {n_features} columns"
            raise InputError(describe("GroupLasso", expected, f"shape {weights.shape}", "correct the weights"))
        if alpha == 0.0:  # 0 · ∞ would be NaN
            return np.zeros(n_features)
        return alpha * weights * np.ones(n_features)
