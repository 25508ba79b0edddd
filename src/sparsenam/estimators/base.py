"""What the estimators share: fit by the one way through, and answers read from the fitted model."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from sparsenam.convex.certificate import Certificate
from sparsenam.estimators.fitting import Fitted, fit_additive
from sparsenam.estimators.settings import Settings
from sparsenam.estimators.validation import check_columns, column_names
from sparsenam.families import Family
from sparsenam.model import AdditiveModel
from sparsenam.selection import CVCurve
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

    def _fit(self, columns: Matrix, target: Matrix, weights: NDArray[np.float64], family: Family) -> Self:
        settings = self._settings()
        sample = Sample(columns, target, weights, column_names(self, columns.shape[1]))
        fitted = fit_additive(sample, family, settings)
        for name, value in _attributes(fitted).items():
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


def _attributes(fitted: Fitted) -> dict[str, object]:
    intercept = fitted.model.intercept
    return {
        "alpha_": fitted.alpha,
        "intercept_": float(intercept[0]) if intercept.size == 1 else intercept.copy(),
        "n_parameters_": fitted.model.n_parameters,
        "history_": fitted.history,
        "stationarity_": fitted.stationarity,
        "norms_": fitted.norms,
        "certificate_": fitted.certificate,
        "cv_curve_": fitted.curve,
        "model_": fitted.model,
    }
