"""The convex solver against CVXPY: objective and solution, for every loss and penalty."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convex_cases import OUTPUTS, family_of, grouped, objective, target_of
from sparsenam.convex.newton import refit_on
from sparsenam.convex.path import alpha_max, convex_path
from sparsenam.convex.problem import certify, convex_problem
from sparsenam.errors import CertificateError
from sparsenam.penalties import GroupElasticNet, GroupLasso, GroupSLOPE, KLevelSLOPE

# the word of the oracle on its last digits, which depend on the processor; the comparisons have a tolerance
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate:UserWarning")

PENALTIES = {
    "plain": GroupLasso(),
    "weighted": GroupLasso(np.array([1.0, 2.0, 0.5, 0.0, np.inf, 1.5])),
    "elastic_net": GroupElasticNet(0.6),
    "slope": GroupSLOPE("linear"),
    "two_level": KLevelSLOPE((1.0, 0.4), (0.5, 0.5)),
}
every_loss = pytest.mark.parametrize("case", list(OUTPUTS))
every_penalty = pytest.mark.parametrize("kind", list(PENALTIES))


def loss_expression(case, scores, target, weights):
    if case in ("gaussian", "multitask"):
        return 0.5 * cp.sum(cp.multiply(weights[:, None], cp.square(scores - target)))
    linear = cp.sum(cp.multiply(weights[:, None] * target, scores))
    if case == "poisson":
        return cp.sum(cp.multiply(weights[:, None], cp.exp(scores))) - linear
    if case == "multinomial":
        return cp.sum(cp.multiply(weights, cp.log_sum_exp(scores, axis=1))) - linear
    return cp.sum(cp.multiply(weights[:, None], cp.logistic(scores))) - linear


def penalty_expression(penalty, groups, alpha):
    norms = [cp.norm(group, "fro") for group in groups]
    if isinstance(penalty, GroupLasso):
        weights = np.broadcast_to(penalty.weights, len(groups))
        return alpha * sum(w * n for w, n in zip(weights, norms, strict=True) if np.isfinite(w))
    if isinstance(penalty, GroupElasticNet):
        squares = sum(cp.sum_squares(group) for group in groups)
        return alpha * (penalty.l1_ratio * sum(norms) + 0.5 * (1 - penalty.l1_ratio) * squares)
    sequence = penalty.sequence(len(groups))
    steps = sequence - np.append(sequence[1:], 0.0)
    sums = [cp.sum_largest(cp.hstack(norms), k + 1) for k in range(len(groups))]
    return alpha * sum(step * total for step, total in zip(steps, sums, strict=True) if step > 0)


def solved_by_cvxpy(case, design, target, weights, alpha, penalty):
    outputs = target.shape[1]
    groups = [cp.Variable((design.width, outputs)) for _ in range(design.n_groups)]
    intercept = cp.Variable((1, outputs))
    scores = np.ones((design.n_rows, 1)) @ intercept
    scores = scores + sum(block.T @ group for block, group in zip(design.blocks, groups, strict=True))
    limits = []
    if isinstance(penalty, GroupLasso) and np.ndim(penalty.weights):
        limits = [groups[j] == 0 for j in np.flatnonzero(np.isinf(penalty.weights))]
    cost = loss_expression(case, scores, target, weights) + penalty_expression(penalty, groups, alpha)
    problem = cp.Problem(cp.Minimize(cost), limits)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value, np.stack([group.value for group in groups])


def free_of_gauge(case, theta):
    """Softmax does not see a shift common to all outputs, so an unpenalised feature leaves it open."""
    return theta - theta.mean(axis=2, keepdims=True) if case == "multinomial" else theta


# Clarabel comes short of 1e-10 on a few problems and says so; what it reached is compared below
@every_loss
@every_penalty
def test_objective_and_solution_are_those_of_cvxpy(case, kind):
    design, penalty = grouped(), PENALTIES[kind]
    family, target = family_of(case), target_of(case, design)
    weights = np.random.default_rng(5).uniform(0.5, 2.0, design.n_rows)
    weights /= weights.sum()
    alpha = 0.3 * alpha_max(convex_problem(design, target, family, weights), penalty=penalty)
    (point,) = convex_path(
        convex_problem(design, target, family, weights[None]), penalty=penalty, alphas=[alpha], tol=1e-9
    )
    value, solution = solved_by_cvxpy(case, design, target, weights, alpha, penalty)
    ours = objective(design, target, family, weights, point.theta[0], point.intercepts[0], alpha, penalty)
    assert ours == pytest.approx(value, rel=1e-7, abs=1e-8)
    np.testing.assert_allclose(free_of_gauge(case, point.theta[0]), free_of_gauge(case, solution), atol=2e-4)
    names = [f"x{j}" for j in range(design.n_groups)]
    arguments = (point.theta[0], point.intercepts[0], alpha, penalty, names, 1e-8)
    assert set(certify(convex_problem(design, target, family, weights), *arguments).kept) == {
        names[j] for j in point.supports[0]
    }


@every_loss
def test_relaxed_fit_is_that_of_cvxpy(case):
    design, ridge = grouped(), 1e-2
    family, target = family_of(case), target_of(case, design)
    weights = np.full(design.n_rows, 1 / design.n_rows)
    support = [0, 2]
    theta, intercept = refit_on(design, target, family, weights, support, ridge)
    groups = [cp.Variable((design.width, target.shape[1])) for _ in support]
    shift = cp.Variable((1, target.shape[1]))
    scores = np.ones((design.n_rows, 1)) @ shift
    scores = scores + sum(design.blocks[j].T @ group for j, group in zip(support, groups, strict=True))
    cost = loss_expression(case, scores, target, weights)
    cost = cost + 0.5 * ridge * sum(cp.sum_squares(group) for group in groups)
    cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10)
    np.testing.assert_allclose(theta, np.stack([group.value for group in groups]), atol=1e-3)
    fitted = intercept + design.combined(np.array(support), theta.reshape(-1, theta.shape[2]).T).T
    assert np.abs(np.average(family.gradient(fitted, target), axis=0)).max() < 1e-6


FREE = np.array([0.0, 1.0, 0.0, 2.0, 1.0, np.inf])
points = st.fixed_dictionaries(
    {
        "weights": st.permutations(FREE.tolist()),
        "near": st.sampled_from([0.0, 1e-4, 1e-2, 0.3, 1.0]),
        "zeros": st.sets(st.integers(0, 5)),
        "seed": st.integers(0, 1000),
    }
)


@every_loss
@settings(max_examples=8)
@given(chosen=points)
def test_no_certificate_claims_a_smaller_gap_than_the_distance_to_the_optimum_of_cvxpy(case, chosen):
    design, family = grouped(rows=40), family_of(case)
    target, weights = target_of(case, design), np.full(design.n_rows, 1 / design.n_rows)
    penalty, generator = GroupLasso(np.array(chosen["weights"])), np.random.default_rng(chosen["seed"])
    alpha, outputs = 0.05, target.shape[1]
    value, solution = solved_by_cvxpy(case, design, target, weights, alpha, penalty)
    theta = solution + chosen["near"] * generator.normal(size=solution.shape)
    out = sorted(chosen["zeros"] | set(np.flatnonzero(np.isinf(penalty.weights)).tolist()))
    theta[out] = 0.0
    intercept = chosen["near"] * generator.normal(size=outputs)
    names = [f"x{j}" for j in range(design.n_groups)]
    above = objective(design, target, family, weights, theta, intercept, alpha, penalty) - value
    try:
        certificate = certify(
            convex_problem(design, target, family, weights), theta, intercept, alpha, penalty, names, np.inf
        )
    except CertificateError:
        return  # what cannot be proved is not claimed
    constant = np.tile(family.best_constant(target, weights), (design.n_rows, 1))
    null = np.average(family.loss(constant, target) + family.conjugate(target, target), weights=weights)
    assert certificate.gap * null >= above - 1e-7


@every_loss
def test_an_empty_solution_beside_a_strong_unpenalised_group_gets_no_certificate(case):
    design, family = grouped(), family_of(case)
    target, weights = target_of(case, design), np.ones(design.n_rows)
    penalty = GroupLasso(np.array([0.0, 0.0, 1.0, 1.0, 1.0, 1.0]))  # the groups of the target
    theta = np.zeros((design.n_groups, design.width, target.shape[1]))
    arguments = (theta, family.best_constant(target, weights), 10.0, penalty, list("abcdef"))
    with pytest.raises(CertificateError):
        certify(convex_problem(design, target, family, weights), *arguments, 1e-2)
