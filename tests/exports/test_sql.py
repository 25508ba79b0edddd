"""Models as SQL: DuckDB, SQLite and PostgreSQL say what the library says, whatever names, levels and numbers are."""

import math
import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import psycopg
import pytest
import sqlglot

from export_cases import HOSTILE, random_case
from sparsenam.export.portable import (
    PortableAxis,
    PortableColumn,
    PortableCurve,
    PortableLevel,
    PortableModel,
    PortablePair,
    PortableTable,
)
from sparsenam.export.targets.sql_dialects import DIALECTS
from sparsenam.export.targets.sql_query import files, run_duckdb, run_sqlite, scores
from sparsenam.tables.text import number_key
from sql_cases import create_in_postgres, server, why_no_server

NO_SERVER = why_no_server()
needs_server = pytest.mark.skipif(NO_SERVER is not None, reason=NO_SERVER or "")
ENGINES = ["duckdb", "sqlite", pytest.param("postgres", marks=needs_server)]


@pytest.fixture(scope="session")
def postgres():
    if NO_SERVER is not None:
        pytest.skip(NO_SERVER)
    with server() as address, psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET client_min_messages = error")  # names of more than 63 bytes are cut, and said to be
        yield connection


def query_of(model, **options):
    return files(model, Path("model.sql"), options)[Path("model.sql")].decode()


def answers(request, dialect, model, rows, columns="*", **options):
    """Return the columns of the whole query's result, by name; a key that no model reads is the row's number."""
    table = options.setdefault("table", "rows")
    keys = {"id": list(range(len(rows)))}
    given = {column.name: [row[column.name] for row in rows] for column in model.columns}
    query = query_of(model, dialect=dialect, key="id", **options)
    described = sqlglot.parse_one(query, read=dialect).named_selects
    if dialect == "postgres":
        connection = request.getfixturevalue("postgres")
        create_in_postgres(connection, model, rows, table)
        found = connection.execute(f"SELECT * FROM ({query}) AS answer ORDER BY id").fetchall()
        connection.execute(f"DROP TABLE {DIALECTS[dialect].identifier(table)}")
    else:
        run = run_duckdb if dialect == "duckdb" else run_sqlite
        found = run(query, model, [table], given, keys)
    return dict(zip(described, zip(*found, strict=True), strict=True))


def numbers(columns, names):
    """Return columns (rows, names) as numbers, NaN where they are NULL."""
    return np.array([[np.nan if cell is None else cell for cell in columns[name]] for name in names], float).T


def named(columns, start):
    return [name for name in columns if name == start or name.startswith(f"{start}_")]


def assert_same(found, expected):
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    scale = np.maximum(1.0, np.abs(expected))
    assert np.nanmax(np.abs(found - expected) / scale, initial=0.0) <= 1e-12


@pytest.mark.parametrize("seed", range(200))
def test_duckdb_and_sqlite_give_the_scores_of_the_library(seed, tmp_path):
    case = random_case(seed)
    for dialect in ("duckdb", "sqlite"):
        options = {"dialect": dialect, "table": HOSTILE[seed % len(HOSTILE)].replace(".", " ")}
        path = tmp_path / f"{dialect}.sql"
        path.write_bytes(files(case.portable, path, options)[path])
        assert_same(scores(case.portable, path, case.rows, options), case.scores)


@needs_server
@pytest.mark.parametrize("seed", range(100))
def test_postgres_gives_the_scores_and_means_of_the_library(seed, request):
    case = random_case(seed)
    assert_answers(case, answers(request, "postgres", case.portable, case.rows, table="'; DROP TABLE canary; --"))


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
@pytest.mark.parametrize("seed", range(0, 80, 2))
def test_means_probabilities_and_classes_are_those_of_the_library(dialect, seed, request):
    case = random_case(seed, rows=300)
    assert_answers(case, answers(request, dialect, case.portable, case.rows), truth=dialect != "sqlite")


def assert_answers(case, columns, truth=True):
    model = case.portable
    assert_same(numbers(columns, named(columns, "score")), case.scores)
    if model.task not in ("classes", "labels"):
        assert_same(numbers(columns, named(columns, "prediction")), case.means)
        return
    found = numbers(columns, named(columns, "probability"))
    means = case.means if case.means.shape[1] > 1 else np.hstack([1.0 - case.means, case.means])
    assert np.allclose(found, means, rtol=0.0, atol=1e-12, equal_nan=True)
    if model.task == "labels":
        chosen = numbers(columns, named(columns, "prediction"))
        assert np.array_equal(chosen, np.where(np.isnan(means), np.nan, means > 0.5), equal_nan=True)
        return
    labels = [None if np.isnan(row).any() else model.classes[int(np.argmax(row))] for row in means]
    assert list(columns["prediction"]) == labels
    if truth:
        kinds = {type(label) for label in columns["prediction"] if label is not None}
        assert kinds <= {type(label) for label in model.classes}


def small_model(names=("age", "city"), **changes):
    curve = PortableCurve(0, (0.0, 1.0), (0.0, 0.0, 1.0), ((0.0, 2.0, 0.5),), ((1.0, 1.0, 3.0),), (0.25,))
    table = PortableTable(1, "level", ((-1.0,), (4.0,), (7.0,)), (0.5,))
    gap = PortableTable(0, "missing", ((0.0,), (10.0,)), (0.0,))
    axes = (PortableAxis(0, "number", (0.0, 0.5, 2.0)), PortableAxis(1, "level", (0.0, 1.0, 2.0)))
    pair = PortablePair(axes, tuple(tuple((float(3 * i - j),) for j in range(4)) for i in range(4)))
    levels = (PortableLevel("a", None, 0), PortableLevel("2", 2.0, 1), PortableLevel("05", None, 2))
    columns = (PortableColumn(names[0], "number"), PortableColumn(names[1], "category", levels))
    model = {
        "task": "regression",
        "family": "gaussian",
        "link": "identity",
        "outputs": ("y",),
        "classes": (),
        "intercept": (100.0,),
        "columns": columns,
        "terms": (curve, gap, table),
        "pairs": (pair,),
    }
    return PortableModel(**model | changes)


@pytest.mark.parametrize("dialect", ENGINES)
def test_effects_are_those_of_columns_and_pairs_and_add_up_to_the_score(dialect, request):
    rows = [{"age": age, "city": city} for age in (None, -1.0, 0.0, 0.25, 1.0, 9.0) for city in (None, "a", "2", "z")]
    columns = answers(request, dialect, small_model(), rows)
    assert list(columns) == ["id", "effect_age", "effect_city", "effect_age x city", "score", "prediction"]
    parts = numbers(columns, list(columns)[1:4])
    assert np.allclose(parts.sum(axis=1) + 100.0, columns["score"])
    by_age = dict(zip([row["age"] for row in rows], columns["effect_age"], strict=True))
    assert by_age == {None: 10.25, -1.0: 1.0, 0.0: 1.0, 0.25: 1.5, 1.0: 3.0, 9.0: 7.0}
    by_city = dict(zip([row["city"] for row in rows], columns["effect_city"], strict=True))
    assert by_city == {None: 0.5, "a": -1.0, "2": 4.0, "z": 0.5}
    assert list(answers(request, dialect, small_model(), rows, effects=False)) == ["id", "score", "prediction"]


@pytest.mark.parametrize("dialect", ENGINES)
def test_levels_are_found_as_text_and_as_numbers_and_missing_texts_are_missing(dialect, request):
    model = small_model(terms=small_model().terms[2:], pairs=())
    texts = {"a": -1.0, " a": -1.0, "A": 0.5, "2": 4.0, "2.0": 4.0, "+2e0": 4.0, " 2\t": 4.0, "02": 0.5, "05": 7.0}
    texts |= {"5": 0.5, "0x2": 0.5, "2_0": 0.5, " NA\n": 0.5, "": 0.5, "1e999": 0.5, "true": 0.5, "2.": 4.0}
    found = answers(request, dialect, model, [{"city": text} | {"age": 0.0} for text in texts])
    assert dict(zip(texts, found["effect_city"], strict=True)) == texts
    stored = answers(request, dialect, model, [{"city": value, "age": 0.0} for value in (2.0, 5.0, 3.5, None)])
    assert list(stored["effect_city"]) == [4.0, 0.5, 0.5, 0.5]


@pytest.mark.parametrize("dialect", ENGINES)
def test_texts_of_large_whole_numbers_are_the_levels_of_the_nearest_doubles(dialect, request):
    wholes = [
        sign * (2**power + step) for power in (53, 54, 60, 62, 63, 64) for step in (-1, 1, 2, 3) for sign in (1, -1)
    ]
    texts = [
        *map(str, wholes),
        *(f" +{whole}.0 " for whole in wholes if whole > 0),
        "9007199254740993x",
        "12345678901234567890",
    ]
    known = list(dict.fromkeys(float(whole) for whole in wholes))
    levels = tuple(PortableLevel(number_key(number), number, code) for code, number in enumerate(known))
    table = PortableTable(1, "level", tuple((float(code),) for code in range(len(known))), (-1.0,))
    columns = (PortableColumn("age", "number"), PortableColumn("city", "category", levels))
    model = small_model(columns=columns, terms=(table,), pairs=())
    found = answers(request, dialect, model, [{"city": text, "age": 0.0} for text in texts])
    expected = [-1.0 if text.endswith(("x", "890")) else float(known.index(float(text))) for text in texts]
    assert dict(zip(texts, found["effect_city"], strict=True)) == dict(zip(texts, expected, strict=True))


@pytest.mark.parametrize("dialect", ENGINES)
def test_a_missing_text_is_missing_and_an_unseen_level_is_not(dialect, request):
    model = small_model(terms=(PortableTable(1, "missing", ((0.0,), (1.0,)), (0.0,)),), pairs=())
    rows = [{"city": city, "age": 0.0} for city in (None, "NA", " null ", "-", "unseen", "2", "a")]
    assert list(answers(request, dialect, model, rows)["effect_city"]) == [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("dialect", ENGINES)
def test_truth_values_are_levels_and_their_words_in_small_letters_are_not(dialect, request):
    levels = (PortableLevel("False", None, 0), PortableLevel("True", None, 1), PortableLevel("maybe", None, 2))
    columns = (PortableColumn("age", "number"), PortableColumn("city", "category", levels, 0, 1))
    model = small_model(columns=columns, terms=small_model().terms[2:], pairs=())
    for cells, expected in (((False, True, None), [-1.0, 4.0, 0.5]), (("True", "true", "maybe"), [4.0, 0.5, 7.0])):
        found = answers(request, dialect, model, [{"city": cell, "age": 0.0} for cell in cells])
        assert list(found["effect_city"]) == expected


@pytest.mark.parametrize("dialect", ENGINES)
@pytest.mark.parametrize(
    "names", [("score", "prediction"), ("effect_city", "city"), ("id_2", "effect_ID_2"), ("x" * 62, "y" * 300)]
)
def test_aliases_differ_from_the_columns_of_the_table_and_from_each_other(dialect, names, request):
    rows = [{names[0]: 0.25, names[1]: "a"}]
    columns = answers(request, dialect, small_model(names), rows)
    assert len(columns) == 6
    folded = {name.encode()[: DIALECTS[dialect].longest_name].decode().casefold() for name in [*columns, *names]}
    assert len(folded) == 8
    assert numbers(columns, [list(columns)[4]])[0] == pytest.approx(100.5 + 1.5)


@pytest.mark.parametrize("dialect", ENGINES)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_levels_and_tables_are_text_and_nothing_is_run(dialect, name, request):
    if dialect == "postgres":
        connection = request.getfixturevalue("postgres")
        connection.execute("CREATE TEMPORARY TABLE IF NOT EXISTS canary (x INTEGER)")
    texts = (f"level {name}", f"{name}'; DROP TABLE canary; --", f"{name}\\")
    levels = tuple(PortableLevel(text.strip(), None, 0) for text in texts)  # those of a fit have no blanks around them
    columns = (PortableColumn(f"1 {name}", "number"), PortableColumn(f'2" FROM canary; -- {name}', "category", levels))
    table = f'{name}"; DROP TABLE canary; --'.replace(".", "")[:40]
    model = small_model(columns=columns, classes=(f"{name}1", f"{name}2"), task="classes", link="logit", pairs=())
    rows = [{columns[0].name: 0.25, columns[1].name: f" {level.text}\t"} for level in levels]
    found = answers(request, dialect, model, rows, table=table)
    assert list(found["prediction"]) == [f"{name}2"] * 3
    assert numbers(found, named(found, "score"))[:, 0] == pytest.approx([100.0 + 1.5 - 1.0] * 3)
    if dialect == "postgres":
        assert connection.execute("SELECT count(*) FROM canary").fetchone() == (0,)


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_a_query_leaves_other_tables_as_they_are(dialect):
    connection = duckdb.connect() if dialect == "duckdb" else sqlite3.connect(":memory:")
    hostile = 'rows"; DROP TABLE canary; --'
    name = DIALECTS[dialect].identifier(hostile)
    connection.execute("CREATE TABLE canary (x INTEGER)")
    connection.execute(f"CREATE TABLE {name} (age DOUBLE, city TEXT)")
    connection.execute(f"INSERT INTO {name} VALUES (0.25, '''; DROP TABLE canary; --')")
    assert len(connection.execute(query_of(small_model(), dialect=dialect, table=hostile)).fetchall()) == 1
    assert connection.execute("SELECT count(*) FROM canary").fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize("dialect", ENGINES)
def test_numbers_near_the_ends_of_their_range_are_no_errors(dialect, request):
    curve = PortableCurve(0, (0.0,), (0.0, 0.0), ((1e3, 1e-20),), ((0.0, 0.0),), (0.0,))
    model = small_model(terms=(curve,), intercept=(0.0,))
    ends = [5e-324, -5e-324, 1e-310, 2.3e-308, 1e-200, -1e-200, 1e300, -1e306, 1.79e308, -1.79e308, math.inf, -math.inf]
    found = answers(request, dialect, model, [{"age": end, "city": "a"} for end in ends])
    assert list(found["score"][:2]) == pytest.approx([found["effect_age x city"][0]] * 2)
    assert found["score"][6] == pytest.approx(1e280)
    assert list(found["score"][7:]) == [None] * 5
    for link, task in (("log", "regression"), ("logit", "classes")):
        steep = small_model(terms=(curve,), pairs=(), link=link, task=task, classes=("no", "yes") * (task == "classes"))
        means = answers(request, dialect, steep, [{"age": end, "city": "a"} for end in (-1e10, 1e30, 0.0)])
        assert not np.isnan(numbers(means, [name for name in means if name != "prediction" or link == "log"])).any()


@pytest.mark.parametrize("dialect", ENGINES)
def test_nan_is_missing(dialect, request):
    found = answers(request, dialect, small_model(), [{"age": math.nan, "city": "a"}, {"age": None, "city": "a"}])
    assert found["score"][0] == found["score"][1] is not None


@pytest.mark.parametrize("dialect", ENGINES)
def test_literals_are_read_as_the_same_doubles(dialect, request):
    generator = np.random.default_rng(5)
    values = [
        *generator.standard_normal(300),
        *generator.standard_normal(300) * 1e5,
        *generator.standard_normal(300) / 1e8,
    ]
    values += [0.1, 1e22, 2.0**53, 1 / 3, -0.5]
    if dialect != "sqlite":  # whose older versions read some numbers of large exponents as neighbours
        values += [
            5e-324,
            1.7976931348623157e308,
            *(generator.standard_normal(100) * 10.0 ** generator.integers(-290, 290, 100)),
        ]
    listed = ", ".join(DIALECTS[dialect].number(float(value)) for value in values)
    if dialect == "duckdb":
        read = duckdb.connect().execute(f"SELECT {listed}").fetchone()
    elif dialect == "sqlite":
        read = sqlite3.connect(":memory:").execute(f"SELECT {listed}").fetchone()
    else:
        read = request.getfixturevalue("postgres").execute(f"SELECT {listed}").fetchone()
    assert list(read) == [float(value) for value in values]
