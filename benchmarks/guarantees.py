"""Writes docs/guarantees.md from the JSON of the simulations that `make coverage` runs.

python benchmarks/guarantees.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "guarantees.md"

INTRODUCTION = """# Guarantees, and how often they held

Every promise about uncertainty was simulated where the truth is known. `make coverage` repeats all of it and writes
this page; the figures are in `benchmarks/results/`. A promise holds for tables like the simulated ones: look at the
settings.
"""

DISCOVERIES = """## False discoveries

`rule=FDR(q=0.1)`: 500 rows, 60 columns of which 15 act weakly, unless the name says otherwise; *few* is 4 of 24. FDR is
the mean share of false columns among the kept ones, with its standard error; it must not exceed q. Power is the share
of the acting columns that are kept. Time is that of a fit with the rule over that of a default fit.
The proof behind knockoffs asks for the columns' joint distribution, which is estimated: hence the simulations. Tests on
halves assume that a curve found in one half of the rows has a normal coefficient in the other.
[Discoveries](tutorials/discoveries.md) has the methods.
"""

BANDS = """## Bands

`effect_bands(X, level=0.95)`: four columns act, sixteen do not, columns are chosen by the default rule. *Points* is the
share of a curve's points within the limits, *whole* the share of curves that stay within those of `simultaneous=True`
from the 2.5 % to the 97.5 % quantile. Bands are refused with less than 3 observations' worth of information for each
degree of freedom, and called approximate below 5. [Bands](tutorials/bands.md) has what they are made of.
"""

INTERVALS = """## Prediction intervals and sets

`predict_interval(X, level=0.9)` and, for classes, `predict_set`: coverage of new rows, the smallest coverage among the
fifths of the predicted spread, and the same of a constant width. The left-out errors behind them are measured, not
proved: columns and smoothness were chosen with the row. `calibrate(X, y)` with rows that the fit has not seen has the
finite-sample guarantee of split conformal prediction: at least the level, on average over such samples.
[Intervals](tutorials/intervals.md) has more.
"""

AUDITS = """## Audits

`audit(X, y)`: a column that matters in 5 % of the rows alone was dropped; *found* counts the audits that flagged this
column in these rows, *any flag* those that flagged anything where nothing was harmed. [Auditing](tutorials/auditing.md)
says what is tested.
"""


def load(name: str) -> dict[str, Any]:
    """Return the JSON of a simulation, empty where it was not run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [" | ".join(heads), "|".join(["---"] * len(heads)), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines) + "\n"


def digits(value: float | None, places: int = 3) -> str:
    """Return a number without needless zeros before the point."""
    return "–" if value is None else f"{value:.{places}f}"


def discoveries() -> str:
    """Return the section about false discoveries."""
    rows: list[list[str]] = []
    for name, found in load("discoveries").items():
        low, high = found["q=0.1"], found["q=0.2"]
        rows.append(
            [
                name,
                str(found["repeats"]),
                f"{digits(low['fdr'])} ± {digits(low['error'])}",
                digits(low["power"], 2),
                f"{digits(high['fdr'])} ± {digits(high['error'])}",
                digits(high["power"], 2),
                digits(found.get("times_default"), 2),
            ]
        )
    heads = ("columns", "repeats", "FDR, q = 0.1", "power", "FDR, q = 0.2", "power", "time")
    return f"{DISCOVERIES}\n{table(heads, rows)}"


def bands() -> str:
    """Return the section about bands."""
    rows: list[list[str]] = []
    for path in sorted(RESULTS.glob("bands_*.json")):
        found = json.loads(path.read_text())
        for count, verdicts in found["rows"].items():
            for verdict, figures in verdicts.items():
                rows.append(
                    [
                        found["table"],
                        count,
                        verdict,
                        f"{figures['fits']} of {found['repeats']}",
                        digits(figures["information"], 1),
                        digits(figures.get("pointwise")),
                        digits(figures.get("whole")),
                    ]
                )
                if "weak_pointwise" in figures:
                    weak = [digits(figures[key]) for key in ("weak_pointwise", "weak_whole")]
                    rows.append(["… effects of size 0.15", count, verdict, f"{figures['weak_kept']} kept", "", *weak])
    heads = ("table", "rows", "verdict", "fits", "information", "points", "whole")
    return f"{BANDS}\n{table(heads, rows)}"


def intervals() -> str:
    """Return the section about intervals."""
    rows: list[list[str]] = []
    for name, found in load("intervals").items():
        auto, plain = found["auto"], found.get("plain", {})
        rows.append(
            [
                name,
                str(found["repeats"]),
                digits(auto["coverage"]),
                digits(min(auto["fifths"]) if "fifths" in auto else None),
                digits(plain.get("coverage")),
                digits(min(plain["fifths"]) if "fifths" in plain else None),
                digits(plain["width"] / auto["width"], 2) if "width" in plain else "–",
            ]
        )
    heads = ("table", "repeats", "coverage", "worst fifth", "constant width", "worst fifth", "its width / ours")
    text = f"{INTERVALS}\n{table(heads, rows)}"
    peers: list[list[str]] = []
    for name, found in load("intervals_peers").items():
        size = "width" if "width" in found["auto"] else "size"
        peers.append(
            [
                name,
                str(found["repeats"]),
                *(digits(found[kind]["coverage"]) if kind in found else "–" for kind in ("auto", "folds", "mapie")),
                digits(found["auto"][size] / found["mapie"][size], 2),
                *(digits(found["time"].get(kind), 2) for kind in ("auto", "folds", "mapie")),
            ]
        )
    heads = ("table", "repeats", "coverage", "cv=5", "mapie", "width / mapie's", "time", "cv=5", "mapie")
    beside = "Beside mapie's CV+ (classes: its least ambiguous sets) on the same estimator; times are over one fit.\n"
    return f"{text}\n{beside}\n{table(heads, peers)}" if peers else text


def audits() -> str:
    """Return the section about audits."""
    found = load("audits")
    rows = [
        [
            str(each["rows"]),
            each["family"],
            f"slope {each['slope']:g}" if part == "harm" else "no harm",
            f"{each['found' if part == 'harm' else 'audits_with_a_flag']} of {each['seeds']}",
        ]
        for part in ("harm", "null")
        for each in found.get(part, [])
    ]
    return f"{AUDITS}\n{table(('rows', 'family', 'planted', 'audits with a flag'), rows)}"


def main() -> None:
    """Write the page."""
    PAGE.write_text("\n".join([INTRODUCTION, discoveries(), bands(), intervals(), audits()]))
    print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
