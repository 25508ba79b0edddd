"""The convex choice, the estimators built on it, and paths, through the public interface."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, StratifiedKFold, TimeSeriesSplit

import sparsenam
import sparsenam.errors
import sparsenam.penalties
from sparsenam import (
    Network,
    RandomFeatureSNAMClassifier,
    RandomFeatureSNAMRegressor,
    SNAMClassifier,
    SNAMRegressor,
    random_feature_path,
    snam_path,
)
from sparsenam.codec import unpack
from sparsenam.convex.problem import Certificate
from sparsenam.datasets import make_classification, make_regression
from sparsenam.errors import InputError

TRUE = ["x0", "x1", "x2", "x3"]


@pytest.fixture(scope="module")
def task():
    return make_regression(800, 8, seed=0)


def test_defaults_find_the_true_features_and_fit_them(task):
    model = SNAMRegressor(random_state=0).fit(task.X[:600], task.y[:600])
    assert list(model.get_feature_names_out()) == TRUE
    assert np.mean((model.predict(task.X[600:]) - task.y[600:]) ** 2) < 6
    np.testing.assert_allclose(model.intercept_ + model.effects(task.X).sum(axis=1), model.predict(task.X))
    assert model.certificate_.gap <= model.certificate_.tol
    assert set(model.certificate_.kept) == set(TRUE)
    assert "of the way to entering" in str(model.certificate_)
    assert unpack(Certificate, model.certificate_.to_dict()) == model.certificate_
    again = clone(model).fit(task.X[:600], task.y[:600])
    np.testing.assert_array_equal(again.predict(task.X), model.predict(task.X))


def test_classification_defaults_find_strong_features():
    task = make_classification(1500, 8, seed=1)
    model = SNAMClassifier(random_state=0).fit(task.X[:1200], task.y[:1200])
    assert {"x2", "x3"} <= set(model.get_feature_names_out()) <= set(TRUE)
    assert model.score(task.X[1200:], task.y[1200:]) > 0.93


def test_units_change_no_selection(task):
    plain = SNAMRegressor(random_state=0).fit(task.X, task.y)
    units = np.array([10, 0.1, 1000, 1, 1, 1, 1e-6, 1])
    scaled = SNAMRegressor(random_state=0).fit(task.X * units + 7 * units, 1000 * task.y - 3)
    np.testing.assert_array_equal(plain.get_support(), scaled.get_support())
    expected = 1000 * plain.predict(task.X) - 3
    np.testing.assert_allclose(scaled.predict(task.X * units + 7 * units), expected, rtol=1e-3, atol=1.0)


def test_column_order_changes_nothing_but_the_order(task):
    table = pd.DataFrame(task.X, columns=list("hgfedcba"))
    backwards = table[table.columns[::-1]]
    one = SNAMRegressor(random_state=0).fit(table, task.y)
    other = SNAMRegressor(random_state=0).fit(backwards, task.y)
    np.testing.assert_array_equal(one.predict(table), other.predict(backwards))


def test_pure_noise_keeps_next_to_nothing():
    generator = np.random.default_rng(0)
    kept = [
        SNAMRegressor(random_state=0).fit(generator.normal(size=(300, 10)), generator.normal(size=300)).get_support()
        for _ in range(5)
    ]
    assert np.sum(kept) <= 2


@pytest.mark.parametrize(
    "settings",
    [
        {"refit": False},
        {"network": Network((20, 10))},
        {"network": Network((20,), init="convex")},
        {"network": Network((20, 10)), "refit": False},
        {"alpha": 0.1},
        {"alpha": 0.1, "penalty": "group_slope"},
        {"alpha": 0.1, "penalty": "elastic_net"},
        {"penalty": "adaptive"},
    ],
    ids=str,
)
def test_every_way_of_fitting_keeps_the_strong_features_and_drops_noise(task, settings):
    model = SNAMRegressor(random_state=0, **settings).fit(task.X, task.y)
    assert model.get_support()[2:4].all()
    assert not model.get_support()[4:].any()
    assert model.score(task.X, task.y) > 0.75


def test_a_linear_choice_is_the_relaxed_lasso():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 6))
    y = 2 * X[:, 0] - X[:, 3] + 0.5 * generator.normal(size=200)
    model = SNAMRegressor(network=Network(()), random_state=0).fit(X, y)
    assert model.get_support()[[0, 3]].all()
    assert model.get_support().sum() <= 3
    kept = np.c_[np.ones(200), X[:, model.get_support()]]
    least_squares = np.linalg.lstsq(kept, y, rcond=None)[0]
    np.testing.assert_allclose(model.predict(X), kept @ least_squares, atol=1e-5)


def test_several_outputs_share_their_features(task):
    Y = np.column_stack([task.y, -task.y + 20 * task.X[:, 5]])
    model = SNAMRegressor(random_state=0).fit(task.X, Y)
    assert model.get_support()[[2, 3, 5]].all()
    assert model.score(task.X, Y) > 0.9
    classes = np.digitize(task.y, np.quantile(task.y, [0.3, 0.7]))
    assert SNAMClassifier(random_state=0).fit(task.X, classes).score(task.X, classes) > 0.85


def test_poisson_counts_find_their_features():
    generator = np.random.default_rng(1)
    X = generator.normal(size=(800, 6))
    y = generator.poisson(np.exp(np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]))
    model = SNAMRegressor(family="poisson", random_state=0).fit(X, y)
    assert model.get_support().tolist() == [True, True, False, False, False, False]
    assert (model.predict(X) > 0).all()
    with pytest.raises(InputError, match="poisson"):
        SNAMRegressor(family="poisson").fit(X, -y - 1.0)


@pytest.mark.parametrize("cv", [3, TimeSeriesSplit(4), GroupKFold(3)], ids=str)
@pytest.mark.parametrize("make", [SNAMRegressor, RandomFeatureSNAMRegressor])
def test_cross_validated_estimators_take_any_splitter(task, make, cv):
    groups = {"groups": np.arange(len(task.y)) % 7} if isinstance(cv, GroupKFold) else {}
    model = make(cv=cv, n_jobs=1).fit(task.X, task.y, **groups)
    assert {"x2", "x3"} <= set(model.get_feature_names_out()) <= set(TRUE)
    assert model.path_.entry_order()[0] == "x3"
    assert model.path_.at_most(2).features.size <= 2
    rows = model.cv_curve_.table()
    assert [row["alpha"] for row in rows] == sorted((row["alpha"] for row in rows), reverse=True)
    assert all(row["standard_error"] > 0 for row in rows)


def test_the_best_rule_keeps_at_least_as_much_as_one_se(task):
    best = SNAMRegressor(rule="best", random_state=0).fit(task.X, task.y)
    one_se = SNAMRegressor(rule="one_se", random_state=0).fit(task.X, task.y)
    assert best.get_support().sum() >= one_se.get_support().sum()


def test_classifiers_by_cross_validation():
    task = make_classification(800, 6, seed=0)
    for make in (SNAMClassifier, RandomFeatureSNAMClassifier):
        model = make(cv=StratifiedKFold(3)).fit(task.X, np.where(task.y > 0, "yes", "no"))
        assert model.score(task.X, np.where(task.y > 0, "yes", "no")) > 0.9


@pytest.mark.parametrize("features", ["ramps", "hinges", "random"])
@pytest.mark.parametrize("norm", ["function", "parameters"])
def test_random_feature_model_is_solved_to_its_certificate(task, features, norm):
    model = RandomFeatureSNAMRegressor(alpha=0.2, features=features, norm=norm, random_state=0).fit(task.X, task.y)
    assert model.certificate_.gap <= 1e-4
    assert model.get_support()[3]
    np.testing.assert_allclose(model.intercept_ + model.effects(task.X).sum(axis=1), model.predict(task.X))


def test_a_path_runs_from_empty_to_dense(task):
    path = random_feature_path(task.X, task.y, n_alphas=12)
    assert path[0].features.size == 0
    assert path[1].features.size > 0
    assert max(point.gap for point in path) <= 1e-4
    assert set(path.entry_order()[:4]) == set(TRUE)
    model = path.at_most(4).model
    assert np.mean((model.scores(task.X)[:, 0] - task.y) ** 2) < 0.3 * np.var(task.y)


def test_network_paths_go_both_ways(task):
    down = snam_path(task.X, task.y, n_alphas=6)
    sizes = [point.features.size for point in down]
    assert sizes == sorted(sizes)
    dense = snam_path(task.X, task.y, order="dense", alphas=[0.3, 0.1, 0.01], network=Network((8,)), random_state=0)
    kept = [set(point.features.tolist()) for point in dense]
    assert kept[0] <= kept[1] <= kept[2]
    with pytest.raises(InputError, match="order"):
        snam_path(task.X, task.y, order="sideways")


@pytest.mark.parametrize(
    "settings",
    [{"features": "fourier"}, {"norm": "nuclear"}, {"width": 0}, {"tol": 0.0}, {"alpha": -1.0}, {"rule": "two_se"}],
    ids=str,
)
def test_wrong_settings_of_random_features_are_refused(task, settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        RandomFeatureSNAMRegressor(**settings).fit(task.X, task.y)


def test_a_penalty_that_is_not_convex_cannot_choose(task):
    with pytest.raises(InputError, match="convex"):
        SNAMRegressor(penalty="group_bridge").fit(task.X, task.y)


def test_each_row_is_judged_by_the_folds_that_test_on_it():
    """The sign of the effect flips half-way: a window of the past fails on the other side, and only there."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(240, 3))
    y = np.where(np.arange(240) < 120, 1, -1) * 3 * X[:, 0] + 0.3 * generator.normal(size=240)
    windows = [(np.arange(start, start + 60), np.arange(start + 60, start + 120)) for start in (0, 60, 120)]
    curves = []
    for splits in (windows, windows[::-1]):
        curve = SNAMRegressor(cv=splits, random_state=0).fit(X, y).cv_curve_
        losses = curve.losses[-1]
        assert np.isnan(losses[:60]).all()
        assert losses[60:120].mean() < 0.3 < 1 < losses[120:180].mean()
        assert losses[180:].mean() < 0.3
        curves.append(curve.mean)
    np.testing.assert_allclose(curves[0], curves[1])


def test_rows_tested_several_times_count_with_their_mean(task):
    rows = np.arange(len(task.y))
    once = [(rows[rows % 2 == 0], rows[rows % 2 == 1]), (rows[rows % 2 == 1], rows[rows % 2 == 0])]
    one = SNAMRegressor(cv=once).fit(task.X, task.y).cv_curve_
    twice = SNAMRegressor(cv=[*once, *once]).fit(task.X, task.y).cv_curve_
    np.testing.assert_allclose(twice.mean, one.mean)
    masks = [(rows % 2 == 0, rows % 2 == 1), (rows % 2 == 1, rows % 2 == 0)]
    np.testing.assert_allclose(SNAMRegressor(cv=masks).fit(task.X, task.y).cv_curve_.mean, one.mean)


@pytest.mark.parametrize("make", [SNAMRegressor, RandomFeatureSNAMRegressor])
def test_nothing_to_learn_gives_an_empty_model_at_once(task, make):
    flat = make(random_state=0).fit(task.X, np.full(len(task.y), 3.3))
    assert not flat.get_support().any()
    np.testing.assert_allclose(flat.predict(task.X), 3.3)
    with pytest.warns(sparsenam.errors.ConstantColumnWarning):
        constant = make(random_state=0).fit(np.ones((50, 3)), task.y[:50])
    np.testing.assert_allclose(constant.predict(np.ones((2, 3))), task.y[:50].mean())


def test_an_alpha_is_enough_where_no_alpha_empties_the_model(task):
    model = RandomFeatureSNAMRegressor(alpha=0.05, penalty=sparsenam.penalties.GroupElasticNet(0.0))
    assert model.fit(task.X, task.y).get_support().all()


@pytest.mark.parametrize(
    "settings",
    [{"norm": "nuclear"}, {"alphas": [-1.0, 0.1]}, {"alphas": []}, {"n_alphas": 0}, {"width": 0}, {"tol": 0}],
    ids=str,
)
def test_wrong_settings_of_a_path_are_refused(task, settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        random_feature_path(task.X, task.y, **settings)


def test_a_target_of_another_length_is_refused(task):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        random_feature_path(task.X, np.r_[task.y, task.y])


def test_splits_outside_the_table_are_refused(task):
    with pytest.raises(InputError, match="cv"):
        SNAMRegressor(cv=[(np.arange(10), np.array([10_000]))]).fit(task.X, task.y)


def test_too_little_time_to_choose_is_warned_of(task, ticking):
    with pytest.warns(UserWarning, match="max_seconds ran out"):
        model = SNAMRegressor(max_seconds=3.0, random_state=0).fit(task.X, task.y)
    assert len(model.path_) < 10  # of 30


def test_without_refit_the_model_is_the_convex_solution(task):
    """It is the random-feature model with as many ramps as choosing takes, alpha included."""
    penalised = SNAMRegressor(refit=False, random_state=0).fit(task.X, task.y)
    convex = RandomFeatureSNAMRegressor(width=16, random_state=0).fit(task.X, task.y)
    assert penalised.alpha_ == convex.alpha_
    np.testing.assert_array_equal(penalised.predict(task.X), convex.predict(task.X))
    refitted = SNAMRegressor(random_state=0).fit(task.X, task.y)
    assert refitted.score(task.X, task.y) > penalised.score(task.X, task.y)
    assert not hasattr(refitted, "history_")
