"""How far off a prediction may be: intervals for numbers, sets and corrected probabilities for classes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.codec import Matrix, Vector
from sparsenam.errors import (
    ConstantWidthWarning,
    InputError,
    SmallGroupWarning,
    check_number,
    check_whole,
    check_word,
    describe,
)
from sparsenam.fit.pipeline import Fit
from sparsenam.fit.response import ClassResponse, NumberResponse, check_exposure, require_rates
from sparsenam.selection.curve import balanced_splits
from sparsenam.tables.encoder import ColumnName, column_index
from sparsenam.tables.frame import absent_from, read_table
from sparsenam.tables.text import listed
from sparsenam.uncertainty.residuals import (
    RANK_ROUNDING,
    ErrorSpread,
    ErrorTables,
    LeftOutRows,
    OrderStatistics,
    Residuals,
    Scale,
    few_valued,
    is_of_classes,
    predicted_mean,
    unit_spread,
)
from sparsenam.uncertainty.results import (
    LEVEL_SHOWN,
    LEVELS,
    PredictionIntervals,
    PredictionSets,
    Uncertainty,
    guarantee_of,
)

Array = NDArray[np.generic]
Refit = Callable[..., Fit]
FEWEST_CALIBRATION_ROWS = 10  # new rows to calibrate with


def calibrate(
    fit: Fit,
    X: ArrayLike,
    y: ArrayLike,
    refit: Refit,
    sample_weight: ArrayLike | None,
    exposure: ArrayLike | None,
    groups: ColumnName | None,
    cv: int | None,
) -> Fit:
    """Return a fit that knows its errors from given rows: new ones, or those of the fit in ``cv`` folds.

    ``refit`` fits some rows as the fit was made.
    """
    _require_errors(fit, "calibrate")
    rows = fit.rows(X, y, sample_weight, None)
    target, units = rows.target, None
    if exposure is not None:
        fit.response.with_exposure(rows, exposure, fit.model.family)  # raises where there are no rates
        units = np.asarray(exposure, dtype=np.float64)
    if len(target) < FEWEST_CALIBRATION_ROWS:
        got = f"{len(target)}"
        raise InputError(describe("rows of calibrate", f"at least {FEWEST_CALIBRATION_ROWS}", got, "give more rows"))
    scaled = None if fit.residuals is None else fit.residuals.scaled
    few = few_valued(fit.encoder, rows.terms, None if groups is None else _term_of(fit, groups))
    if cv is None:
        method, scores = "new rows", fit.model.scores(rows.terms)
        logs = scores if scaled is None else np.log(scaled.spreads(rows.terms, scores))
    else:
        check_whole("cv", cv)
        more = {"sample_weight": sample_weight, "exposure": exposure}
        by_row = {name: np.asarray(values) for name, values in more.items() if values is not None}
        method, (scores, logs) = "folds", _refitted(fit, refit, X, np.asarray(y), by_row, target, cv)
    spread = None if scaled is None or scaled.spread is None else ErrorSpread(scaled.spread, logs)
    given = LeftOutRows(rows.terms, scores, target, rows.weights, few, units, spread)
    found = given.residuals(fit.model.family, method)
    return replace(fit, residuals=replace(found, edits=len(fit.edits)))


def _refitted(
    fit: Fit, refit: Refit, X: ArrayLike, y: Array, by_row: dict[str, Array], target: Matrix, cv: int
) -> tuple[Matrix, Matrix]:
    """Return held-out scores (rows, outputs) of refits on folds, and logarithms of their spreads."""
    table = read_table(X, estimator_name="calibrate", least_rows=1)
    scores = np.zeros((len(target), fit.model.intercept.size))
    logs = np.zeros_like(scores)
    for rest, held in balanced_splits(target, cv, np.random.default_rng(0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fold = refit(table[rest], y[rest], **{name: values[rest] for name, values in by_row.items()})
            encoded = fold.encoder.encode(table[held])
        if fold.model.intercept.size != fit.model.intercept.size:
            remedy = "use fewer folds, or leave rows of rare classes out"
            raise InputError(describe("cv", "every class in the rows of every refit", "a class less", remedy))
        scores[held] = fold.model.scores(encoded)
        if fold.residuals is not None and fold.residuals.scaled is not None:
            logs[held] = np.log(fold.residuals.scaled.spreads(encoded, scores[held]))
    return scores, logs


def _require_errors(fit: Fit, where: str) -> None:
    """Raise where predictions have no errors to speak of."""
    if fit.task == "survival":
        remedy = "read quantiles of the time from predict_survival_function"
        raise InputError(describe(where, "a regressor or a classifier", "a model of survival times", remedy))
    if fit.task == "regression" and is_of_classes(fit.model.family):
        got = f"the {fit.model.family.name} family"
        raise InputError(describe(where, "a family of numbers", got, "use SNAMClassifier and predict_set"))


def left_out_errors(fit: Fit, where: str) -> Residuals:
    """Return the residuals; raise where there are none."""
    _require_errors(fit, where)
    residuals = fit.residuals
    if residuals is None:
        expected = "a smooth fit by this version, which knows its left-out errors"
        remedy = "call calibrate with new rows or with cv=5, or fit again"
        raise InputError(describe(where, expected, "a model without them", remedy))
    if len(fit.edits) != residuals.edits:
        got, remedy = "edits since", "call calibrate with new rows after the edits"
        raise InputError(describe(where, "the model that the errors are of", got, remedy))
    return residuals


def _term_of(fit: Fit, groups: ColumnName) -> int:
    """Return the encoded term of a column's values."""
    if np.ndim(groups):
        several = np.asarray(groups)
        got = f"{len(several)} {'names' if several.dtype.kind == 'U' else 'labels'}"
        raise InputError(describe("groups", "the name of one column", got, "name one column of the table"))
    column = column_index(fit.encoder, groups, "groups")
    found = [index for index, term in enumerate(fit.encoder.terms) if term.column == column]
    if not found:
        raise InputError(describe("groups", "a column that varies", repr(groups), "choose another"))
    return found[0]


def _group_term(fit: Fit, groups: ColumnName | None, residuals: Residuals, scale: Scale) -> int | None:
    """Return the encoded term by whose values rows are compared; raise where that was not kept."""
    if groups is None:
        return None
    term, kept = _term_of(fit, groups), residuals.tables(scale).levels
    if any(found.term == term for found in kept):
        return term
    if scale == "constant" and residuals.scaled is not None:
        raise InputError(describe("groups", "scale='auto' beside them", "scale='constant'", "leave scale out"))
    names = list(dict.fromkeys(fit.encoder.names[fit.encoder.terms[found.term].column] for found in kept))
    expected = f"a column whose levels are kept ({listed(names)})" if names else "a column of 2 to 20 levels"
    remedy = "choose another, or name it in calibrate(X, y, groups=…)"
    raise InputError(describe("groups", expected, repr(groups), remedy))


def predict_interval(
    fit: Fit, X: ArrayLike, level: float, scale: Scale, groups: ColumnName | None, exposure: ArrayLike | None
) -> PredictionIntervals:
    """Return intervals that hold a new row's y with a probability of ``level``."""
    residuals = left_out_errors(fit, "predict_interval")
    check_number("level", level, 0.0, 1.0, open_below=True, open_above=True)
    check_word("scale", scale, ("auto", "constant", "x"))
    term = _group_term(fit, groups, residuals, scale)
    scale = scale if groups is not None else _scale_for(fit, X, scale, residuals)
    tables = residuals.tables(scale)
    also = [] if term is None else [fit.encoder.terms[term].column]
    terms, units = fit.reader([*_width_columns(fit, tables), *also]).encode(X), None
    if exposure is not None:
        require_rates(fit.model.family)
        units = check_exposure(exposure, np.zeros(len(terms)))
    family, scores = fit.model.family, fit.model.scores(terms)
    cells = np.zeros(len(terms)) if term is None else terms[:, term]
    ends = _limits(fit, tables, term, cells, lambda part: np.stack(residuals.ends(part, level)))
    if not np.isfinite(ends).all():
        most = (residuals.rows - (not residuals.symmetric)) / (residuals.rows + 1)
        expected = f"at most {math.floor(most * 1000) / 1000:g}, as {residuals.rows} rows can tell no more"
        raise InputError(describe("level", expected, f"{level:g}", "lower it, or call calibrate with more rows"))
    means = predicted_mean(family, scores, units)
    unit = unit_spread(family, scores, units) * tables.spreads(terms, scores)
    lowest, highest = family.range.lowest, family.range.highest
    lower, upper = (np.clip(means + end * unit, lowest, highest) for end in (ends[:, 0], ends[:, 1]))
    if residuals.whole:
        lower, upper = np.ceil(lower - RANK_ROUNDING), np.floor(upper + RANK_ROUNDING)
        between = lower > upper  # no whole number lies inside: the nearest to the prediction
        nearest = np.clip(np.rint(means), lowest, highest)
        lower, upper = np.where(between, nearest, lower), np.where(between, nearest, upper)
    if not isinstance(fit.response, NumberResponse) or fit.response.flat:
        lower, upper = lower[:, 0], upper[:, 0]
    return PredictionIntervals(lower, upper, level, residuals.method, guarantee_of(residuals, level, _name(fit, term)))


def _limits(
    fit: Fit,
    tables: ErrorTables,
    term: int | None,
    cells: Vector,
    limits: Callable[[Sequence[OrderStatistics]], Matrix],
) -> NDArray[np.float64]:
    """Return the limits of each row, shape (rows, limits, outputs).

    With a term, a row is compared with those of the same value, which its cell in ``cells`` (rows,) holds; where these
    are too few, which is warned of, or where the value is unknown, with all.
    """
    found, lacking = np.tile(limits(tables.tables), (cells.size, 1, 1)), list[str]()
    for level in tables.levels:
        if term is not None and level.term == term:
            inside, names = limits(level.tables), fit.encoder.terms[term].levels
            if np.isfinite(inside).all():
                found[cells == level.value] = inside
            else:
                lacking.append(names[int(level.value)] if names else f"{level.value:g}")
    if lacking:
        message = f"{len(lacking)} group(s) have too few rows and get what all rows get: {listed(lacking)}."
        warnings.warn(message, SmallGroupWarning, stacklevel=4)
    return found


def _name(fit: Fit, term: int | None) -> str | None:
    """Return the name of a term's column."""
    return None if term is None else fit.encoder.names[fit.encoder.terms[term].column]


def _scale_for(fit: Fit, X: object, scale: Scale, residuals: Residuals) -> Scale:
    """Return "constant" for "auto" where a table lacks columns that the width depends on, with a warning."""
    names = [fit.encoder.names[column] for column in _width_columns(fit, residuals.tables(scale))]
    absent = absent_from(X, names)
    if not absent or scale != "auto":
        return scale
    message = (
        f"the width of intervals depends on column(s) that X does not have ({listed(absent)}): all rows get that "
        "of scale='constant', which holds on average."
    )
    warnings.warn(message, ConstantWidthWarning, stacklevel=4)
    return "constant"


def _width_columns(fit: Fit, tables: ErrorTables) -> list[int]:
    """Return the indices of the columns that the width of intervals depends on; the prediction itself is none."""
    read = () if tables.spread is None else map(int, tables.spread.terms)
    return sorted({fit.encoder.terms[term].column for term in read if term < len(fit.encoder.terms)})


def predict_set(fit: Fit, X: ArrayLike, level: float, groups: ColumnName | None) -> PredictionSets:
    """Return the classes that a new row may have, its class among them with a probability of at least ``level``."""
    residuals = left_out_errors(fit, "predict_set")
    if fit.model.family.response == "labels":
        remedy = "use predict_proba, or one classifier for each label"
        raise InputError(describe("predict_set", "one class for each row", "several labels", remedy))
    check_number("level", level, 0.0, 1.0, open_below=True, open_above=True)
    term = _group_term(fit, groups, residuals, "constant")
    probabilities = fit.probabilities(X)
    cells = np.zeros(len(probabilities))
    if term is not None:
        column = fit.encoder.terms[term].column
        with warnings.catch_warnings():
            kept = column in fit.kept
            warnings.simplefilter("ignore" if kept else "default")  # predict_proba has warned of a kept one
            cells = fit.encoder.reading([column]).encode(X)[:, term]
    limits = _limits(
        fit, residuals.constant, term, cells, lambda part: np.array([[table.above(level) for table in part]])
    )
    members = 1.0 - probabilities <= limits[:, 0] + 1e-12
    members[np.arange(len(members)), probabilities.argmax(axis=1)] = True
    assert isinstance(fit.response, ClassResponse)
    guarantee = guarantee_of(residuals, level, _name(fit, term))
    return PredictionSets(members, fit.response.classes, level, residuals.method, guarantee)


def calibrated_proba(fit: Fit, X: ArrayLike) -> Matrix:
    """Return probabilities after the correction that lowers the loss of left-out rows for certain, where one does."""
    residuals = left_out_errors(fit, "calibrated_proba")
    assert residuals.reliability is not None
    means = residuals.reliability.apply(fit.model.family, fit.model.scores(fit.reader().encode(X)))
    return np.column_stack([1.0 - means, means]) if fit.model.family.response == "binary" else means


def uncertainty(fit: Fit) -> Uncertainty:
    """Return how far off predictions typically are, for printing and for the report."""
    model, encoder, residuals = fit.model, fit.encoder, left_out_errors(fit, "uncertainty")
    guarantee, reliability = guarantee_of(residuals, LEVEL_SHOWN), residuals.reliability
    if is_of_classes(model.family) and reliability is not None:
        bins = zip(reliability.predicted, reliability.observed, reliability.counts, strict=True)
        limits = [(level, residuals.constant.tables[0].above(level)) for level in LEVELS]
        single = len(residuals.constant.tables) == 1
        return Uncertainty(
            residuals.method,
            residuals.rows,
            guarantee,
            reliability=tuple((float(p), float(o), int(n)) for p, o, n in bins),
            correction=reliability.kind,
            losses=(reliability.loss, reliability.corrected),
            thresholds=tuple((level, max(1.0 - limit, 0.0)) for level, limit in limits) if single else (),
        )
    tables, score = residuals.tables("auto"), model.intercept[None]
    unit = unit_spread(model.family, score, None)[0]
    if tables.spread is not None:
        unit = unit * np.exp(tables.spread.intercept)
    columns = [encoder.names[column] for column in _width_columns(fit, tables)]
    if tables.spread is not None and (tables.spread.terms >= len(encoder.terms)).any():
        columns.append("prediction")
    ends: list[tuple[int, float, float, float]] = []
    for level in LEVELS:
        low, high = residuals.ends(tables.tables, level)
        if np.isfinite(low).all() and np.isfinite(high).all():
            both = zip(-low * unit, high * unit, strict=True)
            ends += [(output, level, float(below), float(above)) for output, (below, above) in enumerate(both)]
    relative = model.family.link == "log"
    return Uncertainty(residuals.method, residuals.rows, guarantee, tuple(ends), relative, tuple(columns))
