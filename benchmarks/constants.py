"""Which constants steer the default fit: each is halved and doubled, one at a time, on real and generated tables.

    python benchmarks/constants.py [--only NAME …] [--jobs N]

Every number in upper case at the top of a file that a default fit runs through (docs/architecture.md lists them) is
tried. A constant *steers* if halving or doubling it changes some table's test loss, or the mean width of its bands or
intervals, by more than 1 %; the others are tolerances, budgets and guards. benchmarks/results/constants.json holds the
figures, docs/constants.md is made of them, and tests/guards/test_constants.py compares both with the code.
"""

import argparse
import importlib
import json
import math
import statistics
import sys
from functools import partial
from pathlib import Path

from ablate import generated_split
from bench import our_version
from bench_real import facts_of  # noqa: F401  it sets one thread before numpy is imported
from constant_list import FACTORS, MEASURES, ROOT, STEERS, constants, steers
from guarantees import table as table_of
from real.forked import Limits, Meter, run_all
from real.tables import split_of
from real_page import with_part

RESULTS = ROOT / "benchmarks" / "results" / "constants.json"
PAGE, MARKS = ROOT / "docs" / "constants.md", ("<!-- constants -->", "<!-- /constants -->")

# quick tables of every kind, chosen by their time alone: every second of the real tables that take less than a second
REAL = (
    "ozone_leeds",
    "wells",
    "votes_for_congress",
    "gunnels",
    "spending_vietnam",
    "crime_north_carolina",
    "computer_prices",
    "smokers",
    "charity_letters",
    "president_1996",
    "low_birth_weight",
    "days_in_hospital_medicare",
    "minutes_of_sleep",
    "temperature_airports",
    "trips_to_a_lake",
    "cannabis_arrests",
    "train_trips",
    "heart_attacks",
    "language_scores_dutch",
    "wilms_tumor",
    "seattle_weather",
    "sales_of_clothing",
    "swiss_work",
    "migraines",
    "rock_art",
    "growth_of_countries",
    "crabs",
)
TABLES = (*REAL, "paper regression", "paper classification", "weak200x10", "skewed")


def changed(value, factor):
    """Return a constant times a factor: a whole number stays one, and a share stays below 1."""
    other = value * factor
    if isinstance(value, int):
        return round(other)
    return (1.0 + value) / 2.0 if 0.0 < value < 1.0 <= other else other


def with_constant(name, old, new, split):
    """Judge the default fit with another value of a constant, wherever it was imported; this process does no more."""
    for module in [module for key, module in sys.modules.items() if key.startswith("sparsenam")]:
        held = vars(module).get(name)
        if type(held) is type(old) and held == old:
            setattr(module, name, new)
    return judged(split)


def judged(split):
    """Return the test loss of the default fit, and the mean widths of its bands and intervals where it has any."""
    import numpy as np

    from sparsenam import SNAMClassifier, SNAMRegressor, SNAMSurvival

    task, X = split.task, split.X_test
    with Meter() as meter:
        if task.kind == "survival":
            model = SNAMSurvival(random_state=task.seed).fit(task.X, task.y)
        elif task.is_class:
            model = SNAMClassifier(random_state=task.seed).fit(task.X, task.y)
        else:
            family = {"count": "poisson", "amount": "gamma"}.get(task.kind, "gaussian")
            model = SNAMRegressor(family=family, random_state=task.seed).fit(task.X, task.y)
    if task.kind == "survival":
        predicted = model.predict_survival_function(X, times=task.times, return_array=True)
    else:
        predicted = model.predict_proba(X) if task.is_class else model.predict(X)
    # 1 % of the empty model's loss is added, so that a loss of nearly 0 changes little
    record = meter.record | {"loss": split.judge(predicted)["loss"] + STEERS}
    if model.bands_.terms:
        bands = model.effect_bands(X)
        record["bands"] = float(np.nanmean(bands.upper - bands.lower))
    if task.kind in ("number", "amount"):
        intervals = model.predict_interval(X)
        record["intervals"] = float(np.mean(intervals.upper - intervals.lower))
    return record


def calls(names, found, tables):
    for table in tables:
        split = split_of(table, 0) if table in REAL else generated_split(table, 0)
        yield (table, "default", ""), partial(judged, split)
        for name in names:
            for word, factor in FACTORS.items():
                value = found[name][1]
                yield (table, name, word), partial(with_constant, name, value, changed(value, factor), split)


def figures(name, word, records, tables):
    """Return how each measure changes, in per cent: over all tables, and where it changes most."""
    of = {table: (records[table, "default", ""], records[table, name, word]) for table in tables}
    failed = [f"{table}: {other['error']}" for table, (_, other) in of.items() if "error" in other]
    if failed:
        return {"error": failed[0]}
    result = {}
    for measure in MEASURES:
        both = {table: pair for table, pair in of.items() if all(each.get(measure, 0.0) > 0.0 for each in pair)}
        changes = {table: math.log(other[measure] / one[measure]) for table, (one, other) in both.items()}
        most = max(changes, key=lambda table: abs(changes[table]))
        percent = [round(100.0 * math.expm1(each), 2) for each in (statistics.fmean(changes.values()), changes[most])]
        result[measure] = {"mean": percent[0], "most": percent[1], "table": most}
    cpu = [sum(pair[place]["cpu_seconds"] for pair in of.values()) for place in (0, 1)]
    return result | {"cpu": round(cpu[1] / cpu[0], 2)}


def rows_of(content):
    """Return the rows of docs/constants.md, by file: those that steer."""
    for name, entry in sorted(content["constants"].items(), key=lambda item: (item[1]["file"], item[0])):
        if steers(entry):
            cells = [f"`{name}`", f"`{entry['file']}`", f"{entry['value']:g}"]
            for word in FACTORS:
                cells += text_of(entry[word])
            yield cells


def text_of(found):
    if "error" in found:
        return ["fails", found["error"]]
    loss, widths = found["loss"], [found[measure]["mean"] for measure in ("bands", "intervals") if measure in found]
    width = f"{max(widths, key=abs):+.1f} %" if widths else "not measured"
    return [f"{loss['mean']:+.2f} % ({loss['table']} {loss['most']:+.1f} %)", width]


def page_of(content):
    heads = ("constant", "file", "value", "halved: loss (most)", "widths", "doubled: loss (most)", "widths")
    others = [name for name, entry in content["constants"].items() if not steers(entry)]
    names = ", ".join(f"`{name}`" for name in others)
    rest = f"The other {len(others)} changed nothing measured by more than 1 %: {names}."
    return f"{table_of(heads, list(rows_of(content)))}\n\n{rest}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    importlib.import_module("sparsenam.estimators")
    found = constants()
    parser.add_argument("--only", nargs="*", choices=found, default=list(found), metavar="NAME")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES, metavar="TABLE")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    wanted = parser.parse_args()
    records = {}
    for key, record in run_all(calls(wanted.only, found, wanted.tables) if wanted.only else (), Limits(), wanted.jobs):
        records[key] = record
        if key[1] == "default":
            print(key[0], flush=True)
    content = json.loads(wanted.out.read_text()) if wanted.out.exists() else {"constants": {}}
    for name in wanted.only:
        where, value = found[name]
        both = {word: figures(name, word, records, wanted.tables) for word in FACTORS}
        facts = {"file": where, "value": value, "version": our_version(), "tables": len(wanted.tables)}
        content["constants"][name] = facts | both
    kept = {name: entry for name, entry in sorted(content["constants"].items()) if name in found}
    for name, entry in kept.items():
        entry["file"] = found[name][0]
    wanted.out.write_text(json.dumps({"constants": kept}, indent=1) + "\n")
    if wanted.out == RESULTS:
        PAGE.write_text(with_part(PAGE.read_text(), page_of({"constants": kept}), MARKS))


if __name__ == "__main__":
    main()
