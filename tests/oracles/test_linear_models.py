"""Without hidden layers SNAM is a sparse linear model, and scikit-learn's solvers are the oracle."""

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, MultiTaskLasso, Ridge

from networks_by_name import trained
from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.penalties import GroupElasticNet

FRACTIONS = (1.01, 0.9, 0.5, 0.1, 0.01, 0.001)


def standardized(columns):
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def random_problem(seed, rows=80, features=10):
    generator = np.random.default_rng(seed)
    mixing = np.eye(features) + 0.4 * generator.normal(size=(features, features))
    X = 5 + 3 * generator.normal(size=(rows, features)) @ mixing
    y = 7 + X[:, :3] @ [3.0, -2.0, 1.0] + 10 * generator.normal(size=rows)
    return X, y


def spread(values, weights):
    return np.sqrt(np.average((values - np.average(values, axis=0, weights=weights)) ** 2, axis=0, weights=weights))


def coefficients(model, X, y=None, weights=None):
    """Return the slopes (features, outputs) for standardised columns, and for a standardised target if one is given."""
    coefs = np.zeros((model.n_features_in_, model.model_.intercept.size))
    for term, curve in zip(model.model_.terms, model.model_.curves, strict=True):
        coefs[term] = curve.right_slope * spread(X[:, term], weights) / (1.0 if y is None else spread(y, weights))
    return coefs


@pytest.mark.parametrize("seed", range(10))
def test_linear_group_lasso_is_scikit_learns_lasso(seed):
    X, y = random_problem(seed)
    columns, target = standardized(X), standardized(y)
    largest = np.abs(columns.T @ target).max() / len(y)
    for fraction in FRACTIONS:
        alpha = fraction * largest
        model = trained(SNAMRegressor, hidden=(), alpha=alpha, random_state=seed).fit(X, y)
        oracle = Lasso(alpha=alpha, tol=1e-12, max_iter=100_000).fit(columns, target)
        np.testing.assert_allclose(coefficients(model, X, y)[:, 0], oracle.coef_, atol=1e-5)
        np.testing.assert_allclose(model.predict(X), y.mean() + y.std() * oracle.predict(columns), atol=1e-4 * y.std())
        assert (fraction > 1) == (model.get_support().sum() == 0)


@pytest.mark.parametrize("seed", range(3))
def test_linear_multi_task_model_is_scikit_learns(seed):
    X, y = random_problem(seed)
    Y = np.column_stack([y, X[:, 0] - X[:, 4], np.random.default_rng(seed).normal(size=len(y))])
    columns, target = standardized(X), standardized(Y)
    for alpha in (0.5, 0.1, 0.01):
        model = trained(SNAMRegressor, hidden=(), alpha=alpha, random_state=0).fit(X, Y)
        oracle = MultiTaskLasso(alpha=alpha, tol=1e-12, max_iter=100_000).fit(columns, target)
        np.testing.assert_allclose(coefficients(model, X, Y), oracle.coef_.T, atol=1e-5)


@pytest.mark.parametrize("ratio", [0.2, 0.8])
def test_linear_elastic_net_is_scikit_learns(ratio):
    X, y = random_problem(5)
    model = trained(SNAMRegressor, hidden=(), alpha=0.2, penalty=GroupElasticNet(ratio), random_state=0).fit(X, y)
    oracle = ElasticNet(alpha=0.2, l1_ratio=ratio, tol=1e-12, max_iter=100_000)
    oracle.fit(standardized(X), standardized(y))
    np.testing.assert_allclose(coefficients(model, X, y)[:, 0], oracle.coef_, atol=1e-5)


def test_weight_decay_alone_is_ridge():
    X, y = random_problem(6)
    model = trained(SNAMRegressor, hidden=(), alpha=0.0, weight_decay=0.3, random_state=0).fit(X, y)
    oracle = Ridge(alpha=0.3 * len(y), tol=1e-12).fit(standardized(X), standardized(y))
    np.testing.assert_allclose(coefficients(model, X, y)[:, 0], oracle.coef_, atol=1e-5)


def test_sample_weights_are_scikit_learns():
    X, y = random_problem(7)
    weights = np.random.default_rng(0).uniform(0, 3, size=len(y))
    center = np.average(X, axis=0, weights=weights)
    columns = (X - center) / np.sqrt(np.average((X - center) ** 2, axis=0, weights=weights))
    middle = np.average(y, weights=weights)
    target = (y - middle) / np.sqrt(np.average((y - middle) ** 2, weights=weights))
    model = trained(SNAMRegressor, hidden=(), alpha=0.1, random_state=0).fit(X, y, sample_weight=weights)
    oracle = Lasso(alpha=0.1, tol=1e-12, max_iter=100_000).fit(columns, target, sample_weight=weights)
    np.testing.assert_allclose(coefficients(model, X, y, weights)[:, 0], oracle.coef_, atol=1e-5)


@pytest.mark.parametrize("solver", ["fista", "prox_gd"])
def test_linear_classifier_is_l1_logistic_regression(solver):
    X, y = random_problem(8)
    labels = np.where(y > np.median(y), "high", "low")
    columns = standardized(X)
    for alpha in (0.1, 0.02):
        model = trained(SNAMClassifier, hidden=(), alpha=alpha, solver=solver, random_state=0).fit(X, labels)
        oracle = LogisticRegression(l1_ratio=1.0, C=1 / (alpha * len(y)), solver="saga", tol=1e-10, max_iter=100_000)
        oracle.fit(columns, labels)
        np.testing.assert_allclose(coefficients(model, X)[:, 0], oracle.coef_[0], atol=1e-4)
        np.testing.assert_allclose(model.predict_proba(X), oracle.predict_proba(columns), atol=1e-4)


@pytest.mark.parametrize("penalize", ["output", "function"])
def test_every_group_of_a_linear_model_is_the_same(penalize):
    """On standardised columns a linear effect's parameter and its root mean square are one number."""
    X, y = random_problem(9)
    whole = trained(SNAMRegressor, hidden=(), alpha=0.05, random_state=0).fit(X, y)
    other = trained(SNAMRegressor, hidden=(), alpha=0.05, penalize=penalize, random_state=0).fit(X, y)
    np.testing.assert_allclose(coefficients(other, X, y), coefficients(whole, X, y), atol=1e-4)
