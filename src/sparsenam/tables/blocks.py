"""Rows in blocks, wherever they lie: every sum over the rows of a table is one call of ``reduce``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, Protocol, Self, TypeVar, cast, runtime_checkable

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe, nearest
from sparsenam.threads import results_in_order

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
    X: Any
    y: NDArray[Any]
    weights: NDArray[Any] | None = None
    exposure: NDArray[Any] | None = None
    places: range | NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def in_table(self) -> range | NDArray[np.intp]:
        """The number of each row in the table, from 0."""
        return range(len(self)) if self.places is None else self.places

    def take(self, rows: slice | NDArray[np.intp]) -> Block:
        """Return some of the rows."""
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

    X: Any
    y: NDArray[Any]
    weights: NDArray[Any] | None = None
    exposure: NDArray[Any] | None = None
    height: int = field(default_factory=usual_height)
    jobs: int = 1

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.y)

    @property
    def n_blocks(self) -> int:
        """The number of blocks."""
        return -(-len(self.y) // self.height)

    def with_jobs(self, jobs: int) -> MemoryBlocks:
        """Return the same rows, of which ``jobs`` blocks are worked on at once."""
        return replace(self, jobs=jobs)

    def __iter__(self) -> Iterator[Block]:
        return self.visit(range(self.n_blocks))

    def visit(self, numbers: Iterable[int]) -> Iterator[Block]:
        """Yield the blocks of these numbers, in this order."""
        whole = Block(0, self.X, self.y, self.weights, self.exposure)
        for number in numbers:
            rows = slice(number * self.height, (number + 1) * self.height)
            yield replace(whole.take(rows), number=number)

    def reduce(self, function: Callable[[Block, State], Sum], state: State, report: Report = None) -> Sum:
        """Return the sum over all blocks."""
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


def taken(X: Any, rows: slice | NDArray[np.intp]) -> Any:
    """Return some rows of any table, as a table of the same kind."""
    table: Any = nw.from_native(X, pass_through=True)
    if isinstance(table, nw.DataFrame):
        return cast("nw.DataFrame[Any]", table)[rows].to_native()
    if isinstance(X, list | tuple):
        given = cast("Sequence[Any]", X)
        return [given[int(row)] for row in np.arange(len(given))[rows]]
    return X[rows]


@dataclass(frozen=True, slots=True)
class TargetColumns:
    """Which columns of a table with all its columns are the target, the weights and the exposure."""

    target: str
    weights: str | None = None
    exposure: str | None = None

    @property
    def used(self) -> tuple[str, ...]:
        """The names of these columns."""
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

    def block(self, table: Any, number: int, first: int = 0) -> Block:
        """Return the rows of a table of pandas, polars or pyarrow as a block; ``first`` is the first row's number."""
        frame = cast("nw.DataFrame[Any]", nw.from_native(table, eager_only=True))
        inputs = self.inputs(frame.columns)
        y, weights, exposure = (
            None if name is None else np.asarray(frame[name].to_numpy())
            for name in (self.target, self.weights, self.exposure)
        )
        X, places = frame.select(*inputs).to_native(), range(first, first + len(frame))
        return Block(number, X, cast("NDArray[Any]", y), weights, exposure, places)


def distinct_names(names: Iterable[object]) -> tuple[str, ...]:
    """Return the names of a table's columns; raise unless they are text and differ."""
    counts = Counter(names)
    for name, count in counts.items():
        if not isinstance(name, str) or count > 1:
            got = f"{name!r} more than once" if isinstance(name, str) else repr(name)
            raise InputError(describe("table", "column names that are text and differ", got, "rename the columns"))
    return cast("tuple[str, ...]", tuple(counts))


def require_rows(n_rows: int, which: str = "rows") -> None:
    """Raise where a table has no rows."""
    if not n_rows:
        raise InputError(describe("table", which, "none", "give a table with such rows"))


def chosen(names: Iterable[str], among: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of some of a table's columns; raise where it has none of a name."""
    wanted = tuple(names)
    for name in wanted:
        if name not in among:
            remedy = nearest(name, among, "correct the name")
            raise InputError(describe("columns", "names of the table's columns", repr(name), remedy))
    return wanted


SAMPLE_ROWS = 200_000  # ranks of a value among so many rows are off by 0.0016 at most


Drawn = tuple[tuple[NDArray[np.float64], Block], ...]  # rows of some blocks, in parts, with their random keys (rows,)


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
    given: list[list[Any]] = [[block.weights for block in blocks], [block.exposure for block in blocks]]
    weights, exposure = (None if parts[0] is None else np.concatenate(parts) for parts in given)
    y = np.concatenate([block.y for block in blocks])
    places = np.concatenate([np.asarray(block.in_table, dtype=np.intp) for block in blocks])
    return Block(0, _stacked([block.X for block in blocks]), y, weights, exposure, places)


def _stacked(tables: Sequence[Any]) -> Any:
    frames = [nw.from_native(table, pass_through=True) for table in tables]
    if all(isinstance(frame, nw.DataFrame) for frame in frames):
        return nw.concat(frames, how="vertical").to_native()
    if isinstance(tables[0], list):
        return [row for table in tables for row in table]
    return np.concatenate(tables)
