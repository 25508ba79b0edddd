"""Group elastic net: Group LASSO with weight decay on the same groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenam.errors import InputError, describe
from sparsenam.penalties.base import Vector


@dataclass(frozen=True, slots=True)
class GroupElasticNet:
    """α Σⱼ (ρ‖Θⱼ‖ + ½(1 - ρ)‖Θⱼ‖²), ρ = ``l1_ratio``; scikit-learn's convention for the elastic net.

    The paper's λ₁ is αρ, its λ₂ is ½α(1 - ρ).
    """

    l1_ratio: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.l1_ratio <= 1.0:
            raise InputError(
                describe("GroupElasticNet", "l1_ratio from 0 to 1", f"{self.l1_ratio}", "choose one between")
            )

    def value(self, norms: Vector, alpha: float) -> float:
        """Return α Σⱼ (ρ rⱼ + ½(1 - ρ) rⱼ²)."""
        return float(alpha * np.sum(self.l1_ratio * norms + 0.5 * (1.0 - self.l1_ratio) * norms**2))

    def shrink(self, norms: Vector, alpha: float, step: Vector | float) -> Vector:
        """Return max(rⱼ - step αρ, 0) / (1 + step α(1 - ρ))."""
        lasso = np.maximum(norms - step * alpha * self.l1_ratio, 0.0)
        return lasso / (1.0 + step * alpha * (1.0 - self.l1_ratio))

    def slope(self, norms: Vector, alpha: float) -> Vector:
        """Return α(ρ + (1 - ρ) rⱼ) where rⱼ > 0."""
        return np.where(norms > 0, alpha * (self.l1_ratio + (1.0 - self.l1_ratio) * norms), 0.0)

    def lasso_and_ridge(self, n_features: int, alpha: float) -> tuple[Vector, float]:
        """Return (αρ)ⱼ and α(1 - ρ)."""
        return np.full(n_features, alpha * self.l1_ratio), alpha * (1.0 - self.l1_ratio)
