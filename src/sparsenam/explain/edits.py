"""Edits of a model as explanations show them, and the summary of the training data for an edited model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.explain.explanation import Curve, EditRecord
from sparsenam.fit.editing import points_of
from sparsenam.fit.pipeline import Fit
from sparsenam.fit.summary import ColumnSummary, DataSummary, against_average, numbers, rows_of_numbers
from sparsenam.model.editing import Edit, TermCurve, column_curves, column_effect, terms_of

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def importance_of(effects: Matrix, rows: Vector) -> dict[str, float]:
    """Return the mean absolute effect and the variation of effects (points, outputs) that so many ``rows`` have."""
    if not rows.any():
        return {"mean_absolute": 0.0, "variation": 0.0}
    sizes = np.average(np.abs(effects), axis=0, weights=rows)
    return {"mean_absolute": float(sizes.mean()), "variation": float(np.ptp(effects[rows > 0], axis=0).max())}


def edit_record(fit: Fit, edit: Edit) -> EditRecord:
    """Return an edit as explanations show it: its curves over the range of the training data."""
    encoder = fit.encoder
    described = None if edit.column is None else encoder.columns[encoder.names.index(edit.column)]
    summary = next((column for column in fit.summary.data.columns if column.name == edit.column), None)
    levels = () if described is None else described.levels

    def drawn(shapes: Sequence[TermCurve]) -> Curve | None:
        knots = [shape.curve.knots for shape in shapes if encoder.terms[shape.term].kind != "missing"]
        if not knots:  # only missing cells matter, if anything
            return None
        x = np.arange(len(levels), dtype=np.float64)
        if not levels:
            inner, density = np.concatenate(knots), None if summary is None else summary.density
            ends = inner[[0, -1]] if density is None else np.array([density.edges[0], density.edges[-1]])
            x = np.unique(np.concatenate([ends, inner[(inner > ends[0]) & (inner < ends[1])]]))
        effects = column_effect(encoder, shapes, x, len(edit.intercept_before))
        return Curve(numbers(x), rows_of_numbers(against_average(fit.model.family, effects)))

    return EditRecord(
        kind=edit.kind,
        column=edit.column,
        request=edit.request,
        reason=edit.reason,
        who=edit.who,
        when=edit.when,
        before=drawn(edit.before),
        after=drawn(edit.after),
        levels=levels,
        is_date=described is not None and described.kind == "date",
        loss_before=edit.loss_before,
        loss_after=edit.loss_after,
    )


def data_after_edits(fit: Fit) -> DataSummary:
    """Return the summary of the training data for an edited model.

    Dropped columns are left out. The importances of edited ones are those over the histogram: the rows themselves are
    gone, and count as spread evenly within their bins.
    """
    data, names, edited = fit.summary.data, fit.encoder.names, {edit.column for edit in fit.edits}
    by_name = {column.name: column for column in data.columns}
    kept = ((index, by_name[names[index]]) for index in fit.kept)
    columns = (_measured(fit, index, summary) if summary.name in edited else summary for index, summary in kept)
    return DataSummary(data.rows, tuple(columns), data.pairs)


def _measured(fit: Fit, column: int, summary: ColumnSummary) -> ColumnSummary:
    """Return a column's summary with the importances of its shapes in the model."""
    x, counts = points_of(summary)
    if not x.size:  # only its missing cells are a term
        x, counts = np.zeros(1), np.array([float(summary.present)])
    x, counts = np.append(x, np.nan), np.append(counts, float(summary.missing))
    shapes = column_curves(fit.model, terms_of(fit.encoder, column))
    effects = column_effect(fit.encoder, shapes, x, fit.model.intercept.size)
    return replace(summary, **importance_of(against_average(fit.model.family, effects), counts))
