"""Rates, probabilities and histories as lines, in panels side by side with one legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike

from paper.experiments.cells import Result
from paper.experiments.recovery import VERSIONS

FONT = 8.0
FAR = 100.0  # a line this many times above the start does not set the range
# colours of Okabe and Ito; a proximal solver has the colour of its plain twin, and a full line: it reaches zeros
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")
SOLVERS = {
    "gd": (PALETTE[0], "--", ""),
    "prox_gd": (PALETTE[0], "-", ""),
    "sgd": (PALETTE[1], "--", ""),
    "prox_sgd": (PALETTE[1], "-", ""),
    "adam": (PALETTE[2], "--", ""),
    "prox_adam": (PALETTE[2], "-", ""),
    "fista": (PALETTE[6], "-.", ""),
}


@dataclass(frozen=True, slots=True)
class Lines:
    """One panel: labels of its axes, named lines (x, y), which axes are logarithmic, and a range of y.

    ``looks`` has colour, style and mark of lines that are not to take the next of the palette.
    """

    x_label: str
    y_label: str
    lines: Mapping[str, tuple[ArrayLike, ArrayLike]]
    log: str = "xy"
    mark: str = "o"
    limits: tuple[float, float] | None = None
    looks: Mapping[str, tuple[str, str, str]] = field(default_factory=dict[str, tuple[str, str, str]])


def draw_lines(panels: Sequence[Lines], title: str = "") -> Figure:
    """Draw panels side by side with one legend below; what has no logarithm leaves a gap on a log axis."""
    figure, axes = new_sheet(1, len(panels), 5.6 if len(panels) == 1 else 4.4, 3.8)
    handles: dict[str, Any] = {}
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    looks = {name: (PALETTE[i % len(PALETTE)], STYLES[i // len(PALETTE) % 4], None) for i, name in enumerate(names)}
    for axis, panel in zip(axes[0], panels, strict=True):
        for name, (x, y) in panel.lines.items():
            colour, style, mark = panel.looks.get(name, looks[name])
            heights = np.asarray(y, dtype=np.float64)
            heights = np.where(heights > 0, heights, np.nan) if "y" in panel.log else heights
            mark = panel.mark if mark is None else mark
            (line,) = axis.plot(x, heights, color=colour, linestyle=style, marker=mark, linewidth=1.5, markersize=4)
            handles.setdefault(name, line)
        axis.set_xlabel(panel.x_label, fontsize=FONT)
        axis.set_ylabel(panel.y_label, fontsize=FONT)
        axis.tick_params(which="both", labelsize=FONT - 1)
        axis.grid(True, color="0.92", linewidth=0.6)
        if panel.limits is not None:
            axis.set_ylim(*panel.limits)
        for side in panel.log:
            _use_log(axis, side)
    labels = [plain(name) for name in handles]
    columns = 2 if max(map(len, labels)) > 24 else 4
    layout: Any = {"loc": "outside lower center", "ncols": columns, "fontsize": FONT, "frameon": False}
    figure.legend(list(handles.values()), labels, **layout)  # pyright: ignore[reportUnknownMemberType]
    if title:
        figure.suptitle(plain(title), fontsize=FONT + 2)  # pyright: ignore[reportUnknownMemberType]
    return figure


def new_sheet(rows: int, columns: int, width: float, height: float, share: Any = False) -> tuple[Figure, Any]:
    """Return a figure and its axes (rows, columns), each ``width`` × ``height`` inches."""
    figure = Figure(figsize=(max(4.6, columns * width), rows * height), layout="constrained")
    FigureCanvasAgg(figure)  # not pyplot's, whose state stays as it is
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)


def _use_log(axis: Any, side: str) -> None:
    """Make an axis logarithmic with plain numbers; more of them where it has few decades."""
    getattr(axis, f"set_{side}scale")("log")
    low, high = getattr(axis, f"get_{side}lim")()
    scale = getattr(axis, f"{side}axis")
    decades = np.log10(high / low)
    multiples = (1.0,) if decades > 2.5 else (1.0, 2.0, 5.0)
    scale.set_major_locator(LogLocator(subs=multiples) if decades > 1 else MaxNLocator(5))
    scale.set_major_formatter(FormatStrFormatter("%g"))
    scale.set_minor_formatter(NullFormatter())


def plain(text: str) -> str:
    """Return text that matplotlib draws as it stands: a dollar sign would begin a formula."""
    return text.replace("$", r"\$").replace("_", " ")


def draw_histories(histories: Mapping[str, Sequence[Mapping[str, float]]], title: str) -> Figure:
    """Draw loss + penalty against epochs and against seconds, one line a solver."""
    objectives = {
        solver: np.array([point["loss"] + point["penalty"] for point in points]) for solver, points in histories.items()
    }
    start = max(float(y[0]) for y in objectives.values())
    highest = max(float(y.max()) for y in objectives.values())
    lowest = min(float(y.min()) for y in objectives.values())
    limits = (lowest / 1.2, 2 * start) if highest > FAR * start else None
    panels = [
        Lines(
            label,
            "objective",
            {s: ([point[key] for point in points], objectives[s]) for s, points in histories.items()},
            log="y",
            mark="",
            limits=limits,
            looks=SOLVERS,
        )
        for label, key in (("epochs", "epoch"), ("seconds", "seconds"))
    ]
    return draw_lines(panels, title)


def draw_estimation(points: Result, slope: float) -> Figure:
    """Draw the error against n: each repeat a dot, their means a line, and a line of the theorem's slope."""
    n = np.array(points["n"], dtype=np.float64)
    means = np.array([sum(repeats) / len(repeats) for repeats in points["error"]])
    across = [size for size, repeats in zip(n, points["error"], strict=True) for _ in repeats]
    name = "mean"
    if "slope" in points:
        low, high = points["interval"]
        name = f"mean, slope {points['slope']:.3g} ({low:.3g} to {high:.3g})"
    theorem = f"theorem, slope {slope:.3g}"
    lines = {
        "repeats": (across, np.concatenate(points["error"])),
        name: (n, means),
        theorem: (n, means[0] * (n / n[0]) ** slope),
    }
    looks = {"repeats": ("0.6", "", "."), name: (PALETTE[0], "-", "o"), theorem: ("black", "--", "")}
    return draw_lines([Lines("rows n", "estimation error", lines, looks=looks)])


def draw_recovery(grid: Result, theory: Sequence[Result]) -> Figure:
    """Draw the probability of the exact support against n, a line a λ / λ_max, and the theorem's λ / λ_max.

    Above 1 every column is dropped; a version without any λ has no line.
    """
    lines = zip(grid["multipliers"], grid["probability"], strict=True)
    found = {f"{multiplier:g} λ_max": (grid["n"], row) for multiplier, row in lines}
    panels = [Lines("rows n", "probability of the exact support", found, log="x", limits=(-0.04, 1.04))]
    ratios = {
        version: (grid["n"], [np.nan if row[version] is None else row[version] for row in theory])
        for version in VERSIONS
        if any(row[version] is not None for row in theory)
    }
    if ratios:
        panels.append(Lines("rows n", "the theorem's λ / λ_max", ratios, mark="s"))
    return draw_lines(panels)


def draw_flows(traces: Mapping[str, tuple[Result, Result]]) -> Figure:
    """Draw objective - optimum, and columns at exactly 0, against iterations, from traces and results by method.

    A line ends where its gap is closed to rounding. The network's optimum is the lowest objective seen.
    """
    lowest = min(result["lowest"] for _, result in traces.values())
    gaps = {
        method: (trace["iteration"], np.array(trace["objective"]) - result.get("optimum", lowest))
        for method, (trace, result) in traces.items()
    }
    zeros = {method: (trace["iteration"], trace["zeros"]) for method, (trace, _) in traces.items()}
    convex = all("optimum" in result for _, result in traces.values())
    title = (
        "the convex problem of random features" if convex else "the network; its optimum is the lowest objective seen"
    )
    return draw_lines(
        [
            Lines("iterations", "objective - optimum", gaps, mark=""),
            Lines("iterations", "columns at exactly 0", zeros, log="x", mark=""),
        ],
        title,
    )
