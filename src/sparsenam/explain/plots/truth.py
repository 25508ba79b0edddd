"""Fitted effects beside the true ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sparsenam.errors import InputError, describe
from sparsenam.explain.explanation import Explanation
from sparsenam.explain.plots.palette import BLUE, ORANGE
from sparsenam.explain.plots.sheet import (
    FONT,
    Panel,
    given_sheet,
    new_sheet,
    not_empty,
    numbers,
    same_length,
    say_dropped,
)
from sparsenam.explain.plots.words import plain

COLUMNS = 4


def plot_truth(
    explanation: Explanation,
    truth: Mapping[str, tuple[ArrayLike, ArrayLike]],
    features: Sequence[str] | None = None,
    *,
    axes: object | None = None,
) -> Figure:
    """Draw each effect (full line) over the truth (broken line), one panel a feature, all to one scale.

    Parameters
    ----------
    truth
        For each feature x and its true effect at the rows of the data, shapes (rows,); its mean is taken off, as
        that of the effect is. A feature that the model dropped is marked.
    features
        Which features to draw, and in which order; by default all of ``truth``.
    axes
        Axes of the caller's, one a feature; by default a new figure.
    """
    names = list(truth if features is None else features)
    not_empty("plot_truth", len(names))
    unknown = [name for name in names if name not in truth]
    if unknown:
        raise InputError(describe("features", f"some of {list(truth)}", repr(unknown[0]), "give its truth"))
    if len(explanation.outputs) > 1:
        raise InputError(describe("plot_truth", "one output", str(len(explanation.outputs)), "use plot_shapes"))
    columns = min(COLUMNS, len(names))
    sheet = (
        new_sheet(-(-len(names) // columns), columns, 2.4, 2.0, share_y=True)
        if axes is None
        else given_sheet("plot_truth", axes, len(names))
    )
    handles: list[Artist] = []
    for panel, name in zip(sheet.panels, names, strict=False):
        handles = _draw_pair(panel, explanation, name, *truth[name])
    for panel in sheet.panels[len(names) :]:
        panel.set_visible(False)
    sheet.legend(handles, ["fit", "truth"], columns=2)
    sheet.height_label(f"effect ({explanation.units})")
    sheet.title("effects and truth")
    return sheet.figure


def _draw_pair(panel: Panel, explanation: Explanation, name: str, x: ArrayLike, effect: ArrayLike) -> list[Artist]:
    same_length(f"the truth of {name!r}", x=x, effect=effect)
    places, heights = numbers(x), numbers(effect)
    order = np.argsort(places, kind="stable")
    places, heights = places[order], (heights - heights.mean())[order]
    (true_line,) = panel.plot(places, heights, color=ORANGE, linestyle="--", linewidth=2.8)
    kept = next((own for own in explanation.features if own.name == name), None)
    if kept is not None and kept.curve is not None:
        curve = numbers(kept.curve.x), numbers(kept.curve.effect)[:, 0]
    else:
        curve = places[[0, -1]], np.zeros(2)
    (line,) = panel.plot(*curve, color=BLUE, linestyle="-", linewidth=1.2)
    if kept is None:
        say_dropped(panel, (0.5, 0.95), inside=True)
    panel.margins(x=0.03)
    panel.locator_params("x", nbins=5)
    panel.set_xlabel(plain(name), fontsize=FONT)
    return [line, true_line]
