"""Rows of Spark tables give the sums of one process at the same blocks."""

import os
import shutil
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparsenam
from engine_cases import COLUMNS, moments, numbered_rows, refused, table
from fit_cases import INPUTS, fitted, mixed_table, of_case, small_blocks, write_parts
from sparsenam.datasets import make_classification
from sparsenam.errors import ClusterError, InputError
from sparsenam.estimators import RandomFeatureSNAMClassifier
from sparsenam.interop.clusters import spark_blocks
from sparsenam.interop.out_of_core import predict_table
from sparsenam.tables.blocks import MemoryBlocks, blocks_of, total

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(
        shutil.which("java") is None and "JAVA_HOME" not in os.environ,
        reason="Spark needs Java, which is not installed",
    ),
]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "70",  # several batches in a block, and blocks that cut them
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # a start of seconds
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module")
def spark():
    """A session with two threads whose Python workers are this Python and find these tests."""
    from pyspark.sql import SparkSession

    paths = [str(Path(__file__).parents[1]), str(Path(sparsenam.__file__).parents[1])]
    before = dict(os.environ)
    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            builder = SparkSession.builder.master("local[2]")
            for name, value in SETTINGS.items():
                builder = builder.config(name, value)
            session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()
    finally:
        os.environ.clear()
        os.environ |= before


def partitions_of(frame):
    """Return the rows of each partition, as Spark has them."""
    rows = [row.asDict() for row in frame.selectExpr("spark_partition_id() AS partition", "*").collect()]
    numbers = [row.pop("partition") for row in rows]
    parts = [[row for row, part in zip(rows, numbers, strict=True) if part == number] for number in sorted({*numbers})]
    return [pa.Table.from_pylist(part) for part in parts]


def test_a_spark_table_gives_the_sums_of_one_process(spark, tmp_path):
    whole = table(1000)
    pq.write_table(pa.Table.from_pandas(whole, preserve_index=False), tmp_path / "a.parquet")
    frame = spark.read.parquet(str(tmp_path / "a.parquet")).repartition(3).cache()
    blocks = spark_blocks(frame, COLUMNS, height=150)
    parts = [part.slice(start, 150) for part in partitions_of(frame) for start in range(0, len(part), 150)]
    numbers = blocks.reduce(numbered_rows, None)
    assert numbers == [(number, len(part)) for number, part in enumerate(parts)]
    assert (blocks.n_rows, blocks.n_blocks) == (1000, len(parts))
    done = []
    found = blocks.reduce(moments, 0.5, done.append)
    assert done[-1] == 1000
    assert np.array_equal(found, total(moments(COLUMNS.block(part, 0), 0.5) for part in parts))
    in_memory = MemoryBlocks(whole.drop(columns=["y", "w"]), whole["y"].to_numpy(), whole["w"].to_numpy())
    np.testing.assert_allclose(found, in_memory.reduce(moments, 0.5), rtol=0, atol=1e-10)
    some = blocks.only(["b.c"]).reduce(moments, 0.5)
    assert np.array_equal(some, found[[0, 3, 4]])
    with pytest.raises(InputError, match=r"^y: expected numbers, got a word; correct it\.$"):
        blocks.reduce(refused, None)
    with pytest.raises(InputError, match="expected a column 'y', got none of that name"):
        blocks_of(frame.drop("y"), COLUMNS)
    with pytest.raises(InputError, match="expected rows, got none"):
        blocks_of(frame.filter("w < 0"), COLUMNS)
    other = replace(blocks, lengths=(1, *blocks.lengths[1:]))
    with pytest.raises(InputError, match="expected the same partitions at every pass"):
        other.reduce(numbered_rows, None)


def test_predictions_stand_beside_the_columns(spark):
    data = make_classification(120, 3, seed=0)
    names = ["a.b", "prediction", "x"]
    rows = pa.table(dict(zip(names, data.X.T, strict=True)))
    labels = np.where(data.y == 1, "yes", "no")
    model = RandomFeatureSNAMClassifier(random_state=0, alpha=0.01).fit(rows, labels)
    frame = spark.createDataFrame([{"id": index, **row} for index, row in enumerate(rows.to_pylist())])
    frame = frame.coalesce(1)  # one worker that imports the library
    found = predict_table(model, frame)
    assert found.columns == [*frame.columns, "prediction_"]
    by_id = {row["id"]: row["prediction_"] for row in found.collect()}
    assert [by_id[index] for index in range(120)] == list(model.predict(rows))
    chances = predict_table(model, frame.select("x", "`a.b`", "prediction", "id"), method="predict_proba")
    kept = {row["id"]: (row["probability of no"], row["probability of yes"]) for row in chances.collect()}
    assert np.array_equal(np.array([kept[index] for index in range(120)]), model.predict_proba(rows))


@pytest.mark.slow  # a second session takes twenty seconds
def test_a_session_that_has_ended_is_one_sentence(spark):
    blocks = spark_blocks(spark.range(10).selectExpr("id * 1.5D AS y", "1.0D AS w", "id * 2.0D AS a"), COLUMNS)
    spark.stop()
    with pytest.raises(ClusterError, match=r"^Spark: expected the session of the table, got one that has ended"):
        blocks.reduce(moments, 1.0)


@pytest.mark.slow  # every Python worker of Spark loads the library for itself
def test_a_fit_of_a_spark_table_is_that_of_the_same_blocks_of_parquet(spark, tmp_path, monkeypatch):
    small_blocks(monkeypatch)
    rows = of_case("gaussian", mixed_table(2000))
    folder = write_parts(rows, tmp_path / "parts", parts=1)
    frame = spark.read.parquet(str(folder)).coalesce(1)
    model, expected = fitted("gaussian", frame), fitted("gaussian", folder)
    assert list(model.get_feature_names_out()) == list(expected.get_feature_names_out())
    np.testing.assert_allclose(model.predict(rows[INPUTS]), expected.predict(rows[INPUTS]), rtol=1e-10, atol=1e-10)
