"""How many rows a second SQL engines score: 10 curves of 30 knots, numeric columns of a table in memory.

python benchmarks/export_speed_sql.py --out benchmarks/results/export_speed_sql.json
"""

import argparse
import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np

from sparsenam.export.portable import PortableColumn, PortableCurve, PortableModel
from sparsenam.export.targets.sql_query import files

COLUMNS, KNOTS, REPEATS = 10, 30, 5


def model_of(generator: np.random.Generator) -> PortableModel:
    """Return a model of curves at random."""
    terms = []
    for column in range(COLUMNS):
        knots = tuple(np.sort(generator.standard_normal(KNOTS)).tolist())
        slopes, bases = (tuple(line) for line in generator.standard_normal((2, KNOTS + 1)).tolist())
        terms.append(PortableCurve(column, knots, (knots[0], *knots), (slopes,), (bases,), (0.0,)))
    columns = tuple(PortableColumn(f"x{column}", "number") for column in range(COLUMNS))
    return PortableModel("regression", "gaussian", "identity", ("y",), (), (0.0,), columns, tuple(terms))


def query_of(model: PortableModel, dialect: str) -> str:
    """Return a query that scores all rows and adds the scores up, so that no time goes into fetching them."""
    query = files(model, Path("model.sql"), {"dialect": dialect, "effects": False})[Path("model.sql")].decode()
    return f"SELECT sum(prediction) FROM ({query}) AS answer"


def timed(execute, rows: int) -> dict[str, float]:
    """Return rows a second by the clock and by processor time, of the fastest run."""
    clock, busy = [], []
    for _ in range(REPEATS):
        start, used = time.perf_counter(), time.process_time()
        execute()
        clock.append(time.perf_counter() - start)
        busy.append(time.process_time() - used)
    return {"rows": rows, "rows_a_second": rows / min(clock), "rows_a_processor_second": rows / min(busy)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    model = model_of(generator)
    table = generator.standard_normal((arguments.rows, COLUMNS))
    names = [column.name for column in model.columns]
    results = {"columns": COLUMNS, "knots": KNOTS, "threads": arguments.threads, "engines": {}}
    with closing(duckdb.connect(config={"threads": arguments.threads})) as connection:
        for index, name in enumerate(names):
            connection.register(f"given_{name}", {name: np.ascontiguousarray(table[:, index])})
        joined = " POSITIONAL JOIN ".join(f"given_{name}" for name in names)
        connection.execute(f"CREATE TABLE rows AS SELECT * FROM {joined}")
        query = query_of(model, "duckdb")
        found = timed(lambda: connection.execute(query).fetchall(), arguments.rows)
        results["engines"][f"duckdb {duckdb.__version__}"] = found
    few = table[: arguments.rows // 10]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE rows ({', '.join(f'{name} REAL' for name in names)})")
        connection.executemany(f"INSERT INTO rows VALUES ({', '.join('?' for _ in names)})", few.tolist())
        query = query_of(model, "sqlite")
        found = timed(lambda: connection.execute(query).fetchall(), len(few))
        results["engines"][f"sqlite {sqlite3.sqlite_version}"] = found
    text = json.dumps(results, indent=2)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
