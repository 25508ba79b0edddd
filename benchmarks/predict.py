"""CPU time and memory of predict, beside EBM's and beside the network that the knots describe, in one process.

    OMP_NUM_THREADS=1 python benchmarks/predict.py --out benchmarks/results/predict.json

The model is fitted with the defaults; rows of the table to predict are drawn like those of the fit. Times are medians
of this process's CPU time, taken in turns, so that a busy machine slows all of them. Memory is the most that Python
and NumPy held above the input.
"""

import argparse
import json
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from interpret.glassbox import ExplainableBoostingRegressor

from sparsenam import SNAMRegressor

FIT_ROWS, SINGLE_ROWS, NETWORK_ROWS = 20_000, 200, 100_000


def table_of(rows, features, seed):
    generator = np.random.default_rng(seed)
    table = generator.normal(size=(rows, features))
    waves = np.sin(table * (1.0 + np.arange(features) / 10.0))
    return table, waves.sum(axis=1) + 0.1 * generator.normal(size=rows)


def medians(tasks, repeats):
    """Return the median seconds of each task; every round runs all of them once."""
    seconds = {name: [] for name in tasks}
    for task in tasks.values():
        task()
    for _ in range(repeats):
        for name, task in tasks.items():
            started = time.process_time()
            task()
            seconds[name].append(time.process_time() - started)
    return {name: float(np.median(each)) for name, each in seconds.items()}


def most_memory(task):
    """Return the most megabytes that a task holds."""
    tracemalloc.start()
    task()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round(most / 1e6, 1)


def one_by_one(predict, table):
    """Return a task that predicts rows one after the other."""
    rows = [table[row : row + 1] for row in range(SINGLE_ROWS)]

    def task():
        for row in rows:
            predict(row)

    return task


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    names = [f"column {index}" for index in range(wanted.features)]
    table, target = table_of(FIT_ROWS, wanted.features, 0)
    model, named = (SNAMRegressor(random_state=0) for _ in range(2))
    model.fit(table, target)
    named.fit(pd.DataFrame(table, columns=names), target)
    # bags and rounds change how long EBM is fitted, not how long it predicts: it looks up one bin for each feature
    rival, named_rival = (
        ExplainableBoostingRegressor(interactions=0, n_jobs=1, random_state=0, outer_bags=2, max_rounds=200)
        for _ in range(2)
    )
    rival.fit(table, target)
    named_rival.fit(pd.DataFrame(table, columns=names), target)
    rows, _ = table_of(wanted.rows, wanted.features, 1)
    frame, fewer = pd.DataFrame(rows, columns=names), rows[:NETWORK_ROWS]
    fitted = model.model_

    def by_network():
        return fitted.network_effects(model.encoder_.encode(fewer)).sum(axis=1)[:, 0] + fitted.intercept[0]

    long = {
        "numpy": lambda: model.predict(rows),
        "pandas": lambda: named.predict(frame),
        "EBM, numpy": lambda: rival.predict(rows),
        "EBM, pandas": lambda: named_rival.predict(frame),
    }
    seconds = medians(long, wanted.repeats)
    single = medians(
        {
            "numpy": one_by_one(model.predict, rows),
            "pandas": one_by_one(named.predict, frame),
            "EBM, numpy": one_by_one(rival.predict, rows),
        },
        wanted.repeats,
    )
    short = medians({"knots": lambda: model.predict(fewer), "network": by_network}, 3)
    report = {
        "rows": wanted.rows,
        "features": wanted.features,
        "kept": int(fitted.terms.size),
        "knots": int(sum(shape.knots.size for shape in fitted.curves)),
        "CPU milliseconds": {name: round(1e3 * each, 1) for name, each in seconds.items()},
        "megabytes above the input": {name: most_memory(task) for name, task in long.items()},
        "CPU microseconds for one row": {name: round(1e6 * each / SINGLE_ROWS, 1) for name, each in single.items()},
        "network over knots": round(short["network"] / short["knots"], 1),
        "largest difference over range": float(
            np.abs(model.predict(fewer) - by_network()).max() / np.ptp(by_network())
        ),
    }
    print(json.dumps(report, indent=1))
    if wanted.out:
        wanted.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
