"""What the estimators share: fit by the one way through, and answers read from the fitted model."""

from __future__ import annotations

from numbers import Integral
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
from sparsenam.estimators.threads import threads
from sparsenam.estimators.validation import check_columns, column_names
from sparsenam.families import Family
from sparsenam.model import AdditiveModel
from sparsenam.selection import CVCurve
from sparsenam.selection.folds import Splits, deal, splits_of_present
from sparsenam.tables import Sample
from sparsenam.training.fit import History

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
        effects = self.model_.effects(check_columns(self, X, reset=False))
        return effects[:, :, 0] if effects.shape[2] == 1 else effects

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _scores(self, X: ArrayLike) -> Matrix:
        check_is_fitted(self)
        return self.model_.scores(check_columns(self, X, reset=False))

    def _settings(self) -> Settings:
        return Settings.of(self.get_params(deep=False))

    def _solve(self, sample: Sample, family: Family, splits: Splits | None) -> Fitted:
        return fit_additive(sample, family, self._settings(), splits)

    def _splits(self, sample: Sample, groups: ArrayLike | None) -> Splits | None:
        """Return the folds of an estimator with a ``cv`` of its own; None lets the fit deal them."""
        cv: int | BaseCrossValidator | None = getattr(self, "cv", None)
        present = sample.weights > 0
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
    ) -> Self:
        names = column_names(self, columns.shape[1])
        sample = Sample(columns, target, weights, names)
        splits = self._splits(sample, groups)
        with threads(getattr(self, "n_jobs", None)):
            fitted = self._solve(sample, family, splits)
        for name, value in _attributes(fitted, tuple(names), hasattr(self, "cv")).items():
            setattr(self, name, value)
        return self


class SupportMixin(SelectorMixin):
    """scikit-learn's selector interface, read from the fitted model."""

    model_: AdditiveModel

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        mask = np.zeros(self.model_.n_features_in, dtype=bool)
        mask[self.model_.features] = True
        return mask


def _attributes(fitted: Fitted, names: tuple[str, ...], with_path: bool) -> dict[str, object]:
    intercept, choice = fitted.model.intercept, fitted.choice
    attributes: dict[str, object] = {
        "alpha_": fitted.alpha,
        "intercept_": float(intercept[0]) if intercept.size == 1 else intercept.copy(),
        "n_parameters_": fitted.model.n_parameters,
        "history_": fitted.history,
        "stationarity_": fitted.stationarity,
        "norms_": fitted.norms,
        "certificate_": None if choice is None else choice.certificate,
        "cv_curve_": None if choice is None else choice.curve,
        "woken_": fitted.woken,
        "model_": fitted.model,
    }
    if with_path and choice is not None:
        attributes["path_"] = choice.task.path(choice.points, names)
    return attributes
