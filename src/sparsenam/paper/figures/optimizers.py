"""How fast the solvers lower the objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.explain.drawing import BLACK, BLUE, GREEN, VERMILLION, Pen, pen
from sparsenam.explain.plots.sheet import (
    FONT,
    Panel,
    new_sheet,
    not_empty,
    numbers,
    plain,
    same_length,
    use_log,
)

# a proximal solver has the colour of its plain twin: full lines reach exact zeros, broken ones do not
_PENS = {
    "gd": Pen(BLUE, "--", ""),
    "prox_gd": Pen(BLUE, "-", ""),
    "sgd": Pen(VERMILLION, "--", ""),
    "prox_sgd": Pen(VERMILLION, "-", ""),
    "adam": Pen(GREEN, "--", ""),
    "prox_adam": Pen(GREEN, "-", ""),
    "fista": Pen(BLACK, "-.", ""),
}
_FREE_PENS = 3  # the first pens have the colours above
_FAR = 100.0  # a line this many times above the start does not set the range
_UNEVEN = 20.0  # times that differ by more are drawn on a log axis

Histories = Mapping[str, Mapping[str, Sequence[float]]]


def draw_optimizers(histories: Histories, title: str = "", *more: str) -> Figure:
    """Draw the objective against epochs and against seconds, one line a solver, on a log axis.

    Parameters
    ----------
    histories
        ``{solver: {"epochs": [...], "seconds": [...], "objective": [...]}}``. Without ``seconds`` in every history
        only the epochs are drawn. An objective that is not finite ends the line, and the legend says so.
    title, more
        Written over the panels, a line each.
    """
    not_empty("draw_optimizers", len(histories))
    timed = all("seconds" in history for history in histories.values())
    keys = ("epochs", "seconds") if timed else ("epochs",)
    sheet = new_sheet(1, len(keys), 4.6, 3.6, share_y=True)
    entries: dict[str, tuple[Artist, str]] = {}
    others = [solver for solver in histories if solver not in _PENS]
    for solver, history in histories.items():
        heights = _heights(solver, history, keys)
        look = _PENS[solver] if solver in _PENS else pen(_FREE_PENS + others.index(solver))
        for panel, key in zip(sheet.panels, keys, strict=True):
            panel.plot(numbers(history[key]), heights, color=look.colour, linestyle=look.style, linewidth=1.5)
        handle = Line2D([], [], color=look.colour, linestyle=look.style, linewidth=1.5)
        entries[solver] = handle, plain(solver) + (" (diverged)" if np.isnan(heights).any() else "")
    for panel, key in zip(sheet.panels, keys, strict=True):
        panel.set_xlabel(key, fontsize=FONT)
    sheet.panels[0].set_ylabel("objective", fontsize=FONT)
    use_log(sheet.panels[0], "y", _range_in_sight(histories))
    if timed:
        _spread_times(sheet.panels[1], histories)
    order = sorted(entries, key=lambda solver: list(_PENS).index(solver) if solver in _PENS else len(_PENS))
    sheet.legend([entries[solver][0] for solver in order], [entries[solver][1] for solver in order], columns=4)
    sheet.title(title, *more)
    return sheet.figure


def _heights(solver: str, history: Mapping[str, Sequence[float]], keys: tuple[str, ...]) -> NDArray[np.float64]:
    """Return the objective, (points,), with nan where it is not finite."""
    same_length(f"draw_optimizers, {solver}", **{key: history[key] for key in (*keys, "objective")})
    objective = numbers(history["objective"])
    known = np.isfinite(objective)
    if np.any(objective[known] <= 0):
        lowest = f"{objective[known].min():g} of {solver}"
        raise InputError(describe("draw_optimizers", "objectives above 0", lowest, "draw their gap instead"))
    return np.where(known, objective, np.nan)


def _spread_times(panel: Panel, histories: Histories) -> None:
    ends = [numbers(history["seconds"])[-1] for history in histories.values()]
    if min(ends) > 0 and max(ends) > _UNEVEN * min(ends):
        use_log(panel, "x")


def _range_in_sight(histories: Histories) -> tuple[float, float] | None:
    """Return a range that ends a little above the start when a solver climbs far beyond it, else None."""
    objectives = [numbers(history["objective"]) for history in histories.values()]
    finite = [values[np.isfinite(values)] for values in objectives if np.isfinite(values).any()]
    start = max((float(values[0]) for values in finite), default=1.0)
    if not finite or max(values.max() for values in finite) <= _FAR * start:
        return None
    return min(float(values.min()) for values in finite) / 1.2, 2 * start
