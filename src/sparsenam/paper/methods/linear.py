"""Linear methods with an ℓ1 penalty, on standardised columns: LASSO and logistic regression."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LassoCV, LogisticRegression
from sklearn.preprocessing import StandardScaler

from sparsenam.families import Binomial
from sparsenam.paper.methods.fitted import FittedMethod, places
from sparsenam.paper.methods.tuning import FOLDS, choose
from sparsenam.paper.tasks import Rows, Split

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def linear_method(coefficients: Vector, intercept: float, *, log_odds: bool) -> FittedMethod:
    """Return the method β + Σⱼ bⱼxⱼ with effects bⱼxⱼ; coefficients have shape (features,).

    As in the paper the parameters are the coefficients that are not zero.
    """

    def score(X: Matrix) -> Vector:
        return X @ coefficients + intercept

    kept = places(coefficients != 0)
    return FittedMethod(
        predict=(lambda X: Binomial().mean(score(X))) if log_odds else score,
        effects=lambda X: X * coefficients,
        support=kept,
        n_parameters=len(kept),
    )


def fit_lasso(split: Split, settings: Mapping[str, object], seed: int) -> FittedMethod:
    """Fit scikit-learn's LASSO, its penalty by five-fold cross-validation."""
    scaler = StandardScaler().fit(split.train.X)
    model = LassoCV(cv=FOLDS, max_iter=10_000, **settings).fit(scaler.transform(split.train.X), split.train.y)
    fitted = linear_method(model.coef_, float(model.intercept_), log_odds=False)
    return fitted.after(scaler.transform).having_chosen(alpha=float(model.alpha_))


def fit_logistic(split: Split, settings: Mapping[str, object], seed: int) -> FittedMethod:
    """Fit ℓ1-penalised logistic regression, its penalty by five-fold cross-validation of the cross-entropy.

    ``strengths`` are the inverse penalties C to try.
    """
    scaler = StandardScaler().fit(split.train.X)
    strengths = np.asarray(settings.get("strengths", np.logspace(-3, 1, 9))).tolist()
    rows = Rows(scaler.transform(split.train.X), split.train.y)

    def fit(strength: float, own: Rows) -> FittedMethod:
        model = _lasso_logistic(strength, seed).fit(own.X, own.y)
        return linear_method(model.coef_[0], float(model.intercept_[0]), log_odds=True)

    best = choose(strengths, fit, rows, split.kind, seed, FOLDS)
    return fit(best, rows).after(scaler.transform).having_chosen(C=best)


def _lasso_logistic(strength: float, seed: int) -> LogisticRegression:
    # scikit-learn 1.8 put l1_ratio in the place of penalty; both spellings mean the same model
    newer = inspect.signature(LogisticRegression).parameters["penalty"].default == "deprecated"
    spelling: dict[str, object] = {"l1_ratio": 1.0} if newer else {"penalty": "l1"}
    return LogisticRegression(C=strength, solver="saga", tol=1e-4, max_iter=2000, random_state=seed, **spelling)
