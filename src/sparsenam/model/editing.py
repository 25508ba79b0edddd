"""Changes to a fitted model: new shapes for a column's terms, the records of such changes, and the way back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from sparsenam.model.additive import AdditiveModel
from sparsenam.model.shapes import ShapeBank, ShapeFunction
from sparsenam.tables import Scaling, TableEncoder

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Numbers = tuple[float, ...]
Direction = Literal["increasing", "decreasing"]
EditKind = Literal["set_shape", "flatten", "make_monotone", "drop", "merge_levels", "shift_intercept"]

NARROW = 1e-9  # of the range of a column: the width of the ramp that stands for a jump
LIGHT = 1e-9  # of the mean weight of a knot: what a knot without rows near it weighs
ROUNDS = 50  # of moving values by last bits before a knot is taken out instead


@dataclass(frozen=True, slots=True)
class TermShape:
    """The shape of one kept term as plain numbers, exact to the bit, and its place among the kept terms.

    ``values`` has shape (knots, outputs); the slopes beyond the ends and ``absent`` have shape (outputs,).
    """

    term: int
    place: int
    knots: Numbers
    values: tuple[Numbers, ...]
    left_slope: Numbers
    right_slope: Numbers
    absent: Numbers

    @classmethod
    def of(cls, term: int, place: int, shape: ShapeFunction) -> Self:
        """Return the shape of a term as plain numbers."""
        values = tuple(tuple(row) for row in shape.values.tolist())
        ends = (tuple(end.tolist()) for end in (shape.left_slope, shape.right_slope, shape.absent))
        return cls(term, place, tuple(shape.knots.tolist()), values, *ends)

    @property
    def function(self) -> ShapeFunction:
        """The shape as a function; raises `InputError` where the numbers are none."""
        arrays = (np.array(part) for part in (self.values, self.left_slope, self.right_slope, self.absent))
        return ShapeFunction(np.array(self.knots), *arrays)

    def changed(self, shape: ShapeFunction) -> Self:
        """Return another shape of the same term in the same place."""
        return type(self).of(self.term, self.place, shape)


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to a model: what, why, by whom and when, and all that taking it back needs.

    ``request`` says in words what was asked for. ``before`` and ``after`` are the shapes of all kept terms of the
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
    before: tuple[TermShape, ...]
    after: tuple[TermShape, ...]
    intercept_before: Numbers
    intercept_after: Numbers
    n_parameters: int
    norm: float | None
    loss_before: float | None = None
    loss_after: float | None = None


def column_shapes(model: AdditiveModel, terms: Iterable[int]) -> tuple[TermShape, ...]:
    """Return the shapes of those of the terms that the model keeps, in their order in the model."""
    wanted, shapes = set(terms), model.shapes()
    kept = ((int(term), place) for place, term in enumerate(model.terms))
    return tuple(TermShape.of(term, place, shapes[place]) for term, place in kept if term in wanted)


def with_column(model: AdditiveModel, terms: Iterable[int], shapes: Sequence[TermShape]) -> AdditiveModel:
    """Return the model in which a column's terms have these shapes and no others; without any, it is dropped.

    Pairs stay: a column in a pair is not dropped. The other shapes stay as they are, to the bit, and so does
    the order in which effects are added up.
    """
    gone = set(terms)
    parts = [
        (int(term), shape) for term, shape in zip(model.terms, model.shapes(), strict=True) if int(term) not in gone
    ]
    for shape in sorted(shapes, key=lambda shape: shape.place):
        parts.insert(shape.place, (shape.term, shape.function))
    outputs, functions = model.intercept.size, [shape for _, shape in parts]
    bank, theta = ShapeBank.of(functions, outputs)
    return replace(
        model,
        bank=bank,
        theta=theta,
        terms=np.array([term for term, _ in parts], dtype=np.intp),
        scaling=Scaling.none(len(parts)),
        offsets=np.zeros((len(parts), outputs)),
        target_scale=np.ones(outputs),
        absent=np.concatenate([np.zeros((0, outputs)), *(shape.absent[None] for shape in functions)]),
    )


def with_intercept(model: AdditiveModel, intercept: Numbers) -> AdditiveModel:
    """Return the model with another intercept, shape (outputs,)."""
    return replace(model, intercept=np.array(intercept, dtype=np.float64))


def applied(model: AdditiveModel, encoder: TableEncoder, edit: Edit, *, backwards: bool = False) -> AdditiveModel:
    """Return the model after an edit, or before it."""
    shapes, intercept = (edit.before, edit.intercept_before) if backwards else (edit.after, edit.intercept_after)
    if edit.column is None:
        return with_intercept(model, intercept)
    return with_column(model, terms_of(encoder, encoder.names.index(edit.column)), shapes)


def terms_of(encoder: TableEncoder, column: int) -> list[int]:
    """Return the indices of a column's terms."""
    return [index for index, term in enumerate(encoder.terms) if term.column == column]


def n_parameters_of(model: AdditiveModel) -> int:
    """Return how many numbers describe the shapes: values at knots, outer slopes other than 0, and the intercept.

    A shape that leads from one value to another counts as one, as its sub-network does.
    """
    outputs = model.intercept.size
    total = outputs
    for shape in model.shapes():
        outer = int(shape.left_slope.any()) + int(shape.right_slope.any())
        total += outputs * (1 if shape.knots.size == 2 and not outer else shape.knots.size + outer)
    return total + sum(pair.n_parameters for pair in model.pairs)


def column_effect(encoder: TableEncoder, shapes: Sequence[TermShape], x: Vector, outputs: int) -> Matrix:
    """Return what a column adds at values, ranks or codes x (points,), shape (points, outputs).

    NaN is a missing cell. ``shapes`` are those of the column's kept terms.
    """
    total, absent = np.zeros((x.size, outputs)), np.isnan(x)
    for shape in shapes:
        term = encoder.terms[shape.term]
        cells = x
        if term.kind == "missing":
            cells = absent.astype(np.float64)
        elif term.kind == "binary" and len(term.levels) == 1:  # one level of several
            code = encoder.columns[term.column].levels.index(term.levels[0])
            cells = np.where(absent, np.nan, x == code)
        shape.function.add_to(total, cells)
    return total


def through(knots: Vector, values: Matrix, absent: Vector) -> ShapeFunction:
    """Return the shape through values (m, outputs) at rising knots (m,), flat beyond the ends."""
    flat = np.zeros(values.shape[1])
    return ShapeFunction(knots, values, flat, flat, absent)


def flattened(shape: ShapeFunction, start: float, end: float, value: Vector, span: float) -> ShapeFunction:
    """Return the shape with one value (outputs,) from start to end, and as it was elsewhere.

    Either end may be infinite. A jump at an end is a ramp just outside of it, `NARROW` of the ``span`` of the data
    wide.
    """
    low, high = start - _width(start, span), end + _width(end, span)
    below, above = shape.knots < low, shape.knots > high
    knots, values = [shape.knots[below]], [shape.values[below]]
    edges = [(low, None), (start, value), (end, value), (high, None)]
    for edge, given in edges:
        if np.isfinite(edge):
            knots.append(np.array([edge]))
            values.append(shape(edge) if given is None else given[None])
    knots.append(shape.knots[above])
    values.append(shape.values[above])
    nothing = np.zeros(shape.outputs)
    return ShapeFunction(
        np.concatenate(knots) if np.isfinite([start, end]).any() else np.zeros(1),
        np.concatenate(values) if np.isfinite([start, end]).any() else value[None],
        nothing if np.isneginf(start) else shape.left_slope,
        nothing if np.isposinf(end) else shape.right_slope,
        shape.absent,
    )


def _width(edge: float, span: float) -> float:
    return max(NARROW * span, 2.0 * float(np.spacing(abs(edge)))) if np.isfinite(edge) else 0.0


def monotone(shape: ShapeFunction, direction: Direction, x: Vector, weights: Vector) -> ShapeFunction:
    """Return the monotone shape with the same knots that is nearest at the knots, in squares.

    A knot weighs what the rows near it weigh: ``weights`` (points,) at ``x`` (points,), each shared between the two
    knots around it. The result never turns back, between knots, beyond the ends, and whatever the rounding.
    """
    sign = 1.0 if direction == "increasing" else -1.0
    mass = knot_weights(shape.knots, x, weights)
    values = np.stack([isotonic_regression(sign * column, weights=mass).x for column in shape.values.T], axis=1)
    left, right = (np.maximum(sign * slope, 0.0) for slope in (shape.left_slope, shape.right_slope))
    rising = _rising_to_the_bit(ShapeFunction(shape.knots, np.maximum.accumulate(values), left, right, shape.absent))
    return ShapeFunction(rising.knots, sign * rising.values, sign * left, sign * right, shape.absent)


def knot_weights(knots: Vector, x: Vector, weights: Vector) -> Vector:
    """Return the weight of the rows near each knot (m,), each row's weight shared by the two knots around it."""
    right = np.clip(np.searchsorted(knots, x, side="right"), 1, max(knots.size - 1, 1))
    if knots.size == 1:
        return np.ones(1)
    share = np.clip((x - knots[right - 1]) / (knots[right] - knots[right - 1]), 0.0, 1.0)
    mass = np.bincount(right, weights * share, minlength=knots.size)
    mass += np.bincount(right - 1, weights * (1.0 - share), minlength=knots.size)
    mean = float(mass.mean())
    return np.maximum(mass, LIGHT * mean) if mean > 0 else np.ones(knots.size)


def _rising_to_the_bit(shape: ShapeFunction) -> ShapeFunction:
    """Return the rising shape with values moved by last bits, so that evaluating it never falls.

    Within a piece every rounded operation keeps the order. From a piece to the next, the rounded slope may overshoot
    the knot's value by a few last bits; the value is then raised to what was reached, or, where that does not come
    to rest, the knot is left out.
    """
    number = 0
    while True:
        reached, there = shape(np.nextafter(shape.knots, -np.inf)), shape(shape.knots)
        over = reached > there
        if not over.any():
            return shape
        knots, values = shape.knots, np.where(over, np.maximum(shape.values, reached), shape.values)
        number += 1
        if number > ROUNDS:
            kept = ~over.any(axis=1)
            knots, values = knots[kept], shape.values[kept]
        shape = replace(shape, knots=knots, values=np.maximum.accumulate(values))
