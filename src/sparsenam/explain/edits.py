"""Edits of a model as explanations show them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparsenam.explain.explanation import Curve, EditRecord
from sparsenam.fit.pipeline import Fit
from sparsenam.fit.summary import against_average, numbers, rows_of_numbers
from sparsenam.model.editing import Edit, TermCurve, column_effect


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
