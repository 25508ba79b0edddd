"""The convex solver against scikit-learn and skglm."""

import os

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

from convex_cases import family_of, grouped, target_of
from sparsenam.convex import alpha_max, convex_path
from sparsenam.penalties import GroupElasticNet, GroupLasso


@pytest.fixture(scope="module")
def skglm():
    """skglm uncompiled: its compilation takes half a minute, these problems are tiny."""
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    import skglm.datafits
    import skglm.penalties
    import skglm.solvers
    import skglm.utils.data

    return skglm


def columns_of(design):
    return np.asfortranarray(design.blocks.reshape(-1, design.n_rows).T)


def solve(design, target, family, alpha, penalty=None):
    weights = np.ones((1, design.n_rows))
    (point,) = convex_path(design, target, family, weights, alphas=[alpha], penalty=penalty, tol=1e-10)
    return point.theta[0, :, :, 0], point.intercepts[0, 0]


@pytest.mark.parametrize("share", [0.9, 0.3, 0.05])
def test_groups_of_one_column_are_the_lasso_of_scikit_learn(share):
    design = grouped(width=1, groups=12, norm="parameters")
    target = target_of("gaussian", design)
    alpha = share * alpha_max(design, target, family_of("gaussian"), np.ones(design.n_rows))
    theta, intercept = solve(design, target, family_of("gaussian"), alpha)
    peer = Lasso(alpha=alpha, tol=1e-12, max_iter=100_000).fit(columns_of(design), target[:, 0])
    np.testing.assert_allclose(theta[:, 0], peer.coef_, atol=1e-6)
    assert intercept == pytest.approx(peer.intercept_, abs=1e-6)


def test_groups_of_one_column_are_the_elastic_net_of_scikit_learn():
    design = grouped(width=1, groups=12, norm="parameters")
    target = target_of("gaussian", design)
    theta, _ = solve(design, target, family_of("gaussian"), 0.2, GroupElasticNet(0.4))
    peer = ElasticNet(alpha=0.2, l1_ratio=0.4, tol=1e-12, max_iter=100_000)
    np.testing.assert_allclose(theta[:, 0], peer.fit(columns_of(design), target[:, 0]).coef_, atol=1e-6)


def test_groups_of_one_column_are_the_l1_logistic_regression_of_scikit_learn():
    design = grouped(width=1, groups=12, norm="parameters")
    target = target_of("binomial", design)
    theta, _ = solve(design, target, family_of("binomial"), 0.05)
    strength = 1 / (0.05 * design.n_rows)
    peer = LogisticRegression(l1_ratio=1.0, C=strength, solver="saga", tol=1e-10, max_iter=100_000)
    np.testing.assert_allclose(theta[:, 0], peer.fit(columns_of(design), target[:, 0]).coef_[0], atol=1e-5)


@pytest.mark.parametrize("case", ["gaussian", "binomial"])
@pytest.mark.parametrize("weighted", [False, True])
def test_group_lasso_is_that_of_skglm(skglm, case, weighted):
    design = grouped(groups=8)
    family, target = family_of(case), target_of(case, design)
    weights = np.linspace(0.5, 2.0, 8) if weighted else np.ones(8)
    penalty = GroupLasso(weights)
    alpha = 0.3 * alpha_max(design, target, family, np.ones(design.n_rows), penalty=penalty)
    indices, starts = skglm.utils.data.grp_converter(design.width, 8 * design.width)
    group_penalty = skglm.penalties.WeightedGroupL2(alpha, weights, starts, indices)
    theta, _ = solve(design, target, family, alpha, penalty)
    if case == "gaussian":
        datafit, solver = skglm.datafits.QuadraticGroup(starts, indices), skglm.solvers.GroupBCD
        answer = target[:, 0]
    else:
        datafit, solver = skglm.datafits.LogisticGroup(starts, indices), skglm.solvers.GroupProxNewton
        answer = 2 * target[:, 0] - 1
    fitting = solver(tol=1e-10, fit_intercept=True)
    peer, *_ = fitting.solve(columns_of(design), answer, datafit, group_penalty)
    np.testing.assert_allclose(theta, peer[: theta.size].reshape(theta.shape), atol=1e-5)
