"""Stability of the choice and other models as good: planted tables, every kind of target, and the bound."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.model_selection import GroupKFold
from typer.testing import CliRunner

import sparsenam
from sparsenam import (
    Network,
    RandomFeatureSNAMRegressor,
    SNAMClassifier,
    SNAMRegressor,
    SNAMSurvival,
    survival_target,
)
from sparsenam.cli.app import app
from sparsenam.discover.stability import Stability, complementary_halves, replacements_of
from sparsenam.errors import InputError
from sparsenam.explain import Explanation
from sparsenam.explain.report import render_report
from sparsenam.selection import Compact

ROWS = 300


@pytest.fixture(scope="module")
def planted():
    """Return X, of which x0 and its near copy x3 act through a curve, x1 alone acts, and the rest is noise; and y."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, 7))
    x[:, 3] = x[:, 0] + 0.02 * generator.normal(size=ROWS)
    return x, 1.5 * np.sin(x[:, 0]) + x[:, 1] + 0.5 * generator.normal(size=ROWS)


@pytest.fixture(scope="module")
def model(planted):
    return SNAMRegressor(random_state=0).fit(*planted)


@pytest.fixture(scope="module")
def stability(model, planted):
    return model.stability(*planted, n_pairs=10)


@pytest.fixture(scope="module")
def alternatives(model, planted):
    return model.alternatives(*planted)


def test_halves_are_complements_of_half_of_the_rows():
    halves = complementary_halves(np.arange(21.0)[:, None], 6, np.random.default_rng(0))
    assert halves.shape == (12, 21)
    assert (halves.sum(axis=1) == 10).all()
    assert not (halves[::2] & halves[1::2]).any()
    assert np.unique(halves, axis=0).shape == halves.shape


def test_halves_tear_no_group_apart():
    groups = np.repeat(np.arange(10), 5)
    for half in complementary_halves(np.arange(50.0)[:, None], 4, np.random.default_rng(0), groups):
        assert {half[groups == group].sum() for group in range(10)} == {0, 5}


def test_both_halves_have_every_value_of_a_rare_class():
    target = np.zeros((40, 1))
    target[[3, 30]] = 1.0
    halves = complementary_halves(target, 20, np.random.default_rng(0))
    assert (halves[:, [3, 30]].sum(axis=1) == 1).all()


def test_a_class_of_one_row_has_no_halves():
    target = np.zeros((40, 1))
    target[3] = 1.0
    with pytest.raises(InputError, match="varies in both halves"):
        complementary_halves(target, 1, np.random.default_rng(0))


def most_in_tail(mean: float, at_least: float, pairs: int) -> float:
    """Return the largest P(X ≥ at_least) of all distributions on 0, 1/B, …, 1 with one peak and at most this mean."""
    places = np.arange(pairs + 1) / pairs
    best = 0.0
    for peak in range(pairs + 1):
        rises = [np.eye(pairs + 1)[i] - np.eye(pairs + 1)[i + 1] for i in range(peak)]
        falls = [np.eye(pairs + 1)[i + 1] - np.eye(pairs + 1)[i] for i in range(peak, pairs)]
        found = linprog(
            -(places >= at_least - 1e-12).astype(float),
            A_ub=np.array([places, *rises, *falls]),
            b_ub=np.array([mean, *np.zeros(pairs)]),
            A_eq=np.ones((1, pairs + 1)),
            b_eq=[1.0],
        )
        best = max(best, -found.fun if found.status == 0 else 0.0)
    return best


@pytest.mark.parametrize("threshold", [0.7, 0.75, 0.8, 0.9, 1.0])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_the_bounds_hold_for_the_worst_distributions(threshold, share):
    # a column of chance θ is in both halves of a pair with chance θ²; in τ of the halves only if in 2τ - 1 of the pairs
    pairs = 20
    worst = most_in_tail(share**2, 2 * threshold - 1, pairs)
    found = stability_with(share, 1, pairs)
    bound = found.bound_if_unimodal(threshold)
    assert bound is not None and worst <= bound + 1e-9
    assert bound <= found.bound(threshold) * (1 + 1e-9) + 1e-12


def stability_with(kept_per_half, n_columns, n_pairs=25):
    shares = {f"x{column}": kept_per_half / n_columns for column in range(n_columns)}
    return Stability(n_pairs, n_pairs, 0.1, kept_per_half, shares, (), (), ())


def test_the_simple_bound_is_that_of_the_article():
    assert stability_with(10, 100).bound(0.9) == pytest.approx(100 / (100 * 0.8))
    assert stability_with(10, 100).bound(0.5) == np.inf
    assert stability_with(10, 100).bound_if_unimodal(0.5) is None
    assert stability_with(80, 100).bound_if_unimodal(0.9) is None


def test_columns_kept_in_turn_replace_one_another_and_independent_ones_do_not():
    generator = np.random.default_rng(0)
    one = generator.random(50) < 0.5
    kept = np.column_stack([one, ~one, generator.random((50, 4)) < 0.5, np.ones(50, dtype=bool)])
    found = {(pair.column, pair.other): pair for pair in replacements_of(kept, list("abcdefg"), {})}
    assert set(found) == {("a", "b"), ("b", "a")}
    assert found["a", "b"].share == 1.0
    assert found["a", "b"].share_in_all == pytest.approx(kept[:, 1].mean())


def test_frequencies_tell_what_acts_from_noise(stability):
    assert stability.frequencies["x1"] == 1.0
    assert max(stability.frequencies[name] for name in ("x0", "x3")) > 0.5
    assert max(stability.frequencies[f"x{column}"] for column in (2, 4, 5, 6)) < 0.5
    assert stability.kept_per_half == pytest.approx(sum(stability.frequencies.values()))
    assert "x1" in stability.stable(1.0)


def test_near_copies_are_named_as_replacements(stability):
    assert {pair.other for pair in stability.replacements if pair.column in ("x0", "x3")} <= {"x0", "x3"}
    assert any(pair.expressed is not None for pair in stability.replacements)


def test_the_same_question_has_the_same_answer_and_predictions_stay(model, planted, stability):
    before = model.predict(planted[0])
    assert clone(model).fit(*planted).stability(*planted, n_pairs=10) == stability
    assert np.array_equal(before, model.predict(planted[0]))


def test_stability_is_remembered_in_the_explanation_the_report_and_the_file(model, planted, stability, tmp_path):
    assert clone(model).fit(*planted).stability_ is None
    explanation = model.explain()
    feature = explanation.feature("x1")
    assert feature.stability == stability.frequencies["x1"]
    assert "in halves: share of half-samples that keep it" in str(explanation)
    assert "In halves" in render_report(explanation)
    assert Explanation.from_dict(json.loads(explanation.to_json())) == explanation
    model.save(tmp_path / "m.snam")
    loaded = sparsenam.load(tmp_path / "m.snam")
    assert loaded.stability_ == stability
    assert loaded.stability(*planted, n_pairs=10) == stability


def test_a_result_is_plain_data_and_text(stability):
    assert Stability.from_dict(json.loads(json.dumps(stability.to_dict()))) == stability
    text = str(stability)
    assert text.startswith("Stability of the choice:")
    assert "random choice" in text
    with pytest.raises(InputError, match="kept_per_half: a number of 0"):
        Stability.from_dict({**stability.to_dict(), "kept_per_half": -1.0})
    with pytest.raises(InputError, match="threshold"):
        stability.stable(2.0)


def test_of_near_copies_either_is_enough_and_one_takes_the_place_of_the_other(model, planted, alternatives):
    assert set(model.get_feature_names_out()) == {"x0", "x1", "x3"}
    assert set(alternatives.exchangeable) == {"x0", "x3"}
    assert {found.columns for found in alternatives.models} == {("x0", "x1"), ("x1", "x3")}
    alone = SNAMRegressor(random_state=0, penalty_weights={3: 3.0}).fit(*planted)
    assert "x3" not in alone.get_feature_names_out()
    found = alone.alternatives(*planted)
    assert "x3" in found.exchangeable["x0"]
    assert any(other.dropped == ("x0",) and other.added == ("x3",) for other in found.models)


def test_a_column_that_acts_alone_is_in_every_good_model_and_noise_in_none(alternatives):
    assert alternatives.needed == ("x1",)
    for found in alternatives.models:
        assert "x1" in found.columns
        assert not {"x2", "x4", "x5", "x6"} & set(found.columns)
        assert found.explained == pytest.approx(alternatives.explained - found.behind)


def test_a_wider_tolerance_lets_more_models_in(model, planted, alternatives):
    wide = model.alternatives(*planted, tolerance=1.0)
    assert len(wide.models) > len(alternatives.models)
    assert "x1" not in wide.needed
    assert len(model.alternatives(*planted, tolerance=1.0, most=1).models) == 1
    assert "without" in str(wide)


def test_alternatives_name_the_share_that_the_rule_may_give_up(planted, alternatives):
    assert "and 3 % of what it explains" in str(alternatives)
    strict = SNAMRegressor(rule=Compact(share=0.001), random_state=0).fit(*planted).alternatives(*planted)
    assert "and 0.1 % of what it explains" in str(strict)


def test_alternatives_on_a_loaded_model_are_the_same(model, planted, alternatives, tmp_path):
    model.save(tmp_path / "m.snam")
    assert sparsenam.load(tmp_path / "m.snam").alternatives(*planted) == alternatives
    json.dumps(alternatives.to_dict())
    assert "Other models as good" in render_report(model.explain(), beside=[alternatives])


def test_equal_columns_are_exchangeable_and_what_is_always_kept_is_not_asked_about(planted):
    x = np.column_stack([planted[0][:, [0, 1, 2]], 2.0 * planted[0][:, 1]])
    fitted = SNAMRegressor(random_state=0, always_keep=[2]).fit(x, planted[1])
    found, measured = fitted.alternatives(x, planted[1]), fitted.stability(x, planted[1], n_pairs=2)
    assert found.exchangeable["x1"] == {"x3": 0.0}
    assert found.needed == ("x0",)
    assert measured.always_kept == ("x2",)
    assert set(measured.frequencies) == {"x0", "x1"}


def of_every_kind():
    generator = np.random.default_rng(1)
    x = generator.normal(size=(160, 3))
    score = 1.5 * x[:, 0] + x[:, 1]
    times = generator.exponential(np.exp(-score))
    ends = generator.exponential(2.0, size=160)
    counts, exposure = generator.poisson(np.exp(score / 2)), generator.uniform(0.5, 2.0, size=160)
    noisy = score + 0.5 * generator.normal(size=160)
    survival = survival_target(times <= ends, np.minimum(times, ends))
    yes = np.where(score + generator.normal(size=160) > 0, "yes", "no")
    quick = {"random_state": 0, "alpha": 0.1}
    return [
        pytest.param(SNAMRegressor(**quick, penalty="adaptive"), x, noisy, {}, id="adaptive"),
        pytest.param(SNAMRegressor(**quick, family="poisson"), x, counts, {"exposure": exposure}, id="rates"),
        pytest.param(SNAMRegressor(**quick), x, np.column_stack([noisy, -noisy]), {}, id="two outputs"),
        pytest.param(SNAMClassifier(**quick, class_weight="balanced"), x, yes, {}, id="classes"),
        pytest.param(SNAMClassifier(**quick), x, np.digitize(score, [-1, 1]), {}, id="three classes"),
        pytest.param(SNAMSurvival(**quick), x, survival, {}, id="survival"),
        pytest.param(RandomFeatureSNAMRegressor(**quick), x, noisy, {"sample_weight": exposure}, id="random features"),
    ]


@pytest.mark.parametrize(("estimator", "x", "y", "more"), of_every_kind())
def test_every_kind_of_target_can_be_asked_about(estimator, x, y, more):
    fitted = clone(estimator).fit(x, y, **more)
    measured = fitted.stability(x, y, n_pairs=2, **more)
    assert measured.frequencies["x0"] == 1.0
    assert "x0" in fitted.alternatives(x, y, **more).needed


def test_rows_in_groups_stay_together_in_halves_and_folds(planted):
    x, y = planted[0][:100], planted[1][:100]
    groups = np.repeat(np.arange(20), 5)
    fitted = SNAMRegressor(random_state=0, cv=GroupKFold(4)).fit(x, y, groups=groups)
    assert fitted.stability(x, y, n_pairs=2, groups=groups).n_pairs == 2
    assert fitted.alternatives(x, y, groups=groups).tried > 0
    with pytest.raises(InputError, match="groups"):
        fitted.stability(x, y, n_pairs=2, groups=groups[:5])
    with pytest.raises(InputError, match="at least 4 groups"):
        fitted.stability(x, y, n_pairs=2, groups=np.zeros(100))


def test_time_that_runs_out_leaves_whole_pairs_and_a_note(planted):
    short = SNAMRegressor(random_state=0, alpha=0.1).fit(*planted).set_params(max_seconds=1e-9)
    measured = short.stability(*planted, n_pairs=12)
    assert 0 < measured.n_pairs < 12
    assert "max_seconds ended this" in str(measured)
    found = short.alternatives(*planted)
    assert not found.in_time and "max_seconds" in str(found)


def test_a_failed_question_changes_nothing(model, planted, stability):
    with pytest.raises(InputError, match="n_pairs"):
        model.stability(*planted, n_pairs=0)
    with pytest.raises(InputError, match="tolerance"):
        model.alternatives(*planted, tolerance="some")
    with pytest.raises(InputError, match="tolerance"):
        model.alternatives(*planted, tolerance=-1.0)
    with pytest.raises(InputError, match="exposure"):
        model.stability(*planted, exposure=np.ones(ROWS))
    with pytest.raises(InputError, match="at least 8 rows"):
        model.stability(planted[0][:7], planted[1][:7])
    assert model.stability_ == stability


def test_models_that_nothing_was_chosen_for_say_so(planted):
    x, y = planted[0][:60, :2], planted[1][:60]
    trained = SNAMRegressor(alpha=0.1, network=Network(hidden=(2,), max_epochs=1), random_state=0).fit(x, y)
    every = SNAMRegressor(alpha=0.0, network=Network(hidden=(2,), max_epochs=1), random_state=0).fit(x, y)
    for fitted in (trained, every):
        with pytest.raises(InputError, match="chosen by the convex problem"):
            fitted.stability(x, y)
        with pytest.raises(InputError, match="chosen by the convex problem"):
            fitted.alternatives(x, y)
    with pytest.raises(InputError, match="alpha 0"):
        SNAMRegressor(alpha=0.0, random_state=0).fit(x, y).stability(x, y)
    with pytest.raises(InputError, match="always kept"):
        SNAMRegressor(random_state=0, always_keep=[0, 1]).fit(x, y).alternatives(x, y)


def test_the_commands_say_it_write_it_and_refuse_what_does_not_fit(planted, tmp_path):
    x, y = planted
    names = ",".join([*(f"x{column}" for column in range(4)), "y"])
    rows = np.column_stack([x[:100, :4], y[:100]])
    np.savetxt(tmp_path / "t.csv", rows, delimiter=",", header=names, comments="")
    SNAMRegressor(random_state=0, alpha=0.1).fit(x[:100, :4], y[:100]).save(tmp_path / "m.snam")
    given = [str(tmp_path / "m.snam"), str(tmp_path / "t.csv"), "--target", "y"]

    def invoke(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    said = invoke("stability", *given, "--pairs", 2, "--out", tmp_path / "n.snam", "--report", tmp_path / "r.html")
    assert said.exit_code == 0, said.output
    assert "Stability of the choice" in said.output
    assert "Stability of the choice" in (tmp_path / "r.html").read_text("utf-8")
    assert sparsenam.load(tmp_path / "n.snam").stability_.n_pairs == 2
    said = invoke("alternatives", *given, "--tolerance", 0.9, "--json")
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["tolerance"] == 0.9
    assert invoke("alternatives", *given, "--event", "x0").exit_code == 2
