"""Any table read into columns of cells, matched at prediction with those of the fit, and kept free of its target."""

from __future__ import annotations

import math
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, cast

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe, renamed
from sparsenam.tables.cells import (
    AS_NUMBERS,
    Cells,
    cell_type_of,
    coded,
    days_of,
    from_array,
    from_objects,
    in_order,
    is_nan,
)
from sparsenam.tables.columns import as_levels
from sparsenam.tables.text import date_key, listed, number_key

TRANSPOSED_ROWS_AT_ONCE = 1024  # a slice that stays in the cache while it is transposed


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A table as read: columns of cells.

    ``named`` says whether the table had column names; if not, they are x0, x1, and so on.
    ``block`` (columns, rows) holds the numbers of all columns where they came as one array of numbers.
    """

    names: tuple[str, ...]
    named: bool
    rows: int
    columns: tuple[Cells, ...]
    block: NDArray[np.float64] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.rows, len(self.columns)

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> Frame:
        columns = tuple(some_rows(cells, rows) for cells in self.columns)
        return Frame(self.names, self.named, int(columns[0].missing.size), columns)


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


def read_table(X: object, *, estimator_name: str, least_rows: int) -> Frame:
    """Return the columns of any table; raise one clear sentence when it is not a table of this size."""
    if isinstance(X, Frame):
        _check_size(X.rows, len(X.columns), estimator_name, least_rows)
        return X
    try:
        table: Any = nw.from_native(cast("Any", X), pass_through=True, allow_series=True)
        library, kind = type(X).__module__.partition(".")[0], type(X).__name__
        is_path, is_dataset = isinstance(X, str | PathLike), library == "pyarrow" and kind.endswith("Dataset")
        if is_path or is_dataset or library in ("dask", "pyspark"):
            got = f"the path {str(X)!r}" if is_path else f"a {kind} of {library}"
            remedy = "call sparsenam.predict_table(model, …) for predictions of it, or read it into a table"
            raise InputError(describe("X", "a table in memory", got, remedy))
        if isinstance(table, nw.LazyFrame):
            raise InputError(describe("X", "a table in memory", "a lazy one", "call its collect() first"))
        if isinstance(table, nw.Series):
            remedy = "give a table of one column (Reshape your data)"
            raise InputError(describe("X", "a table", "Expected 2D array, got 1D array instead", remedy))
        if isinstance(table, nw.DataFrame):
            return _read_frame(cast("nw.DataFrame[Any]", table), estimator_name, least_rows)
    except DuplicateError as error:
        raise _duplicates(X) from error
    return _read_array(X, estimator_name, least_rows)


def _read_frame(table: nw.DataFrame[Any], estimator_name: str, least_rows: int) -> Frame:
    names: list[object] = list(table.columns)  # pandas allows names that are no text
    rows, width = table.shape
    _check_size(rows, width, estimator_name, least_rows)
    texts = [isinstance(name, str) for name in names]
    if any(texts) and not all(texts):
        other = names[texts.index(False)]
        got = f"{other!r} of type {type(other).__name__}"
        raise InputError(describe("X", "column names that are all text", got, "rename the columns as text"))
    labels = tuple(str(name) for name in names) if texts[0] else _numbered(width)
    block = _numbers_of(table)
    if block is not None:
        numbers = tuple(from_array(label, values) for label, values in zip(labels, block, strict=True))
        return Frame(labels, texts[0], rows, numbers, block)
    columns = tuple(map(read_series, labels, series_of(table)))
    return Frame(labels, texts[0], rows, columns)


def series_of(table: nw.DataFrame[Any]) -> Iterator[nw.Series[Any]]:
    """Return the columns in one pass; to take one by its index looks at all of them."""
    return cast("Iterator[nw.Series[Any]]", table.iter_columns())


def _numbers_of(table: nw.DataFrame[Any]) -> NDArray[np.float64] | None:
    """Return a table of plain numbers as one array (columns, rows), in a small part of the time of one by one."""
    if not all(dtype.is_float() or dtype.is_integer() for dtype in table.schema.values()):
        return None
    if any(isinstance(dtype, nw.Int128 | nw.UInt128) for dtype in table.schema.values()):  # NumPy has no such
        return None
    array = table.to_numpy()
    return _transposed(array) if array.dtype.kind in "fiu" else None


def read_series(name: str, series: nw.Series[Any]) -> Cells:
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


def _read_levels(name: str, series: nw.Series[Any]) -> Cells:
    cells = series.to_list()
    if any(kind.__hash__ is None for kind in set(map(type, cells))):  # structs and lists are no levels
        return from_objects(name, cells)
    keys = {cell: level_key(cell) for cell in dict.fromkeys(cells)}
    texts = [keys[cell] for cell in cells]
    try:
        if nw.is_ordered_categorical(series):
            declared = [level_key(level) for level in series.cat.get_categories().to_list()]
            return in_order(name, texts, [level for level in declared if level is not None])
    except AttributeError:  # an arrow dictionary inside pandas does not say whether it is ordered
        pass
    return coded(name, "levels", texts)


def level_key(cell: object) -> str | None:
    """Return the name of a level, the same whatever the dtype of its category; None when it is missing."""
    cell_type = cell_type_of(type(cell))
    if cell_type == "missing" or (cell_type == "number" and is_nan(cell)):
        return None
    if cell_type == "date":
        return date_key(days_of(cell))
    return number_key(cast("float", cell)) if cell_type == "number" else str(cell)


def _read_array(X: object, estimator_name: str, least_rows: int) -> Frame:
    array = _two_dimensional(_as_array(X))
    rows, width = array.shape
    _check_size(rows, width, estimator_name, least_rows)
    names = _numbered(width)
    block = _transposed(array) if array.dtype.kind in "fiu" else None
    across = array.T if block is None else block
    columns = tuple(from_array(name, values) for name, values in zip(names, across, strict=True))
    return Frame(names, False, rows, columns, block)


def _two_dimensional(X: Any) -> NDArray[Any]:
    """Return what is, or becomes, an array of two dimensions and real cells; raise for all else."""
    if scipy.sparse.issparse(X):
        remedy = "call its toarray() first"
        raise InputError(describe("X", "a dense table", f"a sparse one ({type(X).__name__})", remedy))
    array = np.asarray(X)
    if array.dtype.kind == "c":
        got, remedy = "complex ones (Complex data not supported)", "give their parts as two columns"
        raise InputError(describe("X", "real numbers", got, remedy))
    if array.ndim == 2:
        return array
    # scikit-learn's words, which its users and its checks know
    got, remedy = f"Expected 2D array, got {array.ndim}D array instead", "give rows of cells (Reshape your data)"
    if array.dtype.names is not None:
        got, remedy = "a structured array", "make a DataFrame of it"
    elif array.ndim == 0:
        got = "a generator" if isinstance(X, Iterator) else f"an object of type {type(X).__name__}"
        remedy = "give a DataFrame, an array or a list of rows (Reshape your data)"
    raise InputError(describe("X", "a table", got, remedy))


def _transposed(array: NDArray[Any]) -> NDArray[np.float64]:
    rows, width = array.shape
    block = np.empty((width, rows))
    for start in range(0, rows, TRANSPOSED_ROWS_AT_ONCE):
        block[:, start : start + TRANSPOSED_ROWS_AT_ONCE] = array[start : start + TRANSPOSED_ROWS_AT_ONCE].T
    return block


def _as_array(X: Any) -> Any:
    if isinstance(X, np.ma.MaskedArray):
        masked = cast("Any", X)
        numeric = masked.dtype.kind in "fiu"
        return masked.astype(np.float64).filled(np.nan) if numeric else masked.astype(object).filled(None)
    if not isinstance(X, list | tuple):
        return X
    rows = cast("list[Any]", X)
    try:
        array = np.asarray(rows)
        # NumPy turns a list of numbers and text into text: keep what each cell was
        return np.array(rows, dtype=object) if array.dtype.kind in "US" else array
    except ValueError as error:
        remedy = "give every row as many cells as there are columns"
        raise InputError(describe("X", "rows of equal length", "a ragged list", remedy)) from error


def _check_size(rows: int, width: int, estimator_name: str, least_rows: int) -> None:
    # scikit-learn's messages, which its users and its checks know
    amount, least = ("0 feature(s)", 1) if width < 1 else (f"{rows} sample(s)", least_rows)
    if width < 1 or rows < least_rows:
        required = f"a minimum of {least} is required by {estimator_name}"
        raise InputError(f"Found array with {amount} (shape=({rows}, {width})) while {required}.")


def _numbered(width: int) -> tuple[str, ...]:
    return tuple(f"x{index}" for index in range(width))


def _duplicates(X: Any) -> InputError:
    names: list[object] = list(X.column_names if hasattr(X, "column_names") else X.columns)
    repeated = [str(name) for name, times in Counter(names).items() if times > 1]
    got = f"duplicate names: {listed(repeated)}"
    return InputError(describe("X", "column names that differ", got, "rename or drop the repeated columns"))


MOST_NAMES_IN_MESSAGE = 5


def matched(
    frame: Frame, names: tuple[str, ...], named: bool, estimator_name: str, needed: Iterable[str] | None = None
) -> Frame:
    """Return the frame with the columns of the fit in their order; raise when some that are needed are not there.

    Others of the fit that are not there have missing cells only; columns that the fit did not see are left out. A table
    without names must have as many columns as the fit.
    """
    if frame.named and named:
        if not frozenset(frame.names).issuperset(names if needed is None else needed):
            raise InputError(_difference(frame.names, names, names if needed is None else needed))
        return arranged(frame, names, named)
    if len(frame.names) != len(names):
        raise InputError(
            f"X has {len(frame.names)} features, but {estimator_name} is expecting {len(names)} features as input."
        )
    if named or frame.named:
        given, fitted = ("does not have valid", "with") if named else ("has", "without")
        message = f"X {given} feature names, but {estimator_name} was fitted {fitted} feature names"
        warnings.warn(message, UserWarning, stacklevel=4)
    return arranged(frame, names, named)


def arranged(frame: Frame, names: tuple[str, ...], named: bool) -> Frame:
    """Return a frame whose columns are known to match in the order of the fit, under its names."""
    if frame.named and named:
        if frame.names == names:
            return frame
        cells_of = {cells.name: cells for cells in frame.columns}  # the block has them in another order
        gone = np.full(frame.rows, np.nan)
        columns = tuple(cells_of.get(name) or Cells(name, "number", numbers=gone) for name in names)
        return replace(frame, names=names, columns=columns, block=None)
    columns = tuple(replace(cells, name=name) for cells, name in zip(frame.columns, names, strict=True))
    return replace(frame, names=names, columns=columns)


def absent_from(X: object, names: Iterable[str]) -> list[str]:
    """Return the names that a named table does not have; none for a table without names."""
    table: Any = X if isinstance(X, Frame) else nw.from_native(cast("Any", X), pass_through=True, allow_series=True)
    if isinstance(table, Frame):
        present: list[object] = list(table.names) if table.named else []
    else:
        present = list(table.columns) if isinstance(table, nw.DataFrame) else []
    return [name for name in names if name not in present] if present and isinstance(present[0], str) else []


def _difference(given: tuple[str, ...], fitted: tuple[str, ...], needed: Iterable[str]) -> str:
    message = "The feature names should match those that were passed during fit.\n"
    for title, names in (
        ("Feature names unseen at fit time:", sorted(set(given) - set(fitted))),
        ("Feature names seen at fit time, yet now missing:", sorted(set(needed) - set(given))),
    ):
        if names:
            more = ["- ..."] if len(names) > MOST_NAMES_IN_MESSAGE else []
            message += "\n".join([title, *(f"- {name}" for name in names[:MOST_NAMES_IN_MESSAGE]), *more]) + "\n"
    meant = renamed(sorted(set(needed) - set(given)), sorted(set(given) - set(fitted)), "")
    return f"{message}{meant[:1].upper()}{meant[1:]}"


FEWEST_LEAK_ROWS = 10  # below this, a column may equal the target by chance; chosen without a measurement


def check_target_not_inside(X: object, y: object) -> None:
    """Raise when a named table holds the target: a column of its values, in 10 rows or more or of its name too.

    Tables without names, targets of several columns and targets of another length pass: the first may be an example
    whose target is a column, the others are refused elsewhere.
    """
    table: Any = X if isinstance(X, Frame) else nw.from_native(cast("Any", X), pass_through=True, allow_series=True)
    if not isinstance(table, Frame | nw.DataFrame) or (isinstance(table, Frame) and not table.named):
        return
    names: list[object] = list(table.names if isinstance(table, Frame) else table.columns)
    if not all(isinstance(name, str) for name in names):  # pandas allows names that are no text
        return
    rows = table.rows if isinstance(table, Frame) else len(cast("nw.DataFrame[Any]", table))
    target, name = _target(y)
    if target is None or target.missing.size != rows or target.missing.all():
        return
    columns: Iterable[Any] = table.columns if isinstance(table, Frame) else series_of(cast("nw.DataFrame[Any]", table))
    for column, cells in zip(cast("list[str]", names), columns, strict=True):
        if rows < FEWEST_LEAK_ROWS and (name is None or column != name):
            continue
        # most columns differ in the first rows already
        first = _first_rows(cells) if isinstance(cells, Cells) else read_series(column, cells.head(FEWEST_LEAK_ROWS))
        if not _equal(first, _first_rows(target)):
            continue
        if _equal(cells if isinstance(cells, Cells) else read_series(column, cells), target):
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
    return replace(cells, numbers=cells.numbers[:FEWEST_LEAK_ROWS], codes=cells.codes[:FEWEST_LEAK_ROWS])


def _equal(cells: Cells, target: Cells) -> bool:
    numeric = cells.stored in AS_NUMBERS
    if numeric != (target.stored in AS_NUMBERS) or not np.array_equal(cells.missing, target.missing):
        return False
    if numeric:
        return np.array_equal(cells.numbers, target.numbers, equal_nan=True)
    (codes, keys), (target_codes, target_keys) = as_levels(cells), as_levels(target)
    names, target_names = np.array([*keys, ""], dtype=object), np.array([*target_keys, ""], dtype=object)
    return bool(np.array_equal(names[codes], target_names[target_codes]))


# A part is a multiple of the rows that a network evaluates at once, so that parts change no bit of its answers.
ROWS_IN_PART = 32768
FEW_ROWS_AS_LISTS = 16  # up to here, lists of Python's numbers are quicker than arrays
NUMBERS = "fiu"  # kinds of NumPy's types


def parts_of(X: object) -> Iterator[object]:
    """Yield a table in slices of ``ROWS_IN_PART`` rows.

    The table comes whole where it is no longer than that, or where a column's type is known only from all its cells.
    """
    table: Any = X
    if not _is_array(X, NUMBERS + "b"):
        table = nw.from_native(cast("Any", X), pass_through=True, allow_series=True)
        table = table if _is_declared(table) else None
    if table is None or len(table) <= ROWS_IN_PART:
        yield X
        return
    for start in range(0, len(table), ROWS_IN_PART):
        yield table[start : start + ROWS_IN_PART]


def _is_declared(table: Any) -> bool:
    """Return whether this is a table whose columns have types that some of their cells show."""
    known = (nw.Boolean, nw.String, nw.Categorical, nw.Enum)
    try:
        types: list[Any] = list(table.schema.values()) if isinstance(table, nw.DataFrame) else [None]
    except DuplicateError:  # reading the whole says which
        return False
    return all(kind is not None and (kind.is_numeric() or isinstance(kind, known)) for kind in types)


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
        if (
            frames is None
            or type(X) is not frames.DataFrame
            or len(table) > FEW_ROWS_AS_LISTS
            or tuple(table.columns) != names
        ):
            return None
        table = table.to_numpy()
    if not _is_array(table, NUMBERS) or not 0 < len(table) <= FEW_ROWS_AS_LISTS or table.shape[1] != len(names):
        return None
    rows: list[list[float]] = table.astype(np.float64).tolist()
    return rows if all(math.isfinite(number) for row in rows for number in row) else None


def _is_array(X: object, kinds: str) -> bool:
    return type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in kinds
