"""K-level SLOPE: a sorted penalty with few distinct weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenam.errors import InputError, describe
from sparsenam.penalties.base import Vector
from sparsenam.penalties.slope import GroupSLOPE


@dataclass(frozen=True, slots=True)
class KLevelSLOPE:
    """SLOPE whose weight is ``levels[k]`` for the k-th part of the ranks.

    ``shares`` are the fractions of the features in each part, adding up to 1; the default is the paper's
    two-level SLOPE with the larger weight on a quarter of the ranks.
    """

    levels: tuple[float, ...] = (1.0, 0.5)
    shares: tuple[float, ...] = (0.25, 0.75)

    def __post_init__(self) -> None:
        if len(self.levels) != len(self.shares) or not np.isclose(sum(self.shares), 1.0) or min(self.shares) < 0:
            raise InputError(
                describe(
                    "KLevelSLOPE",
                    "as many shares as levels, none negative, adding up to 1",
                    f"levels {self.levels} and shares {self.shares}",
                    "correct the shares",
                )
            )

    def value(self, norms: Vector, alpha: float) -> float:
        """Return α Σᵢ wᵢ r₍ᵢ₎."""
        return self._slope(norms.size).value(norms, alpha)

    def shrink(self, norms: Vector, alpha: float, step: Vector | float) -> Vector:
        """Return the proximal point."""
        return self._slope(norms.size).shrink(norms, alpha, step)

    def slope(self, norms: Vector, alpha: float) -> Vector:
        """Return α w of each norm's rank."""
        return self._slope(norms.size).slope(norms, alpha)

    def sequence(self, n_features: int) -> Vector:
        """Return the weights for ``n_features`` features."""
        ends = np.round(np.cumsum(self.shares) * n_features).astype(int)
        return np.repeat(self.levels, np.diff(ends, prepend=0))

    def _slope(self, n_features: int) -> GroupSLOPE:
        return GroupSLOPE(self.sequence(n_features))
