"""Fitted effects beside the true ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.artist import Artist
from matplotlib.figure import Figure

from sparsenam.explain.drawing import BLUE, ORANGE
from sparsenam.explain.plots.sheet import (
    FONT,
    Panel,
    Sheet,
    new_sheet,
    not_empty,
    numbers,
    plain,
    same_length,
    say_dropped,
)
from sparsenam.paper.curves import Curve

_COLUMNS = 4
_LEAST_RANGE = 0.1


def draw_effects_against_truth(curves: Sequence[Curve], method: str, features: int = 8) -> Figure:
    """Draw each effect (full line) over the truth (broken line), one panel a feature, all to one scale.

    Parameters
    ----------
    curves
        Curves with a ``truth``, as `sparsenam.paper.curves.effect_curves` returns them; a feature that is not
        ``kept`` is marked as dropped.
    method
        Name of the method, for the title.
    features
        How many of the curves are drawn.
    """
    shown = curves[:features]
    not_empty("draw_effects_against_truth", len(shown))
    columns = min(_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    sheet = new_sheet(rows, columns, 2.3, 1.9, share_y=True)
    handles: list[Artist] = []
    for panel, curve in zip(sheet.panels, shown, strict=False):
        handles = _draw_pair(panel, curve)
        panel.set_xlabel(plain(curve["feature"]), fontsize=FONT)
    for panel in sheet.panels[len(shown) :]:
        panel.set_visible(False)
    _finish(sheet, handles, f"effects by {method}")
    return sheet.figure


def draw_zoo(curves_by_method: Mapping[str, Sequence[Curve]], features: int = 5) -> Figure:
    """Draw the effects of several methods over the truth: one row a method, one column a feature.

    Parameters
    ----------
    curves_by_method
        ``{method: curves}``; every method has the same features in the same order. Each column has one scale.
    features
        How many of the features are drawn.
    """
    not_empty("draw_zoo", len(curves_by_method))
    columns = min(features, min(len(curves) for curves in curves_by_method.values()))
    not_empty("draw_zoo", columns)
    sheet = new_sheet(len(curves_by_method), columns, 1.9, 1.45, share_y="col", share_x="col")
    handles: list[Artist] = []
    for row, (method, curves) in enumerate(curves_by_method.items()):
        panels = sheet.panels[row * columns : (row + 1) * columns]
        panels[0].set_ylabel(plain(method, 18), fontsize=FONT)
        for panel, curve in zip(panels, curves, strict=False):
            handles = _draw_pair(panel, curve)
            if row == 0:
                panel.set_title(plain(curve["feature"], 22), fontsize=FONT)
    _scale_columns(sheet, columns)
    _finish(sheet, handles, "")
    return sheet.figure


def _scale_columns(sheet: Sheet, columns: int) -> None:
    """Give no column a range under a tenth of the widest one: rounding would look like an effect."""
    ranges = [panel.get_ylim() for panel in sheet.panels[:columns]]
    least = _LEAST_RANGE * max(high - low for low, high in ranges)
    for panel, (low, high) in zip(sheet.panels, ranges, strict=False):
        if high - low < least:
            middle = (low + high) / 2
            panel.set_ylim(middle - least / 2, middle + least / 2)


def _draw_pair(panel: Panel, curve: Curve) -> list[Artist]:
    x, effect = numbers(curve["x"]), numbers(curve["effect"])
    truth = numbers(curve.get("truth", []))
    same_length(f"the curve of {curve['feature']}", x=x, effect=effect, truth=truth)
    (true_line,) = panel.plot(x, truth, color=ORANGE, linestyle="--", linewidth=2.8)
    (line,) = panel.plot(x, effect, color=BLUE, linestyle="-", linewidth=1.2)
    if not curve["kept"]:
        say_dropped(panel, (0.5, 0.95), inside=True)
    panel.margins(x=0.03)
    panel.locator_params("x", nbins=5)
    return [line, true_line]


def _finish(sheet: Sheet, handles: Sequence[Artist], title: str) -> None:
    sheet.legend(handles, ["fit", "truth"], columns=2)
    sheet.title(title)
