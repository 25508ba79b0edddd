"""How often values of a column occur."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsenam.explain.explanation import Density
from sparsenam.explain.plain import numbers

Vector = NDArray[np.float64]
BINS = 40
FEW = 12  # a column with up to so many distinct values has one bin for each
TAIL = 0.005  # share of the rows on either side that may lie in one long bin
SAMPLE = 100_000  # values from which edges are found


def density_of(values: Vector) -> Density | None:
    """Return the histogram of finite values (rows,); None without any.

    Bins are even over the middle 99 % of the values; what lies farther out has a bin of its own on each side, so
    that a single far value does not press all others into one bin.
    """
    if not values.size:
        return None
    seen = values if values.size <= SAMPLE else values[:: values.size // SAMPLE]
    low, high = float(values.min()), float(values.max())
    if low == high:
        edges = np.array([low - 0.5 * (abs(low) or 1.0), low + 0.5 * (abs(low) or 1.0)])
    else:
        distinct = np.unique(seen[:1000])
        distinct = np.unique(seen) if distinct.size <= FEW else distinct
        edges = _edges_between(distinct) if distinct.size <= FEW else _even_edges(seen)
        edges = np.unique(np.concatenate([[min(low, edges[0])], edges, [max(high, edges[-1])]]))
    counts = np.histogram(values, edges)[0]
    return Density(numbers(edges), tuple(int(count) for count in counts))


def _even_edges(values: Vector) -> Vector:
    low, high = float(values.min()), float(values.max())
    first, last = (float(edge) for edge in np.quantile(values, (TAIL, 1.0 - TAIL)))
    if first == last:
        return np.linspace(low, high, BINS + 1)
    width = (last - first) / BINS
    # a tail shorter than two bins is no tail
    first = low if first - low < 2 * width else first
    last = high if high - last < 2 * width else last
    return np.linspace(first, last, BINS + 1)


def _edges_between(values: Vector) -> Vector:
    """Return bins that hold one value each, (values + 1,)."""
    if values.size == 1:
        return values
    middles = (values[:-1] + values[1:]) / 2
    return np.concatenate([[2 * values[0] - middles[0]], middles, [2 * values[-1] - middles[-1]]])
