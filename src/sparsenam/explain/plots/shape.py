"""One effect on one panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from numpy.typing import NDArray

from sparsenam.explain.explanation import Curve, Feature, Level, Missing
from sparsenam.explain.plots.density import draw_counts, draw_density, sight
from sparsenam.explain.plots.palette import Pen
from sparsenam.explain.plots.sheet import FONT, Panel, numbers
from sparsenam.explain.plots.words import plain, shorten, wrapped

MOST_LEVELS = 12
LEVEL_LETTERS = 12
LETTERS_IN_A_ROW = 26  # names of levels that fit side by side under a panel
MISSING_PLACE = 0.1  # of the range in sight, to the right of it
BAR = 0.62
MARGIN = 0.03  # of the range, on either side
NAME_LETTERS = 30  # of a line under a panel


def draw_shape(panel: Panel, feature: Feature, pens: Mapping[int, Pen]) -> None:
    """Draw the effect of a feature on the outputs that have a pen."""
    panel.axhline(0.0, color="0.55", linewidth=0.7, zorder=1.0)
    if feature.levels is not None:
        shown = shown_levels(feature.levels)
        _draw_levels(panel, feature, shown, pens)
        more = len(feature.levels) - len(shown)
        name = f"{feature.name} ({more} more levels)" if more else feature.name
    else:
        _draw_curve(panel, feature, pens)
        name = feature.name
    panel.set_xlabel(wrapped(name, NAME_LETTERS), fontsize=FONT)


def heights_of(feature: Feature, outputs: Sequence[int]) -> list[float]:
    """Return all heights that are drawn, to find the range that holds them."""
    rows = [level.effect for level in shown_levels(feature.levels or ())]
    if feature.levels is None and feature.curve is not None:
        rows = _in_sight(feature, feature.curve)[1].tolist()
    if feature.missing is not None:
        rows = [*rows, feature.missing.effect]
    return [row[output] for row in rows for output in outputs]


def shown_levels(levels: Sequence[Level]) -> list[Level]:
    """Return the levels to draw in their order: all, or the most frequent."""
    if len(levels) <= MOST_LEVELS:
        return list(levels)
    least = sorted((level.count for level in levels), reverse=True)[MOST_LEVELS - 1]
    return [level for level in levels if level.count >= least][:MOST_LEVELS]


def _draw_curve(panel: Panel, feature: Feature, pens: Mapping[int, Pen]) -> None:
    if feature.curve is None:
        return
    if feature.density is not None:
        draw_density(panel, feature.density)
    x, effect = _in_sight(feature, feature.curve)
    margin = MARGIN * (x[-1] - x[0])
    low, high = float(x[0] - margin), float(x[-1] + margin)
    for output, look in pens.items():
        panel.plot(x, effect[:, output], color=look.colour, linestyle=look.style, linewidth=1.5)
    panel.locator_params("x", nbins=4)
    if feature.kind == "date":
        locator = AutoDateLocator(minticks=2, maxticks=4)
        panel.xaxis.set_major_locator(locator)
        panel.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))
    if feature.missing is None:
        panel.set_xlim(low, high)
        return
    place = high + MISSING_PLACE * (high - low)
    panel.axvline(high, color="0.7", linewidth=0.6, linestyle=":")
    panel.set_xlim(low, place + 0.6 * (place - high))
    _draw_missing(panel, place, feature.missing, pens)


def _in_sight(feature: Feature, curve: Curve) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x (points,) and the effect (points, outputs) over the range to show."""
    x, effect = numbers(curve.x), numbers(curve.effect)
    if feature.density is None:
        return x, effect
    low, high = sight(feature.density)
    within = np.concatenate([[low], x[(x > low) & (x < high)], [high]])
    return within, np.stack([np.interp(within, x, effect[:, output]) for output in range(effect.shape[1])], axis=1)


def _draw_levels(panel: Panel, feature: Feature, levels: Sequence[Level], pens: Mapping[int, Pen]) -> None:
    places = np.arange(float(len(levels)))
    counts = [level.count for level in levels] + ([] if feature.missing is None else [feature.missing.count])
    draw_counts(panel, counts)
    effect = numbers([level.effect for level in levels])
    if feature.kind == "ordered" and len(levels) > 1:
        for output, look in pens.items():
            panel.plot(
                places,
                effect[:, output],
                color=look.colour,
                linestyle=look.style,
                linewidth=1.2,
                marker=look.mark,
                markersize=4.5,
            )
    elif len(pens) == 1:
        ((output, look),) = pens.items()
        panel.bar(
            places, effect[:, output], np.full(places.size, BAR), align="center", color=look.colour, zorder=2.0
        )
    else:
        offsets = np.linspace(-0.25, 0.25, len(pens))
        for offset, (output, look) in zip(offsets, pens.items(), strict=True):
            panel.plot(
                places + offset,
                effect[:, output],
                color=look.colour,
                linestyle="",
                marker=look.mark,
                markersize=4.5,
            )
    names = [shorten(level.name, LEVEL_LETTERS) for level in levels]
    if feature.missing is not None:
        names.append("missing")
        _draw_missing(panel, float(len(levels)), feature.missing, pens)
    _name_levels(panel, names)


def _name_levels(panel: Panel, names: Sequence[str]) -> None:
    places = np.arange(float(len(names)))
    labels = [plain(name, LEVEL_LETTERS) for name in names]
    # half a level's room on either side, so that a single bar does not fill the panel
    panel.set_xlim(-0.75, len(names) - 0.25)
    if len(names) * max(map(len, names)) <= LETTERS_IN_A_ROW:
        panel.set_xticks(places, labels)
        return
    panel.set_xticks(places, labels, rotation=40.0, horizontalalignment="right", rotation_mode="anchor")


def _draw_missing(panel: Panel, place: float, missing: Missing, pens: Mapping[int, Pen]) -> None:
    offsets = np.linspace(-0.02, 0.02, len(pens)) if len(pens) > 1 else np.zeros(1)
    low, high = panel.get_xlim()
    for offset, (output, look) in zip(offsets, pens.items(), strict=True):
        panel.plot(
            [place + offset * (high - low)],
            [missing.effect[output]],
            color=look.colour,
            linestyle="",
            marker="D",
            markersize=5.0,
            markerfacecolor="white",
            zorder=3.0,
        )
