"""A sheet of panels: the little of matplotlib that the figures use, without its global state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Transform
from numpy.typing import ArrayLike, NDArray

from sparsenam.errors import InputError, describe
from sparsenam.explain.plots.words import plain, wrapped

FONT = 8.0
SMALL = 7.0
_LETTERS = 10.0  # of a title in an inch
_SMALL_LETTERS = 12.0  # of a label in an inch
_LEAST_WIDTH = 4.6  # inches, for title and legend


class Panel(Protocol):
    """The part of matplotlib's Axes that the figures use; its own annotations leave the keywords open."""

    xaxis: Axis
    yaxis: Axis

    def plot(
        self,
        x: ArrayLike,
        y: ArrayLike,
        /,
        *,
        color: str = ...,
        linestyle: str = ...,
        linewidth: float = ...,
        marker: str = ...,
        markersize: float = ...,
        markerfacecolor: str = ...,
        alpha: float = ...,
        zorder: float = ...,
        label: str = ...,
    ) -> list[Line2D]: ...
    def bar(
        self,
        x: ArrayLike,
        height: ArrayLike,
        width: ArrayLike,
        *,
        align: Literal["edge", "center"],
        color: str,
        transform: Transform = ...,
        zorder: float,
    ) -> Sequence[Artist]: ...
    def barh(
        self,
        y: ArrayLike,
        width: ArrayLike,
        height: float,
        *,
        left: ArrayLike = ...,
        color: str,
        hatch: str = ...,
        edgecolor: str = ...,
        label: str = ...,
    ) -> Artist: ...
    def fill_between(
        self, x: ArrayLike, low: ArrayLike, high: ArrayLike, /, *, color: str, alpha: float, linewidth: float
    ) -> Artist: ...
    def axhline(
        self, y: float, /, *, color: str, linewidth: float, zorder: float = ..., linestyle: str = ...
    ) -> Line2D: ...
    def axvline(
        self, x: float, /, *, color: str, linewidth: float, zorder: float = ..., linestyle: str = ...
    ) -> Line2D: ...
    def text(
        self,
        x: float,
        y: float,
        words: str,
        /,
        *,
        transform: Transform = ...,
        horizontalalignment: Literal["left", "center", "right"],
        verticalalignment: Literal["center", "top", "bottom"],
        fontsize: float,
        color: str,
    ) -> Artist: ...
    def annotate(
        self,
        words: str,
        xy: tuple[float, float],
        /,
        *,
        xycoords: Literal["data", "axes fraction"],
        horizontalalignment: Literal["left", "center"],
        verticalalignment: Literal["center", "top"],
        fontsize: float,
        color: str,
        style: Literal["italic"],
    ) -> Artist: ...
    def set_xlabel(self, label: str, /, *, fontsize: float = ...) -> object: ...
    def set_ylabel(self, label: str, /, *, fontsize: float = ...) -> object: ...
    def set_title(self, label: str, /, *, fontsize: float = ...) -> object: ...
    def set_xscale(self, scale: str, /) -> None: ...
    def set_yscale(self, scale: str, /) -> None: ...
    def set_xlim(self, left: float, right: float, /) -> object: ...
    def get_xlim(self) -> tuple[float, float]: ...
    def get_ylim(self) -> tuple[float, float]: ...
    def set_ylim(self, bottom: float | None = ..., top: float | None = ...) -> object: ...
    def set_xticks(
        self,
        ticks: ArrayLike,
        /,
        labels: Sequence[str] = ...,
        *,
        rotation: float = ...,
        horizontalalignment: Literal["right", "center"] = ...,
        rotation_mode: Literal["anchor"] = ...,
    ) -> object: ...
    def set_yticks(self, ticks: ArrayLike, /, labels: Sequence[str]) -> object: ...
    def set_visible(self, visible: bool, /) -> None: ...
    def get_xaxis_transform(self) -> Transform: ...
    def get_yaxis_transform(self) -> Transform: ...
    def tick_params(self, *, which: Literal["both"], labelsize: float) -> None: ...
    def grid(
        self, visible: bool, /, *, axis: Literal["both", "y"] = ..., color: str = ..., linewidth: float = ...
    ) -> None: ...
    def locator_params(self, axis: Literal["x", "y"], /, *, nbins: int) -> None: ...
    def set_axisbelow(self, below: bool, /) -> None: ...
    def legend(
        self, handles: Sequence[Artist], labels: Sequence[str], /, *, fontsize: float, handlelength: float
    ) -> object: ...
    def margins(self, *, x: float) -> object: ...
    def invert_xaxis(self) -> None: ...
    def get_figure(self) -> object: ...


class _Frame(Protocol):
    """The part of matplotlib's Figure whose own annotations leave the keywords open."""

    def suptitle(self, words: str, /, *, fontsize: float) -> object: ...
    def supylabel(self, words: str, /, *, fontsize: float) -> object: ...
    def legend(
        self,
        handles: Sequence[Artist],
        labels: Sequence[str],
        *,
        loc: str,
        ncols: int,
        fontsize: float,
        frameon: bool,
        handlelength: float,
    ) -> object: ...


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """A figure and its panels, row by row; one that is not ``own`` has the layout and title of its caller."""

    figure: Figure
    panels: tuple[Panel, ...]
    own: bool = True

    def title(self, *lines: str) -> None:
        """Write a title over all panels, each line cut to the width of the sheet."""
        length = int(_LETTERS * self.figure.get_figwidth())
        words = "\n".join(plain(line, length) for line in lines if line)
        if words and self.own:
            cast(_Frame, self.figure).suptitle(words, fontsize=FONT + 2)

    def height_label(self, words: str) -> None:
        """Write what the height means, once for all panels."""
        if not self.own:
            for panel in self.panels:
                panel.set_ylabel(wrapped(words, 24), fontsize=FONT)
            return
        letters = int(_SMALL_LETTERS * self.figure.get_figheight())
        cast(_Frame, self.figure).supylabel(wrapped(words, letters), fontsize=FONT)

    def legend(self, handles: Sequence[Artist], labels: Sequence[str], columns: int) -> None:
        """Explain the lines below all panels, where nothing can be covered; in the first of a caller's panels."""
        if not self.own:
            self.panels[0].legend(handles, labels, fontsize=SMALL, handlelength=2.0)
            return
        cast(_Frame, self.figure).legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=columns,
            fontsize=FONT,
            frameon=False,
            handlelength=3.0,
        )


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


def given_sheet(where: str, axes: object, count: int) -> Sheet:
    """Return the axes of the caller's figure as a sheet of ``count`` panels."""
    flat = np.asarray(axes, dtype=object).ravel()
    if flat.size < count:
        raise InputError(
            describe(where, f"{count} axes", str(flat.size), "give more axes or choose fewer features")
        )
    panels = _prepared(flat[:count])
    return Sheet(cast(Figure, panels[0].get_figure()), panels, own=False)


def one_panel(where: str, axes: object | None, width: float, height: float) -> tuple[Sheet, Panel]:
    """Return the caller's axes, or a new sheet of one panel of ``width`` × ``height`` inches."""
    sheet = new_sheet(1, 1, width, height) if axes is None else given_sheet(where, axes, 1)
    return sheet, sheet.panels[0]


def _prepared(axes: NDArray[np.object_]) -> tuple[Panel, ...]:
    panels = tuple(cast(Panel, panel) for panel in axes)
    for panel in panels:
        panel.tick_params(which="both", labelsize=SMALL)
        panel.set_axisbelow(True)
        panel.grid(True, color="0.92", linewidth=0.6)
    return panels


def say_dropped(panel: Panel, place: tuple[float, float], inside: bool, colour: str = "0.35") -> None:
    """Write "dropped" at the top of a panel, or to the right of a place in the data."""
    panel.annotate(
        "dropped" if inside else " dropped",
        place,
        xycoords="axes fraction" if inside else "data",
        horizontalalignment="center" if inside else "left",
        verticalalignment="top" if inside else "center",
        fontsize=SMALL,
        color=colour,
        style="italic",
    )


def numbers(values: ArrayLike) -> NDArray[np.float64]:
    """Return values as an array; JSON's null is nan, which leaves a gap in a line."""
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
