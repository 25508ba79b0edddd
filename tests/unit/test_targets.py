"""Every kind of target: true features found on curved truths, and bad tables refused in one sentence."""

import re

import numpy as np
import pandas as pd
import pytest

from sparsenam import SNAMClassifier, SNAMRegressor, SNAMSurvival, survival_target
from sparsenam.errors import InputError

ROWS = 800


def curved(seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(ROWS, 6))
    return generator, X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 3] ** 2 - 0.5


def drawn(family, generator, scores):
    mean = np.exp(scores)
    if family == "poisson":
        return generator.poisson(mean).astype(float)
    if family == "negative_binomial":
        return generator.poisson(mean * generator.gamma(2.0, 0.5, mean.size)).astype(float)
    if family == "gamma":
        return mean * generator.gamma(2.0, 0.5, mean.size) + 1e-12
    if family == "tweedie":
        claims = generator.poisson(1.5, mean.size)
        return np.array([generator.gamma(2.0, size / 3.0, n).sum() for size, n in zip(mean, claims, strict=True)])
    tails = {"quantile": 3.0, "huber": 1.5, "gaussian": 30.0}[family]
    return scores + 0.3 * generator.standard_t(tails, mean.size)


FAMILIES = ["gaussian", "poisson", "negative_binomial", "gamma", "tweedie", "quantile", "huber"]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_true_features_of_a_curved_truth_are_found(family):
    generator, X, scores = curved()
    y = drawn(family, generator, scores)
    model = SNAMRegressor(family=family, pairs=0, random_state=0).fit(X, y)
    assert np.flatnonzero(model.get_support()).tolist() == [0, 3]
    assert np.corrcoef(model.effects(X).sum(axis=1), scores)[0, 1] > 0.95
    assert model.certificate_.gap <= 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_effects_and_intercept_make_the_prediction(family):
    generator, X, scores = curved(1)
    y = drawn(family, generator, scores)
    model = SNAMRegressor(family=family, random_state=0).fit(X[:300], y[:300])
    total = model.intercept_ + model.effects(X).sum(axis=1)
    log_link = model.model_.family.link == "log"
    np.testing.assert_allclose(np.exp(total) if log_link else total, model.predict(X), rtol=1e-9)


def test_an_offset_is_an_exposure_for_gamma_and_tweedie_too():
    generator, X, scores = curved(2)
    exposure = generator.uniform(0.5, 4.0, ROWS)
    for family in ("gamma", "tweedie"):
        y = exposure * drawn(family, generator, scores)
        model = SNAMRegressor(family=family, random_state=0).fit(X, y, exposure=exposure)
        assert np.flatnonzero(model.get_support()).tolist() == [0, 3]
        assert np.corrcoef(model.effects(X).sum(axis=1), scores)[0, 1] > 0.95


def test_a_family_without_rates_refuses_an_exposure():
    _, X, scores = curved()
    with pytest.raises(InputError, match="exposure: expected a family of rates"):
        SNAMRegressor(family="negative_binomial").fit(X, np.round(np.exp(scores)), exposure=np.ones(ROWS))


def table(rows=60):
    generator = np.random.default_rng(0)
    return pd.DataFrame({"a": generator.normal(size=rows), "b": generator.choice(list("xyz"), rows)})


NUMBERS = np.random.default_rng(1).normal(size=60)
BAD = {
    "duplicate names": (pd.concat([table(), table()], axis=1), NUMBERS, SNAMRegressor(), "twice|duplicate"),
    "target inside": (table().assign(y=NUMBERS), pd.Series(NUMBERS, name="y"), SNAMRegressor(), "target"),
    "mixed types": (table().assign(b=[1, "x"] * 30), NUMBERS, SNAMRegressor(), "'b'.*(mixed|one type)"),
    "infinite": (table().assign(a=np.inf), NUMBERS, SNAMRegressor(), "'a'.*inf"),
    "no rows": (table(0), np.zeros(0), SNAMRegressor(), "0 sample|minimum of"),
    "one row": (table(1), np.zeros(1), SNAMRegressor(), "minimum of 2"),
    "negative counts": (table(), NUMBERS, SNAMRegressor(family="poisson"), "poisson family: expected"),
    "gamma of 0": (table(), np.zeros(60), SNAMRegressor(family="gamma"), "gamma family: expected"),
    "one class": (table(), np.zeros(60), SNAMClassifier(), "at least two classes"),
    "times of 0": (table(), survival_target, SNAMSurvival(), "time"),
    "no events": (table(), survival_target, SNAMSurvival(), "event"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_a_bad_table_gets_one_sentence_and_leaves_nothing(case):
    X, y, model, message = BAD[case]
    if case in ("times of 0", "no events"):
        times = np.arange(60.0) if case == "times of 0" else np.arange(1.0, 61.0)
        y = np.array(
            list(zip(np.full(60, case == "times of 0"), times, strict=True)), dtype=[("event", "?"), ("time", "f8")]
        )
    with pytest.raises(ValueError, match=message) as caught:
        model.fit(X, y)
    assert "\n" not in str(caught.value).strip()
    assert not [name for name in vars(model) if name.endswith("_")]


def test_an_array_of_another_width_at_predict_is_refused():
    model = SNAMRegressor(random_state=0).fit(table(), NUMBERS)
    with pytest.raises(ValueError, match=r"3 features.*expecting 2"):
        model.predict(np.zeros((4, 3)))


def test_dates_become_days_and_say_so():
    generator = np.random.default_rng(0)
    days = pd.date_range("2020-01-01", periods=400, freq="D")
    y = np.sin(np.arange(400) / 30) + 0.1 * generator.normal(size=400)
    model = SNAMRegressor(random_state=0).fit(pd.DataFrame({"day": days, "noise": generator.normal(size=400)}), y)
    assert model.get_feature_names_out().tolist() == ["day"]
    assert "day" in str(model.encoder_) and "1970" in str(model.encoder_)
    assert model.score(pd.DataFrame({"day": days, "noise": 0.0}), y) > 0.9


@pytest.mark.parametrize("bad", ["$ 620", None, "n.b."])
def test_a_target_that_is_no_number_is_named_with_its_row(bad):
    y = pd.Series([1.0, 2.0, bad, 4.0] * 5, dtype=object)
    got = "NaN in row 2" if bad is None else f"the text {bad!r} in row 2"
    with pytest.raises(InputError, match=f"y: expected .*numbers, got {re.escape(got)}; "):
        SNAMRegressor().fit(np.arange(20.0)[:, None], y)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_a_row_without_a_class_is_named(missing):
    y = pd.Series(["a", "b", "a", missing] * 5, dtype=object)
    with pytest.raises(InputError, match="y: expected a class in every row, got none in row 3; leave out the rows"):
        SNAMClassifier().fit(np.arange(20.0)[:, None], y)
