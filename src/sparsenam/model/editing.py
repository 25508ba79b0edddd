"""Changes to a fitted model: new curves for a column's terms, the records of such changes, and the way back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from sparsenam.codec import Count, Size
from sparsenam.model.additive import AdditiveModel
from sparsenam.model.curve import FittedCurve
from sparsenam.tables import TableEncoder

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Numbers = tuple[float, ...]
Direction = Literal["increasing", "decreasing"]
EditKind = Literal["set_shape", "flatten", "make_monotone", "drop", "merge_levels", "shift_intercept"]

JUMP_RAMP_WIDTH = 1e-9  # of the range of a column: the width of the ramp that stands for a jump
EMPTY_KNOT_WEIGHT = 1e-9  # of the mean weight of a knot: what a knot without rows near it weighs
LAST_BIT_ROUNDS = 50  # of moving values by last bits before a knot is taken out instead


@dataclass(frozen=True, slots=True)
class TermCurve:
    """The curve of one kept term, and its place among the kept terms."""

    term: Count
    place: Count
    curve: FittedCurve


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to a model: what, why, by whom and when, and all that taking it back needs.

    ``request`` says in words what was asked for. ``before`` and ``after`` are the curves of all kept terms of the
    column, none where it is dropped or where the change is to the intercept (``column`` is None then). Intercepts
    have shape (outputs,). ``n_parameters`` and ``norm`` are those of model and column before. Losses are means over
    the rows that were given, None where none were.
    """

    kind: EditKind
    column: str | None
    request: str
    reason: str
    who: str
    when: str
    before: tuple[TermCurve, ...]
    after: tuple[TermCurve, ...]
    intercept_before: Numbers
    intercept_after: Numbers
    n_parameters: Count
    norm: Size | None
    loss_before: float | None = None
    loss_after: float | None = None


def column_curves(model: AdditiveModel, terms: Iterable[int]) -> tuple[TermCurve, ...]:
    """Return the curves of those of the terms that the model keeps, in their order in the model."""
    wanted = set(terms)
    kept = enumerate(zip(model.terms.tolist(), model.curves, strict=True))
    return tuple(TermCurve(term, place, curve) for place, (term, curve) in kept if term in wanted)


def with_column(model: AdditiveModel, terms: Iterable[int], curves: Sequence[TermCurve]) -> AdditiveModel:
    """Return the model in which a column's terms have these curves and no others; without any, it is dropped.

    Pairs stay: a column in a pair is not dropped. The other curves stay as they are, to the bit, and so does
    the order in which effects are added up.
    """
    gone = set(terms)
    parts = [part for part in zip(model.terms.tolist(), model.curves, strict=True) if part[0] not in gone]
    for each in sorted(curves, key=lambda each: each.place):
        parts.insert(each.place, (each.term, each.curve))
    kept = np.array([term for term, _ in parts], dtype=np.intp)
    return replace(model, terms=kept, functions=tuple(curve for _, curve in parts), weights=None)


def with_intercept(model: AdditiveModel, intercept: Numbers) -> AdditiveModel:
    """Return the model with another intercept, shape (outputs,)."""
    return replace(model, intercept=np.array(intercept, dtype=np.float64))


def applied(model: AdditiveModel, encoder: TableEncoder, edit: Edit, *, backwards: bool = False) -> AdditiveModel:
    """Return the model after an edit, or before it."""
    curves, intercept = (edit.before, edit.intercept_before) if backwards else (edit.after, edit.intercept_after)
    if edit.column is None:
        return with_intercept(model, intercept)
    return with_column(model, terms_of(encoder, encoder.names.index(edit.column)), curves)


def terms_of(encoder: TableEncoder, column: int) -> list[int]:
    """Return the indices of a column's terms."""
    return [index for index, term in enumerate(encoder.terms) if term.column == column]


def column_effect(encoder: TableEncoder, curves: Sequence[TermCurve], x: Vector, outputs: int) -> Matrix:
    """Return what a column adds at values, ranks or codes x (points,), shape (points, outputs).

    NaN is a missing cell. ``curves`` are those of the column's kept terms.
    """
    total, absent = np.zeros((x.size, outputs)), np.isnan(x)
    for each in curves:
        term = encoder.terms[each.term]
        cells = x
        if term.kind == "missing":
            cells = absent.astype(np.float64)
        elif term.kind == "binary" and len(term.levels) == 1:  # one level of several
            code = encoder.columns[term.column].levels.index(term.levels[0])
            cells = np.where(absent, np.nan, x == code)
        each.curve.add_to(total, cells)
    return total


def flattened(curve: FittedCurve, start: float, end: float, value: Vector, span: float) -> FittedCurve:
    """Return the curve with one value (outputs,) from start to end, and as it was elsewhere.

    Either end may be infinite. A jump at an end is a ramp just outside of it, `JUMP_RAMP_WIDTH` of the ``span`` of the
    data wide.
    """
    low, high = start - _width(start, span), end + _width(end, span)
    below, above = curve.knots < low, curve.knots > high
    knots, values = [curve.knots[below]], [curve.values[below]]
    edges = [(low, None), (start, value), (end, value), (high, None)]
    for edge, given in edges:
        if np.isfinite(edge):
            knots.append(np.array([edge]))
            values.append(curve(edge) if given is None else given[None])
    knots.append(curve.knots[above])
    values.append(curve.values[above])
    nothing = np.zeros(curve.outputs)
    return FittedCurve(
        np.concatenate(knots) if np.isfinite([start, end]).any() else np.zeros(1),
        np.concatenate(values) if np.isfinite([start, end]).any() else value[None],
        nothing if np.isneginf(start) else curve.left_slope,
        nothing if np.isposinf(end) else curve.right_slope,
        curve.absent,
    )


def _width(edge: float, span: float) -> float:
    return max(JUMP_RAMP_WIDTH * span, 2.0 * float(np.spacing(abs(edge)))) if np.isfinite(edge) else 0.0


def monotone(curve: FittedCurve, direction: Direction, x: Vector, weights: Vector) -> FittedCurve:
    """Return the monotone curve with the same knots that is nearest at the knots, in squares.

    A knot weighs what the rows near it weigh: ``weights`` (points,) at ``x`` (points,), each shared between the two
    knots around it. The result never turns back, between knots, beyond the ends, and whatever the rounding.
    """
    sign = 1.0 if direction == "increasing" else -1.0
    mass = knot_weights(curve.knots, x, weights)
    values = np.stack([isotonic_regression(sign * column, weights=mass).x for column in curve.values.T], axis=1)
    left, right = (np.maximum(sign * slope, 0.0) for slope in (curve.left_slope, curve.right_slope))
    rising = _rising_to_the_bit(FittedCurve(curve.knots, np.maximum.accumulate(values), left, right, curve.absent))
    return FittedCurve(rising.knots, sign * rising.values, sign * left, sign * right, curve.absent)


def knot_weights(knots: Vector, x: Vector, weights: Vector) -> Vector:
    """Return the weight of the rows near each knot (m,), each row's weight shared by the two knots around it."""
    right = np.clip(np.searchsorted(knots, x, side="right"), 1, max(knots.size - 1, 1))
    if knots.size == 1:
        return np.ones(1)
    share = np.clip((x - knots[right - 1]) / (knots[right] - knots[right - 1]), 0.0, 1.0)
    mass = np.bincount(right, weights * share, minlength=knots.size)
    mass += np.bincount(right - 1, weights * (1.0 - share), minlength=knots.size)
    mean = float(mass.mean())
    return np.maximum(mass, EMPTY_KNOT_WEIGHT * mean) if mean > 0 else np.ones(knots.size)


def _rising_to_the_bit(curve: FittedCurve) -> FittedCurve:
    """Return the rising curve with values moved by last bits, so that evaluating it never falls.

    Within a piece every rounded operation keeps the order. From a piece to the next, the rounded slope may overshoot
    the knot's value by a few last bits; the value is then raised to what was reached, or, where that does not come
    to rest, the knot is left out.
    """
    number = 0
    while True:
        reached, there = curve(np.nextafter(curve.knots, -np.inf)), curve(curve.knots)
        over = reached > there
        if not over.any():
            return curve
        knots, values = curve.knots, np.where(over, np.maximum(curve.values, reached), curve.values)
        number += 1
        if number > LAST_BIT_ROUNDS:
            kept = ~over.any(axis=1)
            knots, values = knots[kept], curve.values[kept]
        curve = replace(curve, knots=knots, values=np.maximum.accumulate(values))
