"""sparsenam with nothing set and its peers: the same tables, splits and cores, each fit in a process of its own.

    python benchmarks/bench.py [--tables NAME …] [--peers NAME …] [--splits N] [--cores N] [--seconds S] [--gigabytes G]
                               [--quick] [--again] [--out FILE]

A peer's fits are kept in the JSON by table, peer and split, and are not made again for the same version of the library
(of sparsenam: for the same source files) and the same number of cores, unless ``--again``. A run can therefore be
stopped at any time and go on later, or be made piece by piece. A library that fails or needs more than the limits on
one split of a table is not tried on the others. ``--quick`` takes 400 rows and 300 columns of each table, one split,
and a minute a fit at most; its figures go to a file of their own. `bench_page.py` makes docs/benchmarks.md of the JSON.
"""

import argparse
import datetime
import hashlib
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

import numpy as np
from bench_peers import PEERS
from bench_process import Limits, end_fits_when_stopped, python_of, run, version_of
from bench_tables import TABLES, shortened, write

import sparsenam

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "bench.json"
QUICK = ROOT / "build" / "bench_quick.json"


def machine():
    """Return the facts about this machine that times hang on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "gigabytes": round(memory, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def our_version():
    """Return the version with a digest of the source files: between releases the code changes, not the version."""
    digest, folder = hashlib.sha256(), Path(sparsenam.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return f"{sparsenam.__version__} ({digest.hexdigest()[:8]})"


def versions_of(names):
    """Return the version of each peer that can run here; say which cannot."""
    versions = {}
    for name in names:
        peer, python = PEERS[name], python_of(PEERS[name].environment)
        version = python and (our_version() if peer.package == "sparsenam" else version_of(python, peer.package))
        if version:
            versions[name] = version
        else:
            print(f"{name} is left out: make its environment first (make bench-environments)", file=sys.stderr)
    return versions


def load(path):
    return json.loads(path.read_text()) if path.exists() else {"machine": {}, "tables": {}}


def in_order(report):
    """Return the report with tables and peers in the order of this program, whatever was measured first."""
    tables = {name: report["tables"][name] for name in TABLES if name in report["tables"]}
    for found in tables.values():
        found["peers"] = {name: found["peers"][name] for name in PEERS if name in found["peers"]}
    return report | {"tables": tables}


def save(path, report):
    """Write the file whole or not at all, so that a run that is stopped loses nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    beside.replace(path)


def entry_of(report, table, name, version, cores, again):
    """Return the stored entry of a peer on a table; an empty one if that is of another version or unwanted."""
    shown = {"caption": TABLES[table].caption, "kind": TABLES[table].kind, "published": TABLES[table].published}
    stored = report["tables"].setdefault(table, {"peers": {}})
    stored |= shown
    facts = {"label": PEERS[name].label, "package": PEERS[name].package, "version": version, "cores": cores}
    entry = stored["peers"].get(name, {})
    if again or {key: entry.get(key) for key in facts} != facts:
        entry = facts | {"splits": {}}
        stored["peers"][name] = entry
    return entry


def is_wanted(entry, split):
    """Return whether a split is still to be measured: it has not been, and no other one failed."""
    return str(split) not in entry["splits"] and not any("refused" in record for record in entry["splits"].values())


def rounded(record):
    return {key: float(f"{value:.5g}") if isinstance(value, float) else value for key, value in record.items()}


def measure_table(table, versions, wanted, report):
    """Measure all peers on one table, split after split: what is compared is measured at about the same time."""
    limits = Limits(wanted.cores, wanted.seconds, wanted.gigabytes)
    entries = {
        name: entry_of(report, table, name, version, wanted.cores, wanted.again) for name, version in versions.items()
    }
    for split in range(wanted.splits or TABLES[table].splits):
        names = [name for name, entry in entries.items() if is_wanted(entry, split)]
        if not names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "table.npz"
            halves = TABLES[table].make(split)
            halves = shortened(halves) if wanted.quick else halves
            write(data, halves, TABLES[table].kind, split)
            report["tables"][table] |= {"rows": len(halves.y), "columns": halves.X.shape[1]}
            del halves
            for name in names:
                load_average = os.getloadavg()[0]
                record = rounded(run(name, PEERS[name].environment, data, limits))
                record |= {"date": datetime.datetime.now(datetime.UTC).date().isoformat()}
                record |= {"busy": load_average > (os.cpu_count() or 1) + 1}  # something else was running
                entries[name]["splits"][str(split)] = record
                save(wanted.out, in_order(report))
                print(table, split, name, line_of(record), flush=True)


def line_of(record):
    if "refused" in record:
        return record["refused"]
    return (
        f"{record['seconds']:.2f} s, loss {record['loss']:.5g} of {record['empty_loss']:.5g}, kept {record['kept']}, "
        f"{record['megabytes']:.0f} MB, 10⁵ rows {record['predict_seconds']:.3f} s, "
        f"a row {record['row_milliseconds']:.2f} ms"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="TABLE")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), metavar="PEER")
    parser.add_argument("--splits", type=int, help="how many; by default as many as each table says")
    parser.add_argument("--cores", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--seconds", type=float, help="limit of each fit, with imports and predictions; 600, quick 60")
    parser.add_argument("--gigabytes", type=float, default=12.0, help="limit of the memory of each fit")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--again", action="store_true", help="measure again what the file has")
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    wanted.seconds = wanted.seconds or (60.0 if wanted.quick else 600.0)
    wanted.splits = wanted.splits or (1 if wanted.quick else None)
    wanted.out = wanted.out or (QUICK if wanted.quick else RESULTS)
    end_fits_when_stopped()
    report = load(wanted.out)
    report |= {"machine": machine(), "limits": {"seconds": wanted.seconds, "gigabytes": wanted.gigabytes}}
    versions = versions_of(wanted.peers)
    for table in wanted.tables:
        measure_table(table, versions, wanted, report)


if __name__ == "__main__":
    main()
