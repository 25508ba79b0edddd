"""Draws any chart on matplotlib's axes, with the report's ticks and without pyplot's state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any, Protocol

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, Locator, NullFormatter, NullLocator

from sparsenam.errors import InputError, describe
from sparsenam.explain.charts import Chart, spread
from sparsenam.explain.drawing import BLUE, Axis, Tick, pen
from sparsenam.text import abbreviations, shorten

FONT, SMALL_FONT = 8.0, 7.0
LETTERS, TICK_LETTERS = 10.0, 13.6  # in an inch, of labels and of ticks
BAR_LETTERS, LEVEL_LETTERS, LEGEND_LETTERS = 44, 12, 28  # of names beside bars, of levels and in legends
PANEL_NAME_DISTANCE = 0.052  # of a panel, between the names of lines
CURVE_MARGIN = 0.03  # of the range of curves, on either side
NUMBERS = 0.12  # of the range of bars: the room for the numbers behind them
COUNTS_HEIGHT = 0.2  # of a panel: the height of the bars that show where the rows are


class Panel(Protocol):
    """matplotlib's Axes, whose annotations leave the keywords open."""

    def __getattr__(self, name: str) -> Any: ...


class RoundLocator(Locator):
    """Finds and labels the ticks that the report has too, for whatever part of an axis is in view."""

    def __init__(self, like: Axis, about: int, letters: float) -> None:
        """Find up to about so many ticks on an axis ``like`` another that is so many ``letters`` long."""
        self.like, self.about, self.letters = like, about, letters

    def ticks(self) -> list[Tick]:
        assert self.axis is not None
        low, high = map(float, self.axis.get_view_interval())
        return replace(self.like, low=low, high=high).fitting(self.letters, self.about) if low != high else []

    def __call__(self) -> list[float]:
        return [tick.value for tick in self.ticks()]

    def label(self, x: float, _: int | None = None) -> str:
        return next((tick.text for tick in self.ticks() if tick.value == x), "")


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """A figure and its panels; one that is not ``new`` keeps the layout and the title of the caller."""

    figure: Figure
    panels: Sequence[Panel]
    new: bool

    def finish(self, title: str, height: str = "") -> Figure:
        """Write the title, what the height of panels is, and a legend of all names, where it covers nothing."""
        figure, keys = self.panels[0].get_figure(), dict[str, object]()
        for panel in self.panels:
            for key, name in zip(*panel.get_legend_handles_labels(), strict=True):
                keys.setdefault(name, key)
        texts = [plain(name, LEGEND_LETTERS) for name in abbreviations([*keys], LEGEND_LETTERS)]
        if not self.new:
            for panel in self.panels if height else ():
                panel.set_ylabel(wrapped(height, 24), fontsize=FONT)
            if keys:
                self.panels[0].legend([*keys.values()], texts, fontsize=SMALL_FONT)
            return self.figure
        width, tall = (int(LETTERS * inches) for inches in self.figure.get_size_inches())
        figure.suptitle("\n".join(plain(line, width) for line in title.split("\n")), fontsize=FONT + 2)
        if height:
            figure.supylabel(wrapped(height, tall), fontsize=FONT)
        if keys:
            look = {"loc": "outside lower center", "ncols": min(4, len(keys)), "frameon": False, "fontsize": FONT}
            figure.legend([*keys.values()], texts, **look)
        return self.figure


def sheet(where: str, axes: object | None, count: int, size: tuple[float, float], *, share_y: bool = False) -> Sheet:
    """Return a new figure of panels, each of a size in inches, four in a row; or the caller's axes."""
    if count == 0:
        raise InputError(describe(where, "at least one entry to draw", "none", "explain a model that keeps a feature"))
    found = np.asarray(axes, dtype=object).ravel()
    if axes is None:
        across, down = min(4, count), -(-count // 4)
        figure = Figure(figsize=(max(4.6, across * size[0]), down * size[1]), layout="constrained")
        FigureCanvasAgg(figure)
        found = np.asarray(figure.subplots(down, across, squeeze=False, sharey=share_y), dtype=object).ravel()
        for unused in found[count:]:
            unused.set_visible(False)
    elif found.size < count:
        remedy = "give more axes or choose fewer features"
        raise InputError(describe(where, f"{count} axes", str(found.size), remedy))
    return Sheet(found[0].get_figure(), found[:count].tolist(), axes is None)


def plain(name: str, length: int = 26) -> str:
    """Return a short name that matplotlib draws as it stands.

    A dollar sign would begin a formula, and an underscore at the beginning would hide the name from a legend.
    """
    text = shorten(name, length).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def wrapped(name: str, length: int, lines: int = 2) -> str:
    """Return a name on up to so many lines of ``length`` letters, as matplotlib draws it."""
    rows = wrap(shorten(name, lines * length - lines), length, max_lines=lines, placeholder="…") or [""]
    return "\n".join(plain(line, length + 2) for line in rows)


def look(number: int | None, name: str = "", *, dots: bool = False) -> dict[str, object]:
    """Return how matplotlib draws with a pen, and the name for the legend; an underscore would hide that."""
    if number is None:
        return {"color": "0.8", "linewidth": 0.8}
    used, mark = pen(number), pen(number).mark if dots else ""
    label = f" {name}" if name.startswith("_") else name
    return {"color": used.colour, "linestyle": used.style, "marker": mark, "markersize": 4.5, "label": label}


def draw(panel: Panel, chart: Chart, about: tuple[int, int] = (5, 7)) -> None:
    """Draw a chart, with about so many ticks across and upward."""
    panel.set_axisbelow(True)
    panel.grid(True, color="0.92", linewidth=0.6)
    for start, stop, height in chart.counts:  # over the grid and under the curve
        grey = {"align": "edge", "color": "0.80", "transform": panel.get_xaxis_transform(), "zorder": 0.6}
        panel.bar(start, COUNTS_HEIGHT * height, stop - start, **grey)
    for band in chart.bands:
        panel.fill_between(band.x, band.low, band.high, color=BLUE, alpha=0.15, linewidth=0.0)
    for x, low, high in chart.errors:
        panel.plot([x, x], [low, high], color="0.15" if chart.names else "0.65", linewidth=1.0, zorder=2.2)
    for line in chart.lines:
        name = "" if chart.ends else line.name
        panel.plot(line.x, line.y, **{"linewidth": line.width} | look(line.pen, name, dots=line.dots))
    for start, stop in chart.pale:
        panel.axvspan(start, stop, color="white", alpha=0.6, linewidth=0.0, zorder=2.5)
    for mark in chart.marks:
        hollow = {"marker": "D", "markerfacecolor": "white"} if mark.hollow else {}
        alone = {"linestyle": "", "zorder": 3.0, **hollow}
        panel.plot([mark.x], [mark.y], **look(mark.pen, mark.text, dots=True) | alone)
    for guide in chart.guides:
        panel.axvline(guide.x, color="0.3", linewidth=0.9, linestyle=":")
        if math.isfinite(guide.y):
            alone = {"linestyle": "", "markersize": 7.0}
            panel.plot([guide.x], [guide.y], **look(guide.pen, guide.legend, dots=True) | alone)
    _draw_bars(panel, chart)
    _write(panel, chart)
    rows = [Tick(float(row), bar.label(BAR_LETTERS)) for row, bar in enumerate(() if chart.names else chart.bars)]
    lay_out(panel, "x", _with_room(chart), chart.labels[0], about[0], chart.names)
    lay_out(panel, "y", chart.upward, chart.labels[1], about[1], rows)


def _with_room(chart: Chart) -> Axis:
    """Return the axis across with a margin for curves, for a missing cell's mark and for numbers behind bars."""
    axis = chart.across
    low, high = axis.place(axis.low), axis.place(axis.high)
    if chart.names or axis.kind == "log":
        return axis
    margin, last = CURVE_MARGIN * (high - low), max([high, *(axis.place(mark.x) for mark in chart.marks)])
    last += NUMBERS * (high - low) if chart.bars else 2 * margin if chart.marks else margin
    return replace(axis, low=axis.value_at(low - (0.0 if chart.bars else margin)), high=axis.value_at(last))


def _draw_bars(panel: Panel, chart: Chart) -> None:
    """Draw bars upright over the names of levels, or one below the other with a number behind each."""
    room = 0.01 * (chart.across.high - chart.across.low)
    for place, bar in enumerate(chart.bars):
        length, colour = bar.stop - bar.start, pen(bar.pen or 0).colour
        if chart.names:
            panel.bar(place, length, 0.62, bottom=bar.start, color=colour, zorder=2.0)
            continue
        if bar.pen is None:
            panel.plot([bar.stop], [place], color="black", linestyle="", marker="D", markersize=4.0)
        else:
            panel.barh(place, length, 0.68, left=bar.start, color=colour)
        if chart.bars[0].pen is None and place:
            panel.plot([bar.start] * 2, [place - 1, place], color="0.6", linewidth=0.7, zorder=1.0)
        at = max(bar.start, bar.stop) + (2.0 if bar.pen is None else 1.0) * room
        panel.text(at, place, bar.text, verticalalignment="center", fontsize=SMALL_FONT, color="0.2")


def _write(panel: Panel, chart: Chart) -> None:
    """Write the words along the top, and names beside the ends of lines, which keep their distance."""
    for tick in chart.across.apart(chart.tops, TICK_LETTERS * _inches(panel)):
        where = {"transform": panel.get_xaxis_transform(), "horizontalalignment": "center"}
        panel.text(tick.value, 1.01, tick.text, fontsize=SMALL_FONT, color="0.35", **where)
    heights = spread(np.array([chart.upward.fraction(mark.y) for mark in chart.ends]), PANEL_NAME_DISTANCE)
    for mark, height in zip(chart.ends, heights.tolist(), strict=True):
        where = {"transform": panel.transAxes, "verticalalignment": "center"}
        panel.text(1.015, height, plain(mark.text, 24), fontsize=SMALL_FONT, color=pen(mark.pen).colour, **where)


def _inches(panel: Panel) -> float:
    place = panel.get_subplotspec()
    return panel.get_figure().get_figwidth() / (1 if place is None else place.get_gridspec().ncols)


def lay_out(panel: Panel, name: str, axis: Axis, label: str, about: int, names: Sequence[Tick] = ()) -> None:
    """Give an axis (x or y) its scale, limits where they are known, ticks, which may be ``names``, and label."""
    across, own = name == "x", panel.xaxis if name == "x" else panel.yaxis
    set_scale = panel.set_xscale if across else panel.set_yscale
    if axis.kind == "skewed":
        set_scale("function", functions=[np.vectorize(one, otypes=[float]) for one in (axis.place, axis.value_at)])
    elif axis.kind == "log":
        set_scale("log")
    if math.isfinite(axis.low):
        (panel.set_xlim if across else panel.set_ylim)(axis.low, axis.high)
    panel.tick_params(which="both", labelsize=SMALL_FONT)
    inches = _inches(panel)
    if names:
        panel.grid(False, axis=name)
        length = LEVEL_LETTERS if across else BAR_LETTERS
        texts = [plain(text, length) for text in abbreviations([tick.text for tick in names], length)]
        slanted = {"rotation": 40.0, "horizontalalignment": "right", "rotation_mode": "anchor"}
        is_long = across and len(names) * (max(map(len, texts)) + 1) > TICK_LETTERS * inches
        own.set_ticks([tick.value for tick in names], texts, **(slanted if is_long else {}))
    else:
        locator = RoundLocator(axis, about, TICK_LETTERS * inches if across else np.inf)
        own.set_major_locator(locator)
        own.set_major_formatter(FuncFormatter(locator.label))
    if axis.kind != "log":
        own.set_minor_locator(NullLocator())
    own.set_minor_formatter(NullFormatter())
    own.set_label_text(wrapped(label, max(30, int(LETTERS * inches))) if label else "", {"fontsize": FONT})
