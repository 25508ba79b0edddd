"""Writes docs/benchmarks_speed.md and its figures from the JSON of `bench.py`, `growth.py`, `wide_path.py`, `step.py`.

    python benchmarks/bench_page.py [--json FILE] [--print]

``--print`` shows the page and writes nothing; with ``--json`` it is of another file than benchmarks/results/bench.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench_summary import OURS, Row, rows_of
from guarantees import table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks_speed.md"
IMAGES = ROOT / "docs" / "images"

INTRODUCTION = """# Time and memory

Real tables are on [another page](benchmarks.md); this one is about nine tables with many more peers, and about growth.

`SNAMRegressor(random_state=seed)` or `SNAMClassifier(random_state=seed)` with nothing else set, the same with
`pairs=0`, which is *ours* below, and its peers: the same tables, random splits and number of cores, every fit in a
process of its own. `make bench` runs all of it, goes on where it was stopped, and writes this page; `make bench-quick`
tries every peer on small pieces of the tables in minutes; the figures are in `benchmarks/results/bench.json`, the
settings in `benchmarks/bench_peers.py`.
"""

MEASURES = """- **Seconds** are those of the fit with everything chosen, in the way that the library's authors offer: by
  cross-validation where there is one, else early stopping, else the defaults. To make numbers of categories, or splines
  for group lasso, counts too, and so does compiling; importing does not. Medians over splits; *×* is the median ratio
  to ours.
- **Loss** is the mean squared error or the log loss on rows that no fit has seen, *×* its ratio to ours on these rows.
- **Kept** counts the table's columns that the model reads, **false** those of them that do not matter, where that is
  known.
- **Memory** is the highest resident size up to the end of the fit over that before the data were read; further
  processes that a library starts count with all they hold. **Predicting** is timed on 10⁵ rows and on one.
- A library that fails, or needs more than {seconds:.0f} s or {gigabytes:.0f} GB, is shown so; *not run*: not tried.

LightGBM and XGBoost are no additive models: they say what is left to be gained by giving that up. EBM and sparsenam
with pairs stand between. DNAMite can drop columns, but by a strength that the user has to know. NAM is a loop over
networks in PyTorch. Group lasso fits cubic splines of each column, whose penalty shrinks what it keeps.
"""

GROWTH = """## Growth

The default fit on normal columns of which some act, one fit for each size (`make bench-growth`). The exponent is the
slope of log time, or log memory, over log size through the three largest sizes.
"""

AXIS_NAMES = {"rows": "rows", "columns": "columns", "kept": "columns that act", "alphas": "`n_alphas`"}

WIDE = """## The convex path on wide data

500 × 10,000 columns with 10 functions each, 30 alphas down to a tenth of the largest, one thread, the same design and
grid for all (`python benchmarks/wide_path.py`); this is the path alone, without folds and without the fit after it:
"""

STEP = """## One training step

24 sub-networks of 100-50 hidden units, batch 256, an Adam step, against a loop over 24 PyTorch networks with
`torch.optim.Adam` (`make bench-step`, medians of nine interleaved repeats):
"""

STEP_NOTE = """
The proximal step finds one root for each sub-network, in a metric with one number for each parameter; that is what it
costs more.
"""


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with ``digits`` significant digits, a dash for none."""
    if value is None:
        return "–"
    if value != 0 and abs(value) < 1:
        return f"{value:.{digits}g}"
    short = float(f"{value:.{digits}g}")
    return f"{short:,.0f}" if short >= 10 ** (digits - 1) else f"{short:.{digits}g}"


def ratio(value: float | None) -> str:
    return "" if value is None else number(value, 2)


def cells(row: Row) -> list[str]:
    """Return a row of a table's section."""
    name = f"**{row.label}**" if row.name == OURS else row.label
    name = f"{name}: {row.note}" if row.note else name
    if row.seconds is None:
        return [name, "–", "" if row.at_least is None else f"> {ratio(row.at_least)}", "–", *[""] * 6]
    return [
        name,
        number(row.seconds),
        ratio(row.times_seconds),
        number(row.loss, 4),
        "" if row.times_loss is None else f"{row.times_loss:.3f}",
        number(row.kept),
        "" if row.false is None else number(row.false),
        number(row.megabytes),
        number(row.predict_seconds),
        number(row.row_milliseconds),
    ]


def section(found: Mapping[str, Any], peers: Mapping[str, str]) -> str:
    """Return the section of one table; ``peers`` has the label of everyone who may stand in it."""
    loss = "MSE" if found["kind"] == "regression" else "log loss"
    heads = ("", "seconds", "×", loss, "×", "kept", "false", "MB", "10⁵ rows, s", "a row, ms")
    rows = rows_of(found, peers)
    ours = next((row for row in rows if row.name == OURS), None)
    lines = [cells(row) for row in rows]
    splits = max((len(entry["splits"]) for entry in found["peers"].values()), default=0)
    words = "one split" if splits == 1 else f"{splits} splits"
    if "rows" in found:
        words += f", {found['rows']:,} rows and {found['columns']:,} columns to train on"
    empty = (
        ""
        if ours is None or ours.empty_loss is None
        else f"; without columns the {loss} is {number(ours.empty_loss, 4)}"
    )
    published = f" The paper's SNAM, as published: {found['published']}." if found.get("published") else ""
    return f"### {sentence(found['caption'])}\n\n{words.capitalize()}{empty}.{published}\n\n{table(heads, lines)}"


def sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def machine_line(report: Mapping[str, Any]) -> str:
    """Return where the figures are from."""
    facts = report.get("machine", {})
    entries = [entry for found in report["tables"].values() for entry in found["peers"].values()]
    dates = sorted(record["date"] for entry in entries for record in entry["splits"].values())
    cores = sorted({entry["cores"] for entry in entries})
    if not dates:
        return "Nothing has been measured yet."
    busy = sum(record.get("busy", False) for entry in entries for record in entry["splits"].values())
    used = " and ".join(map(str, cores)) + (" core" if cores == [1] else " cores")
    note = f" Other work was running during {busy} of the {len(dates)} fits: these times are too long." if busy else ""
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    return f"{facts.get('cpu', 'unknown processor')}, {used}, {facts.get('gigabytes', 0):.0f} GB, no GPU; {when}.{note}"


def versions_line(report: Mapping[str, Any]) -> str:
    """Return the version of each library."""
    versions: dict[str, set[str]] = {}
    for found in report["tables"].values():
        for entry in found["peers"].values():
            versions.setdefault(entry["package"], set()).add(entry["version"])
    return "Versions: " + ", ".join(f"{name} {' and '.join(sorted(held))}" for name, held in versions.items()) + "."


def growth_section(report: Mapping[str, Any]) -> str:
    """Return time and memory by size, and the exponents."""
    lines: list[list[str]] = []
    for axis, found in report.get("axes", {}).items():
        fixed = ", ".join(
            f"{value:,} {'that act' if key == 'n_true' else key}" for key, value in found["fixed"].items()
        )
        fixed += f"; {found['cores']} {'core' if found['cores'] == 1 else 'cores'}, {found['date']}"
        for place, point in enumerate(found["points"]):
            name = f"{AXIS_NAMES[axis]} ({fixed})" if place == 0 else ""
            figures = (
                [point["refused"], ""] if "refused" in point else [number(point["seconds"]), number(point["megabytes"])]
            )
            lines.append([name, f"{point['size']:,}", *figures, str(point.get("kept", ""))])
        slopes = [number(found["exponents"].get(key), 2) for key in ("seconds", "megabytes")]
        lines.append(["", "**exponent**", *slopes, ""])
    if not lines:
        return ""
    return f"{GROWTH}\n{table(('', 'size', 'seconds', 'MB', 'kept'), lines)}"


def wide_section(report: Mapping[str, Any]) -> str:
    """Return the solvers of the convex path."""
    labels = {"ours": "sparsenam", "adelie": "adelie", "skglm": "skglm"}
    lines = [
        [label, number(statistics.median(found["seconds"])), f"{found['objective']:.8f}"]
        for name, label in labels.items()
        if (found := report.get("results", {}).get(name))
    ]
    return f"{WIDE}\n{table(('solver', 'seconds', 'last objective'), lines)}" if lines else ""


def step_section(report: Mapping[str, Any]) -> str:
    """Return the time of a training step."""
    if not report:
        return ""
    names = {"loop": "loop", "bank": "bank, Adam", "bank, proximal": "bank, proximal Adam in Adam's metric"}
    lines = [
        [
            label,
            number(report["milliseconds a step (time)"][key]),
            number(report["times faster than the loop (time)"][key], 2),
        ]
        for key, label in names.items()
    ]
    return f"{STEP}\n{table(('', 'milliseconds a step', 'times faster than the loop'), lines)}{STEP_NOTE}"


def page(bench: Mapping[str, Any], growth: Mapping[str, Any], wide: Mapping[str, Any], step: Mapping[str, Any]) -> str:
    """Return the whole page."""
    limits = {"seconds": 600.0, "gigabytes": 12.0} | bench.get("limits", {})
    peers: dict[str, str] = {}
    for found in bench["tables"].values():
        peers |= {name: entry["label"] for name, entry in found["peers"].items()}
    parts = [INTRODUCTION, f"{machine_line(bench)}\n", MEASURES.format(**limits)]
    if bench["tables"]:
        parts += [figures_part(), "## Table by table\n"]
        parts += [section(found, peers) for found in bench["tables"].values()]
        parts.append(f"{versions_line(bench)}\n")
    parts += [growth_section(growth), wide_section(wide), step_section(step)]
    return "\n".join(part for part in parts if part)


def figures_part() -> str:
    return (
        "## At a glance\n\nTime of the fit over ours:\n\n![time over ours](images/bench_seconds.svg)\n\n"
        "Loss on fresh rows over ours:\n\n![loss over ours](images/bench_loss.svg)\n"
    )


def load(path: Path, **empty: Any) -> dict[str, Any]:
    """Return a JSON file, or what stands for one that is not there."""
    return json.loads(path.read_text()) if path.exists() else dict(empty)


def files(names: Iterable[str]) -> list[dict[str, Any]]:
    return [load(RESULTS / f"{name}.json") for name in names]


def main() -> None:
    """Write the page and its figures."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--json", type=Path, default=RESULTS / "bench.json")
    parser.add_argument("--print", action="store_true", dest="prints")
    wanted = parser.parse_args()
    bench = load(wanted.json, machine={}, tables={})
    text = page(bench, *files(("growth", "wide_path", "step")))
    if wanted.prints:
        print(text)
        return
    from bench_figures import draw_ratios

    PAGE.write_text(text, encoding="utf-8")
    if bench["tables"]:
        draw_ratios(bench, "times_seconds", IMAGES / "bench_seconds.svg")
        draw_ratios(bench, "times_loss", IMAGES / "bench_loss.svg")


if __name__ == "__main__":
    main()
