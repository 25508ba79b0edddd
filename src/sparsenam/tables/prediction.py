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
    table = X if _is_matrix(X, NUMBERS + "b") else narwhals_of(X)
    if isinstance(table, nw.DataFrame) and not _is_declared(table):
        table = None
    if not isinstance(table, np.ndarray | nw.DataFrame) or len(table) <= ROWS_IN_PART:
        yield X
        return
    for start in range(0, len(table), ROWS_IN_PART):
        yield table[start : start + ROWS_IN_PART]


def _is_matrix(X: object, kinds: str) -> TypeGuard[Array]:
    return type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in kinds


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
    rows = None
    if all(column.kind in ("number", "constant") and not column.unit for column in encoder.columns):
        rows = _few_numbers(X, encoder.names, encoder.named)
    if rows is None:
        row = _only_row(X, encoder.names, encoder.named)
        values = [known_value(column, cell) for column, cell in zip(encoder.columns, row or (), strict=row is not None)]
        rows = [[value for value in values if value is not None]]
        if row is None or len(rows[0]) < len(values):
            return None
    return [[_term_value(encoder, term, row[term.column]) for term in encoder.terms] for row in rows]


def _term_value(encoder: TableEncoder, term: Term, value: float) -> float:
    if term.kind == "missing":
        return 0.0
    if term.kind == "binary" and len(term.levels) == 1:  # one level of several
        return float(value == encoder.columns[term.column].levels.index(term.levels[0]))
    return value


def _frame_like_the_fit(X: object, names: tuple[str, ...], libraries: tuple[str, ...], most_rows: int) -> Any:
    """Return a short DataFrame with the columns of the fit in their order, None for any other table."""
    table: Any = X
    if type(X).__name__ != "DataFrame" or type(X).__module__.partition(".")[0] not in libraries:
        return None
    return table if 0 < len(table) <= most_rows and tuple(table.columns) == names else None


def _few_numbers(X: object, names: tuple[str, ...], named: bool) -> list[list[float]] | None:
    """Return the rows of a small table of finite numbers, with names or without as the fit had them."""
    frame = _frame_like_the_fit(X, names, ("pandas",), FEW_ROWS_AS_LISTS) if named else None
    array = frame.to_numpy() if frame is not None else None if named else X
    if not _is_matrix(array, NUMBERS) or not 0 < len(array) <= FEW_ROWS_AS_LISTS or array.shape[1] != len(names):
        return None
    rows: list[list[float]] = array.astype(np.float64).tolist()
    return rows if all(math.isfinite(number) for row in rows for number in row) else None


def _only_row(X: object, names: tuple[str, ...], named: bool) -> Sequence[object] | None:
    """Return the cells of a DataFrame of pandas or polars, or of a list, of one row; named or not as the fit was."""
    if named:
        frame = _frame_like_the_fit(X, names, ("pandas", "polars"), 1)
        if frame is None:
            return None
        return frame.row(0) if type(X).__module__.startswith("polars") else frame.to_numpy().tolist()[0]
    row = X[0] if is_list(X) and len(X) == 1 else None
    return row if is_list(row) and len(row) == len(names) else None


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
