"""Cells far from all others of their column: what stands for a missing cell, and what is beyond reason.

A column's spread is the distance of its quartiles, or of the first pair of wider quantiles that differ where half of
its cells hold one value. Distances are from the median.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import ExtremeCellWarning
from sparsenam.tables.text import date_key, number_key

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

TAILS = (0.25, 0.1, 0.05, 0.01, 0.005, 0.001)  # beyond each of two quantiles, until these differ
LIMIT = 1e6  # spreads from the median at which a fit takes all cells as one: beyond, float64 blurs the others
# how many times as far again as any cell before, for numbers that are filled in and for others
REPEATED = (1.0, 10.0)  # makes a repeated value far
ALONE = (1e3, 1e4)  # makes any cell beyond reason, times √(how many spreads away that one is): no tail has such gaps
FEWEST_VALUES, FEWEST_CELLS, MOST_FILLS = 10, 3, 3  # other values; cells of a fill value; fill values on one side
QUICK = 3.0  # spreads within which no cell is far
CELLS_AT_ONCE, QUARTILE_ROWS = 1_000_000, 10_000  # in memory at once; from which quartiles are guessed
WHOLE_ENDS = frozenset(2**bits - less for bits in (15, 16, 31, 32, 63, 64) for less in (0, 1))
FILLED_DATES = frozenset(("9999-12-31", "2999-12-31", "2099-12-31", "1900-01-01", "1970-01-01", "0001-01-01"))
FAR = "; far from all other values: "
MOST_NAMED = 3


@dataclass(frozen=True, slots=True, eq=False)
class FarCells:
    """The values of a column that are far from all others, how many cells each has, and which are beyond reason."""

    values: Vector
    counts: NDArray[np.intp]
    unreasonable: NDArray[np.bool_]

    def described(self, is_date: bool) -> str:
        """Return what the column's description says of them."""
        shown = [
            f"{shown_value(float(value), is_date)} in {count} cell{'s' if count > 1 else ''}"
            for value, count in zip(self.values[:MOST_NAMED], self.counts, strict=False)
        ]
        return FAR + ", ".join(shown) + (" …" if self.values.size > MOST_NAMED else "")


def shown_value(value: float, is_date: bool) -> str:
    """Return a value as the table would show it."""
    if is_date:
        return date_key(value)
    return number_key(value) if abs(value) < 1e15 else f"{value:g}"


def far_cells_note(columns: Iterable[tuple[str, str]]) -> list[str]:
    """Return which values are far from all others, in a sentence, given columns' names and descriptions."""
    said = ((name, description.partition(FAR)[2].partition(";")[0]) for name, description in columns)
    found = [f"{name!r} has {cells}" for name, cells in said if cells]
    if not found:
        return []
    more = f"; so have {len(found) - MOST_NAMED} more columns" if len(found) > MOST_NAMED else ""
    remedy = "where they stand for missing cells, leave these empty"
    return [f"Values far from all others of their column: {'; '.join(found[:MOST_NAMED])}{more}; {remedy}."]


def far_cells(numbers: Vector, is_date: bool) -> FarCells | None:
    """Return the values (rows,) far from all others: repeated ones and those beyond reason; None without any."""
    values, counts = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
    median, spread = middle(values, counts) if values.size else (0.0, 0.0)
    if spread == 0.0:
        return None
    sides, beyond = list[NDArray[np.intp]](), list[NDArray[np.bool_]]()
    for sign in (-1, 1):
        side = np.flatnonzero(sign * (values - median) > 0)[::sign]  # from the median outwards
        far, worst = _far_from(values[side], counts[side], np.abs(values[side] - median), spread, values.size, is_date)
        sides.append(side[min(far, worst) :])
        beyond.append(np.arange(min(far, worst), side.size) >= worst)
    found = np.concatenate(sides)
    return FarCells(values[found], counts[found], np.concatenate(beyond)) if found.size else None


def _far_from(
    values: Vector, counts: NDArray[np.intp], distances: Vector, spread: float, n_values: int, is_date: bool
) -> tuple[int, int]:
    """Return from which of one side's values on, outwards, they are far, and beyond reason; their number for none."""
    before = np.concatenate([[0.0], distances[:-1]])
    reached = np.maximum(before, spread)
    gaps = (distances - before) / reached
    least, far, worst = np.sqrt(reached / spread), values.size, values.size
    for first in np.flatnonzero(gaps > REPEATED[0])[::-1]:  # few: each is twice as far as the one before
        outside, other = values.size - int(first), not looks_filled(float(values[first]), is_date)
        if gaps[first] > ALONE[other] * least[first]:
            worst = int(first)
        if outside > MOST_FILLS or n_values - outside < FEWEST_VALUES or counts[first:].min() < 2:
            continue
        if counts[first:].sum() >= FEWEST_CELLS and gaps[first] > REPEATED[other]:
            far = int(first)
    return far, worst


def looks_filled(value: float, is_date: bool) -> bool:
    """Return whether people and programs write such a value where they have none: 999, -9, 1e20, 32767, 9999-12-31."""
    if is_date:
        return date_key(value)[:10] in FILLED_DATES
    size = abs(value)
    if size >= 1e15 or size in WHOLE_ENDS:
        return True
    if size != int(size):
        return False
    digits = str(int(size))
    same = len(set(digits)) == 1 and digits[0] in "6789" and (len(digits) > 1 or value < 0)
    return same or (len(digits) > 2 and digits.strip("0") == "1" and digits[0] == "1")


def find_far_cells(
    names: Sequence[str], columns: Sequence[Vector], dates: Sequence[bool], among: str
) -> dict[int, str]:
    """Return what to say of each column (rows,) that has far cells, and warn once of all that are beyond reason.

    ``among`` says which rows these are, where they are a sample.
    """
    said, unreasonable = dict[int, str](), list[tuple[str, str, int, int]]()
    for index in suspects(columns, QUICK):
        far = far_cells(columns[index], dates[index])
        if far is None:
            continue
        said[index] = far.described(dates[index])
        if far.unreasonable.any():
            value = float(far.values[np.argmax(far.unreasonable)])
            row = int(np.argmax(columns[index] == value))
            count = int(far.counts[far.unreasonable].sum())
            unreasonable.append((names[index], shown_value(value, dates[index]), row, count))
    if unreasonable:
        warnings.warn(ExtremeCellWarning(unreasonable, among), stacklevel=4)
    return said


def middle(values: Vector, counts: NDArray[np.floating] | NDArray[np.intp]) -> tuple[float, float]:
    """Return the median and the spread of distinct values (k,), rising, that count so often; spread 0 for one value."""
    cumulated = np.cumsum(counts) / np.sum(counts)
    at = np.minimum(np.searchsorted(cumulated, [0.5, *TAILS]), values.size - 1)
    above = np.minimum(np.searchsorted(cumulated, 1.0 - np.array(TAILS)), values.size - 1)
    # halves, since the distance of huge numbers of both signs is no finite number
    spreads = values[above] / 2 - values[at[1:]] / 2
    wide = np.flatnonzero(spreads > 0)
    return float(values[at[0]]), float(2 * spreads[wide[0]]) if wide.size else 0.0


def suspects(columns: Sequence[Vector], spreads: float) -> Iterator[int]:
    """Yield the columns, each (rows,), that may have a cell so many spreads from the median, in rising order."""
    rows = columns[0].size if columns else 0
    if rows < FEWEST_VALUES:
        return
    step = max(1, CELLS_AT_ONCE // rows)
    drawn = np.arange(rows) if rows <= QUARTILE_ROWS else np.random.default_rng(0).integers(0, rows, QUARTILE_ROWS)
    places = [drawn.size // 4, drawn.size // 2, (3 * drawn.size) // 4]
    for start in range(0, len(columns), step):
        block = np.array(columns[start : start + step])
        low, high = block.min(axis=1) / 2, block.max(axis=1) / 2  # halves, for huge numbers of both signs
        block = block if drawn.size == rows else block[:, drawn]
        block.partition(places, axis=1)
        first, median, third = block[:, places].T / 2
        reach = np.maximum(high - median, median - low)
        near = reach <= 0.5 * spreads * (third - first)  # half: the quartiles may be those of some rows
        yield from (np.flatnonzero(~(near | (low == high))) + start).tolist()  # also where cells are NaN


def limited(columns: Matrix, weights: Vector, skipped: NDArray[np.bool_] | None) -> Matrix:
    """Return columns (rows, k) with cells beyond `LIMIT` spreads moved there; the same array where there are none.

    Such a cell would set the scale alone, and float64 would hold the others as one value. A shape is level beyond its
    last knot, so that a prediction for the cell itself is the one for where it was moved. ``skipped`` (k,) are codes.
    """
    result = columns
    for index in suspects(list(columns.T), LIMIT):
        if skipped is not None and skipped[index]:
            continue
        column = columns[:, index]
        low, high = _limits(column, weights)
        if ((column < low) | (column > high)).any():
            result = columns.copy(order="K") if result is columns else result
            np.clip(column, low, high, out=result[:, index])
    return result


def _limits(column: Vector, weights: Vector) -> tuple[float, float]:
    values, inverse = np.unique(column[~np.isnan(column)], return_inverse=True)
    counts = np.bincount(inverse, weights[~np.isnan(column)])
    median, spread = middle(values, counts) if values.size else (0.0, 0.0)
    if spread == 0.0:
        return -np.inf, np.inf
    with np.errstate(over="ignore"):  # a limit beyond float64 is none
        return median - LIMIT * spread, median + LIMIT * spread
