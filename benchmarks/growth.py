"""How time and memory of the default fit grow with rows, columns, columns that matter, and alphas.

    python benchmarks/growth.py [AXIS …] [--large] [--most SIZE] [--cores N] [--seconds S] [--gigabytes G] [--again]
                                [--out FILE]

Each point is a fit in a process of its own (`bench_worker.py`) on a table of normal columns of which some act
(`bench_tables.additive`). ``--large`` adds 10⁷ rows. An exponent is the slope of log time (or log memory) over log size
through the three largest sizes that gave a result: small ones measure what every fit has to do once.
"""

import argparse
import datetime
import os
import tempfile
from pathlib import Path

import numpy as np
from bench import load, machine, our_version, rounded, save
from bench_process import Limits, end_fits_when_stopped, run
from bench_tables import additive, write

RESULTS = Path(__file__).resolve().parent / "results" / "growth.json"
# what an axis varies, and the table at which the others stand
AXES = {
    "rows": ((1000, 10_000, 100_000, 1_000_000), {"columns": 20, "n_true": 8}),
    "columns": ((10, 100, 1000, 10_000), {"rows": 1000, "n_true": 8}),
    "kept": ((2, 4, 8, 16, 32, 64), {"rows": 10_000, "columns": 64}),
    "alphas": ((10, 30, 100, 300), {"rows": 3000, "columns": 24, "n_true": 8}),
}
LARGE = 10_000_000
TABLE_KEYS = {"rows": "rows", "columns": "columns", "kept": "n_true"}


def point(axis, size, fixed, limits):
    """Return the record of one fit."""
    table = dict(fixed) | ({TABLE_KEYS[axis]: size} if axis in TABLE_KEYS else {})
    settings = {} if axis in TABLE_KEYS else {"n_alphas": size}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "table.npz"
        write(data, additive(0, **table, fresh=1000), "regression", 0)
        record = run("sparsenam", None, data, limits, **settings)
    held = ("refused", "seconds", "cpu_seconds", "megabytes", "kept", "loss")
    return {"size": size} | rounded({key: record[key] for key in held if key in record})


def exponent(points, measure):
    """Return the slope of log ``measure`` over log size through the three largest sizes, if there are two."""
    known = [(each["size"], each[measure]) for each in points if each.get(measure)]
    if len(known) < 2:
        return None
    sizes, values = np.log(np.array(sorted(known)[-3:], float)).T
    return round(float(np.polyfit(sizes, values, 1)[0]), 2)


def measure_axis(axis, wanted, report):
    """Measure the sizes of an axis that the report does not have yet for these source files."""
    sizes, fixed = AXES[axis]
    sizes = (*sizes, LARGE) if axis == "rows" and wanted.large else sizes
    facts = {"fixed": fixed, "version": our_version(), "cores": wanted.cores}
    found = report["axes"].get(axis, {})
    if wanted.again or {key: found.get(key) for key in facts} != facts:
        found = facts | {"points": []}
    report["axes"][axis] = found
    known = {each["size"] for each in found["points"]}
    for size in sizes:
        if size in known or (wanted.most and size > wanted.most):
            continue
        found["points"].append(point(axis, size, fixed, Limits(wanted.cores, wanted.seconds, wanted.gigabytes)))
        print(axis, found["points"][-1], flush=True)
        measures = ("seconds", "cpu_seconds", "megabytes")
        found["exponents"] = {measure: exponent(found["points"], measure) for measure in measures}
        found["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
        save(wanted.out, report)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("axes", nargs="*", metavar="AXIS", help=", ".join(AXES))
    parser.add_argument("--large", action="store_true", help="10⁷ rows too")
    parser.add_argument("--most", type=int, help="leave out larger sizes")
    parser.add_argument("--cores", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--gigabytes", type=float, default=18.0)
    parser.add_argument("--again", action="store_true", help="measure again what the file has")
    parser.add_argument("--out", type=Path, default=RESULTS)
    wanted = parser.parse_args()
    if unknown := set(wanted.axes) - set(AXES):
        parser.error(f"no axis {', '.join(sorted(unknown))}: there are {', '.join(AXES)}")
    end_fits_when_stopped()
    report = load(wanted.out)
    report.pop("tables", None)
    report |= {"machine": machine(), "axes": report.get("axes", {})}
    for axis in wanted.axes or AXES:
        measure_axis(axis, wanted, report)


if __name__ == "__main__":
    main()
