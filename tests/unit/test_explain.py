"""Explanations say what the model does, why columns are in or out, and nothing that the model does not do."""

import json
import pickle
import re
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning

from sparsenam import (
    Network,
    RandomFeatureSNAMClassifier,
    RandomFeatureSNAMRegressor,
    SNAMClassifier,
    SNAMRegressor,
    SNAMSurvival,
    load,
    survival_target,
)
from sparsenam.errors import ChoiceWarning, ConstantColumnWarning, InputError
from sparsenam.explain import Explanation, LocalExplanation, TrainingSummary, explain_model
from sparsenam.explain.local import describe_effect
from sparsenam.fit.summary import Explained, density_of
from sparsenam.selection import Evidence

ROWS = 400


def mixed(rows=ROWS, seed=0):
    """A table with every kind of column, and a target that some of them make."""
    generator = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "income": generator.lognormal(1.0, 0.5, rows),
            "age": generator.integers(18, 80, rows).astype(float),
            "city": generator.choice(["Rome", "Paris", "Oslo"], rows, p=[0.6, 0.3, 0.1]),
            "size": pd.Categorical(generator.choice(["S", "M", "L"], rows), ["S", "M", "L"], ordered=True),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 900, rows), "D"),
            "gap": np.where(generator.uniform(size=rows) < 0.3, np.nan, generator.normal(size=rows)),
            "noise": generator.normal(size=rows),
            "constant": 5.0,
        }
    )
    table["income in cents"] = -100 * table["income"]
    table.loc[generator.uniform(size=rows) < 0.2, "age"] = np.nan
    y = np.sin(table["income"]) + 0.03 * table["age"].fillna(90) + (table["day"].dt.year - 2020) + table["gap"].isna()
    y += table["city"].map({"Rome": 1.0, "Paris": 0.0, "Oslo": -1.0}) + 0.5 * table["size"].cat.codes
    return table, (y + 0.1 * generator.normal(size=rows)).to_numpy()


@pytest.fixture(scope="module")
def fitted():
    table, y = mixed()
    return fit_quietly(SNAMRegressor(random_state=0), table, y), table


def fit_quietly(model, table, y, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantColumnWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)  # two epochs converge nowhere
        return model.fit(table, y, **more)


def test_every_column_is_either_kept_or_dropped(fitted):
    model, table = fitted
    explanation = model.explain()
    names = [feature.name for feature in explanation.features] + [column.name for column in explanation.dropped]
    assert sorted(names) == sorted(table.columns)
    support = set(model.get_feature_names_out())
    assert {feature.name for feature in explanation.features} == support


def test_reasons_say_why_columns_are_in_or_out(fitted):
    explanation = fitted[0].explain()
    reasons = {record["feature"]: record["reason"] for record in explanation.to_records()}
    assert reasons["constant"] == "constant: one single value (5)"
    assert reasons["income in cents"] == "equal to 'income' in every row, up to unit and sign"
    assert reasons["gap"] == "its values do not matter, its missing cells do"
    slack = fitted[0].certificate_.slack["noise"]
    assert reasons["noise"] == f"its gradient is {slack:.2f} of the alpha at which it would enter"


def test_a_column_without_any_value_is_dropped_for_that_before_and_after_a_passage_through_a_file(tmp_path):
    table, y = mixed(100)
    model = fit_quietly(SNAMRegressor(random_state=0), table[["income", "noise"]].assign(empty=np.nan), y)
    model.save(tmp_path / "model.snam")
    for one in (model, load(tmp_path / "model.snam")):
        assert {column.name: column.reason for column in one.explain().dropped}["empty"] == "empty: no row has a value"
        assert one.predict(table[["income", "noise"]]).shape == (100,)


def test_a_twin_of_a_dropped_column_is_called_one():
    table, y = mixed()
    table["noise too"] = 2 * table["noise"]
    explanation = fit_quietly(SNAMRegressor(random_state=0), table, y).explain()
    dropped = {column.name: column.reason for column in explanation.dropped}
    assert dropped["noise too"] == "equal to 'noise' in every row, up to unit and sign, which is dropped too"


def test_a_column_constant_in_the_rows_that_count_is_called_constant():
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"a": generator.normal(size=80), "b": np.repeat([0.0, 1.0], [60, 20])})
    weights = np.repeat([1.0, 0.0], [60, 20])
    model = fit_quietly(SNAMRegressor(random_state=0), table, table["a"] ** 2, sample_weight=weights)
    explanation = model.explain()
    assert [(column.name, column.reason) for column in explanation.dropped] == [
        ("b", "constant in the rows that count")
    ]
    assert explanation.card["rows"] == 60
    assert sum(explanation.feature("a").density.counts) == 60


def test_asked_columns_and_unpenalised_models_say_so():
    table, y = mixed(150)
    numbers = table[["income", "noise"]]
    kept = fit_quietly(SNAMRegressor(always_keep=["noise"], random_state=0), numbers, y).explain().feature("noise")
    assert kept.reason == "it was asked to stay, and is not penalised"
    network = Network(hidden=(4,), max_epochs=2)
    free = fit_quietly(SNAMRegressor(alpha=0.0, network=network, random_state=0), numbers, y).explain()
    assert {column.reason for column in free.features} == {"no penalty: every column stays"}


def test_networks_under_the_penalty_say_what_dropped_a_feature():
    table, y = mixed(150)
    numbers = table[["income", "noise"]]

    def explained(**training):
        network = Network(hidden=(4,), max_epochs=2, **training)
        return fit_quietly(SNAMRegressor(alpha=50.0, network=network, random_state=0), numbers, y).explain()

    prox = explained()
    assert {column.reason for column in prox.dropped} == {"the penalty switched its sub-network off"}
    plain = explained(solver="adam", threshold=100.0)
    assert {column.reason for column in plain.dropped} == {
        "its mean absolute effect stayed within the threshold of 100"
    }


def test_curves_are_the_model_itself(fitted):
    model, table = fitted
    explanation = model.explain()
    effects = pd.DataFrame(model.effects(table), columns=table.columns)
    for name in ("income", "age"):
        curve, present = explanation.feature(name).curve, table[name].notna()
        at_rows = np.interp(table[name][present], curve.x, np.array(curve.effect)[:, 0])
        np.testing.assert_allclose(at_rows, effects[name][present], atol=1e-8)
        assert curve.x[0] <= table[name].min() and curve.x[-1] >= table[name].max()
    day = explanation.feature("day")
    numbers = (table["day"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    at_rows = np.interp(numbers, day.curve.x, np.array(day.curve.effect)[:, 0])
    np.testing.assert_allclose(at_rows, effects["day"], atol=1e-8)
    assert day.text_at(18262.0) == "2020-01-01"


def test_smooth_networks_have_curves_on_a_grid():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 1))
    network = Network(hidden=(8,), activation="tanh")
    model = fit_quietly(SNAMRegressor(alpha=1e-4, network=network, random_state=0), X, np.sin(X[:, 0]))
    (feature,) = model.explain().features
    at_rows = np.interp(X[:, 0], feature.curve.x, np.array(feature.curve.effect)[:, 0])
    np.testing.assert_allclose(at_rows, model.effects(X)[:, 0], atol=1e-3)


def test_levels_and_missing_cells_have_the_effects_of_the_model(fitted):
    model, table = fitted
    explanation, effects = model.explain(), pd.DataFrame(model.effects(table), columns=table.columns)
    for name in ("city", "size"):
        for level in explanation.feature(name).levels:
            rows = table[name] == level.name
            np.testing.assert_allclose(effects[name][rows], level.effect[0], atol=1e-9)
            assert level.count == rows.sum()
    size = explanation.feature("size")
    assert [level.name for level in size.levels] == ["S", "M", "L"]
    assert size.curve.x == (0.0, 1.0, 2.0) and size.text_at(2.0) == "L"
    for name in ("age", "gap"):
        missing, rows = explanation.feature(name).missing, table[name].isna()
        np.testing.assert_allclose(effects[name][rows], missing.effect[0], atol=1e-9)
        assert missing.count == rows.sum()
    gap = explanation.feature("gap")
    assert gap.curve is None and gap.levels[0].name == "(present)"
    np.testing.assert_allclose(effects["gap"][table["gap"].notna()], gap.levels[0].effect[0], atol=1e-9)


def test_importances_are_those_of_the_effects(fitted):
    model, table = fitted
    effects = pd.DataFrame(model.effects(table), columns=table.columns)
    for feature in model.explain().features:
        assert feature.mean_absolute == pytest.approx(effects[feature.name].abs().mean())
        assert feature.variation == pytest.approx(np.ptp(effects[feature.name]))


def test_the_training_table_and_its_summary_give_the_same_explanation(fitted):
    model, table = fitted
    remembered, again = model.explain(), model.explain(table)
    for ours, theirs in zip(remembered.features, again.features, strict=True):
        assert ours.name == theirs.name and ours.density == theirs.density and ours.levels == theirs.levels
        assert ours.mean_absolute == pytest.approx(theirs.mean_absolute)


def test_other_rows_change_densities_and_importances_but_no_effect(fitted):
    model, table = fitted
    few = table.head(50).assign(city="Atlantis")
    with pytest.warns(UserWarning, match="Atlantis"):
        others = model.explain(few)
    assert others.card["rows"] == 50
    city = others.feature("city")
    assert [level.count for level in city.levels] == [0, 0, 0]
    assert city.missing is None  # a level never seen is not a missing cell
    assert city.mean_absolute == 0.0
    assert city.levels[0].effect == model.explain().feature("city").levels[0].effect


def test_weights_weigh_importances():
    generator = np.random.default_rng(0)
    X, weights = generator.normal(size=(200, 2)), generator.uniform(0.0, 2.0, 200)
    model = SNAMRegressor(random_state=0).fit(X, X[:, 0] ** 2, sample_weight=weights)
    effect = np.abs(model.effects(X)[:, 0])
    assert model.explain().features[0].mean_absolute == pytest.approx(np.average(effect, weights=weights))


def test_words_name_the_cell_and_describe_effect(fitted):
    model, table = fitted
    local = model.explain_local(table)
    by_row = {row.row: {part.feature: part for part in row.contributions} for row in local.rows}
    rome = next(label for label in table.index if table["city"][label] == "Rome")
    assert by_row[rome]["city"].value == "Rome"
    assert by_row[rome]["city"].text == f"city 'Rome' adds +{by_row[rome]['city'].effect[0]:.3g}"
    oslo = next(label for label in table.index if table["city"][label] == "Oslo")
    assert by_row[oslo]["city"].text == f"city 'Oslo' takes {-by_row[oslo]['city'].effect[0]:.3g}"
    gone = next(label for label in table.index if np.isnan(table["age"][label]))
    assert by_row[gone]["age"].text.startswith("age missing adds +")
    assert by_row[0]["day"].value == table["day"][0].date().isoformat()


def test_unseen_levels_are_called_so(fitted):
    model, table = fitted
    with pytest.warns(UserWarning, match="Atlantis"):
        (row,) = model.explain_local(table.head(1).assign(city="Atlantis")).rows
    words = {part.feature: part.text for part in row.contributions}
    assert words["city"] == "city 'Atlantis' (never seen) adds nothing"


def test_effects_too_small_to_write_add_nothing_and_classes_are_named():
    assert describe_effect((0.0,), ("y",)) == "adds nothing"
    assert describe_effect((0.1, -2.0), ("a", "b")) == "takes 2 from 'b'"
    assert describe_effect((0.1, 0.01), ("a", "b")) == "adds +0.1 to 'a'"


def test_labels_are_those_of_the_index(fitted):
    model, table = fitted
    assert [row.row for row in model.explain_local(table.head(2).set_axis(["Ann", "Bo"])).rows] == ["Ann", "Bo"]
    assert [row.row for row in model.explain_local(table.iloc[[7, 3]]).rows] == [7, 3]


@pytest.mark.parametrize("classes", [["no", "yes"], ["a", "b", "c"], [3, 5]])
def test_classes_name_outputs_and_units(classes):
    generator = np.random.default_rng(1)
    X = generator.normal(size=(200, 2))
    y = np.array(classes)[np.digitize(X[:, 0], np.linspace(-0.5, 0.5, len(classes) - 1) if len(classes) > 2 else [0])]
    y[:20] = generator.permutation(y[:20])  # no perfect separation
    explanation = SNAMClassifier(random_state=0).fit(X, y).explain()
    assert explanation.task == "classification"
    assert explanation.outputs == (tuple(map(str, classes)) if len(classes) > 2 else (str(classes[1]),))
    if len(classes) == 2:
        assert explanation.units == f"log odds of '{classes[1]}'"
        assert explanation.response == f"probability of '{classes[1]}'"


NAMED = {
    "pandas": lambda y: pd.Series(y, name="price"),
    "polars": lambda y: pl.Series("price", y),
    "one column": lambda y: pd.DataFrame({"price": y}),
}


@pytest.mark.parametrize("kind", sorted(NAMED))
def test_a_target_with_a_name_gives_it_to_explanation_units_and_report(kind, tmp_path):
    table, y = mixed(100)
    table = table[["income", "age"]]
    model = SNAMRegressor(random_state=0).fit(table, NAMED[kind](y))
    model.save(tmp_path / "model.snam")
    for explanation in (model.explain(), load(tmp_path / "model.snam").explain()):
        assert (explanation.target, explanation.units, explanation.response) == ("price", *2 * ["units of price"])
    assert "Report of price" in explanation.report(tmp_path / "report.html").read_text()
    dear = NAMED["pandas" if kind == "one column" else kind](y > np.median(y))  # classes come in one dimension
    explanation = SNAMClassifier(random_state=0).fit(table, dear).explain()
    assert explanation.units == "log odds of price = 'True'"
    assert explanation.response == "probability of price = 'True'"
    counts = SNAMRegressor(family="poisson", random_state=0).fit(table, NAMED[kind](np.round(y - y.min()))).explain()
    assert (counts.units, counts.response) == ("log of the expected price", "expected price")


@pytest.mark.parametrize("name", [None, 0, "", "income"])
def test_a_target_whose_name_is_none_or_that_of_a_column_stays_y(name):
    table, y = mixed(100)  # pandas gives the logarithm of a column that column's name
    explanation = SNAMRegressor(random_state=0).fit(table[["income", "age"]], pd.Series(y, name=name)).explain()
    assert (explanation.target, explanation.units) == (None, "units of y")


def test_survival_explains_log_hazard_ratios():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(150, 2))
    y = survival_target(generator.uniform(size=150) < 0.8, generator.exponential(np.exp(-X[:, 0])))
    model = SNAMSurvival(random_state=0, alpha=0.05).fit(X, y)
    explanation, local = model.explain(), model.explain_local(X[:5])
    assert (explanation.task, explanation.units, explanation.response) == (
        "survival",
        "log hazard ratio",
        "hazard ratio",
    )
    assert explanation.card["family"] == "cox"
    np.testing.assert_allclose([row.score[0] for row in local.rows], model.predict(X[:5]))
    np.testing.assert_allclose([row.prediction[0] for row in local.rows], model.predict(X[:5]))


def test_the_path_and_the_curve_are_those_of_the_fit():
    table, y = mixed(200)
    model = fit_quietly(SNAMRegressor(random_state=0), table, y)
    explanation = model.explain()
    assert explanation.curve == model.cv_curve_.table()
    assert explanation.chosen == {
        "best": model.cv_curve_.choose("best"),
        "taken": model.cv_curve_.choose("compact"),
    }
    assert explanation.path["alphas"] == pytest.approx(model.path_.alphas.tolist())
    assert explanation.path["names"] == model.path_.entry_order()
    indices = [model.path_.names.index(name) for name in explanation.path["names"]]
    np.testing.assert_allclose(explanation.path["norms"], model.path_.norms[:, indices])
    first = model.path_.entry_order()[0]
    assert explanation.feature(first).entry == 1


def test_a_model_without_features_has_an_explanation():
    generator = np.random.default_rng(0)
    model = RandomFeatureSNAMRegressor(alpha=100.0).fit(generator.normal(size=(50, 2)), generator.normal(size=50))
    explanation = model.explain()
    assert not explanation.features and len(explanation.dropped) == 2
    assert model.explain_local(np.zeros((2, 2))).rows[1].contributions == ()
    assert Explanation.from_dict(json.loads(explanation.to_json())) == explanation


def test_explaining_an_unfitted_model_is_an_error():
    with pytest.raises(ValueError, match="not fitted"):
        SNAMRegressor().explain()


def test_unknown_features_and_schemas_are_named(fitted):
    explanation = fitted[0].explain()
    with pytest.raises(InputError, match="'noise', which was dropped"):
        explanation.feature("noise")
    with pytest.raises(InputError, match="schema"):
        Explanation.from_dict({**explanation.to_dict(), "schema": 2})
    with pytest.raises(InputError, match="schema"):
        LocalExplanation.from_dict({"schema": 0})


def test_frames_hold_the_records_and_need_pandas(fitted, monkeypatch):
    model, table = fitted
    explanation, local = model.explain(), model.explain_local(table.head(3))
    assert explanation.to_frame().shape[0] == table.shape[1]
    frame = local.to_frame()
    sums = frame.groupby("row")["effect"].sum()
    np.testing.assert_allclose(sums, model.predict(table.head(3)))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="install pandas"):
        explanation.to_frame()


def test_explaining_never_changes_a_model(fitted):
    model, table = fitted
    model = pickle.loads(pickle.dumps(model))
    before = pickle.dumps(model)
    model.explain()
    model.explain(table)
    model.explain_local(table.head(3))
    assert pickle.dumps(model) == before


def test_summaries_survive_json_and_a_failed_second_fit(fitted):
    model, table = fitted
    summary = model.summary_
    assert TrainingSummary.from_dict(json.loads(json.dumps(summary.to_dict()))) == summary
    with pytest.raises(ValueError):
        fit_quietly(model, table, np.full(len(table), np.nan))
    assert model.summary_ is summary


def test_explanations_speak_of_columns_and_never_of_their_terms(fitted):
    model, table = fitted
    explanation, columns = model.explain(), set(table.columns)
    assert any(term.name not in columns for term in model.encoder_.terms)  # the missing cells of "age" and "gap"
    certificate = explanation.card["certificate"]
    assert set(explanation.path["names"]) <= columns
    assert {*certificate["kept"], *certificate["slack"]} <= columns
    assert not set(certificate["kept"]) & set(certificate["slack"])
    assert {*model.summary_.twins, *model.summary_.twins.values(), *model.summary_.constant} <= columns
    assert explanation.feature("gap").entry is not None


def test_a_column_whose_gaps_alone_equal_another_column_is_no_twin():
    generator = np.random.default_rng(0)
    gaps = generator.uniform(size=300) < 0.3
    table = pd.DataFrame({"flag": gaps.astype(float), "b": np.where(gaps, np.nan, generator.normal(size=300))})
    model = fit_quietly(SNAMRegressor(random_state=0), table, 2.0 * gaps + 0.1 * generator.normal(size=300))
    assert "b" not in model.summary_.twins
    reasons = {record["feature"]: record["reason"] for record in model.explain().to_records()}
    assert "equal" not in reasons["b"]


def test_a_record_without_history_and_path_is_explained(fitted):
    model, _ = fitted
    record = model.fit_
    bare = replace(record, history=None, curve=None, summary=replace(record.summary, path=None))
    explanation = explain_model(bare, record.summary.data)
    assert explanation.history == [] and explanation.path is None and explanation.chosen is None
    assert all(feature.entry is None for feature in explanation.features)


def test_substitutes_are_those_of_the_record(fitted):
    model, _ = fitted
    record = model.fit_
    other = replace(record, substitutes={"income": {"noise": 0.95}})
    income = explain_model(other, record.summary.data).feature("income")
    assert income.substitutes == {"noise": 0.95}


def test_a_far_value_does_not_press_the_others_into_one_bin():
    values = np.append(np.random.default_rng(0).normal(size=999), 1e6)
    density = density_of(values)
    assert sum(density.counts) == 1000
    assert max(density.counts) < 100
    few = density_of(np.array([1.0, 1.0, 2.0, 5.0]))
    assert few.counts == (2, 1, 1)
    assert density_of(np.full(3, 7.0)).counts == (3,)
    assert density_of(np.empty(0)) is None


def doubtful(**more):
    """Evidence of a choice that may be chance, and that all columns together beat."""
    facts = {"gain": 0.01, "gain_error": 0.02, "behind_all": 0.3, "behind_all_error": 0.05, "best_gain": 0.02}
    return Evidence(**({"kept_in": {"income": 0.4, "age": 0.2}} | facts | more))


def test_the_card_has_the_share_explained_and_the_notes_of_the_evidence(fitted):
    model, _ = fitted
    record = model.fit_
    summary = replace(record.summary, evidence=doubtful(), explained=Explained(0.01, 0.02))
    explanation = explain_model(replace(record, summary=summary), record.summary.data)
    assert explanation.card["explained"] == {"share": 0.01, "error": 0.02, "by_pairs": None}
    assert list(explanation.notes) == explanation.card["notes"] == doubtful().notes()
    assert len(explanation.notes) == 3
    assert explanation.feature("income").kept_in == 0.4 and explanation.feature("city").kept_in is None
    assert Explanation.from_dict(json.loads(explanation.to_json())) == explanation
    text = str(explanation)
    assert all(f"note: {sentence}" in text for sentence in explanation.notes)
    assert "Explained in rows held out: 1.0 % ± 2.0 % of the loss." in text
    assert re.search(r"^  income .* 40 %$", text, re.MULTILINE) and "in folds" in text
    assert "dropped" in text and "noise" in text


def test_a_clear_choice_has_no_notes_and_its_columns_are_in_the_folds_too(fitted):
    model, _ = fitted
    explanation, evidence = model.explain(), model.evidence_
    assert evidence.is_clear and evidence.agreement > 0.5
    assert {feature.name: feature.kept_in for feature in explanation.features} == evidence.kept_in
    known = {"share": evidence.gain, "error": evidence.gain_error, "by_pairs": None}
    assert explanation.card["explained"] == known
    assert {record["feature"]: record["kept_in"] for record in explanation.to_records()}["noise"] is None


def test_a_given_alpha_leaves_no_evidence_and_nothing_to_note():
    table, y = mixed(150)
    model = fit_quietly(SNAMRegressor(alpha=0.05, random_state=0), table[["income", "noise"]], y)
    explanation = model.explain()
    assert model.evidence_ is None and model.summary_.evidence is None
    assert explanation.notes == ()
    assert all(feature.kept_in is None for feature in explanation.features)
    assert "folds" not in str(explanation)
    # rows left out say what the model explains without any choice
    assert f"Explained in rows held out: {explanation.explained} of the loss." in str(explanation)


def test_doubts_are_about_chance_alone_and_notes_say_what_was_given_up_too():
    assert len(doubtful().doubts()) == 2 and doubtful().notes()[:2] == doubtful().doubts()
    sure = doubtful(gain=0.5, kept_in={"income": 0.9})
    assert sure.doubts() == [] and len(sure.notes()) == 1
    (empty,) = doubtful(gain=0.0, gain_error=0.0, kept_in={}).doubts()
    assert empty.startswith("No column is kept")
    assert doubtful(gain=0.0, kept_in={}, best_gain=0.0).doubts() == []  # nothing on the path: no doubt


def noise_with_a_hint():
    """A table in which a column helps, but so little that so few rows cannot tell."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 6))
    return X, 0.35 * X[:, 0] + generator.normal(size=60)


def test_a_choice_that_may_be_chance_warns_at_the_line_that_calls_fit():
    X, y = noise_with_a_hint()
    model = SNAMRegressor(rule="best", random_state=0)
    with pytest.warns(ChoiceWarning) as caught:
        model.fit(X, y)
    (warning,) = [found for found in caught if found.category is ChoiceWarning]
    assert warning.filename == __file__
    assert str(warning.message) == " ".join([*model.evidence_.doubts(), "evidence_ has the figures."])
    assert "All columns" not in str(warning.message)


def test_a_clear_choice_does_not_warn():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SNAMRegressor(random_state=0).fit(X, X[:, 0] + 0.1 * generator.normal(size=200))


@pytest.fixture(scope="module", params=["smooth", "random features", "network"])
def flowers(request):
    """A model of three classes, fitted in each way, and its table."""
    generator = np.random.default_rng(2)
    table = pd.DataFrame({"x": generator.normal(size=300), "zone": generator.choice(["a", "b", "c"], 300)})
    table.loc[::11, "x"] = np.nan
    score = table["x"].fillna(1.0) + (table["zone"] == "a") + generator.logistic(scale=0.3, size=300)
    y = np.array(["one", "two", "three"])[np.digitize(score, [-0.3, 0.8])]
    network = Network(hidden=(4,), max_epochs=5)
    model = {
        "smooth": SNAMClassifier(random_state=0),
        "random features": RandomFeatureSNAMClassifier(alpha=0.01),
        "network": SNAMClassifier(alpha=0.001, network=network, random_state=0),
    }[request.param]
    return fit_quietly(model, table, y), table


def scores_of(explanation, table):
    """Return the scores (rows, outputs) that an explanation alone gives."""
    scores = np.tile(explanation.intercept, (len(table), 1))
    for feature in explanation.features:
        cells, missing = table[feature.name], table[feature.name].isna().to_numpy()
        if feature.levels is not None:
            effects = {level.name: level.effect for level in feature.levels}
            scores[~missing] += np.array([effects[cell] for cell in cells[~missing]])
        else:
            columns = np.array(feature.curve.effect).T
            scores[~missing] += np.column_stack([np.interp(cells[~missing], feature.curve.x, e) for e in columns])
        if missing.any():
            scores[missing] += feature.missing.effect
    return scores


def test_effects_on_classes_are_against_their_average_however_the_model_was_fitted(flowers):
    model, table = flowers
    explanation = model.explain()
    assert explanation.units == "log odds of each class against the average of all classes"
    scores = scores_of(explanation, table)
    np.testing.assert_allclose(scores.sum(axis=1), 0.0, atol=1e-9)
    odds = np.exp(scores)
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), model.predict_proba(table), atol=1e-9)
    for row, score in zip(model.explain_local(table.head(30)).rows, scores, strict=False):
        np.testing.assert_allclose(row.score, score, atol=1e-9)
    effects = model.effects(table)
    effects = effects - effects.mean(axis=2, keepdims=True)
    for feature in explanation.features:
        effect = effects[:, list(table.columns).index(feature.name)]
        assert feature.mean_absolute == pytest.approx(np.abs(effect).mean())
        assert feature.variation == pytest.approx(np.ptp(effect, axis=0).max())


@pytest.mark.parametrize("reference", ["one", "three", "two"])
def test_against_a_class_differences_stay_and_probabilities_are_the_same(flowers, reference):
    model, table = flowers
    whole, against = model.explain(), model.explain(reference=reference)
    assert against.outputs == tuple(name for name in whole.outputs if name != reference)
    assert against.units == f"log odds against '{reference}'"
    index = whole.outputs.index(reference)
    before, after = scores_of(whole, table), scores_of(against, table)
    np.testing.assert_allclose(after, np.delete(before - before[:, [index]], index, axis=1), atol=1e-9)
    odds = np.exp(np.insert(after, index, 0.0, axis=1))
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), model.predict_proba(table), atol=1e-9)
    assert Explanation.from_dict(json.loads(against.to_json())) == against


def test_importances_against_a_class_are_those_of_the_differences(flowers):
    model, table = flowers
    effects = model.effects(table)
    effects = np.delete(effects - effects[:, :, [1]], 1, axis=2)
    explanation = model.explain(table, reference=str(model.classes_[1]))
    for feature in explanation.features:
        effect = effects[:, list(table.columns).index(feature.name)]
        assert feature.mean_absolute == pytest.approx(np.abs(effect).mean(), rel=0.05)
        assert feature.variation == pytest.approx(np.ptp(effect, axis=0).max(), rel=0.1)
    sizes = [feature.mean_absolute for feature in explanation.features]
    assert sizes == sorted(sizes, reverse=True)


def test_a_reference_that_is_no_class_or_without_use_is_refused(flowers):
    model, table = flowers
    with pytest.raises(InputError, match=r"one of the classes \['one', 'three', 'two'\], got 'four'"):
        model.explain(reference="four")
    two = fit_quietly(SNAMClassifier(alpha=0.01, random_state=0), table[["x"]], table["zone"] == "a")
    with pytest.raises(InputError, match="a model of three classes or more"):
        two.explain(reference="True")


def test_a_category_split_for_a_network_has_the_effects_and_rows_of_its_levels():
    table, y = mixed(200)
    table.loc[::13, "city"] = None
    model = SNAMRegressor(alpha=0.001, network=Network(hidden=(4,), max_epochs=5), random_state=0)
    fit_quietly(model, table[["income", "city"]], y)
    assert sum(term.column == 1 for term in model.encoder_.terms) == 4  # three levels and the missing cells
    effects, city = model.effects(table[["income", "city"]])[:, 1], model.explain().feature("city")
    assert {level.name for level in city.levels} == {"Rome", "Paris", "Oslo"}
    for level in city.levels:
        rows = (table["city"] == level.name).to_numpy()
        np.testing.assert_allclose(effects[rows], level.effect[0], atol=1e-9)
        assert level.count == rows.sum()
    np.testing.assert_allclose(effects[table["city"].isna()], city.missing.effect[0], atol=1e-9)
    assert city.missing.count == table["city"].isna().sum()


def test_a_folder_that_is_not_there_is_refused_by_save_report_and_export_alike(fitted, tmp_path):
    model, place = fitted[0], tmp_path / "none"
    for write, name in ((model.save, "m.snam"), (model.explain().report, "r.html"), (model.export, "m.py")):
        with pytest.raises(InputError, match="make the folder or name another") as caught:
            write(place / name)
        assert str(place / name) in str(caught.value) and "Errno" not in str(caught.value)
    assert not place.exists()
