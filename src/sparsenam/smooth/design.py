"""Sums over rows for a sum of ramps: a cell lies between two knots, so that a row has at most two entries a term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenam.smooth.prior import Layout
from sparsenam.tables.sample import Matrix, Vector

AT_ONCE = 250_000  # products made at a time: they and their indices stay in a core's cache
DENSE = 8  # columns a term up to which a dense product takes less time than sums by cells


@dataclass(frozen=True, slots=True, eq=False)
class WeightedGram:
    """ZᵀWZ once the intercept is eliminated, (columns, columns), and what elimination needs.

    ``means`` (columns,) are the means of the columns under the weights W, ``total`` the sum of the weights.
    """

    matrix: Matrix
    means: Vector
    total: float


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """½ βᵀAβ - bᵀβ, the squared error of targets once the intercept is eliminated.

    ``moment`` b is (columns, r), ``centers`` (r,) the weighted means of the targets and ``squares`` (r,) the
    weighted squares of the centred targets.
    """

    gram: WeightedGram
    moment: Matrix
    centers: Vector
    squares: Vector

    def intercept(self, coefficients: Matrix) -> Vector:
        """Return the best intercept, shape (r,), for coefficients of shape (columns, r)."""
        return self.centers - self.gram.means @ coefficients

    def residual(self, coefficients: Matrix) -> float:
        """Return the weighted sum of squared residuals over all r targets."""
        explained = np.sum(coefficients * (2.0 * self.moment - self.gram.matrix @ coefficients))
        return max(float(self.squares.sum() - explained), 0.0)


class RampDesign:
    """Z: the ramps of all terms, less their weighted means, shape (rows, columns).

    A sum of ramps is linear between knots: it is H f, with f its values at all knots and H (rows, knots) the shares
    1 - u and u of the two knots about each cell. Z is H T, where T holds running sums and means. All sums over rows
    are sums of entries of H; a level of a category is a knot and has one entry. A ramp's mean is over the rows in
    which its term is present; where it is absent, H and Z are 0.
    """

    def __init__(self, layout: Layout, x: Matrix, weights: Vector) -> None:
        self.layout = layout
        sizes = [ramps.size + 1 for ramps in layout.ramps]
        self._ends = np.cumsum(sizes)
        self.knots = [slice(int(end) - size, int(end)) for size, end in zip(sizes, self._ends, strict=True)]
        self._entries(x)
        rows, entries = x.shape[1], len(self.terms)
        starts = np.arange(rows + 1) * entries
        shape = (rows, int(self._ends[-1]))
        self.hats = csr_array((self.shares.T.ravel(), self.indices.T.ravel(), starts), shape=shape)
        self._transposed = self.hats.T.tocsr()
        self.means = np.zeros(layout.size)
        sums = self._transposed @ weights
        for columns, knots in zip(layout.slices, self.knots, strict=True):
            self.means[columns] = _beyond(sums[knots]) / sums[knots].sum()

    def _entries(self, x: Matrix) -> None:
        """Set for each entry its term, and for each row its knot and share: arrays of shape (entries, rows)."""
        terms, indices, shares = list[int](), list[NDArray[np.intp]](), list[Vector]()
        for term, (ramps, cells, knots) in enumerate(zip(self.layout.ramps, x, self.knots, strict=True)):
            absent = np.isnan(cells)
            if absent.any():
                cells = np.where(absent, ramps.knots[0], cells)
            left = np.clip(np.searchsorted(ramps.knots, cells, side="right") - 1, 0, ramps.size - 1)
            right = np.clip((cells - ramps.knots[left]) / np.diff(ramps.knots)[left], 0.0, 1.0)
            between = (right > 0.0) & (right < 1.0)
            if not between.any():  # each cell is a knot: one entry
                left, right = left + (right == 1.0), np.zeros_like(right)
            present = np.where(absent, 0.0, 1.0)
            terms, indices, shares = [*terms, term], [*indices, knots.start + left], [*shares, present - right]
            if between.any():
                terms, indices, shares = [*terms, term], [*indices, knots.start + left + 1], [*shares, right]
        self.terms, self.indices, self.shares = terms, np.stack(indices), np.stack(shares)

    def times(self, coefficients: Matrix) -> Matrix:
        """Return Zβ, shape (rows, r)."""
        values = np.zeros((self.hats.shape[1], coefficients.shape[1]))
        for columns, knots in zip(self.layout.slices, self.knots, strict=True):
            values[knots][1:] = np.cumsum(coefficients[columns], axis=0)
            values[knots] -= self.means[columns] @ coefficients[columns]
        return self.hats @ values

    def transposed_times(self, values: Matrix) -> Matrix:
        """Return Zᵀv, shape (columns, r), for v of shape (rows, r)."""
        return self._to_ramps(self._transposed @ values)

    def gram(self, weights: Vector) -> WeightedGram:
        """Return the sums of products of columns under weights of shape (rows,)."""
        total = float(weights.sum())
        means = self.transposed_times(weights[:, None])[:, 0] / total
        half = self._to_ramps(self._knot_gram(weights))
        matrix = self._to_ramps(np.ascontiguousarray(half.T))
        matrix -= total * np.outer(means, means)
        return WeightedGram(matrix, means, total)

    def least_squares(self, weights: Vector, targets: Matrix) -> LeastSquares:
        """Return the weighted squared error of targets (rows, r) for weights of shape (rows,)."""
        centers = weights @ targets / weights.sum()
        weighted = weights[:, None] * (targets - centers)
        squares = np.sum(weighted * (targets - centers), axis=0)
        return LeastSquares(self.gram(weights), self.transposed_times(weighted), centers, squares)

    def _to_ramps(self, sums: Matrix) -> Matrix:
        """Return Tᵀs, shape (columns, r), for s of shape (knots, r)."""
        result = np.empty((self.layout.size, sums.shape[1]))
        for columns, knots in zip(self.layout.slices, self.knots, strict=True):
            part = sums[knots]
            result[columns] = _beyond(part) - np.multiply.outer(self.means[columns], part.sum(axis=0))
        return result

    def _knot_gram(self, weights: Vector) -> Matrix:
        """Return HᵀWH, shape (knots, knots).

        The products of two entries are summed by their pair of knots, each pair of entries once: half of the matrix.
        """
        rows, size = self.hats.shape
        if size <= DENSE * len(self.knots):
            return self._dense_gram(weights)
        gram = np.zeros((size, size))
        for first in range(0, rows, max(1, AT_ONCE // len(self.terms))):
            block = slice(first, first + max(1, AT_ONCE // len(self.terms)))
            indices, shares = self.indices[:, block], self.shares[:, block]
            weighted = shares * weights[block]
            for entry, term in enumerate(self.terms[:-1]):
                knots = self.knots[term]
                cells = (indices[entry] - knots.start) * size + indices[entry + 1 :]
                products = weighted[entry] * shares[entry + 1 :]
                count = (knots.stop - knots.start) * size
                gram[knots] += np.bincount(cells.ravel(), products.ravel(), count).reshape(-1, size)
        gram += gram.T
        gram[np.diag_indices(size)] += self._transposed.power(2) @ weights
        return gram

    def _dense_gram(self, weights: Vector) -> Matrix:
        rows, size = self.hats.shape
        gram = np.zeros((size, size))
        roots = np.sqrt(weights)
        for first in range(0, rows, 1024):
            block = self.hats[first : first + 1024].toarray() * roots[first : first + 1024, None]
            gram += block.T @ block
        return gram


def _beyond(sums: Matrix | Vector) -> Matrix | Vector:
    """Return for each ramp the sum over the knots beyond it, along the first axis: shape (m, …) from (m + 1, …)."""
    return np.cumsum(sums[:0:-1], axis=0)[::-1]
