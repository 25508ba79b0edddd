"""What single precision costs: effects at knots and midpoints, computed as a graph of floats computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.export.portable import PortableAxis, PortableCurve, PortableModel, PortablePair, PortableTerm

Numbers = NDArray[np.float64]


def single_precision_error(model: PortableModel) -> float:
    """Return how far scores in single precision are off: the largest errors of all effects, summed.

    Curves and pairs are compared at their knots, midway between them and a little beyond; the rounding of the sums is
    added. Numbers far beyond the knots, where a score is large, can be further off.
    """
    epsilon = float(np.finfo(np.float32).eps)
    intercept = np.array(model.intercept)
    error, size = epsilon * np.abs(intercept), np.abs(intercept)
    for term in model.terms:
        exact, rough = (_term(term, real) for real in (np.float64, np.float32))
        error, size = error + np.abs(rough - exact).max(axis=0), size + np.abs(exact).max(axis=0)
    for pair in model.pairs:
        exact, rough = (_bilinear(pair, real) for real in (np.float64, np.float32))
        error, size = error + np.abs(rough - exact).max(axis=(0, 1)), size + np.abs(exact).max(axis=(0, 1))
    count = len(model.terms) + len(model.pairs)
    return float(np.max(error + count * epsilon * size))


def grid_of(knots: tuple[float, ...]) -> Numbers:
    """Return knots, the points midway between them, and one beyond either end."""
    points = np.array(knots)
    beyond = 0.1 * float(np.ptp(points))
    return np.concatenate([points, (points[1:] + points[:-1]) / 2.0, [points[0] - beyond, points[-1] + beyond]])


def _term(term: PortableTerm, real: Any) -> NDArray[Any]:
    """Return a curve on its grid or a table, (points, outputs), in a precision."""
    if not isinstance(term, PortableCurve):
        return np.array([*term.values, term.absent], dtype=real)
    x, knots = grid_of(term.knots).astype(real), np.array(term.knots, dtype=real)
    piece = np.searchsorted(knots, x, side="right")
    anchors, slopes, bases = (np.array(each, dtype=real) for each in (term.anchors, term.slopes, term.bases))
    return (slopes[:, piece] * (x - anchors[piece]) + bases[:, piece]).T


def _bilinear(pair: PortablePair, real: Any) -> NDArray[Any]:
    """Return a pair on the grid of both axes, (points, points, outputs), in a precision."""
    values = np.array(pair.values, dtype=real)
    (i, u), (j, v) = (_place(axis, real) for axis in pair.axes)
    u, v = u[:, None, None], v[None, :, None]
    low, high = ((1 - v) * values[k][:, j] + v * values[k][:, j + 1] for k in (i, i + 1))
    return (1 - u) * low + u * high


def _place(axis: PortableAxis, real: Any) -> tuple[NDArray[np.intp], NDArray[Any]]:
    knots = np.array(axis.knots, dtype=real)
    inside = np.clip(grid_of(axis.knots).astype(real), knots[0], knots[-1])
    node = np.searchsorted(knots[1:-1], inside, side="right")
    width = np.diff(np.array(axis.knots)).astype(real)
    return node, (inside - knots[node]) / width[node]
