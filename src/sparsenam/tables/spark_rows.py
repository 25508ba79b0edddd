"""Rows of a Spark table: its Python workers sum over blocks of each partition, and the sums are added here in order."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import accumulate
from typing import Any

from sparsenam.errors import ClusterError, InputError, describe
from sparsenam.tables.arrow_rows import arrow_library, joined
from sparsenam.tables.blocks import Block, State, Sum, TargetColumns, chosen, reported, total, usual_height

RESULT = "partition long, number long, rows long, failed boolean, content binary"


@dataclass(frozen=True, slots=True, eq=False)
class SparkBlocks:
    """Rows of a Spark table, in blocks of at most ``height`` rows of one partition.

    The order of the rows and the partitions are Spark's: a table whose partitions differ from one pass to the next has
    to be cached. ``lengths`` are the rows of each partition, ``names`` the columns that become X.
    """

    frame: Any
    columns: TargetColumns
    names: tuple[str, ...]
    lengths: tuple[int, ...]
    height: int = field(default_factory=usual_height)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return sum(self.lengths)

    @property
    def n_blocks(self) -> int:
        """The number of blocks."""
        return sum(-(-length // self.height) for length in self.lengths)

    def only(self, names: Iterable[str]) -> SparkBlocks:
        """Return the same rows with some of the columns; the others are not read where Spark can leave them out."""
        return replace(self, names=chosen(names, self.names))

    def with_jobs(self, jobs: int) -> SparkBlocks:
        """Return these rows: the cluster's workers are not ours to count."""
        return self

    def reduce(
        self,
        function: Callable[[Block, State], Sum],
        state: State,
        report: Callable[[int], None] | None = None,
    ) -> Sum:
        """Return the sum over all blocks, added in the order of partitions and of the blocks in them."""
        columns, height, heights = self.columns, self.height, [-(-length // self.height) for length in self.lengths]
        first = dict(enumerate([0, *accumulate(heights)]))  # the number of each partition's first block
        before = dict(enumerate([0, *accumulate(self.lengths)]))  # and of its first row

        def worked_on(table: Any, partition: int, number: int) -> Any:
            start = before.get(partition, 0) + number * height
            return function(columns.block(table, first.get(partition, 0) + number, start), state)

        found = _run(self.frame, (*self.names, *columns.used), worked_on, self.height)
        return total(reported(_same_partitions(found, self.lengths), report))


def spark_blocks(frame: Any, columns: TargetColumns, height: int | None = None) -> SparkBlocks:
    """Return the rows of a Spark table; counting those of each partition is one pass over its target."""
    height = usual_height() if height is None else height
    names = columns.inputs(frame.columns)
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        got = f"{repeated[0]!r} more than once"
        raise InputError(describe("table", "column names that differ", got, "rename or drop the repeated columns"))
    lengths = Counter[int]()
    for partition, _, rows in _run(frame, (columns.target,), _nothing, height):
        lengths[partition] += rows
    if not lengths:
        raise InputError(describe("table", "rows", "none", "give a table with rows"))
    counted = tuple(lengths[partition] for partition in range(max(lengths) + 1))
    return SparkBlocks(frame, columns, names, counted, height)


def numbered(frame: Any, names: Sequence[str]) -> Any:
    """Return some columns of a Spark table under the names c0, c1, …: Spark takes a dot in a name for a field."""
    quoted = (name.replace("`", "``") for name in names)
    return frame.selectExpr(*(f"`{name}` AS c{index}" for index, name in enumerate(quoted)))


def _same_partitions(found: Iterable[tuple[int, Any, int]], lengths: Sequence[int]) -> Iterator[tuple[Any, int]]:
    """Yield results and rows; raise after the last where the partitions are not those that were counted."""
    counted = Counter[int]()
    for partition, result, rows in found:
        counted[partition] += rows
        yield result, rows
    if counted != Counter({partition: length for partition, length in enumerate(lengths) if length}):
        expected, got = "the same partitions at every pass", "others than were counted"
        raise InputError(describe("Spark", expected, got, "cache the table before the fit"))


def _nothing(table: Any, partition: int, number: int) -> None:
    """A pass that only counts."""


def _run(
    frame: Any, names: Sequence[str], function: Callable[[Any, int, int], Any], height: int
) -> Iterator[tuple[int, Any, int]]:
    """Yield the partition, the result and the rows of each block, in order.

    A function that refuses its rows says so in the driver, with its sentence and without Spark's account of it.
    """

    def over(batches: Iterable[Any]) -> Iterator[Any]:
        arrow = arrow_library("pyarrow")
        partition = import_module("pyspark").TaskContext.get().partitionId()
        for number, table in enumerate(joined(batches, height)):
            try:
                content, failed = pickle.dumps(function(table.rename_columns(names), partition, number)), False
            except InputError as error:
                content, failed = pickle.dumps(error), True
            row = {"partition": partition, "number": number, "rows": table.num_rows}
            yield arrow.RecordBatch.from_pylist([row | {"failed": failed, "content": content}])

    with _sentence():
        collected: list[Any] = numbered(frame, names).mapInArrow(over, RESULT).collect()
    for row in sorted(collected, key=lambda row: (row.partition, row.number)):
        result = pickle.loads(row.content)
        if row.failed:
            raise result
        yield row.partition, result, row.rows


@contextmanager
def _sentence() -> Generator[None]:
    """Say in one sentence that the session of a Spark table has ended."""
    ended = import_module("pyspark.errors").PySparkRuntimeError
    try:
        yield
    except (ended, import_module("py4j.protocol").Py4JNetworkError, ConnectionError) as error:
        expected, got = "the session of the table", "one that has ended"
        raise ClusterError(describe("Spark", expected, got, "make the session and the table again")) from error
