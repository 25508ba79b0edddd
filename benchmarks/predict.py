"""Time of predict: by knots, by the network that they describe, and by EBM, in one process.

    OMP_NUM_THREADS=1 python benchmarks/predict.py --out benchmarks/results/predict.json

The model is fitted with the defaults; rows of the table to predict are drawn like those of the fit. Times are
medians, taken in turns, so that a busy machine slows all of them.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from interpret.glassbox import ExplainableBoostingRegressor

from sparsenam import SNAMRegressor

FIT_ROWS = 3000


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
            started = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - started)
    return {name: float(np.median(own)) for name, own in seconds.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    table, target = table_of(FIT_ROWS, wanted.features, 0)
    model = SNAMRegressor(random_state=0).fit(table, target)
    # bags and rounds change how long EBM is fitted, not how long it predicts: it looks up one bin for each feature
    rival = ExplainableBoostingRegressor(interactions=0, n_jobs=1, random_state=0, outer_bags=2, max_rounds=200)
    rival.fit(table, target)
    rows, _ = table_of(wanted.rows, wanted.features, 1)
    fitted = model.model_

    def by_network():
        encoded = model.encoder_.encode(rows)
        return fitted.network_effects(encoded).sum(axis=1)[:, 0] + fitted.intercept[0]

    seconds = medians(
        {"knots": lambda: model.predict(rows), "network": by_network, "ebm": lambda: rival.predict(rows)},
        wanted.repeats,
    )
    away = np.abs(model.predict(rows) - by_network()).max() / np.ptp(by_network())
    report = {
        "rows": wanted.rows,
        "features": wanted.features,
        "kept": int(fitted.terms.size),
        "knots": int(sum(shape.knots.size for shape in fitted.shapes())),
        "milliseconds": {name: round(1e3 * own, 1) for name, own in seconds.items()},
        "network over knots": round(seconds["network"] / seconds["knots"], 1),
        "ebm over knots": round(seconds["ebm"] / seconds["knots"], 2),
        "largest difference over range": float(away),
    }
    print(json.dumps(report, indent=1))
    if wanted.out:
        wanted.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
