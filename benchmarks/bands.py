"""Bands beside the truth: how often limits cover curves, pointwise and as a whole, after columns were chosen.

python benchmarks/bands.py TABLE [--rows 500 3000] [--repeats 100] [--first-seed 0] [--out JSON]

Four columns matter, sixteen do not. Coverage is counted over the kept columns of the four: pointwise over the training
rows, as a whole over 200 points from the 2.5 % to the 97.5 % quantile. Fits whose bands are refused or approximate are
counted apart.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.uncertainty.effects import BandsRefusedError

SHAPES: list[Callable[[Any], Any]] = [
    lambda x: 2 * x**2 * np.tanh(x) / 3.6,
    lambda x: (np.sin(x) * np.cos(x) + x**2) / 1.45,
    lambda x: 20 / (1 + np.exp(-5 * np.sin(x))) / 8.6,
    lambda x: (20 * np.sin(2 * x) ** 3 - 6 * np.cos(x) + x**2) / 13.0,
]
SIZES = np.array([3.6, 1.45, 8.6, 13.0])  # of the paper's effects
NOISE_COLUMNS = 16
# sizes of the four effects, family, correlation between neighbours
TABLES = {
    "gaussian": (SIZES, "gaussian", 0.0),
    "gaussian_ar7": (SIZES, "gaussian", 0.7),
    "mild": (np.full(4, 0.4), "gaussian", 0.0),
    "mild_ar7": (np.full(4, 0.4), "gaussian", 0.7),
    "weak": (np.array([0.15, 0.4, 0.4, 0.4]), "gaussian", 0.0),
    "poisson": (np.full(4, 0.4), "poisson", 0.0),
    "gamma": (np.full(4, 0.4), "gamma", 0.0),
    "logistic": (np.full(4, 1.0), "binomial", 0.0),
    "paper": (SIZES, "binomial", 0.0),
}


def make(table: str, rows: int, seed: int) -> tuple[Any, Any, Any, str]:
    """Return X, y, the four functions' sizes and the family's name."""
    sizes, family, correlation = TABLES[table]
    generator = np.random.default_rng([seed, rows, len(table)])
    p = 4 + NOISE_COLUMNS
    X = generator.standard_normal((rows, p))
    for j in range(1, p):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
    score = sum(size * f(X[:, j]) for j, (size, f) in enumerate(zip(sizes, SHAPES, strict=True)))
    centred = score - score.mean()
    if family == "gaussian":
        return X, score + generator.standard_normal(rows), sizes, family
    if family == "binomial":
        chance = 1 / (1 + np.exp(-(score if table == "paper" else centred)))
        return X, (generator.random(rows) < chance).astype(int), sizes, family
    mean = np.exp(centred + 0.5)
    if family == "gamma":
        return X, mean * generator.gamma(2.0, 0.5, rows), sizes, family
    return X, generator.poisson(mean).astype(float), sizes, family


def one(table: str, rows: int, seed: int) -> dict[str, Any]:
    """Return the coverage of one fit's bands."""
    X, y, sizes, family = make(table, rows, seed)
    model: Any = (
        SNAMClassifier(random_state=0)
        if family == "binomial"
        else SNAMRegressor(random_state=0, **({} if family == "gaussian" else {"family": family}))
    )
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    record: dict[str, Any] = {"seconds": time.perf_counter() - started, "information": model.bands_.information}
    record |= {"verdict": model.bands_.verdict, "pointwise": [], "whole": [], "width": [], "weak": []}
    try:
        points = model.effect_bands(X)
    except BandsRefusedError:
        return record
    grid = np.zeros((200, X.shape[1]))
    levels = np.linspace(0.025, 0.975, 200)
    for j in range(4):
        if not model.get_support()[j]:
            continue
        truth = sizes[j] * SHAPES[j](X[:, j])
        grid[:, j] = np.quantile(X[:, j], levels)
        whole = model.effect_bands(grid, simultaneous=True)
        there = sizes[j] * SHAPES[j](grid[:, j]) - truth.mean()
        inside = (points.lower[:, j] <= truth - truth.mean()) & (truth - truth.mean() <= points.upper[:, j])
        record["pointwise"].append(float(inside.mean()))
        record["whole"].append(bool(((whole.lower[:, j] <= there) & (there <= whole.upper[:, j])).all()))
        record["width"].append(float((points.upper[:, j] - points.lower[:, j]).mean()))
        record["weak"].append(bool(sizes[j] == 0.15))
    return record


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means over repeats, for each verdict."""
    found: dict[str, Any] = {}
    for verdict in ("shown", "approximate", "refused"):
        those = [record for record in records if record["verdict"] == verdict]
        if not those:
            continue
        found[verdict] = {"fits": len(those), "information": float(np.mean([r["information"] for r in those]))}
        points = [value for record in those for value in record["pointwise"]]
        if points:
            per_fit = [np.mean(record["pointwise"]) for record in those if record["pointwise"]]
            whole = [value for record in those for value in record["whole"]]
            found[verdict] |= {
                "curves": len(points),
                "pointwise": float(np.mean(points)),
                "pointwise_error": float(np.std(per_fit) / np.sqrt(len(per_fit))),
                "whole": float(np.mean(whole)),
                "width": float(np.mean([value for record in those for value in record["width"]])),
            }
            weak = [p for r in those for p, flag in zip(r["pointwise"], r["weak"], strict=True) if flag]
            if weak:
                weak_whole = [p for r in those for p, flag in zip(r["whole"], r["weak"], strict=True) if flag]
                found[verdict] |= {"weak_kept": len(weak), "weak_pointwise": float(np.mean(weak))}
                found[verdict] |= {"weak_whole": float(np.mean(weak_whole))}
    return found


def main() -> None:
    """Run one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=list(TABLES))
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 3000])
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    results: dict[str, Any] = {}
    for rows in given.rows:
        seeds = range(given.first_seed, given.first_seed + given.repeats)
        records = Parallel(n_jobs=given.jobs)(delayed(one)(given.table, rows, seed) for seed in seeds)
        results[str(rows)] = summary(list(records))
        print(given.table, rows, json.dumps(results[str(rows)]), flush=True)
    if given.out is not None:
        record = {"table": given.table, "repeats": given.repeats, "first_seed": given.first_seed, "level": 0.95}
        given.out.write_text(json.dumps({**record, "rows": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
