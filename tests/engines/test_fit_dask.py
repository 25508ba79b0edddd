"""Fits on a cluster of Dask have the bits of a fit in one process: two workers, four, and one of them lost."""

import dask
import dask.dataframe as dd
import numpy as np
import pytest
from distributed import Client, LocalCluster
from typer.testing import CliRunner

import sparsenam
from fit_cases import (
    INPUTS,
    fitted,
    mixed_table,
    of_case,
    part_by_a_worker_that_is_lost,
    same_bits,
    small_blocks,
    write_parts,
)
from sparsenam.cli import large as connection
from sparsenam.cli.app import app
from sparsenam.tables import blocks

pytestmark = pytest.mark.xdist_group("dask")
ROWS = 2800


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    small_blocks(monkeypatch)


@pytest.fixture
def table():
    return of_case("gaussian", mixed_table(ROWS))


def in_partitions(table):
    """The table with a partition for each block that Parquet files are read in."""
    height = blocks.BLOCK_ROWS
    pieces = [table.iloc[start : start + height] for start in range(0, len(table), height)]
    return dd.concat([dd.from_pandas(piece, npartitions=1) for piece in pieces])


def test_without_a_cluster_dask_gives_the_bits_of_parquet_files(table, tmp_path):
    expected = fitted("gaussian", write_parts(table, tmp_path / "parts"))
    with dask.config.set(scheduler="threads"):
        assert same_bits(fitted("gaussian", in_partitions(table)), expected)


@pytest.mark.slow  # every process loads the library for itself
def test_two_and_four_processes_and_a_lost_one_give_the_bits_of_one(table, tmp_path):
    expected = fitted("gaussian", write_parts(table, tmp_path / "parts"))
    frame = in_partitions(table)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        assert same_bits(fitted("gaussian", frame), expected)
        cluster.scale(4)
        client.wait_for_workers(4)
        assert same_bits(fitted("gaussian", frame), expected)
        # one pass counts the rows, one draws the sample, and the worker is lost in the middle of the next
        at = 2 * frame.npartitions + 2
        lost = frame.map_partitions(part_by_a_worker_that_is_lost, str(tmp_path), at, meta=frame._meta)
        assert same_bits(fitted("gaussian", lost), expected)
        assert (tmp_path / "parts.seen").stat().st_size > 3 * frame.npartitions


def test_the_command_fits_files_that_a_scheduler_reads(tmp_path):
    table = of_case("binary", mixed_table(ROWS))
    folder = write_parts(table, tmp_path / "parts", parts=4)
    words = ["fit", str(folder / "*.parquet"), "--target", "two", "--out", str(tmp_path / "model")]
    with LocalCluster(n_workers=1, processes=False, dashboard_address=":0", silence_logs=50) as threads:
        result = CliRunner().invoke(app, [*words, "--scheduler", threads.scheduler_address])
    assert result.exit_code == 0, result.output
    model = sparsenam.load(tmp_path / "model" / "model.snam")
    assert np.mean(model.predict(table[INPUTS]) == table["two"]) > 0.7


def test_a_scheduler_that_does_not_answer_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "CONNECTING", 1)
    folder = write_parts(of_case("binary", mixed_table(100)), tmp_path / "parts")
    words = ["fit", str(folder), "--target", "two", "--out", str(tmp_path / "model")]
    nobody = CliRunner().invoke(app, [*words, "--scheduler", "tcp://127.0.0.1:1"])
    assert nobody.exit_code == 2
    assert "--scheduler: expected the address of a Dask scheduler, got no answer" in nobody.stderr
