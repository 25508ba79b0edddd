"""How much each feature moves the prediction."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from sparsenam.explain.drawing import HATCHES, pen
from sparsenam.explain.plots.sheet import FONT, new_sheet, not_empty, plain, say_dropped

_ROOM = 0.8  # of the distance between two features


def draw_variation(
    variations: Mapping[str, Mapping[str, float]], title: str = "", most: int | None = None
) -> Figure:
    """Draw max - min of each effect as a bar, the largest first; a bar of length 0 is called dropped.

    Each method's bars count in units of its longest, and a feature by its longest one: a method with an effect far
    beyond all others does not alone decide the order.

    Parameters
    ----------
    variations
        ``{method: {feature: max - min}}``, one or several methods; a feature that a method lacks counts as dropped.
    title
        Written over the figure.
    most
        How many features are drawn, all of them if left out.
    """
    not_empty("draw_variation", len(variations))
    largest: dict[str, float] = {}
    for sizes in variations.values():
        unit = max(sizes.values(), default=0.0) or 1.0
        for feature, size in sizes.items():
            largest[feature] = max(size / unit, largest.get(feature, 0.0))
    not_empty("draw_variation", len(largest))
    features = sorted(largest, key=lambda feature: -largest[feature])[:most]
    thickness = _ROOM / len(variations)
    sheet = new_sheet(1, 1, 6.0, 1.0 + len(features) * max(0.28, 0.16 * len(variations)))
    (panel,) = sheet.panels
    handles: list[Artist] = []
    for number, sizes in enumerate(variations.values()):
        places = np.arange(len(features)) - _ROOM / 2 + (number + 0.5) * thickness
        lengths = [sizes.get(feature, 0.0) for feature in features]
        look, hatch = pen(number), HATCHES[number % len(HATCHES)]
        handles.append(
            panel.barh(places, lengths, thickness, color=look.colour, hatch=hatch, edgecolor="white", label="")
        )
        for place, length in zip(places, lengths, strict=True):
            if length == 0:
                say_dropped(panel, (0.0, float(place)), inside=False, colour=look.colour)
    panel.grid(False, axis="y")
    panel.set_yticks(np.arange(len(features)), labels=[plain(feature, 34) for feature in features])
    panel.set_ylim(len(features) - 0.4, -0.6)
    panel.set_xlabel("max - min of the effect", fontsize=FONT)
    if max(largest.values()) == 0:
        panel.set_xlim(0.0, 1.0)
    if len(variations) > 1:
        sheet.legend(handles, [plain(method) for method in variations], columns=min(4, len(variations)))
    sheet.title(title)
    return sheet.figure
