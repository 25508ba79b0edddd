"""Rows of Parquet files and of datasets of Arrow, read again at every pass and never all at once.

This module needs pyarrow, and is imported where there is such a table only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.types import is_null

from sparsenam.errors import InputError, describe
from sparsenam.tables.blocks import (
    PARQUET,
    Block,
    Report,
    State,
    Sum,
    TargetColumns,
    chosen,
    distinct_names,
    is_pattern,
    require_rows,
    summed,
    usual_height,
)

ROWS_DECODED_AT_ONCE = 65_536  # rows decoded at once: a row group larger than a block is never in memory as a whole
SPARING = {"batch_size": ROWS_DECODED_AT_ONCE, "batch_readahead": 1, "use_threads": False}
BUFFER = 1 << 20  # bytes of each column read at once
INDEX = re.compile(r"__index_level_\d+__")  # pandas writes the labels of rows under this name

Item = TypeVar("Item")
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True, eq=False)
class ArrowBlocks:
    """Rows of an Arrow dataset, in blocks of ``height`` rows whatever its row groups are.

    Row groups are joined and cut, so that a sum does not depend on how the files were written: it is, to the bit, that
    of the same rows in memory. ``names`` are the columns that become X.
    """

    dataset: ds.Dataset
    target_columns: TargetColumns
    names: tuple[str, ...]
    n_rows: int
    height: int = field(default_factory=usual_height)
    jobs: int = 1

    @property
    def n_blocks(self) -> int:
        return -(-self.n_rows // self.height)

    def only(self, names: Iterable[str]) -> ArrowBlocks:
        return replace(self, names=chosen(names, self.names))

    def with_jobs(self, jobs: int) -> ArrowBlocks:
        return replace(self, jobs=jobs)

    def __iter__(self) -> Iterator[Block]:
        tables = tables_of(self.dataset, (*self.names, *self.target_columns.used), self.height)
        for number, table in enumerate(tables):
            yield self.target_columns.block(table, number, number * self.height)

    def visit(self, numbers: Iterable[int]) -> Iterator[Block]:
        """Yield the blocks of these numbers, in this order; the next is read while the caller works on one.

        Of a row group that holds several blocks all rows before a block's last are decoded for it: little beside what
        is done with the rows.
        """
        tables = _one_ahead(_ranges(self.dataset, (*self.names, *self.target_columns.used), self.height, numbers))
        for number, table in tables:
            yield self.target_columns.block(table, number, number * self.height)

    def reduce(self, function: Callable[[Block, State], Sum], state: State, report: Report = None) -> Sum:
        """Return the sum over all blocks; the next is read while ``jobs`` of them are worked on."""
        return summed(self, function, state, report, self.jobs)


def arrow_blocks(dataset: ds.Dataset, columns: TargetColumns, height: int | None = None) -> ArrowBlocks:
    """Return the rows of a dataset of Arrow; counting them reads the metadata of Parquet files only."""
    labels = set(index_names(dataset.schema)) - set(columns.used)
    names = columns.inputs(name for name in column_names(dataset) if name not in labels)
    with _readable():
        rows = dataset.count_rows()
    require_rows(rows)
    return ArrowBlocks(dataset, columns, names, rows, usual_height() if height is None else height)


def column_names(dataset: ds.Dataset) -> tuple[str, ...]:
    """Return the names of a dataset's columns, without the labels of rows that pandas wrote."""
    return tuple(name for name in distinct_names(dataset.schema.names) if not INDEX.fullmatch(name))


def index_names(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns of a schema that pandas wrote as labels of the rows."""
    try:
        described: list[object] = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
    except (KeyError, TypeError, ValueError):
        return ()
    return tuple(name for name in described if isinstance(name, str))  # a range is no column


def parquet_dataset(paths: Sequence[str]) -> ds.Dataset:
    """Return the dataset of Parquet files, folders of them and patterns of names such as ``part-*.parquet``.

    Files of a folder or a pattern are sorted by name. Folders named ``year=2024`` inside of one give a column.
    """
    files = [str(file) for path in paths for file in _files(path)]
    folder = Path(paths[0]).absolute() if len(paths) == 1 and Path(paths[0]).is_dir() else None
    partitioned = {} if folder is None else {"partitioning": "hive", "partition_base_dir": str(folder)}
    with _readable():
        # the schema of the first file stands for all until they are compared
        dataset = ds.dataset(files, format="parquet", **partitioned)
    common = pa.unify_schemas([_common_schema(dataset), dataset.schema])
    return dataset.replace_schema(common.with_metadata(dataset.schema.metadata))  # pandas says there what is an index


def _files(path: str) -> list[Path]:
    """Return the Parquet files that a path means, with absolute names."""
    place = Path(path)
    if place.is_file():
        return [place.absolute()]
    if place.is_dir():
        inside = [file for file in place.rglob("*") if file.suffix.lower() in PARQUET and file.is_file()]
        # names that begin so are those of unfinished or auxiliary files
        hidden = (any(part.startswith(("_", ".")) for part in file.relative_to(place).parts) for file in inside)
        found = [file for file, is_hidden in zip(inside, hidden, strict=True) if not is_hidden]
    elif is_pattern(path):
        start = Path(place.anchor) if place.is_absolute() else Path()
        pattern = str(place.relative_to(place.anchor)) if place.is_absolute() else path
        found = [file for file in start.glob(pattern) if file.is_file()]
    else:
        raise InputError(describe(path, "a Parquet file or a folder of them", "none of that name", "correct the path"))
    if not found:
        raise InputError(describe(path, "Parquet files", "none", "correct the path"))
    return sorted(file.absolute() for file in found)


def _common_schema(dataset: ds.Dataset) -> pa.Schema:
    """Return the schema of all files; only a column without any value in one file may have no type there."""
    first, common = "", None
    for fragment in dataset.get_fragments():
        with _readable(fragment.path):
            schema = fragment.physical_schema.remove_metadata()
        if common is None:
            first, common = fragment.path, schema
            continue
        differing = sorted(set(schema.names) ^ set(common.names))
        if differing:
            lacking = first if differing[0] in schema.names else fragment.path
            expected, got = f"the columns of {Path(first).name}", f"{differing[0]!r} in one of them only"
            raise InputError(describe(fragment.path, expected, got, f"correct {Path(lacking).name}"))
        try:
            common = pa.unify_schemas([common, schema])
        except pa.ArrowException as error:
            types = ((name, common.field(name).type, schema.field(name).type) for name in common.names)
            name, known, other = next(each for each in types if each[1] != each[2] and not any(map(is_null, each[1:])))
            expected = f"the column {name!r} of type {known} as in {Path(first).name}"
            raise InputError(describe(fragment.path, expected, str(other), "write all files with one type")) from error
    return dataset.schema if common is None else common


def tables_of(dataset: ds.Dataset, names: Sequence[str], height: int | None = None) -> Iterator[pa.Table]:
    """Yield the rows of a dataset as Arrow tables of ``height`` rows, the last one of fewer; one is read ahead."""
    yield from _one_ahead(joined(_batches(dataset, schema_of(dataset, names)), height or usual_height()))


def schema_of(dataset: ds.Dataset, names: Sequence[str]) -> pa.Schema:
    """Return the schema of some columns."""
    return pa.schema([dataset.schema.field(name) for name in names])


def joined(batches: Iterable[pa.RecordBatch], height: int) -> Iterator[pa.Table]:
    """Yield the rows of record batches as tables of ``height`` rows, the last one of fewer; none without rows."""
    waiting, rows = list[pa.RecordBatch](), 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, height - rows)
            waiting.append(part)
            start, rows = start + part.num_rows, rows + part.num_rows
            if rows == height:
                yield pa.Table.from_batches(waiting)
                waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)


def _ranges(
    dataset: ds.Dataset, names: Sequence[str], height: int, numbers: Iterable[int]
) -> Iterator[tuple[int, pa.Table]]:
    """Yield blocks of ``height`` rows as Arrow tables, with their numbers, in the order of the numbers."""
    schema = schema_of(dataset, names)
    with _readable():
        pieces = list(_pieces(dataset, schema))
        for number in numbers:
            start, found = number * height, list[pa.RecordBatch]()
            for rows, read in pieces:
                if -height < start < rows:
                    found += _between(read(), start, start + height)
                start -= rows
            yield number, pa.Table.from_batches(found, schema=schema)


def _between(batches: Batches, start: int, stop: int) -> Batches:
    """Yield the rows of batches from one place to another; nothing after it is read."""
    before = 0
    for batch in batches:
        first, last = max(0, start - before), min(batch.num_rows, stop - before)
        if first < last:
            yield batch.slice(first, last - first)
        before += batch.num_rows
        if before >= stop:
            return


def _pieces(dataset: ds.Dataset, schema: pa.Schema) -> Iterator[tuple[int, Callable[[], Batches]]]:
    """Yield what can be read without what comes before it: its number of rows, and how to read it."""
    for part, read in _parts(dataset, schema):
        if isinstance(part, ds.ParquetFileFragment):
            for group in part.row_groups:
                yield group.num_rows, partial(_decoded, part, schema, group.id)
        else:
            yield part.count_rows(), read


def _batches(dataset: ds.Dataset, schema: pa.Schema) -> Batches:
    with _readable():
        for _, read in _parts(dataset, schema):
            yield from read()


def _parts(dataset: ds.Dataset, schema: pa.Schema) -> Iterator[tuple[ds.Fragment | ds.Dataset, Callable[[], Batches]]]:
    try:
        fragments = dataset.get_fragments()
    except ValueError:  # a dataset with a filter does not show its parts
        yield dataset, lambda: dataset.scanner(columns=schema.names, fragment_readahead=1, **SPARING).to_batches()
        return
    for fragment in fragments:
        if isinstance(fragment, ds.ParquetFileFragment):
            yield fragment, partial(_decoded, fragment, schema)
        else:
            yield fragment, partial(fragment.to_batches, schema=dataset.schema, columns=schema.names, **SPARING)


def _decoded(fragment: ds.ParquetFileFragment, schema: pa.Schema, only: int | None = None) -> Batches:
    """Yield the rows of a Parquet file, or of one of its row groups.

    A scanner of the dataset would do, but it keeps whole row groups: 246 MB of Arrow's memory where this takes 55 (row
    groups of a million rows by 12 columns).
    """
    constant = ds.get_partition_keys(fragment.partition_expression)
    file = pq.ParquetFile(fragment.open(), metadata=fragment.metadata, buffer_size=BUFFER, pre_buffer=False)
    with file:
        inside = frozenset(file.schema_arrow.names)
        present = [name for name in schema.names if name in inside]
        groups = [group.id for group in fragment.row_groups] if only is None else [only]
        batches = file.iter_batches(ROWS_DECODED_AT_ONCE, row_groups=groups, columns=present, use_threads=False)
        for batch in batches:
            arrays = [
                batch.column(field.name).cast(field.type)
                if field.name in inside
                else pa.repeat(pa.scalar(constant.get(field.name), field.type), batch.num_rows)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _one_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield what an iterator yields; the next is made in another thread while the caller works on one."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, items, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, items, None)
            yield item


@contextmanager
def _readable(path: str = "table") -> Generator[None]:
    """Turn what Arrow says of a file that it cannot read into one sentence."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        got = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(describe(path, "readable Parquet files", got, "write the file again")) from error
