"""A guard against a table that holds the target among its columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import narwhals.stable.v2 as nw
import numpy as np

from sparsenam.errors import InputError, describe
from sparsenam.tables.cells import AS_NUMBERS, Cells, from_array
from sparsenam.tables.columns import as_levels
from sparsenam.tables.frame import read_series

FEWEST_ROWS = 10  # below this, a column may equal the target by chance


def check_target_not_inside(X: object, y: object) -> None:
    """Raise when a named table holds the target: a column of its values, in 10 rows or more or of its name too.

    Tables without names, targets of several columns and targets of another length pass: the first may be an example
    whose target is a column, the others are refused elsewhere.
    """
    table: Any = nw.from_native(cast("Any", X), pass_through=True, allow_series=True)
    if not isinstance(table, nw.DataFrame):
        return
    frame = cast("nw.DataFrame[Any]", table)
    names: list[object] = list(frame.columns)  # pandas allows names that are no text
    if not all(isinstance(name, str) for name in names):
        return
    target, name = _target(y)
    if target is None or target.missing.size != len(frame) or target.missing.all():
        return
    for index, column in enumerate(frame.columns):
        same_name = name is not None and column == name
        if not same_name and len(frame) < FEWEST_ROWS:
            continue
        series = frame[:, index]
        first_rows = read_series(column, series.head(FEWEST_ROWS))  # where most columns differ already
        if _equal(first_rows, _first_rows(target)) and _equal(read_series(column, series), target):
            remedy = "drop this column from X"
            raise InputError(describe("X", "no column that is the target", f"y itself as {column!r}", remedy))


def _target(y: object) -> tuple[Cells | None, str | None]:
    given: Any = nw.from_native(cast("Any", y), pass_through=True, allow_series=True)
    if isinstance(given, nw.DataFrame):
        frame = cast("nw.DataFrame[Any]", given)
        if frame.shape[1] != 1:
            return None, None
        given = frame[:, 0]
    if isinstance(given, nw.Series):
        series = cast("nw.Series[Any]", given)
        return read_series("y", series), str(series.name) if series.name else None
    array = np.asarray(y)
    return (from_array("y", array), None) if array.ndim == 1 and array.dtype.kind in "fiubUMmO" else (None, None)


def _first_rows(cells: Cells) -> Cells:
    return replace(cells, numbers=cells.numbers[:FEWEST_ROWS], codes=cells.codes[:FEWEST_ROWS])


def _equal(cells: Cells, target: Cells) -> bool:
    if not np.array_equal(cells.missing, target.missing):
        return False
    if cells.stored in AS_NUMBERS and target.stored in AS_NUMBERS:
        return np.array_equal(cells.numbers, target.numbers, equal_nan=True)
    if cells.stored in AS_NUMBERS or target.stored in AS_NUMBERS:
        return False
    (codes, keys), (target_codes, target_keys) = as_levels(cells), as_levels(target)
    names, target_names = np.array([*keys, ""], dtype=object), np.array([*target_keys, ""], dtype=object)
    return bool(np.array_equal(names[codes], target_names[target_codes]))
