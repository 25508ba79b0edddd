"""A table of 50,000 rows × 40 mixed columns with nothing set: seconds, kept columns, and how max_seconds is kept.

Usage: python benchmarks/mixed.py [--rows N] [--task TASK] [--max-seconds S] [--out FILE]
with TASK one of regression, classification, poisson.
"""

import argparse
import json
import os
import resource
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pandas as pd

from sparsenam import SNAMClassifier, SNAMRegressor

TRUE = {"age", "income", "debt", "region", "job", "owner", "months"}


def mixed_table(rows, seed=0):
    """Return 20 numbers, some with holes, 12 categories, 4 booleans and 4 whole numbers, and true scores."""
    generator = np.random.default_rng(seed)
    columns = {f"number_{place}": generator.normal(size=rows) for place in range(17)}
    columns |= {"age": generator.uniform(18, 90, rows), "income": np.exp(generator.normal(10, 0.7, rows))}
    columns |= {"debt": generator.gamma(2.0, 1000.0, rows)}
    sizes = {f"category_{place}": size for place, size in enumerate((3, 4, 5, 8, 12, 20, 30, 50, 100, 6))}
    sizes |= {"region": 12, "job": 60}
    for name, size in sizes.items():
        shares = generator.dirichlet(np.full(size, 2.0))
        columns[name] = np.array([f"{name[0]}{level}" for level in range(size)])[generator.choice(size, rows, p=shares)]
    columns |= {f"flag_{place}": generator.uniform(size=rows) < 0.3 for place in range(3)}
    columns |= {"owner": generator.uniform(size=rows) < 0.6, "months": generator.integers(0, 72, rows)}
    columns |= {f"count_{place}": generator.poisson(3, rows) for place in range(3)}
    table = pd.DataFrame(columns)
    scores = (
        np.sin(table.age / 12)
        + np.log(table.income / 22_000)
        - 0.8 * np.tanh(table.debt / 3000)
        + dict_effect(table.region, generator)
        + dict_effect(table.job, generator)
        + 0.5 * table.owner
        + 0.015 * np.abs(table.months - 36)
    )
    for name in ("number_0", "number_1", "income", "category_3"):
        table.loc[generator.uniform(size=rows) < 0.1, name] = None
    return table, scores.to_numpy(float)


def dict_effect(column, generator):
    return column.map(dict(zip(sorted(column.unique()), 0.5 * generator.normal(size=column.nunique()), strict=True)))


def target_of(task, scores, generator):
    if task == "regression":
        return scores + generator.normal(size=scores.size)
    if task == "poisson":
        return generator.poisson(np.exp(0.4 * scores)).astype(float)
    return (generator.uniform(size=scores.size) < 1 / (1 + np.exp(2.5 - scores))).astype(int)


def main():
    """Fit once and print what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--task", choices=("regression", "classification", "poisson"), default="classification")
    parser.add_argument("--max-seconds", type=float)
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    table, scores = mixed_table(wanted.rows)
    y = target_of(wanted.task, scores, np.random.default_rng(1))
    settings = {"random_state": 0, "max_seconds": wanted.max_seconds}
    if wanted.task == "poisson":
        settings["family"] = "poisson"
    model = (SNAMClassifier if wanted.task == "classification" else SNAMRegressor)(**settings)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(table, y)
    seconds = time.perf_counter() - started
    kept = set(model.get_feature_names_out())
    fitted = model.decision_function(table) if wanted.task == "classification" else model.effects(table).sum(axis=1)
    report = {
        "task": wanted.task,
        "rows": wanted.rows,
        "columns": table.shape[1],
        "max_seconds": wanted.max_seconds,
        "seconds": round(seconds, 2),
        "kept": sorted(kept),
        "missed": sorted(TRUE - kept),
        "false": sorted(kept - TRUE),
        "correlation with the truth": round(float(np.corrcoef(fitted, scores)[0, 1]), 4),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "warnings": [str(each.message) for each in caught],
    }
    print(json.dumps(report, indent=1))
    if wanted.out:
        wanted.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
