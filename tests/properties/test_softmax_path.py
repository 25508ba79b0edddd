"""Many classes, and steps on the rows: what must hold of them, and what a general solver says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from convex_cases import grouped, objective
from sparsenam.convex.newton import RowModel, shrunk
from sparsenam.convex.path import alpha_max, convex_path
from sparsenam.convex.problem import convex_problem
from sparsenam.families import Multinomial
from sparsenam.penalties import GroupElasticNet, GroupLasso


def classes(design, count, seed=0):
    generator = np.random.default_rng(seed)
    scores = design.combined(np.arange(2), generator.normal(size=(2 * design.width, count)).T).T
    return np.eye(count)[np.argmax(2 * scores / scores.std() + generator.gumbel(size=scores.shape), axis=1)]


def folds(rows, count):
    labels = np.arange(rows) % count
    return np.stack([np.ones(rows)] + [np.where(labels == k, 0.0, 1.0) for k in range(count)])


@pytest.mark.parametrize("share", [0.6, 0.2])
def test_no_general_solver_finds_a_lower_objective(share):
    design, family, penalty = grouped(), Multinomial(), GroupLasso()
    target, weights = classes(design, 5), folds(design.n_rows, 2)
    alpha = share * alpha_max(convex_problem(design, target, family, weights))
    (point,) = convex_path(convex_problem(design, target, family, weights), alphas=[alpha], tol=1e-8)
    columns, smoothing = design.blocks.reshape(-1, design.n_rows).T, 1e-7

    def smoothed(parameters, w):
        intercept, theta = parameters[:5], parameters[5:].reshape(-1, 5)
        scores = intercept + columns @ theta
        lengths = np.sqrt(np.sum(theta.reshape(design.n_groups, -1) ** 2, axis=1) + smoothing**2)
        slopes = w[:, None] * family.gradient(scores, target)
        bends = np.repeat(alpha / lengths, design.width)[:, None] * theta
        gradient = np.concatenate([slopes.sum(axis=0), (columns.T @ slopes + bends).ravel()])
        return w @ family.loss(scores, target) + alpha * lengths.sum(), gradient

    for batch, w in enumerate(weights / weights.sum(axis=1, keepdims=True)):
        start = 1e-3 * np.ones(5 + 5 * columns.shape[1])
        options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-9}
        peer = minimize(smoothed, start, args=(w,), jac=True, method="L-BFGS-B", options=options)
        ours = objective(design, target, family, w, point.theta[batch], point.intercepts[batch], alpha, penalty)
        assert ours <= peer.fun + 1e-7
        assert ours == pytest.approx(peer.fun, abs=1e-4)


def test_without_shrinkage_it_is_the_ridge_of_scikit_learn():
    design, family = grouped(), Multinomial()
    target = classes(design, 4)
    alpha, weights = 0.02, np.ones((1, design.n_rows))
    (point,) = convex_path(
        convex_problem(design, target, family, weights), penalty=GroupElasticNet(1e-9), alphas=[alpha], tol=1e-10
    )
    peer = LogisticRegression(C=1 / (alpha * design.n_rows), tol=1e-10, max_iter=10_000)
    peer.fit(design.blocks.reshape(-1, design.n_rows).T, np.argmax(target, axis=1))
    np.testing.assert_allclose(point.theta[0].reshape(-1, 4).T, peer.coef_, atol=1e-4)


@settings(max_examples=5)
@given(seed=st.integers(0, 1000), order=st.permutations(range(4)))
def test_renaming_classes_renames_outputs_and_they_add_up_to_zero(seed, order):
    design, family = grouped(seed), Multinomial()
    target, weights = classes(design, 4, seed), folds(design.n_rows, 3)
    alphas = alpha_max(convex_problem(design, target, family, weights)) * np.array([0.5, 0.2])
    plain, renamed = (
        list(convex_path(convex_problem(design, y, family, weights), alphas=alphas, tol=1e-9))
        for y in (target, target[:, order])
    )
    for one, other in zip(plain, renamed, strict=True):
        np.testing.assert_allclose(one.theta[..., order], other.theta, atol=1e-3)
        np.testing.assert_allclose(one.intercepts[:, order], other.intercepts, atol=1e-3)
        np.testing.assert_allclose(one.theta.sum(axis=3), 0.0, atol=1e-12)
        np.testing.assert_allclose(one.intercepts.sum(axis=1), 0.0, atol=1e-12)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), threshold=st.floats(0.0, 5.0), ridge=st.sampled_from([0.0, 0.3]))
def test_shrinkage_in_a_metric_of_outputs_is_stationary(seed, threshold, ridge):
    generator = np.random.default_rng(seed)
    point, guess = generator.normal(size=(2, 3, 4, 2))
    metric = np.exp(2 * generator.normal(size=(3, 4, 2)))
    theta = shrunk(point, metric, np.full(3, threshold), ridge, guess)
    for v, h, t in zip(point, metric, theta, strict=True):
        slope, length = h * (v - t) - ridge * t, np.linalg.norm(t)
        if length == 0.0:
            assert np.linalg.norm(slope) <= threshold * (1 + 1e-9)
        else:
            np.testing.assert_allclose(slope, threshold * t / length, atol=1e-8 * (1 + np.abs(h * v).max()))


def test_a_smooth_model_on_the_rows_is_solved_as_its_equations_are():
    generator = np.random.default_rng(0)
    columns, bends = generator.normal(size=(6, 30)), generator.uniform(0.5, 2.0, (1, 1, 30))
    residuals, theta = generator.normal(size=(1, 1, 30)), np.zeros((1, 1, 3, 2))
    model = RowModel(residuals.copy(), bends, bends, None)
    inverse = np.full((1, 1, 1), 1 / bends.sum())
    shift = model.descend(inverse, columns, theta, np.zeros((1, 3)), 0.0, 1e-20, 2000)
    table = np.concatenate([columns, np.ones((1, 30))])
    expected = np.linalg.solve(table * bends[0] @ table.T, table @ residuals[0, 0])
    np.testing.assert_allclose(np.append(theta, shift), expected, atol=1e-8)


@pytest.mark.parametrize("absent", [False, True])
def test_shifted_intercepts_leave_no_mean_residual(absent):
    design, generator = grouped(), np.random.default_rng(1)
    target = classes(design, 4)
    if absent:
        target[target[:, 3] == 1] = np.eye(4)[0]
    problem = convex_problem(design, target, Multinomial(), folds(design.n_rows, 3))
    scores = 4 * generator.normal(size=(4, 4, design.n_rows))
    shifts = problem.best_shifts(scores)
    rests = np.einsum("fn,fon->fo", problem.weights, problem.residuals(scores + shifts[:, :, None]))
    assert np.abs(rests).max() < 1e-11
    np.testing.assert_allclose(shifts.sum(axis=1), 0.0, atol=1e-9)
