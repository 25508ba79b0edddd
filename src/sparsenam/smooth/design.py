"""The columns of all ramps, a block of rows at a time, and sums over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from sparsenam.smooth.prior import Layout
from sparsenam.tables.scaling import Matrix, Vector

ROWS_AT_ONCE = 4096
SINGLE = 2_000_000  # cells above which products are in single precision; California 0.2945 in 5 s, not 12 s
KEPT = 20_000_000  # cells up to which the columns are kept in memory (80 MB) and not made anew for each pass


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """½ βᵀAβ - bᵀβ, the squared error of working targets once the intercept is eliminated.

    ``gram`` A is (columns, columns), ``moment`` b (columns, r), ``means`` (columns,) and ``centers`` (r,) the
    weighted means of columns and targets, ``squares`` (r,) the weighted squares of the centred targets.
    """

    gram: Matrix
    moment: Matrix
    means: Vector
    centers: Vector
    squares: Vector

    def intercept(self, coefficients: Matrix) -> Vector:
        """Return the best intercept, shape (r,), for coefficients of shape (columns, r)."""
        return self.centers - self.means @ coefficients

    def residual(self, coefficients: Matrix) -> float:
        """Return the weighted sum of squared residuals over all r targets."""
        explained = np.sum(coefficients * (2.0 * self.moment - self.gram @ coefficients))
        return max(float(self.squares.sum() - explained), 0.0)


class RampDesign:
    """Z: the ramps of all terms, less their weighted means, shape (rows, columns).

    Centring comes first because the products of a ramp that is 1 in nearly all rows would cancel in single
    precision. A ramp's mean is over the rows in which its term is present; where it is absent, Z is 0.
    """

    def __init__(self, layout: Layout, x: Matrix, weights: Vector) -> None:
        self.layout, self.x, self.weights = layout, x, weights
        cells = x.shape[1] * layout.size
        self.dtype = np.float32 if cells > SINGLE else np.float64
        self.absent = [gone if gone.any() else None for gone in np.isnan(x)]
        self.means = np.zeros(layout.size)
        for ramps, columns, cells_of, gone in zip(layout.ramps, layout.slices, x, self.absent, strict=True):
            present = slice(None) if gone is None else ~gone
            self.means[columns] = ramps.means(cells_of[present], weights[present])
        self._kept = [block for _, block in self._made()] if cells <= KEPT else None

    def blocks(self) -> Iterator[tuple[slice, Matrix]]:
        """Yield slices of rows and their part of Zᵀ, shape (columns, rows)."""
        if self._kept is None:
            yield from self._made()
        else:
            yield from zip(self._slices(), self._kept, strict=True)

    def times(self, coefficients: Matrix) -> Matrix:
        """Return Zβ, shape (rows, r)."""
        transposed = coefficients.T.astype(self.dtype)
        return np.concatenate([(transposed @ block).T.astype(np.float64) for _, block in self.blocks()])

    def quadratic(self, weights: Vector, targets: Matrix) -> LeastSquares:
        """Return the weighted squared error of targets (rows, r) for weights of shape (rows,)."""
        size, total = self.layout.size, weights.sum()
        centers = weights @ targets / total
        weighted = weights[:, None] * (targets - centers)
        gram, moment, means = np.zeros((size, size)), np.zeros((size, targets.shape[1])), np.zeros(size)
        roots = np.sqrt(weights)
        for rows, block in self.blocks():
            means += block @ weights[rows].astype(self.dtype)
            moment += block @ weighted[rows].astype(self.dtype)
            scaled = block * roots[rows].astype(self.dtype)
            gram += scaled @ scaled.T
        means /= total
        gram -= total * np.outer(means, means)
        squares = np.sum(weighted * (targets - centers), axis=0)
        return LeastSquares(gram, moment, means, centers, squares)

    def _slices(self) -> Iterator[slice]:
        rows = self.x.shape[1]
        for start in range(0, rows, ROWS_AT_ONCE):
            yield slice(start, min(start + ROWS_AT_ONCE, rows))

    def _made(self) -> Iterator[tuple[slice, Matrix]]:
        for rows in self._slices():
            block = np.empty((self.layout.size, rows.stop - rows.start), self.dtype)
            for term, columns in enumerate(self.layout.slices):
                block[columns] = self.layout.ramps[term].columns(self.x[term, rows]).T - self.means[columns, None]
                gone = self.absent[term]
                if gone is not None:
                    block[columns, gone[rows]] = 0.0
            yield rows, cast(Matrix, block)
