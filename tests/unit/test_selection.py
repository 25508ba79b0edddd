"""Paths and curves as data."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sparsenam.errors import InputError
from sparsenam.selection import Compact, CVCurve, OneSE, PathPoint, RegularizationPath


def curve(losses, sizes, weights=None):
    losses = np.asarray(losses, dtype=float)
    supports = tuple(np.arange(size) for size in sizes)
    weights = np.ones(losses.shape[1]) if weights is None else np.asarray(weights, dtype=float)
    alphas, fold_sizes = np.geomspace(1, 0.1, len(sizes)), np.array(sizes, dtype=float)
    return CVCurve(alphas, supports, losses, weights, fold_sizes, np.arange(len(sizes)))


def test_the_best_rule_takes_the_lowest_mean():
    assert curve([[3, 3, 3], [1, 2, 1], [1, 1, 1.5]], [0, 1, 2]).choose("best") == 2


def test_one_se_takes_the_smaller_support_when_the_difference_is_noise():
    generator = np.random.default_rng(0)
    shared = 10 * generator.normal(size=400) ** 2
    noise = 0.1 * generator.normal(size=400)
    losses = [shared + 5, shared + noise + 0.001, shared]
    assert curve(losses, [0, 2, 7]).choose("one_se") == 1


def test_one_se_sees_a_small_but_steady_difference_through_shared_noise():
    shared = 10 * np.random.default_rng(0).normal(size=400) ** 2
    assert curve([shared + 5, shared + 0.05, shared], [0, 2, 3]).choose("one_se") == 2


def test_compact_gives_up_what_does_not_matter_for_practical_purposes():
    """Loss 1 of 101, gain 100: √(1 · 100) = 10, of which two hundredths are 0.2."""
    shared = np.ones(400)
    for worse, chosen in ((0.19, 1), (0.21, 2)):
        losses = [shared + 100, shared + worse, shared]
        assert curve(losses, [0, 2, 7]).choose("compact") == chosen
        assert curve(losses, [0, 2, 7]).choose("one_se") == 2


@given(st.floats(0.05, 0.99), st.floats(0.0, 0.02), st.floats(0.1, 10))
def test_for_squared_loss_compact_is_a_bound_on_an_angle(share, extra, unit):
    angle = np.arccos(np.sqrt(share))
    wider = angle + extra
    losses = np.array([[0.5], [0.5 * np.sin(wider) ** 2], [0.5 * np.sin(angle) ** 2]]) * unit * np.ones(9)
    assume(wider < np.pi / 2 and abs(extra - 0.01) > 2e-3)  # the bound is of first order
    assert curve(losses, [0, 1, 2]).choose(Compact(0.02)) == (1 if extra < 0.01 else 2)


def test_compact_is_one_se_when_nothing_is_gained():
    losses = np.random.default_rng(0).normal(size=(3, 100)) ** 2 + np.arange(3)[:, None]
    assert curve(losses, [0, 1, 2]).choose("compact") == curve(losses, [0, 1, 2]).choose("one_se") == 0


def test_rows_that_no_fold_held_out_do_not_count():
    seen = curve([[3.0, 1.0], [1.0, 2.0]], [0, 1])
    padded = curve([[3.0, 1.0, np.nan], [1.0, 2.0, np.nan]], [0, 1], weights=[1, 1, 0])
    np.testing.assert_allclose(padded.mean, seen.mean)
    np.testing.assert_allclose(padded.standard_error, seen.standard_error)


def test_a_support_counts_only_where_the_folds_agree_with_it():
    """Two points with the same folds: the fit on all rows that has the folds' size is the one they judged."""
    shared = np.random.default_rng(0).normal(size=50) ** 2
    supports = (np.arange(0), np.arange(1), np.arange(2))
    losses = np.array([shared + 5, shared, shared])
    fold_sizes = np.array([0.0, 2.0, 2.0])
    walked = CVCurve(np.array([3.0, 2.0, 1.0]), supports, losses, np.ones(50), fold_sizes, np.array([0, 1, 1]))
    assert walked.choose("one_se") == walked.choose("best") == 2


def test_points_with_equal_fits_have_equal_means_and_the_first_is_taken():
    """Rounding must not decide between them."""
    losses = np.array([[5.0, 5.0], [1.0, 1.0 + 1e-9], [1.0 - 1e-9, 1.0]])
    supports = (np.arange(0), np.arange(2), np.arange(2))
    sizes, same_as = np.array([0.0, 2.0, 2.0]), np.array([0, 1, 1])
    walked = CVCurve(np.array([3.0, 2.0, 1.0]), supports, losses, np.ones(2), sizes, same_as)
    assert walked.mean[1] == walked.mean[2]
    assert [walked.choose(rule) for rule in ("best", "one_se", "compact")] == [1, 1, 1]


def test_a_difference_within_rounding_decides_nothing():
    shared = np.ones(100)
    for tiny in (-1e-8, 1e-8):
        assert curve([shared + 9, shared, shared + tiny], [0, 2, 3]).choose("best") == 1


def test_at_most_max_features_are_kept_and_too_few_are_refused():
    walked = curve([[9.0, 9.0], [3.0, 3.0], [1.0, 1.0]], [1, 2, 5])
    assert [walked.choose("best", most) for most in (None, 5, 4, 1)] == [2, 2, 1, 0]
    with pytest.raises(InputError, match="max_features: expected at most 0 columns, got 1 columns"):
        walked.choose("best", 0)


def test_rules_take_their_width():
    generator = np.random.default_rng(0)
    noise = generator.normal(size=400)
    losses = [np.full(400, 9.0), 1.0 + noise - noise.mean() + 0.1, np.ones(400)]
    walked = curve(losses, [0, 2, 7])
    error = walked.noise(2)[1]
    assert walked.choose(OneSE(0.11 / error)) == 1
    assert walked.choose(OneSE(0.09 / error)) == 2
    for wrong in (lambda: OneSE(-1.0), lambda: Compact(-0.1), lambda: Compact(np.nan)):
        with pytest.raises(InputError, match=r"(width of OneSE|tolerance of Compact): expected a number"):
            wrong()


def test_an_unknown_rule_is_refused():
    with pytest.raises(InputError, match="rule: expected one of"):
        curve([[1.0]], [0]).choose("two_se")


def path():
    supports = [[], [2], [2, 0], [2, 0], [2, 0, 1, 3]]
    norms = [np.zeros(4), [0, 0, 1, 0], [1, 0, 2, 0], [2, 0, 3, 0], [2, 1, 3, 1.5]]
    alphas = np.geomspace(1, 0.1, 5)
    points = [
        PathPoint(float(alpha), np.array(support, dtype=np.intp), np.asarray(norm, dtype=float), None, 1e-5)
        for alpha, support, norm in zip(alphas, supports, norms, strict=True)
    ]
    return RegularizationPath(tuple(points), ("a", "b", "c", "d"))


def test_a_path_is_a_sequence_that_says_which_column_enters_when():
    walk = path()
    assert len(walk) == 5
    assert walk[-1].features.size == 4
    assert walk.entry_order() == ["c", "a", "d", "b"]
    assert walk.norms.shape == (5, 4)
    assert walk.table()[2]["kept"] == "a, c"


def test_at_most_takes_the_densest_point_within_the_number():
    walk = path()
    assert walk.at_most(2).alpha == walk[3].alpha
    assert walk.at_most(0).alpha == walk[0].alpha
    assert walk.at_most(9).alpha == walk[4].alpha
    with pytest.raises(InputError, match="at_most"):
        walk.at_most(-1)
