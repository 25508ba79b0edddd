"""The figures of docs/benchmarks.md: a coloured table of ratios to ours. The same JSON gives the same file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from bench_summary import OURS, rows_of

matplotlib.use("Agg")
import matplotlib.pyplot as plt

LIMITS = {"times_seconds": 100.0, "times_loss": 3.0}  # ratios at which the colours end


def ratios_of(bench: Mapping[str, Any], measure: str) -> tuple[list[str], list[str], np.ndarray]:
    """Return the labels of peers, the names of tables, and ratios (peers, tables), NaN where there is none."""
    peers: dict[str, str] = {}
    for found in bench["tables"].values():
        peers |= {name: entry["label"] for name, entry in found["peers"].items()}
    columns = [rows_of(found, peers) for found in bench["tables"].values()]
    values = np.array([[getattr(row, measure) for row in rows] for rows in columns], dtype=float).T
    kept = [place for place, row in enumerate(columns[0]) if row.name != OURS]
    return [columns[0][place].label for place in kept], list(bench["tables"]), values[kept]


def words_of(value: float, least: float) -> str:
    """Return a ratio with two digits, a bound for one that was stopped, a dash where nothing is known."""
    known = value if np.isfinite(value) else least
    if np.isnan(known):
        return "–"
    short = float(f"{known:.2g}")
    return ("" if np.isfinite(value) else "> ") + (f"{short:,.0f}" if short >= 10 else f"{short:g}")


def draw_ratios(bench: Mapping[str, Any], measure: str, path: Path) -> None:
    """Draw the ratios of all peers: green cells are better with us, pink ones with the peer, grey has no result."""
    labels, tables, values = ratios_of(bench, measure)
    # one that was stopped has used at least so many times our time
    least = ratios_of(bench, "at_least")[2] if measure == "times_seconds" else np.full(values.shape, np.nan)
    reach = np.log(LIMITS[measure])
    settings = {"svg.hashsalt": "sparsenam", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 8}
    with plt.rc_context(settings):
        figure, axes = plt.subplots(figsize=(1.6 + 0.72 * len(tables), 0.7 + 0.24 * len(labels)), layout="constrained")
        colours = plt.get_cmap("PiYG").with_extremes(bad="#dddddd")
        shades = np.ma.masked_invalid(np.log(np.where(np.isnan(values), least, values)) / reach)
        axes.pcolormesh(shades, cmap=colours, vmin=-1.4, vmax=1.4, edgecolors="white", linewidth=1)
        for (row, column), value in np.ndenumerate(values):
            words = words_of(value, least[row, column])
            axes.text(column + 0.5, row + 0.5, words, ha="center", va="center")
        axes.set_xticks(np.arange(len(tables)) + 0.5, tables, rotation=30, ha="left")
        axes.set_yticks(np.arange(len(labels)) + 0.5, labels)
        axes.xaxis.tick_top()
        axes.invert_yaxis()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
