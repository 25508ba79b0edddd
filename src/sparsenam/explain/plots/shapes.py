"""Each effect over the density of its data, alone or beside the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from sparsenam.errors import InputError, describe
from sparsenam.explain import charts
from sparsenam.explain.drawing import BLACK, BLUE, ORANGE, PENS, Axis, Pen, pen
from sparsenam.explain.explanation import POINTWISE, Explanation, Feature
from sparsenam.explain.plots import sheet as sheets
from sparsenam.explain.plots.sheet import Panel, numbers, plain
from sparsenam.text import abbreviations

LEVEL_LETTERS = 12
LETTERS_IN_A_ROW = 26  # names of levels that fit side by side under a panel
MISSING_AT = 0.1  # of the range in view, to the right of it
MARGIN = 0.03  # of the range, on either side
NAME_LETTERS = 30  # of a line under a panel
DENSITY_HEIGHT = 0.2  # of a panel
DENSITY_ROOM = 0.36  # of the range of effects, below them
GREY = "0.80"


def plot_shapes(
    explanation: Explanation,
    features: Sequence[str] | int | None = None,
    *,
    outputs: Sequence[str] | None = None,
    axes: object | None = None,
    share_y: bool = True,
) -> Figure:
    """Draw effects, one panel a feature, the largest first; grey at the bottom is how often values occur.

    Numbers and dates are lines, categories bars, levels in order dots on a line; a missing cell's effect is a
    diamond apart. Of several outputs, each has a colour of its own.

    Parameters
    ----------
    features
        Names of the features to draw, or how many of the largest; by default all.
    outputs
        Names of the outputs to draw; by default all, of more than seven the seven with the largest effects.
    axes
        The caller's own axes to draw on, one per feature; by default a new figure.
    share_y
        Whether all panels of a new figure have one scale, so that heights can be compared.
    """
    shown = charts.named_features(explanation, features)
    indices = charts.named_outputs(explanation, outputs, PENS)
    pens = {index: Pen(BLUE, "-", "o") if len(explanation.outputs) == 1 else pen(index) for index in indices}
    sheet = sheets.grid_sheet("plot_shapes", axes, len(shown), share_y=share_y)
    together = charts.effect_axis(shown, indices, margin=0.0)
    for panel, feature in zip(sheet.panels, shown, strict=False):
        panel.axhline(0.0, color="0.55", linewidth=0.7, zorder=1.0)
        (_draw_levels if charts.has_levels(feature) else _draw_curve)(panel, feature, pens)
        note = charts.levels_note(feature)
        name = f"{feature.name} ({note})" if note else feature.name
        panel.set_xlabel(sheets.wrapped(name, NAME_LETTERS), fontsize=sheets.FONT)
        heights = together if share_y and sheet.new else charts.effect_axis([feature], indices, margin=0.0)
        span = heights.high - heights.low  # the bottom of the panel is left to the density
        panel.set_ylim(heights.low - DENSITY_ROOM * span, heights.high + 0.1 * span)
        sheets.use_ticks(panel, "y", about=3)
    _write_legend(sheet, explanation, shown, pens)
    sheet.height_label(charts.effect_label(explanation.units))
    sheet.title(_title(explanation, len(shown), features))
    return sheet.figure


def _draw_curve(panel: Panel, feature: Feature, pens: Mapping[int, Pen]) -> None:
    curve = feature.curve
    if curve is None:
        return
    axis = charts.axis_of(feature, whole=False)
    curve = charts.bent(feature).curve or curve
    if axis.kind == "skewed":
        sheets.use_skewed(panel, axis)
    if (density := feature.density) is not None:
        edges = numbers(density.edges)
        _draw_counts(panel, edges[:-1], charts.density_heights(density, axis), np.diff(edges), align="edge")
    x, effect = charts.curve_within(curve, axis)
    for output, look in pens.items() if len(pens) == 1 else ():  # the bands of several would hide each other
        for lower, upper in charts.curve_bands(curve, output):
            limits = (np.interp(x, curve.x, lower), np.interp(x, curve.x, upper))
            panel.fill_between(x, *limits, color=look.colour, alpha=0.15, linewidth=0.0)
    for output, look in pens.items():
        panel.plot(x, effect[:, output], color=look.colour, linestyle=look.style, linewidth=1.5)
    for start, stop in charts.thin_spans(feature):  # pale where hardly any rows speak for the curve
        panel.axvspan(start, stop, color="white", alpha=0.6, linewidth=0.0, zorder=2.5)
    sheets.use_ticks(panel, "x", axis.kind, about=4, unit=axis.unit)
    first, last = axis.place(axis.low), axis.place(axis.high)
    margin = MARGIN * (last - first)
    low, high = first - margin, last + margin
    if feature.missing is None:
        panel.set_xlim(axis.value_at(low), axis.value_at(high))
        return
    panel.axvline(axis.value_at(high), color="0.7", linewidth=0.6, linestyle=":")
    panel.set_xlim(axis.value_at(low), axis.value_at(high + 1.6 * MISSING_AT * (high - low)))
    _draw_missing(panel, axis, high + MISSING_AT * (high - low), feature.missing.effect, pens)


def _draw_levels(panel: Panel, feature: Feature, pens: Mapping[int, Pen]) -> None:
    levels = charts.drawn_levels(feature)
    positions = np.arange(float(len(levels)))
    counts = numbers([level.count for level in levels])
    _draw_counts(panel, positions, counts / (counts.max(initial=0.0) or 1.0), 0.9, align="center")
    present = levels if feature.missing is None else levels[:-1]
    effect, at = numbers([level.effect for level in present]), positions[: len(present)]
    if len(pens) == 1 and (feature.kind != "ordered" or len(present) < 2):
        ((output, look),) = pens.items()
        panel.bar(at, effect[:, output] if len(present) else at, 0.62, color=look.colour, zorder=2.0)
        for place, level in zip(at, present, strict=True):
            if level.deviation is not None:
                middle, half = level.effect[output], POINTWISE * level.deviation[output]
                panel.plot([place] * 2, [middle - half, middle + half], color="0.15", linewidth=1.0, linestyle="-")
    elif len(present):
        joined = feature.kind == "ordered"
        offsets = np.zeros(len(pens)) if joined else np.linspace(-0.25, 0.25, len(pens))
        for offset, (output, look) in zip(offsets, pens.items(), strict=True):
            style = {"linestyle": look.style if joined else "", "linewidth": 1.2, "markersize": 4.5}
            panel.plot(at + offset, effect[:, output], color=look.colour, marker=look.mark, **style)
    names = abbreviations([level.name for level in levels], LEVEL_LETTERS)
    # half a level's room on either side, so that a single bar does not fill the panel
    panel.set_xlim(-0.75, len(names) - 0.25)
    slanted = {"rotation": 40.0, "horizontalalignment": "right", "rotation_mode": "anchor"}
    fits = len(names) * max(map(len, names), default=0) <= LETTERS_IN_A_ROW
    panel.set_xticks(positions, [plain(name, LEVEL_LETTERS) for name in names], **({} if fits else slanted))
    if feature.missing is not None:
        _draw_missing(panel, Axis(0.0, 1.0), float(len(present)), feature.missing.effect, pens)


def _draw_missing(panel: Panel, axis: Axis, place: float, effect: Sequence[float], pens: Mapping[int, Pen]) -> None:
    """Draw the effect of a missing cell as a diamond for each output, side by side about a place on an axis."""
    low, high = (axis.place(float(end)) for end in panel.get_xlim())
    offsets = np.linspace(-0.02, 0.02, len(pens)) if len(pens) > 1 else np.zeros(1)
    look = {"linestyle": "", "marker": "D", "markersize": 5.0, "markerfacecolor": "white", "zorder": 3.0}
    for offset, (output, look_of) in zip(offsets, pens.items(), strict=True):
        panel.plot([axis.value_at(place + offset * (high - low))], [effect[output]], color=look_of.colour, **look)


def _draw_counts(panel: Panel, x: ArrayLike, heights: ArrayLike, widths: ArrayLike, *, align: str) -> None:
    """Draw grey bars at the bottom of a panel, over the grid and under the curve."""
    look = {"align": align, "color": GREY, "transform": panel.get_xaxis_transform(), "zorder": 0.6}
    panel.bar(x, DENSITY_HEIGHT * numbers(heights), widths, **look)


def _write_legend(
    sheet: sheets.Sheet, explanation: Explanation, shown: Sequence[Feature], pens: Mapping[int, Pen]
) -> None:
    handles: list[Artist] = []
    labels: list[str] = []
    if len(explanation.outputs) > 1:
        for output, look in pens.items():
            handles.append(Line2D([], [], color=look.colour, linestyle=look.style, marker=look.mark, markersize=4))
            labels.append(plain(explanation.outputs[output], 20))
    if any(feature.missing is not None for feature in shown):
        handles.append(Line2D([], [], color=BLACK, linestyle="", marker="D", markersize=5, markerfacecolor="white"))
        labels.append("a missing cell")
    if handles:
        sheet.legend(handles, labels, columns=min(4, len(handles)))


def _title(explanation: Explanation, shown: int, features: Sequence[str] | int | None) -> str:
    kept, dropped = len(explanation.features), len(explanation.dropped)
    by_name = features is not None and not isinstance(features, int)
    effects = f"{shown} effect{'s' if shown > 1 else ''}"
    count = f"the {shown} largest of {kept} effects" if shown < kept and not by_name else effects
    return f"{count}, {dropped} of {kept + dropped} columns dropped"


def plot_truth(
    explanation: Explanation,
    truth: Mapping[str, tuple[ArrayLike, ArrayLike]],
    features: Sequence[str] | None = None,
    *,
    axes: object | None = None,
) -> Figure:
    """Draw each effect (full line) over the truth (broken line), one panel a feature, all to one scale.

    Parameters
    ----------
    truth
        For each feature x and its true effect at the rows of the data, shapes (rows,); its mean is taken off, as
        that of the effect is. A feature that the model dropped is marked.
    features
        Which features to draw, and in which order; by default all of ``truth``.
    axes
        The caller's own axes to draw on, one per feature; by default a new figure.
    """
    names = list(truth if features is None else features)
    unknown = [name for name in names if name not in truth]
    if unknown:
        raise InputError(describe("features", f"some of {list(truth)}", repr(unknown[0]), "give its truth"))
    if len(explanation.outputs) > 1:
        raise InputError(describe("plot_truth", "one output", str(len(explanation.outputs)), "use plot_shapes"))
    sheet = sheets.grid_sheet("plot_truth", axes, len(names), share_y=True)
    handles: list[Artist] = []
    for panel, name in zip(sheet.panels, names, strict=False):
        handles = _draw_truth(panel, explanation, name, *truth[name])
    sheet.legend(handles, ["fit", "truth"], columns=2)
    sheet.height_label(charts.effect_label(explanation.units))
    sheet.title("effects and truth")
    return sheet.figure


def _draw_truth(panel: Panel, explanation: Explanation, name: str, x: ArrayLike, effect: ArrayLike) -> list[Artist]:
    sheets.same_length(f"the truth of {name!r}", x=x, effect=effect)
    x, heights = numbers(x), numbers(effect)
    order = np.argsort(x, kind="stable")
    x, heights = x[order], (heights - heights.mean())[order]
    (true_line,) = panel.plot(x, heights, color=ORANGE, linestyle="--", linewidth=2.8)
    kept = next((feature for feature in explanation.features if feature.name == name), None)
    if kept is not None and kept.curve is not None:
        curve = numbers(kept.curve.x), numbers(kept.curve.effect)[:, 0]
    else:
        curve = x[[0, -1]], np.zeros(2)
    (line,) = panel.plot(*curve, color=BLUE, linestyle="-", linewidth=1.2)
    if kept is None:
        sheets.say_dropped(panel, (0.5, 0.95), inside=True)
    panel.margins(x=MARGIN)
    sheets.use_ticks(panel, "x", "date" if kept is not None and kept.kind == "date" else "number")
    sheets.use_ticks(panel, "y", about=3)
    panel.set_xlabel(plain(name), fontsize=sheets.FONT)
    return [line, true_line]
