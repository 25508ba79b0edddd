"""Sums over rows for a sum of ramps: a cell lies between two knots, so that a row has at most two entries a term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenam.convex.design import Ramps
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
        ends = np.cumsum([ramps.size + 1 for ramps in layout.ramps])
        self.knots = [slice(int(end) - ramps.size - 1, int(end)) for ramps, end in zip(layout.ramps, ends, strict=True)]
        parts = [
            _entries(ramps, cells, knots.start) for ramps, cells, knots in zip(layout.ramps, x, self.knots, strict=True)
        ]
        # of each entry of a row: its term, and for all rows its knot and share, (entries, rows)
        self.terms = [term for term, (indices, _) in enumerate(parts) for _ in indices]
        self.indices = np.concatenate([indices for indices, _ in parts])
        self.shares = np.concatenate([shares for _, shares in parts])
        starts: NDArray[np.intp] = np.arange(x.shape[1] + 1, dtype=np.intp) * len(self.terms)
        self.shape = (x.shape[1], int(ends[-1]))
        self._hats: Any = csr_array((self.shares.T.ravel(), self.indices.T.ravel(), starts), shape=self.shape)
        self._transposed: Any = self._hats.T.tocsr()
        self.means = np.zeros(layout.size)
        sums = cast(Vector, self._transposed @ weights)
        for columns, knots in zip(layout.slices, self.knots, strict=True):
            self.means[columns] = _beyond(sums[knots]) / max(sums[knots].sum(), np.finfo(float).tiny)

    def times(self, coefficients: Matrix) -> Matrix:
        """Return Zβ, shape (rows, r)."""
        values = np.zeros((self.shape[1], coefficients.shape[1]))
        for columns, knots in zip(self.layout.slices, self.knots, strict=True):
            values[knots][1:] = np.cumsum(coefficients[columns], axis=0)
            values[knots] -= self.means[columns] @ coefficients[columns]
        return cast(Matrix, self._hats @ values)

    def transposed_times(self, values: Matrix) -> Matrix:
        """Return Zᵀv, shape (columns, r), for v of shape (rows, r)."""
        return self._to_ramps(cast(Matrix, self._transposed @ values))

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
        rows, size = self.shape
        if size <= DENSE * len(self.knots):
            return self._dense_gram(weights)
        gram, height = np.zeros((size, size)), max(1, AT_ONCE // len(self.terms))
        for block in (slice(first, first + height) for first in range(0, rows, height)):
            indices, shares = self.indices[:, block], self.shares[:, block]
            weighted = shares * weights[block]
            for entry, term in enumerate(self.terms[:-1]):
                knots = self.knots[term]
                cells = (indices[entry] - knots.start) * size + indices[entry + 1 :]
                products = weighted[entry] * shares[entry + 1 :]
                count = (knots.stop - knots.start) * size
                gram[knots] += np.bincount(cells.ravel(), products.ravel(), count).reshape(-1, size)
        gram += gram.T
        gram[np.diag_indices(size)] += cast(Vector, self._transposed.power(2) @ weights)
        return gram

    def _dense_gram(self, weights: Vector) -> Matrix:
        """Return HᵀWH from blocks of H in full."""
        rows, size = self.shape
        gram, roots = np.zeros((size, size)), np.sqrt(weights)[:, None]
        height = max(1, AT_ONCE // size)
        for block in (slice(first, first + height) for first in range(0, rows, height)):
            scaled = cast(Matrix, self._hats[block].toarray()) * roots[block]
            gram += scaled.T @ scaled
        return gram


def _entries(ramps: Ramps, cells: Vector, start: int) -> tuple[NDArray[np.intp], Matrix]:
    """Return the knots of a term's cells (rows,), counted from ``start``, and their shares, both (1 or 2, rows).

    There is one where all cells are knots, as the levels of a category are. Where a cell is absent, shares are 0.
    """
    absent = np.isnan(cells)
    if absent.any():
        cells = np.where(absent, ramps.knots[0], cells).astype(np.float64)
    left = np.clip(np.searchsorted(ramps.knots, cells, side="right") - 1, 0, ramps.size - 1).astype(np.intp)
    right: Vector = np.clip((cells - ramps.knots[left]) / np.diff(ramps.knots)[left], 0.0, 1.0)
    present = 1.0 - absent
    if np.all((right == 0.0) | (right == 1.0)):
        return (start + left + (right == 1.0))[None], present[None]
    return start + np.stack([left, left + 1]), np.stack([present - right, right])


def _beyond(sums: Matrix) -> Matrix:
    """Return for each ramp the sum over the knots beyond it, along the first axis: shape (m, …) from (m + 1, …)."""
    return np.cumsum(sums[:0:-1], axis=0)[::-1]
