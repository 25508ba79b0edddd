"""Columns for the levels of a category: no order among them, and rare ones share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.ramps import Ramps, distinct
from sparsenam.tables.scaling import Matrix, Vector

PARTS = 5  # into which rows are dealt: a rare level's mean leaves out the part it serves
SHARED = 2  # most columns of rare levels, one for each output
PRIOR = 5.0  # rows of the overall mean that a rare level's mean starts with


@dataclass(frozen=True, slots=True, eq=False)
class LevelColumns:
    """One column for each frequent level; rare ones share columns that hold their mean targets.

    A rare level's mean leaves out the rows of the part that it is read in (as target encoding does), so that a
    category without effect looks like one. ``levels`` are the sorted codes (L,), ``place`` (L,) the column of a
    level's own, -1 for rare ones; ``means`` (parts, L, shared) are the rare levels' and ``overall`` (L, shared)
    those of all rows.
    """

    levels: Vector
    place: NDArray[np.intp]
    means: NDArray[np.float64]
    overall: Matrix

    @classmethod
    def of(cls, x: Vector, target: Matrix, weights: Vector, count: int) -> LevelColumns:
        """Return at most ``count`` columns for codes x (rows,), NaN where absent."""
        present = ~np.isnan(x)
        levels, counts = distinct(x[present], weights[present])
        place = np.arange(levels.size, dtype=np.intp)
        shared = 0 if levels.size <= count else min(SHARED, target.shape[1])
        if shared:
            # of levels as frequent as the first that is left out none gets a column: their names must not decide
            bar = np.sort(counts)[::-1][count - shared]
            own = np.flatnonzero(counts > bar)
            place[:] = -1
            place[own] = np.arange(own.size)
        codes = np.where(present, np.searchsorted(levels, x), -1)
        means = _means_without_a_part(codes, levels.size, target[:, :shared], weights)
        return cls(levels, place, *means)

    @property
    def ramps(self) -> Ramps:
        """Ramps from each level to the next."""
        return Ramps(self.levels)

    def hinges(self, values: Matrix) -> Matrix:
        """Return the weights (L - 1, outputs) of ReLU units at the levels that lead through values (L, outputs).

        A ramp is level beyond its end, a hinge runs on: its weight is the change of slope.
        """
        widths = np.diff(self.levels)[:, None]
        slopes = np.diff(values, axis=0) / widths
        return widths * np.diff(slopes, axis=0, prepend=0.0)

    def columns(self, x: Vector) -> Matrix:
        """Return the columns of the training rows, shape (rows, m); absent cells are 0."""
        codes = np.searchsorted(self.levels, x)
        present = ~np.isnan(x)
        codes = np.where(present, np.minimum(codes, self.levels.size - 1), 0)
        single = int(self.place.max(initial=-1)) + 1
        columns = np.zeros((x.size, single + self.overall.shape[1]))
        rows = np.flatnonzero(present & (self.place[codes] >= 0))
        columns[rows, self.place[codes[rows]]] = 1.0
        rare = np.flatnonzero(present & (self.place[codes] < 0))
        columns[rare, single:] = self.means[rare % PARTS, codes[rare]]
        return columns

    def values(self, coefficients: Matrix) -> Matrix:
        """Return the value of each level, shape (L, outputs), for coefficients (≥ m, outputs)."""
        single = int(self.place.max(initial=-1)) + 1
        shared = coefficients[single : single + self.overall.shape[1]]
        values = self.overall @ shared if shared.size else np.zeros((self.levels.size, coefficients.shape[1]))
        own = self.place >= 0
        values[own] = coefficients[self.place[own]]
        return values


def _means_without_a_part(
    codes: NDArray[np.intp], n_levels: int, target: Matrix, weights: Vector
) -> tuple[NDArray[np.float64], Matrix]:
    """Return shrunken level means without each part's rows (parts, levels, k), and of all rows (levels, k)."""
    k = target.shape[1]
    if k == 0:
        return np.zeros((PARTS, n_levels, 0)), np.zeros((n_levels, 0))
    present = codes >= 0
    parts = np.arange(codes.size) % PARTS
    centre = np.average(target, axis=0, weights=weights)
    sums, totals = np.zeros((PARTS, n_levels, k)), np.zeros((PARTS, n_levels))
    np.add.at(totals, (parts[present], codes[present]), weights[present])
    np.add.at(sums, (parts[present], codes[present]), weights[present, None] * (target[present] - centre))
    others, others_total = sums.sum(axis=0) - sums, totals.sum(axis=0) - totals
    all_means = sums.sum(axis=0) / (totals.sum(axis=0) + PRIOR)[:, None]
    return others / (others_total + PRIOR)[:, :, None], all_means
