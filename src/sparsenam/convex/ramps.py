"""Ramps: the clipped ReLU units of one feature, one between each two neighbouring knots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from sparsenam.errors import InputError, describe
from sparsenam.tables.scaling import Matrix, Vector

# numbers are mean test MSE of the synthetic regression, ten seeds, floor 1.0
EVEN_SHARE = 0.4  # of the scale by length, not rows: 1.095; 1.232 at 0, 1.100 at 1
MARGIN = 0.1  # share of the bulk by which the end ramps pass the data: 1.095; 1.133 at 0, 1.116 at 0.3
REACH = 3.0  # interquartile ranges from the quartiles to the ends of the bulk; outliers get few knots
NEAR = 1e-10  # knots closer than this share of the range are one: a steeper ramp would be rounding alone


@dataclass(frozen=True, slots=True, eq=False)
class Ramps:
    """Clipped ReLU units clip((x - tₖ)/hₖ, 0, 1) between neighbouring knots t₀ < … < tₘ of one feature.

    hₖ = tₖ₊₁ - tₖ, and ``knots`` has shape (m + 1,). Σₖ cₖ rampₖ(x) is piecewise linear with these knots,
    0 left of t₀, level right of tₘ, and rises by cₖ between tₖ and tₖ₊₁.
    """

    knots: Vector

    @property
    def size(self) -> int:
        """Number of ramps, m."""
        return self.knots.size - 1

    def columns(self, x: Vector) -> Matrix:
        """Return the ramps at x of shape (rows,), shape (rows, m)."""
        columns = x[:, None] - self.knots[:-1]
        columns /= np.diff(self.knots)
        return np.clip(columns, 0.0, 1.0, out=columns)


def place_ramps(x: Vector, weights: Vector, count: int) -> Ramps:
    """Return about ``count`` ramps for one column, dense where rows are many and even elsewhere.

    The knots are equally spaced on the scale 0.6 F + 0.4 L, where F is the share of rows below (a tied value
    counts for at most one ramp) and L the position between the ends of the bulk. A column with at most
    ``count + 1`` values gets its knots at the values, so that any function of them is a sum of ramps.

    Parameters
    ----------
    x
        Values, shape (rows,).
    weights
        Number of times that each row counts, shape (rows,); 2 is the row twice.
    """
    values, counts = distinct(x, weights)
    if values.size < 2:
        got = f"{values.size} value(s) in rows of weight above 0"
        raise InputError(describe("place_ramps", "a column that varies", got, "leave the column out"))
    if values.size <= count + 1:
        return Ramps(_apart(values))
    total = counts.sum()
    cumulated = np.cumsum(counts)
    first, third = values[np.searchsorted(cumulated, (0.25 * total, 0.75 * total))]
    spread = third - first if third > first else (values[-1] - values[0]) / 6.0
    low, high = max(values[0], first - REACH * spread), min(values[-1], third + REACH * spread)
    counts = np.minimum(counts, total / count)
    middles = np.cumsum(counts) - 0.5 * counts
    middles = (middles - middles[0]) / (middles[-1] - middles[0])
    positions = np.minimum(np.maximum((values - low) / (high - low), 0.0), 1.0)
    scale = (1.0 - EVEN_SHARE) * middles + EVEN_SHARE * (positions - positions[0])
    places = np.arange(count + 1, dtype=np.float64) / count * scale[-1]
    between = cast(Vector, np.interp(places, scale, values))
    knots = _apart(between)
    knots[0] -= MARGIN * (high - low)
    knots[-1] += MARGIN * (high - low)
    return Ramps(knots)


def distinct(x: Vector, weights: Vector) -> tuple[Vector, Vector]:
    """Return the distinct values of the rows that count, sorted, and the weight of each."""
    if not weights.all():
        x, weights = x[weights > 0], weights[weights > 0]
    if x.size == 0:
        return x, weights
    order = np.argsort(x)
    ordered = x[order]
    new = np.empty(x.size, dtype=np.bool_)
    new[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    starts = np.flatnonzero(new)
    return ordered[starts], np.add.reduceat(weights[order], starts)


def _apart(knots: Vector) -> Vector:
    """Return the knots without those that all but coincide with the one before; both ends stay."""
    gaps = knots[1:] - knots[:-1]
    kept = np.empty(knots.size, dtype=np.bool_)
    kept[0] = True
    np.greater(gaps, NEAR * (knots[-1] - knots[0]), out=kept[1:])
    result = knots[kept]
    result[-1] = knots[-1]
    return result
