"""Comparing: what changed from one fitted model to another that predicts the same thing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sparsenam.audit.subgroups import (
    STANDARD_ERROR_ROUNDING,
    Groups,
    OfSubgroup,
    Partition,
    names_in,
    read_partitions,
    subgroup_means,
    with_error,
)
from sparsenam.codec import Matrix, Numbers, Vector
from sparsenam.errors import InputError, describe
from sparsenam.fit.pipeline import Fit
from sparsenam.fit.response import given_weights
from sparsenam.fit.summary import against_average, numbers, rows_of_numbers
from sparsenam.tables.columns import Column, Reading
from sparsenam.tables.frame import Frame, absent_from, read_table
from sparsenam.tables.text import date_key, listed
from sparsenam.text import Finding, FindingTable, Found, count_text, number_text, response_units, share_text

ROWS_SHOWN = 20  # rows of a table in words
COMPARED_POINTS = 101  # of a curve
NOTABLE_DEVIATIONS = 2.0  # standard deviations of a difference that count as more than chance


@dataclass(frozen=True, slots=True)
class CurveChange:
    """How the effect of a column differs, second model less first, both of mean 0 over the rows.

    ``x`` are values of the rows in rising order, or ``levels`` of a category; ``first`` and ``second`` (points,
    outputs) the effects there. ``where`` is the value with the largest difference. ``beyond`` is the share of the
    rows whose difference is more than two standard deviations of the effects, None where the models do not know these.
    """

    column: str
    mean_absolute: float
    largest: float
    where: str
    beyond: float | None
    x: Numbers
    levels: tuple[str, ...]
    first: tuple[Numbers, ...]
    second: tuple[Numbers, ...]


@dataclass(frozen=True, slots=True)
class PredictionChange(OfSubgroup):
    """How predictions of a subgroup differ, second model less first; means over rows and outputs.

    ``changed`` is the share of the rows whose class differs, None without classes. ``losses`` of both models and the
    mean of their paired ``difference`` with its error are None where no target was given.
    """

    groups: str | None
    label: str
    rows: int
    mean: Numbers
    mean_absolute: float
    changed: float | None
    losses: tuple[float, float] | None
    difference: float | None
    difference_error: float | None


@dataclass(frozen=True, slots=True)
class Comparison(Found):
    """What changed from the first model to the second.

    ``curves`` has each column that both keep, the largest mean difference first; ``predictions`` all rows first, then
    each subgroup. ``pairs_first`` and ``pairs_second`` are pairs of columns that only one of the models has.
    """

    rows: int
    outputs: tuple[str, ...]
    units: str
    response: str
    both: tuple[str, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    pairs_first: tuple[tuple[str, str], ...]
    pairs_second: tuple[tuple[str, str], ...]
    curves: tuple[CurveChange, ...]
    predictions: tuple[PredictionChange, ...]
    notes: tuple[str, ...] = ()

    def finding(self) -> Finding:
        columns = (
            ("kept by both", ", ".join(self.both)),
            ("only in the first", ", ".join(self.only_first)),
            ("only in the second", ", ".join(self.only_second)),
        )
        table = FindingTable("Columns", ("", "columns"), tuple((name, names or "none") for name, names in columns))
        tables = [table, *([self._curve_table()] if self.curves else []), self._prediction_table()]
        return Finding("Comparison", self._sentence(), tuple(tables), self._all_notes())

    def _sentence(self) -> str:
        whole = self.predictions[0]
        kept = f"Both models keep {count_text(len(self.both), 'column')}"
        alone = f"the first has {len(self.only_first)} more and the second {len(self.only_second)}"
        moved = f"predictions differ by {number_text(whole.mean_absolute, 3)} on average ({self.response})"
        text = f"{kept}, {alone}; {moved}"
        if whole.changed is not None:
            text += f", and the class of {share_text(whole.changed)} of the rows"
        if whole.difference is not None:
            text += f"; the loss of the second less the first is {with_error(whole.difference, whole.difference_error)}"
        return f"{text}."

    def _all_notes(self) -> tuple[str, ...]:
        notes = list(self.notes)
        for name, pairs in (("first", self.pairs_first), ("second", self.pairs_second)):
            if pairs:
                notes.append(f"Pairs only in the {name}: {', '.join(' × '.join(pair) for pair in pairs)}.")
        if self.curves and all(curve.beyond is None for curve in self.curves):
            notes.append("How sure the effects are is not known of both models, so differences may be chance.")
        return tuple(notes)

    def _curve_table(self) -> FindingTable:
        shown = self.curves[:ROWS_SHOWN]
        columns = {
            "column": [curve.column for curve in shown],
            "mean difference": [number_text(curve.mean_absolute, 3) for curve in shown],
            "largest": [number_text(curve.largest, 3) for curve in shown],
            "where": [curve.where for curve in shown],
            "rows beyond bands": ["not known" if curve.beyond is None else share_text(curve.beyond) for curve in shown],
        }
        return FindingTable.of(f"Changed curves, in {self.units}", columns)

    def _prediction_table(self) -> FindingTable:
        order = sorted(self.predictions[1:], key=lambda change: -change.mean_absolute)
        shown = [*self.predictions[:1], *order[: ROWS_SHOWN - 1]]
        columns = {
            "subgroup": [change.subgroup for change in shown],
            "rows": [str(change.rows) for change in shown],
            "mean difference": [_means_text(change) for change in shown],
            "mean absolute": [number_text(change.mean_absolute, 3) for change in shown],
        }
        if shown[0].changed is not None:
            columns["classes changed"] = [share_text(change.changed or 0.0) for change in shown]
        if shown[0].losses is not None:
            losses = [change.losses for change in shown if change.losses is not None]
            columns["first's loss"] = [number_text(first, 4) for first, _ in losses]
            columns["second's loss"] = [number_text(second, 4) for _, second in losses]
            columns["difference"] = [with_error(change.difference, change.difference_error) for change in shown]
        more = f", the {len(shown) - 1} largest of {len(self.predictions) - 1}" if len(order) >= ROWS_SHOWN else ""
        return FindingTable.of(f"Changed predictions, in {self.response}{more}", columns)


def _means_text(change: PredictionChange) -> str:
    least = STANDARD_ERROR_ROUNDING * change.mean_absolute  # below, a mean is nothing but rounding
    return " / ".join(number_text(value if abs(value) > least else 0.0, 3) for value in change.mean)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """One of the two fits, and its columns of the table."""

    fit: Fit
    frame: Frame

    @classmethod
    def of(cls, fit: Fit, frame: Frame) -> _Side:
        """Take the fit's columns from a table that may have others, and may lack those that the fit dropped."""
        if not (frame.named and fit.encoder.named):
            return cls(fit, frame)
        _require_columns(absent_from(frame, fit.kept_names))
        return cls(fit, fit.encoder.arranged(frame))

    def means(self) -> Matrix:
        """Return predictions through the inverse link, shape (rows, outputs)."""
        return self.fit.model.family.mean(self.fit.model.scores(self.fit.reader().encode(self.frame)))

    def effects(self) -> Matrix:
        """Return the effects of all columns, shape (rows, columns, outputs)."""
        found = self.fit.effects(self.frame)
        return against_average(self.fit.model.family, found[:, :, None] if found.ndim == 2 else found)

    def deviations(self) -> Matrix:
        """Return the standard deviations of the effects, (rows, columns, outputs); NaN where they are not known."""
        fit, bands, outputs = self.fit, self.fit.bands, self.fit.model.intercept.size
        shape = (self.frame.rows, len(fit.encoder.columns), outputs)
        if bands is None or bands.verdict == "refused":
            return np.full(shape, np.nan)
        squares = bands.deviations(fit.reader().encode(self.frame), outputs) ** 2
        return np.sqrt(fit.by_column(squares).reshape(shape))

    def readings(self, names: Collection[str]) -> list[Reading]:
        """Return the columns in numbers, of which some are read."""
        read = [index for index, name in enumerate(self.fit.encoder.names) if name in names]
        return self.fit.encoder.reading(read).readings(self.frame)

    def partitions(self, groups: Groups, names: Collection[str]) -> list[Partition]:
        """Return the subgroups by labels or by some of the columns."""
        return read_partitions(self.fit.encoder, self.readings(names), groups, (), "compare")


Sides = tuple[_Side, _Side]


def compare(
    fits: tuple[Fit, Fit],
    X: ArrayLike,
    y: ArrayLike | None = None,
    groups: Groups = None,
    *,
    sample_weight: ArrayLike | None = None,
    exposure: ArrayLike | None = None,
) -> Comparison:
    """Return what changed from one fit to another: columns, curves, and predictions by subgroup."""
    facts = [{"task": fit.task, "link": fit.model.family.link, "outputs": list(fit.outputs)} for fit in fits]
    for name in facts[0]:
        if facts[0][name] != facts[1][name]:
            got = f"{name} {facts[0][name]!r} and {facts[1][name]!r}"
            raise InputError(describe("compare", "two models that predict the same thing", got, "choose another model"))
    frame, first = read_table(X, estimator_name="compare", least_rows=1), fits[0]
    sides = (_Side.of(fits[0], frame), _Side.of(fits[1], frame))
    if y is None and exposure is not None:
        raise InputError(describe("compare", "y where there is an exposure", "none", "give y or leave exposure out"))
    known = {*fits[0].encoder.names, *fits[1].encoder.names}
    named = names_in(groups, known, frame.rows)
    _require_columns(absent_from(frame, [name for name in named or [] if name in known]))
    losses, weights = _losses(sides, y, sample_weight, exposure)
    partitions = _partitions(sides, groups, named)
    kept = [fit.kept_names for fit in fits]
    alone = [tuple(name for name in kept[one] if name not in kept[1 - one]) for one in (0, 1)]
    pairs = [[(min(pair), max(pair)) for pair in fit.interactions] for fit in fits]
    both = tuple(name for name in kept[0] if name in kept[1])
    return Comparison(
        rows=int((weights > 0).sum()),
        outputs=first.outputs,
        units=first.units,
        response=response_units(first.task, first.model.family.link, first.outputs, first.summary.target),
        both=both,
        only_first=alone[0],
        only_second=alone[1],
        pairs_first=tuple(pair for pair in pairs[0] if pair not in pairs[1]),
        pairs_second=tuple(pair for pair in pairs[1] if pair not in pairs[0]),
        curves=_curves(sides, both),
        predictions=_prediction_changes(sides, partitions, weights, losses),
    )


def _require_columns(lacking: list[str]) -> None:
    if lacking:
        expected, remedy = "the columns that either model keeps and those of groups", "add or rename these columns"
        raise InputError(describe("X of compare", expected, f"none of {listed(lacking)}", remedy))


def _losses(
    sides: Sides, y: ArrayLike | None, sample_weight: ArrayLike | None, exposure: ArrayLike | None
) -> tuple[tuple[Vector, Vector] | None, Vector]:
    """Return the losses of the rows by both models, None without y, and the weights of the rows, each (rows,)."""
    if y is None:
        return None, given_weights(sample_weight, sides[0].frame.rows)
    one, other = (side.fit.rows(side.frame, y, sample_weight, exposure, side.fit.reader()) for side in sides)
    models = (sides[0].fit.model, sides[1].fit.model)
    return sides[0].fit.response.paired_losses(models, (one, other))


def _partitions(sides: Sides, groups: Groups, names: list[str] | None) -> list[Partition]:
    """Return the subgroups by columns of either model, which ``names`` are, or by labels."""
    if groups is None:
        names = list(dict.fromkeys([*sides[0].fit.kept_names, *sides[1].fit.kept_names]))
    if names is None:
        return sides[0].partitions(groups, ())
    only = frozenset(sides[1].fit.encoder.names) - frozenset(sides[0].fit.encoder.names)
    shared = ([name for name in names if name not in only], [name for name in names if name in only])
    return [found for side, some in zip(sides, shared, strict=True) if some for found in side.partitions(some, some)]


def _curves(sides: Sides, both: tuple[str, ...]) -> tuple[CurveChange, ...]:
    """Return how the effects of the columns that both models keep differ, the largest mean difference first."""
    places = [[side.fit.encoder.places[name] for name in both] for side in sides]
    first, second = (side.effects()[:, place] for side, place in zip(sides, places, strict=True))
    spread = np.hypot(*(side.deviations()[:, place] for side, place in zip(sides, places, strict=True)))
    columns, readings = sides[0].fit.encoder.columns, sides[0].readings(both)
    changes = [
        _curve_change(columns[place], readings[place].values, (first[:, at], second[:, at]), spread[:, at])
        for at, place in enumerate(places[0])
    ]
    return tuple(sorted(changes, key=lambda change: (-change.mean_absolute, change.column)))


def _curve_change(column: Column, values: Vector, effects: tuple[Matrix, Matrix], spread: Matrix) -> CurveChange:
    """Return how the effects (rows, outputs) of a column differ; ``values`` (rows,) are its numbers or codes.

    ``spread`` (rows, outputs) is the standard deviation of the difference, NaN where it is not known.
    """
    first, second = (effect - effect.mean(axis=0) for effect in effects)
    change = np.abs(second - first).max(axis=1)
    beyond = None
    if not np.isnan(spread).any():
        beyond = float((np.abs(second - first) > NOTABLE_DEVIATIONS * spread).any(axis=1).mean())
    order = np.argsort(values, kind="stable")
    known = order[~np.isnan(values[order])]
    distinct = known[np.flatnonzero(np.diff(values[known], prepend=-np.inf))]
    if not column.levels:
        distinct = distinct[np.unique(np.linspace(0, distinct.size - 1, COMPARED_POINTS).astype(np.intp))]
    # among rows of an equally large difference the smallest value, whatever their order
    widest = change >= change.max() - 1e-9 * max(float(change.max()), 1e-300)
    place = order[np.flatnonzero(widest[order])[0]]
    return CurveChange(
        column=column.name,
        mean_absolute=float(np.abs(second - first).mean()),
        largest=float(change.max()),
        where=_value_text(column, float(values[place])),
        beyond=beyond,
        x=numbers(values[distinct]),
        levels=tuple(_value_text(column, float(code)) for code in values[distinct]) if column.levels else (),
        first=rows_of_numbers(first[distinct]),
        second=rows_of_numbers(second[distinct]),
    )


def _prediction_changes(
    sides: Sides, partitions: Sequence[Partition], weights: Vector, losses: tuple[Vector, Vector] | None
) -> tuple[PredictionChange, ...]:
    """Return how predictions, classes and losses (rows,) differ in all rows and in the subgroups."""
    first, second = sides[0].means(), sides[1].means()
    change, unknown = second - first, np.full(weights.size, np.nan)
    moved, paired = unknown, (unknown, unknown, unknown)
    has_classes, response = sides[0].fit.task == "classification", sides[0].fit.model.family.response
    if has_classes and response == "classes":
        moved = (first.argmax(axis=1) != second.argmax(axis=1)).astype(np.float64)
    elif has_classes:
        moved = ((first > 0.5) != (second > 0.5)).any(axis=1).astype(np.float64)
    if losses is not None:
        paired = (*losses, losses[1] - losses[0])
    values = np.column_stack([np.abs(change).mean(axis=1), moved, *paired, change])
    made: list[PredictionChange] = []
    for place, means, errors in subgroup_means(partitions, weights, values):
        size, share, *both, difference = means[:5].tolist()
        made.append(
            PredictionChange(
                *place,
                mean=numbers(means[5:]),
                mean_absolute=size,
                changed=share if has_classes else None,
                losses=None if losses is None else (both[0], both[1]),
                difference=None if losses is None else difference,
                difference_error=None if losses is None else float(errors[4]),
            )
        )
    return tuple(made)


def _value_text(column: Column, value: float) -> str:
    if np.isnan(value):
        return "(missing)"
    if column.levels:
        return column.levels[int(value)]
    return date_key(value) if column.kind == "date" else number_text(value, 4)
