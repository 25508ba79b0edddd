"""Predictions of tables that are not in memory: a map over the blocks of Parquet, Dask or Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sparsenam.errors import InputError, check_word, describe, rows_named_by
from sparsenam.estimators.base import AdditiveEstimator
from sparsenam.files import written_beside
from sparsenam.interop.clusters import numbered
from sparsenam.tables.blocks import PARQUET, distinct_names, source_of
from sparsenam.tables.encoder import News, TableEncoder

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pyspark.sql
    from pyarrow import RecordBatch, Table
    from pyarrow.dataset import Dataset

Method = Literal["predict", "predict_proba", "decision_function"]
METHODS: tuple[Method, ...] = ("predict", "predict_proba", "decision_function")
STORED = {"f": np.float64, "i": np.int64, "u": np.int64, "b": np.bool_}  # by numpy's kinds; others are text
SPARK_TYPES = {"f": "double", "i": "bigint", "b": "boolean", "O": "string"}


def predict_table(
    model: AdditiveEstimator, source: object, *, to: str | PathLike[str] | None = None, method: Method = "predict"
) -> Any:
    """Return predictions of a table that is not in memory, found block by block.

    Parameters
    ----------
    model
        A fitted estimator; ``source`` has the columns of its fit, and may have others.
    source
        A Parquet file, a folder, a pattern or a list of these, or a dataset of pyarrow; a table of Dask or Spark.
    to : path, for Parquet and pyarrow only
        The Parquet file to write, named .parquet or .pq: the table again, with the predictions to its right. It
        appears whole or not at all.
    method : {"predict", "predict_proba", "decision_function"}, default "predict"
        What is predicted.

    Returns
    -------
    Path, or a table of Dask or Spark
        For Parquet the file that was written. For Dask, not computed yet, a Series of the predictions, or a DataFrame
        where there are several for each row, with the index of the source. For Spark, not computed yet either, the
        table again with the predictions to its right. New columns are named ``prediction``, ``probability of …`` and
        ``score``; a name that the table has gets an underscore.
    """
    check_is_fitted(model)
    check_word("method", method, METHODS)
    found = source_of(source)
    if found is None:
        got, remedy = f"{type(source).__module__}.{type(source).__name__}", f"call its {method} for a table in memory"
        raise InputError(describe("source", "files of Parquet, or a table of Dask or Spark", got, remedy))
    predictor = _predictor(model, method)
    if found.engine == "arrow":
        if to is None:
            raise InputError(describe("to", "the name of a Parquet file", "none", "give the file to write"))
        return _to_parquet(predictor, found.table, Path(to))
    if to is not None:
        remedy = "leave it out, and write the table that is returned"
        raise InputError(describe("to", "None for a table of Dask or Spark", repr(str(to)), remedy))
    return _by_dask(predictor, found.table) if found.engine == "dask" else _by_spark(predictor, found.table)


@dataclass(frozen=True, slots=True, eq=False)
class Predictor:
    """What travels to the rows: the model, the columns that it reads and the columns that it makes."""

    model: AdditiveEstimator
    method: Method
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kind: np.dtype[np.generic]

    def predict(self, table: Any) -> NDArray[Any]:
        """Return the predictions (rows, outputs) of a table of pandas or pyarrow with the columns that it reads."""
        if not len(table):  # a partition may be empty, and estimators want a row at least
            return np.empty((0, len(self.outputs)), self.kind)
        found = np.asarray(getattr(self.model, self.method)(table))
        stored = found.astype(str if self.kind.kind == "O" else self.kind).astype(self.kind)
        return stored.reshape(len(found), len(self.outputs))

    def unused(self, names: Iterable[str]) -> list[str]:
        """Return the new columns' names, with underscores where the table has them already."""
        taken, free = set(names), list[str]()
        for name in self.outputs:
            while name in taken:
                name += "_"
            taken.add(name)
            free.append(name)
        return free

    def check(self, names: Iterable[str]) -> None:
        """Raise unless the table has the columns that the model reads."""
        gone = sorted(set(self.inputs) - set(names))
        if gone:
            expected = f"the column {gone[0]!r} of the fit"
            raise InputError(describe("source", expected, "none of that name", "give the columns that the model keeps"))


def _predictor(model: AdditiveEstimator, method: Method) -> Predictor:
    if not hasattr(model, method):
        got = type(model).__name__
        raise InputError(describe("method", f"an estimator with {method}", got, "choose method='predict'"))
    if not hasattr(model, "feature_names_in_"):
        remedy = "fit it on a table with names"
        raise InputError(describe("model", "one that knows its columns by name", "one without names", remedy))
    classes: list[object] = list(getattr(model, "classes_", ()))
    labels = model.model_.family.response == "labels"
    width, kind = model.model_.intercept.size, np.dtype(np.float64)
    outputs = ["prediction"] if width == 1 else [f"prediction {index}" for index in range(width)]
    if method == "predict_proba":
        outputs = [f"probability of {label}" for label in classes]
    elif method == "decision_function":
        several = labels or len(classes) > 2
        outputs = [f"score of {label}" for label in classes] if several else ["score"]
    elif classes:
        kind = np.dtype(np.int64) if labels else np.dtype(STORED.get(np.asarray(classes).dtype.kind, object))
        outputs = [f"prediction of {label}" for label in classes] if labels else ["prediction"]
    kept = model.fit_.kept or range(1)  # one column says how many rows there are
    inputs = tuple(model.encoder_.names[column] for column in kept)
    return Predictor(model, method, inputs, tuple(outputs), kind)


def _to_parquet(predictor: Predictor, dataset: Dataset, path: Path) -> Path:
    """Write the rows and their predictions, a row group for each block."""
    from pyarrow.parquet import ParquetWriter

    from sparsenam.tables.parquet import column_names, schema_of, tables_of

    if path.suffix.lower() not in PARQUET:
        remedy = "choose another name, and convert the file that is written"
        raise InputError(describe("to", "a name that ends in .parquet", repr(path.name), remedy))
    names = column_names(dataset)
    predictor.check(names)
    if not path.parent.is_dir() or path.is_dir():
        got = "a folder of that name" if path.is_dir() else f"{path.parent}, which is not there"
        raise InputError(describe("to", "a file in a folder", got, "make the folder or choose another name"))
    model, news = predictor.model, list[News]()
    noting = copy(model)
    noting.fit_ = replace(model.fit_, encoder=NotingEncoder.of(model.encoder_, news))
    with written_beside(path) as temporary:
        # without rows the file has its columns nevertheless
        tables = _predicted(replace(predictor, model=noting), tables_of(dataset, names))
        first = next(tables, with_predictions(predictor, schema_of(dataset, names).empty_table()))
        with ParquetWriter(temporary, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)
    model.encoder_.warn_of(sum(news, News()))
    return path


@dataclass(frozen=True, slots=True)
class NotingEncoder(TableEncoder):
    """An encoder that takes note of what it would warn of, so that a table in blocks is warned of once."""

    news: list[News] = field(default_factory=list[News])

    @classmethod
    def of(cls, encoder: TableEncoder, news: list[News]) -> NotingEncoder:
        """Return an encoder that does what another does, and takes its notes into a list."""
        return cls(encoder.names, encoder.named, encoder.columns, encoder.terms, encoder.estimator_name, news=news)

    def warn_of(self, news: News, seen: str = "during the fit", now: str = "now") -> None:
        """Take note."""
        self.news.append(news)


def _predicted(predictor: Predictor, tables: Iterable[Table]) -> Iterator[Table]:
    """Yield tables with their predictions; an error names the row of all of them."""
    done = 0
    for table in tables:
        with rows_named_by(range(done, done + table.num_rows)):
            yield with_predictions(predictor, table)
        done += table.num_rows


def with_predictions(predictor: Predictor, table: Table) -> Table:
    """Return a table of Arrow with columns of predictions to its right."""
    import pyarrow

    found = predictor.predict(table.select(list(predictor.inputs)))
    kind = pyarrow.string() if predictor.kind.kind == "O" else pyarrow.from_numpy_dtype(predictor.kind)
    for name, column in zip(predictor.unused(table.column_names), found.T, strict=True):
        table = table.append_column(name, pyarrow.array(column, kind))
    return table


def _by_dask(predictor: Predictor, frame: dd.DataFrame) -> Any:
    predictor.check(distinct_names(frame.columns))
    meta = _pandas_of(frame._meta, predictor)
    return frame[list(predictor.inputs)].map_partitions(_pandas_of, predictor, meta=meta)


def _pandas_of(part: Any, predictor: Predictor) -> Any:
    """Return the predictions of a part of a table as pandas has them: a Series, or a DataFrame of several columns."""
    pandas = import_module("pandas")
    found, kind = predictor.predict(part), "str" if predictor.kind.kind == "O" else predictor.kind
    if len(predictor.outputs) == 1:
        return pandas.Series(found[:, 0], index=part.index, name=predictor.outputs[0], dtype=kind)
    return pandas.DataFrame(found, index=part.index, columns=list(predictor.outputs), dtype=kind)


def _by_spark(predictor: Predictor, frame: pyspark.sql.DataFrame) -> pyspark.sql.DataFrame:
    """Return a table of Spark with columns of predictions to its right; its columns have numbers on the way."""
    from pyspark.sql.types import StructType

    names = list(frame.columns)
    predictor.check(names)
    source, new = numbered(frame, names), predictor.unused(names)
    everything = [*names, *new]
    schema = StructType(list(source.schema.fields))
    for index in range(len(names), len(everything)):
        schema = schema.add(f"c{index}", SPARK_TYPES[predictor.kind.kind])

    def over(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        import pyarrow

        for batch in batches:
            table = with_predictions(predictor, pyarrow.Table.from_batches([batch]).rename_columns(names))
            yield from table.rename_columns([f"c{index}" for index in range(len(everything))]).to_batches()

    return source.mapInArrow(over, schema).toDF(*everything)
