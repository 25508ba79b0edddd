"""The theorems against what is measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NotRequired, TypedDict

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.explain.drawing import BLACK, BLUE, Pen, ordered_pen, pen
from sparsenam.explain.plots.sheet import (
    FONT,
    SMALL,
    Panel,
    new_sheet,
    not_empty,
    numbers,
    plain,
    same_length,
    use_log,
)

_WIDTH, _HEIGHT = 5.6, 3.8
_MOST_MARKS = 8
_LONG = 1000


class Estimation(TypedDict):
    """Sample sizes n (sizes,), errors (sizes, repeats), and the slope of log error on log n with its 95 % interval.

    With few sizes there is no slope.
    """

    n: Sequence[float]
    error: Sequence[Sequence[float]]
    slope: NotRequired[float]
    interval: NotRequired[Sequence[float]]


class Recovery(TypedDict):
    """Sample sizes n (sizes,), λ / λ_max (lines,), and the probability of the exact support (lines, sizes).

    ``theory_lambda_ratio`` is the least λ / λ_max for which the theorem speaks, (sizes,), by version of the theorem
    where there are several; None where there is no such λ.
    """

    n: Sequence[float]
    multipliers: Sequence[float]
    probability: Sequence[Sequence[float]]
    theory_lambda_ratio: NotRequired[Mapping[str, Sequence[float | None]] | Sequence[float | None]]


class Identification(TypedDict):
    """Sample sizes n (sizes,) and the error of each effect by name, (sizes,)."""

    n: Sequence[float]
    error: Mapping[str, Sequence[float]]


class Flow(TypedDict):
    """Iterations (steps,), the objective there (steps,), the optimum it should reach, features at exactly 0."""

    iteration: Sequence[float]
    objective: Sequence[float]
    optimum: NotRequired[float]
    zeros: NotRequired[Sequence[float]]


def draw_estimation_error(points: Estimation, slope: float | None = None) -> Figure:
    """Draw the error against n, both on log axes: each repeat a dot, their means a line.

    Parameters
    ----------
    points
        What was measured.
    slope
        The slope that the theorem gives; a line of this slope goes through the first mean.
    """
    n = numbers(points["n"])
    same_length("draw_estimation_error", n=n, error=[np.mean(repeats) for repeats in points["error"]])
    sheet = new_sheet(1, 1, _WIDTH, _HEIGHT)
    (panel,) = sheet.panels
    means = np.array([np.mean(numbers(repeats)) for repeats in points["error"]])
    across = np.concatenate([np.full(len(repeats), size) for size, repeats in zip(n, points["error"], strict=True)])
    all_errors = np.concatenate([numbers(repeats) for repeats in points["error"]])
    (dots,) = panel.plot(across, all_errors, color=BLUE, linestyle="", marker="o", markersize=2.5, alpha=0.35)
    (line,) = panel.plot(n, means, color=BLUE, linestyle="-", linewidth=1.6, marker="o", markersize=5.0)
    handles: list[Artist] = [dots, line]
    labels = ["repeats", _slope_words(points)]
    if slope is not None:
        (rule,) = panel.plot(n, means[0] * (n / n[0]) ** slope, color=BLACK, linestyle="--", linewidth=1.2)
        handles.append(rule)
        labels.append(f"theorem, slope {slope:.3g}")
    use_log(panel, "y")
    _label_rows(panel, n)
    panel.set_ylabel("estimation error", fontsize=FONT)
    sheet.legend(handles, labels, columns=3)
    return sheet.figure


def _slope_words(points: Estimation) -> str:
    if "slope" not in points or "interval" not in points:
        return "mean"
    low, high = points["interval"]
    return f"mean, slope {points['slope']:.3g} ({low:.3g} to {high:.3g})"


def draw_recovery(grid: Recovery) -> Figure:
    """Draw the probability of the exact support against n, one line a multiplier of λ_max.

    With ``theory_lambda_ratio`` a second panel shows the theorem's λ / λ_max; above 1 every feature is dropped.
    """
    n = numbers(grid["n"])
    same_length("draw_recovery", multipliers=grid["multipliers"], probability=[0.0] * len(grid["probability"]))
    ratios = grid.get("theory_lambda_ratio")
    sheet = new_sheet(1, 1 if ratios is None else 2, _WIDTH if ratios is None else 4.4, _HEIGHT)
    count = len(grid["multipliers"])
    pens = [ordered_pen(place, count) for place in range(count)]
    rows = {
        f"{multiplier:g}": (n, numbers(row))
        for multiplier, row in zip(grid["multipliers"], grid["probability"], strict=True)
    }
    handles = _draw_lines(sheet.panels[0], rows, pens, marks=True)
    sheet.panels[0].set_ylim(-0.04, 1.04)
    _label_rows(sheet.panels[0], n)
    sheet.panels[0].set_ylabel("probability of the exact support", fontsize=FONT)
    sheet.legend(handles, [f"{name} λ_max" for name in rows], columns=4)
    if ratios is not None:
        sheet.panels[1].set_xlim(*sheet.panels[0].get_xlim())  # lines without any λ set no limits
        _draw_ratios(sheet.panels[1], n, ratios if isinstance(ratios, Mapping) else {"theorem": ratios})
    return sheet.figure


def _draw_ratios(panel: Panel, n: NDArray[np.float64], ratios: Mapping[str, Sequence[float | None]]) -> None:
    lines = {name: (n, np.array([np.nan if own is None else own for own in row])) for name, row in ratios.items()}
    handles = _draw_lines(panel, lines, [pen(number) for number in range(len(lines))], marks=True)
    panel.axhline(1.0, color=BLACK, linewidth=1.0, zorder=1)
    labels = [plain(name) + (" (no such λ)" if np.isnan(row).all() else "") for name, (_, row) in lines.items()]
    panel.legend(handles, labels, fontsize=SMALL, handlelength=3.0)
    panel.set_ylabel("the theorem's λ / λ_max", fontsize=FONT)
    if not any((row > 0).any() for _, row in lines.values()):
        panel.set_ylim(0.5, 2.0)  # there is only the line at 1
    use_log(panel, "y")
    _label_rows(panel, n)


def draw_identification(points: Identification) -> Figure:
    """Draw the error of each effect against n, both on log axes, one line a feature."""
    n = numbers(points["n"])
    sheet = new_sheet(1, 1, _WIDTH, _HEIGHT)
    (panel,) = sheet.panels
    lines = {name: (n, numbers(error)) for name, error in points["error"].items()}
    handles = _draw_lines(panel, lines, [pen(number) for number in range(len(lines))], marks=True)
    if any(np.any(error > 0) for _, error in lines.values()):
        use_log(panel, "y")
    _label_rows(panel, n)
    panel.set_ylabel("error of the effect", fontsize=FONT)
    labels = [plain(name, 40) + ("" if (error > 0).any() else " (exactly 0)") for name, (_, error) in lines.items()]
    sheet.legend(handles, labels, columns=_legend_columns(labels))
    return sheet.figure


def draw_flows(histories: Mapping[str, Flow], title: str = "") -> Figure:
    """Draw objective - optimum against iterations, the gap on a log axis, one line a method.

    A gap that is not above 0 has met its optimum to rounding; the line ends there. Where no optimum is known the
    objective itself is drawn. With ``zeros`` in every history a second panel shows the features at exactly 0. More
    than 1000 iterations are drawn on a log axis. ``title`` is written over the panels.
    """
    not_empty("draw_flows", len(histories))
    solved = [name for name, flow in histories.items() if "optimum" in flow]
    if solved and len(solved) < len(histories):
        got = f"it for {', '.join(solved)} only"
        raise InputError(describe("draw_flows", "an optimum for all methods or for none", got, "draw them apart"))
    counted = all("zeros" in flow for flow in histories.values())
    sheet = new_sheet(1, 2 if counted else 1, 4.4 if counted else _WIDTH, _HEIGHT)
    pens = [pen(number) for number in range(len(histories))]
    gaps = {name: (numbers(flow["iteration"]), _gap(flow)) for name, flow in histories.items()}
    handles = _draw_lines(sheet.panels[0], gaps, pens, marks=False)
    sheet.panels[0].set_ylabel("objective - optimum" if solved else "objective", fontsize=FONT)
    use_log(sheet.panels[0], "y")
    if counted:
        zeros = {
            name: (numbers(flow["iteration"]), numbers(flow.get("zeros", []))) for name, flow in histories.items()
        }
        _draw_lines(sheet.panels[1], zeros, pens, marks=False)
        sheet.panels[1].set_ylabel("features at exactly 0", fontsize=FONT)
        sheet.panels[1].yaxis.set_major_locator(MaxNLocator(integer=True))
        most = max(1.0, *(float(values.max()) for _, values in zeros.values()))
        sheet.panels[1].set_ylim(-0.05 * most, 1.05 * most)  # without zeros the axis would have no whole numbers
    long = max(float(iteration[-1]) for iteration, _ in gaps.values()) > _LONG
    for panel in sheet.panels:
        panel.set_xlabel("iterations", fontsize=FONT)
        if long:
            use_log(panel, "x")
    sheet.legend(handles, [plain(name, 40) for name in histories], columns=_legend_columns(histories))
    sheet.title(title)
    return sheet.figure


def _gap(flow: Flow) -> NDArray[np.float64]:
    gap = numbers(flow["objective"]) - flow.get("optimum", 0.0)
    return np.where(gap > 0, gap, np.nan)


def _label_rows(panel: Panel, n: NDArray[np.float64]) -> None:
    """Make the number of rows a log axis, with a mark at each size if these are few."""
    use_log(panel, "x")
    if len(n) <= _MOST_MARKS:
        panel.set_xticks(n)
        panel.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("rows n", fontsize=FONT)


def _draw_lines(
    panel: Panel,
    lines: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]],
    pens: Sequence[Pen],
    marks: bool,
) -> list[Artist]:
    """Draw named lines and return them."""
    not_empty("the figure", len(lines))
    handles: list[Artist] = []
    for look, (name, (x, y)) in zip(pens, lines.items(), strict=True):
        same_length(f"the line {name}", x=x, y=y)
        mark = look.mark if marks else ""
        handles += panel.plot(
            x, y, color=look.colour, linestyle=look.style, linewidth=1.5, marker=mark, markersize=4.5
        )
    return handles


def _legend_columns(names: Iterable[str]) -> int:
    return 2 if max(map(len, names)) > 16 else 4
