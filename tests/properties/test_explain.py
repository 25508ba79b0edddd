"""Contributions add up, explanations survive JSON, and the largest comes first, whatever the model."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsenam import RandomFeatureSNAMClassifier, RandomFeatureSNAMRegressor, SNAMSurvival, survival_target
from sparsenam.estimators.regression import REGRESSION_FAMILIES
from sparsenam.explain import Explanation, LocalExplanation
from sparsenam.explain.charts import spread

GENERATOR = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "a": GENERATOR.normal(size=160),
        "b": np.where(GENERATOR.uniform(size=160) < 0.3, np.nan, GENERATOR.normal(size=160)),
        "c": GENERATOR.choice(["x", "y", "z"], 160),
        "d": GENERATOR.normal(size=160),
    }
)
SIGNAL = TABLE["a"] + TABLE["b"].fillna(1.5) + (TABLE["c"] == "x") + 0.3 * GENERATOR.normal(size=160)


def regression(family):
    generator = np.random.default_rng(1)  # whatever other tests draw
    rates = np.exp(0.4 * SIGNAL - 0.5)
    target = {"poisson": generator.poisson(rates), "negative_binomial": generator.poisson(rates)}.get(
        family, rates if family in ("gamma", "tweedie") else SIGNAL
    )
    return RandomFeatureSNAMRegressor(alpha=0.02, family=family), target


def classification(classes):
    generator = np.random.default_rng(1)  # whatever other tests draw
    edges = np.quantile(SIGNAL, np.arange(1, classes) / classes)
    target = np.digitize(SIGNAL + generator.normal(size=160), edges)
    return RandomFeatureSNAMClassifier(alpha=0.01), np.array(["one", "two", "three"])[target]


def labels():
    generator = np.random.default_rng(1)  # whatever other tests draw
    both = np.column_stack([SIGNAL > 0.5, TABLE["d"] + generator.normal(size=160) > 0])
    return RandomFeatureSNAMClassifier(alpha=0.01), both.astype(int)


def survival():
    generator = np.random.default_rng(1)  # whatever other tests draw
    times = generator.exponential(np.exp(-SIGNAL)) + 1e-6
    return SNAMSurvival(alpha=0.05, random_state=0), survival_target(generator.uniform(size=160) < 0.8, times)


def several():
    return RandomFeatureSNAMRegressor(alpha=0.02), np.column_stack([SIGNAL, -2 * TABLE["a"] + TABLE["d"]])


CASES = {
    **{family: lambda family=family: regression(family) for family in REGRESSION_FAMILIES},
    "two classes": lambda: classification(2),
    "three classes": lambda: classification(3),
    "labels": labels,
    "several targets": several,
    "survival": survival,
}


@pytest.fixture(scope="module", params=CASES)
def model(request):
    model, target = CASES[request.param]()
    return model.fit(TABLE, target)


def test_contributions_and_the_intercept_add_up_to_the_score(model):
    local = model.explain_local(TABLE)
    scores = model.fit_.scores(TABLE)
    assert model.explain().features
    for row, score in zip(local.rows, scores, strict=True):
        total = np.array(row.intercept) + np.sum([part.effect for part in row.contributions], axis=0)
        np.testing.assert_allclose(total, score, atol=1e-6)
        np.testing.assert_allclose(row.score, score)
        predicted = score if isinstance(model, SNAMSurvival) else model.model_.family.mean(score[None])[0]
        np.testing.assert_allclose(row.prediction, predicted)


def test_the_largest_comes_first(model):
    sizes = [feature.mean_absolute for feature in model.explain().features]
    assert sizes == sorted(sizes, reverse=True)
    for row in model.explain_local(TABLE.head(20)).rows:
        heights = [max(map(abs, part.effect)) for part in row.contributions]
        assert heights == sorted(heights, reverse=True)


def test_explanations_survive_json(model):
    explanation, local = model.explain(), model.explain_local(TABLE.head(5))
    assert Explanation.from_dict(explanation.to_dict()) == explanation
    assert Explanation.from_dict(json.loads(explanation.to_json())) == explanation
    assert LocalExplanation.from_dict(json.loads(local.to_json())) == local


def test_effects_have_one_number_for_each_output(model):
    explanation = model.explain()
    outputs = len(explanation.outputs)
    assert len(explanation.intercept) == outputs
    for feature in explanation.features:
        rows = [level.effect for level in feature.levels or ()]
        rows += list(feature.curve.effect if feature.curve else ())
        assert {len(row) for row in rows} == {outputs}


def test_explaining_changes_no_bit_of_the_model(model):
    model = pickle.loads(pickle.dumps(model))
    before = pickle.dumps(model)
    model.explain(TABLE)
    model.explain_local(TABLE.head(3))
    assert pickle.dumps(model) == before


@given(st.lists(st.floats(0, 1), max_size=30), st.floats(0.001, 0.2))
@settings(max_examples=200)
def test_labels_keep_their_distance_and_their_order(positions, distance):
    positions = np.array(positions)
    moved = spread(positions, distance)
    assert np.all((moved >= -1e-9) & (moved <= 1 + 1e-9))
    order = np.argsort(positions, kind="stable")
    room = min(distance, 1 / max(1, positions.size - 1))
    assert np.all(np.diff(moved[order]) >= room - 1e-9)
    if np.all(np.diff(np.sort(positions)) >= distance):
        np.testing.assert_allclose(moved, positions, atol=1e-9)
