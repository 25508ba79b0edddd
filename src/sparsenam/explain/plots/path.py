"""Norms along the path, and the cross-validation that chose a point on it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from sparsenam.errors import InputError, describe
from sparsenam.explain.explanation import Explanation
from sparsenam.explain.plots.log_axis import use_log
from sparsenam.explain.plots.palette import BLACK, BLUE, ORANGE, VERMILLION, pen
from sparsenam.explain.plots.sheet import FONT, SMALL, Panel, numbers, one_panel
from sparsenam.explain.plots.words import plain

LABEL_HEIGHT = 0.052  # of a panel: the least distance between two names
VISIBLE = 0.02  # of the largest norm: below, a line is one with the axis
MARGIN = 0.02  # of the path, on either side


def plot_path(explanation: Explanation, labels: int = 10, *, ax: object | None = None) -> Figure:
    """Draw each feature's norm against alpha, from the empty model on the left; the dotted line is the alpha taken.

    Parameters
    ----------
    labels
        How many of the largest get a colour and a name; the others are grey.
    ax
        Axes of the caller's; by default a new figure.
    """
    path = _known(explanation.path, "plot_path", "a path")
    alphas, norms = numbers(path["alphas"]), numbers(path["norms"])
    names: list[str] = path["names"]
    sheet, panel = one_panel("plot_path", ax, 6.4, 3.8)
    order = np.argsort(-norms[-1] - norms.max(axis=0), kind="stable") if names else np.zeros(0, dtype=np.intp)
    visible = norms.max(axis=0)[order] >= VISIBLE * norms.max(initial=0.0)
    named = order[visible][:labels]
    for place in order[np.isin(order, named, invert=True)]:
        panel.plot(alphas, norms[:, place], color="0.8", linestyle="-", linewidth=0.8)
    for number, place in enumerate(named):
        look = pen(number)
        panel.plot(alphas, norms[:, place], color=look.colour, linestyle=look.style, linewidth=1.4)
    panel.axvline(explanation.card["alpha"] or float(alphas[-1]), color="0.3", linewidth=0.9, linestyle=":")
    panel.set_ylim(0.0, 1.05 * float(norms.max(initial=0.0)) or 1.0)
    _fall(panel, alphas)
    _name_ends(panel, [names[place] for place in named], norms[-1, named] if names else np.zeros(0))
    panel.set_ylabel("norm of the effect", fontsize=FONT)
    sheet.title(f"path: {len(names)} {_word(explanation)} entered")
    return sheet.figure


def plot_curve(explanation: Explanation, *, ax: object | None = None) -> Figure:
    """Draw the held-out loss with one standard error against alpha, the best point and the one taken marked.

    Numbers along the top are the numbers of features.
    """
    curve: list[dict[str, float]] = _known(explanation.curve, "plot_curve", "a cross-validation curve")
    chosen: dict[str, int] = _known(explanation.chosen, "plot_curve", "a chosen point")
    alphas, mean, error, sizes = (
        numbers([point[key] for point in curve]) for key in ("alpha", "mean", "standard_error", "features")
    )
    sheet, panel = one_panel("plot_curve", ax, 6.0, 3.6)
    panel.fill_between(alphas, mean - error, mean + error, color=BLUE, alpha=0.18, linewidth=0.0)
    panel.plot(alphas, mean, color=BLUE, linestyle="-", linewidth=1.4, marker="o", markersize=2.5)
    best, taken = chosen["best"], chosen["taken"]
    points = [(taken, VERMILLION, "D", "best and taken")]
    if best != taken:
        points = [(best, ORANGE, "*", "best"), (taken, VERMILLION, "D", "taken")]
    handles = [
        panel.plot([alphas[place]], [mean[place]], color=colour, linestyle="", marker=mark, markersize=8.0)[0]
        for place, colour, mark, _ in points
    ]
    panel.axvline(float(alphas[taken]), color=VERMILLION, linewidth=0.8, linestyle=":")
    labels = [f"{words}: {sizes[place]:.0f} {_word(explanation)}" for place, _, _, words in points]
    panel.set_ylim(None, float((mean + error).max() + 0.12 * (np.ptp(mean) or 1.0)))
    _fall(panel, alphas)
    _write_sizes(panel, alphas, sizes)
    panel.set_ylabel("held-out loss", fontsize=FONT)
    sheet.legend(handles, labels, columns=2)
    sheet.title("cross-validation: mean loss and one standard error")
    return sheet.figure


def _fall(panel: Panel, alphas: NDArray[np.float64]) -> None:
    """Let alpha fall from left to right, on a log axis where there are several."""
    above = alphas[alphas > 0]
    if above.size > 1 and above.max() > above.min():
        margin = (above.max() / above.min()) ** MARGIN
        use_log(panel, "x", (float(above.min() / margin), float(above.max() * margin)))
        panel.invert_xaxis()
    panel.set_xlabel("alpha", fontsize=FONT)


def _name_ends(panel: Panel, names: list[str], heights: NDArray[np.float64]) -> None:
    """Write names to the right of the panel, near the ends of their lines, none over another."""
    low, high = panel.get_ylim()
    places = spread((heights - low) / (high - low), LABEL_HEIGHT)
    for number, (name, place) in enumerate(zip(names, places, strict=True)):
        panel.text(
            1.015,
            float(low + place * (high - low)),
            plain(name, 24),
            transform=panel.get_yaxis_transform(),
            horizontalalignment="left",
            verticalalignment="center",
            fontsize=SMALL,
            color=pen(number).colour if names else BLACK,
        )


def spread(places: NDArray[np.float64], distance: float) -> NDArray[np.float64]:
    """Return the places in [0, 1] nearest to those given, in squares, in their order and at least so far apart.

    Places that do not fit at this distance share the room evenly. Shapes (n,).
    """
    if places.size < 2:
        return np.clip(places, 0.0, 1.0)
    steps = min(distance, 1.0 / (places.size - 1)) * np.arange(places.size)
    order = np.argsort(places, kind="stable")
    moved = np.asarray(isotonic_regression(places[order] - steps).x, dtype=np.float64)
    result = np.empty(places.size)
    result[order] = np.clip(moved, 0.0, 1.0 - steps[-1]) + steps
    return result


def _write_sizes(panel: Panel, alphas: NDArray[np.float64], sizes: NDArray[np.float64]) -> None:
    """Write numbers of features along the top, where they change and there is room."""
    above = alphas > 0
    if above.sum() < 2:
        return
    logs = np.log(alphas[above])
    apart, last = 0.035 * (logs.max() - logs.min()), np.inf
    written = -1.0
    for place, size in zip(logs, sizes[above], strict=True):
        if size != written and last - place >= apart:
            panel.text(
                float(np.exp(place)),
                0.99,
                f"{size:.0f}",
                transform=panel.get_xaxis_transform(),
                horizontalalignment="center",
                verticalalignment="top",
                fontsize=SMALL,
                color="0.35",
            )
            last, written = place, size


def _word(explanation: Explanation) -> str:
    """Return what the path is of: the values and the missing cells of one column are two terms."""
    return "features" if all(own.terms == (own.name,) for own in explanation.features) else "terms"


def _known(part: Any, where: str, what: str) -> Any:
    if not part:
        got, remedy = "an explanation without one", 'fit with alpha="auto"'
        raise InputError(describe(where, what, got, remedy))
    return part
