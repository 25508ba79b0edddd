"""Weights and repeated rows: counts give the same fit at a given alpha; relative weights have no unit."""

import warnings

import numpy as np
import pytest

from sparsenam import RandomFeatureSNAMRegressor, SNAMClassifier, SNAMRegressor
from sparsenam.errors import InputError

ROWS = 90
RNG = np.random.default_rng(3)
TABLE = RNG.normal(size=(ROWS, 4))
TABLE[::11, 2] = np.nan
SCORE = np.sin(2.0 * TABLE[:, 0]) + 0.5 * TABLE[:, 1]
COUNTS = RNG.integers(0, 4, ROWS)
REPEATED = np.repeat(np.arange(ROWS), COUNTS)

NUMBERS = SCORE + 0.5 * RNG.normal(size=ROWS)
WHOLE = RNG.poisson(np.exp(0.5 + SCORE)).astype(float)
AMOUNTS = np.exp(SCORE) * RNG.gamma(2.0, size=ROWS)
# pairs are chosen by folds, and a repeated row falls on both sides of one
ALPHA = {"alpha": 0.02, "weights": "counts", "random_state": 0, "pairs": 0}
CASES = {
    "gaussian": (SNAMRegressor(**ALPHA), NUMBERS),
    "huber": (SNAMRegressor(family="huber", **ALPHA), NUMBERS),
    "quantile": (SNAMRegressor(family="quantile", **ALPHA), NUMBERS),
    "poisson": (SNAMRegressor(family="poisson", **ALPHA), WHOLE),
    "negative_binomial": (SNAMRegressor(family="negative_binomial", **ALPHA), WHOLE),
    "gamma": (SNAMRegressor(family="gamma", **ALPHA), AMOUNTS),
    "tweedie": (SNAMRegressor(family="tweedie", **ALPHA), np.where(AMOUNTS > 0.5, AMOUNTS, 0.0)),
    "pairs": (SNAMRegressor(**ALPHA | {"pairs": [(0, 1)]}), NUMBERS),
    "shapes": (SNAMRegressor(shapes={0: "increasing", 1: "linear"}, **ALPHA), NUMBERS),
    "binomial": (SNAMClassifier(**ALPHA), NUMBERS > 0.0),
    "multinomial": (SNAMClassifier(**ALPHA), np.digitize(NUMBERS, [-0.5, 0.5])),
    "penalised": (SNAMRegressor(alpha=0.02, refit=False), NUMBERS),
    "random features": (RandomFeatureSNAMRegressor(alpha=0.02), NUMBERS),
}


def linear_predictor(model):
    pairs = model.interaction_effects(TABLE)
    return np.asarray(model.intercept_) + model.effects(TABLE).sum(axis=1) + (pairs.sum(axis=1) if pairs.size else 0.0)


@pytest.mark.parametrize("name", CASES)
def test_counts_of_rows_are_repeated_rows(name):
    model, target = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighted = linear_predictor(model.fit(TABLE, target, sample_weight=COUNTS))
        repeated = linear_predictor(model.fit(TABLE[REPEATED], target[REPEATED]))
    assert np.abs(weighted - repeated).max() < 1e-6 * max(1.0, repeated.std())


def test_relative_weights_have_no_unit_and_say_nothing_of_how_many_rows_there_are():
    def fitted(given, **settings):
        model = SNAMRegressor(alpha=0.02, random_state=0, **settings)
        return linear_predictor(model.fit(TABLE, NUMBERS, sample_weight=given))

    np.testing.assert_allclose(fitted(7.0 * COUNTS), fitted(COUNTS), rtol=1e-6, atol=1e-9)
    assert np.abs(fitted(COUNTS, weights="counts") - fitted(COUNTS)).max() > 1e-6
    np.testing.assert_allclose(fitted(np.ones(ROWS), weights="counts"), fitted(None), rtol=1e-6, atol=1e-9)


def test_what_weights_mean_is_said_where_it_decides_something():
    for settings in ({"weights": "often"}, {"weights": "counts", "refit": False}):
        with pytest.raises(InputError, match="weights: "):
            SNAMRegressor(alpha=0.1, **settings).fit(TABLE, NUMBERS)
