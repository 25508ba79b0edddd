"""Sizes of effects: of all features, and of the cells of one row, as horizontal bars."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sparsenam.errors import InputError, describe
from sparsenam.explain.charts import MEASURES, MOST_STEPS, Measure, shown_output, waterfall
from sparsenam.explain.drawing import BLACK, BLUE, VERMILLION
from sparsenam.explain.explanation import Explanation
from sparsenam.explain.local import LocalExplanation
from sparsenam.explain.plots.sheet import (
    FONT,
    Panel,
    not_empty,
    one_panel,
    plain,
    use_ticks,
    write_beside,
)
from sparsenam.explain.text import number_text, shorten, signed_text


def plot_importance(
    explanation: Explanation, features: int = 30, *, measure: Measure = "mean_absolute", ax: object | None = None
) -> Figure:
    """Draw the size of each effect as a bar, the largest first.

    Parameters
    ----------
    features
        The most bars.
    measure
        "mean_absolute", the mean size of the effect over the rows, or "variation", its max - min.
    ax
        Axes of the caller's; by default a new figure.
    """
    if measure not in MEASURES:
        raise InputError(describe("measure", f"one of {sorted(MEASURES)}", repr(measure), "choose one"))
    not_empty("plot_importance", len(explanation.features))
    largest = sorted(explanation.features, key=lambda feature: -getattr(feature, measure))[:features]
    lengths = [float(getattr(feature, measure)) for feature in largest]
    sheet, panel = one_panel("plot_importance", ax, 6.0, 1.1 + 0.26 * len(largest))
    panel.barh(np.arange(len(largest)), lengths, 0.7, color=BLUE)
    longest = max(lengths) or 1.0
    for row, length in enumerate(lengths):
        write_beside(panel, length + 0.01 * longest, row, number_text(length, 3))
    panel.set_xlim(0.0, 1.12 * longest)
    _name_rows(panel, [plain(feature.name, 34) for feature in largest])
    panel.set_xlabel(f"{MEASURES[measure]} ({plain(explanation.units, 60)})", fontsize=FONT)
    kept, dropped = len(explanation.features), len(explanation.dropped)
    most = f"the {len(largest)} largest of {kept} effects" if len(largest) < kept else f"{kept} columns kept"
    sheet.title(f"{most}, {dropped} dropped")
    return sheet.figure


def plot_local(
    local: LocalExplanation,
    row: int = 0,
    *,
    output: str | None = None,
    features: int = MOST_STEPS,
    ax: object | None = None,
) -> Figure:
    """Draw how a row's score comes about: from the intercept, each column adds its share, the largest first.

    Parameters
    ----------
    row
        Which of the explained rows, counted from 0.
    output
        Which output; by default the one with the highest score.
    features
        The most columns drawn one by one; the others are one bar together.
    ax
        Axes of the caller's; by default a new figure.
    """
    not_empty("plot_local", len(local.rows))
    if not -len(local.rows) <= row < len(local.rows):
        raise InputError(describe("row", f"a number below {len(local.rows)}", str(row), "explain more rows"))
    explained = local.rows[row]
    index = shown_output(local, explained, output)
    steps = waterfall(explained, index, features)
    intercept, score = explained.intercept[index], explained.score[index]
    sheet, panel = one_panel("plot_local", ax, 6.0, 1.5 + 0.28 * (len(steps) + 1))
    ends = [intercept, score, *(step.stop for step in steps)]
    low, span = min(ends), (max(ends) - min(ends)) or 1.0
    for bar, step in enumerate(steps):
        share = step.stop - step.start
        panel.barh([bar], [share], 0.66, left=[step.start], color=BLUE if share >= 0 else VERMILLION)
        panel.plot([step.stop] * 2, [bar, bar + 1], color="0.6", linewidth=0.7, linestyle="-")
        write_beside(panel, max(step.start, step.stop) + 0.015 * span, bar, signed_text(share))
    panel.plot([score], [len(steps)], color=BLACK, linestyle="", marker="D", markersize=5.0)
    panel.axvline(intercept, color="0.5", linewidth=0.8, linestyle=":")
    panel.set_xlim(low - 0.06 * span, low + 1.16 * span)
    names = [f"{shorten(step.name, 28)} = {shorten(step.value, 14)}" if step.value else step.name for step in steps]
    _name_rows(panel, [plain(name, 44) for name in (*names, f"score {number_text(score)}")])
    start = f"dotted: {number_text(intercept)}, {local.reference.split(':')[0]}"
    panel.set_xlabel(f"{plain(local.units, 60)}\n{plain(start, 60)}", fontsize=FONT)
    several = f" of {local.outputs[index]}" if len(local.outputs) > 1 else ""
    prediction = number_text(explained.prediction[index])
    sheet.title(f"row {explained.row}: score{several} {number_text(score)}, prediction {prediction}")
    return sheet.figure


def _name_rows(panel: Panel, names: list[str]) -> None:
    """Write names beside the bars, from the top down."""
    panel.grid(False, axis="y")
    panel.set_yticks(np.arange(len(names)), labels=names)
    panel.set_ylim(len(names) - 0.4, -0.7)
    use_ticks(panel, "x")
