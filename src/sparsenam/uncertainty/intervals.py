"""How far off a prediction may be: intervals for numbers, sets and corrected probabilities for classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.errors import (
    ConstantWidthWarning,
    InputError,
    SmallGroupWarning,
    check_number,
    check_whole,
    check_word,
    describe,
)
from sparsenam.fit import ClassResponse, Fit, NumberResponse
from sparsenam.fit.response import check_exposure, require_rates
from sparsenam.fitting.residuals import few_valued
from sparsenam.model.residuals import (
    ErrorTables,
    LeftOutRows,
    Residuals,
    Scale,
    class_residuals,
    interval,
    is_of_classes,
)
from sparsenam.selection.curve import balanced_splits
from sparsenam.tables import TableEncoder
from sparsenam.tables.encoder import ColumnName, column_index
from sparsenam.tables.frame import absent_from
from sparsenam.tables.text import listed
from sparsenam.uncertainty.results import (
    PredictionIntervals,
    PredictionSets,
    Uncertainty,
    guarantee_of,
    uncertainty_of,
)

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Refit = Callable[..., Fit]
LEAST_ROWS = 10  # new rows to calibrate with


def uncertainty(fit: Fit) -> Uncertainty:
    """Return how far off predictions typically are, for printing and for the report."""
    return uncertainty_of(fit.model, fit.encoder, left_out_errors(fit, "uncertainty"))


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
    if len(target) < LEAST_ROWS:
        got = f"{len(target)}"
        raise InputError(describe("rows of calibrate", f"at least {LEAST_ROWS}", got, "give more rows"))
    known = fit.residuals
    spread = None if known is None or known.scaled is None else known.scaled.spread
    few = few_valued(fit.encoder, rows.terms, None if groups is None else _term_of(fit, groups))
    if cv is None:
        scores = fit.model.scores(rows.terms)
        logs = None if spread is None else spread.scores(np.column_stack([rows.terms, scores[:, :1]]))
        given = LeftOutRows(rows.terms, scores, target, rows.weights, few, units, spread, logs)
        return _with_residuals(fit, given, "new rows")
    check_whole("cv", cv)
    more = {name: values for name, values in (("sample_weight", sample_weight), ("exposure", exposure))}
    by_row = {name: np.asarray(values) for name, values in more.items() if values is not None}
    scores, logs = _refitted(refit, X, y, by_row, target, cv)
    if scores.shape[1] != fit.model.intercept.size:
        remedy = "use fewer folds, or leave rows of rare classes out"
        raise InputError(describe("cv", "every class in the rows of every refit", "a class less", remedy))
    given = LeftOutRows(rows.terms, scores, target, rows.weights, few, units, spread, None if spread is None else logs)
    return _with_residuals(fit, given, "folds")


def _refitted(
    refit: Refit, X: ArrayLike, y: ArrayLike, by_row: dict[str, NDArray[Any]], target: Matrix, cv: int
) -> tuple[Matrix, Matrix]:
    """Return held-out scores (rows, outputs) of refits on folds, and logarithms of their spreads."""
    table, answer, scores, logs = _rows_of(X), np.asarray(y), list[Matrix](), np.zeros_like(target)
    places = list[NDArray[np.intp]]()
    for rest, held in balanced_splits(target, cv, np.random.default_rng(0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fold = refit(table(rest), answer[rest], **{name: values[rest] for name, values in by_row.items()})
            encoded = fold.encoder.encode(table(held))
        places.append(held)
        scores.append(fold.model.scores(encoded))
        if fold.residuals is not None and fold.residuals.scaled is not None:
            logs[held] = np.log(fold.residuals.scaled.spreads(encoded, scores[-1]))
    fewest = min(part.shape[1] for part in scores)  # a fold may lack a class
    found = np.zeros((len(target), fewest))
    for held, part in zip(places, scores, strict=True):
        found[held] = part[:, :fewest]
    return found, logs


def _with_residuals(fit: Fit, given: LeftOutRows, method: Any) -> Fit:
    """Return the fit with the errors of some rows."""
    family = fit.model.family
    found = (class_residuals if is_of_classes(family) else LeftOutRows.residuals)(given, family, method)
    return replace(fit, residuals=replace(found, edits=len(fit.edits)))


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
    names = [fit.encoder.names[fit.encoder.terms[found.term].column] for found in kept]
    expected = f"a column whose levels are kept ({listed(names)})" if names else "a column of 2 to 20 levels"
    remedy = "choose another, or name it in calibrate(X, y, groups=…)"
    raise InputError(describe("groups", expected, repr(groups), remedy))


def _warn_of_groups(fit: Fit, lacking: list[float], term: int | None) -> None:
    if lacking and term is not None:
        levels = fit.encoder.terms[term].levels
        names = [levels[int(value)] if levels else f"{value:g}" for value in lacking]
        message = f"{len(names)} group(s) have too few rows and get what all rows get: {listed(names)}."
        warnings.warn(message, SmallGroupWarning, stacklevel=4)


def _rows_of(X: ArrayLike) -> Callable[[NDArray[np.intp]], Any]:
    """Return the function from row numbers to these rows of a table."""
    table = cast(Any, X)
    if hasattr(table, "iloc"):
        return lambda rows: table.iloc[rows]
    if hasattr(table, "take") and hasattr(table, "schema"):
        return lambda rows: table.take(rows)
    if hasattr(table, "columns") and hasattr(table, "height"):
        return lambda rows: table[rows]
    array = np.asarray(table) if not isinstance(table, list) else np.array(table, dtype=object)
    return lambda rows: array[rows]


def predict_interval(
    fit: Fit,
    X: ArrayLike,
    level: float = 0.9,
    scale: Scale = "auto",
    groups: ColumnName | None = None,
    exposure: ArrayLike | None = None,
) -> PredictionIntervals:
    """Return intervals that hold a new row's y with a probability of ``level``."""
    residuals = left_out_errors(fit, "predict_interval")
    check_number("level", level, 0.0, 1.0, open_below=True, open_above=True)
    check_word("scale", scale, ("auto", "constant", "x"))
    term = _group_term(fit, groups, residuals, scale)
    scale = scale if groups is not None else _scale_for(fit, X, scale, residuals)
    tables = residuals.tables(scale)
    terms, units = _reader_with(fit, tables, term).encode(X), None
    if exposure is not None:
        require_rates(fit.model.family)
        units = check_exposure(exposure, np.zeros(len(terms)))
    lower, upper, lacking = interval(fit.model, residuals, tables, terms, level, term, units)
    _warn_of_groups(fit, lacking, term)
    flat = not isinstance(fit.response, NumberResponse) or fit.response.flat
    ends = (lower[:, 0], upper[:, 0]) if flat else (lower, upper)
    by = None if term is None else fit.encoder.names[fit.encoder.terms[term].column]
    return PredictionIntervals(*ends, level, residuals.method, guarantee_of(residuals, level, by))


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


def _reader_with(fit: Fit, tables: ErrorTables, term: int | None) -> TableEncoder:
    """Return the encoder that reads kept columns, those of the width, and that of a term."""
    also = [] if term is None else [fit.encoder.terms[term].column]
    return fit.reader([*_width_columns(fit, tables), *also])


def predict_set(fit: Fit, X: ArrayLike, level: float = 0.9, groups: ColumnName | None = None) -> PredictionSets:
    """Return the classes that a new row may have, its class among them with a probability of at least ``level``."""
    residuals = left_out_errors(fit, "predict_set")
    if fit.model.family.response == "labels":
        remedy = "use predict_proba, or one classifier for each label"
        raise InputError(describe("predict_set", "one class for each row", "several labels", remedy))
    check_number("level", level, 0.0, 1.0, open_below=True, open_above=True)
    term = _group_term(fit, groups, residuals, "constant")
    probabilities = fit.probabilities(X)
    limits, lacking = np.full(len(probabilities), residuals.constant.tables[0].above(level)), list[float]()
    if term is not None:
        column = fit.encoder.terms[term].column
        with warnings.catch_warnings():
            kept = column in fit.kept
            warnings.simplefilter("ignore" if kept else "default")  # predict_proba has warned of a kept one
            cells = fit.encoder.reading([column]).encode(X)[:, term]
        found = next(each for each in residuals.constant.levels if each.term == term)
        for value, tables in zip(found.values, found.tables, strict=True):
            limit = tables[0].above(level)
            if np.isfinite(limit):
                limits[cells == value] = limit
            else:
                lacking.append(value)
        _warn_of_groups(fit, lacking, term)
    members = 1.0 - probabilities <= limits[:, None] + 1e-12
    members[np.arange(len(members)), probabilities.argmax(axis=1)] = True
    by = None if term is None else fit.encoder.names[fit.encoder.terms[term].column]
    assert isinstance(fit.response, ClassResponse)
    return PredictionSets(members, fit.response.classes, level, residuals.method, guarantee_of(residuals, level, by))


def calibrated_proba(fit: Fit, X: ArrayLike) -> Matrix:
    """Return probabilities after the correction that lowers the loss of left-out rows for certain, where one does."""
    residuals = left_out_errors(fit, "calibrated_proba")
    assert residuals.reliability is not None
    means = residuals.reliability.apply(fit.model.family, fit.model.scores(fit.reader().encode(X)))
    return np.column_stack([1.0 - means, means]) if fit.model.family.response == "binary" else means
