"""Comparing: what changed from one fitted model to another that predicts the same thing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.audit.subgroups import (
    STANDARD_ERROR_ROUNDING,
    OfSubgroup,
    Partition,
    mean_and_error,
    names_in,
    read_partitions,
    with_error,
)
from sparsenam.codec import Numbers
from sparsenam.errors import InputError, describe
from sparsenam.fit import Fit
from sparsenam.fit.summary import against_average, numbers, rows_of_numbers
from sparsenam.tables.columns import Column, Reading
from sparsenam.tables.encoder import column_places
from sparsenam.tables.frame import Frame, absent_from, arranged, read_table
from sparsenam.tables.text import date_key, listed
from sparsenam.text import Finding, FindingTable, Found, count_text, number_text, response_units, share_text

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Both = tuple[Fit, Fit]


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
        """Return the comparison in words and tables."""
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
        if whole.difference is not None and whole.difference_error is not None:
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
        rows = tuple(
            (
                curve.column,
                number_text(curve.mean_absolute, 3),
                number_text(curve.largest, 3),
                curve.where,
                "not known" if curve.beyond is None else share_text(curve.beyond),
            )
            for curve in self.curves[:ROWS_SHOWN]
        )
        heads = ("column", "mean difference", "largest", "where", "rows beyond bands")
        return FindingTable(f"Changed curves, in {self.units}", heads, rows)

    def _prediction_table(self) -> FindingTable:
        order = sorted(self.predictions[1:], key=lambda change: -change.mean_absolute)
        shown = [*self.predictions[:1], *order[: ROWS_SHOWN - 1]]
        heads = ["subgroup", "rows", "mean difference", "mean absolute"]
        with_classes, with_losses = shown[0].changed is not None, shown[0].losses is not None
        heads += ["classes changed"] if with_classes else []
        heads += ["first's loss", "second's loss", "difference"] if with_losses else []
        rows: list[tuple[str, ...]] = []
        for change in shown:
            least = STANDARD_ERROR_ROUNDING * change.mean_absolute  # below, a mean is nothing but rounding
            means = " / ".join(number_text(value if abs(value) > least else 0.0, 3) for value in change.mean)
            row = [change.subgroup, str(change.rows), means, number_text(change.mean_absolute, 3)]
            row += [share_text(change.changed)] if change.changed is not None else []
            if change.losses is not None and change.difference is not None and change.difference_error is not None:
                row += [number_text(loss, 4) for loss in change.losses]
                row.append(with_error(change.difference, change.difference_error))
            rows.append(tuple(row))
        more = f", the {len(shown) - 1} largest of {len(self.predictions) - 1}" if len(order) >= ROWS_SHOWN else ""
        return FindingTable(f"Changed predictions, in {self.response}{more}", tuple(heads), tuple(rows))


def compare(
    fits: Both,
    X: ArrayLike,
    y: ArrayLike | None = None,
    groups: Any = None,
    *,
    sample_weight: ArrayLike | None = None,
    exposure: ArrayLike | None = None,
) -> Comparison:
    """Return what changed from one fit to another: columns, curves, and predictions by subgroup."""
    _check_alike(fits)
    frame = read_table(X, estimator_name="compare", least_rows=1)
    frames = (_columns_of(fits[0], frame), _columns_of(fits[1], frame))
    if y is None and exposure is not None:
        raise InputError(describe("compare", "y where there is an exposure", "none", "give y or leave exposure out"))
    known = {*fits[0].encoder.names, *fits[1].encoder.names}
    named = names_in(groups, known, frame.rows) or []
    _require_columns(absent_from(frame, [name for name in named if name in known]))
    return _compared(fits, frames, _losses(fits, frames, y, sample_weight, exposure), groups)


def _compared(
    models: Both,
    frames: tuple[Frame, Frame],
    measured: tuple[tuple[Vector, Vector] | None, Vector],
    groups: Any,
) -> Comparison:
    """Return what differs between two models on the same rows; ``measured`` are their losses and the weights."""
    (losses, weights), first = measured, models[0]
    partitions = _partitions(models, frames, groups)
    means = (_means(models[0], frames[0]), _means(models[1], frames[1]))
    classes = (_classes(models[0], means[0]), _classes(models[1], means[1]))
    kept = [model.kept_names for model in models]
    alone = [tuple(name for name in kept[one] if name not in kept[1 - one]) for one in (0, 1)]
    pairs = [[(min(pair), max(pair)) for pair in model.interactions] for model in models]
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
        curves=_curves(models, frames, both),
        predictions=prediction_changes(
            tuple(partitions), weights, means, classes if first.task == "classification" else None, losses
        ),
    )


def _check_alike(fits: Both) -> None:
    """Raise one sentence where two models do not predict the same thing."""
    facts = [{"task": fit.task, "link": fit.model.family.link, "outputs": list(fit.outputs)} for fit in fits]
    for name in facts[0]:
        if facts[0][name] != facts[1][name]:
            got = f"{name} {facts[0][name]!r} and {facts[1][name]!r}"
            raise InputError(describe("compare", "two models that predict the same thing", got, "choose another model"))


def _classes(fit: Fit, means: Matrix) -> NDArray[np.generic]:
    """Return the number of the most probable class (rows,), or 0/1 labels (rows, labels), of predicted means."""
    if fit.model.family.response == "classes":
        return means.argmax(axis=1)
    return means > 0.5 if fit.model.family.response == "labels" else means[:, 0] > 0.5


def _columns_of(model: Fit, frame: Frame) -> Frame:
    """Return the columns of a model in a table that may have others, and may lack those that the model dropped."""
    encoder = model.encoder
    if not (frame.named and encoder.named):
        return frame
    _require_columns(absent_from(frame, model.kept_names))
    return arranged(frame, encoder.names, encoder.named)


def _require_columns(lacking: list[str]) -> None:
    if lacking:
        expected, remedy = "the columns that either model keeps and those of groups", "add or rename these columns"
        raise InputError(describe("X of compare", expected, f"none of {listed(lacking)}", remedy))


def _means(model: Fit, frame: Frame) -> Matrix:
    """Return predictions through the inverse link, shape (rows, outputs)."""
    return model.model.family.mean(model.model.scores(model.reader().encode(frame)))


def _losses(
    models: Both,
    frames: tuple[Frame, Frame],
    y: ArrayLike | None,
    sample_weight: ArrayLike | None,
    exposure: ArrayLike | None,
) -> tuple[tuple[Vector, Vector] | None, Vector]:
    """Return the losses of the rows by both models, None without y, and the weights of the rows, each (rows,)."""
    rows = frames[0].rows
    if y is None:
        weights = np.ones(rows) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if weights.shape != (rows,) or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            expected = f"{rows} finite weights of at least 0, not all of them 0"
            raise InputError(describe("sample_weight", expected, "others", "correct them"))
        return None, weights
    one, other = (
        model.rows(frame, y, sample_weight, exposure, model.reader())
        for model, frame in zip(models, frames, strict=True)
    )
    return models[0].response.paired_losses((models[0].model, models[1].model), (one, other))


def _partitions(models: Both, frames: tuple[Frame, Frame], groups: Any) -> list[Partition]:
    """Return the subgroups by columns of either model, or by labels."""
    known = {*models[0].encoder.names, *models[1].encoder.names}
    names = names_in(groups, known, frames[0].rows)
    if groups is None:
        names = list(dict.fromkeys([*models[0].kept_names, *models[1].kept_names]))
    if names is None:
        return read_partitions(models[0].encoder, _readings(models[0], frames[0], ()), groups, (), "compare")
    only = frozenset(models[1].encoder.names) - frozenset(models[0].encoder.names)
    found: list[Partition] = []
    first, second = [name for name in names if name not in only], [name for name in names if name in only]
    if first:
        found += read_partitions(models[0].encoder, _readings(models[0], frames[0], first), first, (), "compare")
    if second:
        found += read_partitions(models[1].encoder, _readings(models[1], frames[1], second), second, (), "compare")
    return found


def _readings(model: Fit, frame: Frame, names: Collection[str]) -> list[Reading]:
    """Return the columns of a model in numbers, of which some are read."""
    read = [index for index, name in enumerate(model.encoder.names) if name in names]
    return model.encoder.reading(read).readings(frame)


def _curves(models: Both, frames: tuple[Frame, Frame], both: tuple[str, ...]) -> tuple[CurveChange, ...]:
    """Return how the effects of the columns that both models keep differ, the largest mean difference first."""
    effects: list[Matrix] = []
    spreads: list[Matrix | None] = []
    for model, frame in zip(models, frames, strict=True):
        found = model.effects(frame)
        found = found[:, :, None] if found.ndim == 2 else found
        effects.append(against_average(model.model.family, found))
        spreads.append(_deviations(model, frame))
    readings = _readings(models[0], frames[0], both)
    changes, places = list[CurveChange](), [column_places(model.encoder) for model in models]
    for name in both:
        index = [of_model[name] for of_model in places]
        known = None
        if spreads[0] is not None and spreads[1] is not None:
            known = (spreads[0][:, index[0]], spreads[1][:, index[1]])
            known = None if np.isnan(known).any() else known
        values = readings[index[0]].values
        sides = (effects[0][:, index[0]], effects[1][:, index[1]])
        changes.append(curve_change(models[0].encoder.columns[index[0]], values, sides, known))
    return tuple(sorted(changes, key=lambda change: (-change.mean_absolute, change.column)))


def _deviations(model: Fit, frame: Frame) -> Matrix | None:
    """Return the standard deviations of the effects (rows, columns, outputs); None where a fit does not know them."""
    bands = model.bands
    if bands is None or bands.verdict == "refused":
        return None
    outputs = model.model.intercept.size
    squares = np.asarray(bands.deviations(model.reader().encode(frame), outputs), dtype=np.float64) ** 2
    total = np.zeros((len(squares), len(model.encoder.columns), outputs))
    for term in map(int, model.model.terms):  # others add nothing, for certain
        total[:, model.encoder.terms[term].column] += squares[:, term]
    return np.sqrt(total)


def curve_change(
    column: Column, values: Vector, effects: tuple[Matrix, Matrix], deviations: tuple[Matrix, Matrix] | None
) -> CurveChange:
    """Return how the effects (rows, outputs) of a column differ; ``values`` (rows,) are its numbers or codes.

    ``deviations`` (rows, outputs) are the standard deviations of both effects.
    """
    first, second = (effect - effect.mean(axis=0) for effect in effects)
    change = np.abs(second - first).max(axis=1)
    beyond = None
    if deviations is not None:
        spread = np.sqrt(deviations[0] ** 2 + deviations[1] ** 2)
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


def prediction_changes(
    partitions: tuple[Partition, ...],
    weights: Vector,
    predictions: tuple[Matrix, Matrix],
    classes: tuple[NDArray[Any], NDArray[Any]] | None,
    losses: tuple[Vector, Vector] | None,
) -> tuple[PredictionChange, ...]:
    """Return how predictions (rows, outputs), classes (rows, …) and losses (rows,) differ in all rows and subgroups."""
    change = predictions[1] - predictions[0]
    moved = None
    if classes is not None:
        moved = (classes[0] != classes[1]).reshape(weights.size, -1).any(axis=1).astype(np.float64)
    made: list[PredictionChange] = []
    for partition in (Partition.everyone(weights.size), *partitions):
        inside = partition.members(weights)
        given, codes, groups = weights[inside], partition.codes[inside], len(partition.labels)
        means = [mean_and_error(change[inside, k], given, codes, groups)[0] for k in range(change.shape[1])]
        sizes = mean_and_error(np.abs(change[inside]).mean(axis=1), given, codes, groups)[0]
        shares = None if moved is None else mean_and_error(moved[inside], given, codes, groups)[0]
        paired = None
        if losses is not None:
            both = [mean_and_error(each[inside], given, codes, groups)[0] for each in losses]
            paired = (*both, *mean_and_error((losses[1] - losses[0])[inside], given, codes, groups))
        counts = partition.counts(weights)
        for group in np.flatnonzero(counts).tolist():
            figures = None if paired is None else [float(values[group]) for values in paired]
            made.append(
                PredictionChange(
                    groups=partition.name,
                    label=partition.labels[group],
                    rows=int(counts[group]),
                    mean=tuple(float(mean[group]) for mean in means),
                    mean_absolute=float(sizes[group]),
                    changed=None if shares is None else float(shares[group]),
                    losses=None if figures is None else (figures[0], figures[1]),
                    difference=None if figures is None else figures[2],
                    difference_error=None if figures is None else figures[3],
                )
            )
    return tuple(made)


def _value_text(column: Column, value: float) -> str:
    if np.isnan(value):
        return "(missing)"
    if column.levels:
        return column.levels[int(value)]
    return date_key(value) if column.kind == "date" else number_text(value, 4)
