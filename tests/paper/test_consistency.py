"""Theorems 5.1 and 5.2 as functions: their formulas, what always holds, and where the printed proofs fail."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paper.theory import consistency_bound, exceedance, identification, least_exceedance
from sparsenam.errors import InputError

BOUND = {"n": 400, "mu": 3.0, "second_moments": [4.0, 1.0], "widths": [8, 32], "intercept": 0.5, "delta": 0.1}
quarters = st.integers(-12, 12).map(lambda number: number / 4)  # exact in floating point, with many ties
columns = st.lists(quarters, min_size=1, max_size=12)


# --- Theorem 5.1 ---


def test_the_share_counts_the_rows_at_least_epsilon_away():
    truth, fitted = [0.0, 0.0, 1.0, 5.0], [0.5, -0.25, 0.25, 5.0]
    assert exceedance(truth, fitted, 0.5) == 0.5  # 0.5 itself counts
    assert exceedance(truth, fitted, 0.75) == 0.25
    assert exceedance(truth, fitted, 0.76) == 0.0


def test_consistency_is_the_printed_formula_and_the_corrected_one():
    assert consistency_bound(0.3, 0.5, **BOUND) == pytest.approx(0.3 / 0.25)
    size = 3.0 * np.sqrt(8 * 4.0 + 32 * 1.0) + 0.5
    whole = 0.3 / 0.25 + 4 * size / (0.5 * 20) + np.sqrt(np.log(10) / 800)
    assert consistency_bound(0.3, 0.5, **BOUND, corrected=True) == pytest.approx(whole)


@settings(max_examples=40)
@given(error=st.floats(0, 10), epsilon=st.floats(0.01, 10), n=st.integers(1, 10**6), mu=st.floats(0, 50))
def test_what_the_correction_adds_falls_like_the_root_of_n(error, epsilon, n, mu):
    one, four = {**BOUND, "n": n, "mu": mu}, {**BOUND, "n": 4 * n, "mu": mu}
    printed = consistency_bound(error, epsilon, **one)
    added = consistency_bound(error, epsilon, **one, corrected=True) - printed
    assert added > 0
    assert consistency_bound(error, epsilon, **four) == printed
    halved = consistency_bound(error, epsilon, **four, corrected=True) - printed
    assert halved == pytest.approx(added / 2, rel=1e-6, abs=1e-9 * (1 + printed))


@settings(max_examples=60)
@given(truth=columns, epsilon=st.integers(1, 12).map(lambda number: number / 4))
def test_the_printed_bound_holds_on_the_training_rows(truth, epsilon):
    fitted = np.zeros(len(truth))
    error = float(np.mean(np.square(truth)))
    assert exceedance(truth, fitted, epsilon) <= consistency_bound(error, epsilon, **BOUND) + 1e-12


def test_a_fit_that_meets_the_truth_on_its_rows_only_breaks_the_printed_bound_and_not_the_corrected_one():
    """The rows decide where h is far from f, so that no law of large numbers carries their share to fresh rows."""
    rows, frequencies = 30, np.arange(1, 31) * 7.0
    generator = np.random.default_rng(0)

    def features(x):
        return np.sqrt(2) * np.cos(np.outer(x, frequencies) + np.arange(30))

    train, fresh = generator.uniform(size=rows), generator.uniform(size=5000)
    theta = np.linalg.solve(features(train), train)  # f(x) = x
    error = float(np.mean((train - features(train) @ theta) ** 2))
    away = exceedance(fresh, features(fresh) @ theta, 0.25)
    given_ = {"n": rows, "mu": float(np.linalg.norm(theta)), "second_moments": [1.0], "widths": [30]}
    assert away > 0.3
    assert consistency_bound(error, 0.25, **given_) < 1e-6
    assert consistency_bound(error, 0.25, **given_, corrected=True) >= away


def test_the_corrected_bound_holds_for_the_worst_of_many_fits_where_it_says_something():
    """One feature and a small ball: every h of the class at once, not only the one that is fitted."""
    epsilon, mu, n = 0.5, 0.2, 2000
    generator = np.random.default_rng(1)
    fresh = generator.normal(size=50_000)
    for _ in range(10):
        train = generator.normal(size=n)
        for theta in np.linspace(-mu, mu, 9):
            error = float(np.mean((0.2 * np.sign(train) - theta * train) ** 2))
            bound = consistency_bound(
                error, epsilon, n=n, mu=mu, second_moments=[1.0], widths=[1], delta=0.05, corrected=True
            )
            assert bound < 1
            assert exceedance(0.2 * np.sign(fresh), theta * fresh, epsilon) <= bound


# --- Theorem 5.2 ---


@settings(max_examples=100)
@given(values=columns, epsilon=st.integers(1, 12).map(lambda number: number / 8))
def test_the_least_share_is_the_best_over_all_constants(values, epsilon):
    array = np.array(values)
    middles = (array[:, None] + array[None, :]).ravel() / 2  # an interval can be moved until its values are centred
    best = min(float(np.mean(np.abs(array - middle) >= epsilon)) for middle in middles)
    assert least_exceedance(values, epsilon) == pytest.approx(best)


def product(first, second):
    """Differences of two effects at the rows of a full factorial table, where columns are exactly independent."""
    return np.stack([np.repeat(first, len(second)), np.tile(second, len(first))], axis=1)


@settings(max_examples=100)
@given(first=columns, second=columns, epsilon=st.integers(1, 12).map(lambda number: number / 8))
def test_of_independent_columns_no_effect_is_off_more_often_than_the_sum(first, second, epsilon):
    away = product(np.array(first), np.array(second))
    found = identification(away, np.zeros_like(away), epsilon)
    assert found.identified
    assert max(found.effects) <= exceedance(away.sum(axis=1), np.zeros(len(away)), epsilon) + 1e-12
    # the same in squares
    assert np.var(away, axis=0).max() <= np.var(away.sum(axis=1)) + 1e-9


def test_of_dependent_columns_effects_may_be_off_where_the_sum_is_not():
    x = np.linspace(-1, 1, 101)
    found = identification(np.stack([x, -x], axis=1), np.zeros((101, 2)), 0.25)
    assert found.whole == 0.0
    assert min(found.effects) > 0.7
    assert not found.identified


def test_constants_added_to_effects_and_the_sum_change_nothing():
    generator = np.random.default_rng(0)
    truth, fitted = generator.normal(size=(200, 3)), generator.normal(size=(200, 3))
    moved = fitted + np.array([10.0, -20.0, 3.0])
    one, other = identification(truth, fitted, 0.5), identification(truth, moved, 0.5)
    assert one.effects == pytest.approx(other.effects)
    assert one.whole == pytest.approx(other.whole)


def test_the_printed_proofs_constant_is_none():
    """∫ f₋ⱼ over {x₋ⱼ : |f - h| < ε} changes with xⱼ: the set it is taken over does."""
    first = second = np.linspace(0, 1, 101)
    near = np.abs(first[:, None] + second[None, :]) < 0.5  # f = x₁ + x₂, h = 0
    integrals = (near * second).mean(axis=1)
    assert np.ptp(integrals) > 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exceedance([1.0], [1.0], 0.0), "epsilon: expected a number above 0"),
        (lambda: exceedance([np.nan], [1.0], 1.0), "truth: expected finite numbers"),
        (lambda: least_exceedance([], 1.0), "values: expected finite numbers"),
        (lambda: identification([1.0], [1.0], 1.0), "truth: expected finite numbers in 2 dimensions"),
        (lambda: identification(np.empty((2, 0)), np.empty((2, 0)), 1.0), "at least one column"),
        (lambda: consistency_bound(-1.0, 1.0, **BOUND), "error: expected at least 0"),
        (lambda: consistency_bound(1.0, 1.0, **{**BOUND, "delta": 1.0}), "delta: expected a probability"),
        (lambda: consistency_bound(1.0, 1.0, **{**BOUND, "widths": [8]}), "shape"),
        (lambda: consistency_bound(1.0, 1.0, **{**BOUND, "widths": [8, 0]}), "widths: expected at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
