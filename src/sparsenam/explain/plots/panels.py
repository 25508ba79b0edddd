"""How the model came about (path, cross-validation, training), and the sizes of effects, of all rows or of one."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.explain import charts
from sparsenam.explain.drawing import BLACK, BLUE, ORANGE, VERMILLION, Axis, alpha_axis, pen
from sparsenam.explain.explanation import Explanation
from sparsenam.explain.local import LocalExplanation
from sparsenam.explain.plots import sheet as sheets
from sparsenam.explain.plots.sheet import FONT, SMALL, Panel, numbers, one_panel, plain
from sparsenam.text import count_text, number_text, shorten, signed_text

Part = TypeVar("Part")
LABEL_HEIGHT = 0.052  # of a panel: the least distance between two names
SIZE_DISTANCE = 0.035  # of a panel: the least distance between two numbers of columns


def plot_path(explanation: Explanation, labels: int = 10, *, ax: object | None = None) -> Figure:
    """Draw each column's norm against alpha, from the empty model on the left; the dotted line is the alpha taken.

    Parameters
    ----------
    labels
        How many of the largest get a colour and a name; the others are grey.
    ax
        The caller's own axes to draw on; by default a new figure.
    """
    path = _known(charts.path_lines(explanation, labels), "plot_path", "a path")
    sheet, panel = one_panel("plot_path", ax, 6.4, 3.8)
    for column in path.order[len(path.named) :]:
        panel.plot(path.alphas, path.norms[:, column], color="0.8", linestyle="-", linewidth=0.8)
    for number, column in enumerate(path.named):
        look = pen(number)
        panel.plot(path.alphas, path.norms[:, column], color=look.colour, linestyle=look.style, linewidth=1.4)
    if path.taken is not None:
        panel.axvline(path.taken, color="0.3", linewidth=0.9, linestyle=":")
    highest = 1.05 * float(path.norms.max(initial=0.0)) or 1.0
    panel.set_ylim(0.0, highest)
    _lay_out(panel, path.alphas, charts.NORM_LABEL)
    heights = charts.spread(path.norms[-1, path.named] / highest, LABEL_HEIGHT)
    for number, (column, height) in enumerate(zip(path.named, heights, strict=True)):
        look = {"transform": panel.get_yaxis_transform(), "fontsize": SMALL, "color": pen(number).colour}
        name = plain(path.names[column], 24)
        panel.text(1.015, height * highest, name, verticalalignment="center", **look)
    sheet.title(f"path: {count_text(len(path.names), 'column')} entered")
    return sheet.figure


def plot_curve(explanation: Explanation, *, ax: object | None = None) -> Figure:
    """Draw the held-out loss with one standard error against alpha, the best point and the one taken marked.

    Numbers along the top are the numbers of columns kept.
    """
    curve = _known(charts.loss_curve(explanation), "plot_curve", "a cross-validation curve")
    _known(curve.marks, "plot_curve", "a chosen point")
    mean, error = curve.mean, curve.error
    sheet, panel = one_panel("plot_curve", ax, 6.0, 3.6)
    panel.fill_between(curve.alphas, mean - error, mean + error, color=BLUE, alpha=0.18, linewidth=0.0)
    panel.plot(curve.alphas, mean, color=BLUE, linestyle="-", linewidth=1.4, marker="o", markersize=2.5)
    handles: list[Artist] = []
    for index, text in curve.marks:
        colour, mark = (ORANGE, "*") if text == "best" else (VERMILLION, "D")
        look = {"color": colour, "linestyle": "", "marker": mark, "markersize": 8.0}
        handles += panel.plot([curve.alphas[index]], [mean[index]], **look)
    panel.axvline(float(curve.alphas[curve.marks[-1][0]]), color=VERMILLION, linewidth=0.8, linestyle=":")
    panel.set_ylim(None, float((mean + error).max() + 0.12 * (np.ptp(mean) or 1.0)))
    axis = _lay_out(panel, curve.alphas, charts.LOSS_LABEL)
    for alpha, text in () if axis is None else curve.size_labels(axis, SIZE_DISTANCE):
        look = {"transform": panel.get_xaxis_transform(), "fontsize": SMALL, "color": "0.35"}
        panel.text(alpha, 0.99, text, horizontalalignment="center", verticalalignment="top", **look)
    sheet.legend(handles, curve.legend(), columns=2)
    sheet.title("cross-validation: mean loss and one standard error")
    return sheet.figure


def plot_history(explanation: Explanation, *, ax: object | None = None) -> Figure:
    """Draw loss, and loss plus penalty where there is one, against epochs."""
    history = [epoch for epoch in explanation.history if epoch.get("loss") is not None]
    if not history:
        remedy = "explain a model that was trained, or look at plot_curve"
        raise InputError(describe("plot_history", "a history", "an explanation without one", remedy))
    epochs = numbers([epoch.get("epoch", index) for index, epoch in enumerate(history)])
    loss = numbers([epoch["loss"] for epoch in history])
    penalty = numbers([epoch.get("penalty") or 0.0 for epoch in history])
    sheet, panel = one_panel("plot_history", ax, 6.0, 3.4)
    look = {"linewidth": 1.4, "marker": "o" if len(history) <= 12 else "", "markersize": 4.0}
    labels = ["loss"]
    handles: list[Artist] = [*panel.plot(epochs, loss, color=BLUE, linestyle="-", **look)]
    if penalty.any():
        handles += panel.plot(epochs, loss + penalty, color=VERMILLION, linestyle="--", **look)
        labels.append("loss + penalty")
    if len(history) <= 12:
        panel.set_xticks(epochs)
    sheets.use_ticks(panel, "y", about=7)
    panel.set_xlabel("epoch", fontsize=FONT)
    panel.set_ylabel("objective on the training rows", fontsize=FONT)
    sheet.legend(handles, labels, columns=2)
    terms = history[-1].get("terms")
    sheet.title("training" if terms is None else f"training, {terms:.0f} terms at the end")
    return sheet.figure


def _lay_out(panel: Panel, alphas: NDArray[np.float64], height: str) -> Axis | None:
    """Let alpha fall from left to right, on a log axis where there are several, and label both axes."""
    axis = alpha_axis(alphas)
    if axis is not None:
        sheets.use_log(panel, "x", (axis.low, axis.high))
    sheets.use_ticks(panel, "y", about=7)
    panel.set_xlabel(charts.ALPHA_LABEL, fontsize=FONT)
    panel.set_ylabel(height, fontsize=FONT)
    return axis


def _known(part: Part | None, where: str, what: str) -> Part:
    if not part:
        got, remedy = "an explanation without one", 'fit with alpha="auto"'
        raise InputError(describe(where, what, got, remedy))
    return part


def plot_importance(
    explanation: Explanation,
    features: int = 30,
    *,
    measure: charts.Measure = "mean_absolute",
    ax: object | None = None,
) -> Figure:
    """Draw the size of each effect as a bar, the largest first; pairs are among the columns.

    Parameters
    ----------
    features
        The most bars.
    measure
        "mean_absolute", the mean size of the effect over the rows, or "variation", its max - min.
    ax
        The caller's own axes to draw on; by default a new figure.
    """
    if measure not in charts.MEASURES:
        raise InputError(describe("measure", f"one of {sorted(charts.MEASURES)}", repr(measure), "choose one"))
    sheets.not_empty("plot_importance", len(explanation.features))
    effects = (*explanation.features, *explanation.pairs)
    largest = sorted(effects, key=lambda feature: -getattr(feature, measure))[:features]
    lengths = [float(getattr(feature, measure)) for feature in largest]
    sheet, panel = one_panel("plot_importance", ax, 6.0, 1.1 + 0.26 * len(largest))
    panel.barh(np.arange(len(largest)), lengths, 0.7, color=BLUE)
    longest = max(lengths) or 1.0
    for row, length in enumerate(lengths):
        sheets.write_beside(panel, length + 0.01 * longest, row, number_text(length, 3))
    panel.set_xlim(0.0, 1.12 * longest)
    _name_rows(panel, [plain(feature.name, 34) for feature in largest])
    panel.set_xlabel(f"{charts.MEASURES[measure]} ({plain(explanation.units, 60)})", fontsize=FONT)
    kept, dropped = len(explanation.features), len(explanation.dropped)
    pairs = f" and {count_text(len(explanation.pairs), 'pair')}" if explanation.pairs else ""
    some = f"the {len(largest)} largest of {len(effects)} effects"
    most = some if len(largest) < len(effects) else f"{kept} columns{pairs} kept"
    sheet.title(f"{most}, {dropped} dropped")
    return sheet.figure


def plot_local(
    local: LocalExplanation,
    row: int = 0,
    *,
    output: str | None = None,
    features: int = charts.MOST_STEPS,
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
        The caller's own axes to draw on; by default a new figure.
    """
    sheets.not_empty("plot_local", len(local.rows))
    if not -len(local.rows) <= row < len(local.rows):
        raise InputError(describe("row", f"a number below {len(local.rows)}", str(row), "explain more rows"))
    explained = local.rows[row]
    index = charts.shown_output(local, explained, output)
    steps = charts.waterfall(explained, index, features)
    intercept, score = explained.intercept[index], explained.score[index]
    sheet, panel = one_panel("plot_local", ax, 6.0, 1.5 + 0.28 * (len(steps) + 1))
    ends = [intercept, score, *(step.stop for step in steps)]
    low, span = min(ends), (max(ends) - min(ends)) or 1.0
    for bar, step in enumerate(steps):
        share = step.stop - step.start
        panel.barh([bar], [share], 0.66, left=[step.start], color=BLUE if share >= 0 else VERMILLION)
        panel.plot([step.stop] * 2, [bar, bar + 1], color="0.6", linewidth=0.7, linestyle="-")
        sheets.write_beside(panel, max(step.start, step.stop) + 0.015 * span, bar, signed_text(share))
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
    sheets.use_ticks(panel, "x")
