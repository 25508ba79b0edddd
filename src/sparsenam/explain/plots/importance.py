"""How much each feature moves the prediction."""

from __future__ import annotations

from typing import Literal

import numpy as np
from matplotlib.figure import Figure

from sparsenam.errors import InputError, describe
from sparsenam.explain.explanation import Explanation
from sparsenam.explain.plots.palette import BLUE
from sparsenam.explain.plots.sheet import FONT, SMALL, not_empty, one_panel
from sparsenam.explain.plots.words import plain

MEASURES = {"mean_absolute": "mean |effect|", "variation": "max - min of the effect"}


def plot_importance(
    explanation: Explanation,
    features: int = 30,
    *,
    measure: Literal["mean_absolute", "variation"] = "mean_absolute",
    ax: object | None = None,
) -> Figure:
    """Draw the size of each effect as a bar, the largest first.

    Parameters
    ----------
    features
        The most bars.
    measure
        "mean_absolute", the mean size of the effect over the rows, or "variation", its max - min.
    ax
        Axes of the caller's; by default a new figure.
    """
    if measure not in MEASURES:
        raise InputError(describe("measure", f"one of {sorted(MEASURES)}", repr(measure), "choose one"))
    not_empty("plot_importance", len(explanation.features))
    sizes = {own.name: float(getattr(own, measure)) for own in explanation.features}
    names = sorted(sizes, key=lambda name: -sizes[name])[:features]
    lengths = [sizes[name] for name in names]
    sheet, panel = one_panel("plot_importance", ax, 6.0, 1.1 + 0.26 * len(names))
    places = np.arange(len(names))
    panel.barh(places, lengths, 0.7, color=BLUE)
    longest = max(lengths) or 1.0
    for place, length in enumerate(lengths):
        panel.text(
            length + 0.01 * longest,
            place,
            f"{length:.3g}",
            horizontalalignment="left",
            verticalalignment="center",
            fontsize=SMALL,
            color="0.25",
        )
    panel.grid(False, axis="y")
    panel.set_yticks(places, labels=[plain(name, 34) for name in names])
    panel.set_ylim(len(names) - 0.4, -0.6)
    panel.set_xlim(0.0, 1.12 * longest)
    panel.set_xlabel(f"{MEASURES[measure]} ({plain(explanation.units, 60)})", fontsize=FONT)
    kept, gone = len(explanation.features), len(explanation.dropped)
    most = f"the {len(names)} largest of {kept} effects" if len(names) < kept else f"{kept} columns kept"
    sheet.title(f"{most}, {gone} dropped")
    return sheet.figure
