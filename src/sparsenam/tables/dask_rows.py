"""Rows of a Dask table: a partition is a block, a task works on it, and the sums are added here in their order."""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import accumulate
from typing import Any, cast

from sparsenam.errors import ClusterError, InputError, describe
from sparsenam.tables.blocks import Block, State, Sum, TargetColumns, chosen, reported, total

PATIENCE = 30.0  # seconds without any worker after which a pass is given up
LOOK_EVERY = 1.0  # seconds between two looks at a cluster that has not answered yet
IN_FLIGHT = 3  # tasks for each thread of the workers: one runs, the next waits there, the last may be on its way back


@dataclass(frozen=True, slots=True, eq=False)
class DaskBlocks:
    """Rows of a Dask table; a partition without rows is no block.

    ``lengths`` are the rows of each partition and ``names`` the columns that become X. Tasks run on the cluster of
    ``client``, or without one by the scheduler that Dask is set to. ``patience`` is how many seconds a pass waits for a
    cluster without workers.
    """

    frame: Any
    columns: TargetColumns
    names: tuple[str, ...]
    lengths: tuple[int, ...]
    client: Any = None
    patience: float = PATIENCE

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return sum(self.lengths)

    @property
    def n_blocks(self) -> int:
        """The number of partitions with rows."""
        return sum(length > 0 for length in self.lengths)

    def only(self, names: Iterable[str]) -> DaskBlocks:
        """Return the same rows with some of the columns; the others are not read where Dask can leave them out."""
        return replace(self, names=chosen(names, self.names))

    def with_jobs(self, jobs: int) -> DaskBlocks:
        """Return these rows: the cluster's workers are not ours to count."""
        return self

    def reduce(
        self,
        function: Callable[[Block, State], Sum],
        state: State,
        report: Callable[[int], None] | None = None,
    ) -> Sum:
        """Return the sum over all blocks, bit by bit what one process would get from the same partitions."""
        filled = [index for index, length in enumerate(self.lengths) if length]
        frame = self.frame[[*self.names, *self.columns.used]]
        before = [0, *accumulate(self.lengths)]
        first = tuple(before[index] for index in filled)
        tasks = _tasks(frame, filled, _partial_sum, (function, state, self.columns, first))
        parts = _in_order(tasks, self.client, self.patience)
        lengths = (self.lengths[index] for index in filled)
        return total(reported(((cast("Sum", part), rows) for part, rows in zip(parts, lengths, strict=True)), report))


def dask_blocks(frame: Any, columns: TargetColumns, *, client: Any = None, patience: float = PATIENCE) -> DaskBlocks:
    """Return the rows of a Dask table; counting them is one pass over its target.

    Without ``client``, the one that is active now works on every pass: nothing is moved here when its cluster ends.
    """
    client = _active_client() if client is None else client
    names = columns.inputs(text_names(frame))
    tasks = _tasks(frame[[columns.target]], range(frame.npartitions), _count, ())
    lengths = tuple(int(length) for length in _in_order(tasks, client, patience))
    if not sum(lengths):
        raise InputError(describe("table", "rows", "none", "give a table with rows"))
    return DaskBlocks(frame, columns, names, lengths, client, patience)


def text_names(frame: Any) -> tuple[str, ...]:
    """Return the names of a table's columns; raise unless they are text and differ."""
    names: list[Any] = list(frame.columns)
    for name in names:
        if not isinstance(name, str) or names.count(name) > 1:
            got = f"{name!r}" if not isinstance(name, str) else f"{name!r} more than once"
            raise InputError(describe("table", "column names that are text and differ", got, "rename the columns"))
    return tuple(names)


def _partial_sum(
    part: Any,
    number: int,
    function: Callable[[Block, State], Sum],
    state: State,
    columns: TargetColumns,
    first: tuple[int, ...],
) -> Sum:
    return function(columns.block(part, number, first[number]), state)


def _count(part: Any, number: int) -> int:
    return len(part)


@dataclass(frozen=True, slots=True, eq=False)
class _Tasks:
    """``function(partition, number, *more)`` of some partitions; only one partition's part of the graph is sent."""

    graph: Any
    keys: Sequence[Any]
    function: Callable[..., Any]
    more: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.keys)

    def task(self, number: int, packed: Any) -> Any:
        """Return one of the tasks, not yet started; ``packed`` is what `_unpacked` makes of function and ``more``."""
        dask, delayed = import_module("dask"), import_module("dask.delayed")
        key = self.keys[number]
        part, _ = import_module("dask.optimization").cull(self.graph, [key])
        return dask.delayed(_called, pure=False)(delayed.Delayed(key, part), number, packed)


def _tasks(frame: Any, indices: Iterable[int], function: Callable[..., Any], more: tuple[Any, ...]) -> _Tasks:
    optimized = frame.optimize()
    keys = optimized.__dask_keys__()
    return _Tasks(optimized.__dask_graph__(), [keys[index] for index in indices], function, more)


def _called(part: Any, number: int, packed: tuple[Callable[..., Any], tuple[Any, ...]]) -> Any:
    function, more = packed
    return function(part, number, *more)


def _in_order(tasks: _Tasks, client: Any, patience: float) -> Iterator[Any]:
    """Yield the results of the tasks in their order."""
    return _by_scheduler(tasks) if client is None else _by_cluster(tasks, client, patience)


def _active_client() -> Any:
    """Return the client of the cluster that Dask is set to, if there is one."""
    distributed = sys.modules.get("distributed")  # where nobody imported it, there is no client
    try:
        return None if distributed is None else distributed.default_client()
    except ValueError:
        return None


def _by_scheduler(tasks: _Tasks) -> Iterator[Any]:
    dask = import_module("dask")
    at_once = os.cpu_count() or 1
    packed = dask.delayed((tasks.function, tasks.more), pure=False, traverse=False)
    for start in range(0, len(tasks), at_once):
        numbers = range(start, min(start + at_once, len(tasks)))
        yield from dask.compute(*(tasks.task(number, packed) for number in numbers))


def _by_cluster(tasks: _Tasks, client: Any, patience: float) -> Iterator[Any]:
    """Yield the results, with a few tasks under way for each thread.

    Function and state are a task too, which is sent once and run again where the worker that held them is lost.
    """
    cloudpickle = import_module("cloudpickle")
    content = cloudpickle.dumps((tasks.function, tasks.more))
    running = deque[Any]()
    following = 0
    with _sentences():
        if client.status not in ("running", "connecting"):
            raise CancelledError
        with _large_graphs_allowed():
            packed = client.submit(pickle.loads, content, pure=False)
        while following < len(tasks) or running:
            while following < len(tasks) and len(running) < max(IN_FLIGHT * _n_threads(client), 2):
                with _large_graphs_allowed():
                    running.append(client.compute(tasks.task(following, packed)))
                following += 1
            yield _result(running.popleft(), client, patience)


def _result(future: Any, client: Any, patience: float) -> Any:
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
        elif time.monotonic() - last_seen >= patience:
            remedy = "start workers, or allow a longer patience"
            got = f"none for {patience:g} seconds"
            raise ClusterError(describe("Dask cluster", "at least one worker", got, remedy))


def _n_threads(client: Any) -> int:
    """Return the threads of all workers, 0 where the scheduler does not answer."""
    try:
        return sum(client.nthreads().values())
    except (OSError, AttributeError, TimeoutError):  # the client is closed or waits for its scheduler
        return 0


@contextmanager
def _sentences() -> Generator[None]:
    """Say in one sentence what became of a cluster."""
    distributed = import_module("distributed")
    try:
        yield
    except distributed.KilledWorker as error:
        expected, got = "workers that survive a block", "several lost on the same one"
        raise ClusterError(describe("Dask cluster", expected, got, "use smaller partitions or more memory")) from error
    except (CancelledError, distributed.comm.CommClosedError) as error:
        expected, got = "a scheduler that answers", "no connection to it"
        raise ClusterError(describe("Dask cluster", expected, got, "start the cluster and the fit again")) from error


@contextmanager
def _large_graphs_allowed() -> Generator[None]:
    """Leave out Dask's warning about large tasks: what is sent here is sent once in a pass."""
    with import_module("dask").config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        yield
