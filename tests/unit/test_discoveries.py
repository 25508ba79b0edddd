"""rule=FDR keeps what its test finds, says how, and refuses what it cannot hold."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import sparsenam
from sparsenam import (
    FDRSelector,
    RandomFeatureSNAMRegressor,
    SNAMClassifier,
    SNAMRegressor,
    SNAMSurvival,
    survival_target,
)
from sparsenam.cli.app import app
from sparsenam.context import Context, Streams
from sparsenam.convex.design import RampFeatures
from sparsenam.discover.fdr import Discoveries, decide, fewest
from sparsenam.discover.split_test import split_p_values
from sparsenam.errors import InputError
from sparsenam.families import Gaussian
from sparsenam.penalties import GroupLasso
from sparsenam.selection import FDR
from sparsenam.selection.task import ConvexTask
from sparsenam.tables.sample import Sample, prepare

ROWS = 240
TRUE = {"a", "b"}


@cache
def table():
    generator = np.random.default_rng(0)
    return pd.DataFrame(generator.normal(size=(ROWS, 6)), columns=["a", "b", "c", "d", "e", "f"])


@cache
def score():
    return (np.sin(2 * table().a) + 0.8 * table().b).to_numpy()


def target(noise=0.5):
    return score() + noise * np.random.default_rng(1).normal(size=ROWS)


@cache
def fitted():
    return SNAMRegressor(rule=FDR(0.1), random_state=0).fit(table(), target())


def test_the_model_keeps_exactly_the_discoveries():
    model = fitted()
    assert set(model.fdr_.kept) == set(model.get_feature_names_out()) >= TRUE
    kept = {name for name, value in model.fdr_.statistics.items() if value >= model.fdr_.threshold}
    assert kept == set(model.fdr_.kept)
    assert model.evidence_ is None and model.cv_curve_ is not None


def test_few_columns_are_tested_by_halves_and_the_reason_is_said():
    told = fitted().fdr_
    assert told.method == "split" and told.reachable and told.construction is None
    assert "knockoffs find nothing or at least 10" in told.reason and told.reason in told.sentence()
    assert all(0 <= value <= 1 for value in told.p_values.values())


def test_other_rules_have_no_discoveries():
    assert SNAMRegressor(random_state=0).fit(table(), target()).fdr_ is None


def test_discoveries_are_the_same_for_one_seed_and_in_any_order_of_columns():
    again = SNAMRegressor(rule=FDR(0.1), random_state=0).fit(table()[list("fedcba")], target())
    assert dict(again.fdr_.statistics) == dict(fitted().fdr_.statistics)


def test_knockoffs_find_many_columns():
    generator = np.random.default_rng(3)
    X = generator.normal(size=(200, 15))
    y = X[:, :12].sum(axis=1) + generator.normal(size=200)
    model = SNAMRegressor(rule=FDR(0.1), random_state=0).fit(X, y)
    assert model.fdr_.method == "knockoffs" and model.fdr_.construction == "gaussian copula"
    assert model.fdr_.p_values is None and model.get_support()[:12].all()
    assert "copy" in str(model.fdr_)


def test_a_rate_that_so_few_columns_cannot_reach_is_called_out_of_reach():
    told = SNAMRegressor(rule=FDR(0.1, "knockoffs"), random_state=0).fit(table(), target()).fdr_
    assert not told.reachable and told.kept == () and told.threshold is None
    assert any("out of reach" in note for note in told.notes())


@pytest.mark.parametrize(
    ("q", "hypotheses", "kept", "obstacle", "method"),
    [
        (0.1, 60, 12, None, "knockoffs"),
        (0.1, 60, 11, None, "split"),
        (0.2, 60, 11, None, "knockoffs"),
        (0.1, 9, 9, None, "split"),
        (0.2, 60, 40, "the table has categories", "split"),
    ],
)
def test_auto_takes_knockoffs_where_enough_can_be_found(q, hypotheses, kept, obstacle, method):
    assert decide(FDR(q), hypotheses, kept, obstacle)[0] == method
    assert decide(FDR(q, "split"), hypotheses, kept, obstacle) == ("split", "it was asked for")


def test_the_fewest_discoveries_are_one_over_q():
    assert [fewest(q) for q in (0.1, 0.2, 0.05, 0.3)] == [10, 5, 20, 4]


def test_columns_that_are_always_kept_are_told_apart():
    model = SNAMRegressor(rule=FDR(0.1), always_keep=["f"], random_state=0).fit(table(), target())
    assert model.fdr_.always_kept == ("f",) and "f" not in model.fdr_.statistics
    assert set(model.get_feature_names_out()) == {*model.fdr_.kept, "f"}
    assert "Kept without a test: f." in model.fdr_.notes()


def test_columns_that_enter_together_are_one_hypothesis():
    model = SNAMRegressor(rule=FDR(0.1), feature_groups=[["a", "f"]], random_state=0).fit(table(), target())
    told = model.fdr_
    assert told.p_values["a"] == told.p_values["f"] and {"a", "f"} <= set(told.kept)


def test_categories_and_missing_cells_are_tested_by_halves_and_a_column_is_one_hypothesis():
    generator = np.random.default_rng(5)
    X = table().assign(
        town=generator.choice(["x", "y", "z"], ROWS),
        street=generator.choice([f"s{number}" for number in range(30)], ROWS),
        gap=np.where(generator.random(ROWS) < 0.3, np.nan, table().c),
    )
    y = target() + 1.5 * (X.town == "x") + 1.5 * X.gap.isna()
    told = SNAMRegressor(rule=FDR(0.2), random_state=0).fit(X, y).fdr_
    assert told.method == "split" and "categories" in told.reason
    assert {"a", "b", "town", "gap"} <= set(told.kept) and "street" not in told.kept
    assert set(told.statistics) == set(X.columns)
    with pytest.raises(InputError, match="method='knockoffs' of FDR: expected complete columns of numbers"):
        SNAMRegressor(rule=FDR(0.2, "knockoffs"), random_state=0).fit(X, y)


@pytest.mark.parametrize("family", ["binomial", "classes", "poisson", "cox"])
def test_every_kind_of_target_is_tested(family):
    generator, strong, X = np.random.default_rng(2), 2.0 * score()[:160], table()[["a", "b", "c", "d"]][:160]
    given = {"rule": FDR(0.2, "split"), "random_state": 0, "cv": 2}
    if family == "binomial":
        model, y = SNAMClassifier(**given), generator.random(160) < 1 / (1 + np.exp(-2 * strong))
    elif family == "classes":
        scores = np.column_stack([2 * strong, -2 * strong, 0 * strong]) + generator.gumbel(size=(160, 3))
        model, y = SNAMClassifier(**given), scores.argmax(axis=1)
    elif family == "cox":
        time = generator.exponential(size=160) * np.exp(-strong)
        model, y = SNAMSurvival(**given), survival_target(generator.random(160) < 0.8, time)
    else:
        model, y = SNAMRegressor(family="poisson", **given), generator.poisson(np.exp(0.5 * strong))
    told = model.fit(X, y).fdr_
    assert set(told.kept) == TRUE


def test_p_values_of_columns_without_effect_are_no_smaller_than_chance():
    small, total = 0, 0
    for seed in range(4):
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(160, 8))
        X[:, 1] += X[:, 0]
        y = np.abs(X[:, [0]]) + 0.5 * generator.normal(size=(160, 1))  # the columns after the first have no effect
        prepared = prepare(Sample(X, y, np.ones(160), [f"x{column}" for column in range(8)]), standardize=True)
        terms = np.arange(8)
        features = RampFeatures(prepared, 16)
        task = ConvexTask.of(prepared, Gaussian(), features, GroupLasso(), terms, tuple(map(str, terms)))

        def task_for(rows, prepared=prepared, task=task):
            return task.with_sample(replace(prepared, weights=prepared.weights * rows))

        single = [np.array([group]) for group in terms]
        p = split_p_values(task_for, prepared.target, single, generator, Context(Streams(seed)))
        assert p[0] < 0.01
        small, total = small + int((p[1:] <= 0.1).sum()), total + 7
    assert small <= 0.1 * total + 3 * np.sqrt(0.09 * total)


def test_discoveries_are_in_the_file_the_report_and_the_explanation(tmp_path):
    model = fitted()
    model.save(tmp_path / "model.snam")
    loaded = sparsenam.load(tmp_path / "model.snam")
    assert loaded.fdr_ == model.fdr_ and loaded.rule == FDR(0.1)
    json.dumps(loaded.fdr_.to_dict(), allow_nan=False)
    explanation = loaded.explain()
    assert model.fdr_.sentence() in explanation.card["notes"]
    assert all("discovery" in feature.reason for feature in explanation.features)
    assert all("no discovery" in dropped.reason for dropped in explanation.dropped)
    page = explanation.report(tmp_path / "report.html", beside=[loaded.fdr_]).read_text(encoding="utf-8")
    assert "False discoveries" in page
    assert str(loaded.fdr_).startswith("False discoveries: ")


@pytest.mark.parametrize(
    "damage",
    [
        {"method": "guess"},
        {"q": 2.0},
        {"kept": ["nobody"]},
        {"threshold": None},
        {"p_values": {"a": 0.1}},
        {"reachable": 1},
        {"more": 1},
    ],
)
def test_discoveries_that_cannot_be_are_not_read(damage):
    data = fitted().fdr_.to_dict()
    assert Discoveries.from_dict(data) == fitted().fdr_
    with pytest.raises((ValueError, TypeError)):
        Discoveries.from_dict(data | damage)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"refit": False}, r"rule=FDR\(…\): expected a fit of the discovered columns alone, got refit=False"),
        ({"max_features": 3}, "max_features: expected a rule that takes a point of the path"),
        ({"alpha": 0.1}, "rule: expected its default"),
    ],
)
def test_what_would_not_keep_the_rate_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        SNAMRegressor(rule=FDR(0.1), **settings).fit(table(), target())


@pytest.mark.parametrize("pairs", ["auto", [("a", "b"), ("a", "d"), ("c", "d")]])
def test_pairs_are_of_discoveries_alone(pairs):
    """Also where others act together, or are asked for: they are no discoveries."""
    together = 1.5 * table().a * table().b + 1.5 * np.sign(table().c * table().d)
    model = SNAMRegressor(rule=FDR(0.1), pairs=pairs, random_state=0).fit(table(), target() + together.to_numpy())
    assert model.interactions_ == (("a", "b"),)
    assert set(model.get_feature_names_out()) == set(model.fdr_.kept) == TRUE


def test_random_features_refuse_the_rule():
    with pytest.raises(InputError, match="a random-feature model"):
        RandomFeatureSNAMRegressor(rule=FDR(0.1)).fit(table(), target())


@pytest.mark.parametrize("given", [{"q": 0.0}, {"q": 1.0}, {"q": "low"}, {"method": "guess"}])
def test_a_rate_or_method_that_cannot_be_is_refused_in_one_sentence(given):
    with pytest.raises(InputError, match="of FDR: expected"):
        FDR(**given)


def test_the_selector_keeps_the_discoveries_in_a_pipeline():
    selector = FDRSelector(random_state=0)
    model = make_pipeline(clone(selector), LinearRegression()).fit(table(), target())
    told = model[0].fdr_
    assert dict(told.statistics) == dict(fitted().fdr_.statistics)
    assert list(model[0].get_feature_names_out()) == list(told.kept)
    assert model[-1].n_features_in_ == len(told.kept)


def test_the_selector_takes_classes_times_and_named_families():
    X, generator = table()[["a", "c"]][:60], np.random.default_rng(0)
    y = X.a + generator.normal(size=60) > 0
    assert isinstance(FDRSelector(random_state=0).fit(X, y).estimator_, SNAMClassifier)
    time = survival_target(np.ones(60, dtype=bool), generator.exponential(size=60))
    assert isinstance(FDRSelector(random_state=0).fit(X, time).estimator_, SNAMSurvival)
    named = FDRSelector(family="poisson", method="split", random_state=0).fit(X, generator.poisson(np.exp(X.a)))
    assert named.estimator_.family == "poisson" and named.fdr_.reason == "it was asked for"
    with pytest.raises(InputError, match="family: expected one of"):
        FDRSelector(family="round").fit(X, y)


def test_every_parameter_of_the_selector_acts():
    X, generator = table()[["a", "c"]][:60], np.random.default_rng(0)
    y = 0.8 * X.a + 0.8 * generator.normal(size=60)
    shown = {
        name: FDRSelector(**{"random_state": 0} | given).fit(X, y).fdr_
        for name, given in {"default": {"q": 1e-9}, "q": {"q": 0.5}, "random_state": {"random_state": 1}}.items()
    }
    assert len(shown["q"].kept) > len(shown["default"].kept)
    assert dict(shown["random_state"].statistics) != dict(shown["default"].statistics)
    assert FDRSelector(method="knockoffs").fit(X, y).fdr_.method == "knockoffs"


@pytest.mark.filterwarnings("ignore::sparsenam.errors.ConstantColumnWarning")
def test_a_table_without_a_varying_column_has_no_discovery():
    told = FDRSelector(random_state=0).fit(np.ones((30, 2)), np.arange(30.0)).fdr_
    assert told.kept == () and not told.statistics


def test_the_command_line_keeps_discoveries_and_says_so(tmp_path):
    cells = table().assign(y=target())
    cells.to_csv(tmp_path / "table.csv", index=False)
    arguments = ["fit", str(tmp_path / "table.csv"), "--target", "y", "--out", str(tmp_path / "out"), "--fdr", "0.1"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "tested columns are discoveries" in " ".join(done.output.split())
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text(encoding="utf-8"))
    assert set(metrics["fdr"]["kept"]) == set(metrics["kept"]) >= TRUE
    assert "False discoveries" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    refused = CliRunner().invoke(app, [*arguments, "--rule", "best"])
    assert refused.exit_code != 0 and "--fdr" in refused.output
