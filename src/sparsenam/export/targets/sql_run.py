"""Written queries, run on rows by DuckDB or SQLite in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from sparsenam.errors import describe
from sparsenam.export.exporting import Cell, Matrix, Rows
from sparsenam.export.portable import ExportError, PortableColumn, PortableModel
from sparsenam.export.targets.sql_dialects import MICROSECONDS
from sparsenam.export.targets.sql_other_dialects import DIALECTS

EPOCH = datetime(1970, 1, 1)


def require_database(path: Path, dialect: str) -> None:
    """Raise unless an engine that is here runs queries of the dialect."""
    if dialect not in ("duckdb", "sqlite"):
        remedy = f"run it in {dialect}, or check an export for duckdb or sqlite"
        raise ExportError(describe(f"check of {path}", "SQL for duckdb or sqlite", f"SQL for {dialect}", remedy))
    if dialect == "duckdb" and find_spec("duckdb") is None:
        got, remedy = "an environment without duckdb", "pip install duckdb"
        raise ExportError(describe(f"check of {path}", "the engine DuckDB", got, remedy))


def run_query(
    path: Path,
    dialect: str,
    model: PortableModel,
    table: Sequence[str],
    keys: Sequence[str],
    rows: Rows,
    names: Sequence[str],
) -> Matrix:
    """Return columns (rows, names) of a query's result on a table made of the rows; keys are numbers of rows."""
    columns = {column.name: [row[column.name] for row in rows] for column in model.columns}
    others = {key: list[Cell](range(len(rows))) for key in keys if key not in columns}
    if not columns and not others:  # no engine has a table of rows without columns
        others = {"row": list[Cell](range(len(rows)))}
    query = (
        f"SELECT {', '.join(names)} FROM (\n{path.read_bytes().decode()}\n) AS {DIALECTS[dialect].identifier('answer')}"
    )
    run = run_duckdb if dialect == "duckdb" else run_sqlite
    answers = run(query, model, table, columns, others)
    cells = [[np.nan if cell is None else cell for cell in row] for row in answers]
    return np.array(cells, dtype=np.float64).reshape(len(rows), len(names))


def run_duckdb(
    query: str,
    model: PortableModel,
    table: Sequence[str],
    columns: dict[str, list[Cell]],
    others: dict[str, list[Cell]],
) -> list[tuple[Any, ...]]:
    """Return the rows of a query's result on a table of columns of the model and others, made in memory."""
    duckdb: Any = import_module("duckdb")
    quoted = [DIALECTS["duckdb"].identifier(part) for part in table]
    with closing(duckdb.connect()) as connection:
        if len(quoted) == 3:
            connection.execute(f"ATTACH ':memory:' AS {quoted[0]}")
        if len(quoted) > 1:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(quoted[:-1])}")
        parts = [_duckdb_column(column, columns[column.name]) for column in model.columns]
        given = [(name, "UNNEST(CAST(? AS BIGINT[]))", cells) for name, cells in others.items()]
        given += [(column.name, text, cells) for column, (text, cells) in zip(model.columns, parts, strict=True)]
        made = ", ".join(f"{text} AS {DIALECTS['duckdb'].identifier(name)}" for name, text, _ in given)
        connection.execute(f"CREATE TABLE {'.'.join(quoted)} AS SELECT {made}", [cells for _, _, cells in given])
        return connection.execute(query).fetchall()


def _duckdb_column(column: PortableColumn, cells: list[Cell]) -> tuple[str, list[Cell]]:
    """Return SQL that makes a column of a list, and the list."""
    if column.kind in ("date", "duration"):
        unit = MICROSECONDS if column.kind == "date" else 1_000_000
        make = "MAKE_TIMESTAMP" if column.kind == "date" else "TO_MICROSECONDS"
        return f"{make}(UNNEST(CAST(? AS BIGINT[])))", [
            None if cell is None else round(float(cell) * unit) for cell in cells
        ]
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {float, int} or column.kind == "number":
        return "UNNEST(CAST(? AS DOUBLE[]))", cells
    if kinds == {bool}:
        return "UNNEST(CAST(? AS BOOLEAN[]))", cells
    return "UNNEST(CAST(? AS VARCHAR[]))", [None if cell is None else str(cell) for cell in cells]


def run_sqlite(
    query: str,
    model: PortableModel,
    table: Sequence[str],
    columns: dict[str, list[Cell]],
    others: dict[str, list[Cell]],
) -> list[tuple[Any, ...]]:
    """Return the rows of a query's result on a table of columns of the model and others, made in memory."""
    quoted = [DIALECTS["sqlite"].identifier(part) for part in table]
    kinds = {column.name: column.kind for column in model.columns}
    with closing(sqlite3.connect(":memory:")) as connection:
        if len(quoted) > 1 and table[0] != "main":
            connection.execute(f"ATTACH ':memory:' AS {quoted[0]}")
        given = {**others, **{name: _sqlite_cells(kinds[name], cells) for name, cells in columns.items()}}
        listed = ", ".join(DIALECTS["sqlite"].identifier(name) for name in given)
        connection.execute(f"CREATE TABLE {'.'.join(quoted)} ({listed})")
        marks = ", ".join("?" for _ in given)
        connection.executemany(f"INSERT INTO {'.'.join(quoted)} VALUES ({marks})", zip(*given.values(), strict=True))
        return connection.execute(query).fetchall()


def _sqlite_cells(kind: str, cells: list[Cell]) -> list[Cell]:
    if kind != "date":
        return cells
    moments = [
        None if cell is None else EPOCH + timedelta(microseconds=round(float(cell) * MICROSECONDS)) for cell in cells
    ]
    return [None if moment is None else moment.isoformat(" ", "milliseconds") for moment in moments]
