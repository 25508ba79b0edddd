"""Rates of decay: the slope of an error on log-log axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


def log_log_slope(
    n: Sequence[float], errors: Sequence[Sequence[float]]
) -> tuple[float, tuple[float, float]] | None:
    """Return the slope of log error on log n over all repeats, and its 95 % interval by Student's t.

    ``errors`` holds the repeats for each n. The interval is that of a straight line; a bend makes it too narrow.
    None for fewer than three errors or a single n.
    """
    pairs = [(float(size), float(error)) for size, own in zip(n, errors, strict=True) for error in own]
    if len(pairs) < 3 or len({size for size, _ in pairs}) < 2:
        return None
    x, y = np.log(np.array(pairs, dtype=np.float64)).T
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ y) / spread
    residual = y - y.mean() - slope * centred
    freedom = x.size - 2
    deviation = float(np.sqrt(residual @ residual / freedom / spread))
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)) * deviation
    return slope, (slope - half, slope + half)
