"""The JSON of a comparison as it grows: fits by table, method and split, saved after every fit."""

import datetime
import json
import re
import signal
import sys
from pathlib import Path

from bench import load, machine, rounded

from .forked import Limits, Meter, run_all

NUMBERS = re.compile(r"\[[\d\s.,e+-]+\]")


def fit_and_judge(fit, split):
    """Return the record of one fit."""
    with Meter() as meter:
        fitted = fit(split.task)
    record = meter.record | split.judge(fitted.predict(split.X_test))
    return record | {"kept": len(fitted.kept)} | fitted.facts


def short(record):
    """Return a record with as many digits as are of use; a block of test rows is small."""
    return {
        key: [float(f"{each:.4g}") for each in value] if isinstance(value, list) else value
        for key, value in rounded(record).items()
    }


def line_of(record):
    if "error" in record:
        return record["error"]
    return f"{record['loss']:.4f} of the empty model's, {record['cpu_seconds']:.2f} s of CPU, {record['kept']} kept"


class Report:
    """Stored fits; those of another version of a method are forgotten.

    Parameters
    ----------
    path : Path
        The JSON file.
    versions : dict of str
        The version of each method that is measured now.
    order : tuple of two sequences of str
        All tables and all methods, in the order in which they are written.
    """

    def __init__(self, path, versions, order):
        self.path, self.versions, self.order = path, versions, order
        self.content = {"machine": {}, "tables": {}} | load(path)
        self.content["machine"] = machine()

    def splits_of(self, table, method):
        """Return the stored splits of a method on a table."""
        entry = self.content["tables"].setdefault(table, {"methods": {}})
        stored = entry["methods"].get(method, {})
        if stored.get("version") != self.versions[method]:
            stored = entry["methods"][method] = {"version": self.versions[method], "splits": {}}
        return stored["splits"]

    def is_beyond_limit(self, table, method):
        """Return whether a method was stopped at the limit of time or memory on some split of a table."""
        records = self.splits_of(table, method).values()
        return any(record.get("error", "").startswith(("no result", "more than")) for record in records)

    def describe(self, table, facts):
        """Store the facts about a table; its fits are forgotten where they were of another one."""
        entry = self.content["tables"].setdefault(table, {"methods": {}})
        if any(entry.get(key, value) != value for key, value in facts.items()):
            entry["methods"] = {}
        entry |= facts

    def run(self, calls, limits: Limits, jobs: int):
        """Make the fits, given as ((table, method, split), call), and store each as soon as it has ended."""
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a kill ends the fits under way, too
        try:
            for (table, method, split), record in run_all(calls, limits, jobs):
                record = short(record) | {"date": datetime.datetime.now(datetime.UTC).date().isoformat()}
                self.splits_of(table, method)[str(split)] = record
                self.save()
                print(table, split, method, line_of(record), flush=True)
        except KeyboardInterrupt:
            sys.exit("stopped; what was finished is in the file")
        self.save()

    def save(self):
        """Write the file whole or not at all, in the order of this program, a list of numbers on one line."""
        order, methods = self.order
        tables = {name: self.content["tables"][name] for name in order if name in self.content["tables"]}
        for entry in tables.values():
            entry["methods"] = {name: entry["methods"][name] for name in methods if name in entry["methods"]}
            for stored in entry["methods"].values():
                stored["splits"] = dict(sorted(stored["splits"].items()))
        text = json.dumps(self.content | {"tables": tables}, indent=1, ensure_ascii=False)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".part")
        beside.write_text(NUMBERS.sub(lambda found: " ".join(found[0].split()), text) + "\n")
        beside.replace(Path(self.path))
