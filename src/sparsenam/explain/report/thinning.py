"""Curves with no more points than the eye can use."""

from __future__ import annotations

import numpy as np

from sparsenam.explain.report.records import Curve

TOLERANCE = 5e-4  # share of the curve's height: a tenth of a pixel on the page


def thinned(curve: Curve, tolerance: float = TOLERANCE) -> Curve:
    """Return the curve on fewer points, off by at most ``tolerance`` of its height at each point left out.

    The farthest point from the chord is kept, on both sides of it again, until none is too far off. Points next to
    a gap (an effect that is not finite) are all kept.
    """
    x = np.asarray(curve.x, dtype=np.float64)
    effects = np.asarray(curve.effects, dtype=np.float64)
    if len(x) < 3 or not (np.isfinite(effects).all() and np.isfinite(x).all()):
        return curve
    allowed = tolerance * float(np.ptp(effects))
    kept = np.zeros(len(x), dtype=bool)
    kept[[0, -1]] = True
    pieces = [(0, len(x) - 1)]
    while pieces:
        first, last = pieces.pop()
        if last - first < 2:
            continue
        width = x[last] - x[first]
        inner = slice(first + 1, last)
        share = (x[inner] - x[first]) / width if width > 0 else np.zeros(last - first - 1)
        chord = effects[first] + share[:, None] * (effects[last] - effects[first])
        distance = np.abs(effects[inner] - chord).max(axis=1)
        farthest = int(distance.argmax())
        if distance[farthest] > allowed:
            middle = first + 1 + farthest
            kept[middle] = True
            pieces += [(first, middle), (middle, last)]
    places = np.flatnonzero(kept)
    return Curve(tuple(curve.x[i] for i in places), tuple(curve.effects[i] for i in places))
