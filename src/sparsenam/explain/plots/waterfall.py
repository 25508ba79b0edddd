"""From the average to the score of one row, column by column."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.explain.local import LocalExplanation, RowExplanation
from sparsenam.explain.plots.palette import BLUE, VERMILLION
from sparsenam.explain.plots.sheet import FONT, SMALL, Panel, not_empty, one_panel
from sparsenam.explain.plots.words import plain, shorten


def plot_local(
    local: LocalExplanation,
    row: int = 0,
    *,
    output: str | None = None,
    features: int = 12,
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
        The most columns drawn on their own; the others are one bar together.
    ax
        Axes of the caller's; by default a new figure.
    """
    not_empty("plot_local", len(local.rows))
    if not -len(local.rows) <= row < len(local.rows):
        raise InputError(describe("row", f"a number below {len(local.rows)}", str(row), "explain more rows"))
    own = local.rows[row]
    place = _output(local, own, output)
    names, shares = _steps(own, place, features)
    starts = own.intercept[place] + np.concatenate([[0.0], np.cumsum(shares)[:-1]]) if shares else np.zeros(0)
    sheet, panel = one_panel("plot_local", ax, 6.0, 1.5 + 0.28 * (len(names) + 1))
    for number, (start, share) in enumerate(zip(starts, shares, strict=True)):
        rises = share >= 0
        panel.barh([number], [share], 0.66, left=[start], color=BLUE if rises else VERMILLION)
        panel.plot([start + share] * 2, [number, number + 1], color="0.6", linewidth=0.7, linestyle="-")
    _write_shares(panel, starts, shares)
    total = own.score[place]
    panel.plot([total], [len(names)], color="black", linestyle="", marker="D", markersize=5.0)
    panel.axvline(own.intercept[place], color="0.5", linewidth=0.8, linestyle=":")
    panel.grid(False, axis="y")
    labels = [*names, f"score {total:.4g}"]
    panel.set_yticks(np.arange(len(labels)), labels=[plain(label, 44) for label in labels])
    panel.set_ylim(len(labels) - 0.4, -0.7)
    start = f"dotted: {own.intercept[place]:.4g}, {local.reference.split(':')[0]}"
    panel.set_xlabel(f"{plain(local.units, 60)}\n{plain(start, 60)}", fontsize=FONT)
    several = f" of {local.outputs[place]}" if len(local.outputs) > 1 else ""
    sheet.title(f"row {own.row}: score{several} {total:.4g}, prediction {own.prediction[place]:.4g}")
    return sheet.figure


def _output(local: LocalExplanation, row: RowExplanation, output: str | None) -> int:
    if output is None:
        return int(np.argmax(row.score))
    if output not in local.outputs:
        raise InputError(describe("output", f"one of {list(local.outputs)}", repr(output), "choose one"))
    return local.outputs.index(output)


def _steps(row: RowExplanation, output: int, most: int) -> tuple[list[str], list[float]]:
    """Return names and shares of the largest contributions to an output, the rest as one."""
    parts = sorted(row.contributions, key=lambda own: -abs(own.effect[output]))
    shown, rest = (parts, []) if len(parts) <= most else (parts[: most - 1], parts[most - 1 :])
    names = [f"{shorten(own.feature, 28)} = {shorten(own.value, 14)}" for own in shown]
    shares = [own.effect[output] for own in shown]
    if rest:
        names.append(f"{len(rest)} others")
        shares.append(sum(own.effect[output] for own in rest))
    return names, shares


def _write_shares(panel: Panel, starts: NDArray[np.float64], shares: list[float]) -> None:
    """Write each share beside the right end of its bar, and leave room for the outermost."""
    if not shares:
        return
    ends = np.concatenate([starts, starts + shares])
    low, high = float(ends.min()), float(ends.max())
    span = (high - low) or 1.0
    for number, (start, share) in enumerate(zip(starts, shares, strict=True)):
        panel.text(
            max(start, start + share) + 0.015 * span,
            number,
            f"{share:+.3g}",
            horizontalalignment="left",
            verticalalignment="center",
            fontsize=SMALL,
            color="0.2",
        )
    panel.set_xlim(low - 0.06 * span, high + 0.16 * span)
