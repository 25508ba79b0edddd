"""Rows of Parquet files and Arrow datasets give, to the bit, the sums of the same rows in memory."""

import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_cases import COLUMNS, moments, numbered_rows, refused, table
from sparsenam.errors import InputError
from sparsenam.tables import parquet
from sparsenam.tables.blocks import MemoryBlocks, TargetColumns, blocks_of
from sparsenam.tables.parquet import arrow_blocks, parquet_dataset


def in_memory(frame, height):
    X = frame.drop(columns=["y", "w"])
    return MemoryBlocks(X, frame["y"].to_numpy(), frame["w"].to_numpy(), height=height)


def write(path, frame, groups):
    """Write a table in row groups of these sizes."""
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    with pq.ParquetWriter(path, rows.schema) as writer:
        start = 0
        for size in groups:
            writer.write_table(rows.slice(start, size))
            start += size
    return path


@settings(max_examples=20)
@given(
    st.lists(st.lists(st.sampled_from([0, 1, 7, 30, 90]), min_size=1, max_size=5), min_size=1, max_size=3).filter(
        lambda files: sum(map(sum, files))
    ),
    st.sampled_from([20, 64, 1000]),
)
def test_sums_do_not_depend_on_files_and_row_groups(tmp_path_factory, files, height):
    folder = tmp_path_factory.mktemp("ragged")
    frame = table(sum(map(sum, files)))
    start = 0
    for number, groups in enumerate(files):
        write(folder / f"part-{number}.parquet", frame[start : start + sum(groups)], groups)
        start += sum(groups)
    blocks, expected = arrow_blocks(parquet_dataset([str(folder)]), COLUMNS, height), in_memory(frame, height)
    done, done_in_memory = [], []
    assert (blocks.n_rows, blocks.n_blocks) == (expected.n_rows, expected.n_blocks)
    found = blocks.reduce(moments, 0.5, done.append)
    assert np.array_equal(found, expected.reduce(moments, 0.5, done_in_memory.append))
    assert done == done_in_memory


def test_a_row_group_that_is_decoded_in_parts_is_joined_again(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROWS_DECODED_AT_ONCE", 13)
    frame = table(200)
    blocks = arrow_blocks(parquet_dataset([str(write(tmp_path / "a.parquet", frame, [200]))]), COLUMNS, 50)
    assert np.array_equal(blocks.reduce(moments, 1.0), in_memory(frame, 50).reduce(moments, 1.0))


def test_a_folder_a_pattern_a_list_and_a_dataset_are_the_same_rows(tmp_path):
    frame = table(90)
    for number in (2, 0, 1):  # written in another order than that of their names
        write(tmp_path / f"part-{number}.parquet", frame[number * 30 : (number + 1) * 30], [30])
    (tmp_path / "_metadata.parquet").write_bytes(b"no table")
    (tmp_path / ".part-3.parquet").write_bytes(b"unfinished")
    paths = sorted(tmp_path.glob("part-*.parquet"))
    dataset = ds.dataset([str(path) for path in paths])
    kept = dataset.filter(ds.field("w") >= 0)  # all rows, by another way of reading
    expected = in_memory(frame, 10**6).reduce(moments, 1.0)
    memory = ds.dataset(pa.Table.from_pandas(frame, preserve_index=False))
    for source in (tmp_path, str(tmp_path), str(tmp_path / "part-*.parquet"), paths, dataset, kept, memory):
        assert np.array_equal(blocks_of(source, COLUMNS).reduce(moments, 1.0), expected)


def test_other_files_in_another_order_are_other_rows(tmp_path):
    frame = table(60)
    first, second = write(tmp_path / "a.parquet", frame[:30], [30]), write(tmp_path / "b.parquet", frame[30:], [30])
    (block,) = blocks_of([second, first], COLUMNS)
    assert np.array_equal(block.y, np.concatenate([frame["y"][30:], frame["y"][:30]]))


def test_only_reads_some_columns_and_always_target_and_weights(tmp_path, monkeypatch):
    frame = table(50)
    read = []
    decode = parquet._decoded
    monkeypatch.setattr(parquet, "_decoded", lambda part, schema: read.append(schema.names) or decode(part, schema))
    blocks = blocks_of(write(tmp_path / "a.parquet", frame, [20, 30]), COLUMNS).only(["b.c"])
    expected = in_memory(frame[["b.c", "y", "w"]], 10**6)
    assert np.array_equal(blocks.reduce(moments, 1.0), expected.reduce(moments, 1.0))
    assert read == [["b.c", "y", "w"]]
    with pytest.raises(InputError, match="expected names of the table's columns, got 'a'"):
        blocks.only(["a"])


def test_folders_named_after_a_value_give_its_column(tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        write(tmp_path / f"year={year}" / "part.parquet", table(5), [5])
    (block,) = blocks_of(tmp_path, COLUMNS)
    assert block.X["year"].to_pylist() == [2023] * 5 + [2024] * 5


def test_a_column_without_values_in_one_file_has_the_type_of_the_others(tmp_path):
    frame = table(20)
    write(tmp_path / "a.parquet", frame[:10].assign(a=None), [10])
    write(tmp_path / "b.parquet", frame[10:], [10])
    (block,) = blocks_of(tmp_path, COLUMNS)
    assert str(block.X["a"].type) == "double"
    assert block.X["a"].to_pylist()[:10] == [None] * 10


def test_labels_of_rows_that_pandas_wrote_are_no_column(tmp_path):
    table(20).set_index(np.arange(20) * 2).to_parquet(tmp_path / "a.parquet")
    (block,) = blocks_of(tmp_path / "a.parquet", COLUMNS)
    assert block.X.column_names == ["a", "b.c", "colour"]


def test_one_block_is_read_ahead_and_no_more(tmp_path, monkeypatch):
    made, finished, before = [], threading.Semaphore(0), set(threading.enumerate())  # Dask may have left a pool
    join = parquet.joined

    def counted(batches, height):
        for part in join(batches, height):
            made.append(len(part))
            yield part
            finished.release()

    monkeypatch.setattr(parquet, "joined", counted)
    rows = iter(arrow_blocks(parquet_dataset([str(write(tmp_path / "a.parquet", table(60), [60]))]), COLUMNS, 10))
    next(rows)
    finished.acquire()  # the reader has gone on after the first block
    next(rows)
    finished.acquire()
    assert len(made) <= 3
    rows.close()
    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if thread.name.startswith("ThreadPoolExecutor")]


def test_a_sentence_of_the_function_ends_the_pass(tmp_path):
    blocks = arrow_blocks(parquet_dataset([str(write(tmp_path / "a.parquet", table(60), [60]))]), COLUMNS, 10)
    with pytest.raises(InputError, match=r"^y: expected numbers, got a word; correct it\.$"):
        blocks.reduce(refused, None)
    assert blocks.reduce(numbered_rows, None) == [(number, 10) for number in range(6)]


def damaged(folder):
    path = write(folder / "a.parquet", table(5000), [5000])
    content = bytearray(path.read_bytes())
    content[4:300] = b"\xff" * 296  # the header of the first page; the metadata at the end stays
    path.write_bytes(content)
    return path


def without(folder, name):
    return write(folder / "a.parquet", table(5).drop(columns=name), [5])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda folder: folder / "none.parquet", "expected a Parquet file or a folder of them, got none of that name"),
        (lambda folder: folder / "part-*.parquet", "expected Parquet files, got none"),
        (lambda folder: folder, "expected Parquet files, got none"),
        (lambda folder: folder / "table.csv", "expected a file .parquet"),
        (lambda folder: write(folder / "a.parquet", table(5), [0]), "expected rows, got none"),
        (lambda folder: without(folder, "y"), "expected a column 'y', got none of that name"),
        (lambda folder: without(folder, "w"), "expected a column 'w', got none of that name"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path, make, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        blocks_of(make(tmp_path), COLUMNS)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_parquet_or_damaged_is_one_sentence(tmp_path):
    (tmp_path / "no.parquet").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(InputError, match=r"expected readable Parquet files, got .*write the file again\.$"):
        blocks_of(tmp_path / "no.parquet", COLUMNS)
    blocks = blocks_of(damaged(tmp_path), COLUMNS)
    with pytest.raises(InputError, match="expected readable Parquet files"):
        blocks.reduce(moments, 1.0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda frame: frame.drop(columns="a"), r"expected the columns of a.parquet, got 'a' in one of them only"),
        (lambda frame: frame.assign(more=1), r"got 'more' in one of them only; correct a.parquet"),
        (lambda frame: frame.assign(a="text"), r"column 'a' of type double as in a.parquet, got (large_)?string"),
    ],
)
def test_files_with_other_columns_or_types_are_one_sentence(tmp_path, change, sentence):
    write(tmp_path / "a.parquet", table(5), [5])
    write(tmp_path / "b.parquet", change(table(5)), [5])
    with pytest.raises(InputError, match=sentence):
        blocks_of(tmp_path, COLUMNS)


def test_without_pyarrow_the_sentence_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "sparsenam.tables.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r'pip install "sparsenam\[files\]"'):
        blocks_of(tmp_path / "a.parquet", TargetColumns("y"))


@pytest.mark.parametrize("X", [table(5), np.ones((3, 2)), [[1, 2], [3, 4]], [], ["red", "green"], None])
def test_a_table_in_memory_is_none_of_these(X):
    assert blocks_of(X, COLUMNS) is None
