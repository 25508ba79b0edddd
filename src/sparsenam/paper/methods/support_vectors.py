"""Linear support-vector machines with an ℓ1 penalty, on standardised columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sparsenam.paper.methods.fitted import FittedMethod
from sparsenam.paper.methods.l1_regression import insensitive_path
from sparsenam.paper.methods.linear import linear_method
from sparsenam.paper.methods.tuning import FOLDS, choose
from sparsenam.paper.tasks import Rows, Split


def fit_support_vectors(split: Split, settings: Mapping[str, object], seed: int) -> FittedMethod:
    """Fit an ℓ1-SVM: hinge loss squared for classes, ε-insensitive loss for numbers."""
    scaler = StandardScaler().fit(split.train.X)
    rows = Rows(scaler.transform(split.train.X), split.train.y)
    fit = _fit_numbers if split.kind == "regression" else _fit_classes
    return fit(rows, settings, seed).after(scaler.transform)


def _fit_numbers(rows: Rows, settings: Mapping[str, object], seed: int) -> FittedMethod:
    """Choose α by validation for mean max(|y - Xb - β| - ε, 0) + α‖b‖₁, on standardised columns.

    ``alphas`` are taken as they are: both terms have the unit of y. ``epsilon`` is a multiple of the mean absolute
    deviation of y from its median.
    """
    unit = float(np.mean(np.abs(rows.y - np.median(rows.y)))) or 1.0
    epsilon = unit * float(str(settings.get("epsilon", 0.1)))
    alphas = sorted(np.asarray(settings.get("alphas", np.logspace(-3, -0.5, 6))).tolist(), reverse=True)

    def fit(alpha: float, own: Rows) -> FittedMethod:
        # the walk down from the largest alpha is a warm start
        above = [value for value in alphas if value >= alpha]
        coefficients, intercept = insensitive_path(own.X, own.y, above, epsilon)[-1]
        return linear_method(coefficients, intercept, log_odds=False)

    best = choose(alphas, fit, rows, "regression", seed)
    return fit(best, rows).having_chosen(alpha=best, epsilon=epsilon)


def _fit_classes(rows: Rows, settings: Mapping[str, object], seed: int) -> FittedMethod:
    """Choose C by five-fold validation of the cross-entropy; a sigmoid makes scores into probabilities (Platt)."""
    strengths = np.asarray(settings.get("strengths", np.logspace(-4, 0, 9))).tolist()

    def fit(strength: float, own: Rows) -> FittedMethod:
        machine = LinearSVC(penalty="l1", dual=False, C=strength, max_iter=5000, random_state=seed)
        model = CalibratedClassifierCV(machine, method="sigmoid", cv=FOLDS, ensemble=False).fit(own.X, own.y)
        (calibrated,) = model.calibrated_classifiers_
        (sigmoid,) = calibrated.calibrators
        # P(1) = 1 / (1 + exp(a s + b)): the log odds are -a s - b, linear in the columns
        coefficients = -float(sigmoid.a_) * calibrated.estimator.coef_[0]
        intercept = -float(sigmoid.a_) * float(calibrated.estimator.intercept_[0]) - float(sigmoid.b_)
        return linear_method(coefficients, intercept, log_odds=True)

    best = choose(strengths, fit, rows, "classification", seed, FOLDS)
    return fit(best, rows).having_chosen(C=best)
