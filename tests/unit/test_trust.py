"""What the questions about trust say where there is little to say: few rows, a constant target, odd input."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import sparsenam
from sparsenam import FDR, FDRSelector, SNAMClassifier, SNAMRegressor
from sparsenam.cli.app import app
from sparsenam.cli.tables import FileTable, write_table
from sparsenam.discover.fdr import Discoveries
from sparsenam.errors import InputError
from sparsenam.estimators.attributes import ELSEWHERE
from sparsenam.uncertainty.results import Uncertainty

ROWS = 120


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(ROWS, 4)), columns=list("abcd"))
    return frame, 2 * frame["a"] + frame["b"] + generator.normal(size=ROWS)


@pytest.fixture(scope="module")
def model(table):
    return SNAMRegressor(alpha=0.1, random_state=0).fit(*table)


@pytest.fixture(scope="module")
def classifier(table):
    return SNAMClassifier(alpha=0.05, random_state=0).fit(table[0], table[1] > 0)


@pytest.fixture(scope="module", params=["poisson", "gamma", "tweedie"])
def rates(request, tmp_path_factory):
    """A saved model of rates, and its table with exposures."""
    generator, folder = np.random.default_rng(1), tmp_path_factory.mktemp(request.param)
    frame = pd.DataFrame({"a": generator.normal(size=80), "b": generator.normal(size=80)})
    units = generator.uniform(0.5, 2.0, size=80)
    mean = units * np.exp(0.5 + 0.5 * frame["a"])
    y = generator.poisson(mean) if request.param == "poisson" else generator.gamma(2.0, mean / 2)
    fitted = SNAMRegressor(family=request.param, alpha=0.1, random_state=0).fit(frame, y, exposure=units)
    fitted.save(folder / "m.snam")
    frame.assign(y=y, units=units).to_csv(folder / "t.csv", index=False)
    return fitted, folder, frame, y, units


@pytest.mark.parametrize("command", ["audit", "compare", "stability", "alternatives"])
def test_commands_read_rates_with_exposures_as_the_model_does(rates, command):
    fitted, folder, frame, y, units = rates
    files = [folder / "m.snam", *([folder / "m.snam"] if command == "compare" else []), folder / "t.csv"]
    more = ["--pairs", 2] if command == "stability" else []
    said = invoke(command, *files, "--target", "y", "--exposure", "units", "--json", *more)
    assert said.exit_code == 0, said.output
    if command == "audit":
        assert json.loads(said.stdout) == json.loads(json.dumps(fitted.audit(frame, y, exposure=units).to_dict()))


@pytest.mark.parametrize("command", ["audit", "stability", "alternatives"])
def test_commands_refuse_events_and_exposures_that_a_model_has_no_use_for(model, table, tmp_path, command):
    model.save(tmp_path / "m.snam")
    table[0].assign(y=table[1]).to_csv(tmp_path / "t.csv", index=False)
    for option in ("--event", "--exposure"):
        said = invoke(command, tmp_path / "m.snam", tmp_path / "t.csv", "--target", "y", option, "d")
        assert said.exit_code == 2
        assert option in said.output


def test_the_selector_gives_dates_as_an_array_of_objects(table):
    X = table[0].assign(day=pd.date_range("2020-01-01", periods=ROWS))
    y = table[1] + np.arange(ROWS) / 15
    selector = FDRSelector(q=0.2, random_state=0).fit(X, y)
    assert "day" in selector.fdr_.kept
    kept = selector.transform(X)
    assert kept.dtype == object
    assert kept.tolist() == X[list(selector.get_feature_names_out())].to_numpy(dtype=object).tolist()
    assert selector.set_output(transform="pandas").transform(X).equals(X[list(selector.get_feature_names_out())])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("columns", [4, 14])
def test_a_target_that_does_not_vary_is_refused_with_its_cause(columns):
    X, y = np.random.default_rng(0).normal(size=(60, columns)), np.full(60, 3.0)
    with pytest.raises(InputError, match=r"y: expected a target that varies, got 3\.0 in all 60 rows"):
        FDRSelector(random_state=0).fit(X, y)


@pytest.mark.parametrize("question", ["stability", "alternatives"])
def test_questions_about_the_choice_name_a_constant_target_as_the_cause(model, table, question):
    X, constant = table[0], np.full(ROWS, 3.0)
    for asked in (model, SNAMRegressor(random_state=0).fit(X, constant)):
        with pytest.raises(InputError, match=rf"{question}: expected a target that varies, got one value in all"):
            getattr(asked, question)(X, constant)


def test_an_audit_without_a_test_says_so_and_why(model, classifier, table):
    few = model.audit(table[0][:12], table[1][:12])
    assert few.harms == ()
    assert "Nothing could be tested: 12 rows, and a test needs 30" in str(few)
    one_class = classifier.audit(table[0], np.ones(ROWS, dtype=bool))
    constant = SNAMRegressor(random_state=0).fit(table[0], np.full(ROWS, 3.0)).audit(table[0], np.full(ROWS, 3.0))
    for audit in (one_class, constant):
        assert "Nothing could be tested: y has one value in all rows" in str(audit)
        assert audit.flagged == ()
    assert "Nothing could be tested" not in str(model.audit(*table))


def test_alternatives_need_rows_enough_to_judge_them(model, table):
    with pytest.raises(InputError, match="alternatives: expected at least 20 rows, got 19; give more rows"):
        model.alternatives(table[0][:19], table[1][:19])
    assert model.alternatives(table[0][:20], table[1][:20]).tried > 0


@pytest.mark.parametrize(
    ("groups", "got"),
    [(np.arange(ROWS) % 2, "120 labels"), (["a", "b"], "2 names"), (np.int64(7), "got 7;"), (7, "got 7;")],
)
def test_groups_that_are_no_column_are_named_in_a_short_sentence(model, table, groups, got):
    with pytest.raises(InputError) as refused:
        model.predict_interval(table[0], groups=groups)
    said = str(refused.value)
    assert got in said
    assert "array(" not in said and "np.int64" not in said and len(said) < 200


def test_one_of_a_kind_is_said_in_the_singular(model, classifier, table, tmp_path):
    assert "1 interval of level" in str(model.predict_interval(table[0][:1]))
    assert "1 set of level" in str(classifier.predict_set(table[0][:1]))
    one = SNAMRegressor(alpha=0.6, random_state=0).fit(*table)
    assert list(one.get_feature_names_out()) == ["a"]
    one.save(tmp_path / "m.snam")
    assert "1 of 4 columns kept" in invoke("explain", tmp_path / "m.snam").stdout


def test_no_negative_zero_is_written_into_a_table(tmp_path):
    columns = {"p": np.array([-0.0, 0.0, -1.5]).tolist()}
    path = tmp_path / "out.csv"
    write_table(path, FileTable({"a": ["1", "2", "3"]}), columns)
    assert path.read_text("utf-8").splitlines() == ["a,p", "1,0.0", "2,0.0", "3,-1.5"]


def test_probabilities_without_a_correction_are_not_said_to_be_both_right_and_wrong():
    bins = ((0.1, 0.12, 50), (0.5, 0.67, 12))
    sure = Uncertainty("new rows", 62, "", reliability=bins, correction="none", losses=(0.5, 0.5))
    sentence = sure.finding().sentence
    assert "17 percentage points" in sentence
    assert "± 14" in sentence  # what chance makes of a half in 12 cases
    assert "mean what they say" not in sentence
    off = Uncertainty("new rows", 62, "", reliability=bins, correction="platt", losses=(0.6, 0.5))
    assert "are off" in off.finding().sentence


def test_bands_print_as_a_sentence(model, table):
    bands = model.effect_bands(table[0], simultaneous=True)
    said = str(bands)
    assert "95 %" in said and "whole curves" in said and "120 rows" in said
    assert "array(" not in said
    edited = model.edit().make_monotone("b", "increasing", reason="a test")
    assert "b (it was edited after the fit)" in str(edited.effect_bands(table[0]))


@pytest.mark.parametrize("rule", ["fdr", "FDR", FDR])
def test_the_name_of_the_rule_of_discoveries_is_answered_with_how_to_ask_for_it(table, rule):
    assert sparsenam.FDR is FDR
    with pytest.raises(InputError, match=r"rule=sparsenam\.FDR\(q=0\.1\)"):
        SNAMRegressor(rule=rule).fit(*table)


def test_what_another_kind_of_model_answers_is_named_where_it_is_missing(model, classifier, table):
    for asked, name, instead in (
        (model, "predict_set", "predict_interval"),
        (model, "calibrated_proba", "predict_interval"),
        (classifier, "predict_interval", "predict_set"),
    ):
        assert not hasattr(asked, name)
        with pytest.raises(AttributeError, match=instead):
            getattr(asked, name)
    for name, instead in ELSEWHERE.items():
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; use ") as caught:
            getattr(model, name)
        assert str(caught.value).endswith(instead)
    with pytest.raises(AttributeError, match="has no attribute 'nothing_like_it'"):
        _ = model.nothing_like_it


def discoveries(method, kept=(), count=14, *, reachable=True):
    names = [f"x{index}" for index in range(count)]
    p_values = None if method == "knockoffs" else dict.fromkeys(names, 0.5)
    return Discoveries(
        0.1,
        method,
        "it was asked for",
        kept,
        (),
        statistics=dict.fromkeys(names, 1.0),
        threshold=1.0 if kept else None,
        p_values=p_values,
        construction=None,
        reachable=reachable,
    )


def test_no_discovery_by_knockoffs_is_not_blamed_on_too_few_rows():
    copies, halves = str(discoveries("knockoffs")), str(discoveries("split"))
    assert "more rows" not in copies.lower()
    assert "at least 10 columns" in copies and "method='split'" in copies
    assert "With more rows" in halves and "at least 10" not in halves


@pytest.mark.filterwarnings("ignore::sparsenam.errors.ConstantColumnWarning")
def test_discoveries_are_counted_in_words_that_agree():
    assert "1 of 14 tested columns is a discovery" in discoveries("split", ("x3",)).sentence()
    assert "2 of 14 tested columns are discoveries" in discoveries("split", ("x3", "x4")).sentence()
    nothing = str(SNAMRegressor(rule=FDR()).fit(np.ones((40, 2)), np.arange(40.0)).fdr_)
    assert "No column was tested" in nothing
    assert "out of reach" not in nothing


def test_the_command_explains_the_stability_that_a_model_has(table, tmp_path):
    asked = SNAMRegressor(alpha=0.1, random_state=0).fit(*table)
    asked.save(tmp_path / "before.snam")
    asked.stability(*table, n_pairs=2)
    asked.save(tmp_path / "after.snam")
    assert "half-samples" not in invoke("explain", tmp_path / "before.snam").stdout
    said = invoke("explain", tmp_path / "after.snam").stdout
    assert "half-samples" in said
    assert f"stability: {asked.stability_.finding().sentence}" in said
