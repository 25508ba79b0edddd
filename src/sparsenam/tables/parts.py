"""A table a part at a time: many rows in slices that fit into the cache, a few rows of numbers without any ado."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, cast

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError

# A part is a multiple of the rows that a network evaluates at once, so that parts change no bit of its answers.
ROWS_IN_PART = 32768
FEW_ROWS = 16  # up to here, lists of Python's numbers are quicker than arrays
NUMBERS = "fiu"  # kinds of NumPy's types


def parts_of(X: object) -> Iterator[object]:
    """Yield a table in slices of ``ROWS_IN_PART`` rows.

    The table comes whole where it is no longer than that, or where a column's type is known only from all its cells.
    """
    table: Any = X if _is_array(X, NUMBERS + "b") else _frame_of(X)
    if table is None or len(table) <= ROWS_IN_PART:
        yield X
        return
    for start in range(0, len(table), ROWS_IN_PART):
        yield table[start : start + ROWS_IN_PART]


def _frame_of(X: object) -> nw.DataFrame[Any] | None:
    """Return a table with columns of declared types, None for all others."""
    table: Any = nw.from_native(cast("Any", X), pass_through=True, allow_series=True)
    try:
        if not isinstance(table, nw.DataFrame) or len(cast("nw.DataFrame[Any]", table)) <= ROWS_IN_PART:
            return None
        frame = cast("nw.DataFrame[Any]", table)
        return frame if all(_is_declared(dtype) for dtype in frame.schema.values()) else None
    except DuplicateError:  # reading the whole says which
        return None


def _is_declared(dtype: Any) -> bool:
    return dtype.is_numeric() or isinstance(dtype, nw.Boolean | nw.String | nw.Categorical | nw.Enum)


def only_row(X: object, names: tuple[str, ...], named: bool) -> Sequence[Any] | None:
    """Return the cells of a table of one row, with names or without as the fit had them, in its order.

    It is a DataFrame of pandas or polars, or a list of one row; any other table is None.
    """
    table: Any = X
    if not named:
        row: Any = table[0] if type(X) is list and len(table) == 1 else None
        return row if type(row) in (list, tuple) and len(row) == len(names) else None
    library = type(X).__module__.partition(".")[0]
    if type(X).__name__ != "DataFrame" or library not in ("pandas", "polars") or len(table) != 1:
        return None
    if tuple(table.columns) != names:
        return None
    return table.row(0) if library == "polars" else table.to_numpy().tolist()[0]


def few_numbers(X: object, names: tuple[str, ...], named: bool) -> list[list[float]] | None:
    """Return the rows of a small table of finite numbers, with names or without as the fit had them, in its order.

    Any other table is None: reading it takes checks, warnings and errors that belong to all tables.
    """
    table: Any = X
    if named:
        frames = sys.modules.get("pandas")  # whoever has such a table has loaded it
        if frames is None or type(X) is not frames.DataFrame or len(table) > FEW_ROWS or tuple(table.columns) != names:
            return None
        table = table.to_numpy()
    if not _is_array(table, NUMBERS) or not 0 < len(table) <= FEW_ROWS or table.shape[1] != len(names):
        return None
    rows: list[list[float]] = table.astype(np.float64).tolist()
    return rows if all(math.isfinite(number) for row in rows for number in row) else None


def _is_array(X: object, kinds: str) -> bool:
    return type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in kinds
