"""One column as it was read, from Python objects or NumPy arrays, before anyone decides what it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, RowError, describe
from sparsenam.tables.text import CellTypeError, days_since_epoch, is_marker, number_in

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
    """Return text as codes into its distinct values; None and the markers of missing cells are -1."""
    distinct = list(dict.fromkeys(texts))
    index_of = {text: index for index, text in enumerate(distinct)}
    found = np.fromiter(map(index_of.__getitem__, texts), dtype=np.intp, count=len(texts))
    markers = [text for text in distinct if text is not None and is_marker(text)]
    values = tuple(text for text in distinct if text is not None and not is_marker(text))
    renumbered = {text: code for code, text in enumerate(values)}
    new_codes = np.array([renumbered.get(text or "", -1) for text in distinct], dtype=np.intp)
    return Cells(name, stored, codes=new_codes[found], values=values, markers=tuple(sorted(markers)))


def in_order(name: str, texts: list[str | None], levels: list[str]) -> Cells:
    """Return text as ranks among the levels that the table declares."""
    ranks: dict[str | None, int] = {level: rank for rank, level in enumerate(levels)}
    codes = np.fromiter((ranks.get(text, -1) for text in texts), dtype=np.intp, count=len(texts))
    return Cells(name, "ordered", codes=codes, values=tuple(levels))


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
        row = int(np.argmax(outside))
        got, more = f"one {days[row] / 365.2425:+.0f} years from 1970", f" ({int(outside.sum())} such cells)"
        remedy = "mend these cells or leave them empty"
        raise RowError(f"column {name!r}", "dates in the years 1 to 9999", ((got, row),), remedy, more)
    return days


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
