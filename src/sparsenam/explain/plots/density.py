"""How often values occur, in grey at the bottom of a panel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparsenam.explain.explanation import Density
from sparsenam.explain.plots.sheet import Panel, numbers

DENSITY_HEIGHT = 0.2  # of a panel
GREY = "0.80"
TAIL = 0.25  # an outer bin longer than this share of all inner ones together is cut off
Vector = NDArray[np.float64]


def sight(density: Density) -> tuple[float, float]:
    """Return the range to show: all of the data, without a long thin tail on either side."""
    edges = numbers(density.edges)
    low, high = float(edges[0]), float(edges[-1])
    if edges.size > 4:
        inner = float(edges[-2] - edges[1])
        low = float(edges[1]) if edges[1] - edges[0] > TAIL * inner else low
        high = float(edges[-2]) if edges[-1] - edges[-2] > TAIL * inner else high
    return low, high


def draw_density(panel: Panel, density: Density) -> None:
    """Draw a histogram whose areas are the counts."""
    edges = numbers(density.edges)
    widths = np.diff(edges)
    _draw(panel, edges[:-1], numbers(density.counts) / widths, widths, "edge")


def draw_counts(panel: Panel, counts: Sequence[int]) -> None:
    """Draw how many rows there are at each place from 0 on."""
    _draw(panel, np.arange(float(len(counts))), numbers(counts), np.full(len(counts), 0.9), "center")


def _draw(panel: Panel, places: Vector, heights: Vector, widths: Vector, align: Literal["edge", "center"]) -> None:
    tallest = heights.max(initial=0.0)
    panel.bar(
        places,
        DENSITY_HEIGHT * heights / (tallest if tallest > 0 else 1.0),
        widths,
        align=align,
        color=GREY,
        transform=panel.get_xaxis_transform(),
        zorder=0.6,  # over the grid, under the curve
    )
