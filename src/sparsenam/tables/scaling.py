"""Columns brought to mean 0 and variance 1, which is the scale on which alpha lives.

A cell that is NaN is absent: it counts for nothing here, and stays NaN.
"""

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
        absent = np.isnan(columns)
        if absent.any():
            return cls._of_present(columns, weights, absent)
        center = np.average(columns, axis=0, weights=weights)
        deviations = columns - center
        # dividing by the largest deviation first keeps the squares of huge values finite
        largest = np.abs(deviations).max(axis=0, initial=0.0)
        constant = largest <= ROUNDING * np.abs(columns).max(axis=0, initial=0.0)
        safe = np.where(constant, 1.0, largest)
        spread = safe * np.sqrt(np.average((deviations / safe) ** 2, axis=0, weights=weights))
        return cls(center, np.where(constant, 0.0, spread))

    @classmethod
    def _of_present(cls, columns: Matrix, weights: Vector, absent: NDArray[np.bool_]) -> Self:
        """Measure each column on the rows where it is present; one without any gets scale 0."""
        center, scale = np.zeros(columns.shape[1]), np.zeros(columns.shape[1])
        for column, gone in enumerate(absent.T):
            rows = ~gone & (weights > 0)
            if rows.any():
                measured = cls.of(columns[rows, column : column + 1], weights[rows])
                center[column], scale[column] = measured.center[0], measured.scale[0]
        return cls(center, scale)

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


def mean_and_deviation(columns: Matrix, weights: Vector) -> tuple[Vector, Vector]:
    """Return the weighted means and standard deviations of columns (rows, k), 0 for a constant one."""
    measured = Scaling.of(columns, weights)
    return measured.center, measured.scale
