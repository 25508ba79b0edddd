"""Bins of a scorecard: which bin a cell is in, a curve cut into ranges, levels by their codes, and texts of bins.

A curve becomes the fewest bins for which no point is farther from its bin's points than ``max_error``: a bin goes on
until the curve has left the band about every value that its points could have.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from sparsenam.export.portable import Cell, PortableColumn, PortableCurve, is_missing, refusal
from sparsenam.tables.text import date_key

BinKind = Literal["range", "level", "missing", "other"]

MOST_BINS = 1000  # of a column; more are no card
SPARE_ERROR_SHARE = 0.1  # share of max_error that is left for cuts with few digits
BIN_ROUNDING = 1e-9  # of a unit: what rounding may take from a bin
MOST_LEVEL_NAMES = 8  # levels that a label names


@dataclass(frozen=True, slots=True)
class Bin:
    """Cells that have the same points: numbers from ``low`` to below ``high``, levels of some ``codes``, missing cells.

    ``low`` or ``high`` is None where a range is open. ``levels`` are the texts of the codes. The kind "other" takes
    every cell that is there and in no other bin.
    """

    kind: BinKind
    label: str
    points: float
    low: float | None = None
    high: float | None = None
    codes: tuple[int, ...] = ()
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CardBins:
    """A column and its bins: ranges in rising order, or levels; then missing cells and others.

    ``needs_finite`` says whether the model reads its number, so that an infinite one has no answer.
    """

    column: PortableColumn
    bins: tuple[Bin, ...]
    needs_finite: bool

    def place(self, cell: Cell) -> int | None:
        """Return the place of a cell's bin; None for a number that the model cannot take."""
        kinds = [found.kind for found in self.bins]
        if cell is None or is_missing(cell):
            return kinds.index("missing")
        if self.column.kind == "category":
            code = self.column.code(cell)
            return next((at for at, found in enumerate(self.bins) if code in found.codes), kinds.index("other"))
        x = self._number(cell)
        if math.isinf(x) and self.needs_finite:
            return None
        cuts = [found.low for found in self.bins[1:] if found.low is not None]
        return bisect_right(cuts, x)

    def _number(self, cell: Cell) -> float:
        try:
            return float(cell)  # pyright: ignore[reportArgumentType]
        except (TypeError, ValueError) as error:
            remedy = "write a number, or leave it empty"
            raise refusal(f"cell of {self.column.name!r}", "a number", repr(cell), remedy) from error


class Segment(NamedTuple):
    """A straight part of a curve in points, from x0 to x1, which may be infinite where the part is level."""

    x0: float
    y0: float
    x1: float
    y1: float

    def at(self, x: float) -> float:
        """Return the points at x, which lies within."""
        if self.y0 == self.y1:
            return self.y0
        return self.y0 + (self.y1 - self.y0) * ((x - self.x0) / (self.x1 - self.x0))


class Rounding(NamedTuple):
    """To how many digits points are rounded, and how far they may be from a curve."""

    digits: int
    max_error: float

    @property
    def unit(self) -> float:
        """The step between two values of points."""
        return 10.0**-self.digits

    def __call__(self, points: float) -> float:
        """Return points rounded, a whole number where no digits are asked for."""
        return round(points, self.digits) if self.digits else round(points)

    def highest(self, low: float, error: float) -> float:
        """Return the highest value that a bin can reach which has ``low`` in it."""
        return self.unit * math.floor((low + error) / self.unit + BIN_ROUNDING) + error

    def lowest(self, high: float, error: float) -> float:
        """Return the lowest value that a bin can reach which has ``high`` in it."""
        return self.unit * math.ceil((high - error) / self.unit - BIN_ROUNDING) - error


def segments_of(curve: PortableCurve, factor: float, shift: float) -> list[Segment]:
    """Return a curve times a factor and shifted: its straight parts between knots, and level ones beyond them."""

    def y(piece: int, x: float) -> float:
        return shift + factor * (curve.slopes[0][piece] * (x - curve.anchors[piece]) + curve.bases[0][piece])

    knots = curve.knots or (curve.anchors[0],)
    first, last = y(0, knots[0]), y(len(curve.knots), knots[-1])
    inner = [Segment(a, y(piece, a), b, y(piece, b)) for piece, (a, b) in enumerate(pairwise(knots), start=1)]
    return [Segment(-math.inf, first, knots[0], first), *inner, Segment(knots[-1], last, math.inf, last)]


def bins_of_curve(
    column: PortableColumn, segments: Sequence[Segment], rounding: Rounding
) -> tuple[list[Bin], float, float]:
    """Return the bins of a curve, the largest error, and the mean one over the range of the knots."""
    starts, points = _cut(column.name, segments, rounding)
    starts = _readable(segments, starts, points, rounding.max_error)
    ends = [*starts[1:], math.inf]
    largest = area = width = 0.0
    bins: list[Bin] = []
    for low, high, value in zip(starts, ends, points, strict=True):
        bins.append(range_bin(column, low, high, value))
        for part in _within(segments, low, high):
            a, b = part.y0 - value, part.y1 - value
            largest = max(largest, abs(a), abs(b))
            if math.isfinite(part.x1 - part.x0):
                size = abs(a) + abs(b)
                mean = 0.5 * size if a * b >= 0.0 else 0.5 * (a * a + b * b) / size
                area, width = area + mean * (part.x1 - part.x0), width + (part.x1 - part.x0)
    return bins, largest, area / width if width else largest


def _cut(name: str, segments: Sequence[Segment], rounding: Rounding) -> tuple[list[float], list[float]]:
    """Return where bins start, from -∞, and their points: each bin as long as ``max_error`` lets it be."""
    error = max(rounding.max_error * (1.0 - SPARE_ERROR_SHARE), 0.5 * rounding.unit)
    found: list[tuple[float, float]] = []
    start, low, high = -math.inf, segments[0].y0, segments[0].y0
    for part in segments:
        for x0, y in ((part.x0, part.y0), (part.x1, part.y1)):
            while max(high, y) > rounding.highest(min(low, y), error) + BIN_ROUNDING * rounding.unit:
                edge = rounding.highest(low, error) if y > high else rounding.lowest(high, error)
                if x0 == part.x0:  # a jump
                    edge, cut = y, part.x0
                else:
                    cut = part.x0 + (part.x1 - part.x0) * ((edge - part.y0) / (part.y1 - part.y0))
                    low, high = min(low, edge), max(high, edge)
                found.append((start, rounding(0.5 * (low + high))))
                start, low, high = cut, edge, edge
                if len(found) > MOST_BINS:
                    remedy = "raise max_error, or lower pdo"
                    raise refusal(f"scorecard of {name!r}", f"at most {MOST_BINS} bins", "more", remedy)
            low, high = min(low, y), max(high, y)
    found.append((start, rounding(0.5 * (low + high))))
    by_start = dict(found)  # of bins that start at one place the last has a width
    starts: list[float] = []
    points: list[float] = []
    for begin, value in by_start.items():
        if not points or points[-1] != value:
            starts.append(begin)
            points.append(value)
    return starts, points


def _readable(
    segments: Sequence[Segment], starts: Sequence[float], points: Sequence[float], error: float
) -> list[float]:
    """Return the starts with as few digits as the error allows."""
    found = list(starts)
    for place in range(1, len(found)):
        exact, before, after = found[place], found[place - 1], found[place + 1] if place + 1 < len(found) else math.inf
        for digits in range(1, 17):
            cut = float(f"{exact:.{digits}g}")
            value = points[place] if cut < exact else points[place - 1]  # whose bin grows
            grown = _within(segments, min(cut, exact), max(cut, exact))
            if before < cut < after and all(abs(y - value) <= error for part in grown for y in (part.y0, part.y1)):
                found[place] = cut
                break
    return found


def _within(segments: Sequence[Segment], low: float, high: float) -> Iterator[Segment]:
    """Yield the parts of a curve from low to high."""
    for part in segments:
        x0, x1 = max(part.x0, low), min(part.x1, high)
        if x0 < x1:
            yield Segment(x0, part.at(x0), x1, part.at(x1))


def range_bin(column: PortableColumn, low: float, high: float, points: float) -> Bin:
    """Return the bin of a range, open where an end is infinite."""
    start, end = (None if math.isinf(x) else x for x in (low, high))
    texts = ["" if x is None else number_label(column, x) for x in (start, end)]
    label = f"from {texts[0]} to below {texts[1]}"
    if start is None or end is None:
        label = "any value" if start is end else f"below {texts[1]}" if start is None else f"from {texts[0]}"
    return Bin("range", label, points, start, end)


def level_bin(column: PortableColumn, code: int, points: float) -> Bin:
    """Return the bin of a level, with the names of all that share its code."""
    names = tuple(level.text for level in column.levels if level.code == code)
    more = f" and {len(names) - MOST_LEVEL_NAMES} more" if len(names) > MOST_LEVEL_NAMES else ""
    return Bin("level", ", ".join(names[:MOST_LEVEL_NAMES]) + more, points, codes=(code,), levels=names)


def number_label(column: PortableColumn, x: float) -> str:
    """Return a number of a column as text: the date of a day, seconds of a duration."""
    if column.kind == "date":
        try:
            return date_key(x)
        except OverflowError:  # beyond the year 9999
            return f"day {x:.15g}"
    return f"{x:.15g} s" if column.kind == "duration" else f"{x:.15g}"
