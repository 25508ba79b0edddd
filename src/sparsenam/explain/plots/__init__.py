"""Pictures of explanations, on new figures or on the caller's own axes; `explain.charts` describes what they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import uniform_filter

from sparsenam.errors import InputError, describe
from sparsenam.explain import charts
from sparsenam.explain.drawing import BLUE, PENS, VERMILLION, Axis, axis_over
from sparsenam.explain.explanation import Explanation, Pair
from sparsenam.explain.local import LocalExplanation
from sparsenam.explain.plots.canvas import FONT, SMALL_FONT, Panel, draw, lay_out, sheet
from sparsenam.explain.shapes import effect_axis, named_features, named_outputs
from sparsenam.explain.surfaces import Surface, chosen_pair, surface
from sparsenam.text import count_text, number_text, pair_text

__all__ = [
    "plot_curve",
    "plot_history",
    "plot_importance",
    "plot_local",
    "plot_pair",
    "plot_path",
    "plot_shapes",
    "plot_truth",
]

Part = TypeVar("Part")
SMALL_PANEL = (2.4, 2.0)  # inches
COUNTS_ROOM, ROOM = 0.36, 0.1  # of the range of effects: below them for the bars of counts, and above
COLOURS = LinearSegmentedColormap.from_list("minus_plus", [VERMILLION, "#ffffff", BLUE])
PLOT_CELLS = 120  # along each axis of numbers of a map
CONTOURS, CALM = 7, 5  # lines at most; cells over which a surface is averaged before they are drawn
FAINTEST = 0.25  # of a colour where there are no rows
LABELLED = 60  # cells of levels that have their numbers written in, at most


def plot_shapes(
    explanation: Explanation,
    features: Sequence[str] | int | None = None,
    *,
    outputs: Sequence[str] | None = None,
    axes: object | None = None,
    share_y: bool = True,
) -> Figure:
    """Draw effects, one panel a feature, the largest first; grey bars at the bottom show where the rows are.

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
    shown, indices = named_features(explanation, features), named_outputs(explanation, outputs, PENS)
    made = sheet("plot_shapes", axes, len(shown), SMALL_PANEL, share_y=share_y)
    together = effect_axis(shown, indices, margin=0.0)
    names = explanation.outputs if len(explanation.outputs) > 1 else ()
    for panel, feature in zip(made.panels, shown, strict=True):
        heights = together if share_y and made.new else effect_axis([feature], indices, margin=0.0)
        span = heights.high - heights.low
        upward = Axis(heights.low - COUNTS_ROOM * span, heights.high + ROOM * span)
        panel.axhline(0.0, color="0.55", linewidth=0.7, zorder=1.0)
        draw(panel, replace(charts.shape_chart(feature, indices, names), upward=upward), about=(4, 3))
    kept, dropped = len(explanation.features), len(explanation.dropped)
    by_name = features is not None and not isinstance(features, int)
    some = f"the {len(shown)} largest of {kept} effects"
    count = some if len(shown) < kept and not by_name else count_text(len(shown), "effect")
    title = f"{count}, {dropped} of {kept + dropped} columns dropped"
    return made.finish(title, charts.effect_label(explanation.units))


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
    made = sheet("plot_truth", axes, len(names), SMALL_PANEL, share_y=True)
    for panel, name in zip(made.panels, names, strict=True):
        chart = charts.truth_chart(explanation, name, *truth[name])
        draw(panel, chart, about=(4, 3))
        if chart.title:
            centred = {"horizontalalignment": "center", "verticalalignment": "top"}
            panel.text(
                0.5, 0.95, chart.title, transform=panel.transAxes, fontsize=SMALL_FONT, style="italic", **centred
            )
    return made.finish("effects and truth", charts.effect_label(explanation.units))


def plot_importance(
    explanation: Explanation, features: int = 30, *, measure: charts.Measure = "mean_absolute", ax: object | None = None
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
    chart = charts.importance_chart(explanation, features, measure)
    return _one("plot_importance", chart, ax, (6.0, 1.1 + 0.26 * len(chart.bars)), len(chart.bars))


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
    if not -len(local.rows) <= row < len(local.rows):
        expected = f"a number below {len(local.rows)}" if local.rows else "an explanation with rows"
        raise InputError(describe("row", expected, str(row), "explain more rows"))
    explained = local.rows[row]
    index = charts.shown_output(local, explained, output)
    chart = charts.waterfall(local, explained, index, features)
    several = f" of {local.outputs[index]}" if len(local.outputs) > 1 else ""
    score, prediction = number_text(explained.score[index]), number_text(explained.prediction[index])
    title = f"row {explained.row}: score{several} {score}, prediction {prediction}"
    return _one("plot_local", replace(chart, title=title), ax, (6.0, 1.5 + 0.28 * len(chart.bars)))


def plot_path(explanation: Explanation, labels: int = 10, *, ax: object | None = None) -> Figure:
    """Draw each column's norm against alpha, from the empty model on the left; the dotted line is the alpha taken.

    Parameters
    ----------
    labels
        How many of the largest get a colour and a name; the others are grey.
    ax
        The caller's own axes to draw on; by default a new figure.
    """
    chart = _known(charts.path_chart(explanation, labels), "plot_path", "a path")
    title = f"path: {count_text(len(chart.lines), 'column')} entered"
    return _one("plot_path", replace(chart, title=title), ax, (6.4, 3.8))


def plot_curve(explanation: Explanation, *, ax: object | None = None) -> Figure:
    """Draw the held-out loss with one standard error against alpha, the best point and the one taken marked.

    Numbers along the top are the numbers of columns kept.
    """
    chart = _known(charts.loss_chart(explanation), "plot_curve", "a cross-validation curve")
    _known(chart.guides, "plot_curve", "a chosen point")
    title = "cross-validation: mean loss and one standard error"
    return _one("plot_curve", replace(chart, title=title), ax, (6.0, 3.6))


def plot_history(explanation: Explanation, *, ax: object | None = None) -> Figure:
    """Draw loss, and loss plus penalty where there is one, against epochs."""
    remedy = "explain a model that was trained, or look at plot_curve"
    chart = _known(charts.history_chart(explanation), "plot_history", "a history", remedy)
    return _one("plot_history", chart, ax, (6.0, 3.4))


def _known(part: Part | None, where: str, what: str, remedy: str = 'fit with alpha="auto"') -> Part:
    if not part:
        raise InputError(describe(where, what, "an explanation without one", remedy))
    return part


def _one(where: str, chart: charts.Chart, ax: object | None, size: tuple[float, float], count: int = 1) -> Figure:
    made = sheet(where, ax, min(count, 1), size)
    draw(made.panels[0], chart)
    return made.finish(chart.title)


def plot_pair(
    explanation: Explanation,
    pair: int | Sequence[str] | Pair = 0,
    *,
    output: str | None = None,
    total: bool = False,
    ax: object | None = None,
) -> Figure:
    """Draw the joint effect of two columns as a map: blue adds, vermillion takes, pale colours are where rows are few.

    Lines join equal effects, the one at 0 broken. Levels of categories are cells; missing cells are a band apart. At
    the sides is what each column adds alone.

    Parameters
    ----------
    pair
        The names of two columns, one of ``explanation.pairs``, or the rank of a pair: 0 for the most important.
    output
        Which output; by default the one on which the pair's effect varies most.
    total
        Whether to draw the summed surface: the joint effect and both columns' effects together.
    ax
        The caller's own axes for the map alone; by default a new figure with both sides and a scale.
    """
    chosen = chosen_pair(explanation, pair)
    index = int(np.argmax(np.ptp(np.array(chosen.effect), axis=(0, 1))))
    if output is not None:
        index = named_outputs(explanation, [output], 1)[0]
    cells = surface(explanation, chosen, index, PLOT_CELLS)
    made = sheet("plot_pair", ax, 1, (6.4, 5.2))
    colours = _draw_map(made.panels[0], cells, cells.total if total else cells.effect)
    if made.new:
        _draw_sides(made.panels[0], cells, colours, charts.effect_label(explanation.units))
    several = f" ({explanation.outputs[index]})" if len(explanation.outputs) > 1 else ""
    names = pair_text(chosen.one.name, chosen.other.name)
    title = f"{names}: {'summed surface' if total else 'joint effect'}{several}"
    return made.finish("\n".join(filter(None, (title, cells.out_of_view))))


def _draw_map(panel: Panel, cells: Surface, values: NDArray[np.float64]) -> ScalarMappable:
    """Draw the cells, block by block, and contour lines or, of levels, the numbers; return the scale of colours."""
    largest = cells.largest(values)
    colours = ScalarMappable(Normalize(-largest, largest), COLOURS)
    fullness = FAINTEST + (1.0 - FAINTEST) * cells.fullness
    for rows in cells.one.parts():
        for columns in cells.other.parts():
            flat = {"cmap": COLOURS, "norm": colours.norm, "rasterized": True, "linewidth": 0.0}
            edges = cells.other.edges(columns), cells.one.edges(rows)
            panel.pcolormesh(*edges, values[rows, columns], alpha=fullness[rows, columns], **flat)
    if cells.one.names is None and cells.other.names is None:
        rows, columns = cells.one.parts()[0], cells.other.parts()[0]
        calm = uniform_filter(values[rows, columns], CALM, mode="nearest")
        seen = np.ma.masked_where(~cells.is_seen[rows, columns], calm)
        levels = [tick.value for tick in Axis(-largest, largest).ticks(CONTOURS)]
        inner = [level for level in levels if seen.count() and seen.min() < level < seen.max()]
        if inner and min(seen.shape) > 1:
            thin = {"colors": "0.25", "linewidths": 0.5, "linestyles": ["-" if level else "--" for level in inner]}
            panel.contour(cells.other.middles[columns], cells.one.middles[rows], seen, levels=inner, **thin)
    elif cells.one.names is not None and cells.other.names is not None and values.size <= LABELLED:
        for (row, column), value in np.ndenumerate(values):
            at = cells.other.middles[column], cells.one.middles[row]
            panel.text(*at, number_text(float(value), 2), ha="center", va="center", fontsize=SMALL_FONT)
    for name, axis in (("x", cells.other), ("y", cells.one)):
        ticks = axis.ticks(6, letters=52.0 if name == "x" else None)
        lay_out(panel, name, axis.axis, axis.name, 6, ticks)
    return colours


def _draw_sides(panel: Panel, cells: Surface, colours: ScalarMappable, units: str) -> None:
    """Draw what each column adds alone, above and beside the map, to one scale, and the scale of colours."""
    figure = panel.get_figure()
    grid = figure.add_gridspec(2, 3, width_ratios=(5.0, 1.0, 0.18), height_ratios=(1.0, 4.2))
    panel.set_subplotspec(grid[1, 0])
    above: Panel = figure.add_subplot(grid[0, 0], sharex=panel)
    beside: Panel = figure.add_subplot(grid[1, 1], sharey=panel)
    heights = axis_over([0.0, *cells.mains[0], *cells.mains[1]], 0.08)
    for side, axis, main, across in (
        (above, cells.other, cells.mains[1], True),
        (beside, cells.one, cells.mains[0], False),
    ):
        for part in axis.parts():
            upright = {"orientation": "vertical" if across else "horizontal", "baseline": 0.0, "fill": True}
            side.stairs(main[part], axis.edges(part), color=BLUE, **upright)
        lay_out(side, "y" if across else "x", heights, "alone", 3 if across else 2)
        side.tick_params(labelbottom=not across, bottom=not across, labelleft=across, left=across)
    bar = figure.colorbar(colours, cax=figure.add_subplot(grid[1, 2]))
    bar.ax.tick_params(labelsize=SMALL_FONT)
    bar.set_label(units, fontsize=FONT)
