"""Any table read into columns of cells, and checked: it must not hold its target, and far cells are named.

Far is measured from the median, in spreads: the distance of the quartiles, or of the first pair of wider quantiles that
differ where half of a column holds one value.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple, TypeGuard

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from sparsenam.codec import Matrix, Vector
from sparsenam.errors import ExtremeCellWarning, InputError, describe
from sparsenam.tables.cells import from_array, read_series, some_rows
from sparsenam.tables.columns import AS_NUMBERS, Array, Cells, Codes, FarValues, Mask, as_levels
from sparsenam.tables.text import date_key, listed, number_key

DataFrame = nw.DataFrame[Any]  # of any library that narwhals knows
Narwhals = DataFrame | nw.LazyFrame[Any] | nw.Series[Any]
TRANSPOSED_ROWS_AT_ONCE = 1024  # a slice that stays in the cache while it is transposed


def narwhals_of(X: object) -> Narwhals | None:
    """Return a table or series of pandas, polars, pyarrow and others as narwhals has it; None for anything else."""
    found: object = nw.from_native(X, pass_through=True, allow_series=True)
    return found if _is_narwhals(found) else None


def _is_narwhals(X: object) -> TypeGuard[Narwhals]:
    return isinstance(X, nw.DataFrame | nw.LazyFrame | nw.Series)


def is_list(X: object) -> TypeGuard[Sequence[object]]:
    """Return whether this is a list or a tuple."""
    return isinstance(X, list | tuple)


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
        return self.rows, len(self.columns)

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> Frame:
        columns = tuple(some_rows(cells, rows) for cells in self.columns)
        return Frame(self.names, self.named, int(columns[0].missing.size), columns)


def read_table(X: object, *, estimator_name: str, least_rows: int) -> Frame:
    """Return the columns of any table; raise one clear sentence when it is not a table of this size."""
    frame = X if isinstance(X, Frame) else _read(X)
    rows, width = frame.shape
    # scikit-learn's messages, which its users and its checks know
    amount, least = ("0 feature(s)", 1) if width < 1 else (f"{rows} sample(s)", least_rows)
    if width < 1 or rows < least_rows:
        required = f"a minimum of {least} is required by {estimator_name}"
        raise InputError(f"Found array with {amount} (shape=({rows}, {width})) while {required}.")
    return frame


def _read(X: object) -> Frame:
    try:
        table = narwhals_of(X)
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
        if table is not None:
            return _read_frame(table)
    except DuplicateError as error:
        given: list[object] = list(getattr(X, "column_names", None) or getattr(X, "columns", ()))
        repeated = [str(name) for name, times in Counter(given).items() if times > 1]
        got, remedy = f"duplicate names: {listed(repeated)}", "rename or drop the repeated columns"
        raise InputError(describe("X", "column names that differ", got, remedy)) from error
    array = _two_dimensional(X)
    names = tuple(f"x{index}" for index in range(array.shape[1]))
    if array.dtype.kind in "fiu":
        return _frame_of_numbers(names, False, array)
    return Frame(names, False, len(array), tuple(map(from_array, names, array.T)))


def _read_frame(table: DataFrame) -> Frame:
    names: list[object] = list(table.columns)  # pandas allows names that are no text
    texts = [isinstance(name, str) for name in names]
    named = any(texts)
    if named and not all(texts):
        other = names[texts.index(False)]
        got = f"{other!r} of type {type(other).__name__}"
        raise InputError(describe("X", "column names that are all text", got, "rename the columns as text"))
    labels = tuple(str(name) if named else f"x{index}" for index, name in enumerate(names))
    wide = (nw.Int128, nw.UInt128)  # NumPy has no such
    if all(kind.is_float() or (kind.is_integer() and not isinstance(kind, wide)) for kind in table.schema.values()):
        array = table.to_numpy()  # in a small part of the time of one column after the other
        if array.dtype.kind in "fiu":
            return _frame_of_numbers(labels, named, array)
    return Frame(labels, named, len(table), tuple(map(read_series, labels, table.iter_columns())))


def _frame_of_numbers(names: tuple[str, ...], named: bool, array: Array) -> Frame:
    rows, width = array.shape
    block = np.empty((width, rows))
    for start in range(0, rows, TRANSPOSED_ROWS_AT_ONCE):
        block[:, start : start + TRANSPOSED_ROWS_AT_ONCE] = array[start : start + TRANSPOSED_ROWS_AT_ONCE].T
    columns = tuple(Cells(name, "number", numbers=values) for name, values in zip(names, block, strict=True))
    return Frame(names, named, rows, columns, block)


def _two_dimensional(X: object) -> Array:
    """Return what is, or becomes, an array of two dimensions and real cells; raise for all else."""
    if scipy.sparse.issparse(X):
        remedy = "call its toarray() first"
        raise InputError(describe("X", "a dense table", f"a sparse one ({type(X).__name__})", remedy))
    array = _as_array(X)
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


def _as_array(X: object) -> Array:
    if _is_masked(X):
        numeric = X.dtype.kind in "fiu"
        return np.ma.filled(X.astype(np.float64), np.nan) if numeric else np.ma.filled(X.astype(object), None)
    if not is_list(X):
        return np.asarray(X)
    try:
        array = np.asarray(X)
        # NumPy turns a list of numbers and text into text: keep what each cell was
        return np.array(X, dtype=object) if array.dtype.kind in "US" else array
    except ValueError as error:
        remedy = "give every row as many cells as there are columns"
        raise InputError(describe("X", "rows of equal length", "a ragged list", remedy)) from error


def _is_masked(X: object) -> TypeGuard[np.ma.MaskedArray[tuple[int, ...], np.dtype[np.generic]]]:
    return isinstance(X, np.ma.MaskedArray)


def absent_from(X: object, names: Iterable[str]) -> list[str]:
    """Return the names that a named table does not have; none for a table without names."""
    if isinstance(X, Frame):
        present: list[object] = list(X.names) if X.named else []
    else:
        table = narwhals_of(X)
        present = list(table.columns) if isinstance(table, nw.DataFrame) else []
    named = all(isinstance(name, str) for name in present)  # pandas allows names that are no text
    return [name for name in names if name not in present] if present and named else []


FEWEST_LEAK_ROWS = 10  # below this, a column may equal the target by chance; chosen without a measurement


def check_target_not_inside(X: object, y: object) -> None:
    """Raise when a named table holds the target: a column of its values, in 10 rows or more or of its name too.

    Tables without names, targets of several columns and targets of another length pass: the first may be an example
    whose target is a column, the others are refused elsewhere.
    """
    frame = read_table(X, estimator_name="fit", least_rows=0)
    if not frame.named:
        return
    target, target_name = _target(y)
    if target is None or target.missing.size != frame.rows or target.missing.all():
        return
    for cells in frame.columns:
        if (frame.rows >= FEWEST_LEAK_ROWS or cells.name == target_name) and _equal(cells, target):
            got, remedy = f"y itself as {cells.name!r}", "drop this column from X"
            raise InputError(describe("X", "no column that is the target", got, remedy))


def _target(y: object) -> tuple[Cells | None, str | None]:
    given = narwhals_of(y)
    if isinstance(given, nw.DataFrame) and given.shape[1] == 1:
        given = given[:, 0]
    if isinstance(given, nw.Series):
        return read_series("y", given), str(given.name) if given.name else None
    array = np.asarray(y)
    return (from_array("y", array), None) if array.ndim == 1 and array.dtype.kind in "fiubUMmO" else (None, None)


def _equal(cells: Cells, target: Cells) -> bool:
    numeric = cells.stored in AS_NUMBERS
    if numeric != (target.stored in AS_NUMBERS) or not np.array_equal(cells.missing, target.missing):
        return False
    if numeric:
        return np.array_equal(cells.numbers, target.numbers, equal_nan=True)
    (codes, keys), (target_codes, target_keys) = as_levels(cells), as_levels(target)
    names, target_names = np.array([*keys, ""], dtype=object), np.array([*target_keys, ""], dtype=object)
    return bool(np.array_equal(names[codes], target_names[target_codes]))


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
CELLS_AT_ONCE = 1_000_000  # in memory at once
WHOLE_ENDS = frozenset(2**bits - less for bits in (15, 16, 31, 32, 63, 64) for less in (0, 1))
FILLED_DATES = frozenset(("9999-12-31", "2999-12-31", "2099-12-31", "1900-01-01", "1970-01-01", "0001-01-01"))
MOST_NAMED = 3


class FarCells(NamedTuple):
    """The values of a column that are far from all others, how many cells each has, and which are beyond reason."""

    values: Vector
    counts: Codes
    unreasonable: Mask


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
    sides, beyond = list[Codes](), list[Mask]()
    for sign in (-1, 1):
        side = np.flatnonzero(sign * (values - median) > 0)[::sign]  # from the median outwards
        far, worst = _far_from(values[side], counts[side], np.abs(values[side] - median), spread, values.size, is_date)
        sides.append(side[min(far, worst) :])
        beyond.append(np.arange(min(far, worst), side.size) >= worst)
    found = np.concatenate(sides)
    return FarCells(values[found], counts[found], np.concatenate(beyond)) if found.size else None


def _without_fills(values: Vector, counts: Codes, is_date: bool) -> slice:
    """Return which of some values, rising, tell where the middle is: not a fill value with a quarter of the cells.

    That is an end which people write where they have no value, and which is far from the others.
    """
    inner = slice(None)
    for end, beside, others in ((0, 1, slice(1, None)), (-1, -2, slice(None, -1))):
        is_frequent = values.size > FEWEST_VALUES and counts[end] >= counts.sum() / 4
        if is_frequent and looks_filled(float(values[end]), is_date):
            _, spread = middle(values[others], counts[others])
            inner = others if abs(values[end] / FREQUENT - values[beside] / FREQUENT) > spread > 0.0 else inner
    return inner


def _far_from(
    values: Vector, counts: Codes, distances: Vector, spread: float, n_values: int, is_date: bool
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


def find_far_cells(columns: Mapping[str, tuple[Vector, bool]], among: str) -> dict[str, FarValues]:
    """Return the far values of each column that has some, and warn once of all that are beyond reason.

    A column has its values (rows,), and whether they are dates. ``among`` says which rows these are in a sample.
    """
    found, unreasonable, names = dict[str, FarValues](), list[tuple[str, str, int, int]](), list(columns)
    for index in suspects([values for values, _ in columns.values()], NEAR_SPREADS):
        numbers, is_date = columns[names[index]]
        far = far_cells(numbers, is_date)
        if far is None:
            continue
        values, counts = (tuple(part[:MOST_NAMED].tolist()) for part in (far.values, far.counts))
        found[names[index]] = FarValues(values, counts, far.values.size)
        if far.unreasonable.any():
            value = float(far.values[np.argmax(far.unreasonable)])
            row = int(np.argmax(numbers == value))
            count = int(far.counts[far.unreasonable].sum())
            unreasonable.append((names[index], shown_value(value, is_date), row, count))
    if unreasonable:
        warnings.warn(ExtremeCellWarning(unreasonable, among), stacklevel=4)
    return found


def middle(values: Vector, counts: NDArray[np.floating] | Codes) -> tuple[float, float]:
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
    places = [0, rows // 4, rows // 2, (3 * rows) // 4, rows - 1]
    for start in range(0, len(columns), step):
        block = np.array(columns[start : start + step])
        block.partition(places, axis=1)
        low, first, median, third, high = block[:, places].T / 2  # halves, for huge numbers of both signs
        reach = np.maximum(high - median, median - low)
        near = reach <= 0.5 * spreads * (third - first)  # half: weights may move the quartiles
        for quartile, end in ((first, low), (third, high)):  # a fill value may be as frequent as that
            for column in np.flatnonzero(near & (quartile == end)):
                near[column] = not looks_filled(2.0 * float(end[column]), is_date=False)
        yield from (np.flatnonzero(~(near | (low == high))) + start).tolist()  # also where cells are NaN


def limited(columns: Matrix, weights: Vector, skipped: Mask | None) -> Matrix:
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
