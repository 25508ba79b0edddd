"""Rows in blocks, wherever they lie: every sum over the rows of a table is one call of ``reduce``.

Tables that are not in memory (files of Parquet, datasets of Arrow, tables of Dask and Spark) are recognised by the
names of their types, and their engine, known by the name of its module, is imported then; it gives rows as `Blocks`.
"""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeGuard, TypeVar, runtime_checkable

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Vector
from sparsenam.context import results_in_order
from sparsenam.errors import InputError, describe, nearest
from sparsenam.tables.columns import Array
from sparsenam.tables.frame import DataFrame, is_list, narwhals_of

BLOCK_ROWS = 200_000  # of a block in memory: tables of moments are then filled four times as fast as with 16,000

State = TypeVar("State")
Report = Callable[[int], None] | None  # is told the rows done so far


def usual_height() -> int:
    """Return the rows of a block where nothing else is said."""
    return BLOCK_ROWS


class Summable(Protocol):
    """A sum over some rows: sums over other rows can be added to it."""

    def __add__(self, other: Self, /) -> Self: ...


Sum = TypeVar("Sum", bound=Summable)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some rows of a table: columns X as they came, target y (rows,) or (rows, outputs), and what counts them.

    ``number`` is the block's place among all, from 0; ``weights`` and ``exposure`` are (rows,) or None. ``places`` are
    the numbers of the rows in the table, from 0 on where it is None.
    """

    number: int
    X: object
    y: Array
    weights: Array | None = None
    exposure: Array | None = None
    places: range | NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def in_table(self) -> range | NDArray[np.intp]:
        """The number of each row in the table, from 0."""
        return range(len(self)) if self.places is None else self.places

    def take(self, rows: slice | NDArray[np.intp]) -> Block:
        places = self.in_table
        places = places[rows] if isinstance(rows, slice) else np.asarray(places, dtype=np.intp)[rows]
        weights, exposure = (None if values is None else values[rows] for values in (self.weights, self.exposure))
        return Block(self.number, taken(self.X, rows), self.y[rows], weights, exposure, places)


class Blocks(Protocol):
    """All rows of a table, a block at a time.

    Functions given to ``reduce`` and ``each`` are pure and can be pickled: they may run in another process, and twice
    where one was lost. What they return for each block is added in the order of the blocks, so that the sum does not
    depend on who worked on which block.
    """

    @property
    def n_rows(self) -> int: ...
    @property
    def n_blocks(self) -> int: ...
    def with_jobs(self, jobs: int) -> Self:
        """Return the same rows, of which ``jobs`` blocks are worked on at once; an engine has its own workers."""
        ...

    def reduce(self, function: Callable[[Block, State], Sum], state: State, report: Report = None) -> Sum:
        """Return the sum of ``function(block, state)`` over all blocks; ``report`` is told the rows done so far."""
        ...


@runtime_checkable
class ColumnBlocks(Blocks, Protocol):
    """Rows in blocks, of which some columns can be read alone; ``names`` are those that become X."""

    @property
    def target_columns(self) -> TargetColumns: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    def only(self, names: Iterable[str]) -> Self: ...


@runtime_checkable
class VisitedBlocks(Blocks, Protocol):
    """Blocks that can be brought here one by one, in any order, as training by mini-batches needs them."""

    def visit(self, numbers: Iterable[int]) -> Iterator[Block]:
        """Yield the blocks of these numbers, in this order."""
        ...


def total(sums: Iterable[Sum]) -> Sum:
    """Return the sum of partial sums, the first one first."""
    return reduce(lambda left, right: left + right, sums)


@dataclass(frozen=True, slots=True, eq=False)
class MemoryBlocks:
    """A table in memory: X (rows, columns) of any kind, y, and, if given, weights and exposure (rows,).

    ``jobs`` blocks are worked on at once.
    """

    X: object
    y: Array
    weights: Array | None = None
    exposure: Array | None = None
    height: int = field(default_factory=usual_height)
    jobs: int = 1

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @property
    def n_blocks(self) -> int:
        return -(-len(self.y) // self.height)

    def with_jobs(self, jobs: int) -> MemoryBlocks:
        return replace(self, jobs=jobs)

    def __iter__(self) -> Iterator[Block]:
        return self.visit(range(self.n_blocks))

    def visit(self, numbers: Iterable[int]) -> Iterator[Block]:
        whole = Block(0, self.X, self.y, self.weights, self.exposure)
        for number in numbers:
            rows = slice(number * self.height, (number + 1) * self.height)
            yield replace(whole.take(rows), number=number)

    def reduce(self, function: Callable[[Block, State], Sum], state: State, report: Report = None) -> Sum:
        return summed(self, function, state, report, self.jobs)


def summed(
    blocks: Iterable[Block], function: Callable[[Block, State], Sum], state: State, report: Report, jobs: int
) -> Sum:
    """Return the sum of ``function(block, state)`` over blocks, ``jobs`` of which are worked on at once.

    Their sums are added in their order, so that no bit depends on the number.
    """
    tasks = (partial(_with_rows, function, block, state) for block in blocks)
    return total(reported(results_in_order(tasks, jobs), report))


def _with_rows(function: Callable[[Block, State], Sum], block: Block, state: State) -> tuple[Sum, int]:
    return function(block, state), len(block)


def reported(parts: Iterable[tuple[Sum, int]], report: Report) -> Iterator[Sum]:
    """Yield partial sums, given with their numbers of rows, and report the rows done."""
    done = 0
    for part, rows in parts:
        done += rows
        if report is not None:
            report(done)
        yield part


def taken(X: object, rows: slice | NDArray[np.intp]) -> object:
    """Return some rows of any table, as a table of the same kind."""
    table = narwhals_of(X)
    if isinstance(table, nw.DataFrame):
        return table[rows].to_native()
    if is_list(X):
        return [X[int(row)] for row in np.arange(len(X))[rows]]
    array: Any = X
    return array[rows]


def frame_of(table: Any) -> DataFrame:
    """Return a table of pandas, polars or pyarrow in memory as narwhals has it."""
    return nw.from_native(table, eager_only=True)


@dataclass(frozen=True, slots=True)
class TargetColumns:
    """Which columns of a table with all its columns are the target, the weights and the exposure."""

    target: str
    weights: str | None = None
    exposure: str | None = None

    @property
    def used(self) -> tuple[str, ...]:
        return tuple(name for name in (self.target, self.weights, self.exposure) if name is not None)

    def inputs(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the other names of a table's columns, in their order; raise unless these columns are among them."""
        given, used = tuple(names), self.used
        twice = [name for place, name in enumerate(used) if name in used[:place]]
        if twice:
            where, got = "y, sample_weight and exposure", f"{twice[0]!r} twice"
            raise InputError(describe(where, "different columns", got, "correct the names"))
        gone = [name for name in self.used if name not in given]
        if gone:
            expected = f"a column {gone[0]!r}"
            remedy = nearest(gone[0], given, "correct the name")
            raise InputError(describe("table", expected, "none of that name", remedy))
        return tuple(name for name in given if name not in self.used)

    def block(self, table: object, number: int, first: int = 0) -> Block:
        """Return the rows of a table of pandas, polars or pyarrow as a block; ``first`` is the first row's number."""
        frame = frame_of(table)
        inputs = self.inputs(frame.columns)
        weights, exposure = (
            None if name is None else np.asarray(frame[name].to_numpy()) for name in (self.weights, self.exposure)
        )
        X, places = frame.select(*inputs).to_native(), range(first, first + len(frame))
        return Block(number, X, np.asarray(frame[self.target].to_numpy()), weights, exposure, places)


def distinct_names(names: Iterable[object]) -> tuple[str, ...]:
    """Return the names of a table's columns; raise unless they are text and differ."""
    distinct = list[str]()
    for name, count in Counter(names).items():
        if not isinstance(name, str) or count > 1:
            got = f"{name!r} more than once" if isinstance(name, str) else repr(name)
            raise InputError(describe("table", "column names that are text and differ", got, "rename the columns"))
        distinct.append(name)
    return tuple(distinct)


def require_rows(n_rows: int) -> None:
    """Raise where a table has no rows."""
    if not n_rows:
        raise InputError(describe("table", "rows", "none", "give a table with such rows"))


def chosen(names: Iterable[str], among: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of some of a table's columns; raise where it has none of a name."""
    wanted = tuple(names)
    for name in wanted:
        if name not in among:
            remedy = nearest(name, among, "correct the name")
            raise InputError(describe("columns", "names of the table's columns", repr(name), remedy))
    return wanted


SAMPLE_ROWS = 200_000  # ranks of a value among so many rows are off by 0.0016 at most


Drawn = tuple[tuple[Vector, Block], ...]  # rows of some blocks, in parts, with their random keys (rows,)


def sample_of(blocks: Blocks, seed: int, size: int | None = None, report: Report = None) -> Block:
    """Return ``size`` rows (200,000), each set of so many being as likely as any other, in the order of the table.

    A row is taken if its random key is among the smallest. Keys depend on the seed, the block's number and the row's
    place in it: the same blocks give the same sample, whoever reads them.
    """
    size = SAMPLE_ROWS if size is None else size
    share = min(1.0, size / blocks.n_rows)
    bound = min(1.0, share + 6.0 * np.sqrt(share / blocks.n_rows))  # hardly ever below the largest key that is taken
    drawn: Drawn = blocks.reduce(draw_rows, (seed, bound), report)
    keys = np.concatenate([part for part, _ in drawn])
    last = np.inf if keys.size <= size else np.partition(keys, size - 1)[size - 1]
    return joined([block.take(np.flatnonzero(part <= last)) for part, block in drawn])


def draw_rows(block: Block, state: tuple[int, float]) -> Drawn:
    """Return the rows of a block whose keys are below a bound."""
    seed, bound = state
    keys = np.random.default_rng((seed, block.number)).random(len(block))
    rows = np.flatnonzero(keys < bound)
    return ((keys[rows], block.take(rows)),)


def joined(blocks: Sequence[Block]) -> Block:
    """Return the rows of several blocks as one."""
    given = ([block.weights for block in blocks], [block.exposure for block in blocks])
    present = ([part for part in parts if part is not None] for parts in given)
    weights, exposure = (np.concatenate(parts) if parts else None for parts in present)
    y = np.concatenate([block.y for block in blocks])
    places = np.concatenate([np.asarray(block.in_table, dtype=np.intp) for block in blocks])
    return Block(0, _stacked([block.X for block in blocks]), y, weights, exposure, places)


def _stacked(tables: Sequence[object]) -> object:
    frames = [frame for frame in map(narwhals_of, tables) if isinstance(frame, nw.DataFrame)]
    if len(frames) == len(tables):
        return nw.concat(frames, how="vertical").to_native()
    lists = [table for table in tables if is_list(table)]
    if lists:
        return [row for rows in lists for row in rows]
    return np.concatenate([np.asarray(table) for table in tables])


Engine = Literal["arrow", "dask", "spark"]
ENGINES: dict[Engine, tuple[str, str]] = {
    "arrow": ("sparsenam.tables.parquet", "arrow_blocks"),
    "dask": ("sparsenam.interop.clusters", "dask_blocks"),
    "spark": ("sparsenam.interop.clusters", "spark_blocks"),
}
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True, slots=True, eq=False)
class RowSource:
    """A table that is not in memory: a dataset of Arrow, or a table of Dask or Spark."""

    engine: Engine
    table: Any


def blocks_of(X: object, columns: TargetColumns) -> ColumnBlocks | None:
    """Return the rows of a table that is read block by block; None for a table in memory.

    X is a Parquet file, a folder of them, a pattern such as ``"part-*.parquet"`` or a list of these; a dataset of
    pyarrow; or a table of Dask or Spark, with the ``columns`` among its own.
    """
    if isinstance(X, ColumnBlocks):
        if columns != X.target_columns:
            expected, got = ", ".join(X.target_columns.used), ", ".join(columns.used)
            raise InputError(describe("y, sample_weight and exposure", expected, got, "name the columns of the table"))
        return X
    source = source_of(X)
    if source is None:
        return None
    module, function = ENGINES[source.engine]
    return getattr(import_module(module), function)(source.table, columns)


def require_named_columns(X: object) -> None:
    """Raise unless a table in memory has columns by name, one of which is the target."""
    table = narwhals_of(X)
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
    elif is_list(X):
        others = [one for one in X if not isinstance(one, str | PathLike)]
        got, remedy = "a list without any", "name files of Parquet in it, or give a DataFrame"
        if others:
            got = f"a list with {reprlib.repr(others[0])}"
        elif X:
            got = f"the list {reprlib.repr(X)}"
    elif isinstance(X, bytes):
        got, remedy = "bytes", "give the path as text"
    expected = "a table with named columns or paths of Parquet files, since y is a name"
    raise InputError(describe("X", expected, got, remedy))


def source_of(X: object) -> RowSource | None:
    """Return what a table is that is not in memory, by the names of its type: no library is imported to ask it."""
    paths = _paths(X)
    if paths is not None:
        try:
            from sparsenam.tables.parquet import parquet_dataset
        except ImportError as error:
            remedy = 'install it with pip install "sparsenam[files]"'
            raise InputError(describe("Parquet", "the library pyarrow", "none installed", remedy)) from error
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
    if _is_path(X):
        path = fspath(X)
        if not _means_files(path):
            expected = "a file .parquet, a folder of them or a pattern of their names"
            raise InputError(describe("X", expected, repr(path), "convert the file, or read it into a table"))
        return [path]
    if not is_list(X) or not X:
        return None
    paths = [fspath(one) for one in X if _is_path(one)]
    return paths if len(paths) == len(X) and all(map(_means_files, paths)) else None


def _is_path(X: object) -> TypeGuard[str | PathLike[str]]:
    return isinstance(X, str | PathLike)


def _means_files(path: str) -> bool:
    return path.lower().endswith(PARQUET) or is_pattern(path) or Path(path).is_dir()


def is_pattern(path: str) -> bool:
    """Return whether a path is a pattern of names."""
    return any(sign in path for sign in "*?[")
