"""What the estimators share: fit by the one way through, and answers read from the fitted model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from os import PathLike
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.utils.validation import check_is_fitted

from sparsenam.convex.certificate import Certificate
from sparsenam.estimators.fitting import Fitted, fit_additive
from sparsenam.estimators.settings import Settings
from sparsenam.explain import (
    Explanation,
    FitRecord,
    LocalExplanation,
    Task,
    TrainingSummary,
    explain_model,
    explain_rows,
    output_names,
    read_cells,
    row_labels,
    score_units,
    summarize_data,
    summarize_training,
)
from sparsenam.export import save_estimator
from sparsenam.families import Family
from sparsenam.fitting.threads import threads
from sparsenam.model import AdditiveModel
from sparsenam.selection import CVCurve, PathPoint, RegularizationPath
from sparsenam.selection.folds import Splits, deal, splits_of_present
from sparsenam.tables import PreparedSample, Sample, TableEncoder, prepare
from sparsenam.tables.groups import grouping_of
from sparsenam.training.run import History
from sparsenam.training.solvers import as_solver

Matrix = NDArray[np.float64]


class AdditiveEstimator(BaseEstimator):
    """An estimator whose fitted state is an `AdditiveModel`."""

    model_: AdditiveModel
    alpha_: float
    intercept_: float | NDArray[np.float64]
    n_parameters_: int
    history_: History
    stationarity_: float | None
    norms_: NDArray[np.float64]
    certificate_: Certificate | None
    cv_curve_: CVCurve | None
    woken_: tuple[str, ...]
    stand_ins_: dict[str, dict[str, float]]
    table_: TableEncoder
    summary_: TrainingSummary
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]

    def effects(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return each feature's centred share of the linear predictor, 0 for dropped features.

        Returns
        -------
        ndarray of shape (rows, features_in) or, for several outputs, (rows, features_in, outputs)
            With ``intercept_`` they add up to the linear predictor: the prediction itself for regression,
            log odds for classification.
        """
        check_is_fitted(self)
        effects = by_column(self.table_, self.model_.effects(self._encode(X)), axis=1)
        return effects[:, :, 0] if effects.shape[2] == 1 else effects

    def missing_effects(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the part of `effects` that is due to cells being missing or not, in the same shape.

        It is centred like every effect: what a missing cell adds beyond a present one is the difference.
        """
        check_is_fitted(self)
        terms, encoded = self.table_.terms, self._encode(X)
        effects = self.model_.effects(encoded)
        present = ~np.isnan(encoded)[:, :, None] & np.array([term.kind != "missing" for term in terms])[:, None]
        effects = by_column(self.table_, np.where(present, 0.0, effects), axis=1)
        return effects[:, :, 0] if effects.shape[2] == 1 else effects

    def explain(self, X: ArrayLike | None = None) -> Explanation:
        """Return what the model does with each column, as data for pictures, pages and files.

        Parameters
        ----------
        X : table of shape (rows, features), optional
            Rows whose densities and importances are shown; by default those of the training data.
        """
        check_is_fitted(self)
        if X is None:
            return explain_model(self._record(), self.summary_.data)
        encoded, cells = self._encode(X), read_cells(self.table_, X)
        data = summarize_data(self.table_, self.model_, encoded, missing=[own.missing for own in cells])
        return explain_model(self._record(), data)

    def explain_local(self, X: ArrayLike) -> LocalExplanation:
        """Return what each column adds to the score of each row, in numbers and in words.

        Parameters
        ----------
        X : table of shape (rows, features)
            The rows to explain.
        """
        check_is_fitted(self)
        encoded = self._encode(X)
        return explain_rows(self._record(), encoded, read_cells(self.table_, X), row_labels(X, len(encoded)))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator into a file that `sparsenam.load` reads, usually named ``….snam``.

        The file is a safetensors file and holds data only: no pickle, no code. It appears whole or not at all.
        """
        check_is_fitted(self)
        save_estimator(self, path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _scores(self, X: ArrayLike) -> Matrix:
        check_is_fitted(self)
        return self.model_.scores(self._encode(X))

    def _encode(self, X: ArrayLike) -> Matrix:
        """Return the terms of a table like that of the fit, shape (rows, terms)."""
        return self.table_.encode(X).values

    def _read(self, X: ArrayLike) -> Matrix:
        """Learn the table's columns and return its terms, shape (rows, terms)."""
        kinds = getattr(self, "feature_types", None)
        split = self._trains_an_architecture()
        self.table_, encoded = TableEncoder.fit(X, kinds, split_levels=split, owner=type(self).__name__)
        self.n_features_in_ = len(self.table_.columns)
        if self.table_.named:
            self.feature_names_in_ = np.array(self.table_.names, dtype=object)
        else:
            vars(self).pop("feature_names_in_", None)
        return encoded.values

    def _trains_an_architecture(self) -> bool:
        """Return whether sub-networks will be trained that read numbers alone, hence a category level by level."""
        settings = self._settings()
        return not (settings.hidden == "auto" and settings.starts_convex and settings.refits)

    def _settings(self) -> Settings:
        return Settings.of(self.get_params(deep=False))

    def _record(self) -> FitRecord:
        """Return what explaining needs to know of this fit."""
        family, table, settings = self.model_.family, self.table_, self.get_params(deep=False)
        task: Task = "classification" if hasattr(self, "classes_") else "regression"
        if hasattr(self, "event_times_"):
            task = "survival"
        outputs = output_names(task, family.name, getattr(self, "classes_", ()), self.model_.intercept.size)
        curve, solver = self.cv_curve_, settings.get("solver", "auto")
        asked: Sequence[str | int] = settings.get("keep") or ()
        column = {term.name: table.names[term.column] for term in table.terms}
        substitutes: dict[str, dict[str, float]] = {}
        for name, shares in self.stand_ins_.items():
            substitutes.setdefault(column[name], {}).update(
                {column[other]: share for other, share in shares.items()}
            )
        return FitRecord(
            task=task,
            outputs=outputs,
            units=score_units(task, family.name, family.link, outputs),
            model=self.model_,
            encoder=table,
            summary=self.summary_,
            norms=self.norms_,
            alpha=self.alpha_,
            certificate=None if self.certificate_ is None else _by_columns(self.certificate_, column),
            curve=curve,
            taken=None if curve is None else curve.choose(settings.get("rule", "compact")),
            readmitted=frozenset(column[name] for name in self.woken_),
            substitutes=substitutes,
            history=self.history_,
            always_keep=frozenset(name if isinstance(name, str) else table.names[name] for name in asked),
            threshold=None if solver == "auto" or as_solver(solver).proximal else settings.get("threshold"),
            estimator=type(self).__name__,
            settings=settings,
        )

    def _solve(self, sample: Sample, family: Family, splits: Splits | None) -> Fitted:
        return fit_additive(sample, family, self._settings(), splits)

    def _splits(self, sample: Sample, groups: ArrayLike | None) -> Splits | None:
        """Return the folds of an estimator with a ``cv`` of its own; None lets the fit deal them."""
        cv: int | BaseCrossValidator | None = getattr(self, "cv", None)
        present = sample.present
        target = sample.target
        if cv is None or isinstance(cv, Integral):
            return None if cv is None else deal(target[present], int(cv), getattr(self, "random_state", None))
        answer = target.argmax(axis=1) if target.shape[1] > 1 else target[:, 0]
        return splits_of_present(check_cv(cv).split(sample.columns, answer, groups), present)

    def _fit(
        self,
        columns: Matrix,
        target: Matrix,
        weights: NDArray[np.float64],
        family: Family,
        groups: ArrayLike | None = None,
        exposure: NDArray[np.float64] | None = None,
    ) -> Self:
        terms = self.table_.terms
        names = [term.name for term in terms]
        asked = (getattr(self, word, None) for word in ("feature_groups", "penalty_weights", "keep"))
        sample = Sample(
            columns,
            target,
            weights,
            names,
            levels=np.array([term.kind == "levels" for term in terms], dtype=np.bool_),
            grouping=grouping_of(self.table_, *asked),
            exposure=exposure,
        )
        started = time.perf_counter()
        splits = self._splits(sample, groups)
        with threads(getattr(self, "n_jobs", None)):
            fitted = self._solve(sample, family, splits)
        attributes = _attributes(fitted)
        if hasattr(self, "cv") and (path := _column_path(self.table_, fitted)) is not None:
            attributes["path_"] = path
        attributes["norms_"] = np.sqrt(by_column(self.table_, fitted.norms**2, axis=0))
        attributes["summary_"] = _summary(self.table_, sample, fitted, time.perf_counter() - started)
        for name, value in attributes.items():
            setattr(self, name, value)
        return self


class SupportMixin(SelectorMixin):
    """scikit-learn's selector interface, read from the fitted model: a column is kept for any of its terms."""

    model_: AdditiveModel
    table_: TableEncoder

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        mask = np.zeros(len(self.table_.columns), dtype=bool)
        mask[[self.table_.terms[int(place)].column for place in self.model_.features]] = True
        return mask


def by_column(table: TableEncoder, values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Return values of the table's terms, along an axis, added up for each of its columns."""
    columns = np.array([term.column for term in table.terms], dtype=np.intp)
    if np.array_equal(columns, np.arange(len(table.columns))):
        return values
    shape = list(values.shape)
    shape[axis] = len(table.columns)
    totals = np.zeros(shape)
    np.add.at(np.moveaxis(totals, axis, 0), columns, np.moveaxis(values, axis, 0))
    return totals


def _by_columns(certificate: Certificate, column: dict[str, str]) -> Certificate:
    """Return the certificate with columns for terms; of a dropped column's terms the one nearest to entering."""
    slack: dict[str, float] = {}
    for name, share in certificate.slack.items():
        slack[column.get(name, name)] = max(share, slack.get(column.get(name, name), 0.0))
    kept = tuple(dict.fromkeys(column.get(name, name) for name in certificate.kept))
    return replace(certificate, slack={name: share for name, share in slack.items() if name not in kept}, kept=kept)


def _column_path(table: TableEncoder, fitted: Fitted) -> RegularizationPath | None:
    """Return the path that the choice walked, by columns."""
    if fitted.choice is None or not fitted.choice.points:
        return None
    path = fitted.choice.task.path(fitted.choice.points, tuple(term.name for term in table.terms))
    points: list[PathPoint] = []
    for point in path:
        columns = np.unique([table.terms[int(term)].column for term in point.features]).astype(np.intp)
        points.append(replace(point, features=columns, norms=np.sqrt(by_column(table, point.norms**2, axis=0))))
    return RegularizationPath(tuple(points), table.names)


def _summary(table: TableEncoder, sample: Sample, fitted: Fitted, seconds: float) -> TrainingSummary:
    counts = sample.weights if sample.exposure is None else sample.weights * (sample.exposure > 0)
    prepared = _prepared(sample) if fitted.choice is None else fitted.choice.task.prepared
    path = _column_path(table, fitted)
    return summarize_training(table, prepared, fitted.model, sample.columns, counts, path, seconds)


def _prepared(sample: Sample) -> PreparedSample:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit has warned of constant columns
        plain = Sample(sample.columns, sample.target, sample.weights, sample.names, sample.levels, sample.grouping)
        return prepare(plain, standardize=True)


def _attributes(fitted: Fitted) -> dict[str, object]:
    intercept, choice = fitted.model.intercept, fitted.choice
    return {
        "alpha_": fitted.alpha,
        "intercept_": float(intercept[0]) if intercept.size == 1 else intercept.copy(),
        "n_parameters_": fitted.model.n_parameters,
        "history_": fitted.history,
        "stationarity_": fitted.stationarity,
        "stand_ins_": fitted.stand_ins,
        "certificate_": None if choice is None else choice.certificate,
        "cv_curve_": None if choice is None else choice.curve,
        "woken_": fitted.woken,
        "model_": fitted.model,
    }
