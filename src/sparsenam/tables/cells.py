"""One column as it was read, from Python objects or NumPy arrays, before anyone decides what it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.tables.text import CellTypeError, days_since_epoch, is_marker, number_in

Vector = NDArray[np.float64]
Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]
Stored = Literal["number", "truth", "date", "duration", "text", "levels", "ordered"]
AS_NUMBERS = ("number", "truth", "date", "duration")


def _no_numbers() -> Vector:
    return np.empty(0)


def _no_codes() -> Codes:
    return np.empty(0, dtype=np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of one column.

    ``numbers`` (rows,), NaN where missing, for numbers, truth values (0, 1), dates (days) and durations
    (seconds); ``codes`` (rows,) into ``values``, -1 where missing, for text, for levels declared by the table
    and for levels declared in order. ``markers`` are the texts that were taken as missing.
    """

    name: str
    stored: Stored
    numbers: Vector = field(default_factory=_no_numbers)
    codes: Codes = field(default_factory=_no_codes)
    values: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()

    @property
    def missing(self) -> Mask:
        """Return which cells are missing (rows,)."""
        return np.isnan(self.numbers) if self.stored in AS_NUMBERS else self.codes < 0


def coded(name: str, stored: Literal["text", "levels"], texts: list[str | None]) -> Cells:
    """Return text as codes into its distinct values; None and the markers of missing cells are -1."""
    distinct = list(dict.fromkeys(texts))
    places = {text: place for place, text in enumerate(distinct)}
    found = np.fromiter(map(places.__getitem__, texts), dtype=np.intp, count=len(texts))
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
MISSING_TYPES = ("NoneType", "NAType", "NaTType")  # pandas' own, known by name: pandas may not be installed
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


def cell_type_of(kind: type) -> CellType:
    """Return what the cells of a Python type are; the order matters, since some of the types are kin."""
    if kind.__name__ in MISSING_TYPES:
        return "missing"
    for family, types in CELL_TYPES.items():
        if issubclass(kind, types):
            return family
    return "other"


def from_objects(name: str, cells: Sequence[Any]) -> Cells:
    """Return the column of any Python objects; raise when they are of several kinds."""
    families: dict[type, CellType] = {kind: cell_type_of(kind) for kind in set(map(type, cells))}
    if all(kind is str or family == "missing" for kind, family in families.items()):  # the usual case, made short
        return coded(name, "text", [cell if type(cell) is str else None for cell in cells])
    held: list[CellType] = [families[type(cell)] for cell in cells]
    if "number" in families.values():
        held = _without(held, cells, "number", _is_nan)
    if {"text"} < _found(held):  # a marker of a missing cell among cells of another kind
        held = _without(held, cells, "text", is_marker)
    found = _found(held)
    if found == {"number", "text"} and _all_numbers(held, cells):
        found.remove("text")
    if len(found) > 1 or "other" in found:
        raise _mixed(name, held, cells)
    present = [None if kept == "missing" else cell for kept, cell in zip(held, cells, strict=True)]
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


def _found(held: list[CellType]) -> set[CellType]:
    return {family for family in set(held) if family != "missing"}


def _without(
    held: list[CellType], cells: Sequence[Any], family: CellType, is_missing: Callable[[Any], bool]
) -> list[CellType]:
    pairs = zip(held, cells, strict=True)
    return ["missing" if kept == family and is_missing(cell) else kept for kept, cell in pairs]


def _is_nan(cell: Any) -> bool:
    return bool(cell != cell)


def _measured(name: str, family: CellType, cells: list[Any]) -> Cells:
    try:
        if family == "date":
            return Cells(name, "date", numbers=_within_range(name, _numbers(cells, days_of)))
        if family == "duration":
            return Cells(name, "duration", numbers=_numbers(cells, _second))
        if family == "time":
            return Cells(name, "duration", numbers=_numbers(cells, _second_of_day))
        return Cells(name, "truth" if family == "truth" else "number", numbers=_numbers(cells, float))
    except OverflowError as error:
        got, remedy = "one beyond them", "divide the column by a power of ten or leave it out"
        raise InputError(describe(f"column {name!r}", "numbers within float64", got, remedy)) from error


def _numbers(cells: list[Any], measure: Callable[[Any], float]) -> Vector:
    return np.array([np.nan if cell is None else measure(cell) for cell in cells], dtype=np.float64)


def days_of(cell: Any) -> float:
    """Return the days since 1970-01-01 of one moment, Python's or NumPy's."""
    return days_since_epoch(cell) if isinstance(cell, date) else float(_days(np.array([cell]))[0])


def _second(cell: Any) -> float:
    return cell.total_seconds() if isinstance(cell, timedelta) else float(cell / np.timedelta64(1, "s"))


def _second_of_day(cell: time) -> float:
    return 3600.0 * cell.hour + 60.0 * cell.minute + cell.second + 1e-6 * cell.microsecond


def _days(array: NDArray[Any]) -> Vector:
    unit, step = np.datetime_data(array.dtype)
    if unit in ("Y", "M"):
        array, unit, step = array.astype("datetime64[D]"), "D", 1
    elif unit not in PER_DAY:  # finer than a float holds: the same moment must be the same number in any unit
        array, unit, step = array.astype("datetime64[us]"), "us", 1
    days: Vector = array.astype(np.int64).astype(np.float64) * step / PER_DAY[unit]
    days[np.isnat(array)] = np.nan
    return days


def _seconds(name: str, array: NDArray[Any]) -> Vector:
    unit, step = np.datetime_data(array.dtype)
    if unit in ("Y", "M"):
        remedy = "convert it to days or seconds"
        raise InputError(describe(f"column {name!r}", "durations of fixed length", f"a unit of {unit!r}", remedy))
    if unit not in PER_DAY:
        array, unit, step = array.astype("timedelta64[us]"), "us", 1
    seconds: Vector = array.astype(np.int64).astype(np.float64) * step / (PER_DAY[unit] / PER_DAY["s"])
    seconds[np.isnat(array)] = np.nan
    return seconds


def _within_range(name: str, days: Vector) -> Vector:
    outside = (days < FIRST_DAY) | (days >= LAST_DAY)
    if outside.any():
        row = int(np.argmax(outside))
        got = f"one {days[row] / 365.2425:+.0f} years from 1970 in row {row} ({int(outside.sum())} such cells)"
        remedy = "mend these cells or leave them empty"
        raise InputError(describe(f"column {name!r}", "dates in the years 1 to 9999", got, remedy))
    return days


def _all_numbers(held: list[CellType], cells: Sequence[Any]) -> bool:
    return all(number_in(cell) is not None for kept, cell in zip(held, cells, strict=True) if kept == "text")


def _mixed(name: str, held: list[CellType], cells: Sequence[Any]) -> CellTypeError:
    first: dict[CellType, int] = {}
    for row, kept in enumerate(held):
        first.setdefault(kept, row)
    if "other" in first:
        row = first["other"]
        got = f"{_shown(cells[row])} of type {type(cells[row]).__name__} in row {row}"
        expected = "that every argument must be a string, a number, a truth value or a date"
        return CellTypeError(describe(f"column {name!r}", expected, got, "turn these cells into one of them"))
    rows = [row for kept, row in first.items() if kept != "missing"][:2]
    examples = " and ".join(f"{_shown(cells[row])} in row {row}" for row in rows)
    got = f"mixed types in one column: {examples}"
    return CellTypeError(describe(f"column {name!r}", "cells of one type", got, "convert them all to one type"))


def _shown(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= 40 else f"{text[:37]}…"
