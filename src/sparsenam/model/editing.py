"""Edits of a model: what is asked of a column becomes new curves of its terms, with a record and the way back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from numbers import Real
from typing import Literal, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from sparsenam.codec import Count, Matrix, Size, Vector
from sparsenam.errors import InputError, check_word, describe, nearest
from sparsenam.model.additive import AdditiveModel
from sparsenam.model.curve import FittedCurve
from sparsenam.model.pairs import GridCells, PairFunction
from sparsenam.tables.columns import Column
from sparsenam.tables.encoder import TableEncoder
from sparsenam.tables.text import date_in, date_key, days_since_epoch, listed, number_key

Numbers = tuple[float, ...]
Place = float | str | date  # a number, the name of a level, or a date
Knots = Iterable[object]  # knots or levels, pairs of them with values, or a mapping
Direction = Literal["increasing", "decreasing"]
EditKind = Literal["set_shape", "flatten", "make_monotone", "drop", "merge_levels", "shift_intercept"]

JUMP_RAMP_WIDTH = 1e-9  # of the range of a column: the width of the ramp that stands for a jump
EMPTY_KNOT_WEIGHT = 1e-9  # of the mean weight of a knot: what a knot without rows near it weighs
MOST_LEVELS_NAMED = 10  # of levels in the words of an edit


@dataclass(frozen=True, slots=True)
class TermCurve:
    """The curve of one kept term, and its place among the kept terms."""

    term: Count
    place: Count
    curve: FittedCurve


Curves = tuple[TermCurve, ...]


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to a model: what, why, by whom and when, and all that taking it back needs.

    ``request`` says in words what was asked for. ``before`` and ``after`` are the curves of all kept terms of the
    column, none where it is dropped or where the change is to the intercept (``column`` is None then). Intercepts have
    shape (outputs,). ``n_parameters`` and ``norm`` are those of model and column before, ``pairs`` all pairs before
    where some go with the column. Losses are means over the rows that were given, None where none were.
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
    pairs: tuple[PairFunction, ...] = ()


def column_curves(model: AdditiveModel, terms: Iterable[int]) -> tuple[TermCurve, ...]:
    """Return the curves of those of the terms that the model keeps, in their order in the model."""
    wanted = set(terms)
    kept = enumerate(zip(model.terms.tolist(), model.curves, strict=True))
    return tuple(TermCurve(term, place, curve) for place, (term, curve) in kept if term in wanted)


def applied(model: AdditiveModel, encoder: TableEncoder, edit: Edit, *, backwards: bool = False) -> AdditiveModel:
    """Return the model after an edit, or before it.

    A dropped column takes its pairs along. The other curves and pairs stay as they are, to the bit, and so does the
    order in which effects are added up.
    """
    curves, intercept = (edit.before, edit.intercept_before) if backwards else (edit.after, edit.intercept_after)
    if edit.column is None:
        return replace(model, intercept=np.array(intercept, dtype=np.float64))
    gone = terms_of(encoder, encoder.names.index(edit.column))
    parts = [part for part in zip(model.terms.tolist(), model.curves, strict=True) if part[0] not in gone]
    for each in sorted(curves, key=lambda each: each.place):
        parts.insert(each.place, (each.term, each.curve))
    kept = np.array([term for term, _ in parts], dtype=np.intp)
    pairs = edit.pairs if backwards else tuple(pair for pair in edit.pairs if not set(gone) & set(pair.terms))
    pairs = pairs if edit.pairs else model.pairs
    return replace(model, terms=kept, functions=tuple(curve for _, curve in parts), pairs=pairs, weights=None)


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
    if not np.isfinite([start, end]).any():
        return FittedCurve.level_beyond(np.zeros(1), value[None], curve.absent)
    for edge, given in ((low, None), (start, value), (end, value), (high, None)):
        if np.isfinite(edge):
            knots.append(np.array([edge]))
            values.append(curve(edge) if given is None else given[None])
    nothing = np.zeros(curve.outputs)
    return FittedCurve(
        np.concatenate([*knots, curve.knots[above]]),
        np.concatenate([*values, curve.values[above]]),
        nothing if np.isneginf(start) else curve.left_slope,
        nothing if np.isposinf(end) else curve.right_slope,
        curve.absent,
    )


def _width(edge: float, span: float) -> float:
    return max(JUMP_RAMP_WIDTH * span, 2.0 * float(np.spacing(abs(edge)))) if np.isfinite(edge) else 0.0


def monotone(curve: FittedCurve, direction: Direction, x: Vector, weights: Vector) -> FittedCurve:
    """Return the monotone curve with the same knots that is nearest at the knots, in squares.

    A knot weighs what the rows near it weigh: ``weights`` (points,) at ``x`` (points,), each shared between the two
    knots around it. The result never turns back, between knots, beyond the ends, and whatever the rounding, since
    `FittedCurve.lines` never lead beyond the next knot's value.
    """
    sign = 1.0 if direction == "increasing" else -1.0
    mass = knot_weights(curve.knots, x, weights)
    values = np.stack([isotonic_regression(sign * column, weights=mass).x for column in curve.values.T], axis=1)
    left, right = (np.maximum(sign * slope, 0.0) for slope in (curve.left_slope, curve.right_slope))
    return FittedCurve(curve.knots, sign * np.maximum.accumulate(values), sign * left, sign * right, curve.absent)


def knot_weights(knots: Vector, x: Vector, weights: Vector) -> Vector:
    """Return the weight of the rows near each knot (m,), each row's weight shared by the two knots around it."""
    if knots.size == 1:
        return np.ones(1)
    cells = GridCells.of(knots, x)
    mass = np.bincount(cells.right, weights * cells.share, minlength=knots.size)
    mass += np.bincount(cells.left, weights * (1.0 - cells.share), minlength=knots.size)
    mean = float(mass.mean())
    return np.maximum(mass, EMPTY_KNOT_WEIGHT * mean) if mean > 0 else np.ones(knots.size)


def as_effects(where: str, values: object, rows: int, outputs: int) -> Matrix:
    """Return values as finite effects (rows, outputs); for several outputs each row must have one for each."""
    shape = (rows,) if outputs == 1 else (rows, outputs)
    try:
        effects = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        effects = np.full(1, np.nan)
    if outputs == 1 and effects.shape == (rows, 1):
        effects = effects[:, 0]
    if effects.shape != shape or not np.isfinite(effects).all():
        each = "a finite number" if outputs == 1 else f"{outputs} finite numbers, one for each output,"
        got = "others" if effects.shape == shape else f"values of shape {effects.shape}"
        raise InputError(describe(where, f"{each} for each of {rows} place(s)", got, "correct the values"))
    return effects.reshape(rows, outputs)


@dataclass(frozen=True, slots=True, eq=False)
class EditedColumn:
    """A kept column that is to be edited: its curves, and how many rows of the training data have which value.

    ``where`` is the edit that messages speak of; ``curves`` are those of all its kept terms; ``counts`` (points,) are
    numbers of rows at values or codes ``x`` (points,). Effects are those of present cells, as ``effects`` of the
    estimator gives them: the term of its missing cells adds something to these too.
    """

    where: str
    index: int
    encoder: TableEncoder
    curves: Curves
    outputs: int
    x: Vector
    counts: Vector

    @property
    def column(self) -> Column:
        """What the column is."""
        return self.encoder.columns[self.index]

    @property
    def value_curves(self) -> list[TermCurve]:
        """The curves of its values; several where a category has a 0/1 term for each level."""
        return [curve for curve in self.curves if self.encoder.terms[curve.term].kind != "missing"]

    def effect(self, x: Vector) -> Matrix:
        """Return what the column adds at values or codes x (points,), shape (points, outputs)."""
        return column_effect(self.encoder, self.curves, x, self.outputs)

    def with_knots(self, knots: Knots, values: ArrayLike | None) -> tuple[Curves, str]:
        """Return the curves that lead through values at knots, or give levels values; and what that is in words."""
        places, given = _places_and_values(self.where, knots, values)
        effects = as_effects(self.where, given, len(places), self.outputs)
        if self.column.levels:
            codes = self._codes(places)
            everywhere = self._at_levels()
            everywhere[codes] = effects
            return self._with_levels(everywhere, codes), f"levels set: {self._names(codes)}"
        line = np.array([self._position(place) for place in places])
        if not line.size or not np.isfinite(line).all() or not (np.diff(line) > 0).all():
            expected, got = "one or more finite knots in rising order", _shown(places)
            raise InputError(describe(self.where, expected, got, "sort them and take doubles out"))
        count = "1 knot" if line.size == 1 else f"{line.size} knots"
        return self._through(line, effects), f"drawn anew through {count}"

    def flat(self, start: Place, end: Place, value: ArrayLike | None) -> tuple[Curves, str]:
        """Return the curves with one value between two places, by default the mean over the rows there; in words."""
        self._require_order()
        low, high = self._position(start), self._position(end)
        if not low < high:
            expected, got = "a start below the end", f"{start!r} and {end!r}"
            raise InputError(describe(self.where, expected, got, "exchange or correct them"))
        inside = (self.x >= low) & (self.x <= high) & (self.counts > 0)
        if value is not None:
            level = as_effects(self.where, [value], 1, self.outputs)[0]
        elif inside.any():
            level = np.average(self.effect(self.x[inside]), axis=0, weights=self.counts[inside])
        else:
            level = self.effect(np.array([edge for edge in (low, high) if math.isfinite(edge)] or [0.0])).mean(axis=0)
        (old,) = self.value_curves
        span = float(np.ptp(self.x)) if self.x.size > 1 else 1.0
        new = flattened(old.curve, low, high, level - self._beside(), span)
        return self._changed(new), f"flat from {self._text(low)} to {self._text(high)}"

    def one_way(self, direction: Direction) -> tuple[Curves, str]:
        """Return the curves with a monotone one for the values, and what that is in words."""
        check_word("direction", direction, ("increasing", "decreasing"))
        self._require_order()
        (old,) = self.value_curves
        return self._changed(monotone(old.curve, direction, self.x, self.counts)), f"made {direction}"

    def merged(self, levels: Sequence[object]) -> tuple[Curves, str]:
        """Return the curves with one value for some levels, the mean over their rows; and what that is in words."""
        if not self.column.levels:
            got, remedy = f"{self.column.name!r}, a {self.column.kind}", "use flatten"
            raise InputError(describe(self.where, "a category or ordered levels", got, remedy))
        codes = self._codes(levels)
        if len(codes) < 2:
            got = repr(self.column.levels[codes[0]])
            raise InputError(describe(self.where, "two levels or more", f"{got} alone", "name another"))
        effects, counts = self._at_levels(), self.counts[codes]
        effects[codes] = np.average(effects[codes], axis=0, weights=counts if counts.any() else None)
        return self._with_levels(effects, codes), f"levels merged: {self._names(codes)}"

    def _require_order(self) -> None:
        if self.column.kind == "category":
            expected, got = "a column of numbers, dates or ordered levels", f"the category {self.column.name!r}"
            raise InputError(describe(self.where, expected, got, "use set_shape or merge_levels"))

    def _at_levels(self) -> Matrix:
        return self.effect(np.arange(len(self.column.levels), dtype=np.float64))

    def _beside(self) -> Vector:
        """Return what the term of the missing cells adds to present ones, shape (outputs,)."""
        gaps = [curve for curve in self.curves if self.encoder.terms[curve.term].kind == "missing"]
        return column_effect(self.encoder, gaps, np.zeros(1), self.outputs)[0]

    def _changed(self, curve: FittedCurve) -> Curves:
        (old,) = self.value_curves
        return tuple(replace(old, curve=curve) if other is old else other for other in self.curves)

    def _through(self, knots: Vector, effects: Matrix) -> Curves:
        """Return the curves with which the column's effect leads through effects (m, outputs); missing cells stay."""
        (old,) = self.value_curves
        return self._changed(FittedCurve.level_beyond(knots, effects - self._beside(), old.curve.absent))

    def _with_levels(self, effects: Matrix, codes: list[int]) -> Curves:
        """Return the curves with effects (levels, outputs) of the levels; only those of the codes have changed."""
        every = [(index, self.encoder.terms[index]) for index in terms_of(self.encoder, self.index)]
        split = {term.levels[0]: index for index, term in every if term.kind == "binary" and len(term.levels) == 1}
        if not split:
            return self._through(np.arange(len(effects), dtype=np.float64), effects)
        more = effects - self._at_levels()
        curves = {each.term: each for each in self.curves}
        ends, nothing = np.array([0.0, 1.0]), np.zeros(self.outputs)
        for code in codes:
            index = split[self.column.levels[code]]
            if index not in curves:  # the fit has no effect of this level
                place = max(each.place for each in curves.values()) + 1
                curves[index] = TermCurve(index, place, FittedCurve.level_beyond(np.zeros(1), nothing[None]))
            old = curves[index].curve
            new = FittedCurve.level_beyond(ends, old(ends) + np.stack([nothing, more[code]]), old.absent)
            curves[index] = replace(curves[index], curve=new)
        return tuple(curves.values())

    def _position(self, place: object) -> float:
        """Return a number, a date or the name of a rank as a number on the axis of the column."""
        kind = self.column.kind
        found: float | None = None
        if kind == "ordered" and not (isinstance(place, float) and math.isinf(place)):
            return float(self._code(place))
        if kind == "date" and (isinstance(place, str) or type(place) is np.datetime64):
            found = date_in(str(place))
        elif kind == "date" and isinstance(place, date):
            found = days_since_epoch(place)
        elif not isinstance(place, bool) and isinstance(place, Real):
            found = float(place)
        if found is None or math.isnan(found):
            expected = {"date": "dates such as '2024-01-31'", "ordered": "names of levels"}.get(kind, "numbers")
            raise InputError(describe(self.where, f"{expected} for {self.column.name!r}", repr(place), "correct it"))
        return found

    def _codes(self, levels: object) -> list[int]:
        if not _is_several(levels):
            raise InputError(describe(self.where, "a list of levels", repr(levels), "put it in brackets"))
        levels = list(levels)
        codes = [self._code(level) for level in levels]
        if not codes or len(set(codes)) < len(codes):
            raise InputError(describe(self.where, "levels, each once", _shown(levels), "correct the list"))
        return codes

    def _code(self, level: object) -> int:
        """Return the number of a level, by its name."""
        name, levels = str(level), self.column.levels
        if not isinstance(level, bool) and isinstance(level, Real):
            name = number_key(float(level))
        if name in levels:
            return levels.index(name)
        expected = f"levels of {self.column.name!r} ({listed(list(levels))})"
        if name in self.column.pooled:
            got, remedy = f"{name!r}, a rare one", f"name {levels[-1]!r}, which it belongs to"
            raise InputError(describe(self.where, expected, got, remedy))
        raise InputError(describe(self.where, expected, repr(level), nearest(level, levels, "correct the name")))

    def _names(self, codes: list[int]) -> str:
        more = f" and {len(codes) - MOST_LEVELS_NAMED} more" if len(codes) > MOST_LEVELS_NAMED else ""
        return ", ".join(self.column.levels[code] for code in codes[:MOST_LEVELS_NAMED]) + more

    def _text(self, x: float) -> str:
        """Return a place on the axis of the column as text."""
        if self.column.kind == "date" and math.isfinite(x):
            return date_key(x)
        if self.column.kind == "ordered" and float(x).is_integer() and 0 <= x < len(self.column.levels):
            return self.column.levels[int(x)]
        return f"{x:.6g}"


def _places_and_values(where: str, knots: object, values: ArrayLike | None) -> tuple[list[object], object]:
    """Return knots or levels, and their values: two lists, a mapping, or pairs."""
    if not _is_several(knots):
        raise InputError(describe(where, "knots and values, or a mapping", repr(knots), "write {20: 0.0, 40: 1.5}"))
    if values is not None and not isinstance(knots, Mapping):
        return list(knots), values
    entries = cast("Mapping[object, object]", knots).items() if isinstance(knots, Mapping) else knots
    pairs = [list(entry) if _is_several(entry) else [entry] for entry in entries]
    alone = next((entry for entry in pairs if len(entry) != 2), None)
    if alone is not None:
        got, remedy = f"{', '.join(map(repr, alone))} alone", "give values, or a mapping"
        raise InputError(describe(where, "a value for each knot", got, remedy))
    if values is not None:
        raise InputError(describe(where, "a mapping alone", "values beside it", "leave the values out"))
    return [place for place, _ in pairs], [value for _, value in pairs]


def _is_several(values: object) -> TypeGuard[Iterable[object]]:
    return isinstance(values, Iterable) and not isinstance(values, str)


def _shown(places: Sequence[object]) -> str:
    """Return the first few places as text."""
    if not len(places):
        return "none"
    return listed([str(place) for place in places]).replace("'", "")
