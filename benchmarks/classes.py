"""Many classes: seconds and memory of a fit with nothing set, beside what it says that it will take.

Usage: python benchmarks/classes.py [--only NAME] [--max-seconds S] [--out FILE]
with NAME one of digits, clear50, clear100, clear200, weak50, weak100, weak200. Each fit has a process to itself.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from sparsenam import SNAMClassifier
from sparsenam.estimators.classification import BYTES_PER_ROW, SECONDS_PER_CELL


def clear(classes, rows=2000, columns=10):
    """Return classes of the same size about centres that half of the columns know of."""
    generator = np.random.default_rng(0)
    y = generator.integers(0, classes, rows)
    centres = 1.5 * generator.normal(size=(classes, columns))
    centres[:, columns // 2 :] = 0.0
    return pd.DataFrame(centres[y] + generator.normal(size=(rows, columns))).add_prefix("x"), y


def weak(classes, rows=4000, columns=20):
    """Return classes of very different sizes, skewed columns that say little of them, and a category."""
    generator = np.random.default_rng(0)
    y = generator.choice(classes, rows, p=generator.dirichlet(np.ones(classes)))
    centres = 0.75 * generator.normal(size=(classes, columns))
    centres[:, columns // 2 :] = 0.0
    X = pd.DataFrame(np.exp(0.5 * (centres[y] + generator.normal(size=(rows, columns))))).add_prefix("x")
    X["category"] = np.array(list("abcdefgh"))[(y + generator.integers(0, 6, rows)) % 8]
    return X, y


TABLES = {"digits": partial(load_digits, return_X_y=True, as_frame=True)}
for make in (clear, weak):
    TABLES |= {f"{make.__name__}{count}": partial(make, count) for count in (50, 100, 200)}


def measured(name, max_seconds):
    """Return what a fit of one table takes."""
    X, y = TABLES[name]()
    rows, columns, classes = *X.shape, np.unique(y).size
    before, started, wall = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time(), time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SNAMClassifier(random_state=0, max_seconds=max_seconds).fit(X, y)
    return {
        "table": name,
        "rows": rows,
        "columns": columns,
        "classes": classes,
        "max_seconds": max_seconds,
        "cpu_seconds": round(time.process_time() - started, 1),
        "seconds": round(time.perf_counter() - wall, 1),
        "expected_seconds": round(SECONDS_PER_CELL * rows * columns * classes, 1),
        "megabytes": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024),
        "expected_megabytes": round(BYTES_PER_ROW * rows * classes / 1e6),
        "kept": len(model.get_feature_names_out()),
        "accuracy_on_its_rows": round(float(np.mean(model.predict(X) == y)), 3),
        "warnings": [str(each.message) for each in caught],
    }


def main():
    """Measure one table, or each in a process to itself."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=tuple(TABLES))
    parser.add_argument("--max-seconds", type=float)
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    if wanted.only:
        print(json.dumps(measured(wanted.only, wanted.max_seconds)))
        return
    found = []
    for name in TABLES:
        limit = [] if wanted.max_seconds is None else ["--max-seconds", str(wanted.max_seconds)]
        done = subprocess.run([sys.executable, __file__, "--only", name, *limit], stdout=subprocess.PIPE, check=True)
        found.append(json.loads(done.stdout))
        print(json.dumps(found[-1]), flush=True)
        if wanted.out:
            wanted.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
