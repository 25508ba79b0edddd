"""Rows of Dask tables give, to the bit, the sums of one process, and a lost worker changes nothing."""

import contextlib
import threading
from types import SimpleNamespace

import dask
import dask.dataframe as dd
import numpy as np
import pytest
from distributed import Client, LocalCluster

from engine_cases import COLUMNS, killed_once, moments, numbered_rows, refused, slow, table
from sparsenam.errors import ClusterError, InputError
from sparsenam.interop import clusters
from sparsenam.interop.clusters import dask_blocks
from sparsenam.tables.blocks import blocks_of, total

pytestmark = pytest.mark.xdist_group("dask")
PARTITIONS = 8


def frame_of(rows=800, partitions=PARTITIONS):
    return dd.from_pandas(table(rows), npartitions=partitions)


def by_one_process(frame, function, state):
    parts = [frame.get_partition(index).compute(scheduler="synchronous") for index in range(frame.npartitions)]
    filled = [part for part in parts if len(part)]
    return total(function(COLUMNS.block(part, number), state) for number, part in enumerate(filled))


@pytest.fixture(scope="session")
def cluster():
    """A cluster of two worker processes."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as processes:
        yield processes


@contextlib.contextmanager
def cluster_in_this_process(workers=1):
    with (
        LocalCluster(n_workers=workers, processes=False, dashboard_address=":0", silence_logs=50) as threads,
        Client(threads) as client,
    ):
        yield threads, client


def test_two_and_four_processes_and_a_lost_one_give_the_bits_of_one(cluster, tmp_path):
    frame = frame_of()
    expected = by_one_process(frame, moments, 0.5)
    with Client(cluster):
        done = []
        blocks = dask_blocks(frame, COLUMNS)
        assert np.array_equal(blocks.reduce(moments, 0.5, done.append), expected)
        assert done == [100 * (number + 1) for number in range(PARTITIONS)]
        cluster.scale(4)
        blocks.client.wait_for_workers(4)
        assert np.array_equal(blocks.reduce(moments, 0.5), expected)
        assert np.array_equal(blocks.reduce(killed_once, str(tmp_path)), by_one_process(frame, moments, 1.0))
        assert (tmp_path / "killed").exists()


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_without_a_cluster_the_scheduler_of_dask_works(scheduler):
    frame = frame_of()
    with dask.config.set(scheduler=scheduler):
        blocks = blocks_of(frame, COLUMNS)
        assert (blocks.n_rows, blocks.n_blocks, blocks.client) == (800, PARTITIONS, None)
        assert np.array_equal(blocks.reduce(moments, 0.5), by_one_process(frame, moments, 0.5))


def test_partitions_without_rows_are_no_blocks():
    frame = frame_of().map_partitions(lambda part: part[(part.index < 150) | (part.index >= 620)])
    blocks = blocks_of(frame, COLUMNS)
    assert (blocks.n_rows, blocks.n_blocks) == (330, 4)
    rows = blocks.reduce(numbered_rows, None)
    assert [number for number, _ in rows] == list(range(4))
    assert [length for _, length in rows] == [100, 50, 80, 100]
    with pytest.raises(InputError, match="expected rows, got none"):
        blocks_of(frame.map_partitions(lambda part: part[:0]), COLUMNS)


def test_only_takes_some_columns_and_always_target_and_weights():
    frame = frame_of()
    found = blocks_of(frame, COLUMNS).only(["b.c"]).reduce(moments, 1.0)
    assert np.array_equal(found, by_one_process(frame[["b.c", "y", "w"]], moments, 1.0))


def test_a_missing_target_and_names_that_are_no_text_are_one_sentence():
    with pytest.raises(InputError, match="expected a column 'y', got none of that name"):
        blocks_of(frame_of()[["a", "w"]], COLUMNS)
    numbered = dd.from_pandas(table(10).rename(columns={"a": 0}), npartitions=1)
    with pytest.raises(InputError, match="expected column names that are text and differ, got 0"):
        blocks_of(numbered, COLUMNS)
    with pytest.raises(InputError, match="expected a DataFrame of Dask or Spark"):
        blocks_of(frame_of()["a"], COLUMNS)


def test_few_tasks_are_under_way_at_once():
    frame = frame_of(300, 30)
    with cluster_in_this_process() as (_, client):
        blocks = dask_blocks(frame, COLUMNS)
        threads, most = sum(client.nthreads().values()), []
        assert blocks.reduce(slow, 0.0, lambda _: most.append(len(client.futures))) == 30
        assert max(most) <= 3 * threads + 2


def test_a_sentence_of_the_function_comes_from_the_worker():
    with cluster_in_this_process(), pytest.raises(InputError, match=r"^y: expected numbers"):
        dask_blocks(frame_of(), COLUMNS).reduce(refused, None)


def test_a_large_result_is_waited_for_and_an_error_of_the_function_is_not():
    answers = SimpleNamespace(status="finished", asked=[], exception=lambda: TimeoutError("of the function"))

    def result(timeout):
        answers.asked.append(timeout)
        if timeout < 4:
            raise TimeoutError
        return "arrived"

    answers.result = result
    client = SimpleNamespace(nthreads=lambda: {"worker": 1})
    assert clusters._result(answers, client) == "arrived"
    assert answers.asked == [1.0, 2.0, 4.0]
    answers.status = "error"
    with pytest.raises(TimeoutError, match="of the function"):
        clusters._result(answers, client)


def test_a_cluster_without_workers_is_one_sentence(monkeypatch):
    monkeypatch.setattr(clusters, "SECONDS_WITHOUT_WORKER", 1.0)
    with cluster_in_this_process() as (cluster, _):
        blocks = dask_blocks(frame_of(), COLUMNS)
        cluster.scale(0)
        cluster.sync(cluster._correct_state)
        with pytest.raises(ClusterError, match=r"^Dask cluster: expected at least one worker, got none for 1 seconds"):
            blocks.reduce(moments, 1.0)


def test_a_scheduler_that_ends_during_a_pass_is_one_sentence():
    with cluster_in_this_process() as (cluster, _):
        blocks = dask_blocks(frame_of(), COLUMNS)
        ended = threading.Timer(0.3, cluster.close)
        ended.start()
        for _ in range(2):  # and nothing moves to this process afterwards
            with pytest.raises(ClusterError, match=r"^Dask cluster: expected a scheduler that answers"):
                blocks.reduce(slow, 0.5)
        ended.join()
