"""The default fit without each of its optional mechanisms, one at a time, on real and generated tables.

    python benchmarks/ablate.py [--tables NAME …] [--only MECHANISM …] [--splits N] [--jobs N] [--summary]

Fits are kept in benchmarks/results/ablation.json and are not made again for the same source files. The table of
docs/ablation.md is made of them: how often a mechanism changed anything, the paired change of the test loss, the tables
that lose most and least without it, and CPU time. ``--summary`` makes the table and fits nothing. Mechanisms that the
library no longer has keep the figures with which they were judged.
"""

import argparse
import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import signal_tables
from bench import load, our_version
from bench_real import facts_of  # it sets one thread before numpy is imported
from guarantees import table as table_of
from paper_tables import TASKS
from real.forked import Limits
from real.losses import empty_prediction, row_losses
from real.methods import Task, ours
from real.report import Report, fit_and_judge
from real.summary import log_ratios, mean_and_error, shared_splits
from real.tables import TABLES, Split, split_of
from real_page import with_part

RESULTS = Path(__file__).resolve().parent / "results" / "ablation.json"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "ablation.md"
MARKS = ("<!-- ablation -->", "<!-- /ablation -->")
UNLIMITED = 1e9
NOTABLE = 0.01  # change of a table's loss that counts as worse or better


def put(values):
    """Return a function that gives constants, functions and methods, named "module:NAME", another value."""

    def change():
        for place, value in values.items():
            module, path = place.split(":")
            *owners, name = path.split(".")
            held = importlib.import_module(f"sparsenam.{module}")
            for owner in owners:
                held = getattr(held, owner)
            if not hasattr(held, name):
                raise AttributeError(f"sparsenam.{module} has no {name}: the mechanism has moved")
            setattr(held, name, value)

    return change


def compact(**settings):
    """Return a function that makes the default rule another one."""

    def change():
        from sparsenam.selection import curve

        curve.RULES["compact"] = partial(curve.Compact, **settings)

    return change


def no_means(codes, n_levels, target, weights):
    """Return means of 0 for all levels, so that rare levels have no column."""
    from sparsenam.convex.ramps import PARTS

    return np.zeros((PARTS, n_levels, target.shape[1])), np.zeros((n_levels, target.shape[1]))


@dataclass(frozen=True)
class Mechanism:
    """An optional part of the default fit: what it does, and how a process switches it off for itself."""

    does: str
    off: Callable[[], None]


MECHANISMS = {
    "jumps": Mechanism(
        "the step away from a first or last value of many rows is not smoothed",
        put({"smooth.design:_with_jump": lambda *_: None}),
    ),
    "PULL": Mechanism("a weak term keeps a third of a degree of freedom", put({"smooth.design:PULL": 0.0})),
    "refitted finalists": Mechanism(
        "a few supports are compared by the fit made anew in the folds",
        put({"selection.choose:MOST_CELLS": 0, "selection.choose:MOST_WIDE": 0}),
    ),
    "all columns": Mechanism(
        "all columns are among the finalists", put({"selection.choose:Finals._add_all": lambda *_: None})
    ),
    "straight lines": Mechanism(
        "lines in the place of all curves are finalists",
        put({"selection.choose:Finals._straightened": lambda _, chosen: chosen}),
    ),
    "separation": Mechanism(
        "the updates end where classes are being separated",
        put({"smooth.engine:SEPARATING": 0.0, "smooth.engine:FITTED": 0.0}),
    ),
    "dropping": Mechanism(
        "columns that others express are dropped where held-out rows cannot tell",
        put({"selection.choose:ENOUGH_ROWS": 10**9}),
    ),
    "Compact: luck": Mechanism(
        "what chance makes among many features may be given up",
        put({"selection.curve:luck_among": lambda n_columns: 0.0}),
    ),
    "Compact: share": Mechanism("never more than 3 % of what the best model explains", compact(share=UNLIMITED)),
    "rare-level means": Mechanism(
        "rare levels share a column of their mean targets while features are chosen",
        put({"convex.ramps:_means_without_a_part": no_means}),
    ),
    "knot doubling": Mechanism(
        "a term that uses 0.4 of its ramps gets twice as many",
        put({"smooth.fit:doubled": lambda counts, *_: counts.copy()}),
    ),
    "MARGIN": Mechanism("ramps run a tenth of the range beyond the data", put({"convex.ramps:MARGIN": 0.0})),
    "EVEN_SHARE": Mechanism("0.4 of the knots lie by distance, not by rank", put({"convex.ramps:EVEN_SHARE": 0.0})),
    "REACH": Mechanism(
        "few knots lie beyond three interquartile ranges",
        put({"convex.ramps:bulk_of": lambda *_: (-np.inf, np.inf)}),
    ),
    "SPACING": Mechanism(
        "widths between knots count between 1/8 and 8 times their median",
        put({"convex.ramps:SPACING": 1e6, "smooth.design:SPACING": 1e6, "smooth.grid:SPACING": 1e6}),
    ),
}


def generated():
    """Return the draw of each generated table of `signals.py`, by name, as a function of its seed."""
    draws = {name: partial(signal_tables.weak_steps, *sizes) for name, sizes in signal_tables.WEAK.items()}
    draws |= {"weak500x60": signal_tables.weak_shapes, "logistic500x30": signal_tables.logistic}
    draws |= {"mix1000x50": signal_tables.strong_and_weak, "null400x30": signal_tables.nothing}
    draws |= {"skewed": signal_tables.skewed, "mixed2300x73": signal_tables.mixed2300x73}
    draws |= {"genes2": partial(signal_tables.genes, 2, 200)}
    draws |= {f"paper {name}": partial(paper_draw, name) for name in ("regression", "classification")}
    return draws | {
        f"mixed30k {kind}": partial(signal_tables.mixed30k, kind) for kind in ("regression", "classification")
    }


def paper_draw(name, seed):
    """Return one of the paper's synthetic tasks; a fifth of its rows are fresh."""
    X, y, _ = TASKS[name][0](seed)
    rows = len(y) * 4 // 5
    return signal_tables.split(TASKS[name][1], X, y.astype(int if name == "classification" else float), y, rows, ())


GENERATED = generated()


def generated_split(name, seed):
    """Return a draw in the form of a split of a real table."""
    draw = GENERATED[name](seed)
    kind = {"regression": "number", "classification": "binary"}[draw.kind]
    frames = [
        part.reset_index(drop=True)
        if isinstance(part, pd.DataFrame)
        else pd.DataFrame(part, columns=[f"x{place}" for place in range(part.shape[1])])
        for part in (draw.X, draw.X_fresh)
    ]
    empty = row_losses(kind, empty_prediction(kind, draw.y, draw.y_fresh), draw.y_fresh)
    return Split(Task(kind, frames[0], draw.y, seed), frames[1], draw.y_fresh, empty)


def without(mechanism, task):
    """Return the additive fit without a mechanism; this process does nothing else."""
    if mechanism is not None:
        MECHANISMS[mechanism].off()
    return ours(task, pairs=0)  # pairs are a mechanism with a benchmark of its own


def calls_for(report, tables, names, splits):
    for seed in range(splits):
        for table in tables:
            report.describe(table, {"real": table in TABLES} | (facts_of(TABLES[table]) if table in TABLES else {}))
            missing = [name for name in ("default", *names) if str(seed) not in report.splits_of(table, name)]
            if not missing:
                continue
            split = split_of(table, seed) if table in TABLES else generated_split(table, seed)
            for name in missing:
                fit = partial(without, None if name == "default" else name)
                yield (table, name, seed), partial(fit_and_judge, fit, split)


def changed(default, other):
    """Return whether a mechanism made a difference in a split: another loss, or another number of features."""
    return default["kept"] != other["kept"] or not math.isclose(default["loss"], other["loss"], rel_tol=2e-5)


def measured(content):
    """Return the mechanisms in the order of the record, those that are gone as well, then those not measured yet."""
    stored = [name for entry in content["tables"].values() for name in entry["methods"] if name != "default"]
    return list(dict.fromkeys([*stored, *MECHANISMS]))


def summary_row(content, name, real):
    """Return the row of a mechanism for real or generated tables."""
    tables = {table: entry["methods"] for table, entry in content["tables"].items() if entry["real"] == real}
    both = {table: shared_splits(methods, "default", name) for table, methods in tables.items()}
    both = {table: pairs for table, pairs in both.items() if pairs}
    if not both:
        return None
    changes = {table: log_ratios(pairs) for table, pairs in both.items()}
    mean, error = mean_and_error(list(changes.values()))
    fits = [pair for pairs in both.values() for pair in pairs]
    worst, best = max(changes, key=changes.get), min(changes, key=changes.get)
    cpu = sum(other["cpu_seconds"] for _, other in fits) / sum(one["cpu_seconds"] for one, _ in fits)
    return {
        "changed": sum(changed(*pair) for pair in fits),
        "fits": len(fits),
        "mean": 100 * mean,
        "error": 100 * error,
        "counts": (
            sum(change > math.log(1.0 + NOTABLE) for change in changes.values()),
            sum(change < -math.log(1.0 + NOTABLE) for change in changes.values()),
        ),
        "worst": (worst, 100 * math.expm1(changes[worst])),
        "best": (best, 100 * math.expm1(changes[best])),
        "cpu": cpu,
    }


def summary(content):
    """Return the table of docs/ablation.md."""
    heads = (
        "without",
        "tables",
        "changed",
        "loss, mean ± s.e.",
        "worse, better",
        "worst without",
        "best without",
        "CPU",
    )
    lines = []
    for name in measured(content):
        for real, word in ((True, "real"), (False, "generated")):
            row = summary_row(content, name, real)
            if row is None:
                continue
            cells = (
                f"{row['changed']} of {row['fits']}",
                f"{row['mean']:+.2f} ± {row['error']:.2f} %",
                "{}, {}".format(*row["counts"]),
                "{} {:+.1f} %".format(*row["worst"]),
                "{} {:+.1f} %".format(*row["best"]),
                f"{row['cpu']:.2f}",
            )
            lines.append([name, word, *cells])
    return table_of(heads, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = [*TABLES, *GENERATED]
    parser.add_argument("--tables", nargs="+", choices=every, default=every, metavar="TABLE")
    parser.add_argument("--only", nargs="+", choices=MECHANISMS, default=list(MECHANISMS), metavar="MECHANISM")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--summary", action="store_true", help="write the table and fit nothing")
    parser.add_argument("--out", type=Path, default=RESULTS)
    wanted = parser.parse_args()
    names = ["default", *measured(load(wanted.out))]
    report = Report(wanted.out, dict.fromkeys(names, our_version()), (every, names))
    if not wanted.summary:
        importlib.import_module("sparsenam.estimators")
        calls = calls_for(report, wanted.tables, wanted.only, wanted.splits)
        report.run(calls, Limits(), wanted.jobs)
    if wanted.out == RESULTS:
        PAGE.write_text(with_part(PAGE.read_text(), summary(report.content), MARKS))


if __name__ == "__main__":
    main()
