"""Columns: what was decided about each during the fit, and its cells as numbers from then on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.tables.cells import AS_NUMBERS, Cells, Codes, Mask, Vector
from sparsenam.tables.kinds import Kind, Unit
from sparsenam.tables.text import date_in, date_key, has_leading_zero, number_in, number_key

OTHER_LEVELS = "(other levels)"
STORED_UNITS: dict[str, Unit] = {"number": "", "truth": "", "date": "days", "duration": "seconds"}
EXACT = 2.0**53  # up to here float64 holds every whole number
UNIT_WORDS = {"": "numbers", "days": "dates", "seconds": "durations"}


@dataclass(frozen=True, slots=True)
class Column:
    """One input column as decided during the fit.

    ``levels`` are in the order of their codes (most frequent first) or of their ranks; ``pooled`` are the rare
    levels that share the code of "(other levels)"; ``missing_term`` is the term that says where it is missing,
    which another column may own that misses the same rows.
    """

    name: str
    kind: Kind
    words: str
    n_missing: int = 0
    levels: tuple[str, ...] = ()
    pooled: tuple[str, ...] = ()
    unit: Unit = ""
    missing_term: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A column in numbers (rows,), NaN where nothing is known; which cells are missing; levels never seen."""

    values: Vector
    missing: Mask
    unseen: tuple[str, ...] = ()


def read_column(column: Column, cells: Cells) -> Reading:
    """Return the cells of a table in the numbers of the fitted column."""
    if column.kind in ("number", "date"):
        return Reading(as_numbers(cells, column.unit), cells.missing)
    if column.kind == "constant":
        return Reading(np.full(cells.missing.size, np.nan), cells.missing)
    codes, keys = as_levels(cells)
    if set(column.levels) == {"False", "True"} and cells.stored == "number":
        keys = [{"0": "False", "1": "True"}.get(key, key) for key in keys]  # truth values kept as numbers
    if set(column.levels) == {"0", "1"} and cells.stored == "truth":
        keys = [{"False": "0", "True": "1"}[key] for key in keys]
    places = {level: float(code) for code, level in enumerate(column.levels)}
    places |= dict.fromkeys(column.pooled, float(len(column.levels) - 1))
    looked_up = np.array([places.get(key, np.nan) for key in keys] + [np.nan])  # a missing cell's code is -1
    used = np.bincount(codes[codes >= 0], minlength=len(keys)) > 0
    unseen = tuple(key for key, present in zip(keys, used, strict=True) if present and key not in places)
    return Reading(looked_up[codes], cells.missing, unseen)


def as_numbers(cells: Cells, unit: Unit) -> Vector:
    """Return the cells as finite numbers of this unit, NaN where missing (rows,)."""
    if cells.missing.all():
        return np.full(cells.missing.size, np.nan)
    if cells.stored in AS_NUMBERS:
        if STORED_UNITS[cells.stored] != unit:
            got = UNIT_WORDS[STORED_UNITS[cells.stored]]
            raise InputError(describe(f"column {cells.name!r}", UNIT_WORDS[unit], got, "convert the column"))
        numbers = cells.numbers
    else:
        numbers = _parsed(cells, unit)
    _require_finite(cells.name, numbers)
    return numbers


def as_levels(cells: Cells) -> tuple[Codes, list[str]]:
    """Return codes (rows,), -1 where missing, and the names of the levels, the same whatever the dtype."""
    if cells.stored not in AS_NUMBERS:
        return _merged(cells.codes, [_level_key(value) for value in cells.values])
    _require_finite(cells.name, cells.numbers)
    present = ~cells.missing
    if (np.abs(cells.numbers[present]) > EXACT).any():
        got, remedy = "larger ones, of which some may be rounded to the same", "convert the column to text"
        raise InputError(describe(f"column {cells.name!r}", f"levels up to {EXACT:.0f}", got, remedy))
    distinct, inverse = np.unique(cells.numbers[present], return_inverse=True)
    codes = np.full(present.size, -1, dtype=np.intp)
    codes[present] = inverse
    if cells.stored == "truth":
        return codes, [str(bool(value)) for value in distinct]
    return codes, [(date_key if cells.stored == "date" else number_key)(float(value)) for value in distinct]


def _level_key(text: str) -> str:
    """Return the level's name of a text: that of the number it writes, so that "1.0" and 1 are one."""
    number = None if has_leading_zero(text) else number_in(text)
    return text if number is None or not np.isfinite(number) else number_key(number)


def _merged(codes: Codes, keys: list[str]) -> tuple[Codes, list[str]]:
    """Return codes of distinct names."""
    distinct = list(dict.fromkeys(keys))
    if len(distinct) == len(keys):
        return codes, keys
    place = {key: code for code, key in enumerate(distinct)}
    lookup = np.array([*(place[key] for key in keys), -1], dtype=np.intp)  # a missing cell's code is -1
    return lookup[codes], distinct


def _parsed(cells: Cells, unit: Unit) -> Vector:
    if unit == "seconds":
        got = f"the text {cells.values[0]!r}"
        raise InputError(describe(f"column {cells.name!r}", "durations", got, "convert the column"))
    parse = date_in if unit == "days" else number_in
    parsed = [parse(value) for value in cells.values]
    for place, (value, number) in enumerate(zip(cells.values, parsed, strict=True)):
        if number is None and (cells.codes == place).any():
            row = int(np.argmax(cells.codes == place))
            expected = "dates written as 2024-01-31" if unit == "days" else "numbers"
            got = f"the text {value!r} in row {row}"
            remedy = f'mend these cells, or fit with feature_types={{{cells.name!r}: "category"}}'
            raise InputError(describe(f"column {cells.name!r}", expected, got, remedy))
    table = [np.nan if number is None else number for number in parsed]
    return np.array([*table, np.nan])[cells.codes]  # a missing cell's code is -1


def _require_finite(name: str, numbers: NDArray[Any]) -> None:
    infinite = np.isinf(numbers)
    if infinite.any():
        row, count = int(np.argmax(infinite)), int(infinite.sum())
        got = f"infinity (inf) in row {row} ({count} such cell{'s' if count > 1 else ''})"
        raise InputError(
            describe(f"column {name!r}", "finite numbers", got, "fill these cells or leave them empty")
        )
