"""Comparing: what changed from one fitted model to another that predicts the same thing."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.audit.comparison import Comparison, CurveChange, curve_change, prediction_changes
from sparsenam.audit.subgroups import Partition, names_in, read_partitions
from sparsenam.errors import InputError, describe
from sparsenam.fit import Fit
from sparsenam.fit.summary import against_average
from sparsenam.tables.columns import Reading
from sparsenam.tables.encoder import column_places
from sparsenam.tables.frame import Frame, absent_from, arranged, read_table
from sparsenam.tables.text import listed
from sparsenam.text import response_units

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Both = tuple[Fit, Fit]


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
    losses, weights = measured
    partitions = _partitions(models, frames, groups)
    means = (_means(models[0], frames[0]), _means(models[1], frames[1]))
    classes = (_classes(models[0], means[0]), _classes(models[1], means[1]))
    kept = [model.kept_names for model in models]
    alone = [tuple(name for name in kept[one] if name not in kept[1 - one]) for one in (0, 1)]
    pairs = [[(min(pair), max(pair)) for pair in model.interactions] for model in models]
    both = tuple(name for name in kept[0] if name in kept[1])
    return Comparison(
        rows=int((weights > 0).sum()),
        outputs=models[0].outputs,
        units=models[0].units,
        response=response_units(
            models[0].task, models[0].model.family.link, models[0].outputs, models[0].summary.target
        ),
        both=both,
        only_first=alone[0],
        only_second=alone[1],
        pairs_first=tuple(pair for pair in pairs[0] if pair not in pairs[1]),
        pairs_second=tuple(pair for pair in pairs[1] if pair not in pairs[0]),
        curves=_curves(models, frames, both),
        predictions=prediction_changes(
            tuple(partitions),
            weights,
            means,
            classes if models[0].task == "classification" else None,
            losses,
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
