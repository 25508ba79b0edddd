"""Whether the parts of a fit that was read fit each other: predicting, explaining and saving rely on it.

Types and ranges of single fields are declared where the fields are; the codec has checked them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import LARGEST_NUMBER
from sparsenam.discover.stability import Stability
from sparsenam.errors import InputError, RefusalError, require
from sparsenam.families import Response
from sparsenam.fit.pipeline import Fit
from sparsenam.fit.response import ClassResponse, NumberResponse, SurvivalResponse
from sparsenam.fit.summary import ColumnSummary, kept_columns
from sparsenam.model import AdditiveModel
from sparsenam.model.editing import Edit, applied, column_curves, terms_of
from sparsenam.model.networks import SubNetworks
from sparsenam.model.pairs import PairFunction
from sparsenam.networks.bank import ACTIVATION_NAMES, MLPBank
from sparsenam.penalties import as_penalty
from sparsenam.selection import RULES
from sparsenam.selection.curve import StoredCurve, rule_name
from sparsenam.tables.cells import FIRST_DAY, LAST_DAY
from sparsenam.tables.columns import Column
from sparsenam.tables.encoder import TableEncoder
from sparsenam.text import Task
from sparsenam.training import Network
from sparsenam.uncertainty.bands import LEVELS, Bands
from sparsenam.uncertainty.reliability import Reliability
from sparsenam.uncertainty.residuals import ErrorTables, OrderStatistics, Residuals

JOINED = " + "  # the names of columns that are kept or dropped as one
LEAST_ALPHA = 1e-100  # above 0: alphas are drawn on a logarithmic axis
OUTPUTS_OF_CLASSES: dict[Response, Callable[[int], int]] = {
    "binary": lambda classes: 1 if classes == 2 else 0,
    "classes": lambda classes: classes,
    "labels": lambda classes: classes,
}


def check_fit(fit: Fit, task: Task) -> None:
    """Raise `RefusalError` unless the parts of a fit fit each other, and what its estimator predicts."""
    encoder, model = fit.encoder, fit.model
    check_encoder(encoder)
    check_model(model, len(encoder.terms))
    columns = [{encoder.terms[term].column for term in pair.terms} for pair in model.pairs]
    require(all(len(both) == 2 for both in columns), "a pair of one column")
    require(fit.norms.shape == (len(encoder.columns),), "norms of another table")
    _check_response(fit, task)
    _check_substitutes(fit)
    _check_curve(fit)
    _check_edits(fit)
    if fit.bands is not None:
        _check_bands(fit.bands, model, fit.fitted_pairs)
    if fit.residuals is not None:
        _check_residuals(fit.residuals, model)
    _check_summary(fit)
    if fit.discoveries is not None:
        fit.discoveries.check()
        _require_known([*fit.discoveries.kept, *fit.discoveries.always_kept, *fit.discoveries.statistics], encoder)
    if fit.stability is not None:
        _check_stability(fit.stability, encoder)


def check_model(model: AdditiveModel, n_terms: int) -> None:
    """Raise `RefusalError` unless a model is one of so many terms, whose functions and pairs have its outputs."""
    terms, outputs, functions = model.terms, model.intercept.size, model.functions
    require(outputs >= 1 and model.n_terms == n_terms, "a model of another table")
    inside = bool((terms < n_terms).all()) and np.unique(terms).size == terms.size
    require(inside, "terms that the table does not have")
    if isinstance(functions, SubNetworks):
        _check_networks(functions, terms.size, outputs)
    else:
        require(len(functions) == terms.size, "other curves than those of the terms")
        for curve in functions:
            with np.errstate(all="ignore"):
                steep = np.abs(np.diff(curve.values, axis=0)) / np.diff(curve.knots)[:, None]
            require(curve.outputs == outputs and bool((steep <= LARGEST_NUMBER).all()), "a curve that cannot be")
    kept = set(terms.tolist())
    require(len({frozenset(pair.terms) for pair in model.pairs}) == len(model.pairs), "a pair twice")
    for pair in model.pairs:
        require(len({*pair.terms}) == 2 and kept.issuperset(pair.terms), "pairs of terms that cannot be")
        _check_pair(pair, outputs)


def _check_networks(networks: SubNetworks, kept: int, outputs: int) -> None:
    bank, damage = networks.bank, "sub-networks that cannot be"
    if not isinstance(bank, MLPBank) or bank.activation not in ACTIVATION_NAMES or bank.outputs != outputs:
        raise RefusalError(damage)
    if bank.widths is not None:
        require(bank.widths.shape == (kept, len(bank.hidden)), damage)
        require(bool((bank.widths <= np.array(bank.hidden, dtype=np.intp)).all()), damage)
    scaling = networks.scaling
    require(networks.theta.shape == (kept, bank.size), damage)
    require(scaling.center.shape == scaling.scale.shape == (kept,) and bool((scaling.scale > 0).all()), damage)
    require(networks.offsets.shape == networks.absent.shape == (kept, outputs), damage)
    require(networks.unit.shape == (outputs,), damage)


def _check_pair(pair: PairFunction, outputs: int) -> None:
    rising = all(axis.size >= 2 and bool((np.diff(axis) > 0).all()) for axis in pair.knots)
    require(rising, "knots of a pair that do not ascend")
    shape = (pair.knots[0].size + 1, pair.knots[1].size + 1)
    require(pair.values.shape == (*shape, outputs) and pair.weights.shape == shape, "a pair of another grid")


def _check_response(fit: Fit, task: Task) -> None:
    """Raise unless what is predicted fits the estimator and the family."""
    response, family, outputs = fit.response, fit.model.family, fit.model.intercept.size
    damage = "an estimator that does not fit its family"
    require(response.task == task, damage)
    expected = OUTPUTS_OF_CLASSES.get(family.response)
    require((expected is not None) == isinstance(response, ClassResponse), damage)
    if isinstance(response, ClassResponse):
        require(expected is not None and expected(response.classes.size) == outputs, damage)
    elif isinstance(response, SurvivalResponse):  # counts with the cumulative hazard as exposure
        require(family.response == "count" and family.exposure_power is not None and outputs == 1, damage)
        times, hazards = response.baseline.times, response.baseline.cumulative_hazard
        rising = times.shape == hazards.shape and _rises(times, strictly=True) and _rises(hazards)
        require(rising, "a baseline hazard that cannot be")
    else:
        require(not (isinstance(response, NumberResponse) and response.flat and outputs > 1), damage)


def _check_substitutes(fit: Fit) -> None:
    names = fit.encoder.names
    _require_known(fit.substitutes, fit.encoder)
    parts = {part for name in names for part in name.split(JOINED)}  # a name may hold what joins those of a group
    others = [other for found in fit.substitutes.values() for other in found]
    require(all(parts.issuperset(other.split(JOINED)) for other in others), "columns that the table does not have")


def _check_curve(fit: Fit) -> None:
    curve, damage = fit.curve, "a damaged cross-validation curve"
    require(fit.taken is None or (curve is not None and fit.taken < len(curve.alphas)), "a point that is not there")
    if isinstance(curve, StoredCurve):
        require(set(RULES) <= set(curve.choices) and len(curve.choices) <= len(RULES) + 1, damage)
        require(max(curve.choices.values()) < len(curve.rows), damage)
        require(_drawn(curve.alphas.tolist()), damage)


def _drawn(alphas: Iterable[float]) -> bool:
    return all(alpha == 0.0 or LEAST_ALPHA <= alpha <= 1 / LEAST_ALPHA for alpha in alphas)


def _check_edits(fit: Fit) -> None:
    """Read backwards from the model, every edit must be found as it was left, and lead to what the next one says."""
    model = fit.model
    for edit in reversed(fit.edits):
        try:
            _check_edit(edit, fit.encoder, model)
            model = applied(model, fit.encoder, edit, backwards=True)
            check_model(model, model.n_terms)
        except (InputError, ValueError, IndexError) as error:
            raise RefusalError(f"a damaged log of edits ({str(error)[:80]})") from error


def _check_edit(edit: Edit, encoder: TableEncoder, model: AdditiveModel) -> None:
    """Raise unless a model is what an edit left behind."""
    outputs, damage = model.intercept.size, "a damaged log of edits"
    require(model.exact_shapes and edit.intercept_after == tuple(model.intercept.tolist()), damage)
    require(len(edit.intercept_before) == outputs, damage)
    if edit.column is None:
        require(not edit.before and not edit.after, damage)
        return
    require(edit.column in encoder.names, damage)
    terms = terms_of(encoder, encoder.names.index(edit.column))
    found = {each.term: each for each in column_curves(model, terms)}
    require(found == {each.term: each for each in edit.after}, damage)
    left = [pair.terms for pair in edit.pairs if not set(terms) & set(pair.terms)]
    require(not edit.pairs or [pair.terms for pair in model.pairs] == left, damage)
    before = [each.term for each in edit.before]
    require(bool(before) and set(before) <= set(terms) and len(set(before)) == len(before), damage)
    require(all(each.curve.outputs == outputs for each in edit.before), damage)


def _check_bands(bands: Bands, model: AdditiveModel, pairs: tuple[PairFunction, ...]) -> None:
    damage, outputs, terms = "bands that cannot be", model.intercept.size, [band.term for band in bands.terms]
    require(len(set(terms)) == len(terms) and all(term < model.n_terms for term in (*terms, *bands.without)), damage)
    for band in bands.terms:
        shapes = (band.knots.size, outputs), (LEVELS.size, outputs)
        require((band.deviations.shape, band.maxima.shape) == shapes and band.knots.size > 0, damage)
        require(_rises(band.knots, strictly=True), damage)
    if bands.terms or bands.pairs:
        shapes = [pair.values.shape for pair in pairs]
        require([each.shape for each in bands.pairs] == shapes, damage)
    else:
        require(not pairs or bands.verdict == "refused", damage)


def _check_residuals(residuals: Residuals, model: AdditiveModel) -> None:
    damage, scaled = "damaged errors of left-out rows", residuals.scaled
    width = 1 if model.family.couples_outputs else model.intercept.size
    require(residuals.constant.spread is None and (scaled is None or scaled.spread is not None), damage)
    for part in (residuals.constant, scaled):
        if part is not None:
            require(_are_tables(part, width, model.n_terms), damage)
    if scaled is not None and scaled.spread is not None:
        check_model(scaled.spread, model.n_terms + 1)
        same = scaled.spread.exact_shapes and scaled.spread.intercept.size == model.intercept.size
        require(same and not scaled.spread.pairs, damage)
    if residuals.reliability is not None:
        _check_reliability(residuals.reliability, model.intercept.size)


def _are_tables(part: ErrorTables, width: int, n_terms: int) -> bool:
    found = [part.tables, *(level.tables for level in part.levels)]
    are_whole = all(len(tables) == width and all(map(_is_table, tables)) for tables in found)
    return are_whole and all(level.term < n_terms for level in part.levels)


def _is_table(table: OrderStatistics) -> bool:
    if not table.ranks.size == table.values.size >= 1:
        return False
    whole = bool(np.isclose(table.ranks[-1], table.count))  # the largest number is always kept
    return whole and _rises(table.ranks) and _rises(table.values)


def _rises(values: NDArray[np.float64], *, strictly: bool = False) -> bool:
    steps = np.diff(values)
    return bool((steps > 0 if strictly else steps >= 0).all())


def _check_reliability(found: Reliability, outputs: int) -> None:
    width = 0 if found.kind == "none" else outputs
    right = (
        found.predicted.size == found.observed.size == found.counts.size
        and len(found.knots) == len(found.values) == width
        and all(
            one.size == other.size >= 1 and _rises(one) for one, other in zip(found.knots, found.values, strict=True)
        )
    )
    require(right, "damaged probabilities of left-out rows")


def _check_stability(stability: Stability, encoder: TableEncoder) -> None:
    _require_known([*stability.kept, *stability.always_kept, *stability.frequencies], encoder)
    _require_known([name for each in stability.replacements for name in (each.column, each.other)], encoder)


VALUES = {  # the terms that say the values of a column, by its kind
    "number": ("number",),
    "date": ("number",),
    "category": ("levels", "binary"),
    "ordered": ("levels", "number", "binary"),
    "constant": (),
}


def check_encoder(encoder: TableEncoder) -> None:
    """Raise `RefusalError` unless columns, levels and terms fit each other."""
    names, columns, terms = encoder.names, encoder.columns, encoder.terms
    matching = len(set(names)) == len(names) and [column.name for column in columns] == list(names)
    require(matching, "a table whose columns do not match their names")
    require(all(term.column < len(names) for term in terms), "a term of no column")
    require(len({term.name for term in terms}) == len(terms), "two terms of one name")
    missing = {term.name for term in encoder.terms if term.kind == "missing"}
    for column in encoder.columns:
        few = (
            len(column.levels) == 1
            if column.kind == "constant"
            else bool(column.levels) == (column.kind in ("category", "ordered"))
        )
        empty = column.is_empty and column.n_missing > 0 and not column.missing_term
        require((few or empty) and len(set(column.levels)) == len(column.levels), "a column of other levels")
        require(not column.pooled or column.kind == "category", "rare levels of no category")
        require(column.different is None or not column.varies, "an identifier that is kept")
        if column.far is not None:
            values = column.far.values
            dates = column.unit != "days" or all(FIRST_DAY <= value < LAST_DAY for value in values)
            require(dates and len(values) == len(column.far.counts), "other far cells")
        require(not column.missing_term or column.missing_term in missing, "a column whose missing cells are no term")
    for term in encoder.terms:
        column = encoder.columns[term.column]
        require(term.kind == "missing" or term.kind in VALUES[column.kind], "a term of another kind than its column")
        require(set(term.levels) <= set(column.levels), "a term of levels that its column does not have")
        require(term.kind not in ("levels", "binary") or bool(term.levels), "a term without levels")


def _check_summary(fit: Fit) -> None:
    """Raise `RefusalError` unless a summary is one of this table and of what the model keeps."""
    summary, encoder, model, edits = fit.summary, fit.encoder, fit.model, fit.edits
    damage, data = "a summary of another model", summary.data
    require(len(data.pairs) == len(fit.fitted_pairs), "a summary of other pairs")
    kept, told = (
        [encoder.names[column] for column in kept_columns(encoder, model)],
        [part.name for part in data.columns],
    )
    require(told == kept or (bool(edits) and set(kept) <= set(told) <= set(encoder.names)), damage)
    require(len(set(told)) == len(told), damage)
    valued = {term.column for term in encoder.terms if term.kind != "missing"}
    for part in data.columns:
        column = encoder.names.index(part.name)
        _check_column(part, encoder.columns[column], has_values=column in valued)
    path = summary.path
    if path is not None:
        require(len(path.alphas) == len(path.norms) >= 1 and _drawn(path.alphas), damage)
        require(all(len(row) == len(path.names) for row in path.norms), damage)
        require(len(set(path.names)) == len(path.names), damage)
        _require_known(path.names, encoder)
    _require_known([*summary.twins, *summary.twins.values(), *summary.constant], encoder)
    if summary.evidence is not None:
        _require_known(summary.evidence.kept_in, encoder)


def _check_column(part: ColumnSummary, column: Column, *, has_values: bool) -> None:
    damage = "a summary of another column"
    levels = len(column.levels) if has_values and column.kind != "constant" else 0
    require(len(part.counts) == levels and not (levels and part.density is not None), damage)
    if part.density is not None:
        edges = part.density.edges
        require(len(edges) == len(part.density.counts) + 1, damage)
        require(all(one < other for one, other in pairwise(edges)), damage)


def _require_known(names: Iterable[str], encoder: TableEncoder) -> None:
    require(set(names) <= set(encoder.names), "columns that the table does not have")


def check_settings(settings: Mapping[str, Any], encoder: TableEncoder, curve: StoredCurve | None) -> None:
    """Raise `RefusalError` where a setting that is read after the fit cannot be one."""
    damage, rule, shapes = "a setting that cannot be", settings.get("rule"), settings.get("shapes")
    require(curve is None or rule is None or rule_name(rule) in curve.choices, "a rule that is not that of the curve")
    require(shapes is None or isinstance(shapes, Mapping), damage)
    kept = settings.get("always_keep")
    require(type(kept) in (NoneType, list, tuple), damage)
    for name in kept or ():
        inside = type(name) is int and -len(encoder.names) <= name < len(encoder.names)
        require(inside or (isinstance(name, str) and name in encoder.names), damage)
    network, penalty = settings.get("network"), settings.get("penalty", "group_lasso")
    try:
        penalties = as_penalty(penalty)
        if isinstance(network, Network):
            network.solver_for(penalties)
    except (InputError, TypeError) as error:
        raise RefusalError(f"{damage} ({str(error)[:80]})") from error
