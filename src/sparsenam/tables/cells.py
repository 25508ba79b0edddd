"""The cells of a column in whatever type they come, as `Cells`: arrays, Python objects, and columns of narwhals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import narwhals
import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Vector
from sparsenam.errors import InputError, describe
from sparsenam.tables.columns import AS_NUMBERS, Array, Cells, Stored, cell_error
from sparsenam.tables.text import CellTypeError, date_key, days_since_epoch, is_marker, number_in, number_key

Series = narwhals.Series[Any]  # of any library that narwhals knows, also that of its stable interface


def read_series(name: str, series: Series) -> Cells:
    """Return one column of a table of narwhals."""
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        array = series.to_numpy() if isinstance(dtype, nw.Int64 | nw.UInt64) else None
        if array is None or array.dtype.kind not in "fiu":  # Arrow's cast would refuse to round integers above 2⁵³
            array = series.cast(nw.Float64()).to_numpy()
        numbers = np.array(array, dtype=np.float64)
        return Cells(name, "truth" if dtype == nw.Boolean else "number", numbers=numbers)
    if isinstance(dtype, nw.Categorical | nw.Enum):
        return _read_levels(name, series)
    if dtype.is_nested():  # as objects: some libraries make one array of more dimensions of it
        return from_objects(name, series.to_list())
    if dtype == nw.String:
        return coded(name, "text", [cell if isinstance(cell, str) else None for cell in series.to_list()])
    return from_array(name, np.asarray(series.to_numpy()))


def _read_levels(name: str, series: Series) -> Cells:
    cells = series.to_list()
    if any(kind.__hash__ is None for kind in set(map(type, cells))):  # structs and lists are no levels
        return from_objects(name, cells)
    keys = {cell: _level_name(cell) for cell in dict.fromkeys(cells)}
    texts = [keys[cell] for cell in cells]
    try:
        if nw.is_ordered_categorical(series):
            declared = map(_level_name, series.cat.get_categories().to_list())
            names = list(dict.fromkeys(level.strip() for level in declared if level is not None))
            ranks: dict[str | None, int] = {level: rank for rank, level in enumerate(names)}
            codes = [ranks.get(text if text is None else text.strip(), -1) for text in texts]
            return Cells(name, "ordered", codes=np.array(codes, dtype=np.intp), values=tuple(names))
    except AttributeError:  # an arrow dictionary inside pandas does not say whether it is ordered
        pass
    return coded(name, "levels", texts)


def _level_name(cell: object) -> str | None:
    """Return the name of a level, the same whatever the dtype of its category; None when it is missing."""
    cell_type = cell_type_of(type(cell))
    if cell_type == "missing" or (cell_type == "number" and is_nan(cell)):
        return None
    if cell_type not in ("date", "number"):
        return str(cell)
    _, measure = MEASURES[cell_type]
    return (date_key if cell_type == "date" else number_key)(measure(cell))


def coded(name: str, stored: Literal["text", "levels"], texts: Sequence[str | None]) -> Cells:
    """Return text as codes into its distinct values, blanks around them aside; None and missing cells' marks are -1."""
    stripped = {text: "" if text is None else text.strip() for text in dict.fromkeys(texts)}
    values = tuple(dict.fromkeys(text for text in stripped.values() if not is_marker(text)))
    places = {value: code for code, value in enumerate(values)}
    code_of = {given: places.get(text, -1) for given, text in stripped.items()}
    codes = np.fromiter(map(code_of.__getitem__, texts), dtype=np.intp, count=len(texts))
    marks = {text for given, text in stripped.items() if given is not None and is_marker(text)}
    return Cells(name, stored, codes=codes, values=values, markers=tuple(sorted(marks)))


def some_rows(cells: Cells, rows: slice | NDArray[np.intp]) -> Cells:
    """Return some cells of a column, with the values that are among them in the order in which they come."""
    if cells.stored in AS_NUMBERS:
        return replace(cells, numbers=cells.numbers[rows])
    codes = cells.codes[rows]
    if cells.stored == "ordered":
        return replace(cells, codes=codes)
    present, first = np.unique(codes, return_index=True)
    present = present[np.argsort(first)]
    present = present[present >= 0]
    renumbered = np.full(len(cells.values) + 1, -1, dtype=np.intp)  # the last is for missing cells, whose code is -1
    renumbered[present] = np.arange(present.size)
    return replace(cells, codes=renumbered[codes], values=tuple(cells.values[int(code)] for code in present.tolist()))


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
FINEST_UNITS = ("ns", "ps", "fs", "as")  # of NumPy's moments and durations, finer than a float holds


def cell_type_of(kind: type) -> CellType:
    """Return what the cells of a Python type are; the order matters, since some of the types are kin."""
    if kind.__name__ in MISSING_TYPES:
        return "missing"
    for cell_type, types in CELL_TYPES.items():
        if issubclass(kind, types):
            return cell_type
    return "other"


def is_nan(cell: object) -> bool:
    """Return whether a number is none; a signalling NaN of `Decimal` would raise where it is compared."""
    return cell.is_nan() if isinstance(cell, Decimal) else bool(cell != cell)


def from_array(name: str, array: Array) -> Cells:
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


def from_objects(name: str, cells: Sequence[object]) -> Cells:
    """Return the column of any Python objects; raise when they are of several kinds."""
    type_of: dict[type, CellType] = {kind: cell_type_of(kind) for kind in set(map(type, cells))}
    if all(kind is str or cell_type == "missing" for kind, cell_type in type_of.items()):  # the usual case
        return coded(name, "text", [cell if isinstance(cell, str) else None for cell in cells])
    types: list[CellType] = [
        "missing" if type_of[type(cell)] == "number" and is_nan(cell) else type_of[type(cell)] for cell in cells
    ]
    if {"text"} < set(types) - {"missing"}:  # a marker of a missing cell among cells of another kind
        for row, cell in enumerate(cells):
            if isinstance(cell, str) and is_marker(cell):
                types[row] = "missing"
    found: set[CellType] = set(types) - {"missing"}
    texts = (cell for cell, kind in zip(cells, types, strict=True) if kind == "text")
    if found == {"number", "text"} and all(number_in(str(text)) is not None for text in texts):
        found.remove("text")
    if len(found) > 1 or "other" in found:
        raise _mixed(name, types, cells)
    present = [None if kind == "missing" else cell for kind, cell in zip(types, cells, strict=True)]
    if found <= {"text"}:
        return coded(name, "text", [None if cell is None else str(cell) for cell in present])
    return _measured(name, found.pop(), present)


def _measured(name: str, cell_type: CellType, cells: Sequence[object]) -> Cells:
    stored, measure = MEASURES[cell_type]
    try:
        numbers = np.array([np.nan if cell is None else measure(cell) for cell in cells], dtype=np.float64)
    except OverflowError as error:
        got, remedy = "one beyond them", "divide the column by a power of ten or leave it out"
        raise InputError(describe(f"column {name!r}", "numbers within float64", got, remedy)) from error
    return Cells(name, stored, numbers=_within_range(name, numbers) if stored == "date" else numbers)


def _days_of(cell: date | np.datetime64) -> float:
    return days_since_epoch(cell) if isinstance(cell, date) else float(_days(np.array([cell]))[0])


def _seconds_of(cell: timedelta | np.timedelta64) -> float:
    return cell.total_seconds() if isinstance(cell, timedelta) else float(cell / np.timedelta64(1, "s"))


def _second_of_day(cell: time) -> float:
    return 3600.0 * cell.hour + 60.0 * cell.minute + cell.second + 1e-6 * cell.microsecond


MEASURES: dict[CellType, tuple[Stored, Callable[[Any], float]]] = {
    "number": ("number", float),
    "truth": ("truth", float),
    "date": ("date", _days_of),
    "duration": ("duration", _seconds_of),
    "time": ("duration", _second_of_day),
}


def _days(array: Array) -> Vector:
    unit, _ = np.datetime_data(array.dtype.str)
    return _measured_in("D", array.astype("datetime64[D]") if unit in ("Y", "M") else array)


def _seconds(name: str, array: Array) -> Vector:
    unit, _ = np.datetime_data(array.dtype.str)
    if unit in ("Y", "M"):
        remedy = "convert it to days or seconds"
        raise InputError(describe(f"column {name!r}", "durations of fixed length", f"a unit of {unit!r}", remedy))
    return _measured_in("s", array)


def _measured_in(unit: Literal["D", "s"], array: Array) -> Vector:
    """Return moments since 1970 or durations in days or seconds, NaN where missing."""
    if np.datetime_data(array.dtype.str)[0] in FINEST_UNITS:  # the same moment must be the same number in any unit
        array = array.astype(f"{array.dtype.kind}8[us]")
    durations = array.view(array.dtype.str.replace("M", "m"))
    return np.asarray(durations / np.timedelta64(1, unit), dtype=np.float64)


def _within_range(name: str, days: Vector) -> Vector:
    outside = (days < FIRST_DAY) | (days >= LAST_DAY)
    if outside.any():
        got, remedy = f"one {days[outside][0] / 365.2425:+.0f} years from 1970", "mend these cells or leave them empty"
        raise cell_error(name, outside, "dates in the years 1 to 9999", got, remedy)
    return days


def _mixed(name: str, types: Sequence[CellType], cells: Sequence[object]) -> CellTypeError:
    first: dict[CellType, int] = {}
    for row, kind in enumerate(types):
        first.setdefault(kind, row)
    if "other" in first:
        row = first["other"]
        got = f"{_shown(cells[row])} of type {type(cells[row]).__name__}"
        expected = "that every argument must be a string, a number, a truth value or a date"
        return CellTypeError(f"column {name!r}", expected, ((got, row),), "turn these cells into one of them")
    one, other = [row for kind, row in first.items() if kind != "missing"][:2]
    got = ((f"mixed types in one column: {_shown(cells[one])}", one), (_shown(cells[other]), other))
    return CellTypeError(f"column {name!r}", "cells of one type", got, "convert them all to one type")


def _shown(cell: object) -> str:
    text = repr(cell)
    return text if len(text) <= 40 else f"{text[:37]}…"
