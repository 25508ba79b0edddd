"""The convex solver against scikit-learn and skglm."""

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

from convex_cases import family_of, grouped, target_of
from sparsenam.convex.path import alpha_max, convex_path
from sparsenam.convex.problem import convex_problem
from sparsenam.penalties import GroupElasticNet, GroupLasso

SKGLM = """
import sys
import numpy as np
from skglm import datafits, penalties, solvers
from skglm.utils.data import grp_converter

given = np.load(sys.argv[1])
X, y, weights = np.asfortranarray(given["X"]), given["y"], given["weights"]
indices, starts = grp_converter(X.shape[1] // weights.size, X.shape[1])
penalty = penalties.WeightedGroupL2(float(given["alpha"]), weights, starts, indices)
quadratic = sys.argv[2] == "gaussian"
datafit = (datafits.QuadraticGroup if quadratic else datafits.LogisticGroup)(starts, indices)
solver = (solvers.GroupBCD if quadratic else solvers.GroupProxNewton)(tol=1e-10, fit_intercept=True)
np.save(sys.argv[1] + ".npy", solver.solve(X, y, datafit, penalty)[0])
"""


def solved_by_skglm(tmp_path, case, **given):
    """Return skglm's solution from a process of its own, where it is not compiled: that takes half a minute."""
    path = tmp_path / "given.npz"
    np.savez(path, **given)
    uncompiled = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", SKGLM, str(path), case], env=uncompiled, check=True)
    return np.load(f"{path}.npy")


def columns_of(design):
    return np.asfortranarray(design.blocks.reshape(-1, design.n_rows).T)


def solve(design, target, family, alpha, penalty=None):
    weights = np.ones((1, design.n_rows))
    (point,) = convex_path(convex_problem(design, target, family, weights), alphas=[alpha], penalty=penalty, tol=1e-10)
    return point.theta[0, :, :, 0], point.intercepts[0, 0]


@pytest.mark.parametrize("share", [0.9, 0.3, 0.05])
def test_groups_of_one_column_are_the_lasso_of_scikit_learn(share):
    design = grouped(width=1, groups=12, norm="parameters")
    target = target_of("gaussian", design)
    alpha = share * alpha_max(convex_problem(design, target, family_of("gaussian"), np.ones(design.n_rows)))
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
def test_group_lasso_is_that_of_skglm(tmp_path, case, weighted):
    design = grouped(groups=8)
    family, target = family_of(case), target_of(case, design)
    weights = np.linspace(0.5, 2.0, 8) if weighted else np.ones(8)
    penalty = GroupLasso(weights)
    alpha = 0.3 * alpha_max(convex_problem(design, target, family, np.ones(design.n_rows)), penalty=penalty)
    theta, _ = solve(design, target, family, alpha, penalty)
    answer = target[:, 0] if case == "gaussian" else 2 * target[:, 0] - 1
    peer = solved_by_skglm(tmp_path, case, X=columns_of(design), y=answer, weights=weights, alpha=alpha)
    np.testing.assert_allclose(theta, peer[: theta.size].reshape(theta.shape), atol=1e-5)
