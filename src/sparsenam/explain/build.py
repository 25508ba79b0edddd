"""From a fitted model to its explanation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.explain.curves import curve_of, effect_at
from sparsenam.explain.explanation import Curve, Explanation, Feature, FeatureKind, Level, Missing
from sparsenam.explain.knots import knots_of
from sparsenam.explain.plain import numbers, plain, rows_of_numbers
from sparsenam.explain.reasons import why_dropped, why_kept
from sparsenam.explain.story import Story
from sparsenam.explain.summary import ColumnSummary, DataSummary, PathSummary
from sparsenam.tables import TableEncoder
from sparsenam.tables.columns import Column
from sparsenam.tables.text import date_in, number_in

Vector = NDArray[np.float64]
PRESENT = "(present)"


def explain_model(story: Story, data: DataSummary) -> Explanation:
    """Return the explanation of a model, with densities and importances of the data."""
    entries = _entries(story.table, story.summary.path)
    knots = knots_of(story.model)
    kept = story.columns_kept
    features = [
        _feature(story, column, own, knots, entries.get(column))
        for column, own in zip(kept, data.columns, strict=True)
    ]
    features.sort(key=lambda own: (-own.mean_absolute, own.name))
    gone = [why_dropped(story, column) for column in range(len(story.table.columns)) if column not in set(kept)]
    gone.sort(key=lambda own: (-1.0 if own.slack is None else -own.slack - 1.0, own.name))
    curve, path = story.curve, story.summary.path
    return Explanation(
        task=story.task,
        target=None,
        outputs=story.outputs,
        link=story.model.family.link,
        units=story.units,
        intercept=numbers(story.model.intercept),
        features=tuple(features),
        dropped=tuple(gone),
        card=_card(story, data),
        curve=None if curve is None else curve.table(),
        chosen=None if curve is None or story.taken is None else {"best": curve.best(), "taken": story.taken},
        path=None if path is None else plain({"alphas": path.alphas, "names": path.names, "norms": path.norms}),
        history=[plain(epoch) for epoch in story.history],
    )


def _feature(
    story: Story, column: int, data: ColumnSummary, knots: dict[int, Vector], entry: int | None
) -> Feature:
    told, terms = story.table.columns[column], story.kept_terms(column)
    places = {term.kind: place for place, term in _places(story, column)}
    gap, value = places.pop("missing", None), next(iter(places.values()), None)
    nothing = np.zeros(len(story.outputs))
    # the term of the missing cells adds something to present cells too: effects are centred
    present, missing = (nothing, nothing) if gap is None else effect_at(story.model, gap, np.array([0.0, 1.0]))
    curve, levels = None, None
    if value is None:
        levels = (Level(told.levels[0] if told.kind == "constant" else PRESENT, numbers(present), data.present),)
    else:
        missing = missing + effect_at(story.model, value, np.array([np.nan]))[0]
        if told.levels:
            effects = effect_at(story.model, value, np.arange(len(told.levels), dtype=np.float64)) + present
            named = zip(told.levels, effects, data.counts, strict=True)
            levels = tuple(Level(name, numbers(effect), count) for name, effect, count in named)
            if told.kind == "ordered":
                curve = Curve(numbers(range(len(levels))), rows_of_numbers(effects))
        elif data.density is not None:
            edges = np.array(data.density.edges)
            curve = curve_of(story.model, value, edges, knots.get(value), present)
    stand_ins = {name: share for term in terms for name, share in story.stand_ins.get(term.name, {}).items()}
    return Feature(
        name=told.name,
        kind=_kind(told),
        terms=tuple(term.name for term in terms),
        mean_absolute=data.mean_absolute,
        variation=data.variation,
        norm=float(story.norms[column]),
        entry=entry,
        curve=curve,
        density=data.density if curve is not None and levels is None else None,
        levels=levels,
        missing=Missing(numbers(missing), data.missing) if data.missing or told.n_missing else None,
        stand_ins=stand_ins,
        reason=why_kept(story, column, entry),
    )


def _places(story: Story, column: int) -> list[tuple[int, Any]]:
    """Return the places in the model of a column's kept terms, with the terms."""
    terms = [(place, story.table.terms[int(term)]) for place, term in enumerate(story.model.terms)]
    return [(place, term) for place, term in terms if term.column == column]


def _kind(told: Column) -> FeatureKind:
    if told.kind != "constant":
        return told.kind
    (value,) = told.levels
    if number_in(value) is not None:
        return "number"
    return "category" if date_in(value) is None else "date"


def _entries(table: TableEncoder, path: PathSummary | None) -> dict[int, int]:
    """Return each column's place of entry on the path, 1 for the first."""
    column_of = {term.name: term.column for term in table.terms}
    columns = dict.fromkeys(column_of[name] for name in (() if path is None else path.names))
    return {column: place for place, column in enumerate(columns, start=1)}


def _card(story: Story, data: DataSummary) -> dict[str, Any]:
    certificate, curve, taken = story.certificate, story.curve, story.taken
    scores = None
    if curve is not None and taken is not None:
        loss, without = float(curve.mean[taken]), float(curve.mean[0])
        scores = {"held-out loss": loss, "held-out loss without features": without}
    return plain(
        {
            "rows": data.rows,
            "columns": len(story.table.columns),
            "seconds": story.summary.seconds,
            "estimator": story.estimator,
            "settings": story.settings,
            "versions": story.summary.versions,
            "alpha": story.alpha,
            "certificate": None if certificate is None else certificate.to_dict(),
            "scores": scores,
            "created": story.summary.created,
        }
    )
