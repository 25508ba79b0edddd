"""The largest effects on real data, over the density of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from sparsenam.explain.drawing import BLUE
from sparsenam.explain.plots.sheet import FONT, Panel, new_sheet, not_empty, numbers, plain, same_length
from sparsenam.paper.curves import FEW, Curve, Density, largest

_COLUMNS = 4
_DENSITY_HEIGHT = 0.2  # of a panel
_FEW_MARKS = 4
_LEAST_GAP = 0.2  # of the axis: the labels of closer marks would run into each other


def draw_effects(
    curves: Sequence[Curve],
    title: str,
    density: Mapping[str, Density] | None = None,
    features: int = 16,
    share_y: bool = True,
    counts: tuple[int, int] | None = None,
) -> Figure:
    """Draw the largest effects, one panel a feature, the largest first.

    Parameters
    ----------
    curves
        As `sparsenam.paper.curves.effect_curves` returns them.
    title
        Written over all panels; how many features are shown and dropped is added.
    density
        Histograms by feature, as `sparsenam.paper.curves.densities` returns them, drawn in grey at the bottom.
    features
        The most panels.
    share_y
        Whether all panels have one scale, so that heights can be compared.
    counts
        How many features the model keeps and how many there are, where ``curves`` are only some of them.
    """
    kept = [curve for curve in curves if curve["kept"]]
    shown = largest(kept or curves, features)
    not_empty("draw_effects", len(shown))
    columns = min(_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    sheet = new_sheet(rows, columns, 2.3, 1.9, share_y=share_y)
    for panel, curve in zip(sheet.panels, shown, strict=False):
        _draw_one(panel, curve)
    for panel, curve in zip(sheet.panels, shown, strict=False):
        if density is not None and curve["feature"] in density:
            _draw_density(panel, density[curve["feature"]])
            _make_room(panel, shown if share_y else [curve])
    for panel in sheet.panels[len(shown) :]:
        panel.set_visible(False)
    sheet.height_label("effect")
    sheet.title(title, _count(len(shown), *(counts or (len(kept), len(curves)))))
    return sheet.figure


def _count(shown: int, kept: int, all_of_them: int) -> str:
    if kept == 0:
        return f"all {all_of_them} features dropped"
    most = f"the {shown} largest of {kept} effects" if shown < kept else f"{kept} effects"
    return f"{most}, {all_of_them - kept} of {all_of_them} features dropped"


def _draw_one(panel: Panel, curve: Curve) -> None:
    x, effect = numbers(curve["x"]), numbers(curve["effect"])
    same_length(f"the curve of {curve['feature']}", x=x, effect=effect)
    panel.axhline(0.0, color="0.6", linewidth=0.7, zorder=1)
    few = len(x) <= FEW  # then only these values exist, and the line between them is no more than a guide
    style, mark = (":", "o") if few else ("-", "")
    panel.plot(x, effect, color=BLUE, linestyle=style, linewidth=1.4, marker=mark, markersize=3.5)
    panel.set_xlabel(plain(curve["feature"]), fontsize=FONT)
    if len(x) <= _FEW_MARKS and np.all(np.diff(x) >= _LEAST_GAP * np.ptp(x)):
        panel.set_xticks(x)
    else:
        panel.locator_params("x", nbins=5)


def _draw_density(panel: Panel, density: Density) -> None:
    edges, counts = numbers(density["edges"]), numbers(density["counts"])
    heights = _DENSITY_HEIGHT * counts / max(counts.max(), 1.0)
    panel.bar(
        edges[:-1],
        heights,
        np.diff(edges),
        align="edge",
        color="0.82",
        transform=panel.get_xaxis_transform(),
        zorder=0.6,  # over the grid, under the curve
    )


def _make_room(panel: Panel, curves: Sequence[Curve]) -> None:
    """Leave the bottom of the panel to the density."""
    low = min(min(curve["effect"]) for curve in curves)
    high = max(max(curve["effect"]) for curve in curves)
    span = (high - low) or 1.0
    panel.set_ylim(low - 0.4 * span, high + 0.08 * span)
