"""One column as it was read, before anyone decides what it is; and its cells far from all others.

Far is measured from the median, in spreads: the distance of the quartiles, or of the first pair of wider quantiles that
differ where half of a column holds one value.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Bounds, Positive
from sparsenam.errors import ExtremeCellWarning, InputError, RowError, describe
from sparsenam.tables.text import CellTypeError, date_key, days_since_epoch, is_marker, number_in, number_key

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]
Stored = Literal["number", "truth", "date", "duration", "text", "levels", "ordered"]
AS_NUMBERS = ("number", "truth", "date", "duration")


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of one column.

    ``numbers`` (rows,), NaN where missing, for numbers, truth values (0, 1), dates (days) and durations
    (seconds); ``codes`` (rows,) into ``values``, -1 where missing, for text, for levels declared by the table
    and for levels declared in order. ``markers`` are the texts that were taken as missing.
    """

    name: str
    stored: Stored
    numbers: Vector = field(default_factory=lambda: np.empty(0))
    codes: Codes = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    values: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()

    @property
    def missing(self) -> Mask:
        """Return which cells are missing (rows,)."""
        return np.isnan(self.numbers) if self.stored in AS_NUMBERS else self.codes < 0


def coded(name: str, stored: Literal["text", "levels"], texts: list[str | None]) -> Cells:
    """Return text as codes into its distinct values, blanks around them aside; None and missing cells' marks are -1."""
    distinct = list(dict.fromkeys(texts))
    index_of = {text: index for index, text in enumerate(distinct)}
    found = np.fromiter(map(index_of.__getitem__, texts), dtype=np.intp, count=len(texts))
    stripped = ["" if text is None else text.strip() for text in distinct]
    marks = {text for text, given in zip(stripped, distinct, strict=True) if given is not None and is_marker(text)}
    values = tuple(dict.fromkeys(text for text in stripped if not is_marker(text)))
    renumbered = {text: code for code, text in enumerate(values)}
    new_codes = np.array([renumbered.get(text, -1) for text in stripped], dtype=np.intp)
    return Cells(name, stored, codes=new_codes[found], values=values, markers=tuple(sorted(marks)))


def in_order(name: str, texts: list[str | None], levels: list[str]) -> Cells:
    """Return text as ranks among the levels that the table declares."""
    names = list(dict.fromkeys(level.strip() for level in levels))
    ranks = {level: rank for rank, level in enumerate(names)}
    codes = np.fromiter((-1 if text is None else ranks.get(text.strip(), -1) for text in texts), np.intp, len(texts))
    return Cells(name, "ordered", codes=codes, values=tuple(names))


CellType = Literal["missing", "number", "truth", "date", "duration", "time", "text", "other"]
MISSING_TYPES = ("NoneType", "NAType", "NaTType")  # of pandas too, known by name: it may not be installed
CELL_TYPES: dict[CellType, tuple[type, ...]] = {
    "truth": (bool, np.bool_),
    "duration": (timedelta, np.timedelta64),
    "number": (int, float, np.integer, np.floating, Decimal, Fraction),
    "text": (str,),
    "date": (date, np.datetime64),
    "time": (time,),
}
FIRST_DAY, LAST_DAY = -719162.0, 2932897.0  # the years 1 to 9999
PER_DAY = {"W": 1 / 7, "D": 1.0, "h": 24.0, "m": 1440.0, "s": 86400.0, "ms": 864e5, "us": 864e8}
PER_SECOND = {unit: count / PER_DAY["s"] for unit, count in PER_DAY.items()}


def cell_type_of(kind: type) -> CellType:
    """Return what the cells of a Python type are; the order matters, since some of the types are kin."""
    if kind.__name__ in MISSING_TYPES:
        return "missing"
    for cell_type, types in CELL_TYPES.items():
        if issubclass(kind, types):
            return cell_type
    return "other"


def is_nan(cell: Any) -> bool:
    """Return whether a number is none; a signalling NaN of `Decimal` would raise where it is compared."""
    return cell.is_nan() if isinstance(cell, Decimal) else cell != cell


def from_objects(name: str, cells: Sequence[Any]) -> Cells:
    """Return the column of any Python objects; raise when they are of several kinds."""
    type_of: dict[type, CellType] = {kind: cell_type_of(kind) for kind in set(map(type, cells))}
    if all(kind is str or cell_type == "missing" for kind, cell_type in type_of.items()):  # the usual case
        return coded(name, "text", [cell if type(cell) is str else None for cell in cells])

    def type_with_nan(cell: Any) -> CellType:
        cell_type = type_of[type(cell)]
        return "missing" if cell_type == "number" and is_nan(cell) else cell_type

    types: list[CellType] = [type_with_nan(cell) for cell in cells]
    if {"text"} < set(types) - {"missing"}:  # a marker of a missing cell among cells of another kind
        pairs = zip(types, cells, strict=True)
        types = ["missing" if kind == "text" and is_marker(cell) else kind for kind, cell in pairs]
    found = set(types) - {"missing"}
    texts = (cell for kind, cell in zip(types, cells, strict=True) if kind == "text")
    if found == {"number", "text"} and all(number_in(text) is not None for text in texts):
        found.remove("text")
    if len(found) > 1 or "other" in found:
        raise _mixed(name, types, cells)
    present = [None if kind == "missing" else cell for kind, cell in zip(types, cells, strict=True)]
    if found <= {"text"}:
        return coded(name, "text", [None if cell is None else str(cell) for cell in present])
    return _measured(name, found.pop(), present)


def from_array(name: str, array: NDArray[Any]) -> Cells:
    """Return the column of a one-dimensional NumPy array of any dtype."""
    kind = array.dtype.kind
    if kind in "fiu":
        return Cells(name, "number", numbers=np.asarray(array, dtype=np.float64))
    if kind == "b":
        return Cells(name, "truth", numbers=array.astype(np.float64))
    if kind == "M":
        return Cells(name, "date", numbers=_within_range(name, _days(array)))
    if kind == "m":
        return Cells(name, "duration", numbers=_seconds(name, array))
    return from_objects(name, array.tolist())


def _measured(name: str, cell_type: CellType, cells: list[Any]) -> Cells:
    """Return numbers, truth values, dates or durations as numbers."""
    stored: Stored = "duration" if cell_type == "time" else cast("Stored", cell_type)
    measure = MEASURES[cell_type]
    try:
        numbers = np.array([np.nan if cell is None else measure(cell) for cell in cells], dtype=np.float64)
    except OverflowError as error:
        got, remedy = "one beyond them", "divide the column by a power of ten or leave it out"
        raise InputError(describe(f"column {name!r}", "numbers within float64", got, remedy)) from error
    return Cells(name, stored, numbers=_within_range(name, numbers) if cell_type == "date" else numbers)


def days_of(cell: Any) -> float:
    """Return the days since 1970-01-01 of one moment, Python's or NumPy's."""
    return days_since_epoch(cell) if isinstance(cell, date) else float(_days(np.array([cell]))[0])


def _seconds_of(cell: Any) -> float:
    return cell.total_seconds() if isinstance(cell, timedelta) else float(cell / np.timedelta64(1, "s"))


def _second_of_day(cell: time) -> float:
    return 3600.0 * cell.hour + 60.0 * cell.minute + cell.second + 1e-6 * cell.microsecond


MEASURES: dict[CellType, Callable[[Any], float]] = {
    "number": float,
    "truth": float,
    "date": days_of,
    "duration": _seconds_of,
    "time": _second_of_day,
}


def _days(array: NDArray[Any]) -> Vector:
    unit, _ = np.datetime_data(array.dtype)
    return _in_units(array.astype("datetime64[D]") if unit in ("Y", "M") else array, PER_DAY, "datetime64[us]")


def _seconds(name: str, array: NDArray[Any]) -> Vector:
    unit, _ = np.datetime_data(array.dtype)
    if unit in ("Y", "M"):
        remedy = "convert it to days or seconds"
        raise InputError(describe(f"column {name!r}", "durations of fixed length", f"a unit of {unit!r}", remedy))
    return _in_units(array, PER_SECOND, "timedelta64[us]")


def _in_units(array: NDArray[Any], per_unit: dict[str, float], finest: str) -> Vector:
    """Return moments or durations as numbers, NaN where missing; ``per_unit`` has the length of each NumPy unit."""
    if np.datetime_data(array.dtype)[0] not in per_unit:
        array = array.astype(finest)  # finer than a float holds: the same moment must be the same number in any unit
    unit, step = np.datetime_data(array.dtype)
    values: Vector = array.astype(np.int64).astype(np.float64) * step / per_unit[unit]
    values[np.isnat(array)] = np.nan
    return values


def _within_range(name: str, days: Vector) -> Vector:
    outside = (days < FIRST_DAY) | (days >= LAST_DAY)
    if outside.any():
        got, remedy = f"one {days[outside][0] / 365.2425:+.0f} years from 1970", "mend these cells or leave them empty"
        raise cell_error(name, outside, "dates in the years 1 to 9999", got, remedy)
    return days


def cell_error(name: str, refused: Mask, expected: str, got: str, remedy: str) -> RowError:
    """Return the error about some cells (rows,) of a column; ``got`` is the first of them."""
    count = int(refused.sum())
    more = f" ({count} such cell{'s' if count > 1 else ''})"
    return RowError(f"column {name!r}", expected, ((got, int(np.argmax(refused))),), remedy, more)


def _mixed(name: str, types: list[CellType], cells: Sequence[Any]) -> CellTypeError:
    first: dict[CellType, int] = {}
    for row, kind in enumerate(types):
        first.setdefault(kind, row)
    if "other" in first:
        row = first["other"]
        got = f"{_shown(cells[row])} of type {type(cells[row]).__name__}"
        expected = "that every argument must be a string, a number, a truth value or a date"
        return CellTypeError(f"column {name!r}", expected, ((got, row),), "turn these cells into one of them")
    rows = [row for kind, row in first.items() if kind != "missing"][:2]
    said = ["mixed types in one column: ", ""]
    got = tuple((said[place] + _shown(cells[row]), row) for place, row in enumerate(rows))
    return CellTypeError(f"column {name!r}", "cells of one type", got, "convert them all to one type")


def _shown(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= 40 else f"{text[:37]}…"


TAILS = (0.25, 0.1, 0.05, 0.01, 0.005, 0.001)  # beyond each of two quantiles, until these differ
# chosen without a measurement
LIMIT = 1e6  # spreads from the median at which a fit takes all cells as one: beyond, float64 blurs the others
# how many times as far again as any cell before, for numbers that are filled in and for others
REPEATED = (1.0, 10.0)  # makes a repeated value far; chosen without a measurement
# chosen without a measurement
FREQUENT = 3.0  # spreads of the others, where a fill value has a quarter of the cells or more
# chosen without a measurement
ALONE = (1e3, 1e4)  # makes any cell beyond reason, times √(how many spreads away that one is): no tail has such gaps
# chosen without a measurement
FEWEST_VALUES, FEWEST_FILL_CELLS, MOST_FILLS = 10, 3, 3  # other values; cells of a fill value; fill values on one side
NEAR_SPREADS = 3.0  # spreads within which no cell is far
CELLS_AT_ONCE, QUARTILE_ROWS = 1_000_000, 10_000  # in memory at once; from which quartiles are guessed
WHOLE_ENDS = frozenset(2**bits - less for bits in (15, 16, 31, 32, 63, 64) for less in (0, 1))
FILLED_DATES = frozenset(("9999-12-31", "2999-12-31", "2099-12-31", "1900-01-01", "1970-01-01", "0001-01-01"))
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class FarValues:
    """The first few values of a column that are far from all others, the cells of each, and how many there are."""

    values: Annotated[tuple[float, ...], Bounds(1)]
    counts: Annotated[tuple[Positive, ...], Bounds(1)]
    n_values: Positive


class FarCells(NamedTuple):
    """The values of a column that are far from all others, how many cells each has, and which are beyond reason."""

    values: Vector
    counts: NDArray[np.intp]
    unreasonable: NDArray[np.bool_]


def shown_value(value: float, is_date: bool) -> str:
    """Return a value as the table would show it."""
    if is_date:
        return date_key(value)
    return number_key(value) if abs(value) < 1e15 else f"{value:g}"


def far_cells(numbers: Vector, is_date: bool) -> FarCells | None:
    """Return the values (rows,) far from all others: repeated ones and those beyond reason; None without any."""
    values, counts = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
    others = _without_fills(values, counts, is_date)
    median, spread = middle(values[others], counts[others]) if values.size else (0.0, 0.0)
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


def _without_fills(values: Vector, counts: NDArray[np.intp], is_date: bool) -> slice:
    """Return which of some values, rising, tell where the middle is: not a fill value with a quarter of the cells.

    That is an end which people write where they have no value, and which is far from the others.
    """
    inner = slice(None)
    for end, beside, others in ((0, 1, slice(1, None)), (-1, -2, slice(None, -1))):
        if (
            values.size > FEWEST_VALUES
            and counts[end] >= counts.sum() / 4
            and looks_filled(float(values[end]), is_date)
        ):
            _, spread = middle(values[others], counts[others])
            inner = others if abs(values[end] / FREQUENT - values[beside] / FREQUENT) > spread > 0.0 else inner
    return inner


def _far_from(
    values: Vector, counts: NDArray[np.intp], distances: Vector, spread: float, n_values: int, is_date: bool
) -> tuple[int, int]:
    """Return from which of one side's values on, outwards, they are far, and beyond reason; their number for none."""
    before = np.concatenate([[0.0], distances[:-1]])
    reached = np.maximum(before, spread)
    with np.errstate(over="ignore"):  # a gap beyond float64 is infinite
        gaps, least = (distances - before) / reached, np.sqrt(reached / spread)
    far = worst = values.size
    for first in np.flatnonzero(gaps > REPEATED[0])[::-1]:  # few: each is twice as far as the one before
        outside, other = values.size - int(first), not looks_filled(float(values[first]), is_date)
        if gaps[first] > ALONE[other] * least[first]:
            worst = int(first)
        if outside > MOST_FILLS or n_values - outside < FEWEST_VALUES or counts[first:].min() < 2:
            continue
        if counts[first:].sum() >= FEWEST_FILL_CELLS and gaps[first] > REPEATED[other]:
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
) -> dict[int, FarValues]:
    """Return the far values of each column (rows,) that has some, and warn once of all that are beyond reason.

    ``among`` says which rows these are, where they are a sample.
    """
    found, unreasonable = dict[int, FarValues](), list[tuple[str, str, int, int]]()
    for index in suspects(columns, NEAR_SPREADS):
        far = far_cells(columns[index], dates[index])
        if far is None:
            continue
        values, counts = (tuple(part[:MOST_NAMED].tolist()) for part in (far.values, far.counts))
        found[index] = FarValues(values, counts, far.values.size)
        if far.unreasonable.any():
            value = float(far.values[np.argmax(far.unreasonable)])
            row = int(np.argmax(columns[index] == value))
            count = int(far.counts[far.unreasonable].sum())
            unreasonable.append((names[index], shown_value(value, dates[index]), row, count))
    if unreasonable:
        warnings.warn(ExtremeCellWarning(unreasonable, among), stacklevel=4)
    return found


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
        for quartile, end in ((first, low), (third, high)):  # a fill value may be as frequent as that
            for column in np.flatnonzero(near & (quartile == end)):
                near[column] = not looks_filled(2.0 * float(end[column]), is_date=False)
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
