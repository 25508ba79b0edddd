"""A sheet of panels: the little of matplotlib that the figures use, without its global state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axis import Axis as PlotAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, Locator, NullFormatter, NullLocator
from numpy.typing import ArrayLike, NDArray

from sparsenam.errors import InputError, describe
from sparsenam.explain.drawing import Axis, Kind, Tick
from sparsenam.text import shorten, wrap

FONT = 8.0
SMALL = 7.0
_LETTERS = 10.0  # of a title in an inch
_SMALL_LETTERS = 12.0  # of a label in an inch
_TICK_LETTERS = 13.6  # of ticks' labels in an inch of a panel's width
PANEL_WIDTH, PANEL_HEIGHT = 2.4, 2.0  # inches, of small panels
_LEAST_WIDTH = 4.6  # inches, for title and legend


class Panel(Protocol):
    """matplotlib's Axes, whose annotations leave the keywords open."""

    xaxis: PlotAxis
    yaxis: PlotAxis

    def __getattr__(self, name: str) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """A figure and its panels, row by row; one that is not ``new`` has the layout and title of its caller."""

    figure: Figure
    panels: tuple[Panel, ...]
    new: bool = True

    def title(self, *lines: str) -> None:
        """Write a title over all panels, each line cut to the width of the sheet."""
        length = int(_LETTERS * self.figure.get_figwidth())
        text = "\n".join(plain(line, length) for line in lines if line)
        if text and self.new:
            cast("Any", self.figure).suptitle(text, fontsize=FONT + 2)

    def height_label(self, text: str) -> None:
        """Write what the height means, once for all panels."""
        if not self.new:
            for panel in self.panels:
                panel.set_ylabel(wrapped(text, 24), fontsize=FONT)
            return
        letters = int(_SMALL_LETTERS * self.figure.get_figheight())
        cast("Any", self.figure).supylabel(wrapped(text, letters), fontsize=FONT)

    def legend(self, handles: Sequence[Artist], labels: Sequence[str], columns: int) -> None:
        """Explain the lines below all panels, where nothing can be covered; in the first of a caller's panels."""
        if not self.new:
            self.panels[0].legend(handles, labels, fontsize=SMALL, handlelength=2.0)
            return
        look = {"loc": "outside lower center", "ncols": columns, "frameon": False, "handlelength": 3.0}
        cast("Any", self.figure).legend(handles, labels, fontsize=FONT, **look)


def new_sheet(
    rows: int,
    columns: int,
    width: float,
    height: float,
    share_y: bool | Literal["col"] = False,
    share_x: bool | Literal["col"] = False,
) -> Sheet:
    """Return an empty sheet of rows × columns panels, each ``width`` × ``height`` inches."""
    figure = Figure(figsize=(max(_LEAST_WIDTH, columns * width), rows * height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, sharey=share_y, sharex=share_x)
    return Sheet(figure, _prepared(cast(NDArray[np.object_], axes).ravel()))


def grid_sheet(where: str, axes: object | None, count: int, *, share_y: bool) -> Sheet:
    """Return a sheet of small panels for ``count`` drawings, four in a row, or the caller's axes as one."""
    not_empty(where, count)
    if axes is not None:
        return _given_sheet(where, axes, count)
    columns = min(4, count)
    sheet = new_sheet(-(-count // columns), columns, PANEL_WIDTH, PANEL_HEIGHT, share_y=share_y)
    for panel in sheet.panels[count:]:
        panel.set_visible(False)
    return sheet


def one_panel(where: str, axes: object | None, width: float, height: float) -> tuple[Sheet, Panel]:
    """Return the caller's axes, or a new sheet of one panel of ``width`` × ``height`` inches."""
    sheet = new_sheet(1, 1, width, height) if axes is None else _given_sheet(where, axes, 1)
    return sheet, sheet.panels[0]


def _given_sheet(where: str, axes: object, count: int) -> Sheet:
    flat = np.asarray(axes, dtype=object).ravel()
    if flat.size < count:
        remedy = "give more axes or choose fewer features"
        raise InputError(describe(where, f"{count} axes", str(flat.size), remedy))
    panels = _prepared(flat[:count])
    return Sheet(cast(Figure, panels[0].get_figure()), panels, new=False)


def _prepared(axes: NDArray[np.object_]) -> tuple[Panel, ...]:
    panels = tuple(cast(Panel, panel) for panel in axes)
    for panel in panels:
        panel.tick_params(which="both", labelsize=SMALL)
        panel.set_axisbelow(True)
        panel.grid(True, color="0.92", linewidth=0.6)
    return panels


class RoundLocator(Locator):
    """Finds and labels the ticks that the report has too, for whatever part of an axis is in view."""

    def __init__(self, kind: Kind, about: int, letters: float, unit: float = 1.0) -> None:
        """Find up to about so many ticks on an axis that is so many ``letters`` long."""
        self.kind: Kind = kind
        self.unit = unit
        self.about, self.letters = about, letters

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """Return the marked values between two limits."""
        return [tick.value for tick in self._between(vmin, vmax)]

    def __call__(self) -> list[float]:
        """Return the marked values of the part in view."""
        return self.tick_values(*cast(PlotAxis, self.axis).get_view_interval())

    def label(self, x: float, _: int | None = None) -> str:
        """Return the label of a marked value."""
        ticks = self._between(*cast(PlotAxis, self.axis).get_view_interval())
        return next((tick.text for tick in ticks if tick.value == x), "")

    def _between(self, low: float, high: float) -> list[Tick]:
        axis = Axis(float(low), float(high), self.kind, self.unit)
        return axis.fitting(self.letters, self.about) if low != high else []


def use_ticks(panel: Panel, name: Literal["x", "y"], kind: Kind = "number", about: int = 5, unit: float = 1.0) -> None:
    """Give an axis the ticks and labels that the report gives it."""
    figure = cast(Figure, panel.get_figure())
    panels = max(1, round(figure.get_figwidth() / PANEL_WIDTH)) if len(figure.axes) > 1 else 1
    letters = _TICK_LETTERS * figure.get_figwidth() / panels if name == "x" else np.inf
    axis = panel.xaxis if name == "x" else panel.yaxis
    locator = RoundLocator(kind, about, letters, unit)
    axis.set_major_locator(locator)
    axis.set_major_formatter(FuncFormatter(locator.label))
    if kind != "log":
        axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def use_log(panel: Panel, name: Literal["x", "y"], limits: tuple[float, float] | None = None) -> None:
    """Make an axis logarithmic with plain numbers, from limit to limit or as the lines want it."""
    (panel.set_xscale if name == "x" else panel.set_yscale)("log")
    if limits is not None:
        (panel.set_xlim if name == "x" else panel.set_ylim)(*limits)
    use_ticks(panel, name, "log")


def use_skewed(panel: Panel, axis: Axis) -> None:
    """Make the horizontal axis straight near 0 and logarithmic beyond the unit of a skewed axis."""

    def forward(values: ArrayLike) -> NDArray[np.float64]:
        found = numbers(values)
        return np.sign(found) * np.log1p(np.abs(found) / axis.unit)

    def backward(places: ArrayLike) -> NDArray[np.float64]:
        found = numbers(places)
        return np.sign(found) * np.expm1(np.abs(found)) * axis.unit

    panel.set_xscale("function", functions=(forward, backward))


def write_beside(panel: Panel, x: float, y: float, text: str) -> None:
    """Write a small text to the right of a point."""
    look = {"horizontalalignment": "left", "verticalalignment": "center", "fontsize": SMALL, "color": "0.2"}
    panel.text(x, y, text, **look)


def say_dropped(panel: Panel, xy: tuple[float, float], inside: bool, colour: str = "0.35") -> None:
    """Write "dropped" at the top of a panel, or to the right of a point of the data."""
    panel.annotate(
        "dropped" if inside else " dropped",
        xy,
        xycoords="axes fraction" if inside else "data",
        horizontalalignment="center" if inside else "left",
        verticalalignment="top" if inside else "center",
        fontsize=SMALL,
        color=colour,
        style="italic",
    )


def plain(name: str, length: int = 26) -> str:
    """Return a short name that matplotlib draws as it stands.

    A dollar sign would begin a formula, and an underscore at the beginning would hide the name from a legend.
    """
    text = shorten(name, length).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def wrapped(name: str, length: int, lines: int = 2) -> str:
    """Return a name on up to so many lines of ``length`` small letters, as matplotlib draws it."""
    return "\n".join(plain(line, length + 2) for line in wrap(name, length, lines))


def numbers(values: ArrayLike) -> NDArray[np.float64]:
    """Return values as an array; JSON's null is NaN, which leaves a gap in a line."""
    return np.asarray(values, dtype=np.float64)


def same_length(where: str, **columns: ArrayLike) -> None:
    """Raise unless all columns have the same length, at least one."""
    lengths = {name: len(numbers(values)) for name, values in columns.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        got = ", ".join(f"{length} of {name}" for name, length in lengths.items())
        raise InputError(describe(where, "columns of one length, at least 1", got, "store them together"))


def not_empty(where: str, count: int) -> None:
    """Raise if there is nothing to draw."""
    if count == 0:
        raise InputError(describe(where, "at least one entry to draw", "none", "run the experiment first"))
