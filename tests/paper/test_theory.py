"""The theorems as functions: their formulas, their limits, and where the printed ones fail."""

import cvxpy as cp
import numpy as np
import pytest

from paper.theory import (
    kkt_violation,
    lambda_max,
    largest_dense_lambda,
    mutual_incoherence,
    objective,
    overfits,
    paper_path,
    proximal_descent,
    random_feature_blocks,
    recovery_conditions,
    recovery_lambda,
    slow_rate_bound,
    slow_rate_bound_any_noise,
    solve_paper_problem,
    subgradient_descent,
)
from sparsenam.errors import CertificateError, InputError

RATE = {"n": 400, "sigma": 2.0, "mu": 3.0, "bounds": [1.0, 0.5], "second_moments": [4.0, 1.0], "widths": [8, 32]}


def orthogonal_columns(rows, count, seed=0):
    """Centred columns of length √rows, orthogonal to each other."""
    raw = np.random.default_rng(seed).normal(size=(rows, count))
    basis = np.linalg.qr(raw - raw.mean(axis=0))[0]
    return basis * np.sqrt(rows)


def small_problem(seed=0, rows=60, widths=(3, 2, 4, 3)):
    generator = np.random.default_rng(seed)
    blocks = [generator.normal(size=(rows, width)) + 1.0 for width in widths]
    y = blocks[0] @ np.ones(widths[0]) - blocks[1] @ np.ones(widths[1]) + generator.normal(size=rows) + 5.0
    return blocks, y


def test_slow_rate_is_the_printed_formula():
    both = 1.5 / np.sqrt(0.1), 3.0 * max(2 * np.sqrt(2 * np.log(8 / 0.2)), np.sqrt(2 * np.log(32 / 0.2)))
    assert slow_rate_bound(**RATE, delta1=0.2, delta2=0.1) == pytest.approx(2 * 2.0 / 20 * sum(both))


def test_slow_rate_for_any_noise_is_the_printed_formula():
    both = 1.5 / np.sqrt(0.1), 3.0 * np.sqrt(max(8 * 4.0, 32 * 1.0) / 0.2)
    assert slow_rate_bound_any_noise(**RATE, delta1=0.2, delta2=0.1) == pytest.approx(2 * 2.0 / 20 * sum(both))


def test_corrected_slow_rate_holds_for_pure_noise_where_the_printed_one_fails():
    rows, width, sigma = 400, 200, 1.0
    columns = orthogonal_columns(rows, width)
    printed, corrected, worst = [], [], []
    for seed in range(20):
        noise = sigma * np.random.default_rng(seed).normal(size=rows)
        theta = columns.T @ noise / rows  # least squares: the solution for the ball of radius ‖θ‖
        fitted = columns @ theta
        assert overfits(noise, fitted, np.zeros(rows))
        given = {"n": rows, "sigma": sigma, "mu": np.linalg.norm(theta), "bounds": [0.0], "widths": [width]}
        worst.append(np.mean(fitted**2))
        printed.append(slow_rate_bound(**given, second_moments=[1.0]))
        corrected.append(slow_rate_bound(**given, second_moments=[1.0], corrected=True))
    assert np.all(np.array(worst) > np.array(printed))
    assert np.all(np.array(worst) < np.array(corrected))


@pytest.mark.parametrize("name", ["delta1", "delta2", "sigma", "mu", "n"])
def test_slow_rate_refuses_numbers_out_of_range(name):
    with pytest.raises(InputError, match=name):
        slow_rate_bound(**{**RATE, name: -0.5})


def test_slow_rate_refuses_lists_of_different_lengths():
    with pytest.raises(InputError, match="one number for each feature"):
        slow_rate_bound(**{**RATE, "widths": [3]})


@pytest.mark.parametrize("share", [0.7, 0.2, 0.02])
def test_solution_is_that_of_cvxpy_and_meets_its_conditions(share):
    blocks, y = small_problem()
    lam = share * lambda_max(blocks, y)
    solution = solve_paper_problem(blocks, y, lam, tol=1e-12)
    groups = [cp.Variable(block.shape[1]) for block in blocks]
    intercept = cp.Variable()
    scores = intercept + sum(block @ group for block, group in zip(blocks, groups, strict=True))
    cost = 0.5 * cp.sum_squares(y - scores) + lam * sum(cp.norm(group) for group in groups)
    problem = cp.Problem(cp.Minimize(cost))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert objective(blocks, y, solution.theta, lam) == pytest.approx(problem.value, rel=1e-8)
    for group, peer in zip(solution.theta, groups, strict=True):
        np.testing.assert_allclose(group, peer.value, atol=1e-4)
    assert kkt_violation(blocks, y, solution.theta, lam).max() < 1e-4 * lam
    theirs = [group.value * (np.linalg.norm(group.value) > 1e-5) for group in groups]
    assert kkt_violation(blocks, y, theirs, lam).max() < 1e-2 * lam


def test_fitted_values_carry_the_mean_of_y_and_the_effects():
    blocks, y = small_problem()
    solution = solve_paper_problem(blocks, y, 0.1 * lambda_max(blocks, y))
    effects = [(block - block.mean(axis=0)) @ group for block, group in zip(blocks, solution.theta, strict=True)]
    np.testing.assert_allclose(solution.fitted, y.mean() + np.sum(effects, axis=0), atol=1e-9)


def test_nothing_is_kept_from_lambda_max_on_and_something_just_below():
    blocks, y = small_problem()
    top = lambda_max(blocks, y)
    above, below = paper_path(blocks, y, [1.0001 * top, 0.999 * top], tol=1e-10)
    assert above.support == () and above.mu == 0.0
    assert len(below.support) == 1


def test_violation_is_large_away_from_the_solution():
    blocks, y = small_problem()
    lam = 0.2 * lambda_max(blocks, y)
    zero = [np.zeros(block.shape[1]) for block in blocks]
    assert kkt_violation(blocks, y, zero, lam).max() == pytest.approx(lambda_max(blocks, y) - lam)


def test_one_true_feature_needs_no_correction_of_the_incoherence():
    blocks, _ = small_problem()
    printed, corrected = (mutual_incoherence(blocks, [1], corrected=flag) for flag in (False, True))
    assert printed.gamma == pytest.approx(corrected.gamma)
    assert set(printed.per_feature) == {0, 2, 3}


def test_orthogonal_blocks_have_gamma_of_one():
    columns = orthogonal_columns(50, 6)
    blocks = [columns[:, :2], columns[:, 2:4], columns[:, 4:]]
    assert mutual_incoherence(blocks, [0]).gamma == pytest.approx(1.0)


def test_a_copy_of_a_true_feature_has_gamma_of_zero():
    block = orthogonal_columns(50, 2)
    assert mutual_incoherence([block, block], [0]).gamma == pytest.approx(0.0)


def test_collinear_true_features_have_no_incoherence():
    block = orthogonal_columns(50, 2)
    with pytest.raises(InputError, match="rank 2 of 4"):
        mutual_incoherence([block, block, block + 1.0], [0, 1])


def test_readings_of_the_norm_are_row_and_column_sums():
    columns = orthogonal_columns(40, 4)
    blocks = [columns[:, :2], columns[:, 2:]]
    y = columns[:, 0]
    rows = np.abs(blocks[1]).sum(axis=0).max() * np.abs(y).max()
    assert recovery_lambda(blocks, y, [0], reading="row_sums") == pytest.approx(rows)
    sums = np.abs(blocks[1]).sum(axis=1).max() * np.abs(y).max()
    assert recovery_lambda(blocks, y, [0], reading="column_sums") == pytest.approx(sums)
    assert recovery_lambda(blocks, y, [0]) == pytest.approx(sums)  # the paper's definition


def test_printed_theorem_fails_where_many_true_features_imitate_a_false_one():
    # γ = 0.2 as printed, but with four equal effects the false feature's condition is 0.4 · 4 = 1.6 > 1
    columns = orthogonal_columns(400, 5)
    false = 0.4 * columns[:, :4].sum(axis=1) + 0.1 * columns[:, 4]
    blocks = [columns[:, [k]] for k in range(4)] + [false[:, None]]
    y = columns[:, :4].sum(axis=1)
    support = range(4)
    needed = recovery_lambda(blocks, y, support, reading="column_sums")
    report = recovery_conditions(blocks, y, support, 1.01 * needed, reading="column_sums")
    assert report.gamma == pytest.approx(0.2, abs=0.01)
    assert report.guaranteed
    assert 4 in solve_paper_problem(blocks, y, 1.01 * needed).support
    assert not recovery_conditions(blocks, y, support, 1.01 * needed, corrected=True).guaranteed


def test_printed_theorem_fails_in_its_other_reading_for_repeated_units():
    # noise that looks like a false feature with four nearly equal units: √4 times its row sum
    generator = np.random.default_rng(0)
    rows = 200
    false = np.repeat([1.0, -1.0], rows // 2)
    true = np.tile([1.0, -1.0], rows // 2)
    copies = false[:, None] + 1e-3 * generator.normal(size=(rows, 4))
    blocks = [1000.0 * true[:, None], copies]
    y = 0.05 * true + false
    needed = recovery_lambda(blocks, y, [0], reading="row_sums")
    report = recovery_conditions(blocks, y, [0], 1.01 * needed, reading="row_sums")
    assert report.guaranteed
    assert solve_paper_problem(blocks, y, 1.01 * needed).support == (0, 1)


def test_assumptions_hold_together_on_orthogonal_blocks_and_the_report_says_so():
    columns = orthogonal_columns(200, 8)
    blocks = [columns[:, 2 * k : 2 * k + 2] for k in range(4)]
    noise = 0.1 * np.random.default_rng(1).normal(size=200)
    y = columns[:, 0] + columns[:, 3] + noise
    needed = recovery_lambda(blocks, y, [0, 1], corrected=True)
    limit = largest_dense_lambda(blocks, y, [0, 1])
    assert needed < limit
    lam = np.sqrt(needed * limit)
    report = recovery_conditions(blocks, y, [0, 1], lam, corrected=True)
    assert report.guaranteed
    assert "is guaranteed by Theorem 4.7 as corrected" in str(report)
    assert solve_paper_problem(blocks, y, lam).support == (0, 1)
    assert not recovery_conditions(blocks, y, [0, 1], 1.2 * limit, corrected=True).dense
    assert "not guaranteed" in str(recovery_conditions(blocks, y, [0, 1], 0.5 * needed, corrected=True))


def test_relu_features_break_the_rank_assumption_and_the_report_has_no_gamma():
    X = np.random.default_rng(0).normal(size=(300, 3))
    blocks = random_feature_blocks(X, (32,))
    y = np.sin(2 * X[:, 0])
    report = recovery_conditions(blocks, y, [0], 0.5 * lambda_max(blocks, y))
    assert not report.full_rank and report.gamma is None and not report.guaranteed
    assert "undefined" in str(report)


def test_orthonormal_blocks_are_orthonormal_and_share_hidden_layers_over_samples():
    X = np.random.default_rng(0).normal(size=(300, 2))
    for block in random_feature_blocks(X, (16,), orthonormal=True):
        np.testing.assert_allclose(block.T @ block, 300 * np.eye(block.shape[1]), atol=1e-8)
    whole, part = random_feature_blocks(X, (16,)), random_feature_blocks(X[:100], (16,))
    np.testing.assert_allclose(whole[1][:100], part[1], rtol=1e-12)


@pytest.mark.parametrize("X", [np.ones(10), np.ones((0, 2)), np.full((10, 1), np.nan)])
def test_random_features_of_anything_but_a_finite_matrix_are_refused(X):
    with pytest.raises(InputError, match="shape"):
        random_feature_blocks(X, (4,))


def test_a_constant_column_has_no_orthonormal_block():
    X = np.random.default_rng(0).normal(size=(50, 2))
    X[:, 1] = 0.3
    with pytest.raises(InputError, match="block of x1"):
        random_feature_blocks(X, (8,), orthonormal=True)


def test_proximal_descent_reaches_exact_zeros_and_subgradient_descent_does_not():
    blocks, y = small_problem()
    lam = 0.3 * lambda_max(blocks, y)
    optimum = objective(blocks, y, solve_paper_problem(blocks, y, lam, tol=1e-12).theta, lam)
    start = [np.ones(block.shape[1]) for block in blocks]
    proximal = proximal_descent(blocks, y, lam, start, 3000)
    fast = proximal_descent(blocks, y, lam, start, 3000, accelerated=True)
    slow = subgradient_descent(blocks, y, lam, start, 3000, step=1e-4)
    assert proximal.zeros[-1] == fast.zeros[-1] == 2 and slow.zeros[-1] == 0
    for trace in (proximal, fast):
        assert trace.objective[-1] == pytest.approx(optimum, rel=1e-9)
        assert min(trace.objective) >= optimum * (1 - 1e-9)
    assert optimum * (1 + 1e-7) < slow.objective[-1] < optimum * 1.05
    assert np.all(np.diff(proximal.objective) <= 1e-9 * optimum)


def test_recorded_objectives_are_those_of_the_definition():
    blocks, y = small_problem()
    start = [np.ones(block.shape[1]) for block in blocks]
    trace = subgradient_descent(blocks, y, 3.0, start, 50, shrinking=True)
    assert trace.iteration[0] == 0 and trace.iteration[-1] == 50
    assert trace.objective[0] == pytest.approx(objective(blocks, y, start, 3.0))
    assert trace.objective[-1] == pytest.approx(objective(blocks, y, trace.theta, 3.0))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_unreachable_tolerance_is_refused():
    blocks, y = small_problem()
    with pytest.raises(CertificateError, match="gap"):
        solve_paper_problem(blocks, y, 0.1, tol=1e-18)


@pytest.mark.parametrize(
    ("blocks", "y", "match"),
    [
        ([], np.zeros(3), "blocks"),
        ([np.zeros((3, 1)), np.zeros((4, 1))], np.zeros(3), "same rows"),
        ([np.full((3, 1), np.nan)], np.zeros(3), "finite"),
        ([np.zeros((3, 1))], np.zeros(4), "one number for each row"),
    ],
)
def test_unusable_blocks_are_refused_in_one_sentence(blocks, y, match):
    with pytest.raises(InputError, match=match):
        lambda_max(blocks, y)


def test_other_unusable_arguments_are_refused():
    blocks, y = small_problem()
    with pytest.raises(InputError, match="features 0 to 3"):
        mutual_incoherence(blocks, [7])
    with pytest.raises(InputError, match="falling grid"):
        list(paper_path(blocks, y, [1.0, 2.0]))
    for lams in ([0.0], [-1.0], [np.nan], []):
        with pytest.raises(InputError, match="numbers above 0"):
            list(paper_path(blocks, y, lams))
    with pytest.raises(InputError, match="row_sums"):
        recovery_lambda(blocks, y, [0], reading="sums")
    with pytest.raises(InputError, match="one vector for each block"):
        kkt_violation(blocks, y, [np.zeros(1)], 1.0)


@pytest.mark.parametrize("bound", [slow_rate_bound, slow_rate_bound_any_noise])
def test_the_corrected_slow_rate_holds_for_all_of_many_features_at_once(bound):
    """Pure noise on one unit a feature: the error is at most 2μ maxⱼ|gⱼᵀε|/n, which grows with their number."""
    n, features, mu, delta = 500, 400, 3.0, 0.5
    generator = np.random.default_rng(0)
    given = {
        "n": n,
        "sigma": 1.0,
        "mu": mu,
        "second_moments": np.ones(features),
        "widths": np.ones(features, dtype=int),
    }
    limit = bound(**given, bounds=np.full(features, 1e-9), delta1=delta, delta2=0.5, corrected=True)
    units = np.sqrt(n) * np.linalg.qr(generator.normal(size=(n, features)))[0]
    errors = 2.0 * mu * np.abs(units.T @ generator.normal(size=(n, 200))).max(axis=0) / n
    assert np.mean(errors > limit) <= delta


@pytest.mark.parametrize("bound", [slow_rate_bound, slow_rate_bound_any_noise])
def test_the_corrected_slow_rate_is_no_larger_than_its_proof_needs(bound):
    """Of one feature with one unit: √(2 log(2/δ)) for Gaussian noise, √(1/δ) for any."""
    given = {"n": 100, "sigma": 1.0, "mu": 1.0, "bounds": [1e-12], "second_moments": [1.0], "widths": [1]}
    expected = {slow_rate_bound: np.sqrt(2 * np.log(2 / 0.1)), slow_rate_bound_any_noise: np.sqrt(1 / 0.1)}[bound]
    assert bound(**given, delta1=0.1, delta2=0.5, corrected=True) == pytest.approx(0.2 * expected, rel=1e-6)
