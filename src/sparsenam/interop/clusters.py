"""Rows of Dask and Spark tables: workers sum over blocks of each partition, and the sums are added here in order."""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from sparsenam.errors import ClusterError, InputError, describe
from sparsenam.tables.blocks import (
    Block,
    Report,
    State,
    Sum,
    TargetColumns,
    chosen,
    distinct_names,
    reported,
    require_rows,
    total,
    usual_height,
)

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pyspark.sql
    from dask.delayed import Delayed
    from distributed import Client, Future
    from pyarrow import RecordBatch, Table

FrameT = TypeVar("FrameT")
Result = TypeVar("Result")
SECONDS_WITHOUT_WORKER = 30.0  # seconds without any worker after which a pass is given up
LOOK_EVERY = 1.0  # seconds between two looks at a cluster that has not answered yet
IN_FLIGHT = 3  # tasks for each thread of the workers: one runs, the next waits there, the last may be on its way back


@dataclass(frozen=True, slots=True, eq=False)
class PartitionedRows(Generic[FrameT]):
    """Rows of a table in partitions; ``lengths`` are their rows and ``names`` the columns that become X."""

    frame: FrameT
    target_columns: TargetColumns
    names: tuple[str, ...]
    lengths: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        return sum(self.lengths)

    def only(self, names: Iterable[str]) -> Self:
        return replace(self, names=chosen(names, self.names))

    def with_jobs(self, jobs: int) -> Self:
        return self  # the cluster decides how many blocks are worked on at once


@dataclass(frozen=True, slots=True, eq=False)
class DaskBlocks(PartitionedRows["dd.DataFrame"]):
    """Rows of a Dask table; a partition without rows is no block.

    Tasks run on the cluster of ``client``, or without one by the scheduler that Dask is set to.
    """

    client: Client | None = None

    @property
    def n_blocks(self) -> int:
        return sum(length > 0 for length in self.lengths)

    def reduce(self, function: Callable[[Block, State], Sum], state: State, report: Report = None) -> Sum:
        """Return the sum over all blocks, bit by bit what one process would get from the same partitions."""
        filled = [index for index, length in enumerate(self.lengths) if length]
        columns, before = self.target_columns, [0, *accumulate(self.lengths)]
        first = [before[index] for index in filled]

        def partial_sum(part: object, number: int) -> Sum:
            return function(columns.block(part, number, first[number]), state)

        partitions = _partitions(self.frame[[*self.names, *columns.used]], filled)
        parts = _in_order(partitions, partial_sum, self.client)
        lengths = (self.lengths[index] for index in filled)
        return total(reported(zip(parts, lengths, strict=True), report))


def dask_blocks(frame: dd.DataFrame, columns: TargetColumns) -> DaskBlocks:
    """Return the rows of a Dask table; counting them is one pass over its target.

    The client that is active now works on every pass: nothing is moved here when its cluster ends.
    """
    client = _active_client()
    names = columns.inputs(distinct_names(frame.columns))
    partitions = _partitions(frame[[columns.target]], range(frame.npartitions))
    lengths = tuple(_in_order(partitions, _count, client))
    require_rows(sum(lengths))
    return DaskBlocks(frame, columns, names, lengths, client)


def _count(part: Sized, number: int) -> int:
    return len(part)


def _partitions(frame: dd.DataFrame, indices: Iterable[int]) -> list[Delayed]:
    """Return some partitions as tasks, of which each has its part of the graph alone."""
    from dask.delayed import Delayed
    from dask.optimization import cull

    optimized = frame.optimize()
    graph, keys = optimized.__dask_graph__(), optimized.__dask_keys__()
    return [Delayed(keys[index], cull(graph, [keys[index]])[0]) for index in indices]


def _task(part: Delayed, number: int, packed: object) -> Delayed:
    """Return ``function(part, number)`` as a task; ``packed`` is the function in a tuple, on the cluster."""
    import dask

    return dask.delayed(_called, pure=False)(part, number, packed)


def _called(part: object, number: int, packed: tuple[Callable[[object, int], Result]]) -> Result:
    return packed[0](part, number)


def _in_order(
    parts: Sequence[Delayed], function: Callable[[Any, int], Result], client: Client | None
) -> Iterator[Result]:
    """Yield ``function(partition, number)`` of the partitions in their order."""
    return _by_scheduler(parts, function) if client is None else _by_cluster(parts, function, client)


def _active_client() -> Client | None:
    """Return the client of the cluster that Dask is set to, if there is one."""
    if "distributed" not in sys.modules:  # where nobody imported it, there is no client
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def _by_scheduler(parts: Sequence[Delayed], function: Callable[[Any, int], Result]) -> Iterator[Result]:
    import dask

    at_once = os.cpu_count() or 1
    packed = dask.delayed((function,), pure=False, traverse=False)
    tasks = [_task(part, number, packed) for number, part in enumerate(parts)]
    for start in range(0, len(tasks), at_once):
        yield from dask.compute(*tasks[start : start + at_once])


def _by_cluster(parts: Sequence[Delayed], function: Callable[[Any, int], Result], client: Client) -> Iterator[Result]:
    """Yield the results, with a few tasks under way for each thread.

    Function and state are a task too, which is sent once and run again where the worker that held them is lost.
    """
    import cloudpickle
    import distributed
    from distributed.client import ClosedClientError

    content = cloudpickle.dumps((function,))
    running, following = deque["Future"](), 0
    try:
        if client.status not in ("running", "connecting"):
            raise CancelledError
        with _large_graphs_allowed():
            packed = client.submit(pickle.loads, content, pure=False)
        while following < len(parts) or running:
            while following < len(parts) and len(running) < max(IN_FLIGHT * _n_threads(client), 2):
                with _large_graphs_allowed():
                    running.append(client.compute(_task(parts[following], following, packed)))
                following += 1
            yield _result(running.popleft(), client)
    except distributed.KilledWorker as error:
        expected, got = "workers that survive a block", "several lost on the same one"
        raise ClusterError(describe("Dask cluster", expected, got, "use smaller partitions or more memory")) from error
    except (CancelledError, distributed.comm.CommClosedError, ClosedClientError) as error:
        expected, got = "a scheduler that answers", "no connection to it"
        raise ClusterError(describe("Dask cluster", expected, got, "start the cluster and the fit again")) from error


def _result(future: Future, client: Client) -> Any:
    """Return what a task returns; raise when there has been no worker for too long."""
    last_seen, seconds = time.monotonic(), LOOK_EVERY
    while True:
        try:
            return future.result(timeout=seconds)
        except TimeoutError:
            if future.status == "error":  # the function itself may have raised it
                raise future.exception() from None
            # a large result that is on its way gets twice the time, so that it arrives at some time
            seconds = 2 * seconds if future.status == "finished" else LOOK_EVERY
        if _n_threads(client):
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen >= SECONDS_WITHOUT_WORKER:
            got = f"none for {SECONDS_WITHOUT_WORKER:g} seconds"
            raise ClusterError(describe("Dask cluster", "at least one worker", got, "start workers"))


def _n_threads(client: Client) -> int:
    """Return the threads of all workers, 0 where the scheduler does not answer."""
    try:
        return sum(client.nthreads().values())
    except (OSError, AttributeError, TimeoutError):  # the client is closed or waits for its scheduler
        return 0


@contextmanager
def _large_graphs_allowed() -> Generator[None]:
    """Leave out Dask's warning about large tasks: what is sent here is sent once in a pass."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        yield


RESULT = "partition long, number long, rows long, failed boolean, content binary"


@dataclass(frozen=True, slots=True, eq=False)
class SparkBlocks(PartitionedRows["pyspark.sql.DataFrame"]):
    """Rows of a Spark table, in blocks of at most ``height`` rows of one partition.

    The order of the rows and the partitions are Spark's: a table whose partitions differ from one pass to the next has
    to be cached.
    """

    height: int = field(default_factory=usual_height)

    @property
    def n_blocks(self) -> int:
        return sum(-(-length // self.height) for length in self.lengths)

    def reduce(self, function: Callable[[Block, State], Sum], state: State, report: Report = None) -> Sum:
        """Return the sum over all blocks, added in the order of partitions and of the blocks in them."""
        columns, height = self.target_columns, self.height
        heights = [-(-length // height) for length in self.lengths]
        first = dict(enumerate([0, *accumulate(heights)]))  # the number of each partition's first block
        before = dict(enumerate([0, *accumulate(self.lengths)]))  # and of its first row

        def worked_on(table: Table, partition: int, number: int) -> Sum:
            start = before.get(partition, 0) + number * height
            return function(columns.block(table, first.get(partition, 0) + number, start), state)

        found = _run(self.frame, (*self.names, *columns.used), worked_on, self.height)
        return total(reported(_same_partitions(found, self.lengths), report))


def spark_blocks(frame: pyspark.sql.DataFrame, columns: TargetColumns, height: int | None = None) -> SparkBlocks:
    """Return the rows of a Spark table; counting those of each partition is one pass over its target."""
    height = usual_height() if height is None else height
    names = columns.inputs(distinct_names(frame.columns))
    lengths = Counter[int]()
    for partition, _, rows in _run(frame, (columns.target,), lambda table, partition, number: None, height):
        lengths[partition] += rows
    require_rows(sum(lengths.values()))
    counted = tuple(lengths[partition] for partition in range(max(lengths) + 1))
    return SparkBlocks(frame, columns, names, counted, height)


def numbered(frame: pyspark.sql.DataFrame, names: Sequence[str]) -> pyspark.sql.DataFrame:
    """Return some columns of a Spark table under the names c0, c1, …: Spark takes a dot in a name for a field."""
    quoted = (name.replace("`", "``") for name in names)
    return frame.selectExpr(*(f"`{name}` AS c{index}" for index, name in enumerate(quoted)))


def _same_partitions(found: Iterable[tuple[int, Result, int]], lengths: Sequence[int]) -> Iterator[tuple[Result, int]]:
    """Yield results and rows; raise after the last where the partitions are not those that were counted."""
    counted = Counter[int]()
    for partition, result, rows in found:
        counted[partition] += rows
        yield result, rows
    if counted != Counter({partition: length for partition, length in enumerate(lengths) if length}):
        expected, got = "the same partitions at every pass", "others than were counted"
        raise InputError(describe("Spark", expected, got, "cache the table before the fit"))


def _run(
    frame: pyspark.sql.DataFrame, names: Sequence[str], function: Callable[[Table, int, int], Result], height: int
) -> Iterator[tuple[int, Result, int]]:
    """Yield the partition, the result and the rows of each block, in order.

    A function that refuses its rows says so in the driver, with its sentence and without Spark's account of it.
    """
    from py4j.protocol import Py4JNetworkError
    from pyspark.errors import PySparkRuntimeError

    def over(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        import pyarrow
        from pyspark import TaskContext

        from sparsenam.tables.parquet import joined

        partition = TaskContext.get().partitionId()
        for number, table in enumerate(joined(batches, height)):
            try:
                content, failed = pickle.dumps(function(table.rename_columns(names), partition, number)), False
            except InputError as error:
                content, failed = pickle.dumps(error), True
            row = {"partition": partition, "number": number, "rows": table.num_rows}
            yield pyarrow.RecordBatch.from_pylist([row | {"failed": failed, "content": content}])

    try:
        collected = numbered(frame, names).mapInArrow(over, RESULT).collect()
    except (PySparkRuntimeError, Py4JNetworkError, ConnectionError) as error:
        expected, got = "the session of the table", "one that has ended"
        raise ClusterError(describe("Spark", expected, got, "make the session and the table again")) from error
    for row in sorted(collected, key=lambda row: (row.partition, row.number)):
        result = pickle.loads(row.content)
        if row.failed:
            raise result
        yield row.partition, result, row.rows
