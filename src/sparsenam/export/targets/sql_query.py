"""A model as one SQL query: effects of the columns of a table, scores, means, probabilities and classes.

`docs/export_sql.md` says what types the columns of the table have and how effects are read.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from sparsenam.codec import is_sequence
from sparsenam.errors import nearest
from sparsenam.export.exporting import Matrix, Options, Rows
from sparsenam.export.portable import HIGHEST_EXPONENT, Cell, PortableColumn, PortableCurve, PortableModel, refusal
from sparsenam.export.targets.code_parts import UNWRITABLE, check_texts
from sparsenam.export.targets.sql_dialects import DIALECTS, MICROSECONDS, Dialect, Names, cut
from sparsenam.export.targets.sql_stages import Columns, Stages

EPOCH = datetime(1970, 1, 1)
LOWEST_EXPONENT = -700.0  # e⁻⁷⁰⁰ is the smallest mean; below e⁻⁷⁰⁸ PostgreSQL fails


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """What a query is written for: a dialect, the parts of the table's name, and columns handed through."""

    dialect: Dialect
    table: tuple[str, ...]
    key: tuple[str, ...]
    effects: bool


def files(model: PortableModel, path: Path, options: Options) -> dict[Path, bytes]:
    """Return the query.

    Parameters
    ----------
    model : PortableModel
        The model.
    path : path
        The file.
    options : mapping
        ``dialect``: "duckdb" (default), "postgres", "sqlite", "bigquery", "snowflake", "tsql" or "spark".
        ``table``: the table to read, "rows" by default; dots part schema and table, a list gives parts with dots.
        ``key``: a column or columns of the table to hand through. ``effects``: whether the effects are among the
        columns of the result; True by default.
    """
    return {path: query_of(model, read_options(options)).encode()}


def require_engine(path: Path, options: Options) -> None:
    """Raise unless the query's dialect is that of an engine that is here."""
    dialect = read_options(options).dialect.name
    if dialect not in ("duckdb", "sqlite"):
        remedy = f"run it in {dialect}, or check an export for duckdb or sqlite"
        raise refusal(f"check of {path}", "SQL for duckdb or sqlite", f"SQL for {dialect}", remedy)
    if dialect == "duckdb" and find_spec("duckdb") is None:
        raise refusal(f"check of {path}", "the engine DuckDB", "an environment without duckdb", "pip install duckdb")


def scores(model: PortableModel, path: Path, rows: Rows, options: Options) -> Matrix:
    """Return the scores (rows, outputs) of the written query, run by DuckDB or SQLite in memory."""
    require_engine(path, options)
    chosen = read_options(options)
    _, names, _ = _stages(model, chosen)
    columns = {column.name: [row[column.name] for row in rows] for column in model.columns}
    others = {key: list[Cell](range(len(rows))) for key in chosen.key if key not in columns}
    if not columns and not others:  # no engine has a table of rows without columns
        others = {"row": list[Cell](range(len(rows)))}
    answer = chosen.dialect.identifier("answer")
    query = f"SELECT {', '.join(names)} FROM (\n{path.read_bytes().decode()}\n) AS {answer}"
    run = run_duckdb if chosen.dialect.name == "duckdb" else run_sqlite
    answers = run(query, model, chosen.table, columns, others)
    cells = [[np.nan if cell is None else cell for cell in row] for row in answers]
    return np.array(cells, dtype=np.float64).reshape(len(rows), len(names))


def read_options(options: Options) -> QueryOptions:
    """Return the options with their defaults; one sentence says what is wrong with them."""
    dialect, effects = options.get("dialect", "duckdb"), options.get("effects", True)
    if not isinstance(dialect, str) or dialect not in DIALECTS:
        raise refusal("dialect", f"one of {list(DIALECTS)}", repr(dialect), nearest(dialect, DIALECTS, "choose one"))
    if not isinstance(effects, bool):
        raise refusal("effects", "True or False", repr(effects), "choose one")
    given = options.get("table", "rows")
    table = _names("table", given.split(".") if isinstance(given, str) else given)
    if not 1 <= len(table) <= 3:
        raise refusal(
            "table", "a name of one to three parts", repr(given), "give a list of the parts if dots are in them"
        )
    key = options.get("key") or ()
    return QueryOptions(DIALECTS[dialect], table, _names("key", [key] if isinstance(key, str) else key), effects)


def _names(where: str, given: object) -> tuple[str, ...]:
    names: list[str] = []
    for name in given if is_sequence(given) and not isinstance(given, str) else [given]:
        if not isinstance(name, str) or not name or UNWRITABLE.search(name):
            raise refusal(where, "names that SQL can quote", repr(name), "rename it")
        names.append(name)
    if len(set(names)) < len(names) and where == "key":
        raise refusal(where, "columns that differ", f"{names}", "leave out those given twice")
    return tuple(names)


def _check(model: PortableModel, chosen: QueryOptions) -> None:
    """Refuse names and levels that the dialect cannot tell apart or write."""
    dialect, found = chosen.dialect, dict[str, str]()
    for name in dict.fromkeys([*(column.name for column in model.columns), *chosen.key]):
        if not name or UNWRITABLE.search(name):
            raise refusal("export to sql", "columns whose names SQL can quote", repr(name), "rename it before the fit")
        shown = cut(name, dialect.longest_name)
        shown = shown.casefold() if dialect.folds else shown
        if shown in found:
            got = f"{found[shown]!r} and {name!r}, which are one name in {dialect.name}"
            raise refusal("export to sql", "columns whose names differ", got, "rename one before the fit")
        found[shown] = name
    check_texts("sql", model, UNWRITABLE, "levels and classes that SQL can write")


def query_of(model: PortableModel, chosen: QueryOptions) -> str:
    """Return the query as text, or refuse."""
    stages, _, result = _stages(model, chosen)
    dialect = chosen.dialect
    widest = max(len(columns) for columns in [*stages.queries, result])
    if widest > dialect.most_columns:
        expected, got = f"a query of at most {dialect.most_columns} columns for {dialect.name}", f"{widest}"
        raise refusal("export to sql", expected, got, "keep fewer columns, or export for DuckDB")
    table = ".".join(dialect.identifier(part) for part in chosen.table)
    names = Names(dialect, [*chosen.table, "source"])
    source, written = f"{table} AS {stages.source}", list[str]()
    for index, columns in enumerate(stages.queries):
        name = names.new("step", str(index + 1))
        ends = ([dialect.fenced] if index else []) + [dialect.fence]
        body = _select(columns, source, " ".join(end for end in ends if end), "  ")
        written.append(f"{name} AS {dialect.inlined}(\n{body}\n)")
        source = name
    return "\n".join(
        [*_header(model, dialect), "WITH " + ", ".join(written), _select(result, source, dialect.fenced, ""), ""]
    )


def _select(columns: Columns, source: str, end: str, margin: str) -> str:
    parts = [name if name == expression else f"{expression} AS {name}" for name, expression in columns.items()]
    lines = ["SELECT", ",\n".join(f"{margin}  {part}" for part in parts), f"{margin}FROM {source}"]
    return margin + "\n".join([*lines, *([f"{margin}{end}"] if end else [])])


def _header(model: PortableModel, dialect: Dialect) -> list[str]:
    writer = re.sub(r"[^A-Za-z0-9 .+-]", " ", model.written_by).strip("- ")  # nothing that could end the comment
    lines = [f"-- An additive model as a query for {dialect.name}, written by {writer}."]
    if not dialect.tested:
        lines.append(f"-- Written from the documentation of {dialect.name}: no test has run it there.")
    return lines


def _stages(model: PortableModel, chosen: QueryOptions) -> tuple[Stages, list[str], Columns]:
    """Return the queries, the names of the scores, and the columns of the result."""
    _check(model, chosen)
    curves = [term for term in model.terms if isinstance(term, PortableCurve)]
    dialect = chosen.dialect.for_constants(sum(len(term.knots) * (1 + 3 * len(term.slopes)) for term in curves))
    names = Names(dialect, [*(column.name for column in model.columns), *chosen.key])
    keys = tuple(dialect.identifier(key) for key in chosen.key)
    stages = Stages(model, dialect, names, keys, dialect.identifier("source"))
    stages.add_cells()
    stages.add_effects()
    effects, found = stages.add_scores()
    shown = [*(effects if chosen.effects else []), *found]
    if model.link == "softmax":
        result = _softmax(stages, shown, found)
    elif model.task in ("classes", "labels"):
        result = _logits(stages, shown, found)
    else:
        suffixes = zip(found, stages.suffixes, strict=True)
        result = {names.new("prediction", *suffix): _mean(model, dialect, score) for score, suffix in suffixes}
    return stages, found, {**{name: name for name in (*keys, *shown)}, **result}


def _logits(stages: Stages, shown: Sequence[str], found: Sequence[str]) -> Columns:
    """Return the probabilities of two classes, or of several labels, and what is predicted."""
    model, dialect, names = stages.model, stages.dialect, stages.names
    half, one = dialect.number(0.5), dialect.number(1.0)
    if model.task == "classes":
        first, second = (names.new("probability", str(label)) for label in model.classes)
        stages.add({second: _mean(model, dialect, found[0])}, shown)
        no, yes = (dialect.label(label) for label in model.classes)
        chosen = f"CASE WHEN {second} > {half} THEN {yes} WHEN {second} <= {half} THEN {no} END"
        return {first: f"{one} - {second}", second: second, names.new("prediction"): chosen}
    means = {
        names.new("probability", label): _mean(model, dialect, score)
        for label, score in zip(model.outputs, found, strict=True)
    }
    stages.add(means, shown)
    chosen = [f"CASE WHEN {mean} > {half} THEN 1 WHEN {mean} <= {half} THEN 0 END" for mean in means]
    labels = [names.new("prediction", label) for label in model.outputs]
    return {**{mean: mean for mean in means}, **dict(zip(labels, chosen, strict=True))}


def _softmax(stages: Stages, shown: Sequence[str], found: Sequence[str]) -> Columns:
    """Return the probabilities of classes and the first of the most probable, whose power is e⁰."""
    dialect, names, classes = stages.dialect, stages.names, stages.model.classes
    top = names.new("largest")
    stages.add({top: dialect.largest(found)}, shown)
    powers = {
        names.new("power"): f"EXP({_clamp(dialect, f'({score} - {top})', LOWEST_EXPONENT, 0.0)})" for score in found
    }
    stages.add(powers, shown)
    total = names.new("total")
    stages.add({total: " + ".join(powers)}, [*shown, *powers])
    cases = " ".join(
        f"WHEN {power} = {dialect.number(1.0)} THEN {dialect.label(label)}"
        for power, label in zip(powers, classes, strict=True)
    )
    shares = {
        names.new("probability", str(label)): f"{power} / {total}" for label, power in zip(classes, powers, strict=True)
    }
    return {**shares, names.new("prediction"): f"CASE {cases} END"}


def _mean(model: PortableModel, dialect: Dialect, score: str) -> str:
    """Return the mean of a score under a link of single outputs."""
    if model.link == "identity":
        return score
    highest = HIGHEST_EXPONENT if model.link == "log" else -LOWEST_EXPONENT
    clamped = _clamp(dialect, score, LOWEST_EXPONENT, highest)
    one = dialect.number(1.0)
    return f"EXP({clamped})" if model.link == "log" else f"{one} / ({one} + EXP(-({clamped})))"


def _clamp(dialect: Dialect, x: str, lowest: float, highest: float) -> str:
    low, high = dialect.number(lowest), dialect.number(highest)
    return f"CASE WHEN {x} < {low} THEN {low} WHEN {x} > {high} THEN {high} ELSE {x} END"


Given = dict[str, list[Cell]]  # cells of columns by name
Answers = list[tuple[Any, ...]]  # rows of cells of any type


def run_duckdb(query: str, model: PortableModel, table: Sequence[str], columns: Given, others: Given) -> Answers:
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


def run_sqlite(query: str, model: PortableModel, table: Sequence[str], columns: Given, others: Given) -> Answers:
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
