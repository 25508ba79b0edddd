"""Pairs: accuracy and time beside EBM and LightGBM, false pairs, planted ones, and the screen by itself.

Usage: python benchmarks/pairs.py TASK [--seeds N] [--peers | --no-peers], with TASK one of california, poisson, false,
friedman, screen, wide, named. JSON is written to benchmarks/results/pairs_TASK.json. California Housing is read from
the folder in SPARSENAM_DATA, by default ../shared/data.
"""

import argparse
import json
import os
import resource
import sys
import time
import warnings
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
from named_tables import NAMED, all_pairs, named_table
from pair_tables import additive, friedman_and_xor, poisson_pairs
from paper_tables import california as california_table
from real.losses import empty_prediction, row_losses
from real.methods import Task, ebm, ours
from signal_fits import ebm_with_pairs
from sklearn.metrics import mean_poisson_deviance, mean_squared_error
from sklearn.model_selection import train_test_split

from sparsenam import SNAMRegressor
from sparsenam.selection.pairs import screen

RESULTS = Path(__file__).parent / "results"
LAWS = ("normal", "ar", "t3", "spread_of_one", "spread_of_two")


def timed(model, X, y):
    """Fit; return the seconds."""
    started = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - started


def boosted():
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=1000, random_state=0, verbose=-1)


def against(makers, X, y, X_fresh, y_fresh, loss):
    """Return loss, seconds and pairs of each model."""
    found = {}
    for name, make in makers.items():
        model = make()
        seconds = timed(model, X, y)
        found[name] = {"loss": float(loss(y_fresh, model.predict(X_fresh))), "seconds": round(seconds, 2)}
        if name == "ours":
            found[name]["pairs"] = [list(pair) for pair in model.interactions_]
        print(name, found[name], file=sys.stderr, flush=True)
    return found


def california(seed, peers):
    X, y, _ = california_table(seed)
    X, X_fresh, y, y_fresh = train_test_split(X, y, test_size=0.2, random_state=seed)
    makers = {
        "ours": lambda: SNAMRegressor(random_state=seed),
        "mains": lambda: SNAMRegressor(pairs=0, random_state=seed),
    }
    if peers:
        makers |= {"lightgbm": boosted, "ebm": lambda: ebm_with_pairs("regression", seed)}
    return against(makers, X, y, X_fresh, y_fresh, mean_squared_error)


def poisson(seed, peers):
    X, y, X_fresh, y_fresh, truth = poisson_pairs(seed)
    makers = {"ours": lambda: SNAMRegressor(family="poisson", random_state=seed)}
    if peers:
        makers["ebm"] = lambda: ebm_with_pairs("regression", seed, objective="poisson_deviance")
    found = against(makers, X, y, X_fresh, y_fresh, mean_poisson_deviance)
    return found | {"truth": {"loss": float(mean_poisson_deviance(y_fresh, truth))}}


def false(seed, peers):
    """Return the pairs found in additive tables; there are none."""
    found = {}
    for law in LAWS:
        X, y = additive(law, seed)
        found[law] = [list(pair) for pair in SNAMRegressor(random_state=seed).fit(X, y).interactions_]
    return found


def friedman(seed, peers):
    X, y = friedman_and_xor(seed)
    found = SNAMRegressor(random_state=seed).fit(X, y).interactions_
    return {"pairs": sorted(sorted(pair) for pair in found), "exact": set(found) == {("x0", "x1"), ("x7", "x9")}}


def screening(seed, peers, rows=20_000, columns=130):
    """Return seconds and gigabytes of the screen of 8,385 pairs."""
    generator = np.random.default_rng(seed)
    x, y = generator.normal(size=(columns, rows)), generator.normal(size=(rows, 1))
    pairs = np.array([(one, other) for one in range(columns) for other in range(one)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    screen(x, np.zeros(columns, bool), y, np.ones((rows, 1)), pairs, freedom=0, outputs=1.0, dispersion=None)
    seconds = time.perf_counter() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    return {"pairs": len(pairs), "seconds": round(seconds, 2), "gigabytes": round(grown, 3)}


def wide(seed, peers, rows=500, columns=10_000):
    """Return seconds with and without pairs for many columns."""
    generator = np.random.default_rng(53_000 + seed)
    X = generator.normal(size=(rows, columns))
    y = 2 * np.sin(2 * X[:, 0]) + X[:, 1] + 1.5 * X[:, 2] * X[:, 1] + generator.normal(size=rows)
    without = timed(SNAMRegressor(random_state=seed), X, y)
    model = SNAMRegressor(random_state=seed)
    seconds = timed(model, X, y)
    pairs = [list(pair) for pair in model.interactions_]
    return {"without": round(without, 2), "seconds": round(seconds, 2), "pairs": pairs}


def named(seed, peers):
    """Return loss (in units of the empty model's), CPU seconds and pairs of fits that are given the same pairs."""
    found = {}
    for name in NAMED:
        table = named_table(name, seed + 1)  # seed 0 shaped the constants
        empty = row_losses(table.kind, empty_prediction(table.kind, table.y, table.y_test), table.y_test).mean()
        asked = {"mains": 0, "named": table.pairs, "all": all_pairs(list(table.X))[:45], "auto": "auto"}
        fits = {label: partial(ours, pairs=pairs) for label, pairs in asked.items()}
        if peers:
            fits["ebm"] = partial(ebm, interactions=table.pairs)
        found[name] = {}
        for label, fit in fits.items():
            started = time.process_time()
            fitted = fit(Task(table.kind, table.X, table.y, seed + 1))
            seconds = round(time.process_time() - started, 2)
            loss = row_losses(table.kind, fitted.predict(table.X_test), table.y_test).mean() / empty
            found[name][label] = {"loss": float(loss), "seconds": seconds, "pairs": fitted.facts["pairs"]}
            print(name, label, found[name][label], file=sys.stderr, flush=True)
    return found


TASKS = {"california": (california, 5), "poisson": (poisson, 3), "false": (false, 60), "friedman": (friedman, 10)}
TASKS |= {"screen": (screening, 3), "wide": (wide, 1), "named": (named, 1)}


def main():
    """Measure the wanted task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=list(TASKS))
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    wanted = parser.parse_args()
    run, seeds = TASKS[wanted.task]
    records = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(wanted.seeds or seeds):
            records.append({"seed": seed} | run(seed, wanted.peers))
            print(json.dumps(records[-1]), flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"pairs_{wanted.task}.json").write_text(
        json.dumps({"task": wanted.task, "records": records}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
