"""From a fitted model to its explanation: each column's shape and importance, pairs, and how the fit was made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Plain, to_plain
from sparsenam.explain.edits import edit_record
from sparsenam.explain.explanation import (
    Curve,
    Explanation,
    Feature,
    Level,
    Missing,
    Pair,
    PairAxis,
    most_important_first,
)
from sparsenam.explain.performance import kept_performance, survival_facts
from sparsenam.explain.reasons import column_asked, kept_terms, notes_of, why_dropped, why_kept, why_pair
from sparsenam.explain.reference import measured
from sparsenam.fit.pipeline import Fit
from sparsenam.fit.response import SurvivalResponse
from sparsenam.fit.summary import (
    ColumnSummary,
    DataSummary,
    Density,
    against_average,
    is_split,
    numbers,
    read_cells,
    rows_of_numbers,
    summarize_data,
)
from sparsenam.model import AdditiveModel, keep_terms
from sparsenam.tables.encoder import Term
from sparsenam.uncertainty.bands import Bands, TermBand

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
PRESENT = "(present)"
CURVE_POINTS = 129
# share of its range by which a curve may leave a line: 0.75 to 1.0 of true lines are found so, and no curve is lost
# (300 to 5000 rows, `python benchmarks/shapes.py lines --seeds 8`)
STRAIGHT = 0.05
SHARE_BEYOND_BINS = 0.1  # of the outermost bin by which a curve goes on: farther out an effect means nothing


def explain(fit: Fit, X: object = None) -> Explanation:
    """Return the explanation of a fit, with densities and importances of a table, or of the training data."""
    if X is not None:
        reader = fit.reader()
        encoded, missing = reader.encode(X), [column.missing for column in read_cells(reader, X)]
        return explain_model(fit, summarize_data(fit.encoder, fit.model, encoded, missing=missing))
    made, facts = explain_model(fit, _data_of_kept(fit)), Plain()
    if fit.edits:  # the rows are gone, but for their histograms
        edited = {edit.column for edit in fit.edits}
        features = (measured(feature) if feature.name in edited else feature for feature in made.features)
        made = replace(made, features=most_important_first(features))
    if fit.residuals is not None and fit.residuals.edits == len(fit.edits):
        performance = kept_performance(fit.residuals, fit.outputs)
        facts |= {} if performance is None else {"performance": performance}
    if isinstance(fit.response, SurvivalResponse):
        baseline = fit.response.baseline
        facts["baseline"] = survival_facts(baseline.times, baseline.cumulative_hazard)
    return replace(made, card={**made.card, **facts})


def _data_of_kept(fit: Fit) -> DataSummary:
    """Return the summary of the training data without columns and pairs that an edit dropped."""
    data = fit.summary.data
    by_name = {column.name: column for column in data.columns}
    return replace(data, columns=tuple(by_name[name] for name in fit.kept_names), pairs=tuple(fit.of_pairs(data.pairs)))


def _bands_of(fit: Fit) -> Bands | None:
    """Return the bands of a fit, which are of scores: not of effects on classes against their average."""
    return None if fit.model.family.couples_outputs and len(fit.outputs) > 1 else fit.bands


def _band_of(fit: Fit, index: int) -> TermBand | None:
    """Return the band of a kept term; None where there is none that holds."""
    term, bands = int(fit.model.terms[index]), _bands_of(fit)
    name = fit.encoder.columns[fit.encoder.terms[term].column].name
    if bands is None or any(edit.column == name for edit in fit.edits):
        return None
    return next((band for band in bands.terms if band.term == term), None)


def explain_model(fit: Fit, data: DataSummary) -> Explanation:
    """Return the explanation of a model, with densities and importances of the data."""
    model, curve, path = fit.model, fit.curve, fit.summary.path
    entries = {} if path is None else {name: rank for rank, name in enumerate(path.names, start=1)}
    # between the kinks of a piecewise linear effect straight lines are exact; other models have none
    kinks = {index: shape.knots for index, shape in enumerate(model.curves)} if model.exact_shapes else {}
    kept = fit.kept
    features = (
        _feature(fit, column, summary, kinks, entries.get(summary.name))
        for column, summary in zip(kept, data.columns, strict=True)
    )
    dropped = why_dropped(fit, sorted(set(range(len(fit.encoder.columns))) - set(kept)))
    dropped.sort(key=lambda column: (-1.0 if column.slack is None else -column.slack - 1.0, column.name))
    return Explanation(
        task=fit.task,
        target=fit.summary.target,
        outputs=fit.outputs,
        link=model.family.link,
        units=fit.units,
        intercept=numbers(against_average(model.family, model.intercept)),
        features=most_important_first(features),
        dropped=tuple(dropped),
        card=_card(fit, data),
        pairs=explain_pairs(fit, data),
        curve=None if curve is None else curve.table(),
        chosen=None if curve is None or fit.taken is None else {"best": curve.choose("best"), "taken": fit.taken},
        path=None if path is None else to_plain({"alphas": path.alphas, "names": path.names, "norms": path.norms}),
        history=[to_plain(epoch) for epoch in fit.history or ()],
        edits=tuple(edit_record(fit, edit) for edit in fit.edits),
    )


def effect_at(model: AdditiveModel, index: int, x: Vector) -> Matrix:
    """Return the effect of one kept term of the model at values x (points,), shape (points, outputs).

    NaN gives what the term adds where it is absent. Effects on classes are those against their average.
    """
    alone = np.zeros(model.terms.size, dtype=np.bool_)
    alone[index] = True
    single = replace(keep_terms(model, alone), terms=np.zeros(1, dtype=np.intp), n_terms=1)
    return against_average(model.family, single.kept_effects(x[:, None])[:, 0])


def _feature(fit: Fit, column: int, data: ColumnSummary, kinks: dict[int, Vector], entry: int | None) -> Feature:
    described, evidence = fit.encoder.columns[column], fit.summary.evidence
    is_edited = any(edit.column == described.name for edit in fit.edits)
    values = [(index, term) for index, term in kept_terms(fit, column) if term.kind != "missing"]
    present, missing = _gap_effects(fit, column)
    curve, levels = None, None
    if not values:
        name = described.levels[0] if described.kind == "constant" else PRESENT
        levels = (Level(name, numbers(present), data.present),)
    else:
        if described.levels:
            codes = np.arange(len(described.levels), dtype=np.float64)
            effects = present + np.sum([_at_levels(fit, *term, codes) for term in values], axis=0)
            band = None if len(values) > 1 else _band_of(fit, values[0][0])
            known = [None] * len(codes) if band is None else rows_of_numbers(band.at(codes))
            named = zip(described.levels, effects, data.counts, known, strict=True)
            levels = tuple(Level(level, numbers(effect), count, sure) for level, effect, count, sure in named)
            curve = Curve(numbers(codes), rows_of_numbers(effects)) if described.kind == "ordered" else None
        elif data.density is not None:
            value = values[0][0]
            curve = _curve(fit, value, np.array(data.density.edges), kinks.get(value), present)
    return Feature(
        name=described.name,
        kind=described.reads,
        mean_absolute=data.mean_absolute,
        variation=data.variation,
        norm=float(fit.norms[column]),
        entry=entry,
        curve=curve,
        density=data.density if curve is not None and levels is None else None,
        levels=levels,
        missing=Missing(numbers(missing), data.missing) if data.missing or described.n_missing else None,
        substitutes=dict(fit.substitutes.get(described.name, {})),
        reason=why_kept(fit, column) + ("; edited since" if is_edited else ""),
        kept_in=None if evidence is None else evidence.kept_in.get(described.name),
        stability=None if fit.stability is None else fit.stability.frequencies.get(described.name),
        form=None if curve is None else _form(fit, column, curve, data.density),
    )


def _gap_effects(fit: Fit, column: int) -> tuple[Vector, Vector]:
    """Return what a column adds to present cells beside their values, and to missing cells, each (outputs,).

    The term of the missing cells adds something to present cells too: effects are centred.
    """
    present, missing = np.zeros(len(fit.outputs)), np.zeros(len(fit.outputs))
    for index, term in kept_terms(fit, column):
        if term.kind == "missing":
            of_gap = effect_at(fit.model, index, np.array([0.0, 1.0]))
            present, missing = present + of_gap[0], missing + of_gap[1]
        else:
            missing = missing + effect_at(fit.model, index, np.array([np.nan]))[0]
    return present, missing


def explain_pairs(fit: Fit, data: DataSummary) -> tuple[Pair, ...]:
    """Return the pairs of a model, the most important first."""
    model, bands, found = fit.model, _bands_of(fit), list[Pair]()
    deviations = None if bands is None or len(bands.pairs) != len(model.pairs) or fit.edits else bands.pairs
    for number, (pair, size) in enumerate(zip(model.pairs, data.pairs, strict=True)):
        one, other = (_pair_axis(fit, term, knots) for term, knots in zip(pair.terms, pair.knots, strict=True))
        nodes = slice(one.size), slice(other.size)
        found.append(
            Pair(
                one=one,
                other=other,
                mean_absolute=size.mean_absolute,
                variation=size.variation,
                effect=tuple(map(rows_of_numbers, against_average(model.family, pair.values)[nodes])),
                share=rows_of_numbers(pair.weights[nodes] / (pair.weights.sum() or 1.0)),
                reason=why_pair(fit),
                deviation=None if deviations is None else tuple(map(rows_of_numbers, deviations[number][nodes])),
            )
        )
    return most_important_first(found)


def _pair_axis(fit: Fit, term: int, knots: Vector) -> PairAxis:
    """Return one axis of a pair: its nodes as users know them, and what the column adds there alone."""
    column = fit.encoder.terms[term].column
    described = fit.encoder.columns[column]
    present, missing = _gap_effects(fit, column)
    effects = present + effect_at(fit.model, fit.model.terms.tolist().index(term), knots)
    gaps = described.n_missing > 0
    return PairAxis(
        name=described.name,
        kind=described.reads,
        x=None if described.levels else numbers(knots),
        levels=tuple(described.levels[int(code)] for code in knots) if described.levels else None,
        missing=gaps,
        main=rows_of_numbers([*effects, missing] if gaps else effects),
    )


def _form(fit: Fit, column: int, curve: Curve, density: Density | None) -> str:
    """Return the shape that was asked of a column, else whether its curve is a line over the range of the data.

    It is called linear where it stays within `STRAIGHT` of its range of the best line, in every output that it moves.
    """
    asked = column_asked(fit, column)
    if asked is not None and asked != "smooth":
        return "+".join(word.strip() for word in str(asked).split("+"))
    points, effect = np.array(curve.x), np.array(curve.effect, dtype=np.float64)
    low, high = (points[0], points[-1]) if density is None else (density.edges[0], density.edges[-1])
    if not high > low:
        return "linear"
    x = np.linspace(low, high, CURVE_POINTS)
    values = np.stack([np.interp(x, points, effect[:, output]) for output in range(effect.shape[1])], axis=1)
    lines = np.stack([np.ones(CURVE_POINTS), (x - low) / (high - low)], axis=1)
    rest = values - lines @ np.linalg.lstsq(lines, values, rcond=None)[0]
    moves = np.ptp(values, axis=0)
    return "linear" if (np.abs(rest).max(axis=0) <= STRAIGHT * moves.max()).all() else "curved"


def _at_levels(fit: Fit, index: int, term: Term, codes: Vector) -> Matrix:
    """Return what a kept term of a category adds at the codes (levels,) of all its levels, shape (levels, outputs)."""
    if is_split(term):
        levels = fit.encoder.columns[term.column].levels
        codes = (codes == levels.index(term.levels[0])).astype(np.float64)
    return effect_at(fit.model, index, codes)


def _curve(fit: Fit, index: int, edges: Vector, kinks: Vector | None, shift: Vector) -> Curve:
    """Return the effect of a kept term over the range of its data and a little beyond, with its band.

    Parameters
    ----------
    edges
        Bins of the data (bins + 1,): the range, and where the data are dense.
    kinks
        The kinks of a piecewise linear effect (kinks,); None for others, which are evaluated on a grid that is
        finer where the data are.
    shift
        What the column's other term adds meanwhile, shape (outputs,).
    """
    first, last = float(edges[0]), float(edges[-1])
    most = SHARE_BEYOND_BINS * (last - first) / (edges.size - 1)
    low = first - min(most, SHARE_BEYOND_BINS * float(edges[1] - edges[0]))
    high = last + min(most, SHARE_BEYOND_BINS * float(edges[-1] - edges[-2]))
    inner = np.concatenate([np.linspace(low, high, CURVE_POINTS), edges]) if kinks is None else kinks
    band = _band_of(fit, index)
    if band is not None:
        inner = np.concatenate([inner, band.knots])
    x = np.unique(np.concatenate([[low, high], inner[(inner > low) & (inner < high)]]))
    effect = rows_of_numbers(effect_at(fit.model, index, x) + shift)
    if band is None:
        return Curve(numbers(x), effect)
    return Curve(numbers(x), effect, rows_of_numbers(band.at(x)), numbers(band.critical(0.95)))


def _card(fit: Fit, data: DataSummary) -> Plain:
    certificate, curve, evidence = fit.certificate, fit.curve, fit.evidence
    scores = fit.summary.scores
    if scores is None and curve is not None and evidence is not None:
        without = float(curve.mean[0])
        scores = {"held-out loss": without * (1.0 - evidence.gain), "held-out loss without features": without}
    return to_plain(
        {
            "rows": data.rows,
            "columns": len(fit.encoder.columns),
            # the Cox model is fitted as a sequence of Poisson problems, which nobody asked for
            "family": "cox" if fit.task == "survival" else fit.model.family.name,
            "source": fit.summary.source,
            "cut_short": fit.summary.cut_short,
            "seconds": fit.summary.seconds,
            "estimator": fit.estimator,
            "settings": fit.settings,
            "versions": fit.summary.versions,
            "alpha": fit.alpha,
            "certificate": None if certificate is None else certificate.to_dict(),
            "scores": scores,
            "explained": None if fit.summary.explained is None else to_plain(fit.summary.explained),
            "notes": notes_of(fit),
            "created": fit.summary.created,
        }
    )
