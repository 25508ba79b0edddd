"""Log axes with plain numbers: 0.02, not 2 × 10⁻²."""

from __future__ import annotations

import math
from typing import Literal

from matplotlib.ticker import Formatter, MaxNLocator, NullLocator

from sparsenam.explain.plots.sheet import Panel

# leading digits that get a label, by the number of decades in sight
_LABELLED = ((0.5, frozenset(range(1, 10))), (1.2, frozenset((1, 2, 3, 4, 6, 8))), (2.5, frozenset((1, 2, 5))))


class PlainLog(Formatter):
    """Labels as many marks of a log axis as there is room for."""

    def __init__(self, low: float, high: float) -> None:
        """Choose the leading digits for an axis from ``low`` to ``high``."""
        # an axis without lines may have limits that have no logarithm
        decades = math.log10(high / low) if 0 < low < high < math.inf else 0.0
        self.everything = decades <= _LABELLED[0][0]  # marks at any number
        self.leads = next((leads for most, leads in _LABELLED if decades <= most), frozenset((1,)))

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label of a mark, empty for those without one."""
        if x <= 0:
            return ""
        lead = x / 10 ** math.floor(math.log10(x) + 1e-9)
        return f"{x:.4g}" if self.everything or any(math.isclose(lead, wanted) for wanted in self.leads) else ""


def use_log(panel: Panel, name: Literal["x", "y"], limits: tuple[float, float] | None = None) -> None:
    """Make an axis logarithmic, from limit to limit or as the lines want it; call it when all lines are drawn."""
    (panel.set_xscale if name == "x" else panel.set_yscale)("log")
    if limits is not None:
        (panel.set_xlim if name == "x" else panel.set_ylim)(*limits)
    low, high = panel.get_xlim() if name == "x" else panel.get_ylim()
    axis = panel.xaxis if name == "x" else panel.yaxis
    labels = PlainLog(low, high)
    if labels.everything:  # powers of ten and their multiples may all lie outside
        axis.set_major_locator(MaxNLocator(5))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(labels)
    axis.set_minor_formatter(PlainLog(low, high))
