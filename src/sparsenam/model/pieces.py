"""Straight pieces between knots, and the fast search for the piece of each of many numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

ROWS_AT_ONCE = 32_768  # so that the numbers between two steps stay in the processor's cache
BUCKETS = 4096  # most; their table stays in the cache too
FAR_LARGER = 1000.0
REACH = 3.0  # interquartile ranges from the quartiles of the knots to the ends of the even buckets


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """For numbers x, how many knots are not above each: the index of its piece.

    An even grid of buckets says it at once where a bucket holds no knot, after one comparison where it holds one,
    and by bisection in the others (``crowded``). The bucket of x is a rising function of x whatever the rounding,
    so the answer is exact.
    """

    knots: Vector
    low: float
    high: float
    per_unit: float
    before: NDArray[np.intp]
    crowded: NDArray[np.bool_]

    @classmethod
    def among(cls, knots: Vector) -> Self:
        """Return the search among knots of shape (m,), ascending; two or more buckets for each knot."""
        first, third = np.quantile(knots, (0.25, 0.75))
        low = max(knots[0], first - REACH * (third - first))
        high = min(knots[-1], third + REACH * (third - first))
        buckets = min(BUCKETS, 16 * 2 ** int(np.ceil(np.log2(knots.size + 1))))
        width = (high - low) / (buckets - 1)
        per_unit = 1.0 / width if width > 0 and np.isfinite(1.0 / width) else 0.0
        places = bucket_of(knots, low, high, per_unit)
        counts = np.bincount(places, minlength=buckets)
        return cls(
            np.append(knots, np.inf), float(low), float(high), per_unit, np.cumsum(counts) - counts, counts > 1
        )

    def places(self, x: Vector) -> NDArray[np.intp]:
        """Return how many knots are not above x, shape (rows,); any number from 0 to m where x is NaN."""
        buckets = bucket_of(x, self.low, self.high, self.per_unit)
        found = self.before.take(buckets)
        found += x >= self.knots.take(found)
        if self.crowded.any():
            hard = np.flatnonzero(self.crowded.take(buckets))
            found[hard] = np.minimum(np.searchsorted(self.knots, x[hard], side="right"), self.knots.size - 1)
        return found


def bucket_of(x: Vector, low: float, high: float, per_unit: float) -> NDArray[np.intp]:
    """Return the bucket of each x, (x - low) per_unit with x cut off at low and high; any bucket if x is NaN."""
    across = np.fmin(x, high)  # unlike minimum, these pass NaN over
    np.fmax(across, low, out=across)
    across -= low
    across *= per_unit
    return across.astype(np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The m + 1 straight pieces around m knots: v(x) = base + slope (x - anchor) on each.

    ``anchors`` have shape (m + 1,), ``bases`` and ``slopes`` (outputs, m + 1).
    """

    search: Search
    anchors: Vector
    bases: Matrix
    slopes: Matrix

    @classmethod
    def between(cls, knots: Vector, values: Matrix, left_slope: Vector, right_slope: Vector) -> Self:
        """Return the pieces through values (m, outputs) at knots (m,).

        A piece starts from its left end, unless the value there is far larger than that at the right end: from a
        far-off knot the value near the data would be a small difference of two huge numbers.
        """
        slopes = np.empty((values.shape[1], knots.size + 1))
        slopes[:, 0], slopes[:, -1] = left_slope, right_slope
        slopes[:, 1:-1] = (np.diff(values, axis=0) / np.diff(knots)[:, None]).T
        sizes = np.abs(values).max(axis=1)
        starts = np.concatenate([[0], np.arange(knots.size)])
        starts[1:-1] += FAR_LARGER * sizes[1:] < sizes[:-1]
        return cls(Search.among(knots), knots[starts], np.ascontiguousarray(values[starts].T), slopes)

    def values(self, x: Vector) -> Iterator[tuple[slice, int, Vector]]:
        """Yield rows, output and v there, some rows of x (rows,) at a time."""
        for start in range(0, x.size, ROWS_AT_ONCE):
            part = slice(start, min(start + ROWS_AT_ONCE, x.size))
            own = x[part]
            places = self.search.places(own)
            across = own - self.anchors.take(places)
            for output in range(len(self.bases)):
                result = self.slopes[output].take(places)
                result *= across
                result += self.bases[output].take(places)
                yield part, output, result
