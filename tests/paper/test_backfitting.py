"""Backfitting against dense linear algebra and scikit-learn."""

import numpy as np
import pytest
from scipy.interpolate import BSpline
from scipy.optimize import brentq
from sklearn.linear_model import LinearRegression

from paper.models import SPAMRegressor
from paper.models.smoothers import SplineBasis


def sample(rows=70, features=3, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, features))
    X[:, 1] += 0.6 * X[:, 0]
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * generator.standard_normal(rows)


def dense_smoother(x, degrees):
    """B (BᵀB + κΩ)⁻¹ Bᵀ by its definition, Ω by a fine sum over f″, κ by root finding; constants taken off."""
    knots = SplineBasis.of(x).knots
    size = knots.size - 4
    B = BSpline.design_matrix(x, knots, 3).toarray()
    edges = np.linspace(knots[0], knots[-1], 200_001)
    middle = (edges[1:] + edges[:-1]) / 2
    second = BSpline(knots, np.eye(size), 3).derivative(2)(middle)
    omega = second.T @ second * (edges[1] - edges[0])

    def smoother(log_kappa):
        return B @ np.linalg.solve(B.T @ B + np.exp(log_kappa) * omega, B.T)

    log_kappa = brentq(lambda value: np.trace(smoother(value)) - 1 - degrees, -20, 20, xtol=1e-10)
    return smoother(log_kappa) - 1 / x.size


def test_alpha_zero_solves_the_additive_normal_equations():
    X, y = sample()
    rows, features = X.shape
    smoothers = [dense_smoother(column, 5.0) for column in X.T]
    system = np.block([[np.eye(rows) if j == k else S for k in range(features)] for j, S in enumerate(smoothers)])
    solution = np.linalg.lstsq(system, np.concatenate([S @ (y - y.mean()) for S in smoothers]))[0]
    model = SPAMRegressor(0.0, degrees=5.0, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.effects(X), solution.reshape(features, rows).T, atol=1e-5)
    np.testing.assert_allclose(model.degrees_, 5.0, rtol=1e-9)


def test_one_degree_of_freedom_is_linear_regression():
    X, y = sample(rows=200, features=5)
    model = SPAMRegressor(0.0, degrees=1.0, tol=1e-11).fit(X, y)
    np.testing.assert_allclose(model.predict(X), LinearRegression().fit(X, y).predict(X), atol=1e-8)


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_fixed_point_of_the_published_algorithm_is_reached(share):
    X, y = sample(rows=90, features=4)
    smoothers = [dense_smoother(column, 4.0) for column in X.T]
    top = SPAMRegressor(0.0, degrees=4.0).fit(X, y).alpha_max_
    model = SPAMRegressor(share * top, degrees=4.0, tol=1e-10).fit(X, y)
    effects = model.effects(X)
    assert model.get_support().sum() > 0
    for j, S in enumerate(smoothers):
        smoothed = S @ (y - y.mean() - effects.sum(axis=1) + effects[:, j])
        size = np.sqrt(np.mean(smoothed**2))
        expected = max(0.0, 1 - model.alpha_ * y.std() / size) * smoothed
        np.testing.assert_allclose(effects[:, j], expected, atol=1e-5)
