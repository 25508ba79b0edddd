"""Paths and curves as data."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from convex_cases import grouped
from sparsenam import SNAMRegressor, load
from sparsenam.convex.path import long_path, lowest_ratio
from sparsenam.datasets import make_regression
from sparsenam.errors import InputError
from sparsenam.penalties import GroupLasso
from sparsenam.selection import Compact, CVCurve, OneSE, PathPoint, RegularizationPath
from sparsenam.selection.choose import Evidence
from sparsenam.selection.curve import balanced_splits, mean_and_error


def curve(losses, sizes, weights=None, n_columns=30):
    losses = np.asarray(losses, dtype=float)
    supports = tuple(np.arange(size) for size in sizes)
    weights = np.ones(losses.shape[1]) if weights is None else np.asarray(weights, dtype=float)
    return CVCurve(np.geomspace(1, 0.1, len(sizes)), supports, losses, weights, np.arange(len(sizes)), n_columns)


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


@pytest.mark.parametrize(("n_columns", "errors"), [(2, 2.0), (300, 2.0), (1000, 2.523), (10**6, 3.0)])
def test_compact_allows_for_more_luck_among_more_columns(n_columns, errors):
    wave = np.tile([1.0, -1.0], 200)
    for worse, chosen in ((0.99 * errors, 1), (1.01 * errors, 2)):
        losses = [np.full(400, 200.0), 100.0 + 2.0 * wave + 0.1 * worse, np.full(400, 100.0)]
        assert curve(losses, [0, 2, 7], n_columns=n_columns).choose("compact") == chosen


@pytest.mark.parametrize(("n_columns", "errors"), [(2, 1.0), (30, 1.0), (100, 1.523), (300, 2.0)])
def test_where_there_may_be_nothing_to_explain_compact_allows_for_chance_alone(n_columns, errors):
    wave = np.tile([1.0, -1.0], 200)
    for worse, chosen in ((0.99 * errors, 1), (1.01 * errors, 2)):
        losses = [1.0 + 40.0 * wave, 2.0 * wave + 0.1 * worse, np.zeros(400)]
        assert curve(losses, [0, 2, 7], n_columns=n_columns).choose("compact") in {chosen, 0}


@given(st.floats(0.01, 0.5), st.floats(0.0, 0.1))
def test_compact_never_gives_up_more_than_a_share_of_what_the_best_explains(gain, given_up):
    """However noisy the difference, where the gain itself is certain."""
    assume(abs(given_up - 0.03) > 1e-6)
    wave = np.tile([1.0, -1.0], 200)
    losses = [np.full(400, 10.0 + gain), 10.0 + given_up * gain + 5.0 * wave, np.full(400, 10.0)]
    assume(abs(given_up * gain) > 2e-4)  # above a tie
    assert curve(losses, [0, 1, 2]).choose("compact") == (1 if given_up < 0.03 else 2)
    assert curve(losses, [0, 1, 2]).choose(Compact(share=0.2)) == 1


def test_compact_keeps_nothing_where_the_gain_is_noise():
    wave = np.tile([1.0, -1.0], 200)
    losses = [10.0 + 3.0 * wave, np.full(400, 9.99), np.full(400, 9.98)]
    assert curve(losses, [0, 1, 2]).choose("best") == 2
    assert curve(losses, [0, 1, 2]).choose("compact") == 0


def test_rows_that_no_fold_held_out_do_not_count():
    seen = curve([[3.0, 1.0], [1.0, 2.0]], [0, 1])
    padded = curve([[3.0, 1.0, np.nan], [1.0, 2.0, np.nan]], [0, 1], weights=[1, 1, 0])
    np.testing.assert_allclose(padded.mean, seen.mean)
    np.testing.assert_allclose(padded.standard_error, seen.standard_error)


def test_points_with_equal_fits_have_equal_means_and_the_first_is_taken():
    """Rounding must not decide between them."""
    losses = np.array([[5.0, 5.0], [1.0, 1.0 + 1e-9], [1.0 - 1e-9, 1.0]])
    supports = (np.arange(0), np.arange(2), np.arange(2))
    walked = CVCurve(np.array([3.0, 2.0, 1.0]), supports, losses, np.ones(2), np.array([0, 1, 1]), 2)
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
        with pytest.raises(InputError, match=r"(width of OneSE|share of Compact): expected"):
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


def classes_of(codes, names):
    """Return one-hot rows with the classes in the order of ``names``, which is a permutation."""
    return np.eye(len(names))[np.argsort(names)[codes]]


@given(st.integers(0, 1000), st.permutations([0, 1, 2]))
def test_folds_hang_on_no_name_of_a_class_and_hold_all_classes(seed, names):
    codes = np.random.default_rng(seed).integers(3, size=40)
    plain, renamed = (
        balanced_splits(classes_of(codes, order), 4, np.random.default_rng(seed), 2) for order in ([0, 1, 2], names)
    )
    assert len(plain) == 8
    for (train, test), (other_train, other_test) in zip(plain, renamed, strict=True):
        assert np.array_equal(train, other_train) and np.array_equal(test, other_test)
        shares = [np.mean(codes[test] == code) - np.mean(codes == code) for code in range(3)]
        assert max(np.abs(shares)) <= 2 / test.size


@given(st.integers(5, 200), st.integers(2, 5), st.integers(0, 100))
def test_folds_of_numbers_are_random_and_balanced(rows, n_folds, seed):
    target = np.arange(rows)[:, None] * 1.0
    generator = np.random.default_rng(seed)
    splits = balanced_splits(target, n_folds, generator, 2)
    held_out = [test for _, test in splits]
    for part in (held_out[:n_folds], held_out[n_folds:]):
        assert np.array_equal(np.sort(np.concatenate(part)), np.arange(rows))
        for test in part:  # of every n_folds neighbours one
            assert np.array_equal(np.unique(test // n_folds), test // n_folds)
    if rows >= 50:
        assert any(not np.array_equal(a, b) for a, b in zip(held_out[:n_folds], held_out[n_folds:], strict=True))


def evidence(**changes):
    given = {"gain": 0.3, "gain_error": 0.05, "behind_all": 0.0, "behind_all_error": 0.01, "best_gain": 0.3}
    return Evidence(**({"kept_in": {"a": 1.0, "b": 0.8}, **given} | changes))


def test_evidence_has_no_notes_where_all_is_well():
    assert evidence().notes() == []
    assert evidence().agreement == pytest.approx(0.9)


def test_evidence_says_what_is_doubtful():
    for changes, words in (
        ({"gain": 0.05}, "cannot tell the model from none"),
        ({"kept_in": {"a": 0.6, "b": 0.2}}, "contradict"),
        ({"behind_all": 0.05}, "All columns together predict better"),
    ):
        (note,) = evidence(**changes).notes()
        assert words in note


def test_a_loss_that_rounds_to_nothing_is_no_note():
    assert evidence(behind_all=4e-4, behind_all_error=1e-6).notes() == []
    assert "0.1 %" in evidence(behind_all=6e-4, behind_all_error=1e-6).notes()[0]


def test_an_empty_model_is_no_doubtful_one():
    assert evidence(gain=0.0, gain_error=0.0, best_gain=-0.1, kept_in={}).notes() == []


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_adaptive_penalty_keeps_weak_effects_that_equal_weights_keep(seed):
    task = make_regression(1000, 8, seed=seed)
    plain, adaptive = (
        SNAMRegressor(penalty=penalty, refit=False, random_state=0).fit(task.X, task.y).get_support()
        for penalty in ("group_lasso", "adaptive")
    )
    assert plain[:4].all()
    assert adaptive[:4].all()


@pytest.mark.parametrize("weights", [1.0, np.array([1.0, 30.0, np.inf, 0.0]), np.array([1.0, 1e9, 1.0, 1.0])])
def test_a_long_path_has_the_steps_of_a_plain_one_and_goes_down_by_the_spread_of_the_weights(weights):
    design = grouped(rows=80, groups=4)
    plain, (n_alphas, ratio) = lowest_ratio(design), long_path(design, GroupLasso(weights), 30)
    steps = np.geomspace(1.0, ratio, n_alphas)
    np.testing.assert_allclose(steps[:30], np.geomspace(1.0, plain, 30))
    finite = np.broadcast_to(weights, 4)[np.isin(weights, [0.0, np.inf], invert=True)] if np.ndim(weights) else [1.0]
    spread = min(np.max(finite) / np.min(finite), 1e4)
    step = steps[0] / steps[1]
    assert plain / spread / step <= ratio <= plain / spread * (1 + 1e-9)


@pytest.mark.parametrize("family", ["poisson", "tweedie"])
def test_a_constant_target_is_not_predicted_better_by_all_columns(family):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = SNAMRegressor(family=family, random_state=0).fit(X, np.zeros(60))
    assert model.evidence_.behind_all == 0.0
    assert "predict better" not in str(model.explain())


def test_the_error_of_a_mean_has_the_unit_of_the_values_however_large_they_are():
    values, weights = np.random.default_rng(0).normal(size=20), np.ones(20)
    mean, error = mean_and_error(values, weights)
    np.testing.assert_allclose(mean_and_error(1e250 * values, weights), (1e250 * mean, 1e250 * error), rtol=1e-12)
    assert mean_and_error(np.zeros(20), weights) == (0.0, 0.0)


def test_a_column_that_true_ones_express_is_dropped_again():
    """It enters the path before them, and the path never drops it (Zhao and Yu, 2006); chance keeps it now and then."""
    kept = []
    for seed in range(8):
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(2000, 10))
        X[:, 2] = (2 * X[:, 0] + 2 * X[:, 1] + generator.normal(size=2000)) / 3
        y = 2 * X[:, 0] + 3 * X[:, 1] + generator.normal(size=2000)
        model = SNAMRegressor(pairs=0, random_state=0).fit(X, y)
        assert all(2 in point.features for point in model.path_ if point.features.size > 1)
        kept.append(tuple(model.get_feature_names_out().tolist()))
    assert kept.count(("x0", "x1")) >= 6 and set(kept) <= {("x0", "x1"), ("x0", "x1", "x2")}


def test_all_columns_are_chosen_where_no_point_of_the_path_is_as_good(tmp_path):
    generator = np.random.default_rng(1)
    factor = generator.normal(size=80)
    X, y = factor[:, None] + 1.5 * generator.normal(size=(80, 60)), factor + 0.05 * generator.normal(size=80)
    model = SNAMRegressor(pairs=0, random_state=0).fit(X, y)
    assert model.get_support().all() and max(model.cv_curve_.n_features) < 60
    assert model.alpha_ == 0.0 and model.certificate_ is None and model.fit_.taken is None
    model.save(tmp_path / "all.snam")
    assert np.array_equal(load(tmp_path / "all.snam").predict(X), model.predict(X))
    assert model.explain().chosen is None
