"""Pairs stay within what their rows support, within memory, and within the number that is asked for."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, mean_poisson_deviance

from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.errors import InputError, LargePairWarning

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


def categories(first, second, rows=3200):
    """Two categories that act together, some levels frequent and most rare."""
    generator = np.random.default_rng(0)
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


def test_a_pair_of_too_many_levels_is_left_out_with_a_warning(peak):
    X, y = categories(621, 834)
    with pytest.warns(LargePairWarning, match=r"a × b left out, .* more than 200 megabytes; join rare levels") as said:
        model = SNAMRegressor(pairs="auto", random_state=0).fit(X, y)
    assert peak() < 200e6
    assert model.interactions_ == ()
    assert said[0].filename == __file__


def test_a_named_pair_of_too_many_levels_is_refused_before_the_fit(monkeypatch):
    X, y = categories(621, 834)
    monkeypatch.setattr("sparsenam.fit.pipeline.choose", lambda *_: pytest.fail("columns were chosen"))
    with pytest.raises(InputError, match=r"at most 200 megabytes, got 'a' with 'b'.*join rare levels"):
        SNAMRegressor(pairs=[("c", "a"), ("a", "b")], random_state=0).fit(X, y)


def test_a_pair_of_some_levels_is_chosen_without_a_matrix_of_all_cells(peak):
    X, y = categories(60, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LargePairWarning)
        model = SNAMRegressor(pairs="auto", random_state=0).fit(X, y)
    assert model.interactions_ == (("a", "b"),)
    assert peak() < 200e6  # a square of all 3,721 nodes takes 111, and there were three
