"""sparsenam with nothing set and its peers on real tables: loss, CPU seconds, memory, selected features and errors.

    python benchmarks/bench_real.py [--tables NAME …] [--methods NAME …] [--splits N] [--jobs N] [--seconds S]
                                    [--again] [--reserve]

Each fit runs in a process of its own on one core. Fits are kept in benchmarks/results/real.json by table, method and
split, and are not made again for the same version of the library (of sparsenam: the same source files): a run can be
stopped at any time and go on later. ``--reserve`` takes the tables that are kept apart to judge changes of the default:
look at them only when a change is finished. `real_page.py` makes docs/benchmarks.md and README's table of the JSON.
"""

import argparse
import hashlib
import importlib
import os
from importlib.metadata import version
from pathlib import Path

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
os.environ.update(dict.fromkeys(THREADS, "1"), OMP_WAIT_POLICY="passive", TQDM_DISABLE="1")

import pandas as pd  # noqa: E402
from bench import our_version  # noqa: E402
from real.forked import Limits  # noqa: E402
from real.methods import METHODS  # noqa: E402
from real.report import Report, fit_and_judge  # noqa: E402
from real.tables import RECIPES, RESERVE, TABLES, read_once, split_of  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results" / "real.json"


def facts_of(recipe):
    """Return what the file says about a table; a table that has changed since is measured anew."""
    data = read_once(recipe)
    digest = hashlib.sha256(pd.util.hash_pandas_object(data.X).to_numpy().tobytes() + data.y.tobytes()).hexdigest()
    sizes = {"rows": len(data.y), "columns": data.X.shape[1]}
    return {"kind": recipe.kind, **sizes, "source": recipe.source, "digest": digest[:8]}


def calls_for(report, tables, methods, splits, again):
    """Yield the fits that are still to be made: all methods on one split of every table, then the next split."""
    for seed in range(splits):
        for table in tables:
            recipe = RECIPES[table]
            report.describe(table, facts_of(recipe))
            names = [name for name in methods if recipe.kind in METHODS[name].kinds]
            names = [name for name in names if again or str(seed) not in report.splits_of(table, name)]
            split = split_of(table, seed) if names else None
            for name in names:
                if not report.is_beyond_limit(table, name):
                    yield (table, name, seed), lambda fit=METHODS[name].fit, split=split: fit_and_judge(fit, split)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=RECIPES, metavar="TABLE")
    parser.add_argument("--reserve", action="store_true", help="the tables in reserve, into a file of their own")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time, each on a core of its own")
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="CPU time of one fit at most; a method beyond it on a table is not tried again there",
    )
    parser.add_argument("--again", action="store_true", help="measure again what the file has")
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    held = RESERVE if wanted.reserve else TABLES
    wanted.tables = wanted.tables or list(held)
    if not set(wanted.tables) <= set(held):
        parser.error("the tables in reserve have a file of their own: give --reserve, and no others")
    wanted.out = wanted.out or (RESULTS.with_name("real_reserve.json") if wanted.reserve else RESULTS)
    for name in wanted.methods:
        for module in METHODS[name].modules:
            importlib.import_module(module)
    versions = {
        name: our_version() if METHODS[name].package == "sparsenam" else version(METHODS[name].package)
        for name in wanted.methods
    }
    report = Report(wanted.out, versions, (list(held), list(METHODS)))
    report.content["splits"] = max(wanted.splits, report.content.get("splits", 0))
    report.content["limits"] = {"seconds": max(wanted.seconds, report.content.get("limits", {}).get("seconds", 0.0))}
    report.content.pop("jobs", None)
    calls = calls_for(report, wanted.tables, wanted.methods, wanted.splits, wanted.again)
    report.run(calls, Limits(wanted.seconds), wanted.jobs)


if __name__ == "__main__":
    main()
