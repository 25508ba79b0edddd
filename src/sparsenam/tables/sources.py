"""Which tables are read block by block: files of Parquet, datasets of Arrow, and tables of Dask and Spark."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, cast

import narwhals.stable.v2 as nw
import numpy as np

from sparsenam.errors import InputError, describe
from sparsenam.tables.arrow_rows import PARQUET, arrow_blocks, is_pattern, parquet_dataset
from sparsenam.tables.blocks import Blocks, TargetColumns
from sparsenam.tables.dask_rows import dask_blocks
from sparsenam.tables.held_out import SomeRows
from sparsenam.tables.spark_rows import spark_blocks

Engine = Literal["arrow", "dask", "spark"]


@dataclass(frozen=True, slots=True, eq=False)
class RowSource:
    """A table that is not in memory: a dataset of Arrow, or a table of Dask or Spark."""

    engine: Engine
    table: Any


def blocks_of(X: object, columns: TargetColumns) -> Blocks | None:
    """Return the rows of a table that is read block by block; None for a table in memory.

    Parameters
    ----------
    X
        A Parquet file, a folder of them, a pattern such as ``"part-*.parquet"`` or a list of these; a dataset of
        pyarrow; a table of Dask or Spark. All columns of the fit are in it, the target among them.
    columns
        Which of them are the target, the weights and the exposure.
    """
    if isinstance(X, SomeRows):
        return X.named(columns)
    source = source_of(X)
    if source is None:
        return None
    return {"arrow": arrow_blocks, "dask": dask_blocks, "spark": spark_blocks}[source.engine](source.table, columns)


def require_named_columns(X: object) -> None:
    """Raise unless a table in memory has columns by name, one of which is the target."""
    table: Any = nw.from_native(cast("Any", X), pass_through=True, allow_series=True)
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
    elif isinstance(X, list | tuple):
        others = [one for one in cast("Sequence[object]", X) if not isinstance(one, str | PathLike)]
        got, remedy = "a list without any", "name files of Parquet in it, or give a DataFrame"
        if others:
            got = f"a list with {reprlib.repr(others[0])}"
        elif X:
            got = f"the list {reprlib.repr(cast('object', X))}"
    elif isinstance(X, bytes):
        got, remedy = "bytes", "give the path as text"
    expected = "a table with named columns or paths of Parquet files, since y is a name"
    raise InputError(describe("X", expected, got, remedy))


def source_of(X: object) -> RowSource | None:
    """Return what a table is that is not in memory, by the names of its type: no library is imported to ask it."""
    paths = _paths(X)
    if paths is not None:
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
    """Return the paths that are given, None where it is no path or list of paths."""
    if isinstance(X, str | PathLike):
        path = fspath(cast("str | PathLike[str]", X))
        if not _means_files(path):
            expected = "a file .parquet, a folder of them or a pattern of their names"
            raise InputError(describe("X", expected, repr(path), "convert the file, or read it into a table"))
        return [path]
    if not isinstance(X, list | tuple) or not X:
        return None
    given = cast("Sequence[object]", X)
    paths = [fspath(cast("str | PathLike[str]", one)) for one in given if isinstance(one, str | PathLike)]
    return paths if len(paths) == len(given) and all(map(_means_files, paths)) else None


def _means_files(path: str) -> bool:
    return path.lower().endswith(PARQUET) or is_pattern(path) or Path(path).is_dir()
