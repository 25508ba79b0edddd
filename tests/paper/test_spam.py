"""SPAM: limits, properties and what users meet."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from paper.models import SPAMRegressor
from paper.models.smoothers import Smoother
from sparsenam.datasets import make_regression
from sparsenam.errors import ConstantColumnWarning, InputError


def small(rows=300, features=6, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, features))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * generator.standard_normal(rows)


@pytest.mark.filterwarnings("ignore:No features were selected:UserWarning")  # the checks transform tables of noise
@parametrize_with_checks([SPAMRegressor(n_alphas=6, cv=3, random_state=0), SPAMRegressor(0.1, degrees=2.0)])
def test_estimator_passes_scikit_learns_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize("degrees", ["auto", 6.0])
def test_alpha_max_keeps_nothing_and_just_below_something(degrees):
    X, y = small()
    top = SPAMRegressor(0.0, degrees=degrees).fit(X, y).alpha_max_
    empty = SPAMRegressor(top, degrees=degrees).fit(X, y)
    assert not empty.get_support().any()
    np.testing.assert_allclose(empty.predict(X), y.mean())
    assert SPAMRegressor(0.999 * top, degrees=degrees).fit(X, y).get_support().sum() == 1


def test_alpha_zero_keeps_every_feature():
    X, y = small()
    assert SPAMRegressor(0.0).fit(X, y).get_support().all()


@pytest.mark.parametrize("seed", [0, 3])
def test_default_finds_exactly_the_true_features_of_the_synthetic_regression(seed):
    task = make_regression(seed=seed)
    model = SPAMRegressor(random_state=0).fit(task.X[:2400], task.y[:2400])
    assert model.get_support(indices=True).tolist() == [0, 1, 2, 3]
    assert np.mean((model.predict(task.X[2400:]) - task.y[2400:]) ** 2) < 1.3
    assert np.var(model.effects(task.X[2400:]) - task.effects[2400:], axis=0).sum() / 24 < 0.02


def test_effects_are_centred_and_add_up_to_the_prediction():
    X, y = small()
    model = SPAMRegressor(0.02).fit(X, y)
    effects = model.effects(X)
    np.testing.assert_allclose(model.intercept_ + effects.sum(axis=1), model.predict(X), rtol=1e-12)
    np.testing.assert_allclose(effects.mean(axis=0), 0, atol=1e-12)
    assert not effects[:, ~model.get_support()].any()
    np.testing.assert_allclose(np.sqrt(np.mean(effects**2, axis=0)), model.norms_ * y.std(), rtol=1e-6)


def test_chosen_alpha_given_again_is_the_same_model():
    X, y = small()
    chosen = SPAMRegressor(random_state=0).fit(X, y)
    given = SPAMRegressor(chosen.alpha_).fit(X, y)
    np.testing.assert_allclose(chosen.predict(X), given.predict(X), rtol=1e-9)
    assert given.cv_curve_ is None
    assert chosen.alpha_ in chosen.cv_curve_.alphas


def test_units_of_columns_and_target_do_not_matter():
    X, y = small()
    model = SPAMRegressor(random_state=0).fit(X, y)
    other = SPAMRegressor(random_state=0).fit(5 + X * [10, 1, 1e-3, 1, 1, 1e6], 1000 * y - 7)
    np.testing.assert_array_equal(model.get_support(), other.get_support())
    np.testing.assert_allclose(1000 * model.predict(X) - 7, other.predict(5 + X * [10, 1, 1e-3, 1, 1, 1e6]), rtol=1e-4)


def test_refit_takes_the_shrinkage_away():
    X, y = small()
    shrunk, refitted = (SPAMRegressor(0.2, refit=refit).fit(X, y) for refit in (False, True))
    np.testing.assert_array_equal(shrunk.get_support(), refitted.get_support())
    assert (refitted.norms_[:2] > shrunk.norms_[:2]).all()
    free = SPAMRegressor(0.0, degrees=5.0, tol=1e-9).fit(X[:, :2], y)
    kept = SPAMRegressor(0.2, degrees=5.0, tol=1e-9, refit=True).fit(X, y)
    assert kept.get_support(indices=True).tolist() == [0, 1]
    np.testing.assert_allclose(kept.predict(X), free.predict(X[:, :2]), atol=1e-6)


def test_constant_column_is_dropped_with_a_warning():
    X, y = small()
    X[:, 3] = 7.0
    with pytest.warns(ConstantColumnWarning, match="x3"):
        model = SPAMRegressor(0.0).fit(X, y)
    assert model.get_support().tolist() == [True, True, True, False, True, True]
    assert model.degrees_[3] == 0


def test_few_distinct_values_are_fitted_by_their_means():
    generator = np.random.default_rng(0)
    for values in (2, 3, 4, 6):
        x = generator.integers(0, values, 400).astype(float)
        y = generator.standard_normal(values)[x.astype(int)] + 0.1 * generator.standard_normal(400)
        model = SPAMRegressor(0.0, degrees=20.0).fit(x[:, None], y)
        means = np.array([y[x == value].mean() for value in range(values)])
        np.testing.assert_allclose(model.predict(np.arange(values)[:, None].astype(float)), means, atol=1e-6)
        assert model.degrees_[0] == pytest.approx(values - 1)


def test_rare_binary_column_absent_from_a_fold_is_no_trouble():
    X, y = small(rows=100)
    X[:, 4] = 0
    X[17, 4] = 1
    model = SPAMRegressor(random_state=0).fit(X, y)
    assert model.get_support()[:2].all()
    assert np.isfinite(model.cv_curve_.mean).all()


def test_curve_is_a_line_beyond_the_data_and_then_constant():
    x = np.linspace(0, 1, 200)
    model = SPAMRegressor(0.0, degrees=6.0).fit(x[:, None], x**2)
    near, mid, edge, far = (float(model.predict([[value]])[0]) for value in (1.0, 1.05, 1.1, 50.0))
    assert mid - near == pytest.approx(edge - mid, rel=1e-9)
    assert mid > near
    assert far == pytest.approx(edge, rel=1e-12)


def test_far_outlier_does_not_bend_the_curve():
    generator = np.random.default_rng(0)
    x = generator.standard_normal(500)
    y = np.sin(2 * x) + 0.1 * generator.standard_normal(500)
    clean = SPAMRegressor(0.0).fit(x[:, None], y)
    spoiled = SPAMRegressor(0.0).fit(np.append(x, 1e6)[:, None], np.append(y, 0.0))
    grid = np.linspace(-2, 2, 50)[:, None]
    np.testing.assert_allclose(spoiled.predict(grid), clean.predict(grid), atol=0.1)


def test_values_that_differ_by_rounding_count_as_one():
    X, y = small(rows=60)
    doubled = np.vstack([X, X * (1 + 1e-15)])
    model = SPAMRegressor(0.01, degrees=5.0).fit(doubled, np.append(y, y))
    np.testing.assert_allclose(model.predict(X), SPAMRegressor(0.01, degrees=5.0).fit(X, y).predict(X), atol=0.05)


@pytest.mark.parametrize("degrees", [1.0, 2.5, 10.0])
def test_smoother_is_symmetric_keeps_lines_and_has_the_degrees_asked_for(degrees):
    generator = np.random.default_rng(0)
    x = generator.standard_normal(120)
    smoother = Smoother.of(x, np.full((120, 1), 1 / 120))
    factors = smoother.factors(degrees)
    S = np.stack([smoother.values(factors * smoother.coordinates(row[:, None]))[:, 0] for row in np.eye(120)], axis=1)
    np.testing.assert_allclose(S, S.T, atol=1e-9)
    np.testing.assert_allclose(S @ x, x, atol=1e-6)
    np.testing.assert_allclose(S @ np.ones(120), 1, atol=1e-6)
    assert np.trace(S) - 1 == pytest.approx(degrees, abs=1e-6)
    assert np.linalg.eigvalsh(S).min() > -1e-9 and np.linalg.eigvalsh(S).max() < 1 + 1e-9


def test_more_features_than_rows_keep_the_true_ones():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((50, 70))
    y = 3 * X[:, 0] + 2 * X[:, 1] ** 2 + 0.1 * generator.standard_normal(50)
    model = SPAMRegressor(n_alphas=8, cv=3, random_state=0).fit(X, y)
    assert model.get_support(indices=True).tolist() == [0, 1]


def test_splitter_and_feature_names_are_those_given():
    X, y = small()
    table = pd.DataFrame(X, columns=[f"column {index}" for index in range(6)])
    model = SPAMRegressor(cv=KFold(3, shuffle=True, random_state=0)).fit(table, y)
    assert model.get_feature_names_out()[:2].tolist() == ["column 0", "column 1"]
    assert model.transform(table).shape[1] == model.get_support().sum()


def test_column_order_does_not_matter():
    X, y = small()
    table = pd.DataFrame(X, columns=list("abcdef"))
    turned = table[list("fbdace")]
    first, second = (SPAMRegressor(random_state=0).fit(each, y) for each in (table, turned))
    assert set(first.get_feature_names_out()) == set(second.get_feature_names_out())
    np.testing.assert_allclose(first.predict(table), second.predict(turned), rtol=1e-12)


def test_reaching_the_limit_is_a_warning_with_numbers():
    X, y = small()
    with pytest.warns(ConvergenceWarning, match=r"relative change .* max_sweeps=1 before tol=0\.0001"):
        SPAMRegressor(0.01, max_sweeps=1).fit(X, y)
    with (
        pytest.warns(ConvergenceWarning, match="backfittings of the path"),
        pytest.warns(ConvergenceWarning, match="the backfitting with relative change"),
    ):
        SPAMRegressor(max_sweeps=1).fit(X, y)


def test_interrupted_fit_leaves_the_estimator_as_it_was(monkeypatch):
    X, y = small()
    model = SPAMRegressor(0.05).fit(X, y)
    before = model.predict(X)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("paper.models.backfitting._sweep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :3], y)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("library, kind", [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_transform_hands_on_a_table_of_the_library_asked_for(library, kind):
    task = make_regression(n_rows=300, seed=0)
    model = SPAMRegressor(random_state=0).set_output(transform=library).fit(task.X, task.y)
    handed = model.transform(task.X)
    assert isinstance(handed, kind)
    assert list(handed.columns) == list(model.get_feature_names_out())


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"alpha": -1}, "alpha"),
        ({"alpha": "many"}, "alpha"),
        ({"degrees": 0.5}, "degrees"),
        ({"tol": 0}, "tol"),
        ({"max_sweeps": 0}, "max_sweeps"),
        ({"n_alphas": 1.5}, "n_alphas"),
        ({"rule": "worst"}, "rule"),
        ({"refit": "no"}, "refit"),
        ({"cv": 1}, "cv"),
    ],
)
def test_bad_setting_is_refused_in_one_sentence(settings, word):
    X, y = small(rows=30)
    with pytest.raises(InputError, match=rf"^{word}: expected [^\n]*\.$"):
        SPAMRegressor(**settings).fit(X, y)
