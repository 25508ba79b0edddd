"""Columns brought to mean 0 and variance 1, which is the scale on which alpha lives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

ROUNDING = 1e-13  # a column whose spread is below this share of its size holds one value, up to rounding


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """x ↦ (x - center)/scale for each column; shapes (columns,)."""

    center: Vector
    scale: Vector

    @classmethod
    def of(cls, columns: Matrix, weights: Vector) -> Self:
        """Return the weighted means and standard deviations; a constant column gets scale 0."""
        center = np.average(columns, axis=0, weights=weights)
        deviations = columns - center
        # dividing by the largest deviation first keeps the squares of huge values finite
        largest = np.abs(deviations).max(axis=0, initial=0.0)
        constant = largest <= ROUNDING * np.abs(columns).max(axis=0, initial=0.0)
        safe = np.where(constant, 1.0, largest)
        spread = safe * np.sqrt(np.average((deviations / safe) ** 2, axis=0, weights=weights))
        return cls(center, np.where(constant, 0.0, spread))

    @classmethod
    def none(cls, n_columns: int) -> Self:
        """Return the scaling that changes nothing."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    def apply(self, columns: Matrix) -> Matrix:
        """Return the scaled columns."""
        return (columns - self.center) / self.scale

    def take(self, columns: NDArray[np.intp]) -> Self:
        """Return the scaling of these columns alone."""
        return type(self)(self.center[columns], self.scale[columns])
