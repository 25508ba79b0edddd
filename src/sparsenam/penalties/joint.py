"""Group LASSO on groups of sub-networks: several features enter or leave together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenam.penalties.base import Vector

HALVINGS = 100  # of an interval that holds a root: far below rounding


@dataclass(frozen=True, slots=True, eq=False)
class JointGroupLasso:
    """α Σ_g w_g √(Σ_{j in g} rⱼ²) for groups of places among the norms r; a norm in no group is free.

    ``members`` are the places of each group, ``weights`` (groups,) what it costs.
    """

    members: tuple[NDArray[np.intp], ...]
    weights: Vector

    def value(self, norms: Vector, alpha: float) -> float:
        """Return α Σ_g w_g ‖r_g‖."""
        return float(alpha * self.weights @ self._lengths(norms))

    def shrink(self, norms: Vector, alpha: float, step: Vector | float) -> Vector:
        """Return rⱼ = nⱼ ρ/(ρ + stepⱼ α w_g), where ρ = ‖r_g‖ solves Σ (nⱼ/(ρ + stepⱼ α w_g))² = 1.

        A group whose equation has no root is 0.
        """
        shrunk, steps = norms.copy(), np.broadcast_to(step, norms.shape)
        for own, weight in zip(self.members, self.weights, strict=True):
            pull, inside = steps[own] * alpha * weight, norms[own]
            shrunk[own] = inside * _share(inside, pull)
        return shrunk

    def slope(self, norms: Vector, alpha: float) -> Vector:
        """Return α w_g rⱼ/‖r_g‖, with 0 where the group is 0."""
        slopes = np.zeros_like(norms)
        for own, weight, length in zip(self.members, self.weights, self._lengths(norms), strict=True):
            if length > 0:
                slopes[own] = alpha * weight * norms[own] / length
        return slopes

    def _lengths(self, norms: Vector) -> Vector:
        return np.array([np.sqrt(np.sum(norms[own] ** 2)) for own in self.members])


def _share(norms: Vector, pull: Vector) -> Vector:
    """Return ρ/(ρ + pullⱼ) for the root ρ, by halving the interval that holds it."""
    if not pull.any():
        return np.ones_like(norms)
    with np.errstate(divide="ignore", invalid="ignore"):
        stays = np.sum(np.where(norms > 0, (norms / pull) ** 2, 0.0)) > 1.0
    if not stays:
        return np.zeros_like(norms)
    low, high = 0.0, float(np.linalg.norm(norms))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if np.sum((norms / (middle + pull)) ** 2) > 1.0:
            low = middle
        else:
            high = middle
    return high / (high + pull)
