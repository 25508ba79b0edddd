"""Each effect over the density of its data."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sparsenam.errors import InputError, describe
from sparsenam.explain.explanation import Explanation, Feature
from sparsenam.explain.plots.palette import BLACK, BLUE, Pen, pen
from sparsenam.explain.plots.shape import draw_shape, heights_of
from sparsenam.explain.plots.sheet import Panel, Sheet, given_sheet, new_sheet, not_empty
from sparsenam.explain.plots.words import plain

COLUMNS = 4
MOST_OUTPUTS = 7  # beyond these, colours would repeat


def plot_shapes(
    explanation: Explanation,
    features: Sequence[str] | int | None = None,
    *,
    outputs: Sequence[str] | None = None,
    axes: object | None = None,
    share_y: bool = True,
) -> Figure:
    """Draw effects, one panel a feature, the largest first; grey at the bottom is how often values occur.

    Numbers and dates are lines, categories bars, levels in order dots on a line; a missing cell's effect is a
    diamond apart. Of several outputs each has its colour.

    Parameters
    ----------
    features
        Names of the features to draw, or how many of the largest; by default all.
    outputs
        Names of the outputs to draw; by default all, of more than seven the first seven.
    axes
        Axes of the caller's to draw on, one a feature; by default a new figure.
    share_y
        Whether all panels of a new figure have one scale, so that heights can be compared.
    """
    shown = chosen_features(explanation, features)
    not_empty("plot_shapes", len(shown))
    places = chosen_outputs(explanation, outputs)
    pens = {place: Pen(BLUE, "-", "o") if len(explanation.outputs) == 1 else pen(place) for place in places}
    sheet = _sheet(axes, len(shown), share_y)
    for panel, own in zip(sheet.panels, shown, strict=False):
        draw_shape(panel, own, pens)
        _make_room(panel, shown if share_y and sheet.own else [own], places)
    for panel in sheet.panels[len(shown) :]:
        panel.set_visible(False)
    _say_what_lines_are(sheet, explanation, shown, pens)
    sheet.height_label(f"effect ({explanation.units})")
    sheet.title(_count(explanation, len(shown), features))
    return sheet.figure


def chosen_features(explanation: Explanation, features: Sequence[str] | int | None) -> list[Feature]:
    """Return features by name, or the largest so many, or all."""
    if features is None:
        return list(explanation.features)
    if isinstance(features, int):
        return list(explanation.features[:features])
    return [explanation.feature(name) for name in ([features] if isinstance(features, str) else features)]


def chosen_outputs(explanation: Explanation, outputs: Sequence[str] | None) -> list[int]:
    """Return the places of outputs by name, or the first seven."""
    names = list(explanation.outputs)
    if outputs is None:
        return list(range(min(len(names), MOST_OUTPUTS)))
    wanted = [outputs] if isinstance(outputs, str) else list(outputs)
    unknown = [name for name in wanted if name not in names]
    if unknown or not wanted:
        got = repr(unknown[0]) if unknown else "none"
        raise InputError(describe("outputs", f"some of {names}", got, "choose among these"))
    return [names.index(name) for name in wanted]


def _sheet(axes: object | None, count: int, share_y: bool) -> Sheet:
    if axes is not None:
        return given_sheet("plot_shapes", axes, count)
    columns = min(COLUMNS, count)
    return new_sheet(-(-count // columns), columns, 2.4, 2.0, share_y=share_y)


def _make_room(panel: Panel, features: Sequence[Feature], outputs: Sequence[int]) -> None:
    """Leave the bottom of the panel to the density."""
    heights = [height for own in features for height in heights_of(own, outputs)]
    low, high = min(0.0, *heights), max(0.0, *heights)
    span = (high - low) or 1.0
    panel.set_ylim(low - 0.36 * span, high + 0.1 * span)


def _say_what_lines_are(
    sheet: Sheet, explanation: Explanation, shown: Sequence[Feature], pens: dict[int, Pen]
) -> None:
    handles: list[Artist] = []
    labels: list[str] = []
    if len(explanation.outputs) > 1:
        for place, look in pens.items():
            handles.append(Line2D([], [], color=look.colour, linestyle=look.style, marker=look.mark, markersize=4))
            labels.append(plain(explanation.outputs[place], 20))
    if any(own.missing is not None for own in shown):
        handles.append(Line2D([], [], color=BLACK, linestyle="", marker="D", markersize=5, markerfacecolor="white"))
        labels.append("a missing cell")
    if handles:
        sheet.legend(handles, labels, columns=min(4, len(handles)))


def _count(explanation: Explanation, shown: int, features: Sequence[str] | int | None) -> str:
    kept, gone = len(explanation.features), len(explanation.dropped)
    by_name = features is not None and not isinstance(features, int)
    effects = f"{shown} effect{'s' if shown > 1 else ''}"
    count = f"the {shown} largest of {kept} effects" if shown < kept and not by_name else effects
    return f"{count}, {gone} of {kept + gone} columns dropped"
