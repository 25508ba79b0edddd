"""Tables read block by block: Parquet files, Arrow datasets, Dask and Spark tables; and the rows held out of them."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, Self, cast

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.tables.arrow_rows import PARQUET, arrow_blocks, is_pattern, parquet_dataset
from sparsenam.tables.blocks import Block, Blocks, Report, State, Sum, TargetColumns, require_rows
from sparsenam.tables.cells import from_array
from sparsenam.tables.cluster_rows import dask_blocks, spark_blocks

Engine = Literal["arrow", "dask", "spark"]


@dataclass(frozen=True, slots=True, eq=False)
class RowSource:
    """A table that is not in memory: a dataset of Arrow, or a table of Dask or Spark."""

    engine: Engine
    table: Any


def blocks_of(X: object, columns: TargetColumns) -> Blocks | None:
    """Return the rows of a table that is read block by block; None for a table in memory.

    Parameters
    ----------
    X
        A Parquet file, a folder of them, a pattern such as ``"part-*.parquet"`` or a list of these; a dataset of
        pyarrow; a table of Dask or Spark. All columns of the fit are in it, the target among them.
    columns
        Which of them are the target, the weights and the exposure.
    """
    if isinstance(X, SomeRows):
        return X.named(columns)
    source = source_of(X)
    if source is None:
        return None
    return {"arrow": arrow_blocks, "dask": dask_blocks, "spark": spark_blocks}[source.engine](source.table, columns)


def require_named_columns(X: object) -> None:
    """Raise unless a table in memory has columns by name, one of which is the target."""
    table: Any = nw.from_native(cast("Any", X), pass_through=True, allow_series=True)
    if isinstance(table, nw.DataFrame):
        return
    got, remedy = f"{type(X).__module__}.{type(X).__qualname__}", "give a DataFrame, or y as an array"
    if isinstance(X, np.ndarray):
        got = "a numpy array, whose columns have no names"
    elif isinstance(table, nw.LazyFrame):
        got, remedy = "a lazy table", "call its collect() first, or write it to Parquet files"
    elif type(X).__name__ in ("Scanner", "RecordBatchReader"):  # which can be read once only
        how = "to_table()" if type(X).__name__ == "Scanner" else "read_all()"
        remedy = f"give the dataset, or call its {how} first"
    elif isinstance(X, list | tuple):
        others = [one for one in cast("Sequence[object]", X) if not isinstance(one, str | PathLike)]
        got, remedy = "a list without any", "name files of Parquet in it, or give a DataFrame"
        if others:
            got = f"a list with {reprlib.repr(others[0])}"
        elif X:
            got = f"the list {reprlib.repr(cast('object', X))}"
    elif isinstance(X, bytes):
        got, remedy = "bytes", "give the path as text"
    expected = "a table with named columns or paths of Parquet files, since y is a name"
    raise InputError(describe("X", expected, got, remedy))


def source_of(X: object) -> RowSource | None:
    """Return what a table is that is not in memory, by the names of its type: no library is imported to ask it."""
    paths = _paths(X)
    if paths is not None:
        return RowSource("arrow", parquet_dataset(paths))
    bases = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(X).__mro__]
    if "pyarrow._dataset.Dataset" in bases:
        return RowSource("arrow", X)
    library, name = type(X).__module__.partition(".")[0], type(X).__qualname__
    if library == "dask" and name == "DataFrame":
        return RowSource("dask", X)
    if library == "pyspark" and name == "DataFrame" and not type(X).__module__.startswith("pyspark.pandas"):
        return RowSource("spark", X)
    if library in ("dask", "pyspark"):
        remedy = "use its to_spark()" if library == "pyspark" else "make it a DataFrame of named columns"
        raise InputError(describe("X", "a DataFrame of Dask or Spark", f"{type(X).__module__}.{name}", remedy))
    return None


def _paths(X: object) -> list[str] | None:
    """Return the paths that are given, None where it is no path or list of paths."""
    if isinstance(X, str | PathLike):
        path = fspath(cast("str | PathLike[str]", X))
        if not _means_files(path):
            expected = "a file .parquet, a folder of them or a pattern of their names"
            raise InputError(describe("X", expected, repr(path), "convert the file, or read it into a table"))
        return [path]
    if not isinstance(X, list | tuple) or not X:
        return None
    given = cast("Sequence[object]", X)
    paths = [fspath(cast("str | PathLike[str]", one)) for one in given if isinstance(one, str | PathLike)]
    return paths if len(paths) == len(given) and all(map(_means_files, paths)) else None


def _means_files(path: str) -> bool:
    return path.lower().endswith(PARQUET) or is_pattern(path) or Path(path).is_dir()


Part = Literal["fit", "held"]


class ColumnBlocks(Blocks, Protocol):
    """Rows in blocks, of which some columns can be read alone."""

    @property
    def names(self) -> tuple[str, ...]: ...
    def only(self, names: Iterable[str]) -> Self: ...


@dataclass(frozen=True, slots=True)
class Draw:
    """Which rows are held out: a ``share`` of those whose target (and weights, and exposure) is known.

    A row's random key depends on the seed, the block's number and the row's place in it, as those of `sample_of` do.
    """

    columns: TargetColumns
    share: float
    seed: int

    def rows(self, block: Block) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which rows of a block are fitted and which are held out, each (rows,)."""
        known = np.ones(len(block), dtype=np.bool_)
        columns = self.columns
        for name, values in zip(columns.used, _given(block, columns), strict=True):
            known &= ~from_array(name, values).missing
        held = np.random.default_rng((self.seed, block.number)).random(len(block)) < self.share
        return known & ~held, known & held


def _given(block: Block, columns: TargetColumns) -> list[NDArray[Any]]:
    """Return target, weights and exposure, those that there are."""
    values = ((columns.target, block.y), (columns.weights, block.weights), (columns.exposure, block.exposure))
    return [given for name, given in values if name is not None and given is not None]


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows are fitted, held out, and without a target."""

    fit: int
    held: int
    unknown: int

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(self.fit + other.fit, self.held + other.held, self.unknown + other.unknown)


def count_rows(blocks: ColumnBlocks, draw: Draw, report: Report = None) -> RowCounts:
    """Return how many rows are which: one pass, over target, weights and exposure only."""
    return blocks.only(()).reduce(counted, draw, report)


def counted(block: Block, draw: Draw) -> RowCounts:
    """Return how many rows of a block are which."""
    fit, held = draw.rows(block)
    return RowCounts(int(fit.sum()), int(held.sum()), int((~fit & ~held).sum()))


@dataclass(frozen=True, slots=True, eq=False)
class SomeRows:
    """The rows of one part of a table; ``n_rows`` is how many `count_rows` found."""

    blocks: ColumnBlocks
    draw: Draw
    part: Part
    n_rows: int

    @property
    def n_blocks(self) -> int:
        """The number of the table's blocks; some may have no row of this part."""
        return self.blocks.n_blocks

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that become X."""
        return self.blocks.names

    def only(self, names: Iterable[str]) -> SomeRows:
        """Return the same rows with some of the columns."""
        return replace(self, blocks=self.blocks.only(names))

    def with_jobs(self, jobs: int) -> SomeRows:
        """Return the same rows, of which ``jobs`` blocks are worked on at once."""
        return replace(self, blocks=self.blocks.with_jobs(jobs))

    def named(self, columns: TargetColumns) -> SomeRows:
        """Return these rows; raise unless target, weights and exposure are those that they were counted by."""
        if columns != self.draw.columns:
            expected, got = ", ".join(self.draw.columns.used), ", ".join(columns.used)
            raise InputError(describe("y, sample_weight and exposure", expected, got, "name the columns of the table"))
        return self

    def reduce(self, function: Callable[[Block, State], Sum], state: State, report: Report = None) -> Sum:
        """Return the sum over the blocks with rows of this part."""
        everything = self.blocks.n_rows

        def scaled(done: int) -> None:
            if report is not None:  # the rows done so far are known of the whole table only
                report(self.n_rows * done // everything)

        found = self.blocks.reduce(of_part, (function, state, self.draw, self.part), scaled)
        require_rows(int(found.value is not None), "rows with a target")
        return cast("Sum", found.value)


@dataclass(frozen=True, slots=True, eq=False)
class PartSum(Generic[Sum]):
    """A sum over some blocks, None where they have no row of a part."""

    value: Sum | None

    def __add__(self, other: PartSum[Sum]) -> PartSum[Sum]:
        if self.value is None or other.value is None:
            return other if self.value is None else self
        return PartSum(self.value + other.value)


def of_part(block: Block, state: tuple[Callable[[Block, State], Sum], State, Draw, Part]) -> PartSum[Sum]:
    """Return the sum over a block's rows of a part."""
    function, inner, draw, part = state
    fit, held = draw.rows(block)
    rows = np.flatnonzero(fit if part == "fit" else held)
    if not rows.size:
        return PartSum(None)
    some = block.take(rows)
    return PartSum(function(replace(some, y=_plain(some.y)), inner))


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return objects of one type, as a column with missing cells is read, in numpy's type for them."""
    return np.array(values.tolist()) if values.dtype.kind == "O" else values
