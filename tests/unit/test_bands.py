"""Bands: kept with the model, wider for whole curves, refused where they would not hold, and no part of predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

import sparsenam
from sparsenam import Network, SNAMClassifier, SNAMRegressor
from sparsenam.datasets import make_classification
from sparsenam.errors import InputError
from sparsenam.explain.explanation import Explanation
from sparsenam.uncertainty.bands import LEVELS, TermBand, _of_smoothness, _with_freedom
from sparsenam.uncertainty.effects import BandsRefusedError


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(3)
    n = 500
    X = pd.DataFrame(
        {
            "wave": generator.uniform(-3, 3, n),
            "line": generator.normal(size=n),
            "noise": generator.normal(size=n),
            "level": generator.choice(list("abcd"), n, p=[0.4, 0.3, 0.2, 0.1]),
        }
    )
    shift = X["level"].map({"a": 0.0, "b": 0.6, "c": -0.6, "d": 1.0})
    X.loc[generator.random(n) < 0.1, "line"] = np.nan
    y = np.sin(X["wave"]) + 0.5 * X["line"].fillna(1.5) + shift + 0.5 * generator.normal(size=n)
    return X, y.to_numpy()


@pytest.fixture(scope="module")
def model(table):
    return SNAMRegressor(random_state=0).fit(*table)


def test_limits_lie_about_the_effect_and_dropped_columns_have_none(model, table):
    found = model.effect_bands(table[0])
    np.testing.assert_array_equal(found.effect, model.effects(table[0]))
    assert (found.lower <= found.effect).all() and (found.effect <= found.upper).all()
    dropped = ~model.get_support()
    assert not (found.upper - found.lower)[:, dropped].any()
    assert ((found.upper - found.lower)[:, ~dropped] > 0).mean() > 0.8


def test_limits_are_wider_at_a_higher_level_and_for_whole_curves(model, table):
    def width(**given):
        found = model.effect_bands(table[0], **given)
        return (found.upper - found.lower)[:, model.get_support()].mean()

    assert width(level=0.8) < width(level=0.95) < width(level=0.95, simultaneous=True)
    assert width(level=0.95, simultaneous=True) < width(level=0.99, simultaneous=True)


def test_rows_that_are_permuted_have_the_same_bands(table):
    X, y = table
    order = np.random.default_rng(0).permutation(len(y))
    one, other = (SNAMRegressor(random_state=0).fit(*rows) for rows in ((X, y), (X.iloc[order], y[order])))
    widths = [fit.effect_bands(X).upper - fit.effect_bands(X).effect for fit in (one, other)]
    assert np.abs(widths[0] - widths[1]).max() < 0.15 * widths[0].max()


def test_a_loaded_model_has_the_same_bands_to_the_bit(model, table, tmp_path):
    model.save(tmp_path / "model.snam")
    loaded = sparsenam.load(tmp_path / "model.snam")
    for asked in ({}, {"level": 0.8, "simultaneous": True}):
        one, other = (fit.effect_bands(table[0], **asked) for fit in (model, loaded))
        np.testing.assert_array_equal(one.upper, other.upper)
    assert loaded.bands_.information == model.bands_.information


def test_an_explanation_has_the_bands_and_goes_through_json(model):
    explanation = model.explain()
    wave = explanation.feature("wave").curve
    assert wave.deviation is not None and len(wave.deviation) == len(wave.x)
    assert wave.whole[0] > 1.96
    assert all(level.deviation[0] > 0 for level in explanation.feature("level").levels)
    assert Explanation.from_dict(explanation.to_dict()) == explanation


def test_levels_of_a_category_vary_as_least_squares_says():
    """With many rows the prior hardly matters, and the standard errors are those of statsmodels."""
    generator = np.random.default_rng(5)
    levels = generator.choice(list("abcde"), 3000, p=[0.4, 0.2, 0.2, 0.15, 0.05])
    y = pd.Series(levels).map(dict(zip("abcde", [0.0, 1.0, -1.0, 2.0, 0.5], strict=True))) + generator.normal(size=3000)
    X = pd.DataFrame({"level": levels})
    model = SNAMRegressor(random_state=0).fit(X, y)
    dummies = pd.get_dummies(levels).astype(float)
    fitted = sm.OLS(y.to_numpy(), dummies.to_numpy()).fit()
    shares = dummies.mean().to_numpy()
    contrast = np.eye(5) - shares  # levels about the mean over rows, as effects are
    expected = np.sqrt(np.diag(contrast @ fitted.cov_params() @ contrast.T))
    found = model.effect_bands(pd.DataFrame({"level": list("abcde")}))
    np.testing.assert_allclose((found.upper - found.effect)[:, 0] / 1.959964, expected, rtol=0.03)


def test_the_papers_classification_is_refused():
    task = make_classification(seed=0)
    model = SNAMClassifier(random_state=0).fit(task.X, task.y)
    assert model.bands_.verdict == "refused" and model.bands_.information < 3.0
    with pytest.raises(BandsRefusedError, match="information for each degree of freedom; 3 are needed"):
        model.effect_bands(task.X)
    assert any("No bands are shown" in note for note in model.explain().card["notes"])
    assert all(feature.curve.deviation is None for feature in model.explain().features)


def test_probabilities_have_limits_between_0_and_1():
    generator = np.random.default_rng(1)
    X = generator.normal(size=(800, 3))
    y = generator.random(800) < 1 / (1 + np.exp(-X[:, 0]))
    model = SNAMClassifier(random_state=0).fit(X, y)
    found = model.effect_bands(X, scale="response")
    assert (found.lower > 0).all() and (found.upper < 1).all()
    middle = 1 / (1 + np.exp(-(model.effects(X) + model.intercept_)))
    np.testing.assert_allclose(found.effect, middle, rtol=1e-12)


def test_columns_with_an_asked_shape_have_no_band_and_say_why(table):
    X, y = table
    model = SNAMRegressor(random_state=0, shapes={"line": "increasing"}).fit(X, y)
    found = model.effect_bands(X)
    assert "shape was asked for" in found.without["line"]
    assert np.isnan(found.lower[:, 1]).all() and np.isfinite(found.lower[:, [0, 2, 3]]).all()


def test_edited_columns_have_no_band(model, table):
    edited = model.edit()
    edited.make_monotone("line", "increasing", reason="known")
    found = edited.effect_bands(table[0])
    assert found.without == {"line": "it was edited after the fit"}
    assert edited.explain().feature("line").curve.deviation is None


def test_other_models_say_that_they_have_none(table):
    X, y = table[0][["wave", "noise"]], table[1]
    network = SNAMRegressor(alpha=0.1, network=Network(hidden=(4,), max_epochs=2), random_state=0).fit(X, y)
    with pytest.raises(BandsRefusedError, match="smooth fit"):
        network.effect_bands(X)
    huber = SNAMRegressor(family="huber", random_state=0).fit(X, y)
    with pytest.raises(BandsRefusedError, match="no likelihood"):
        huber.effect_bands(X)


@pytest.mark.parametrize(("given", "where"), [({"level": 1.0}, "level"), ({"scale": "odds"}, "scale")])
def test_bad_settings_are_one_sentence(model, table, given, where):
    with pytest.raises(InputError, match=f"^{where}"):
        model.effect_bands(table[0], **given)


def test_pairs_have_bands(table):
    X, y = table
    model = SNAMRegressor(pairs=[("wave", "line")], random_state=0).fit(X, y)
    found = model.effect_bands(X)
    np.testing.assert_allclose(found.pair_effect, model.interaction_effects(X))
    assert (found.pair_lower < found.pair_upper).all()
    (pair,) = model.explain().pairs
    assert np.array(pair.deviation).shape == np.array(pair.effect).shape


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 12), st.integers(0, 10_000), st.floats(0.5, 0.95))
def test_a_weaker_prior_gives_the_degrees_of_freedom_that_are_asked_for(size, seed, share):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(size + 3, size))
    information = rows.T @ rows
    roots = generator.normal(size=(size, size))
    precision = roots @ roots.T + 30.0 * np.eye(size)
    covariance = np.linalg.inv(information + precision)
    now = size - np.sum(covariance * precision)
    wanted = now + share * (size - 0.1 - now)
    wider = _with_freedom(covariance, precision, wanted)
    weaker = np.linalg.inv(wider) - information  # tP
    t = np.trace(weaker) / np.trace(precision)
    np.testing.assert_allclose(weaker, t * precision, atol=1e-6 * np.abs(precision).max())
    np.testing.assert_allclose(size - t * np.sum(wider * precision), wanted, rtol=1e-6)
    assert np.linalg.eigvalsh(wider - covariance).min() > -1e-12


def test_the_variance_by_the_smoothness_is_that_of_refits():
    """J says how β moves with log λ, and the Hessian how the restricted likelihood falls: by differences."""
    generator = np.random.default_rng(2)
    rows, noise = generator.normal(size=(40, 4)), 0.7
    beta_true = np.array([1.0, -0.5, 0.3, 0.0])
    y = rows @ beta_true + np.sqrt(noise) * generator.normal(size=40)
    matrices = [np.diag([1.0, 1.0, 0.2, 0.1]), np.diag([0.1, 0.3, 1.0, 2.0])]

    def fitted(log):
        precision = sum(np.exp(each) * matrix for each, matrix in zip(log, matrices, strict=True))
        hessian = rows.T @ rows / noise + precision
        beta = np.linalg.solve(hessian, rows.T @ y / noise)
        residual = y - rows @ beta
        cost = 0.5 * residual @ residual / noise + 0.5 * beta @ precision @ beta
        return beta, cost + 0.5 * np.linalg.slogdet(hessian)[1] - 0.5 * np.linalg.slogdet(precision)[1], precision

    log, step = np.log([1.5, 0.8]), 1e-4
    beta, _, precision = fitted(log)
    covariance = np.linalg.inv(rows.T @ rows / noise + precision)
    (factor,) = _of_smoothness(matrices, np.exp(log), precision, [covariance], beta[:, None])
    moves = [np.eye(2)[i] * step for i in range(2)]
    slopes = np.stack([(fitted(log + move)[0] - fitted(log - move)[0]) / (2 * step) for move in moves], axis=1)
    hessian = np.array(
        [
            [
                (fitted(log + a + b)[1] - fitted(log + a - b)[1] - fitted(log - a + b)[1] + fitted(log - a - b)[1])
                / (4 * step**2)
                for b in moves
            ]
            for a in moves
        ]
    )
    values, vectors = np.linalg.eigh(hessian)
    expected = slopes @ (vectors / np.maximum(values, 0.05)) @ vectors.T @ slopes.T
    np.testing.assert_allclose(factor @ factor.T, expected, rtol=2e-3, atol=1e-6)


def test_the_critical_value_rises_with_the_level():
    band = TermBand(0, np.array([0.0, 1.0]), np.ones((2, 1)), np.linspace(1.0, 4.0, LEVELS.size)[:, None])
    found = [band.critical(level)[0] for level in (0.2, 0.4, 0.5, 0.8, 0.95, 0.99, 0.9999)]
    assert found == sorted(found) and found[-1] == 4.0
    np.testing.assert_array_equal(band.at(np.array([np.nan, -5.0, 0.5, 9.0]))[:, 0], [0.0, 1.0, 1.0, 1.0])


def test_the_band_of_a_pair_holds_the_truth_and_is_no_wider_than_it_must_be():
    generator = np.random.default_rng(11)
    X = generator.uniform(-1, 1, size=(1500, 2))
    truth = 1.2 * X[:, 0] * X[:, 1]
    y = X[:, 0] + truth + 0.5 * generator.normal(size=1500)
    found = SNAMRegressor(pairs=[(0, 1)], random_state=0).fit(X, y).effect_bands(X)
    error = found.pair_effect[:, 0] - truth
    half = 0.5 * (found.pair_upper - found.pair_lower)[:, 0]
    assert (np.abs(error) <= half).mean() > 0.85
    assert half.mean() < 4.0 * np.sqrt(np.mean(error**2))
