"""Pairs stay within what their rows support, within memory, and within the number that is asked for."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, mean_poisson_deviance, mean_squared_error

from sparsenam import SNAMClassifier, SNAMRegressor

ROWS = 11_000


def separating(seed, rows):
    """Skewed columns, correlated by 0.9 in pairs that separate classes in their tails, and the score."""
    generator = np.random.default_rng(seed)
    z = generator.normal(size=(rows, 10))
    z[:, 1:8:2] = 0.9 * z[:, 0:8:2] + 0.44 * z[:, 1:8:2]
    together = np.where((z[:, 0:8:2] > 0.3) == (z[:, 1:8:2] - z[:, 0:8:2] > 0.1), 1.0, -1.0)
    score = (together * np.minimum(np.abs(z[:, 0:8:2]), 1.5)) @ [10.0, 7.0, 5.0, 4.0]
    return np.exp(z), score + 1.5 * z[:, 8] * np.abs(z[:, 9]), generator


def assert_supported(model, X_fresh):
    """Effects at new rows stay within the values at nodes that hold training rows."""
    effects = model.interaction_effects(X_fresh)
    assert effects.shape[1] > 0
    for pair, effect in zip(model.model_.pairs, effects.T, strict=True):
        held = pair.values[pair.weights > 0]
        slack = 0.1 * np.ptp(held)
        assert held.min() - slack <= effect.min()
        assert effect.max() <= held.max() + slack
        assert np.abs(held).max() < 30.0


@pytest.mark.parametrize("seed", [8, 9])
def test_pairs_that_separate_classes_do_not_run_away(seed):
    X, score, generator = separating(seed, 2 * ROWS)
    y = generator.uniform(size=score.size) < 1 / (1 + np.exp(-score))
    fresh, y_fresh = X[ROWS:], y[ROWS:]
    model = SNAMClassifier(pairs="auto", random_state=0).fit(X[:ROWS], y[:ROWS])
    plain = SNAMClassifier(pairs=0, random_state=0).fit(X[:ROWS], y[:ROWS])
    assert_supported(model, fresh)
    loss, without = (log_loss(y_fresh, each.predict_proba(fresh)) for each in (model, plain))
    assert loss < 0.9 * without


def test_pairs_of_counts_do_not_fit_what_columns_out_of_sight_explain():
    X, score, generator = separating(0, 10_000)
    y = generator.poisson(np.exp(np.clip(score - 2.0, -15.0, 3.0)))
    X, fresh, y, y_fresh = X[:5000, :2], X[5000:, :2], y[:5000], y[5000:]
    fits = [SNAMRegressor(family="poisson", pairs=pairs, random_state=0).fit(X, y) for pairs in (1, 0)]
    assert_supported(fits[0], fresh)
    loss, without = (mean_poisson_deviance(y_fresh, each.predict(fresh)) for each in fits)
    assert loss < 0.9 * without


@pytest.mark.parametrize("most", [4, 10, 20])
def test_a_number_of_pairs_is_a_limit_to_what_auto_finds(most):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(3000, 12))
    pairs = [
        *zip(range(0, 12, 2), range(1, 12, 2), strict=True),
        *zip(range(1, 12, 2), [*range(2, 12, 2), 0], strict=True),
    ]
    sizes = np.sqrt([0.3, 0.2, 0.1, 0.06, 0.05, 0.05, 0.04, 0.04, 0.03, 0.03, 0.03, 0.03])
    y = sum(size * np.sign(X[:, one] * X[:, other]) for size, (one, other) in zip(sizes, pairs, strict=True))
    y = y + generator.normal(size=3000) + 3 * X[:, 0]
    found = SNAMRegressor(pairs="auto", random_state=0).fit(X, y).interactions_
    limited = SNAMRegressor(pairs=most, random_state=0).fit(X, y).interactions_
    assert len(found) == 12
    assert limited == found if most >= 12 else 2 < len(limited) <= most


def categories(first, second, rows=3200, seed=0):
    """Two categories that act together, some levels frequent and most rare."""
    generator = np.random.default_rng(seed)
    one, other = ((size * generator.uniform(size=rows) ** 3).astype(int) for size in (first, second))
    X = pd.DataFrame({"a": [f"a{code}" for code in one], "b": [f"b{code}" for code in other]}, dtype=object)
    X["c"] = generator.normal(size=rows)
    return X, 2.0 * (-1.0) ** (one + other) + X.c + 0.5 * generator.normal(size=rows)


@pytest.fixture
def peak():
    """Return a function that reads the most bytes that were in use since the test began."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def test_a_pair_of_many_levels_takes_the_memory_of_its_grid(peak):
    X, y = categories(621, 834)
    fresh, y_fresh = categories(621, 834, seed=1)
    known = fresh.a.isin(X.a) & fresh.b.isin(X.b)
    fresh, y_fresh = fresh[known], y_fresh[known]
    model = SNAMRegressor(pairs="auto", random_state=0).fit(X, y)
    assert peak() < 300e6  # some draws from the posterior at a time; a factor of all nodes would take a terabyte
    assert model.interactions_ == (("a", "b"),)
    plain = SNAMRegressor(pairs=0, random_state=0).fit(X, y)
    loss, without = (mean_squared_error(y_fresh, each.predict(fresh)) for each in (model, plain))
    assert loss < without


def test_a_pair_of_some_levels_costs_what_its_cells_with_rows_cost(peak):
    X, y = categories(60, 60)
    model = SNAMRegressor(pairs="auto", random_state=0).fit(X, y)
    assert model.interactions_ == (("a", "b"),)
    assert peak() < 50e6


def test_a_category_with_a_number_is_a_curve_for_each_level(peak):
    generator = np.random.default_rng(0)
    level, x = generator.integers(200, size=8000), generator.normal(size=8000)
    X = pd.DataFrame({"a": [f"a{code}" for code in level], "x": x})
    y = generator.normal(size=200)[level] * x + 0.5 * generator.normal(size=8000)
    model = SNAMRegressor(pairs="auto", random_state=0).fit(X[:6000], y[:6000])
    assert model.interactions_ == (("a", "x"),)
    assert peak() < 100e6
    assert mean_squared_error(y[6000:], model.predict(X[6000:])) < 0.5  # the noise alone makes 0.25
