"""What is asked of one column of a model, checked and turned into new curves of its terms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from numbers import Real
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.errors import InputError, describe, nearest
from sparsenam.model.curve import FittedCurve
from sparsenam.model.editing import Direction, TermCurve, column_effect, flattened, monotone, terms_of
from sparsenam.tables import Column, TableEncoder
from sparsenam.tables.text import date_in, date_key, days_since_epoch, listed, number_key

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Curves = tuple[TermCurve, ...]
Place = float | str | date  # a number, the name of a level, or a date
Knots = Mapping[Any, Any] | Iterable[Any]
MOST_LEVELS_NAMED = 10  # of levels in the words of an edit


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
        self._require_order("flatten")
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
        self._require_order("make_monotone")
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

    def _require_order(self, name: str) -> None:
        if self.column.kind == "category":
            expected, got = "a column of numbers, dates or ordered levels", f"the category {self.column.name!r}"
            raise InputError(describe(name, expected, got, "use set_shape or merge_levels"))

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
        terms = terms_of(self.encoder, self.index)
        split = [index for index in terms if self.encoder.terms[index].levels and self._is_split(index)]
        if not split:
            return self._through(np.arange(len(effects), dtype=np.float64), effects)
        more = effects - self._at_levels()
        curves = {each.term: each for each in self.curves}
        ends, nothing = np.array([0.0, 1.0]), np.zeros(self.outputs)
        for code in codes:
            (index,) = (one for one in split if self.encoder.terms[one].levels == (self.column.levels[code],))
            if index not in curves:  # the fit has no effect of this level
                place = max(each.place for each in curves.values()) + 1
                curves[index] = TermCurve(index, place, FittedCurve.level_beyond(np.zeros(1), nothing[None]))
            old = curves[index].curve
            new = FittedCurve.level_beyond(ends, old(ends) + np.stack([nothing, more[code]]), old.absent)
            curves[index] = replace(curves[index], curve=new)
        return tuple(curves.values())

    def _is_split(self, term: int) -> bool:
        return self.encoder.terms[term].kind == "binary" and len(self.encoder.terms[term].levels) == 1

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

    def _codes(self, levels: Iterable[object]) -> list[int]:
        if isinstance(levels, str) or not isinstance(cast(object, levels), Iterable):
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


def _places_and_values(where: str, knots: Knots, values: ArrayLike | None) -> tuple[list[Any], Any]:
    """Return knots or levels, and their values: two lists, a mapping, or pairs."""
    if isinstance(knots, str) or not isinstance(cast(object, knots), Iterable):
        raise InputError(describe(where, "knots and values, or a mapping", repr(knots), "write {20: 0.0, 40: 1.5}"))
    if values is not None and not isinstance(knots, Mapping):
        return list(knots), values
    entries = cast("Mapping[Any, Any]", knots).items() if isinstance(knots, Mapping) else knots
    pairs = [_pair(where, entry) for entry in entries]
    if values is not None:
        raise InputError(describe(where, "a mapping alone", "values beside it", "leave the values out"))
    return [place for place, _ in pairs], [value for _, value in pairs]


def _pair(where: str, entry: object) -> tuple[Any, Any]:
    try:
        place, value = cast("Iterable[Any]", entry)
    except (TypeError, ValueError):
        expected = "a value for each knot"
        raise InputError(describe(where, expected, f"{entry!r} alone", "give values, or a mapping")) from None
    return place, value


def _shown(places: Sequence[object]) -> str:
    """Return the first few places as text."""
    if not len(places):
        return "none"
    return listed([str(place) for place in places]).replace("'", "")
