"""From a fitted model to its explanation: the record of the fit, each column's shape, why it is kept or dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.problem import Certificate
from sparsenam.explain.discoveries import Discoveries
from sparsenam.explain.edits import edit_records
from sparsenam.explain.explanation import Curve, Dropped, Explanation, Feature, Level, Missing
from sparsenam.explain.pairs import Pair, PairAxis
from sparsenam.explain.stability import Stability
from sparsenam.explain.summary import (
    ColumnSummary,
    DataSummary,
    Density,
    TrainingSummary,
    against_average,
    is_split,
    kept_columns,
    numbers,
    plain_data,
    rows_of_numbers,
)
from sparsenam.explain.text import FeatureKind, Task, count_text
from sparsenam.model import AdditiveModel, keep_terms
from sparsenam.model.bands import Bands, TermBand
from sparsenam.model.editing import Edit
from sparsenam.selection import CVCurve
from sparsenam.tables import TableEncoder, Term
from sparsenam.tables.cells import far_cells_note
from sparsenam.tables.columns import Column
from sparsenam.tables.text import date_in, number_in

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
PRESENT = "(present)"
POINTS = 129
BARELY = 1.05  # times the penalty under which a column leaves
# share of its range by which a curve may leave a line: 0.75 to 1.0 of true lines are found so, and no curve is lost
# (300 to 5000 rows, `python benchmarks/shapes.py lines --seeds 8`)
STRAIGHT = 0.05
BEYOND = 0.1  # of the outermost bin by which a curve goes on: farther out an effect means nothing


@dataclass(frozen=True, slots=True, eq=False)
class FitRecord:
    """A fitted model with its encoder, its units, and the course of its fit; all names are names of columns.

    ``norms`` (columns,) are the group norms; ``taken`` is the index of the chosen point of ``curve``;
    ``readmitted`` the columns that the convex choice dropped and held-out rows want back; ``substitutes`` those
    that could replace a kept column, with the share of its effect; ``history`` one entry an epoch, empty or None
    for fits without training; ``always_keep`` the columns that the user wanted to keep; ``threshold`` the size
    below which a solver without exact zeros drops a column, None for others; ``edits`` the changes made after the fit,
    ``pair_certificate`` that of the choice of pairs; ``stability`` how often half of the rows choose each column;
    ``discoveries`` what an `FDR` rule found; ``bands`` how uncertain the effects are.
    """

    task: Task
    outputs: tuple[str, ...]
    units: str
    model: AdditiveModel
    encoder: TableEncoder
    summary: TrainingSummary
    norms: NDArray[np.float64]
    alpha: float
    certificate: Certificate | None
    curve: CVCurve | None
    taken: int | None
    readmitted: frozenset[str]
    substitutes: Mapping[str, Mapping[str, float]]
    history: Sequence[Mapping[str, float | int | None]] | None
    always_keep: frozenset[str]
    threshold: float | None
    estimator: str
    settings: Mapping[str, Any]
    edits: tuple[Edit, ...] = ()
    pair_certificate: Certificate | None = None
    bands: Bands | None = None
    stability: Stability | None = None
    discoveries: Discoveries | None = None

    @property
    def columns_kept(self) -> list[int]:
        """Indices of the columns of which the model keeps a term."""
        return kept_columns(self.encoder, self.model)

    def kept_terms(self, column: int) -> list[tuple[int, Term]]:
        """Return the terms of a column that the model keeps, each after its index in the model."""
        terms = ((index, self.encoder.terms[int(term)]) for index, term in enumerate(self.model.terms))
        return [(index, term) for index, term in terms if term.column == column]

    def deviations(self, term: int, x: Vector) -> Matrix | None:
        """Return the standard deviations of a term's effect at x (points,), shape (points, outputs); None if unknown.

        Effects on classes against their average have others than the scores that bands speak of.
        """
        band = self.band_of(term)
        return None if band is None else band.at(x)

    def band_of(self, term: int) -> TermBand | None:
        """Return the band of a term; None where there is none that holds."""
        edited = {edit.column for edit in self.edits}
        if self.bands is None or self.encoder.columns[self.encoder.terms[term].column].name in edited:
            return None
        if self.model.family.couples_outputs and len(self.outputs) > 1:
            return None
        return next((band for band in self.bands.terms if band.term == term), None)

    def slack(self, name: str) -> float | None:
        """Return the certified share of the gradient at which a column, or its group, would enter."""
        return None if self.certificate is None else self.certificate.slack.get(name)


def explain_model(record: FitRecord, data: DataSummary) -> Explanation:
    """Return the explanation of a model, with densities and importances of the data."""
    model, curve, path = record.model, record.curve, record.summary.path
    entries = {} if path is None else {name: rank for rank, name in enumerate(path.names, start=1)}
    # between the kinks of a piecewise linear effect straight lines are exact; other models have none
    kinks = {index: shape.knots for index, shape in enumerate(model.shapes())} if model.exact_shapes else {}
    kept = record.columns_kept
    features = [
        _feature(record, column, summary, kinks, entries.get(summary.name))
        for column, summary in zip(kept, data.columns, strict=True)
    ]
    features.sort(key=lambda feature: (-feature.mean_absolute, feature.name))
    dropped = why_dropped(record, sorted(set(range(len(record.encoder.columns))) - set(kept)))
    dropped.sort(key=lambda column: (-1.0 if column.slack is None else -column.slack - 1.0, column.name))
    return Explanation(
        task=record.task,
        target=record.summary.target,
        outputs=record.outputs,
        link=model.family.link,
        units=record.units,
        intercept=numbers(against_average(model.family, model.intercept)),
        features=tuple(features),
        dropped=tuple(dropped),
        card=_card(record, data),
        pairs=explain_pairs(record, data),
        curve=None if curve is None else curve.table(),
        chosen=None if curve is None or record.taken is None else {"best": curve.choose("best"), "taken": record.taken},
        path=None if path is None else plain_data({"alphas": path.alphas, "names": path.names, "norms": path.norms}),
        history=[plain_data(epoch) for epoch in record.history or ()],
        edits=edit_records(record.encoder, model.family, record.summary.data, record.edits),
    )


def effect_at(model: AdditiveModel, index: int, x: Vector) -> Matrix:
    """Return the effect of one kept term of the model at values x (points,), shape (points, outputs).

    NaN gives what the term adds where it is absent. Effects on classes are those against their average.
    """
    alone = np.zeros(model.terms.size, dtype=np.bool_)
    alone[index] = True
    single = replace(keep_terms(model, alone), terms=np.zeros(1, dtype=np.intp), n_terms=1)
    return against_average(model.family, single.kept_effects(x[:, None])[:, 0])


def _feature(
    record: FitRecord, column: int, data: ColumnSummary, kinks: dict[int, Vector], entry: int | None
) -> Feature:
    described, evidence = record.encoder.columns[column], record.summary.evidence
    is_edited = any(edit.column == described.name for edit in record.edits)
    values = [(index, term) for index, term in record.kept_terms(column) if term.kind != "missing"]
    present, missing = _gap_effects(record, column)
    curve, levels = None, None
    if not values:
        name = described.levels[0] if described.kind == "constant" else PRESENT
        levels = (Level(name, numbers(present), data.present),)
    else:
        if described.levels:
            codes = np.arange(len(described.levels), dtype=np.float64)
            effects = present + np.sum([_at_levels(record, *term, codes) for term in values], axis=0)
            spread = None if len(values) > 1 else record.deviations(int(record.model.terms[values[0][0]]), codes)
            known = [None] * len(codes) if spread is None else [numbers(row) for row in spread]
            named = zip(described.levels, effects, data.counts, known, strict=True)
            levels = tuple(Level(level, numbers(effect), count, sure) for level, effect, count, sure in named)
            curve = Curve(numbers(codes), rows_of_numbers(effects)) if described.kind == "ordered" else None
        elif data.density is not None:
            value = values[0][0]
            curve = _curve(record, value, np.array(data.density.edges), kinks.get(value), present)
    return Feature(
        name=described.name,
        kind=_kind(described),
        mean_absolute=data.mean_absolute,
        variation=data.variation,
        norm=float(record.norms[column]),
        entry=entry,
        curve=curve,
        density=data.density if curve is not None and levels is None else None,
        levels=levels,
        missing=Missing(numbers(missing), data.missing) if data.missing or described.n_missing else None,
        substitutes=dict(record.substitutes.get(described.name, {})),
        reason=why_kept(record, column) + ("; edited since" if is_edited else ""),
        kept_in=None if evidence is None else evidence.kept_in.get(described.name),
        stability=None if record.stability is None else record.stability.frequencies.get(described.name),
        form=None if curve is None else _form(record, column, curve, data.density),
    )


def _gap_effects(record: FitRecord, column: int) -> tuple[Vector, Vector]:
    """Return what a column adds to present cells beside their values, and to missing cells, each (outputs,).

    The term of the missing cells adds something to present cells too: effects are centred.
    """
    present, missing = np.zeros(len(record.outputs)), np.zeros(len(record.outputs))
    for index, term in record.kept_terms(column):
        if term.kind == "missing":
            of_gap = effect_at(record.model, index, np.array([0.0, 1.0]))
            present, missing = present + of_gap[0], missing + of_gap[1]
        else:
            missing = missing + effect_at(record.model, index, np.array([np.nan]))[0]
    return present, missing


def explain_pairs(record: FitRecord, data: DataSummary) -> tuple[Pair, ...]:
    """Return the pairs of a model, the most important first."""
    model, found = record.model, list[Pair]()
    for number, (pair, size) in enumerate(zip(model.pairs, data.pairs, strict=True)):
        one, other = (_pair_axis(record, term, knots) for term, knots in zip(pair.terms, pair.knots, strict=True))
        values = against_average(model.family, pair.values)[: one.size, : other.size]
        spread = _pair_deviations(record, number)
        weights = pair.weights[: one.size, : other.size] / (pair.weights.sum() or 1.0)
        found.append(
            Pair(
                one=one,
                other=other,
                mean_absolute=size.mean_absolute,
                variation=size.variation,
                effect=tuple(rows_of_numbers(row) for row in values),
                share=rows_of_numbers(weights),
                reason=_why_pair(record),
                deviation=None
                if spread is None
                else tuple(rows_of_numbers(row) for row in spread[: one.size, : other.size]),
            )
        )
    return tuple(sorted(found, key=lambda pair: (-pair.mean_absolute, pair.name)))


def _pair_deviations(record: FitRecord, number: int) -> NDArray[np.float64] | None:
    """Return the standard deviations at the nodes of a pair, (rows, columns, outputs); None where they are unknown."""
    bands, model = record.bands, record.model
    if bands is None or len(bands.pairs) != len(model.pairs) or record.edits:
        return None
    return None if model.family.couples_outputs and len(record.outputs) > 1 else bands.pairs[number]


def _pair_axis(record: FitRecord, term: int, knots: Vector) -> PairAxis:
    """Return one axis of a pair: its nodes as users know them, and what the column adds there alone."""
    column = record.encoder.terms[term].column
    described = record.encoder.columns[column]
    present, missing = _gap_effects(record, column)
    effects = present + effect_at(record.model, record.model.terms.tolist().index(term), knots)
    gaps = described.n_missing > 0
    return PairAxis(
        name=described.name,
        kind=_kind(described),
        x=None if described.levels else numbers(knots),
        levels=tuple(described.levels[int(code)] for code in knots) if described.levels else None,
        missing=gaps,
        main=rows_of_numbers([*effects, missing] if gaps else effects),
    )


def _why_pair(record: FitRecord) -> str:
    asked = record.settings.get("pairs")
    if isinstance(asked, Sequence) and not isinstance(asked, str):
        return "it was asked for"
    return "what the two columns do together is worth the penalty"


def column_asked(record: FitRecord, column: int) -> object:
    """Return the shape that was asked of a column, None where none was."""
    shapes = cast("Mapping[object, object]", record.settings.get("shapes") or {})
    return shapes.get(record.encoder.columns[column].name, shapes.get(column))


def _form(record: FitRecord, column: int, curve: Curve, density: Density | None) -> str:
    """Return the shape that was asked of a column, else whether its curve is a line over the range of the data.

    It is called linear where it stays within `STRAIGHT` of its range of the best line, in every output that it moves.
    """
    asked = column_asked(record, column)
    if asked is not None and asked != "smooth":
        return "+".join(word.strip() for word in str(asked).split("+"))
    points, effect = np.array(curve.x), np.array(curve.effect, dtype=np.float64)
    low, high = (points[0], points[-1]) if density is None else (density.edges[0], density.edges[-1])
    if not high > low:
        return "linear"
    x = np.linspace(low, high, POINTS)
    values = np.stack([np.interp(x, points, effect[:, output]) for output in range(effect.shape[1])], axis=1)
    lines = np.stack([np.ones(POINTS), (x - low) / (high - low)], axis=1)
    rest = values - lines @ np.linalg.lstsq(lines, values, rcond=None)[0]
    moves = np.ptp(values, axis=0)
    return "linear" if (np.abs(rest).max(axis=0) <= STRAIGHT * moves.max()).all() else "curved"


def _at_levels(record: FitRecord, index: int, term: Term, codes: Vector) -> Matrix:
    """Return what a kept term of a category adds at the codes (levels,) of all its levels, shape (levels, outputs)."""
    if is_split(term):
        levels = record.encoder.columns[term.column].levels
        codes = (codes == levels.index(term.levels[0])).astype(np.float64)
    return effect_at(record.model, index, codes)


def _curve(record: FitRecord, index: int, edges: Vector, kinks: Vector | None, shift: Vector) -> Curve:
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
    most = BEYOND * (last - first) / (edges.size - 1)
    low = first - min(most, BEYOND * float(edges[1] - edges[0]))
    high = last + min(most, BEYOND * float(edges[-1] - edges[-2]))
    inner = np.concatenate([np.linspace(low, high, POINTS), edges]) if kinks is None else kinks
    band = record.band_of(int(record.model.terms[index]))
    if band is not None:
        inner = np.concatenate([inner, band.knots])
    x = np.unique(np.concatenate([[low, high], inner[(inner > low) & (inner < high)]]))
    effect = rows_of_numbers(effect_at(record.model, index, x) + shift)
    if band is None:
        return Curve(numbers(x), effect)
    return Curve(numbers(x), effect, rows_of_numbers(band.at(x)), numbers(band.critical(0.95)))


def _kind(column: Column) -> FeatureKind:
    if column.kind != "constant":
        return column.kind
    (value,) = column.levels
    if number_in(value) is not None:
        return "number"
    return "category" if date_in(value) is None else "date"


def _card(record: FitRecord, data: DataSummary) -> dict[str, Any]:
    certificate, curve, taken, evidence = record.certificate, record.curve, record.taken, record.summary.evidence
    scores = record.summary.scores
    if scores is None and curve is not None and taken is not None:
        loss, without = float(curve.mean[taken]), float(curve.mean[0])
        scores = {"held-out loss": loss, "held-out loss without features": without}
    return plain_data(
        {
            "rows": data.rows,
            "columns": len(record.encoder.columns),
            # the Cox model is fitted as a sequence of Poisson problems, which nobody asked for
            "family": "cox" if record.task == "survival" else record.model.family.name,
            "source": record.summary.source,
            "cut_short": record.summary.cut_short,
            "seconds": record.summary.seconds,
            "estimator": record.estimator,
            "settings": record.settings,
            "versions": record.summary.versions,
            "alpha": record.alpha,
            "certificate": None if certificate is None else certificate.to_dict(),
            "pair_certificate": None if record.pair_certificate is None else record.pair_certificate.to_dict(),
            "scores": scores,
            "explained": None if evidence is None else {"share": evidence.gain, "error": evidence.gain_error},
            "notes": [
                *([] if record.summary.cut_short is None else [record.summary.cut_short]),
                *_edited(record),
                *_tested(record),
                *([] if evidence is None else evidence.notes()),
                *far_cells_note((column.name, column.description) for column in record.encoder.columns),
                *_of_bands(record),
            ],
            "created": record.summary.created,
        }
    )


def _of_bands(record: FitRecord) -> list[str]:
    """Return what to know of the bands, in a sentence; nothing where they hold, and for models that never have any."""
    bands = record.bands
    if bands is None or not bands.reason or not record.model.terms.size or np.isnan(bands.information):
        return []
    shown = "Bands about the curves are approximate" if bands.verdict == "approximate" else "No bands are shown"
    return [f"{shown}: {bands.reason}."]


def _edited(record: FitRecord) -> list[str]:
    """Return what is no longer true of an edited model, in a sentence; nothing for others."""
    if not record.edits:
        return []
    changes = count_text(len(record.edits), "change")
    what = "certificate, held-out losses, folds and path are those of the fit, not of the edited model"
    return [f"The model was edited after the fit ({changes}): {what}."]


def _tested(record: FitRecord) -> list[str]:
    """Return what an `FDR` rule found, in sentences; nothing for other rules."""
    found = record.discoveries
    return [] if found is None else [found.sentence(), *found.notes()]


def why_kept(record: FitRecord, column: int) -> str:
    """Return why a column is kept."""
    encoder = record.encoder
    name, gaps = encoder.columns[column].name, encoder.columns[column].missing_term
    if all(term.kind == "missing" for _, term in record.kept_terms(column)):
        others = [repr(other.name) for other in encoder.columns if other.missing_term == gaps and other.name != name]
        shared = f" ({', '.join(others)} missing in the same rows)" if others else ""
        return f"its values do not matter, its missing cells do{shared}"
    if name in record.always_keep:
        return "it was asked to stay, and is not penalised"
    if record.discoveries is not None:
        return f"it is a discovery at a false discovery rate of {record.discoveries.q:g}"
    if name in record.readmitted:
        return "the convex choice dropped it, but held-out rows want it back"
    if record.alpha == 0.0:
        return "no penalty: every column stays"
    return _why_worth(record, name)


def _why_worth(record: FitRecord, name: str) -> str:
    """Return how much stronger the penalty would have to be for a column to leave, and whether others could serve."""
    path, instead = record.summary.path, record.substitutes.get(name)
    other = max(instead, key=lambda found: instead[found]) if instead else None
    served = "" if other is None else f"; {other!r} could stand in for it"
    if path is None or name not in path.names or not record.alpha > 0.0:
        return f"its effect is worth the penalty{served}"
    column = path.names.index(name)
    times = max((alpha for alpha, row in zip(path.alphas, path.norms, strict=True) if row[column] > 0.0), default=0.0)
    times /= record.alpha
    if times < BARELY:
        return f"it is barely worth the penalty{served}"
    return f"it would stay under {times:.2g} times the penalty{served}"


def why_dropped(record: FitRecord, columns: Sequence[int]) -> list[Dropped]:
    """Return dropped columns with the reasons."""
    encoder = record.encoder
    with_terms, constant = {term.column for term in encoder.terms}, set(record.summary.constant)
    kept = {encoder.columns[index].name for index in record.columns_kept}
    found = frozenset[str]() if record.discoveries is None else frozenset(record.discoveries.kept)
    reasons = {edit.column: edit.reason for edit in record.edits}
    dropped = list[Dropped]()
    for column in columns:
        name, twin = encoder.columns[column].name, record.summary.twins.get(encoder.columns[column].name)
        if encoder.columns[column].is_identifier and column not in with_terms:
            dropped.append(Dropped(name, "an identifier: nearly every cell is different"))
        elif encoder.columns[column].is_empty:
            dropped.append(Dropped(name, "empty: no row has a value"))
        elif encoder.columns[column].kind == "constant" and column not in with_terms:
            dropped.append(Dropped(name, f"constant: one single value ({encoder.columns[column].levels[0]})"))
        elif name in constant:
            dropped.append(Dropped(name, "constant in the rows that count"))
        elif name in reasons:
            dropped.append(Dropped(name, f"dropped by an edit: {reasons[name]}"))
        elif twin is not None:
            too = "" if twin in kept else ", which is dropped too"
            equal = f"equal to {twin!r} in every row, up to unit and sign{too}"
            dropped.append(Dropped(name, equal, record.slack(name)))
        else:
            dropped.append(_why_left_out(record, column, found))
    return dropped


def _why_left_out(record: FitRecord, column: int, found: frozenset[str]) -> Dropped:
    """Return why the fit left out a column that varies; ``found`` are the discoveries."""
    name = record.encoder.columns[column].name
    slack = record.slack(name)
    if record.discoveries is not None and name not in found:
        return Dropped(name, f"no discovery at a false discovery rate of {record.discoveries.q:g}", slack)
    if column_asked(record, column) is not None and record.norms[column] == 0.0 and slack is None:
        return Dropped(name, "the data speak against the shape that was asked for")
    if slack is not None:
        return Dropped(name, f"its gradient is {slack:.2f} of the alpha at which it would enter", slack)
    if record.summary.cut_short is not None:
        return Dropped(name, "the fit was cut short before it could enter")
    if record.certificate is not None:
        return Dropped(name, "the convex problem kept it, but the training under the penalty switched it off")
    if record.threshold is not None:
        return Dropped(name, f"its mean absolute effect stayed within the threshold of {record.threshold:g}")
    return Dropped(name, "the penalty switched its sub-network off")
