"""Adaptive Group LASSO: weights from a first fit take away the LASSO's bias on strong features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sparsenam.penalties.base import Vector
from sparsenam.penalties.group_lasso import GroupLasso


@dataclass(frozen=True, slots=True)
class AdaptiveGroupLasso:
    """α Σⱼ wⱼ‖Θⱼ‖ with wⱼ = (max‖Θ⁰‖ / ‖Θ⁰ⱼ‖)^power from a first fit Θ⁰.

    ``first="nam"`` fits Θ⁰ without a penalty, ``"snam"`` with the same α. The paper's wⱼ = 1/‖Θ⁰ⱼ‖ differs
    by a constant factor, chosen here so that the strongest feature keeps weight 1 and α its meaning.
    Before the first fit all weights are 1. The convex half takes its own first fit, at the alpha that it chooses.
    """

    power: float = 1.0
    first: Literal["nam", "snam"] = "snam"

    def first_alpha(self, alpha: float) -> float:
        """Return 0 for a first fit by NAM, α for one by SNAM."""
        return 0.0 if self.first == "nam" else alpha

    def adapted_to(self, norms: Vector) -> GroupLasso:
        """Return the weighted Group LASSO of the second fit; a zero norm keeps its feature out."""
        largest = norms.max(initial=0.0)
        ratios = np.divide(largest, norms, out=np.full(norms.shape, np.inf), where=norms > 0)
        return GroupLasso(ratios**self.power)

    def value(self, norms: Vector, alpha: float) -> float:
        """Return the value with all weights 1."""
        return GroupLasso().value(norms, alpha)

    def shrink(self, norms: Vector, alpha: float, step: Vector | float) -> Vector:
        """Shrink with all weights 1."""
        return GroupLasso().shrink(norms, alpha, step)

    def slope(self, norms: Vector, alpha: float) -> Vector:
        """Return the slope with all weights 1."""
        return GroupLasso().slope(norms, alpha)

    def lasso_and_ridge(self, n_features: int, alpha: float) -> tuple[Vector, float]:
        """Return (α)ⱼ and 0."""
        return GroupLasso().lasso_and_ridge(n_features, alpha)
