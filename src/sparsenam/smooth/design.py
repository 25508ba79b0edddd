"""The ramps of all terms as columns, and the sums over rows that a smooth fit needs of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsenam.convex.design import NEAREST_KNOTS, Ramps, distinct, place_ramps
from sparsenam.convex.moments import PlacedRows
from sparsenam.smooth.prior import Layout, Spread
from sparsenam.tables.sample import Matrix, Vector

# without jumps four_or_nine loses 11 % and generated word counts 7 % (make ablate); other values were not measured
JUMP_SHARE, JUMP_TIMES = 0.02, 10.0  # share of the rows, and times as many as other values on average: it may jump


def ramps_of(cells: Vector, weights: Vector, count: int, *, may_jump: bool = True) -> Ramps:
    """Return the ramps of a term's cells (rows,); one that is 0 in every row for a term without two values."""
    present = ~np.isnan(cells)
    if not present.all():
        cells, weights = cells[present], weights[present]
    if cells.size == 0 or np.ptp(cells) == 0.0:
        start = cells[0] if cells.size else 0.0
        return Ramps(np.array([start, start + 1.0]))
    return (_with_jump(cells, weights, count) if may_jump else None) or place_ramps(cells, weights, count)


def _with_jump(cells: Vector, weights: Vector, count: int) -> Ramps | None:
    """Return ramps of which one jumps from the first or last value, if that has many rows, as 0 has of most gains."""
    values, counts = distinct(cells, weights)
    if count < 4 or values.size <= count + 1:  # every value is a knot
        return None
    least = NEAREST_KNOTS * (values[-1] - values[0])
    if _has_many(counts) and values[1] - values[0] > least:
        rest = cells > values[0]
        knots = place_ramps(cells[rest], weights[rest], count - 1).knots
        return Ramps(np.array([values[0], values[1], *knots[1:]]), 0)  # no margin on the side of the jump
    if _has_many(counts[::-1]) and values[-1] - values[-2] > least:
        rest = cells < values[-1]
        knots = place_ramps(cells[rest], weights[rest], count - 1).knots
        return Ramps(np.array([*knots[:-1], values[-2], values[-1]]), knots.size - 1)
    return None


def _has_many(counts: Vector) -> bool:
    """Return whether the first of the values, by their weights (values,), is of another kind than the others."""
    return bool(counts[0] >= max(JUMP_SHARE * counts.sum(), JUMP_TIMES * counts[1:].mean()))


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


@dataclass(frozen=True, slots=True, eq=False)
class KnotSums:
    """Sums over rows at the knots of all terms, H being the rows' shares of the knots about them.

    ``gram`` is HᵀWH (knots, knots) and ``sums`` HᵀW(1, v) (knots, 1 + r) for values v (rows, r); ``totals`` (1 + r,)
    are the sums of w and wv, ``squares`` (r,) that of wv². Sums of other rows can be added.
    """

    gram: Matrix
    sums: Matrix
    totals: Vector
    squares: Vector

    @classmethod
    def of(cls, placed: PlacedRows, weights: Vector, values: Matrix) -> KnotSums:
        """Return the sums over placed rows for weights (rows,) and values (rows, r)."""
        weighted = weights[:, None] * np.column_stack([np.ones_like(weights), values])
        squares = np.einsum("ni,ni->i", weighted[:, 1:], values)
        return cls(placed.gram(weights), placed.sums(weighted), weighted.sum(axis=0), squares)

    def __add__(self, other: KnotSums) -> KnotSums:
        return KnotSums(
            self.gram + other.gram,
            self.sums + other.sums,
            self.totals + other.totals,
            self.squares + other.squares,
        )


class RampBasis:
    """T (knots, columns): the values at all knots of each ramp less its mean.

    A sum of ramps with coefficients β is H T β in the rows. ``means`` (columns,) are over the rows in which a ramp's
    term is present, by the weights whose sums at the knots, HᵀW1 (knots,), are given. Where a term is absent, its
    ramps less their means are 0.
    """

    def __init__(self, layout: Layout, at_knots: Vector) -> None:
        self.layout = layout
        ends = np.cumsum([ramps.size + 1 for ramps in layout.ramps])
        self.knots = [slice(int(end) - ramps.size - 1, int(end)) for ramps, end in zip(layout.ramps, ends, strict=True)]
        self.means = np.zeros(layout.size)
        for columns, knots in zip(layout.slices, self.knots, strict=True):
            self.means[columns] = _beyond(at_knots[knots]) / max(at_knots[knots].sum(), np.finfo(float).tiny)

    def at_knots(self, coefficients: Matrix) -> Matrix:
        """Return Tβ, the values of a sum of ramps at all knots, shape (knots, r)."""
        values = np.zeros((self.knots[-1].stop, coefficients.shape[1]))
        for columns, knots in zip(self.layout.slices, self.knots, strict=True):
            values[knots][1:] = np.cumsum(coefficients[columns], axis=0)
            values[knots] -= self.means[columns] @ coefficients[columns]
        return values

    def to_ramps(self, sums: Matrix) -> Matrix:
        """Return Tᵀs, shape (columns, r), for s of shape (knots, r)."""
        result = np.empty((self.layout.size, sums.shape[1]))
        for columns, knots in zip(self.layout.slices, self.knots, strict=True):
            part = sums[knots]
            result[columns] = _beyond(part) - np.multiply.outer(self.means[columns], part.sum(axis=0))
        return result

    def gram(self, knot_gram: Matrix, at_knots: Vector, total: float) -> WeightedGram:
        """Return the products of columns from HᵀWH (knots, knots), HᵀW1 (knots,) and the sum of the weights."""
        means = self.to_ramps(at_knots[:, None])[:, 0] / total
        matrix = np.empty((self.layout.size, self.layout.size))
        for columns, knots in zip(self.layout.slices, self.knots, strict=True):  # no copies of the whole
            part = self.to_ramps(knot_gram[knots].T).T
            matrix[columns] = _beyond(part) - np.outer(self.means[columns], part.sum(axis=0))
            matrix[columns] -= np.outer(total * means[columns], means)
        return WeightedGram(matrix, means, total)

    def least_squares(self, sums: KnotSums) -> LeastSquares:
        """Return the weighted squared error of the values that were summed."""
        total, centers = float(sums.totals[0]), sums.totals[1:] / sums.totals[0]
        moment = self.to_ramps(sums.sums[:, 1:] - sums.sums[:, :1] * centers)
        squares = np.maximum(sums.squares - total * centers**2, 0.0)
        return LeastSquares(self.gram(sums.gram, sums.sums[:, 0], total), moment, centers, squares)


class RampDesign(RampBasis):
    """Z = H T: the ramps of all terms, less their weighted means, in rows x (terms, rows)."""

    def __init__(self, layout: Layout, x: Matrix, weights: Vector) -> None:
        self.placed = PlacedRows.of(layout.ramps, x)
        super().__init__(layout, self.placed.sums(weights[:, None])[:, 0])

    def times(self, coefficients: Matrix) -> Matrix:
        """Return Zβ, shape (rows, r)."""
        return self.placed.times(self.at_knots(coefficients))

    def transposed_times(self, values: Matrix) -> Matrix:
        """Return Zᵀv, shape (columns, r), for v of shape (rows, r)."""
        return self.to_ramps(self.placed.sums(values))

    def weighted_gram(self, weights: Vector) -> WeightedGram:
        """Return the sums of products of columns under weights of shape (rows,)."""
        at_knots = self.placed.sums(weights[:, None])[:, 0]
        return self.gram(self.placed.gram(weights), at_knots, float(weights.sum()))

    def squared_error(self, weights: Vector, targets: Matrix) -> LeastSquares:
        """Return the weighted squared error of targets (rows, r) for weights of shape (rows,)."""
        return self.least_squares(KnotSums.of(self.placed, weights, targets))


@dataclass(frozen=True, slots=True, eq=False)
class SmoothState:
    """A fit: the columns' coefficients (columns, outputs) and the λ of each term that gave them.

    ``spreads`` say how uncertain the coefficients of each output are; one where the outputs share them.
    """

    layout: Layout
    coefficients: Matrix
    intercept: Vector
    strengths: list[Vector]
    noise: float
    degrees_of_freedom: Vector
    spreads: Sequence[Spread]


def _beyond(sums: Matrix) -> Matrix:
    """Return for each ramp the sum over the knots beyond it, along the first axis: shape (m, …) from (m + 1, …)."""
    return np.cumsum(sums[:0:-1], axis=0)[::-1]
