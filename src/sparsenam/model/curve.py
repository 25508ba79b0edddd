"""The effect of one term: a broken line, known by its knots, the values there and the slopes beyond its ends."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.codec import Matrix, Vector
from sparsenam.errors import InputError, describe

ROWS_IN_CACHE = 32_768  # so that the numbers between two steps stay in the processor's cache
BUCKETS = 4096  # most; their table stays in the cache too
FAR_LARGER = 1000.0
ROUNDINGS = 60  # steps to the next number after which a slope that still goes too far is none
REACH = 3.0  # interquartile ranges from the quartiles of the knots to the ends of the even buckets


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """For numbers x, how many knots are not above each: the index of its piece.

    An even grid of buckets says it at once where a bucket holds no knot, after one comparison where it holds one,
    and by bisection in the others (``crowded``). The bucket of x is a rising function of x whatever the rounding,
    so the answer is exact. It takes a fifth of the time of ``np.searchsorted``.
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
        first, third = knots[knots.size // 4], knots[-1 - knots.size // 4]  # near the quartiles
        low = max(knots[0], first - REACH * (third - first))
        high = min(knots[-1], third + REACH * (third - first))
        buckets = min(BUCKETS, 16 * 2 ** int(np.ceil(np.log2(knots.size + 1))))
        width = (high - low) / (buckets - 1)
        per_unit = 1.0 / width if width > 0 and np.isfinite(1.0 / width) else 0.0
        counts = np.bincount(bucket_of(knots, low, high, per_unit), minlength=buckets)
        return cls(np.append(knots, np.inf), float(low), float(high), per_unit, np.cumsum(counts) - counts, counts > 1)

    def pieces(self, x: Vector) -> NDArray[np.intp]:
        """Return how many knots are not above x, shape (rows,); any number from 0 to m where x is NaN."""
        buckets = bucket_of(x, self.low, self.high, self.per_unit)
        found = self.before.take(buckets, mode="clip")
        found += x >= self.knots.take(found)
        if self.crowded.any():
            hard = np.flatnonzero(self.crowded.take(buckets, mode="clip"))
            found[hard] = np.minimum(np.searchsorted(self.knots, x[hard], side="right"), self.knots.size - 1)
        return found


def interpolated(x: Vector, knots: Vector, values: Matrix) -> Matrix:
    """Return functions with values (m, k) at knots (m,), linear in between and level beyond, at x: (rows, k)."""
    found = np.empty((x.size, values.shape[1]))
    for column in range(values.shape[1]):
        found[:, column] = np.interp(x, knots, values[:, column])
    return found


def bucket_of(x: Vector, low: float, high: float, per_unit: float) -> NDArray[np.intp]:
    """Return the bucket of each x, (x - low) per_unit with x cut off at low and high; any number if x is NaN."""
    across = np.clip(x, low, high)
    across -= low
    across *= per_unit
    with np.errstate(invalid="ignore"):  # NaN is no whole number
        return across.astype(np.intp)


@dataclass(frozen=True, eq=False)
class FittedCurve:
    """The effect of one term: linear between knots, with another slope beyond either end.

    ``knots`` (m,), m ≥ 1, are where the slope changes, rising, in the units of the term; ``values`` (m, outputs) are
    the effects there. ``left_slope`` and ``right_slope`` (outputs,) are those below the first and above the last knot,
    ``absent`` (outputs,) is what is added where the term is NaN.
    """

    knots: Vector
    values: Matrix
    left_slope: Vector
    right_slope: Vector
    absent: Vector

    def __post_init__(self) -> None:
        outputs = self.values.shape[1] if self.values.ndim == 2 else -1
        ends = (self.left_slope, self.right_slope, self.absent)
        if self.values.shape != (self.knots.size, outputs) or any(end.shape != (outputs,) for end in ends):
            shapes = [array.shape for array in (self.knots, self.values, *ends)]
            got, remedy = f"shapes {shapes}", "give (m,), (m, outputs) and three times (outputs,)"
            raise InputError(describe("FittedCurve", "arrays that fit together", got, remedy))
        if not self.knots.size or not (np.diff(self.knots) > 0).all():
            raise InputError(describe("FittedCurve", "one or more rising knots", "others", "sort them"))
        if not all(np.isfinite(array).all() for array in (self.knots, self.values, *ends)):
            raise InputError(describe("FittedCurve", "finite numbers", "others", "correct them"))

    @classmethod
    def level_beyond(cls, knots: Vector, values: Matrix, absent: Vector | None = None) -> Self:
        """Return the curve through values (m, outputs) at knots (m,), level beyond the ends."""
        level = np.zeros(values.shape[1])
        return cls(knots, values, level, level, level if absent is None else absent)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FittedCurve):
            return NotImplemented
        return all(np.array_equal(getattr(self, part.name), getattr(other, part.name)) for part in fields(self))

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.values.shape[1]

    @property
    def n_parameters(self) -> int:
        """Parameters of the clipped units, one for each piece that need not be level; a single one is its rise alone.

        A unit has a weight, a bias and a weight for each output.
        """
        units = self.knots.size - 1 + int(self.left_slope.any()) + int(self.right_slope.any())
        return self.outputs if units <= 1 else units * (2 + self.outputs)

    @cached_property
    def lines(self) -> tuple[Vector, Matrix, Matrix]:
        """Anchors (m + 1,), bases and slopes (outputs, m + 1): on piece k the effect is base + slope (x - anchor).

        A piece starts from its left end, unless the value there is far larger than that at the right end: from a
        far-off knot the value near the data would be a small difference of two huge numbers.
        """
        knots, values = self.knots, self.values
        slopes = np.empty((self.outputs, knots.size + 1))
        slopes[:, 0], slopes[:, -1] = self.left_slope, self.right_slope
        slopes[:, 1:-1] = (np.diff(values, axis=0) / np.diff(knots)[:, None]).T
        sizes = np.abs(values).max(axis=1)
        starts = np.concatenate([[0], np.arange(knots.size)])
        starts[1:-1] += FAR_LARGER * sizes[1:] < sizes[:-1]
        bases = np.ascontiguousarray(values[starts].T)
        ends = 2 * np.arange(knots.size - 1) + 1 - starts[1:-1]  # the knot that a piece does not start from
        _shorten(slopes[:, 1:-1], bases[:, 1:-1], knots[ends] - knots[starts[1:-1]], values[ends].T)
        return knots[starts], bases, slopes

    @cached_property
    def _search(self) -> Search:
        return Search.among(self.knots)

    def __call__(self, x: ArrayLike) -> Matrix:
        """Return the effect at x of shape (rows,), shape (rows, outputs)."""
        column = np.ascontiguousarray(x, dtype=np.float64).reshape(-1)
        effects = np.zeros((column.size, self.outputs))
        self.add_to(effects, column)
        return effects

    def add_to(self, total: Matrix, x: Vector) -> None:
        """Add the effect at x of shape (rows,) to ``total``, shape (rows, outputs)."""
        missing = np.flatnonzero(np.isnan(x))
        before, (anchors, bases, slopes) = total[missing], self.lines
        for start in range(0, x.size, ROWS_IN_CACHE):
            rows = slice(start, start + ROWS_IN_CACHE)
            pieces = self._search.pieces(x[rows])
            across = x[rows] - anchors.take(pieces)
            for output in range(self.outputs):
                result = slopes[output].take(pieces)
                result *= across
                result += bases[output].take(pieces)
                total[rows, output] += result
        if missing.size:
            total[missing] = before + self.absent

    def in_units(self, center: float, scale: float, offset: Vector, unit: Vector, absent: Vector) -> Self:
        """Return the curve of a scaled term as one of the term itself.

        ``center`` and ``scale`` are those of the term; ``offset`` is taken from the values, which are then in units of
        ``unit``, as ``absent`` is. All have shape (outputs,).
        """
        left, right = (slope * unit / scale for slope in (self.left_slope, self.right_slope))
        knots = _rising(center + scale * self.knots)
        return type(self)(knots, (self.values - offset) * unit, left, right, absent * unit)


def _shorten(slopes: Matrix, bases: Matrix, across: Vector, ends: Matrix) -> None:
    """Take from slopes (outputs, pieces) what rounding carries beyond the value at the other end of a piece.

    Then an effect whose values rise from knot to knot rises to the last bit between them too, rounding being monotone.
    """
    beyond = np.ones(slopes.shape, dtype=np.bool_)
    for _ in range(ROUNDINGS):
        beyond = (bases + slopes * across - ends) * np.sign(slopes * across) > 0
        if not beyond.any():
            return
        slopes[beyond] = np.nextafter(slopes[beyond], 0.0)
    slopes[beyond] = 0.0


def _rising(knots: Vector) -> Vector:
    """Return the knots with those that rounding made equal one after the other, as near as numbers can be."""
    while (equal := np.flatnonzero(np.diff(knots) <= 0)).size:
        knots[equal[0] + 1] = np.nextafter(knots[equal[0]], np.inf)
    return knots
