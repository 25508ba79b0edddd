"""Our defaults on tables with weak, mixed and real signals: mean, worst, columns kept and seconds, beside peers.

Usage: python benchmarks/signals.py TABLE [--seeds N] [--first S] [--no-peers] [--jobs N] [--out FILE]
with TABLE one of those that --help lists; `judges` is all tables named judge_*, one after the other. A line for each
summary is printed, and JSON is written to benchmarks/results/signals_TABLE.json. Seconds are comparable with --jobs 1
only. Real data are read from the folder in SPARSENAM_DATA, by default ../shared/data.
"""

import argparse
import json
import os
import resource
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import joblib
import numpy as np
import signal_runs as runs
from signal_fits import linear, ridge_classes
from signal_judges import JUDGES
from signal_tables import WEAK, logistic, mixed2300x73, nothing, skewed, strong_and_weak, weak_shapes, weak_steps
from sklearn import datasets

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Table:
    """How a table is measured: ``run(seed, peers)`` returns records whose value is the ``measure``."""

    run: Callable
    measure: str
    higher_is_better: bool
    seeds: int
    first: int = 0
    finish: Callable = list


def weak_tables():
    draws = {name: partial(weak_steps, *sizes) for name, sizes in WEAK.items()}
    draws |= {"weak500x60": weak_shapes, "logistic500x30": logistic}
    draws |= {"mix1000x50": strong_and_weak}
    return {name: Table(partial(runs.law, draw, name), "R2 of the truth", True, 10) for name, draw in draws.items()}


def real_tables():
    diabetes = partial(runs.folds, "regression", datasets.load_diabetes, linear, "diabetes")
    cancer = partial(runs.folds, "classification", datasets.load_breast_cancer, ridge_classes, "breast_cancer")
    wine = partial(runs.folds, "classification", datasets.load_wine, ridge_classes, "wine")
    return {
        "diabetes": Table(diabetes, "R2 by 5 folds", True, 5),
        "breast_cancer": Table(cancer, "log loss by 5 folds", False, 5),
        "wine": Table(wine, "log loss by 5 folds", False, 5),
        "labels": Table(runs.labels, "largest change of a probability", False, 1),
        "stability": Table(runs.stability, "Jaccard index with the other seeds", True, 10, finish=runs.agreement),
        "roworder": Table(runs.roworder, "Jaccard index with the first order", True, 10),
    }


def paper_tables():
    tasks = {
        "regression60": ("regression", "mean squared error", 60),
        "classification60": ("classification", "log loss", 60),
        "ar20": ("correlated", "mean squared error", 20),
        "wide10": ("wide", "mean squared error", 10),
        "compas8": ("compas", "log loss", 8),
        "california3": ("california", "mean squared error", 3),
        "superconductivity1": ("superconductivity", "mean squared error", 1),
    }
    return {
        name: Table(partial(runs.paper, task, name), measure, False, seeds, first=1000)
        for name, (task, measure, seeds) in tasks.items()
    }


def mixed_tables():
    return {
        "mixed30k": Table(runs.mixed_targets, "log loss or squared error", False, 1),
        "mixed2300x73": Table(partial(runs.against_ebm, mixed2300x73, "mixed2300x73"), "mean squared error", False, 3),
        "compas_raw": Table(runs.compas_raw, "log loss", False, 3),
        "skewed": Table(partial(runs.against_ebm, skewed, "skewed"), "log loss", False, 3),
    }


TABLES = weak_tables() | real_tables() | paper_tables() | mixed_tables()
TABLES["null400x30"] = Table(partial(runs.law, nothing, "null400x30"), "nothing kept", True, 10)
TABLES["genes"] = Table(runs.gene_tables, "share classified rightly", True, 5)
TABLES |= {f"judge_{name}": Table(partial(runs.judge, name), "loss by 5 folds", False, 1) for name in JUDGES}


def seed_records(name, seed, peers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of fits are counted in the records
        records = TABLES[name].run(seed=seed, peers=peers)
    for each in records:
        line = f"{name} seed {seed}: {each['case']}, {each['method']}, kept {each['kept']}, {each['seconds']:.2f} s"
        print(line if each["value"] is None else f"{line}, {each['value']:.4f}", file=sys.stderr, flush=True)
    return records


def summaries(table, records):
    """Return a summary for each case and method; the first method of a case is compared with the others."""
    groups = {}
    for each in records:
        groups.setdefault(each["case"], {}).setdefault(each["method"], []).append(each)
    result = {}
    for case, methods in groups.items():
        result[case] = {method: summary(table, part) for method, part in methods.items()}
        first, *peers = methods
        result[case] |= {f"{first} against {peer}": comparison(table, methods[first], methods[peer]) for peer in peers}
    return result


def summary(table, part):
    """Return mean and worst value, the values by seed, and means of all other numbers."""
    values = np.array([each["value"] for each in part])
    numbers = [key for key, value in part[0].items() if isinstance(value, int | float) and key not in ("seed", "value")]
    return {
        "mean": digits(values.mean()),
        "worst": digits(values.min() if table.higher_is_better else values.max()),
        "values": [[each["seed"], digits(each["value"])] for each in part],
        "kept_counts": [each["kept"] for each in part],
        "means": {key: digits(np.mean([each[key] for each in part])) for key in numbers},
    }


def comparison(table, first, other):
    """Return how the first method does beside another one on the same seeds."""
    ours, theirs = (np.array([each["value"] for each in part]) for part in (first, other))
    times = [b["seconds"] / max(a["seconds"], 1e-3) for a, b in zip(first, other, strict=True)]
    better = ours >= theirs if table.higher_is_better else ours <= theirs
    result = {
        "mean difference": digits(np.mean(ours - theirs)),
        "at least as good": f"{better.sum()} of {len(better)}",
        "seconds of the other / of the first, median": digits(np.median(times)),
    }
    if not table.higher_is_better and (theirs > 0).all():
        result["ratio of the means"] = digits(ours.mean() / theirs.mean())
    return result


def digits(number):
    return float(f"{float(number):.5g}")


def lines(name, table, result):
    """Yield one line for each case and method, and one for each comparison."""
    for case, rows in result.items():
        label = name if name.endswith(case) else f"{name} {case}"
        for method, row in rows.items():
            if "mean" not in row:
                yield f"{label} | {method} | " + ", ".join(f"{key} {value}" for key, value in row.items())
                continue
            means = ", ".join(f"{key} {value:g}" for key, value in row["means"].items())
            yield f"{label} | {method} | {table.measure}: mean {row['mean']:g}, worst {row['worst']:g} | {means}"


def measure_table(name, wanted):
    """Run one table, print its summaries and write its JSON."""
    table = TABLES[name]
    first = table.first if wanted.first is None else wanted.first
    seeds = range(first, first + (table.seeds if wanted.seeds is None else wanted.seeds))
    by_seed = joblib.Parallel(n_jobs=wanted.jobs)(
        joblib.delayed(seed_records)(name, seed, wanted.peers) for seed in seeds
    )
    records = table.finish([each for part in by_seed for each in part])
    result = summaries(table, records)
    for line in lines(name, table, result):
        print(line, flush=True)
    report = {
        "table": name,
        "measure": table.measure,
        "higher_is_better": table.higher_is_better,
        "seeds": list(seeds),
        "jobs": wanted.jobs,
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "versions": {package: version(package) for package in ("sparsenam", "numpy", "scikit-learn", "torch")},
        "summary": result,
        "records": records,
    }
    out = wanted.out or RESULTS / f"signals_{name}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n")


def main():
    """Measure the wanted table, or all judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=[*TABLES, "judges"])
    parser.add_argument("--seeds", type=int, help="how many; by default as many as the table asks for")
    parser.add_argument("--first", type=int, help="the first seed")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--jobs", type=int, default=1, help="seeds measured at the same time")
    parser.add_argument("--out", type=Path, help="a file; for `judges` a folder")
    wanted = parser.parse_args()
    if wanted.table != "judges":
        measure_table(wanted.table, wanted)
        return
    folder = wanted.out or RESULTS
    for name in JUDGES:
        wanted.out = folder / f"signals_judge_{name}.json"
        measure_table(f"judge_{name}", wanted)


if __name__ == "__main__":
    main()
