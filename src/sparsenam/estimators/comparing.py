"""Comparing: what changed from one fitted model to another that predicts the same thing."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sparsenam.errors import InputError, describe
from sparsenam.estimators.base import AdditiveEstimator
from sparsenam.explain.comparison import Comparison, CurveChange, curve_change, prediction_changes
from sparsenam.fit.summary import against_average, kept_columns, reader_of
from sparsenam.text import response_units
from sparsenam.fitting.subgroups import Partition, names_in, read_partitions
from sparsenam.tables.columns import Reading
from sparsenam.tables.encoder import TableEncoder, column_places
from sparsenam.tables.frame import Frame, absent_from, arranged, read_table
from sparsenam.tables.text import listed

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def compare(
    model_a: AdditiveEstimator,
    model_b: AdditiveEstimator,
    X: ArrayLike,
    y: ArrayLike | None = None,
    groups: Any = None,
    *,
    sample_weight: ArrayLike | None = None,
    exposure: ArrayLike | None = None,
) -> Comparison:
    """Return what changed from one fitted model to another: columns, curves, and predictions by subgroup.

    The models may be of different classes, and of tables with columns in another order or with other levels; they must
    predict the same thing. Differences are those of ``model_b`` less ``model_a``.

    Parameters
    ----------
    model_a, model_b : fitted estimators
        The earlier and the later model.
    X : table of shape (rows, features)
        Rows with the columns that either model keeps; others are used where ``groups`` names them.
    y : array-like of shape (rows,) or (rows, outputs), optional
        Their target; with it, the losses of both are compared row by row, by the loss of ``model_a``.
    groups : list of names, array-like of shape (rows,), mapping or table, optional
        What the rows are divided by, as for ``audit``; by default the columns that either model keeps.
    sample_weight : array-like of shape (rows,), optional
        Weight of each row.
    exposure : array-like of shape (rows,), optional
        Exposure of each row, for families of rates; only with y.

    Returns
    -------
    Comparison
        Printed, it is a summary; ``explanation.report(path, beside=[comparison])`` shows it in the report.
    """
    models = (model_a, model_b)
    records = _checked(models)
    frame = read_table(X, estimator_name="compare", least_rows=1)
    frames = (_columns_of(model_a, frame), _columns_of(model_b, frame))
    if y is None and exposure is not None:
        raise InputError(describe("compare", "y where there is an exposure", "none", "give y or leave exposure out"))
    known = {*model_a.encoder_.names, *model_b.encoder_.names}
    named = names_in(groups, known, frame.rows) or []
    _require_columns(absent_from(frame, [name for name in named if name in known]))
    return _compared(models, records[0], frames, _losses(models, frames, y, sample_weight, exposure), groups)


def _compared(
    models: tuple[AdditiveEstimator, AdditiveEstimator],
    record: Any,
    frames: tuple[Frame, Frame],
    measured: tuple[tuple[Vector, Vector] | None, Vector],
    groups: Any,
) -> Comparison:
    """Return what differs between two models on the same rows; ``measured`` are their losses and the weights."""
    losses, weights = measured
    partitions = _partitions(models, frames, groups)
    classes = cast(Any, tuple(cast(Any, model).predict(part) for model, part in zip(models, frames, strict=True)))
    kept = [_kept_names(model) for model in models]
    alone = [tuple(name for name in kept[one] if name not in kept[1 - one]) for one in (0, 1)]
    pairs = [[cast("tuple[str, str]", tuple(sorted(pair))) for pair in model.interactions_] for model in models]
    both = tuple(name for name in kept[0] if name in kept[1])
    return Comparison(
        rows=int((weights > 0).sum()),
        outputs=record.outputs,
        units=record.units,
        response=response_units(record.task, models[0].model_.family.link, record.outputs, record.summary.target),
        both=both,
        only_first=alone[0],
        only_second=alone[1],
        pairs_first=tuple(pair for pair in pairs[0] if pair not in pairs[1]),
        pairs_second=tuple(pair for pair in pairs[1] if pair not in pairs[0]),
        curves=_curves(models, frames, both),
        predictions=prediction_changes(
            tuple(partitions),
            weights,
            cast(Any, tuple(_means(model, part) for model, part in zip(models, frames, strict=True))),
            classes if record.task == "classification" else None,
            losses,
        ),
    )


def _checked(models: tuple[AdditiveEstimator, AdditiveEstimator]) -> list[Any]:
    """Return the records of both fits; raise one sentence where the models do not predict the same thing."""
    for model in models:
        if not isinstance(cast(object, model), AdditiveEstimator):
            raise InputError(describe("compare", "fitted models of sparsenam", type(model).__name__, "give two models"))
        check_is_fitted(cast(Any, model))
    records: list[Any] = [cast(Any, model)._record() for model in models]
    facts = [
        {"task": record.task, "link": model.model_.family.link, "outputs": list(record.outputs)}
        for record, model in zip(records, models, strict=True)
    ]
    for name in facts[0]:
        if facts[0][name] != facts[1][name]:
            got = f"{name} {facts[0][name]!r} and {facts[1][name]!r}"
            raise InputError(describe("compare", "two models that predict the same thing", got, "choose another model"))
    return records


def _columns_of(model: AdditiveEstimator, frame: Frame) -> Frame:
    """Return the columns of a model in a table that may have others, and may lack those that the model dropped."""
    encoder = model.encoder_
    if not (frame.named and encoder.named):
        return frame
    _require_columns(absent_from(frame, _kept_names(model)))
    return arranged(frame, encoder.names, encoder.named)


def _require_columns(lacking: list[str]) -> None:
    if lacking:
        expected, remedy = "the columns that either model keeps and those of groups", "add or rename these columns"
        raise InputError(describe("X of compare", expected, f"none of {listed(lacking)}", remedy))


def _reader(model: AdditiveEstimator) -> TableEncoder:
    return reader_of(model.encoder_, model.model_)


def _kept_names(model: AdditiveEstimator) -> list[str]:
    return [model.encoder_.names[index] for index in kept_columns(model.encoder_, model.model_)]


def _means(model: AdditiveEstimator, frame: Frame) -> Matrix:
    """Return predictions through the inverse link, shape (rows, outputs)."""
    return model.model_.family.mean(model.model_.scores(_reader(model).encode(frame)))


def _losses(
    models: tuple[AdditiveEstimator, AdditiveEstimator],
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
    given = [
        cast(Any, model)._given_rows(frame, y, sample_weight, exposure, _reader(model))
        for model, frame in zip(models, frames, strict=True)
    ]
    first: Any = models[0]
    return first._paired_losses(models[1].model_, given[0], given[1])


def _partitions(
    models: tuple[AdditiveEstimator, AdditiveEstimator], frames: tuple[Frame, Frame], groups: Any
) -> list[Partition]:
    """Return the subgroups by columns of either model, or by labels."""
    known = {*models[0].encoder_.names, *models[1].encoder_.names}
    names = names_in(groups, known, frames[0].rows)
    if groups is None:
        names = list(dict.fromkeys([*_kept_names(models[0]), *_kept_names(models[1])]))
    if names is None:
        return read_partitions(models[0].encoder_, _readings(models[0], frames[0], ()), groups, (), "compare")
    only = frozenset(models[1].encoder_.names) - frozenset(models[0].encoder_.names)
    found: list[Partition] = []
    first, second = [name for name in names if name not in only], [name for name in names if name in only]
    if first:
        found += read_partitions(models[0].encoder_, _readings(models[0], frames[0], first), first, (), "compare")
    if second:
        found += read_partitions(models[1].encoder_, _readings(models[1], frames[1], second), second, (), "compare")
    return found


def _readings(model: AdditiveEstimator, frame: Frame, names: Collection[str]) -> list[Reading]:
    """Return the columns of a model in numbers, of which some are read."""
    read = [index for index, name in enumerate(model.encoder_.names) if name in names]
    return model.encoder_.reading(read).readings(frame)


def _curves(
    models: tuple[AdditiveEstimator, AdditiveEstimator], frames: tuple[Frame, Frame], both: tuple[str, ...]
) -> tuple[CurveChange, ...]:
    """Return how the effects of the columns that both models keep differ, the largest mean difference first."""
    effects: list[Matrix] = []
    spreads: list[Matrix | None] = []
    for model, frame in zip(models, frames, strict=True):
        found = model.effects(cast(Any, frame))
        found = found[:, :, None] if found.ndim == 2 else found
        effects.append(against_average(model.model_.family, found))
        spreads.append(_deviations(model, frame))
    readings = _readings(models[0], frames[0], both)
    changes, places = list[CurveChange](), [column_places(model.encoder_) for model in models]
    for name in both:
        index = [of_model[name] for of_model in places]
        known = None
        if spreads[0] is not None and spreads[1] is not None:
            known = (spreads[0][:, index[0]], spreads[1][:, index[1]])
            known = None if np.isnan(known).any() else known
        values = readings[index[0]].values
        sides = (effects[0][:, index[0]], effects[1][:, index[1]])
        changes.append(curve_change(models[0].encoder_.columns[index[0]], values, sides, known))
    return tuple(sorted(changes, key=lambda change: (-change.mean_absolute, change.column)))


def _deviations(model: AdditiveEstimator, frame: Frame) -> Matrix | None:
    """Return the standard deviations of the effects (rows, columns, outputs); None where a fit does not know them."""
    bands = model.bands_
    if bands is None or bands.verdict == "refused":
        return None
    outputs = model.model_.intercept.size
    squares = np.asarray(bands.deviations(_reader(model).encode(frame), outputs), dtype=np.float64) ** 2
    total = np.zeros((len(squares), len(model.encoder_.columns), outputs))
    for term in map(int, model.model_.terms):  # others add nothing, for certain
        total[:, model.encoder_.terms[term].column] += squares[:, term]
    return np.sqrt(total)
