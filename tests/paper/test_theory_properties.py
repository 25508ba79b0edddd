"""What must hold of the theorems' functions whatever the data."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from paper.theory import (
    kkt_violation,
    lambda_max,
    largest_dense_lambda,
    mutual_incoherence,
    recovery_conditions,
    recovery_lambda,
    slow_rate_bound,
    slow_rate_bound_any_noise,
    solve_paper_problem,
)

seeds = st.integers(0, 10**6)


def drawn(seed, rows=80, features=5, width=2, noise=0.3):
    generator = np.random.default_rng(seed)
    blocks = [generator.normal(size=(rows, width)) for _ in range(features)]
    y = blocks[0].sum(axis=1) + blocks[1] @ np.array([1.0, -1.0]) + noise * generator.normal(size=rows)
    return blocks, y


@settings(max_examples=12)
@given(seed=seeds, noise=st.floats(0.05, 1.0))
def test_corrected_guarantee_is_kept(seed, noise):
    blocks, y = drawn(seed, noise=noise)
    needed, limit = recovery_lambda(blocks, y, [0, 1], corrected=True), largest_dense_lambda(blocks, y, [0, 1])
    assume(0 < needed < limit)
    lam = np.sqrt(needed * limit)
    assume(recovery_conditions(blocks, y, [0, 1], lam, corrected=True).guaranteed)
    assert solve_paper_problem(blocks, y, lam, tol=1e-11).support == (0, 1)


@settings(max_examples=12)
@given(seed=seeds, share=st.floats(0.02, 1.5))
def test_solutions_meet_their_conditions(seed, share):
    blocks, y = drawn(seed)
    lam = share * lambda_max(blocks, y)
    solution = solve_paper_problem(blocks, y, lam, tol=1e-12)
    assert kkt_violation(blocks, y, solution.theta, lam).max() < 1e-3 * lam


@settings(max_examples=12)
@given(seed=seeds, scale=st.floats(0.01, 100.0))
def test_incoherence_is_never_smaller_when_corrected_and_scales_with_the_false_feature(seed, scale):
    blocks, _ = drawn(seed)
    printed, corrected = (mutual_incoherence(blocks, [0, 1], corrected=flag) for flag in (False, True))
    for feature, value in printed.per_feature.items():
        assert value <= corrected.per_feature[feature] * (1 + 1e-9)
    scaled = mutual_incoherence([*blocks[:2], *(scale * block for block in blocks[2:])], [0, 1])
    assert np.isclose(1 - scaled.gamma, scale * (1 - printed.gamma))


@settings(max_examples=50)
@given(
    n=st.integers(1, 10**6),
    mu=st.floats(0, 100),
    bound=st.floats(0, 100),
    width=st.integers(1, 500),
    delta=st.floats(0.001, 0.4),
)
def test_slow_rate_falls_like_the_root_of_n_and_corrections_only_raise_it(n, mu, bound, width, delta):
    given_ = {"sigma": 1.5, "mu": mu, "bounds": [bound, 0.0], "second_moments": [1.0, 2.0], "widths": [width, 7]}
    for formula in (slow_rate_bound, slow_rate_bound_any_noise):
        value = formula(n=n, **given_, delta1=delta, delta2=delta)
        assert np.isclose(formula(n=4 * n, **given_, delta1=delta, delta2=delta), value / 2)
        assert formula(n=n, **given_, delta1=delta, delta2=delta, corrected=True) >= value
    # "at the cost of a strictly worse bound": true as printed
    given_ |= {"n": n, "delta1": delta, "delta2": delta}
    assert slow_rate_bound(**given_) <= slow_rate_bound_any_noise(**given_)
