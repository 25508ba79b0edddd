"""The joint effect of two columns as a two-way table of points: surfaces are cut into cells that are nearly level."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import describe
from sparsenam.export.portable import ExportError, PortableAxis, PortableColumn, PortableModel, PortablePair
from sparsenam.export.scorecard_bins import Bin, CardBins, Rounding, level_bin, range_bin
from sparsenam.export.scorecard_points import CardPair, Scale

Matrix = NDArray[np.float64]
MOST_CELLS = 20_000  # of a two-way table


class Side(NamedTuple):
    """One side of a table: its bins, and the weights of the nodes (bins, 2, nodes) at the start and the end of each."""

    bins: list[Bin]
    weights: Matrix


def card_pair(model: PortableModel, pair: PortablePair, scale: Scale, rounding: Rounding) -> CardPair:
    """Return the two-way table of a pair; one sentence says why there can be none."""
    columns = [model.columns[axis.column] for axis in pair.axes]
    name = " × ".join(column.name for column in columns)
    values = scale.sign * scale.factor * np.array([[node[0] for node in line] for line in pair.values])
    numeric = sum(axis.reads == "number" for axis in pair.axes)
    budget = 2.0 * (rounding.max_error - 0.5 * rounding.unit) / max(numeric, 1)
    if numeric and budget <= 0.0:
        expected = f"a max_error above {0.5 * rounding.unit:g}, which rounding takes"
        raise ExportError(describe(f"scorecard of {name!r}", expected, f"{rounding.max_error:g}", "raise it"))
    sides = [
        _side(axis, column, lines, budget, name)
        for axis, column, lines in zip(pair.axes, columns, (values, values.T), strict=True)
    ]
    if len(sides[0].bins) * len(sides[1].bins) > MOST_CELLS:
        got = f"{len(sides[0].bins)} × {len(sides[1].bins)}"
        raise ExportError(describe(f"scorecard of {name!r}", f"at most {MOST_CELLS} cells", got, "raise max_error"))
    corners = np.einsum("aem,mn,bfn->abef", sides[0].weights, values, sides[1].weights)
    exact = 0.5 * (corners.min(axis=(2, 3)) + corners.max(axis=(2, 3)))
    points = np.array([[rounding(float(value)) for value in line] for line in exact], dtype=np.float64)
    apart = np.abs(corners - points[:, :, None, None])
    one, points = _merged(columns[0], sides[0].bins, points)
    other, turned = _merged(columns[1], sides[1].bins, points.T)
    table = tuple(tuple(rounding(float(value)) for value in line) for line in turned.T)
    both = [
        CardBins(column, tuple(bins), axis.reads == "number")
        for column, bins, axis in zip(columns, (one, other), pair.axes, strict=True)
    ]
    return CardPair(both[0], both[1], table, float(apart.max()), float(apart.mean()))


def _side(axis: PortableAxis, column: PortableColumn, lines: Matrix, budget: float, name: str) -> Side:
    """Return the bins of an axis; ``lines`` (nodes, others) are points along it."""
    if axis.reads == "number":
        cuts = _cuts(axis.knots, lines, budget, name)
        ends = [[low, high] for low, high in pairwise(cuts)]
        starts = [-math.inf, *cuts[1:-1], math.inf]
        bins = [range_bin(column, low, high, 0.0) for low, high in pairwise(starts)]
        unknown = [Bin("missing", "missing", 0.0)]
        known = [[_weights(axis.knots, x) for x in pair] for pair in ends]
    elif axis.reads == "level":
        codes = sorted({level.code for level in column.levels})
        bins = [level_bin(column, code, 0.0) for code in codes]
        known = [[_weights(axis.knots, float(code))] * 2 for code in codes]
        unknown = [Bin("missing", "missing", 0.0), Bin("other", "any other level", 0.0)]
    else:
        kind = "other" if column.kind == "category" else "range"
        both = [Bin(kind, "present", 0.0), Bin("missing", "missing", 0.0)]
        order = [0, 1] if kind == "range" else [1, 0]
        weights = [_weights(axis.knots, 0.0), _weights(axis.knots, 1.0)]
        return Side([both[at] for at in order], np.array([[weights[at]] * 2 for at in order]))
    nowhere = [0.0] * len(axis.knots) + [1.0]
    return Side([*bins, *unknown], np.array([*known, *([[nowhere, nowhere]] * len(unknown))]))


def _cuts(knots: Sequence[float], lines: Matrix, budget: float, name: str) -> list[float]:
    """Return the knots and even steps between them, between which no line changes by more than the budget."""
    cuts = [knots[0]]
    for node, (low, high) in enumerate(pairwise(knots)):
        change = float(np.abs(lines[node + 1] - lines[node]).max())
        parts = max(1, math.ceil(change / budget))
        if len(cuts) + parts > MOST_CELLS:
            got, remedy = "more along one of its columns", "raise max_error, or lower pdo"
            raise ExportError(describe(f"scorecard of {name!r}", f"at most {MOST_CELLS} cells", got, remedy))
        cuts += [low + (high - low) * (part / parts) for part in range(1, parts)] + [high]
    return cuts


def _weights(knots: Sequence[float], x: float) -> list[float]:
    """Return the share of each node (nodes + 1,) in the value at x; the last is that of what is not known."""
    inside = min(max(x, knots[0]), knots[-1])
    node = min(bisect_right(knots, inside) - 1, len(knots) - 2)
    share = (inside - knots[node]) / (knots[node + 1] - knots[node])
    weights = [0.0] * (len(knots) + 1)
    weights[node], weights[node + 1] = 1.0 - share, share
    return weights


def _merged(column: PortableColumn, bins: Sequence[Bin], points: Matrix) -> tuple[list[Bin], Matrix]:
    """Return the bins with neighbouring ranges of equal points (bins, others) as one, and the points left."""
    kept: list[Bin] = []
    lines: list[int] = []
    for place, found in enumerate(bins):
        same = bool(lines) and found.kind == "range" and np.array_equal(points[lines[-1]], points[place])
        if same:
            start = -math.inf if kept[-1].low is None else kept[-1].low
            kept[-1] = range_bin(column, start, math.inf if found.high is None else found.high, 0.0)
            continue
        kept.append(found)
        lines.append(place)
    return kept, points[lines]
