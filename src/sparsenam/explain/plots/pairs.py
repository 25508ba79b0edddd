"""The joint effect of two columns as a map, with contour lines, faded where rows are few, its mains at the sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from sparsenam.explain import charts
from sparsenam.explain.drawing import BLUE, VERMILLION
from sparsenam.explain.explanation import Explanation
from sparsenam.explain.pairs import Pair
from sparsenam.explain.plots import sheet as sheets
from sparsenam.explain.plots.sheet import FONT, SMALL, Panel, plain
from sparsenam.explain.surfaces import CellAxis, Surface, chosen_pair, pair_title, surface
from sparsenam.text import number_text, share_text

Matrix = NDArray[np.float64]
COLOURS = LinearSegmentedColormap.from_list("minus_plus", [VERMILLION, "#ffffff", BLUE])
CELLS = 120  # along each axis of numbers: finer than the eye asks for
SMOOTH = 3  # cells over which the number of rows is averaged before it fades a colour
CONTOURS = 4  # lines on either side of 0, at most
CALM = 5  # cells over which a surface is averaged before lines are drawn: a line is for the eye, colours for detail
SEEN = 0.1  # of the rows of a full cell: below, no line is drawn, and the scale of colours is set by other cells
FAINTEST = 0.25  # of a colour where there are no rows
NAME_LETTERS = 12
NAMES_ACROSS = 44  # letters of names of levels that fit side by side
LABELLED = 60  # cells of levels that have their numbers written in, at most
FEWEST_BEYOND = 0.005  # of the rows: fewer out of view are not mentioned


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
    effects = np.array(chosen.effect)
    wanted = None if output is None else [output]
    index = charts.named_outputs(explanation, wanted, 1)[0]
    if output is None:
        index = int(np.argmax(np.ptp(effects, axis=(0, 1))))
    cells = surface(explanation, chosen, index, CELLS)
    values = cells.total if total else cells.effect
    if ax is not None:
        sheet, panel = sheets.one_panel("plot_pair", ax, 5.0, 4.0)
        _draw_map(panel, cells, values)
        return sheet.figure
    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    grid: Any = cast("Any", figure).add_gridspec(2, 3, width_ratios=(5.0, 1.0, 0.18), height_ratios=(1.0, 4.2))
    panel, above, beside, scale = (
        cast(Panel, figure.add_subplot(part)) for part in (grid[1, 0], grid[0, 0], grid[1, 1], grid[1, 2])
    )
    colours = _draw_map(panel, cells, values)
    _draw_sides(panel, above, beside, cells)
    bar: Any = cast("Any", figure).colorbar(colours, cax=cast("Any", scale))
    bar.ax.tick_params(labelsize=SMALL)
    bar.set_label(plain(charts.effect_label(explanation.units), 60), fontsize=FONT)
    several = f" ({explanation.outputs[index]})" if len(explanation.outputs) > 1 else ""
    note = f"{share_text(cells.beyond)} of the rows are out of view" if cells.beyond > FEWEST_BEYOND else ""
    sheets.Sheet(figure, (panel,)).title(f"{pair_title(chosen, total=total)}{several}", note)
    return figure


def _draw_map(panel: Panel, cells: Surface, values: Matrix) -> ScalarMappable:
    """Draw the cells, block by block, and contour lines or, of levels, the numbers; return the scale of colours."""
    full = _smoothed(cells)
    largest = float(np.abs(values[full > SEEN]).max(initial=0.0)) or float(np.abs(values).max()) or 1.0
    scale = Normalize(-largest, largest)
    panel.grid(False)
    panel.tick_params(which="both", labelsize=SMALL)
    fullness = FAINTEST + (1.0 - FAINTEST) * full
    for rows in cells.one.parts():
        for columns in cells.other.parts():
            edges = [np.append(axis.spans[part, 0], axis.spans[part, 1][-1]) for axis, part in
                     ((cells.other, columns), (cells.one, rows))]  # fmt: skip
            look = {"cmap": COLOURS, "norm": scale, "rasterized": True, "linewidth": 0.0}
            panel.pcolormesh(*edges, values[rows, columns], alpha=fullness[rows, columns], **look)
    if cells.one.names is None and cells.other.names is None:
        _draw_contours(panel, cells, values, largest)
    elif cells.one.names is not None and cells.other.names is not None and values.size <= LABELLED:
        for (row, column), value in np.ndenumerate(values):
            at = cells.other.middles[column], cells.one.middles[row]
            look = {"horizontalalignment": "center", "verticalalignment": "center", "fontsize": SMALL}
            panel.text(*at, number_text(float(value), 2), **look)
    _lay_out(panel, cells.other, "x")
    _lay_out(panel, cells.one, "y")
    return ScalarMappable(scale, COLOURS)  # without the fading, which a scale beside the map does not have


def _smoothed(cells: Surface) -> Matrix:
    """Return how full each cell is, averaged over neighbours along axes of numbers."""
    share = cells.share
    for side, axis in enumerate((cells.one, cells.other)):
        values = axis.parts()[0]
        if axis.names is None and len(axis.spans) > 4 * SMOOTH:
            inner = share[values] if side == 0 else share[:, values]
            smooth = uniform_filter1d(inner, SMOOTH, axis=side, mode="nearest")
            rest = share[values.stop :] if side == 0 else share[:, values.stop :]
            share = np.concatenate([smooth, rest], axis=side)
    return Surface(cells.one, cells.other, cells.effect, share, cells.mains).fullness


def _draw_contours(panel: Panel, cells: Surface, values: Matrix, largest: float) -> None:
    """Draw lines of equal effect within the block of present values, none where no rows are."""
    rows, columns = cells.one.parts()[0], cells.other.parts()[0]
    calm = values[rows, columns]
    for side in (0, 1):
        calm = uniform_filter1d(calm, min(CALM, calm.shape[side]), axis=side, mode="nearest")
    seen = np.where(_smoothed(cells)[rows, columns] > SEEN, calm, np.nan)
    levels = [tick.value for tick in charts.Axis(-largest, largest).ticks(2 * CONTOURS - 1)]
    if min(seen.shape) < 2 or not np.isfinite(seen).any():
        return
    at = cells.other.middles[columns], cells.one.middles[rows], np.ma.masked_invalid(seen)
    inner = [level for level in levels if np.nanmin(seen) < level < np.nanmax(seen)]
    look = {"colors": "0.25", "linewidths": 0.5, "linestyles": ["--" if level == 0 else "-" for level in inner]}
    if inner:
        panel.contour(*at, levels=inner, **look)


def _draw_sides(panel: Panel, above: Panel, beside: Panel, cells: Surface) -> None:
    """Draw what each column adds alone, above and beside the map, to one scale."""
    low = min(0.0, *(float(main.min()) for main in cells.mains))
    high = max(0.0, *(float(main.max()) for main in cells.mains))
    room = 0.08 * ((high - low) or 1.0)
    for side, axis, main in ((above, cells.other, cells.mains[1]), (beside, cells.one, cells.mains[0])):
        across = side is above
        side.tick_params(which="both", labelsize=SMALL)
        side.grid(False)
        (side.axhline if across else side.axvline)(0.0, color="0.55", linewidth=0.7)
        for part in axis.parts():
            at, height = axis.middles[part], main[part]
            if axis.names is not None or len(at) == 1:
                width = 0.7 * float(axis.spans[part][0, 1] - axis.spans[part][0, 0])
                (side.bar if across else side.barh)(at, height, width, color=BLUE)
            else:
                side.plot(*((at, height) if across else (height, at)), color=BLUE, linewidth=1.3)
        (side.set_ylim if across else side.set_xlim)(low - room, high + room)
        sheets.use_ticks(side, "y" if across else "x", about=3 if across else 2)
        (side.set_xlim if across else side.set_ylim)(axis.axis.low, axis.axis.high)
        (side.set_xticks if across else side.set_yticks)([])
    above.set_ylabel("alone", fontsize=SMALL)
    beside.set_xlabel("alone", fontsize=SMALL)


def _lay_out(panel: Panel, axis: CellAxis, name: str) -> None:
    """Give an axis its limits, its ticks and its name."""
    across = name == "x"
    (panel.set_xlim if across else panel.set_ylim)(axis.axis.low, axis.axis.high)
    ticks = axis.ticks(6, letters=52.0 if across else None)
    texts = [plain(tick.text, NAME_LETTERS) for tick in ticks]
    of_axis = panel.xaxis if across else panel.yaxis
    of_axis.set_major_locator(FixedLocator([tick.value for tick in ticks]))
    of_axis.set_major_formatter(FixedFormatter(texts))
    if across and axis.names is not None and sum(map(len, texts)) > NAMES_ACROSS:
        panel.tick_params(axis="x", labelrotation=40.0)
    (panel.set_xlabel if across else panel.set_ylabel)(sheets.wrapped(axis.name, 40), fontsize=FONT)
