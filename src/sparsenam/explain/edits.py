"""Edits of a model as explanations show them, and the summary of the training data for an edited model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.explain.explanation import Curve, EditRecord
from sparsenam.families import Family
from sparsenam.fit.editing import points_of
from sparsenam.fit.summary import (
    ColumnSummary,
    DataSummary,
    Density,
    against_average,
    kept_columns,
    numbers,
    rows_of_numbers,
)
from sparsenam.model import AdditiveModel
from sparsenam.model.editing import Edit, TermCurve, column_curves, column_effect, terms_of
from sparsenam.tables import TableEncoder

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def importance_of(effects: Matrix, rows: Vector) -> dict[str, float]:
    """Return the mean absolute effect and the variation of effects (points, outputs) that so many ``rows`` have."""
    if not rows.any():
        return {"mean_absolute": 0.0, "variation": 0.0}
    sizes = np.average(np.abs(effects), axis=0, weights=rows)
    return {"mean_absolute": float(sizes.mean()), "variation": float(np.ptp(effects[rows > 0], axis=0).max())}


def edit_records(
    encoder: TableEncoder, family: Family, data: DataSummary, edits: Iterable[Edit]
) -> tuple[EditRecord, ...]:
    """Return the edits as explanations show them; ``data`` is the summary of the training data."""
    return tuple(_record(encoder, family, data, edit) for edit in edits)


def _record(encoder: TableEncoder, family: Family, data: DataSummary, edit: Edit) -> EditRecord:
    described = None if edit.column is None else encoder.columns[encoder.names.index(edit.column)]
    summary = next((column for column in data.columns if column.name == edit.column), None)
    density = None if summary is None else summary.density
    levels = () if described is None else described.levels
    drawn = [_curve(encoder, family, shapes, len(levels), density, edit) for shapes in (edit.before, edit.after)]
    return EditRecord(
        kind=edit.kind,
        column=edit.column,
        request=edit.request,
        reason=edit.reason,
        who=edit.who,
        when=edit.when,
        before=drawn[0],
        after=drawn[1],
        levels=levels,
        is_date=described is not None and described.kind == "date",
        loss_before=edit.loss_before,
        loss_after=edit.loss_after,
    )


def _curve(
    encoder: TableEncoder,
    family: Family,
    shapes: Sequence[TermCurve],
    levels: int,
    density: Density | None,
    edit: Edit,
) -> Curve | None:
    """Return the effect of a column with these shapes; None without any, or where only missing cells matter."""
    kinds = [encoder.terms[shape.term].kind for shape in shapes]
    if all(kind == "missing" for kind in kinds):
        return None
    x = np.arange(levels, dtype=np.float64)
    if not levels:
        knots = np.concatenate([shape.curve.knots for shape in shapes if encoder.terms[shape.term].kind != "missing"])
        ends = knots[[0, -1]] if density is None else np.array([density.edges[0], density.edges[-1]])
        x = np.unique(np.concatenate([ends, knots[(knots > ends[0]) & (knots < ends[1])]]))
    effects = column_effect(encoder, shapes, x, len(edit.intercept_before))
    return Curve(numbers(x), rows_of_numbers(against_average(family, effects)))


def data_after_edits(
    encoder: TableEncoder, model: AdditiveModel, data: DataSummary, edits: Iterable[Edit]
) -> DataSummary:
    """Return the summary of the training data for an edited model.

    Dropped columns are left out. The importances of edited ones are those over the histogram: the rows themselves are
    gone, and count as spread evenly within their bins.
    """
    edited = {edit.column for edit in edits}
    by_name = {column.name: column for column in data.columns}
    columns: list[ColumnSummary] = []
    for index in kept_columns(encoder, model):
        summary = by_name[encoder.names[index]]
        columns.append(_measured(encoder, model, index, summary) if summary.name in edited else summary)
    return DataSummary(data.rows, tuple(columns), data.pairs)


def _measured(encoder: TableEncoder, model: AdditiveModel, column: int, summary: ColumnSummary) -> ColumnSummary:
    """Return a column's summary with the importances of its shapes in the model."""
    x, counts = points_of(summary)
    if not x.size:  # only its missing cells are a term
        x, counts = np.zeros(1), np.array([float(summary.present)])
    x, counts = np.append(x, np.nan), np.append(counts, float(summary.missing))
    shapes = column_curves(model, terms_of(encoder, column))
    effects = against_average(model.family, column_effect(encoder, shapes, x, model.intercept.size))
    return replace(summary, **importance_of(effects, counts))
