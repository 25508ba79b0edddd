"""SQL: large models, types of columns, options, and what is refused."""

import sqlite3
import sys

import duckdb
import numpy as np
import pandas as pd
import pytest
import sqlglot

from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.export.exporting import write_export
from sparsenam.export.portable import (
    ExportError,
    PortableColumn,
    PortableCurve,
    PortableLevel,
    PortableModel,
    PortableTable,
)
from sparsenam.export.targets.sql_dialects import DIALECTS
from sparsenam.export.targets.sql_query import files, scores
from sql_cases import create_in_postgres, server, why_no_server

NO_SERVER = why_no_server()
needs_server = pytest.mark.skipif(NO_SERVER is not None, reason=NO_SERVER or "")


def random_model(curves, knots, levels, seed=0):
    """Return a model of so many curves with so many knots each, and a category of so many levels."""
    generator = np.random.default_rng(seed)
    columns = [PortableColumn(f"x{index}", "number") for index in range(curves)]
    columns.append(PortableColumn("city", "category", tuple(PortableLevel(f"c {k}", None, k) for k in range(levels))))
    terms = []
    for index in range(curves):
        places = np.sort(generator.standard_normal(knots)).tolist()
        slopes, bases = generator.standard_normal((2, knots + 1)).tolist()
        anchors = (places[0], *places)
        terms.append(PortableCurve(index, tuple(places), anchors, (tuple(slopes),), (tuple(bases),), (0.5,)))
    values = tuple((float(value),) for value in generator.standard_normal(levels))
    terms.append(PortableTable(curves, "level", values, (0.25,)))
    return PortableModel("regression", "gaussian", "identity", ("y",), (), (0.125,), tuple(columns), tuple(terms))


def by_numpy(model, rows):
    """Return the scores of rows of a model of curves and one table."""
    total = np.zeros(len(rows))
    for term in model.terms[:-1]:
        x = np.array([row[f"x{term.column}"] for row in rows])
        piece = np.searchsorted(term.knots, x, side="right")
        total += np.array(term.slopes[0])[piece] * (x - np.array(term.anchors)[piece]) + np.array(term.bases[0])[piece]
    codes = [int(row["city"][2:]) for row in rows]
    values = model.terms[-1].values
    return total + [values[code][0] if code < len(values) else 0.25 for code in codes] + model.intercept[0]


def random_rows(model, count=50):
    generator = np.random.default_rng(7)
    levels = len(model.columns[-1].levels)
    rows = [{f"x{k}": float(generator.standard_normal()) for k in range(len(model.columns) - 1)} for _ in range(count)]
    for row in rows:
        row |= {"city": f"c {generator.integers(0, levels + 2)}", "x0": float(generator.choice(model.terms[0].knots))}
    return rows


SIZES = [(1, 1000, 512), (200, 30, 512), (20, 1000, 3), (500, 2, 3)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_many_knots_columns_and_levels_are_within_the_limits_of_the_engine(size, dialect, tmp_path):
    model = random_model(*size)
    rows, path = random_rows(model), tmp_path / "model.sql"
    write_export(model, path, None, {"dialect": dialect})
    assert np.array_equal(scores(model, path, rows, {"dialect": dialect})[:, 0], by_numpy(model, rows))


@needs_server
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_many_knots_columns_and_levels_are_within_the_limits_of_postgres(size, tmp_path):
    import psycopg

    model = random_model(*size)
    rows, path = random_rows(model), tmp_path / "model.sql"
    query = files(model, path, {"dialect": "postgres", "key": "id", "effects": False})[path].decode()
    with server() as address, psycopg.connect(address) as connection:
        create_in_postgres(connection, model, rows, "rows")
        found = connection.execute(f"SELECT score FROM ({query}) AS answer ORDER BY id").fetchall()
    assert np.array_equal(np.array(found)[:, 0], by_numpy(model, rows))


def test_more_columns_than_an_engine_takes_are_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(ExportError, match="expected a query of at most 1600 columns for postgres, got 3201"):
        write_export(random_model(1600, 1, 3), tmp_path / "model.sql", None, {"dialect": "postgres"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dialect": "oracle"}, r"dialect: expected one of \['duckdb', 'postgres', 'sqlite'"),
        ({"dialect": ["duckdb"]}, "dialect: expected one of"),
        (
            {"tabel": "x"},
            r"expected options among \['dialect', 'table', 'key', 'effects'\], got the option\(s\) \['tabel'\]",
        ),
        ({"table": ""}, "table: expected names that SQL can quote, got ''"),
        ({"table": "a..b"}, "table: expected names that SQL can quote, got ''"),
        ({"table": "a.b.c.d"}, "table: expected a name of one to three parts"),
        ({"table": "a\0b"}, "table: expected names that SQL can quote"),
        ({"key": ["id", "id"]}, "key: expected columns that differ"),
        ({"key": [3]}, "key: expected names that SQL can quote, got 3"),
        ({"key": "X0"}, "expected columns whose names differ, got 'x0' and 'X0', which are one name in duckdb"),
        ({"effects": "yes"}, "effects: expected True or False, got 'yes'"),
    ],
)
def test_wrong_options_are_one_sentence_and_nothing_is_written(options, message, tmp_path):
    with pytest.raises(ExportError, match=message):
        write_export(random_model(1, 3, 2), tmp_path / "model.sql", None, options)
    assert list(tmp_path.iterdir()) == []


def test_names_that_postgres_would_cut_to_one_are_refused():
    columns = tuple(PortableColumn("x" * 63 + end, "number") for end in "ab")
    terms = tuple(PortableCurve(k, (), (0.0,), ((1.0,),), ((0.0,),), (0.0,)) for k in (0, 1))
    model = PortableModel("regression", "gaussian", "identity", ("y",), (), (0.0,), columns, terms)
    with pytest.raises(ExportError, match="which are one name in postgres"):
        files(model, None, {"dialect": "postgres"})
    files(model, None, {"dialect": "duckdb"})


def test_a_level_with_a_nul_is_refused():
    column = PortableColumn("city", "category", (PortableLevel("a\0", None, 0),))
    table = PortableTable(0, "level", ((1.0,),), (0.0,))
    model = PortableModel("regression", "gaussian", "identity", ("y",), (), (0.0,), (column,), (table,))
    with pytest.raises(ExportError, match="expected levels and classes that SQL can write"):
        files(model, None, {})


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_every_dialect_is_syntax_that_its_parser_reads_and_says_whether_it_was_run(dialect, tmp_path):
    path = tmp_path / "model.sql"
    write_export(random_model(2, 20, 20), path, None, {"dialect": dialect, "table": "a.b", "key": "id"})
    text = path.read_text(encoding="utf-8")
    assert len(sqlglot.parse(text, read=dialect)) == 1
    assert ("no test has run it" in text) == (dialect not in ("duckdb", "postgres", "sqlite"))


@pytest.mark.parametrize("dialect", ["postgres", "bigquery", "snowflake", "tsql", "spark"])
def test_a_check_names_the_engine_that_it_cannot_run(dialect, tmp_path):
    model, path = random_model(1, 3, 2), tmp_path / "model.sql"
    write_export(model, path, None, {"dialect": dialect})
    with pytest.raises(ExportError, match=f"expected SQL for duckdb or sqlite, got SQL for {dialect}"):
        scores(model, path, random_rows(model), {"dialect": dialect})


def test_a_check_without_duckdb_says_how_to_get_it(tmp_path, monkeypatch):
    model, path = random_model(1, 3, 2), tmp_path / "model.sql"
    write_export(model, path, None, {})
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ExportError, match="expected the engine DuckDB"):
        scores(model, path, random_rows(model), {})


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
@pytest.mark.parametrize("table", ["shop.orders", ["shop", "a.b"], "plain"])
def test_schemas_and_keys_are_quoted_part_by_part(dialect, table, tmp_path):
    model, path = random_model(2, 5, 3), tmp_path / "model.sql"
    options = {"dialect": dialect, "table": table, "key": ["id", "x1"]}
    write_export(model, path, None, options)
    rows = random_rows(model)
    assert np.array_equal(scores(model, path, rows, options)[:, 0], by_numpy(model, rows))


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    X = pd.DataFrame({"age": generator.uniform(20, 80, 300), "city": generator.choice(["a", "b", "c"], 300)})
    X["since"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 900, 300), "D")
    X["member"] = generator.random(300) < 0.5
    X.loc[::9, "age"] = np.nan
    days = (X["since"] - X["since"].min()).dt.days
    y = np.sin(X["age"].fillna(50) / 9) + (X["city"] == "a") + 2 * X["member"] + days / 300
    return X, y + 0.1 * generator.standard_normal(300)


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_a_fitted_model_agrees_with_its_query_on_a_table_of_dates_and_truth_values(table, dialect, tmp_path):
    X, y = table
    path = tmp_path / "model.sql"
    for model in (SNAMRegressor(random_state=0).fit(X, y), SNAMClassifier(random_state=0).fit(X, y > y.mean())):
        model.export(path, dialect=dialect, table="people")
        assert model.export_difference(path, X, dialect=dialect, table="people") <= 1e-12


def test_duckdb_reads_the_table_of_pandas_itself(table, tmp_path):
    X, y = table
    model = SNAMRegressor(random_state=0).fit(X, y)
    [path] = model.export(tmp_path / "model.sql", table="people")
    connection = duckdb.connect()
    connection.register("people", X)
    found = connection.execute(f"SELECT prediction FROM ({path.read_text(encoding='utf-8')})").fetchnumpy()[
        "prediction"
    ]
    assert np.array_equal(found, model.predict(X))
    connection.close()


def date_model(kind="date"):
    curve = PortableCurve(0, (), (0.0,), ((1.0,),), ((0.0,),), (-1.0,))
    return PortableModel(
        "regression", "gaussian", "identity", ("y",), (), (0.0,), (PortableColumn("t", kind),), (curve,)
    )


DAY = 18262.0  # 2020-01-01


@pytest.mark.parametrize(
    ("kind", "cell", "expected"),
    [
        ("date", "DATE '2020-01-01'", DAY),
        ("date", "TIMESTAMP '2020-01-01 12:00:00.000001'", DAY + 43_200_000_001 / 86_400_000_000),
        ("date", "TIMESTAMPTZ '2020-01-01 12:00:00+06:00'", DAY + 0.25),
        ("date", "CAST(NULL AS DATE)", -1.0),
        ("date", "TIMESTAMP 'infinity'", None),
        ("duration", "INTERVAL '1 day 2.5 seconds'", 86_402.5),
    ],
)
@pytest.mark.parametrize("dialect", ["duckdb", pytest.param("postgres", marks=needs_server)])
def test_dates_are_days_and_intervals_are_seconds(kind, cell, expected, dialect):
    query = files(date_model(kind), None, {"dialect": dialect})[None].decode()
    if dialect == "duckdb":
        connection = duckdb.connect()
        connection.execute(f"CREATE TABLE rows AS SELECT {cell} AS t")
        assert connection.execute(query).fetchone()[1] == expected
        connection.close()
        return
    import psycopg

    with server() as address, psycopg.connect(address) as connection:
        connection.execute(f"CREATE TABLE rows AS SELECT {cell} AS t")
        assert connection.execute(query).fetchone()[1] == expected


@pytest.mark.parametrize(
    ("kind", "cell", "expected"),
    [
        ("date", "'2020-01-01'", DAY),
        ("date", "'2020-01-01T06:00:00.500'", DAY + 21_600_500 / 86_400_000),
        ("date", "' NA '", -1.0),
        ("date", "'yesterday'", None),
        ("date", "2458849.5", None),
        ("number", "'12'", None),
        ("number", "12", 12.0),
        ("number", "'NA'", -1.0),
        ("number", "9e999", None),
        ("duration", "2.5", 2.5),
    ],
)
def test_sqlite_answers_null_for_cells_of_the_wrong_type(kind, cell, expected):
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE TABLE rows AS SELECT {cell} AS t")
    assert (
        connection.execute(files(date_model(kind), None, {"dialect": "sqlite"})[None].decode()).fetchone()[1]
        == expected
    )
    connection.close()


def test_sqlite_says_that_a_column_is_not_there_rather_than_reading_its_name_as_text():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE rows (u REAL)")
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        connection.execute(files(date_model(), None, {"dialect": "sqlite"})[None].decode())
    connection.close()
