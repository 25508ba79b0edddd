"""How far off a prediction may be: intervals for numbers, sets and corrected probabilities for classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sparsenam.errors import (
    ConstantWidthWarning,
    InputError,
    SmallGroupWarning,
    check_number,
    check_whole,
    check_word,
    describe,
)
from sparsenam.fit.summary import kept_columns, reader_of
from sparsenam.explain.uncertainty import (
    PredictionIntervals,
    PredictionSets,
    Uncertainty,
    guarantee_of,
    uncertainty_of,
)
from sparsenam.families import Family
from sparsenam.fitting.residuals import few_valued
from sparsenam.model import AdditiveModel
from sparsenam.model.editing import Edit
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

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
LEAST_ROWS = 10  # new rows to calibrate with


class UncertaintyMixin:
    """What is known of the errors of a fitted model, by its left-out rows or by rows given later."""

    model_: AdditiveModel
    encoder_: TableEncoder
    residuals_: Residuals | None
    edits_: tuple[Edit, ...]

    def uncertainty(self) -> Uncertainty:
        """Return how far off predictions typically are, for printing and for the report.

        ``model.explain().report(path, beside=[model.uncertainty()])`` shows it as a section.
        """
        residuals = self._residuals("uncertainty")
        return uncertainty_of(self.model_, self.encoder_, residuals)

    def calibrate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        groups: ColumnName | None = None,
        cv: int | None = None,
    ) -> Self:
        """Return a copy of the fitted estimator that knows its errors from given rows; predictions stay the same.

        Parameters
        ----------
        X : table of shape (rows, features)
            New rows, which the fit has not seen; with ``cv`` the rows of the fit. All columns of the fit are needed,
            since errors may depend on those that the model dropped.
        y : array-like of shape (rows,) or (rows, outputs)
            Their target, as for ``fit``.
        sample_weight, exposure : array-like of shape (rows,), optional
            Weight and exposure of each row.
        groups : str or int, optional
            A column of 2 to 20 levels by which intervals will be asked for. Columns with the fewest levels, 32 in all,
            are kept without being named.
        cv : int, optional
            Number of folds: the rows are those of the fit, and each fold is predicted by a refit on the others, which
            chooses its columns anew. It takes as many fits.

        Returns
        -------
        estimator
            Its intervals and sets hold with a probability of at least their level for rows drawn like the new ones,
            whatever the model; with ``cv`` the probability is at least 1 - 2 (1 - level) in theory, and about the level
            in practice.
        """
        check_is_fitted(cast(Any, self))
        self._require_errors("calibrate")
        rows = cast(Any, self)._given_rows(X, y, sample_weight, None)
        target, units = rows.target, None
        if exposure is not None:
            cast(Any, self)._given_rows(X, y, sample_weight, exposure)
            units = np.asarray(exposure, dtype=np.float64)
        if len(target) < LEAST_ROWS:
            got = f"{len(target)}"
            raise InputError(describe("rows of calibrate", f"at least {LEAST_ROWS}", got, "give more rows"))
        known = getattr(self, "residuals_", None)
        spread = None if known is None or known.scaled is None else known.scaled.spread
        few = few_valued(self.encoder_, rows.terms, None if groups is None else self._term_of(groups))
        if cv is None:
            scores = self.model_.scores(rows.terms)
            logs = None if spread is None else spread.scores(np.column_stack([rows.terms, scores[:, :1]]))
            given = LeftOutRows(rows.terms, scores, target, rows.weights, few, units, spread, logs)
            return self._with_residuals(_residuals_from(given, self.model_.family, "new rows"))
        check_whole("cv", cv)
        scores, logs = self._refitted(X, y, sample_weight, exposure, rows.terms, target, cv, spread is not None)
        given = LeftOutRows(rows.terms, scores, target, rows.weights, few, units, spread, logs)
        return self._with_residuals(_residuals_from(given, self.model_.family, "folds"))

    def _refitted(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        exposure: ArrayLike | None,
        terms: Matrix,
        target: Matrix,
        cv: int,
        scaled: bool,
    ) -> tuple[Matrix, Matrix | None]:
        """Return held-out scores (rows, outputs) of refits on folds, and logarithms of their spreads."""
        table, answer = _rows_of(X), np.asarray(y)
        scores, logs = np.zeros((len(target), self.model_.intercept.size)), np.zeros_like(target)
        for rest, held in balanced_splits(target, cv, np.random.default_rng(0)):
            given: dict[str, Any] = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)[rest]}
            given |= {} if exposure is None else {"exposure": np.asarray(exposure)[rest]}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fold = clone(cast(Any, self)).fit(table(rest), answer[rest], **given)
                encoded = fold.encoder_.encode(table(held))
            found_scores = fold.model_.scores(encoded)
            if found_scores.shape[1] != scores.shape[1]:
                remedy = "use fewer folds, or leave rows of rare classes out"
                raise InputError(describe("cv", "every class in the rows of every refit", "a class less", remedy))
            scores[held] = found_scores
            found: Residuals | None = fold.residuals_
            if found is not None and found.scaled is not None:
                logs[held] = np.log(found.scaled.spreads(encoded, scores[held]))
        return scores, logs if scaled else None

    def _with_residuals(self, residuals: Residuals) -> Self:
        """Return a copy with other residuals."""
        copy = cast(Self, clone(cast(Any, self)))
        for name, value in vars(self).items():
            if name not in vars(copy):
                setattr(copy, name, value)
        copy.residuals_ = replace(residuals, edits=len(self.edits_))
        return copy

    def _residuals(self, where: str) -> Residuals:
        """Return the residuals; raise where there are none."""
        check_is_fitted(cast(Any, self))
        self._require_errors(where)
        residuals = getattr(self, "residuals_", None)
        if residuals is None:
            expected = "a smooth fit by this version, which knows its left-out errors"
            remedy = "call calibrate with new rows or with cv=5, or fit again"
            raise InputError(describe(where, expected, "a model without them", remedy))
        if len(self.edits_) != residuals.edits:
            got, remedy = "edits since", "call calibrate with new rows after the edits"
            raise InputError(describe(where, "the model that the errors are of", got, remedy))
        return residuals

    def _require_errors(self, where: str) -> None:
        """Raise where predictions have no errors to speak of."""

    def _term_of(self, groups: ColumnName) -> int:
        """Return the encoded term of a column's values."""
        if np.ndim(cast(Any, groups)):
            texts = all(isinstance(name, str) for name in cast(Any, groups))
            got, remedy = f"{len(cast(Any, groups))} {'names' if texts else 'labels'}", "name one column of the table"
            raise InputError(describe("groups", "the name of one column", got, remedy))
        column = column_index(self.encoder_, groups, "groups")
        found = [index for index, term in enumerate(self.encoder_.terms) if term.column == column]
        if not found:
            raise InputError(describe("groups", "a column that varies", repr(groups), "choose another"))
        return found[0]

    def _group_term(self, groups: ColumnName | None, residuals: Residuals, scale: Scale) -> int | None:
        """Return the encoded term by whose values rows are compared; raise where that was not kept."""
        if groups is None:
            return None
        term, kept = self._term_of(groups), residuals.tables(scale).levels
        if any(found.term == term for found in kept):
            return term
        if scale == "constant" and residuals.scaled is not None:
            raise InputError(describe("groups", "scale='auto' beside them", "scale='constant'", "leave scale out"))
        names = [self.encoder_.names[self.encoder_.terms[found.term].column] for found in kept]
        expected = f"a column whose levels are kept ({listed(names)})" if names else "a column of 2 to 20 levels"
        remedy = "choose another, or name it in calibrate(X, y, groups=…)"
        raise InputError(describe("groups", expected, repr(groups), remedy))

    def _warn_of_groups(self, lacking: list[float], term: int | None) -> None:
        if lacking and term is not None:
            levels = self.encoder_.terms[term].levels
            names = [levels[int(value)] if levels else f"{value:g}" for value in lacking]
            message = f"{len(names)} group(s) have too few rows and get what all rows get: {listed(names)}."
            warnings.warn(message, SmallGroupWarning, stacklevel=3)


def _residuals_from(given: LeftOutRows, family: Family, method: Any) -> Residuals:
    return (class_residuals if is_of_classes(family) else LeftOutRows.residuals)(given, family, method)


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


# what other libraries have on the estimator, and where it is here
ELSEWHERE = {
    "report": "explain().report('report.html')",
    "plot": "explain().plot()",
    "feature_importances_": "explain().to_frame()",
}


def lacking_attribute(estimator: object, name: str, instead: Mapping[str, str]) -> AttributeError:
    """Return Python's error for an attribute that there is not, with what to use instead where that is known."""
    message, known = f"{type(estimator).__name__!r} object has no attribute {name!r}", ELSEWHERE | dict(instead)
    message += f"; use {known[name]}" if name in known else ""
    return AttributeError(message, name=name, obj=estimator)


class IntervalMixin(UncertaintyMixin):
    """Prediction intervals of regressors."""

    if not TYPE_CHECKING:  # types know what there is

        def __getattr__(self, name: str) -> Any:
            """Raise for what there is not, naming what there is for numbers."""
            known = dict.fromkeys(("predict_set", "calibrated_proba"), "predict_interval(X), which is for numbers")
            raise lacking_attribute(self, name, known)

    def predict_interval(
        self,
        X: ArrayLike,
        level: float = 0.9,
        scale: Scale = "auto",
        groups: ColumnName | None = None,
        exposure: ArrayLike | None = None,
    ) -> PredictionIntervals:
        """Return intervals that hold a new row's y with a probability of ``level``.

        Parameters
        ----------
        X : table of shape (rows, features)
            The rows to predict.
        level : float, default 0.9
            The probability.
        scale : {"auto", "constant", "x"}, default "auto"
            Whether the width depends on the row: where the data say so, never, or always, which raises where they do
            not. The width may depend on columns that the prediction does not use; where X lacks one of them, "auto" is
            "constant", with a warning, unless there are groups.
        groups : str or int, optional
            A column of 2 to 20 levels: the probability holds within each level on its own. Levels with too few rows get
            what all rows get, with a warning.
        exposure : array-like of shape (rows,), optional
            As for ``predict``.

        Returns
        -------
        PredictionIntervals
            ``lower`` and ``upper``, the method, and what it guarantees; ``np.asarray`` makes it (rows, 2).
        """
        residuals = self._residuals("predict_interval")
        check_number("level", level, 0.0, 1.0, open_below=True, open_above=True)
        check_word("scale", scale, ("auto", "constant", "x"))
        term = self._group_term(groups, residuals, scale)
        scale = scale if groups is not None else self._scale_for(X, scale, residuals)
        tables = residuals.tables(scale)
        terms, units = self._reader_with(tables, term).encode(X), None
        if exposure is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the table, which encode has warned of
                cast(Any, self).predict(X, exposure=exposure)  # the same checks
            units = np.asarray(exposure, dtype=np.float64)
        lower, upper, lacking = interval(self.model_, residuals, tables, terms, level, term, units)
        self._warn_of_groups(lacking, term)
        flat = bool(getattr(self, "_flat_target", True))
        ends = (lower[:, 0], upper[:, 0]) if flat else (lower, upper)
        by = None if term is None else self.encoder_.names[self.encoder_.terms[term].column]
        return PredictionIntervals(*ends, level, residuals.method, guarantee_of(residuals, level, by))

    def _scale_for(self, X: object, scale: Scale, residuals: Residuals) -> Scale:
        """Return "constant" for "auto" where a table lacks columns that the width depends on, with a warning."""
        names = [self.encoder_.names[column] for column in self._width_columns(residuals.tables(scale))]
        absent = absent_from(X, names)
        if not absent or scale != "auto":
            return scale
        message = (
            f"the width of intervals depends on column(s) that X does not have ({listed(absent)}): all rows get that "
            "of scale='constant', which holds on average."
        )
        warnings.warn(message, ConstantWidthWarning, stacklevel=3)
        return "constant"

    def _width_columns(self, tables: ErrorTables) -> list[int]:
        """Return the indices of the columns that the width of intervals depends on; the prediction itself is none."""
        read = () if tables.spread is None else map(int, tables.spread.terms)
        return sorted({self.encoder_.terms[term].column for term in read if term < len(self.encoder_.terms)})

    def _reader_with(self, tables: ErrorTables, term: int | None) -> TableEncoder:
        """Return the encoder that reads kept columns, those of the width, and that of a term."""
        also = [] if term is None else [self.encoder_.terms[term].column]
        return reader_of(self.encoder_, self.model_, [*self._width_columns(tables), *also])

    def _require_errors(self, where: str) -> None:
        if is_of_classes(self.model_.family):
            got = f"the {self.model_.family.name} family"
            raise InputError(describe(where, "a family of numbers", got, "use SNAMClassifier and predict_set"))


class SetMixin(UncertaintyMixin):
    """Prediction sets and corrected probabilities of classifiers."""

    classes_: NDArray[np.generic]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise for what there is not, naming what there is for classes."""
            raise lacking_attribute(self, name, {"predict_interval": "predict_set(X), which is for classes"})

    def predict_set(self, X: ArrayLike, level: float = 0.9, groups: ColumnName | None = None) -> PredictionSets:
        """Return the classes that a new row may have: its class is among them with a probability of at least ``level``.

        A class is in the set where its probability is not below a threshold, the same for all rows; the most probable
        one always is. ``groups`` as for `SNAMRegressor.predict_interval`.

        Returns
        -------
        PredictionSets
            ``members`` (rows, classes), the method, and what it guarantees.
        """
        residuals = self._residuals("predict_set")
        if self.model_.family.response == "labels":
            remedy = "use predict_proba, or one classifier for each label"
            raise InputError(describe("predict_set", "one class for each row", "several labels", remedy))
        check_number("level", level, 0.0, 1.0, open_below=True, open_above=True)
        term = self._group_term(groups, residuals, "constant")
        probabilities = np.asarray(cast(Any, self).predict_proba(X), dtype=np.float64)
        limits, lacking = np.full(len(probabilities), residuals.constant.tables[0].above(level)), list[float]()
        if term is not None:
            column = self.encoder_.terms[term].column
            with warnings.catch_warnings():
                kept = column in kept_columns(self.encoder_, self.model_)
                warnings.simplefilter("ignore" if kept else "default")  # predict_proba has warned of a kept one
                cells = self.encoder_.reading([column]).encode(X)[:, term]
            found = next(each for each in residuals.constant.levels if each.term == term)
            for value, tables in zip(found.values, found.tables, strict=True):
                limit = tables[0].above(level)
                if np.isfinite(limit):
                    limits[cells == value] = limit
                else:
                    lacking.append(value)
            self._warn_of_groups(lacking, term)
        members = 1.0 - probabilities <= limits[:, None] + 1e-12
        members[np.arange(len(members)), probabilities.argmax(axis=1)] = True
        by = None if term is None else self.encoder_.names[self.encoder_.terms[term].column]
        return PredictionSets(members, self.classes_, level, residuals.method, guarantee_of(residuals, level, by))

    def calibrated_proba(self, X: ArrayLike) -> Matrix:
        """Return probabilities of the classes after the correction that lowers the loss of left-out rows for certain.

        Where none does, they are those of ``predict_proba``; `uncertainty` says which correction it is.

        Returns
        -------
        ndarray of shape (rows, classes)
        """
        residuals = self._residuals("calibrated_proba")
        assert residuals.reliability is not None
        means = residuals.reliability.apply(
            self.model_.family, self.model_.scores(reader_of(self.encoder_, self.model_).encode(X))
        )
        return np.column_stack([1.0 - means, means]) if self.model_.family.response == "binary" else means
