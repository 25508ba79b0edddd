"""Tables to predict: a few rows as plain lists, since a NumPy call takes longer than their answers; long ones in parts.

Both give the terms that `TableEncoder.encode` returns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from sparsenam.codec import Matrix
from sparsenam.errors import InputError
from sparsenam.tables.columns import AS_TRUTHS, TRUTHS, Array, Column, level_key
from sparsenam.tables.encoder import TableEncoder, Term
from sparsenam.tables.frame import DataFrame, is_list, narwhals_of, read_table
from sparsenam.tables.notes import News
from sparsenam.tables.text import is_marker

# A part is a multiple of the rows that a network evaluates at once, so that parts change no bit of its answers.
ROWS_IN_PART = 32768
FEW_ROWS_AS_LISTS = 16  # up to here, lists of Python's numbers are quicker than arrays
NUMBERS = "fiu"  # kinds of NumPy's types
LARGEST_WHOLE = 2**63  # beyond it a whole number is no number of NumPy's


def encode_in_parts(encoder: TableEncoder, X: object) -> Iterator[Matrix]:
    """Yield what `TableEncoder.encode` returns, some rows at a time, so that a long table takes little memory.

    What `encode` warns of is warned of once, after the last rows.
    """
    news = News()
    for part in _parts(X):
        try:
            if news.unseen:
                table = read_table(part, estimator_name=encoder.estimator_name, least_rows=1)
                frame = encoder.arranged(table)
            else:
                frame = encoder.columns_of(part)
            terms, found = encoder.encode_columns(frame)
        except InputError:
            if part is not X:
                encoder.encode(X)  # raises the same, with the cell's row in the whole table
            raise
        news += found
        yield terms
    encoder.warn_of(news)


def _parts(X: object) -> Iterator[object]:
    """Yield a table in slices; whole where it is short, or where a column's type is known only from all its cells."""
    table = X if _is_matrix(X) else narwhals_of(X)
    if isinstance(table, nw.DataFrame) and not _is_declared(table):
        table = None
    if not isinstance(table, np.ndarray | nw.DataFrame) or len(table) <= ROWS_IN_PART:
        yield X
        return
    for start in range(0, len(table), ROWS_IN_PART):
        yield table[start : start + ROWS_IN_PART]


def _is_matrix(X: object) -> TypeGuard[Array]:
    return type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in NUMBERS + "b"


def _is_declared(table: DataFrame) -> bool:
    """Return whether every column has a type that some of its cells show."""
    known = (nw.Boolean, nw.String, nw.Categorical, nw.Enum)
    try:
        return all(kind.is_numeric() or isinstance(kind, known) for kind in table.schema.values())
    except DuplicateError:  # reading the whole says which
        return False


def few_terms(encoder: TableEncoder, X: object) -> list[list[float]] | None:
    """Return the terms of a few rows of finite numbers, or of a row of them and known levels; None for other tables.

    Such rows need none of the checks of `encode`, which take longer than the prediction.
    """
    rows = [list(map(known_value, encoder.columns, row)) for row in _few_rows(encoder, X)]
    values = [[value for value in row if value is not None] for row in rows]
    if not rows or any(len(row) < len(encoder.columns) for row in values):
        return None
    return [[_term_value(encoder, term, row[term.column]) for term in encoder.terms] for row in values]


def _term_value(encoder: TableEncoder, term: Term, value: float) -> float:
    if term.kind == "missing":
        return 0.0
    if term.kind == "binary" and len(term.levels) == 1:  # one level of several
        return float(value == encoder.columns[term.column].levels.index(term.levels[0]))
    return value


def _few_rows(encoder: TableEncoder, X: object) -> Sequence[Sequence[object]]:
    """Return the cells of a few rows of numbers, or of one row of any, that are named or not as the fit was; else none.

    Arrays of numbers and DataFrames of pandas have them, and in one row a DataFrame of polars and a list too.
    """
    table: Any = X
    if encoder.named:
        library = type(X).__module__.partition(".")[0]
        is_frame = type(X).__name__ == "DataFrame" and library in ("pandas", "polars")
        if not is_frame or len(table) > FEW_ROWS_AS_LISTS or tuple(table.columns) != encoder.names:
            return ()
        table = table.to_numpy() if library == "pandas" else table.rows()
    if is_list(table):
        return [row for row in table if is_list(row) and len(row) == len(encoder.names)] if len(table) == 1 else ()
    if type(table) is not np.ndarray or table.ndim != 2 or table.shape[1] != len(encoder.names):
        return ()
    most = FEW_ROWS_AS_LISTS if table.dtype.kind in NUMBERS else int(encoder.named)
    return table.tolist() if len(table) <= most else ()


def known_value(column: Column, cell: object) -> float | None:
    """Return what `read_column` makes of a cell that is a finite number, or text or a truth value of a known level.

    None for all others, which need its checks.
    """
    if isinstance(cell, float | int) and not isinstance(cell, bool):
        if column.kind not in ("number", "constant") or column.unit or abs(cell) >= LARGEST_WHOLE:
            return None
        number = float(cell)
        return number if math.isfinite(number) else None
    if column.kind != "category" or not isinstance(cell, str | bool) or (isinstance(cell, str) and is_marker(cell)):
        return None
    key = level_key(cell.strip()) if isinstance(cell, str) else str(cell)
    if set(column.levels) == TRUTHS:
        key = AS_TRUTHS.get(key, key)
    if key in column.levels:
        return float(column.levels.index(key))
    return float(len(column.levels) - 1) if key in column.pooled else None
