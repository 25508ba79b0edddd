"""The methods beside SNAM: LASSO, ℓ1 logistic regression, ℓ1 support-vector machines and boosted trees.

The linear ones see standardised columns. The ℓ1 support-vector regression has no solver elsewhere: it is solved by
the alternating direction method of multipliers (ADMM).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LassoCV, LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from paper.fitted import ALL_KEPT, FOLDS, FittedMethod, choose, indices_of
from paper.recipe import Settings
from paper.tasks import Rows, Split

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


class MissingPackageError(ImportError):
    """A method needs a package that is not installed."""


def linear_method(coefficients: Vector, intercept: float, *, log_odds: bool) -> FittedMethod:
    """Return the method β + Σⱼ bⱼxⱼ with effects bⱼxⱼ; coefficients have shape (columns,).

    As in the paper the parameters are the coefficients that are not zero.
    """

    def score(X: Matrix) -> Vector:
        return X @ coefficients + intercept

    kept = indices_of(coefficients != 0)
    return FittedMethod(
        predict=(lambda X: expit(score(X))) if log_odds else score,
        effects=lambda X: X * coefficients,
        support=kept,
        n_parameters=len(kept),
    )


def fit_lasso(split: Split, settings: Settings, seed: int) -> FittedMethod:
    """Fit scikit-learn's LASSO, its penalty by five-fold cross-validation."""
    scaler = StandardScaler().fit(split.train.X)
    model = LassoCV(cv=FOLDS, max_iter=10_000, **settings).fit(scaler.transform(split.train.X), split.train.y)
    fitted = linear_method(model.coef_, float(model.intercept_), log_odds=False)
    return fitted.after(scaler.transform).having_chosen(alpha=float(model.alpha_))


def fit_logistic(split: Split, settings: Settings, seed: int) -> FittedMethod:
    """Fit ℓ1-penalised logistic regression, its penalty by five-fold cross-validation of the cross-entropy.

    ``strengths`` are the inverse penalties C to try.
    """

    def fit(strength: float, rows: Rows) -> FittedMethod:
        model = _lasso_logistic(strength, seed).fit(rows.X, rows.y)
        return linear_method(model.coef_[0], float(model.intercept_[0]), log_odds=True)

    scaler = StandardScaler().fit(split.train.X)
    rows = Rows(scaler.transform(split.train.X), split.train.y)
    best = choose(_grid(settings, "strengths", (-3, 1, 9)), fit, rows, split.kind, seed, FOLDS)
    return fit(best, rows).after(scaler.transform).having_chosen(C=best)


def _lasso_logistic(strength: float, seed: int) -> LogisticRegression:
    # scikit-learn 1.8 replaced penalty by l1_ratio; both mean the same model
    newer = inspect.signature(LogisticRegression).parameters["penalty"].default == "deprecated"
    penalty: dict[str, object] = {"l1_ratio": 1.0} if newer else {"penalty": "l1"}
    return LogisticRegression(C=strength, solver="saga", tol=1e-4, max_iter=2000, random_state=seed, **penalty)


def fit_support_vectors(split: Split, settings: Settings, seed: int) -> FittedMethod:
    """Fit an ℓ1-SVM: hinge loss squared for classes, ε-insensitive loss for numbers."""
    scaler = StandardScaler().fit(split.train.X)
    rows = Rows(scaler.transform(split.train.X), split.train.y)
    fit = _fit_numbers if split.kind == "regression" else _fit_classes
    return fit(rows, settings, seed).after(scaler.transform)


def _fit_numbers(rows: Rows, settings: Settings, seed: int) -> FittedMethod:
    """Choose α by validation for mean max(|y - Xb - β| - ε, 0) + α‖b‖₁, on standardised columns.

    ``alphas`` are taken as they are: both terms have the unit of y. ``epsilon`` is a multiple of the mean absolute
    deviation of y from its median.
    """
    unit = float(np.mean(np.abs(rows.y - np.median(rows.y)))) or 1.0
    epsilon = unit * float(settings.get("epsilon", 0.1))
    alphas = sorted(_grid(settings, "alphas", (-3, -0.5, 6)), reverse=True)

    def fit(alpha: float, rows: Rows) -> FittedMethod:
        above = [value for value in alphas if value >= alpha]  # the path down from the largest is a warm start
        coefficients, intercept = insensitive_path(rows.X, rows.y, above, epsilon)[-1]
        return linear_method(coefficients, intercept, log_odds=False)

    best = choose(alphas, fit, rows, "regression", seed)
    return fit(best, rows).having_chosen(alpha=best, epsilon=epsilon)


def _fit_classes(rows: Rows, settings: Settings, seed: int) -> FittedMethod:
    """Choose C by five-fold validation of the cross-entropy; a sigmoid makes scores into probabilities (Platt)."""

    def fit(strength: float, rows: Rows) -> FittedMethod:
        machine = LinearSVC(penalty="l1", dual=False, C=strength, max_iter=5000, random_state=seed)
        model = CalibratedClassifierCV(machine, method="sigmoid", cv=FOLDS, ensemble=False).fit(rows.X, rows.y)
        (calibrated,) = model.calibrated_classifiers_
        (sigmoid,) = calibrated.calibrators
        # P(1) = 1 / (1 + exp(a s + b)): the log odds are -a s - b, linear in the columns
        coefficients = -float(sigmoid.a_) * calibrated.estimator.coef_[0]
        intercept = -float(sigmoid.a_) * float(calibrated.estimator.intercept_[0]) - float(sigmoid.b_)
        return linear_method(coefficients, intercept, log_odds=True)

    best = choose(_grid(settings, "strengths", (-4, 0, 9)), fit, rows, "classification", seed, FOLDS)
    return fit(best, rows).having_chosen(C=best)


def _grid(settings: Settings, key: str, exponents: tuple[float, float, int]) -> list[float]:
    """Return the candidates of a setting; by default powers of ten from the first exponent to the second."""
    return np.asarray(settings.get(key, np.logspace(*exponents)), dtype=np.float64).tolist()


def fit_boosting(split: Split, settings: Settings, seed: int) -> FittedMethod:
    """Fit an explainable boosting machine without interactions; its effects are its terms' contributions."""
    try:
        from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor
    except ImportError as error:
        raise MissingPackageError('interpret is not installed; pip install "sparsenam[ebm]"') from error
    regression = split.kind == "regression"
    make = ExplainableBoostingRegressor if regression else ExplainableBoostingClassifier
    model: Any = make(feature_names=list(split.names), **{"interactions": 0, "random_state": seed, **settings})
    model.fit(split.train.X, split.train.y)

    def effects(X: Matrix) -> Matrix:
        contributions = model.eval_terms(X)
        shares = np.zeros(X.shape)
        for term, (column,) in enumerate(model.term_features_):
            shares[:, column] = contributions[:, term]
        return shares

    return FittedMethod(
        predict=model.predict if regression else lambda X: model.predict_proba(X)[:, 1],
        effects=effects,
        support=tuple(range(len(split.names))),
        n_parameters=sum(int(np.size(scores)) for scores in model.term_scores_),
        support_rule=ALL_KEPT,
    )


def insensitive_objective(
    X: Matrix, y: Vector, coefficients: Vector, intercept: float, alpha: float, epsilon: float
) -> float:
    """Return mean max(|y - Xb - β| - ε, 0) + α‖b‖₁; X has shape (rows, columns)."""
    residuals = np.abs(y - X @ coefficients - intercept)
    return float(np.mean(np.maximum(residuals - epsilon, 0.0)) + alpha * np.sum(np.abs(coefficients)))


def insensitive_path(
    X: Matrix, y: Vector, alphas: Sequence[float], epsilon: float, *, tol: float = 1e-4, max_iter: int = 2000
) -> list[tuple[Vector, float]]:
    """Return (b, β) minimising mean max(|y - Xb - β| - ε, 0) + α‖b‖₁ for each alpha, each started from the last.

    Residuals r = y - Xb - β and the copy z = b are split off, so that one step is a soft threshold of r and z
    and a least-squares step with one matrix, factored once. Columns are meant to be standardised; y is divided by
    its mean absolute deviation inside, so that one step size serves every unit.
    """
    scale = float(np.mean(np.abs(y - np.median(y)))) or 1.0
    state = _Splitting(X, y / scale)
    solutions: list[tuple[Vector, float]] = []
    for alpha in alphas:
        state.run(alpha, epsilon / scale, tol, max_iter)
        solutions.append((state.copy * scale, state.intercept(epsilon / scale) * scale))
    return solutions


class _Splitting:
    """ADMM's state: coefficients, residuals, the sparse copy, the scaled multipliers, and the factored matrix."""

    def __init__(self, X: Matrix, y: Vector) -> None:
        self.design = np.column_stack([X, np.ones(y.size)])
        self.y = y
        self.weights = np.zeros(X.shape[1] + 1)
        self.residuals = y.copy()
        self.copy = np.zeros(X.shape[1])
        self.of_residuals = np.zeros(y.size)
        self.of_copy = np.zeros(X.shape[1])
        # the copy's constraint weighs as much as all rows do, or it would be met only after very many steps
        self.share = float(y.size)
        matrix = self.design.T @ self.design
        matrix[np.arange(X.shape[1]), np.arange(X.shape[1])] += self.share
        self.factor = cho_factor(matrix)

    def run(self, alpha: float, epsilon: float, tol: float, max_iter: int) -> None:
        """Step until constraints and steps are small against the data."""
        rows = self.y.size
        for _ in range(max_iter):
            aim = self.design.T @ (self.y - self.residuals - self.of_residuals)
            aim[:-1] += self.share * (self.copy - self.of_copy)
            self.weights = cho_solve(self.factor, aim)
            gaps = self.y - self.design @ self.weights
            before = self.copy
            self.residuals = _shrink_outside(gaps - self.of_residuals, epsilon)
            self.copy = _soft(self.weights[:-1] + self.of_copy, alpha * rows / self.share)
            self.of_residuals += self.residuals - gaps
            self.of_copy += self.weights[:-1] - self.copy
            apart = np.sqrt(np.mean((self.residuals - gaps) ** 2)) + np.abs(self.weights[:-1] - self.copy).max()
            if apart < tol and np.abs(self.copy - before).max(initial=0.0) < tol:
                break

    def intercept(self, epsilon: float) -> float:
        """Return the best intercept for the sparse copy: the middle of the half that loses on either side."""
        gaps = self.y - self.design[:, :-1] @ self.copy
        edges = np.sort(np.concatenate([gaps - epsilon, gaps + epsilon]))
        return float(0.5 * (edges[self.y.size - 1] + edges[self.y.size]))


def _soft(values: Vector, threshold: float) -> Vector:
    return np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0)


def _shrink_outside(values: Vector, epsilon: float) -> Vector:
    """Return argmin over r of max(|r| - ε, 0) + ½(r - value)²."""
    beyond = np.maximum(np.abs(values) - epsilon, 0.0)
    return np.sign(values) * (np.minimum(np.abs(values), epsilon) + np.maximum(beyond - 1.0, 0.0))
