"""Time of a default fit with two threads over that with one, alone and beside two busy processes, on eight tables.

    python benchmarks/threads.py [--tables NAME …] [--repeats N] [--out FILE]

The fits of a table take turns in one process, so that a change of the machine meets both; a ratio is the median over
the turns. The busy processes count in a loop and have a session each, as other users of a machine have.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
sys.path.append(str(Path(__file__).parents[1]))  # paper/ is beside this folder

import numpy as np
from bench import machine, our_version, rounded
from mixed import mixed_table, target_of

from paper.data import load_california
from sparsenam import SNAMClassifier, SNAMRegressor

BUSY = "while True: pass"
NEIGHBOURS = 2


def additive(rows, columns, classes=False):
    """Return a table of normal columns, five of which act, and its estimator."""
    generator = np.random.default_rng(rows + columns)
    X = generator.normal(size=(rows, columns))
    scores = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] + X[:, 3] + np.cos(2 * X[:, 4])
    if classes:
        return SNAMClassifier, X, generator.random(rows) < 1 / (1 + np.exp(1 - scores))
    return SNAMRegressor, X, scores + generator.normal(size=rows)


def mixed(rows, task):
    """Return rows of 40 numbers, categories and truth values, with gaps."""
    table, scores = mixed_table(rows)
    estimator = SNAMClassifier if task == "classification" else SNAMRegressor
    return estimator, table, target_of(task, scores, np.random.default_rng(1))


def california():
    data = load_california()
    return SNAMRegressor, data.X, data.y


TABLES = {
    "200 x 10": lambda: additive(200, 10),
    "2000 x 24": lambda: additive(2000, 24),
    "6000 x 40 mixed": lambda: mixed(6000, "regression"),
    "California": california,
    "500 x 5000": lambda: additive(500, 5000),
    "32561 x 40 mixed, classes": lambda: mixed(32_561, "classification"),
    "600000 x 10, classes": lambda: additive(600_000, 10, classes=True),
    "1000000 x 20": lambda: additive(1_000_000, 20),
}


@contextmanager
def neighbours(count):
    """Keep so many processes busy within the block."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def seconds(estimator, X, y, n_jobs):
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator(n_jobs=n_jobs, random_state=0).fit(X, y)
    return time.perf_counter() - started


def turns(table, repeats):
    """Return the medians of seconds with one thread and with two, and of their ratios."""
    seconds(*table, 2)  # loads what a first fit loads
    pairs = []
    for turn in range(repeats):  # who is first changes, since a machine may warm up or slow down
        order = (1, 2) if turn % 2 == 0 else (2, 1)
        found = {n_jobs: seconds(*table, n_jobs) for n_jobs in order}
        pairs.append((found[1], found[2]))
    one, two = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(two / one for one, two in pairs)
    return {"one": one, "two": two, "ratio": ratio}


def measure(names, repeats):
    """Return the figures of each table, alone and beside neighbours."""
    results = {}
    for name in names:
        table = TABLES[name]()
        results[name] = {}
        for kind, count in (("alone", 0), ("beside two busy processes", NEIGHBOURS)):
            with neighbours(count):
                results[name][kind] = rounded(turns(table, repeats))
            print(f"{name}, {kind}: {results[name][kind]}", flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    results = measure(wanted.tables, wanted.repeats)
    if wanted.out is not None:
        record = {"machine": machine(), "version": our_version(), "repeats": wanted.repeats, "tables": results}
        wanted.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
