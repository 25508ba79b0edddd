"""The scorecard of a model of two classes, made from its portable form.

The joint effect of two columns becomes a two-way table of points: its surface is cut into cells that are nearly level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, check_number
from sparsenam.export.portable import (
    ExportError,
    Label,
    PortableAxis,
    PortableColumn,
    PortableCurve,
    PortableModel,
    PortablePair,
    PortableTable,
    refusal,
)
from sparsenam.export.scorecard_bins import (
    Bin,
    BinKind,
    CardBins,
    Rounding,
    bins_of_curve,
    level_bin,
    number_label,
    range_bin,
    segments_of,
)
from sparsenam.export.scorecard_points import CardColumn, CardPair, Scale, Scorecard

Matrix = NDArray[np.float64]
MOST_DIGITS = 6
MOST_TABLE_CELLS = 20_000  # of a two-way table


def scorecard(
    model: PortableModel,
    *,
    pdo: float = 20.0,
    base_score: float = 600.0,
    base_odds: float = 50.0,
    good: Label | None = None,
    digits: int = 0,
    max_error: float = 2.5,
) -> Scorecard:
    """Return the scorecard of a model of two classes.

    Parameters
    ----------
    model : PortableModel
        ``estimator.portable()`` of a classifier of two classes.
    pdo : float, default 20
        Points to double the odds.
    base_score, base_odds : float, default 600 and 50
        The score where the odds of good against bad are ``base_odds`` : 1.
    good : label, optional
        The class with the high scores; by default the first, so that the second is the event to fear.
    digits : int, default 0
        Digits after the point that points are rounded to; 0 makes whole numbers.
    max_error : float, default 2.5
        How far a column's points may be from its curve; a smaller one makes more bins.
    """
    scale = _scale(model, pdo, base_score, base_odds, good)
    rounding = _rounding(digits, max_error)
    notes: list[str] = []
    columns = [
        _card_column(model, index, scale, rounding, notes)
        for index in range(len(model.columns))
        if model.of_column(index)
    ]
    pairs = [card_pair(model, pair, scale, rounding) for pair in model.pairs]
    exact = scale.offset + scale.points(model.intercept[0])
    base = rounding(exact)
    return Scorecard(scale, rounding.digits, base, abs(base - exact), tuple(columns), tuple(pairs), tuple(notes))


def _scale(model: PortableModel, pdo: float, base_score: float, base_odds: float, good: Label | None) -> Scale:
    if model.task != "classes" or len(model.outputs) != 1 or model.link != "logit":
        got = f"one of {len(model.classes)} classes" if model.task == "classes" else f"one of the task {model.task!r}"
        raise refusal("scorecard", "a model of two classes", got, "fit a classifier of two classes")
    try:
        check_number("pdo", pdo, 0.0, open_below=True)
        check_number("base_score", base_score, -math.inf)
        check_number("base_odds", base_odds, 0.0, open_below=True)
    except InputError as error:
        raise ExportError(str(error)) from error
    first, second = model.classes
    if good is None or good == first or str(good) == str(first):
        return Scale(float(pdo), float(base_score), float(base_odds), first, second, -1)
    if good != second and str(good) != str(second):
        raise refusal("good", f"one of the classes {list(model.classes)}", repr(good), "choose one")
    return Scale(float(pdo), float(base_score), float(base_odds), second, first, 1)


def _rounding(digits: int, max_error: float) -> Rounding:
    if isinstance(digits, bool) or digits not in range(MOST_DIGITS + 1):
        raise refusal("digits", f"a whole number from 0 to {MOST_DIGITS}", repr(digits), "choose another")
    try:
        check_number("max_error", max_error, 0.5 * 10.0**-digits)  # rounding alone takes half a unit
    except InputError as error:
        raise ExportError(str(error)) from error
    return Rounding(int(digits), float(max_error))


def _card_column(model: PortableModel, index: int, scale: Scale, rounding: Rounding, notes: list[str]) -> CardColumn:
    column, terms = model.columns[index], [model.terms[place] for place in model.of_column(index)]
    curves = [term for term in terms if isinstance(term, PortableCurve)]
    tables = [term for term in terms if isinstance(term, PortableTable)]
    levels = [table for table in tables if table.reads == "level"]
    gaps = [table for table in tables if table.reads == "missing"]
    present, missing = (scale.points(sum(table.values[code][0] for table in gaps)) for code in (0, 1))
    absent = scale.points(sum(term.absent[0] for term in (*curves, *levels)))
    bins: list[Bin] = []
    errors: list[float] = []
    if curves:
        segments = segments_of(curves[0], scale.points(1.0), present)
        if any(curves[0].slopes[0][end] for end in (0, -1)):
            ends = " and ".join(
                number_label(column, knot) for knot in sorted({*curves[0].knots[:1], *curves[0].knots[-1:]})
            )
            notes.append(f"{column.name}: the curve goes on beyond {ends or 'all knots'}, its points do not.")
        bins, largest, mean = bins_of_curve(column, segments, rounding)
    elif column.kind != "category":
        bins = [Bin("range", "present", rounding(present))]
        largest = mean = abs(bins[0].points - present)
    else:
        for code in sorted({level.code for level in column.levels}) if levels else ():
            exact = present + scale.points(sum(table.values[code][0] for table in levels))
            bins.append(level_bin(column, code, rounding(exact)))
            errors.append(abs(bins[-1].points - exact))
        largest, mean = max(errors, default=0.0), sum(errors) / max(len(errors), 1)
    rest: list[tuple[BinKind, str, float]] = [("missing", "missing", missing + absent)]
    if column.kind == "category":
        rest.append(("other", "any other level" if levels else "present", present + absent))
    for kind, label, exact in rest:
        bins.append(Bin(kind, label, rounding(exact)))
        largest = max(largest, abs(bins[-1].points - exact))
    return CardColumn(CardBins(column, tuple(bins), bool(curves)), largest, mean)


class BinnedSide(NamedTuple):
    """One side of a table: its bins, and the weights of the nodes (bins, 2, nodes) at the start and the end of each."""

    bins: list[Bin]
    weights: Matrix


def card_pair(model: PortableModel, pair: PortablePair, scale: Scale, rounding: Rounding) -> CardPair:
    """Return the two-way table of a pair; one sentence says why there can be none."""
    columns = [model.columns[axis.column] for axis in pair.axes]
    name = " × ".join(model.names_of(pair))
    values = scale.sign * scale.factor * np.array([[node[0] for node in line] for line in pair.values])
    numeric = sum(axis.reads == "number" for axis in pair.axes)
    budget = 2.0 * (rounding.max_error - 0.5 * rounding.unit) / max(numeric, 1)
    if numeric and budget <= 0.0:
        expected = f"a max_error above {0.5 * rounding.unit:g}, which rounding takes"
        raise refusal(f"scorecard of {name!r}", expected, f"{rounding.max_error:g}", "raise it")
    sides = [
        _side(axis, column, lines, budget, name)
        for axis, column, lines in zip(pair.axes, columns, (values, values.T), strict=True)
    ]
    if len(sides[0].bins) * len(sides[1].bins) > MOST_TABLE_CELLS:
        got = f"{len(sides[0].bins)} × {len(sides[1].bins)}"
        raise refusal(f"scorecard of {name!r}", f"at most {MOST_TABLE_CELLS} cells", got, "raise max_error")
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


def _side(axis: PortableAxis, column: PortableColumn, lines: Matrix, budget: float, name: str) -> BinnedSide:
    """Return the bins of an axis; ``lines`` (nodes, others) are points along it."""
    if axis.reads == "number":
        cuts = _cuts(axis.knots, lines, budget, name)
        starts = [-math.inf, *cuts[1:-1], math.inf]
        bins = [range_bin(column, low, high, 0.0) for low, high in pairwise(starts)]
        unknown = [Bin("missing", "missing", 0.0)]
        known = [_weights(axis, ends) for ends in pairwise(cuts)]
    elif axis.reads == "level":
        codes = sorted({level.code for level in column.levels})
        bins = [level_bin(column, code, 0.0) for code in codes]
        known = [_weights(axis, (code, code)) for code in codes]
        unknown = [Bin("missing", "missing", 0.0), Bin("other", "any other level", 0.0)]
    else:
        kind = "other" if column.kind == "category" else "range"
        both = [Bin(kind, "present", 0.0), Bin("missing", "missing", 0.0)]
        order = [0, 1] if kind == "range" else [1, 0]
        return BinnedSide([both[at] for at in order], np.array([_weights(axis, (at, at)) for at in order]))
    nowhere = np.tile([0.0] * len(axis.knots) + [1.0], (2, 1))
    return BinnedSide([*bins, *unknown], np.array([*known, *[nowhere] * len(unknown)]))


def _cuts(knots: Sequence[float], lines: Matrix, budget: float, name: str) -> list[float]:
    """Return the knots and even steps between them, between which no line changes by more than the budget."""
    cuts = [knots[0]]
    for node, (low, high) in enumerate(pairwise(knots)):
        change = float(np.abs(lines[node + 1] - lines[node]).max())
        parts = max(1, math.ceil(change / budget))
        if len(cuts) + parts > MOST_TABLE_CELLS:
            got, remedy = "more along one of its columns", "raise max_error, or lower pdo"
            raise refusal(f"scorecard of {name!r}", f"at most {MOST_TABLE_CELLS} cells", got, remedy)
        cuts += [low + (high - low) * (part / parts) for part in range(1, parts)] + [high]
    return cuts


def _weights(axis: PortableAxis, ends: tuple[float, float]) -> Matrix:
    """Return the share of each node in the values at the ends, (2, nodes + 1); the last is of what is not known."""
    nodes, shares = axis.place(ends)
    weights = np.zeros((2, len(axis.knots) + 1))
    weights[[0, 1], nodes], weights[[0, 1], nodes + 1] = 1.0 - shares, shares
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
