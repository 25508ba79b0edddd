"""Editing fitted models: what each edit does, what the log, the report and the file say, and what is refused."""

import copy
import json
import pickle
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

import sparsenam
from sparsenam import Network, SNAMClassifier, SNAMRegressor, SNAMSurvival, survival_target
from sparsenam.cli.app import app
from sparsenam.errors import InputError
from sparsenam.explain import Explanation
from sparsenam.explain.report import render_report
from sparsenam.export import ModelFileError
from sparsenam.export.model_file import read_container, write_container

ROWS = 300
NOON = datetime(2026, 1, 31, 13, 30, tzinfo=timezone(timedelta(hours=1)))


def data(seed=0):
    draw = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "size": draw.uniform(0, 10, ROWS),
            "age": draw.uniform(0, 100, ROWS),
            "town": draw.choice(["north", "south", "west", "east"], ROWS, p=[0.4, 0.3, 0.2, 0.1]),
            "grade": pd.Categorical(draw.choice(["low", "mid", "high"], ROWS), ["low", "mid", "high"], ordered=True),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.integers(0, 700, ROWS), unit="D"),
            "noise": draw.normal(size=ROWS),
        }
    )
    score = 2 * np.sin(table["size"]) + 0.03 * table["age"] + 2 * (table["town"] == "north")
    score = score + (table["grade"] == "high") + (table["day"] - pd.Timestamp("2020-01-01")).dt.days / 300
    table.loc[draw.uniform(size=ROWS) < 0.15, "age"] = np.nan
    score = score.fillna(0.0) + 2 * table["age"].isna() + 0.2 * draw.normal(size=ROWS)
    return table, score.to_numpy()


@pytest.fixture(scope="module")
def model():
    table, target = data()
    made = SNAMRegressor(random_state=0).fit(table, target)
    assert set(made.get_feature_names_out()) == {"size", "age", "town", "grade", "day"}
    return made


@pytest.fixture(scope="module")
def classes():
    table, target = data()
    names = np.array(["few", "some", "many"])[np.searchsorted(np.quantile(target, [0.3, 0.7]), target)]
    return SNAMClassifier(alpha=0.003, random_state=0).fit(table, names)


def rows(table=None, **cells):
    """A row of the table with other cells, once for each of the longest."""
    count = max(len(values) for values in cells.values())
    first = data()[0] if table is None else table
    return first.iloc[np.zeros(count, dtype=int)].reset_index(drop=True).assign(**cells)


def effect(model, column, values):
    return model.effects(rows(**{column: values}))[:, list(model.encoder_.names).index(column)]


def test_a_shape_goes_through_the_values_given_and_is_flat_beyond(model):
    edited = model.edit().set_shape("size", [2.0, 4.0, 8.0], [1.0, -1.0, 0.5], reason="a test")
    found = effect(edited, "size", [-5.0, 2.0, 3.0, 4.0, 6.0, 8.0, 50.0])
    np.testing.assert_allclose(found, [1.0, 1.0, 0.0, -1.0, -0.25, 0.5, 0.5], rtol=1e-12)
    pairs = model.edit().set_shape("size", [(2, 1.0), (4, -1.0), (8, 0.5)], reason="pairs")
    mapped = model.edit().set_shape("size", {2: 1.0, 4: -1.0, 8: 0.5}, reason="a mapping")
    for other in (pairs, mapped):
        assert other.edits_[0].after == edited.edits_[0].after


def test_a_shape_is_that_of_present_cells_and_missing_ones_keep_their_effect(model):
    edited = model.edit().set_shape("age", {20: 1.0, 80: 2.0}, reason="a test")
    np.testing.assert_allclose(effect(edited, "age", [20.0, 80.0]), [1.0, 2.0], rtol=1e-12)
    np.testing.assert_array_equal(effect(edited, "age", [np.nan]), effect(model, "age", [np.nan]))
    curve = edited.explain().feature("age").curve
    np.testing.assert_allclose(np.interp([20.0, 80.0], curve.x, np.ravel(curve.effect)), [1.0, 2.0], rtol=1e-9)


def test_levels_are_set_by_name_and_others_stay(model):
    edited = model.edit().set_shape("town", {"west": 5.0}, reason="a test")
    towns = ["north", "south", "west", "east"]
    expected = effect(model, "town", towns)
    expected[2] = 5.0
    np.testing.assert_allclose(effect(edited, "town", towns), expected, rtol=1e-12)
    ordered = model.edit().set_shape("grade", ["low", "high"], [-1.0, 1.0], reason="a test")
    grades = pd.Categorical(["low", "high"], ["low", "mid", "high"], ordered=True)
    np.testing.assert_allclose(effect(ordered, "grade", grades), [-1.0, 1.0], rtol=1e-12)


def test_dates_may_be_given_as_text_dates_and_moments(model):
    ends = ["2020-06-01", "2021-01-01"]
    moments = [datetime.fromisoformat(end) for end in ends]
    made = [model.edit().flatten("day", *given, reason="a test") for given in (ends, moments, np.array(ends, "M8[D]"))]
    assert made[0].edits_[0].request == "flat from 2020-06-01 to 2021-01-01"
    for other in made[1:]:
        assert other.edits_[0].after == made[0].edits_[0].after


def test_a_flat_part_has_the_mean_of_its_rows_or_the_value_given(model):
    table, _ = data()
    edited = model.edit().flatten("size", 3.0, 6.0, reason="a test")
    found, before = effect(edited, "size", [3.0, 4.0, 6.0]), effect(model, "size", table["size"].to_numpy())
    inside = table["size"].between(3.0, 6.0).to_numpy()
    assert np.ptp(found) == 0.0
    assert found[0] == pytest.approx(before[inside].mean(), abs=0.1 * before.std())
    given = model.edit().flatten("size", 3.0, 6.0, value=0.25, reason="a test")
    np.testing.assert_allclose(effect(given, "size", [3.0, 5.0, 6.0]), 0.25, rtol=1e-12)
    tail = model.edit().flatten("size", 6.0, np.inf, reason="a test")
    assert np.ptp(effect(tail, "size", [6.0, 9.0, 1e9])) == 0.0


def test_merged_levels_share_the_mean_over_their_rows(model):
    table, _ = data()
    edited = model.edit().merge_levels("town", ["north", "east"], reason="a test")
    shared = effect(edited, "town", ["north", "east"])
    before = effect(model, "town", table["town"].to_numpy())
    both = table["town"].isin(["north", "east"]).to_numpy()
    np.testing.assert_allclose(shared, before[both].mean(), rtol=1e-9)
    others = ["south", "west"]
    np.testing.assert_allclose(effect(edited, "town", others), effect(model, "town", others), rtol=1e-12)


def test_a_dropped_column_is_gone_from_support_names_norms_and_parameters(model):
    table, _ = data()
    edited = model.edit().drop("age", reason="a test")
    assert "age" not in edited.get_feature_names_out() and edited.get_support().sum() == 4
    assert edited.n_parameters_ < model.n_parameters_
    assert edited.norms_[1] == 0.0 < model.norms_[1]
    assert not edited.effects(table)[:, 1].any() and not edited.missing_effects(table).any()
    dropped = {column.name: column.reason for column in edited.explain().dropped}
    assert dropped["age"] == "dropped by an edit: a test"
    everything = model.edit()
    for name in model.get_feature_names_out():
        everything.drop(name, reason="a test")
    np.testing.assert_array_equal(everything.predict(table), everything.intercept_)
    assert everything.n_parameters_ == 1 and not everything.explain().features


def test_the_intercept_is_shifted_for_every_row(model):
    table, _ = data()
    edited = model.edit().shift_intercept(1.5, reason="a test")
    np.testing.assert_allclose(edited.predict(table), model.predict(table) + 1.5, rtol=1e-12)
    assert edited.intercept_ == model.intercept_ + 1.5 and edited.n_parameters_ == model.n_parameters_


def test_the_log_says_what_why_who_and_when_in_universal_time(model):
    edited = model.edit(clock=lambda: NOON).make_monotone("size", "increasing", reason=" by law ", who="A. Ng")
    edited.drop("town", reason="unfair")
    first, second = edited.edits_
    assert (first.kind, first.column, first.reason, first.who) == ("make_monotone", "size", "by law", "A. Ng")
    assert first.when == "2026-01-31T12:30:00+00:00"
    assert (second.who, second.loss_before, second.after) == ("unknown", None, ())
    before = model.model_.curves[first.before[0].place]
    assert first.before[0].curve == before
    now = datetime.fromisoformat(model.edit().drop("town", reason="now").edits_[0].when)
    assert abs(datetime.now(UTC) - now) < timedelta(minutes=5)


def test_losses_are_those_of_the_rows_given(model):
    table, target = data(1)
    weights = np.random.default_rng(0).uniform(size=ROWS)
    edited = model.edit(table, target, weights).drop("size", reason="a test")
    variance = np.average((target - np.average(target, weights=weights)) ** 2, weights=weights)
    for loss, one in ((edited.edits_[0].loss_before, model), (edited.edits_[0].loss_after, edited)):
        assert loss == pytest.approx(np.average((one.predict(table) - target) ** 2, weights=weights) / variance / 2)
    assert edited.edits_[0].loss_after > edited.edits_[0].loss_before


def test_losses_of_rates_take_their_exposure_into_account():
    table, score = data()
    exposure = np.random.default_rng(0).uniform(0.5, 3, ROWS)
    target = np.random.default_rng(1).poisson(exposure * np.exp(score / 3)).astype(float)
    made = SNAMRegressor(alpha=0.003, family="poisson", random_state=0).fit(table, target, exposure=exposure)
    edit = made.edit(table, target, exposure=exposure).shift_intercept(0.1, reason="a test").edits_[0]
    mean = made.predict(table, exposure=exposure)

    def loss(mean):  # that of a Poisson variable, less what does not depend on the mean, for a unit of exposure
        return (mean - target * np.log(mean / exposure)).sum() / exposure.sum()

    assert edit.loss_before == pytest.approx(loss(mean))
    assert edit.loss_after == pytest.approx(loss(mean * np.exp(0.1)))


def test_losses_of_classes_and_times_are_those_that_the_fits_minimise(classes):
    table, score = data()
    names = np.array(["few", "some", "many"])[np.searchsorted(np.quantile(score, [0.3, 0.7]), score)]
    edit = classes.edit(table, names).drop("size", reason="a test").edits_[0]
    chosen = classes.predict_proba(table)[np.arange(ROWS), np.searchsorted(classes.classes_, names)]
    assert edit.loss_before == pytest.approx(-np.log(chosen).mean())
    times = np.random.default_rng(0).exponential(np.exp(-score)) + 0.01
    target = survival_target(times < 1.0, np.minimum(times, 1.0))
    survival = SNAMSurvival(alpha=0.005, random_state=0).fit(table, target)
    first = survival.edit(table, target).drop("size", reason="a test").edits_[0]
    assert first.loss_before == pytest.approx(-survival.log_likelihood_ / (times < 1.0).sum())
    assert first.loss_after > first.loss_before


def test_each_output_has_its_values_and_a_class_is_read_against_another(classes):
    edited = classes.edit().set_shape("size", [1.0, 9.0], [[1.0, 0.0, -1.0], [0.0, 0.0, 0.0]], reason="a test")
    np.testing.assert_allclose(edited.effects(rows(size=[1.0]))[0, 0], [1.0, 0.0, -1.0], atol=1e-12)
    record = edited.explain(reference="few").edits[0]
    assert len(record.after.effect[0]) == 2
    np.testing.assert_allclose(record.after.effect[0], [-1.0, -2.0], atol=1e-9)  # many and some


def test_summary_and_notes_say_that_the_model_was_edited_and_what_is_no_longer_true(model):
    table, target = data()
    edited = model.edit(table, target).drop("town", reason="unfair", who="B. Bo").flatten("size", 1, 4, reason="noise")
    explanation = edited.explain()
    words = str(explanation)
    assert "edited size: " in words and "edited town: dropped (unfair; B. Bo" in words and "before the edits" in words
    assert "certificate, held-out losses, folds and path are those of the fit" in explanation.notes[0]
    assert explanation.feature("size").reason.endswith("edited since")
    assert not any("edited" in note for note in model.explain().notes)
    again = Explanation.from_dict(json.loads(explanation.to_json()))
    assert again == explanation and again.edits[1].before.x and again.edits[0].levels[0] == "north"


def test_importances_of_edited_columns_are_those_over_the_rows(model):
    table, _ = data()
    edited = model.edit().flatten("size", 2, 5, reason="a").merge_levels("town", ["west", "east"], reason="b")
    edited.set_shape("age", {0: -1.0, 100: 1.0}, reason="c")
    found, exact = edited.explain(), edited.explain(table)
    for name in edited.get_feature_names_out():
        one, other = found.feature(name), exact.feature(name)
        assert one.mean_absolute == pytest.approx(other.mean_absolute, rel=0.02)
        assert one.variation == pytest.approx(other.variation, rel=0.05)


def test_the_report_has_a_table_of_the_edits_and_none_without(model, classes):
    table, target = data()
    edited = model.edit(table, target, clock=lambda: NOON)
    edited.make_monotone("size", "increasing", reason="<b>law</b>", who="A. Ng").drop("town", reason="unfair")
    page = render_report(edited.explain())
    assert 'id="edits"' in page and "Edited: 2 changes" in page and 'href="#edits"' in page
    assert "&lt;b&gt;law&lt;/b&gt;" in page and "<b>law" not in page
    assert "A. Ng, 2026-01-31 12:30 UTC" in page and "How much to keep, before the edits" in page
    assert page.count('class="edit-before"') == 1 + 4 and page.count('class="edit-after"') == 1  # a line, four levels
    plain = render_report(model.explain())
    assert 'id="edits"' not in plain and "before the edits" not in plain
    several = classes.edit().merge_levels("town", ["west", "east"], reason="a").shift_intercept([1, 0, 0], reason="b")
    assert "drawn for" in render_report(several.explain())


def test_the_file_holds_the_log(model, tmp_path):
    edited = model.edit(clock=lambda: NOON).drop("town", reason="unfair")
    edited.save(tmp_path / "edited.snam")
    with safe_open(tmp_path / "edited.snam", framework="np") as file:
        (record,) = json.loads(file.metadata()["sparsenam"])["edits"]
    assert record["reason"] == "unfair" and record["when"].startswith("2026-01-31")


BEFORE = "edits.before.curve."
LIES = {
    "another reason type": lambda log, t: log[0].update(reason=3),
    "an unknown kind": lambda log, t: log[0].update(kind="exec"),
    "an unknown column": lambda log, t: log[0].update(column="x"),
    "no finite intercept": lambda log, t: log[0].update(intercept_before=[None]),
    "another intercept": lambda log, t: log[0].update(intercept_after=[0.0]),
    "shapes that the model does not have": lambda log, t: t["edits.after.curve.knots"].flat.__setitem__(0, -1e6),
    "terms of another column": lambda log, t: log[1]["before"][0].update(term=0),
    "unsorted knots": lambda log, t: t.update({BEFORE + "knots": -t[BEFORE + "knots"]}),
    "values of other outputs": lambda log, t: t.update({BEFORE + "left_slope": t[BEFORE + "left_slope"].repeat(2, -1)}),
    "a place before the first": lambda log, t: log[1]["before"][0].update(place=-1),
    "values that are whole numbers": lambda log, t: t.update({BEFORE + "values": t[BEFORE + "values"].astype(int)}),
    "a curve that is text": lambda log, t: log[1]["before"][0].update(curve="one"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_log_that_does_not_lead_to_its_model_is_refused(model, lie, tmp_path):
    edited = model.edit().drop("size", reason="a test").flatten("age", 20, 40, reason="a test")
    edited.save(tmp_path / "edited.snam")
    document, tensors = read_container(tmp_path / "edited.snam")
    LIES[lie](document["edits"], tensors)
    write_container(tmp_path / "changed.snam", document, tensors)
    with pytest.raises(ModelFileError, match="a whole file written by save"):
        sparsenam.load(tmp_path / "changed.snam")


def test_copies_pickles_and_clones_of_edited_models_are_what_they_should_be(model):
    table, target = data()
    edited = model.edit(table, target).drop("size", reason="a test")
    for other in (copy.deepcopy(edited), pickle.loads(pickle.dumps(edited))):
        np.testing.assert_array_equal(other.predict(table), edited.predict(table))
        np.testing.assert_array_equal(other.undo().predict(table), model.predict(table))
    assert not hasattr(clone(edited), "edits_")
    further = edited.edit().drop("town", reason="another")
    assert len(further.edits_) == 2 and len(edited.edits_) == 1
    again = edited.edit().fit(table, target)
    assert again.edits_ == ()
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    with pytest.raises(InputError, match="a copy made by edit"):
        again.drop("size", reason="a test")


REFUSED = {
    "an unknown column": (lambda e, **w: e.drop("sizes", **w), "names of columns .*got 'sizes'"),
    "a position beyond": (lambda e, **w: e.drop(99, **w), "names of columns"),
    "a dropped column": (lambda e, **w: e.flatten("noise", 0, 1, **w), "got 'noise', which it does not use"),
    "an unknown level": (lambda e, **w: e.merge_levels("town", ["north", "nord"], **w), "got 'nord'"),
    "one level": (lambda e, **w: e.merge_levels("town", ["north"], **w), "two levels or more"),
    "a level twice": (lambda e, **w: e.merge_levels("town", ["north", "north"], **w), "each once"),
    "a word for levels": (lambda e, **w: e.merge_levels("town", "north", **w), "put it in brackets"),
    "a number for levels": (lambda e, **w: e.merge_levels("town", 3, **w), "put it in brackets"),
    "an object for a reason": (lambda e, **w: e.drop("size", reason=object()), "a reason in up to"),
    "levels of numbers": (lambda e, **w: e.merge_levels("size", [1, 2], **w), "a category or ordered levels"),
    "a category to flatten": (lambda e, **w: e.flatten("town", 0, 1, **w), "use set_shape or merge_levels"),
    "a category to turn": (lambda e, **w: e.make_monotone("town", "increasing", **w), "use set_shape or merge"),
    "an unknown direction": (lambda e, **w: e.make_monotone("size", "up", **w), "one of .*'increasing'"),
    "ends in the wrong order": (lambda e, **w: e.flatten("size", 5, 5, **w), "a start below the end"),
    "an end that is no number": (lambda e, **w: e.flatten("size", np.nan, 5, **w), "numbers for 'size', got nan"),
    "a word for a number": (lambda e, **w: e.flatten("size", "a", 5, **w), "numbers for 'size', got 'a'"),
    "a word for a date": (lambda e, **w: e.flatten("day", "May", "June", **w), "dates such as"),
    "knots that fall": (lambda e, **w: e.set_shape("size", [2, 1], [0, 1], **w), "knots in rising order"),
    "equal knots": (lambda e, **w: e.set_shape("size", [1, 1], [0, 1], **w), "knots in rising order"),
    "infinite knots": (lambda e, **w: e.set_shape("size", [0, np.inf], [0, 1], **w), "finite knots"),
    "no knots": (lambda e, **w: e.set_shape("size", [], [], **w), "one or more finite knots"),
    "knots without values": (lambda e, **w: e.set_shape("size", [1, 2], **w), "a value for each knot, got 1 alone"),
    "a mapping and values": (lambda e, **w: e.set_shape("size", {1: 2}, [2], **w), "leave the values out"),
    "fewer values": (lambda e, **w: e.set_shape("size", [1, 2], [0], **w), r"values of shape \(1,\)"),
    "infinite values": (lambda e, **w: e.set_shape("size", {1: np.inf}, **w), "a finite number"),
    "values of two outputs": (lambda e, **w: e.set_shape("size", {1: [0, 1]}, **w), r"shape \(1, 2\)"),
    "words for values": (lambda e, **w: e.set_shape("size", {1: "high"}, **w), "a finite number"),
    "a number for knots": (lambda e, **w: e.set_shape("size", 3, **w), "knots and values, or a mapping"),
    "an infinite shift": (lambda e, **w: e.shift_intercept(np.nan, **w), "a finite number"),
    "two shifts": (lambda e, **w: e.shift_intercept([1.0, 2.0], **w), "a finite number"),
    "an empty reason": (lambda e, **w: e.drop("size", reason=" "), "a reason in up to"),
    "a reason that is no text": (lambda e, **w: e.drop("size", reason=None), "a reason in up to .*got None"),
    "a name that is no text": (lambda e, **w: e.drop("size", reason="r", who=3), "a who in up to .*got 3"),
    "nothing to undo": (lambda e, **w: e.undo(), "an edit to take back, got none"),
}


@pytest.mark.parametrize("request_", REFUSED)
def test_a_bad_request_gets_one_sentence_and_changes_nothing(model, request_):
    table, _ = data()
    edited = model.edit()
    ask, message = REFUSED[request_]
    with pytest.raises(InputError, match=message) as caught:
        ask(edited, reason="a test")
    assert "\n" not in str(caught.value) and str(caught.value).endswith((".", "?"))
    assert edited.edits_ == ()
    np.testing.assert_array_equal(edited.predict(table), model.predict(table))


def test_what_cannot_be_edited_says_so(model, classes):
    table, target = data()
    with pytest.raises(NotFittedError):
        SNAMRegressor().edit()
    with pytest.raises(NotFittedError):
        SNAMRegressor().make_monotone("size", "increasing", reason="a test")
    with pytest.raises(InputError, match="a copy made by edit"):
        model.drop("size", reason="a test")
    with pytest.raises(InputError, match="both X and y"):
        model.edit(table)
    with pytest.raises(InputError, match="a family of rates"):
        model.edit(table, target, exposure=np.ones(ROWS))
    with pytest.raises(InputError, match="not all of them 0"):
        model.edit(table, target, np.zeros(ROWS))
    with pytest.raises(InputError, match=r"1 number\(s\) for each row"):
        model.edit(table, np.column_stack([target, target]))
    with pytest.raises(InputError, match="the classes"):
        classes.edit(table, np.full(ROWS, "lots"))
    with pytest.raises(InputError, match="3 finite numbers, one for each output"):
        classes.edit().set_shape("size", {1: 0.0}, reason="a test")
    with pytest.raises(InputError, match="the multinomial family"):
        classes.edit().make_monotone("size", "increasing", reason="a test")
    smooth = SNAMRegressor(alpha=0.01, network=Network(hidden=(4,), activation="gelu"), max_seconds=2, random_state=0)
    with pytest.raises(InputError, match="piecewise linear effects, got the activation 'gelu'"):
        smooth.fit(table[["size", "noise"]], target).edit()


def test_a_column_kept_for_its_missing_cells_can_be_dropped_and_not_drawn():
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"a": draw.normal(size=400), "b": draw.normal(size=400)})
    table.loc[draw.uniform(size=400) < 0.3, "b"] = np.nan
    target = table["a"] + 3 * table["b"].isna() + 0.1 * draw.normal(size=400)
    made = SNAMRegressor(random_state=0).fit(table, target)
    assert [made.encoder_.terms[int(term)].name for term in made.model_.terms] == ["a", "b (missing)"]
    with pytest.raises(InputError, match="uses only where it is missing"):
        made.edit().flatten("b", 0, 1, reason="a test")
    edited = made.edit().drop("b", reason="a test")
    assert list(edited.get_feature_names_out()) == ["a"] and edited.explain().edits[0].before is None
    np.testing.assert_array_equal(edited.undo().predict(table), made.predict(table))


def test_the_command_edits_a_model_file_and_takes_an_edit_back(model, tmp_path):
    table, _ = data()
    paths = [str(tmp_path / name) for name in ("fitted.snam", "edited.snam", "again.snam")]
    model.save(paths[0])

    def run(*arguments):
        return CliRunner().invoke(app, ["edit", *arguments])

    done = run(paths[0], "--drop", "town", "--reason", "unfair", "--who", "A. Ng", "--out", paths[1])
    assert done.exit_code == 0 and "town: dropped" in done.stdout
    edited = sparsenam.load(paths[1])
    assert edited.edits_[0].who == "A. Ng" and "town" not in edited.get_feature_names_out()
    said = CliRunner().invoke(app, ["explain", paths[1]]).stdout
    assert "edited town: dropped (unfair; A. Ng" in said
    assert run(paths[1], "--increasing", "size", "--reason", "law", "--out", paths[2]).exit_code == 0
    assert run(paths[2], "--undo", "--out", paths[2]).exit_code == 0
    assert run(paths[2], "--undo", "--out", paths[2]).exit_code == 0
    np.testing.assert_array_equal(sparsenam.load(paths[2]).predict(table), model.predict(table))
    for wrong in (["--undo"], ["--drop", "town"], ["--drop", "town", "--undo", "--reason", "r"], []):
        assert run(paths[0], *wrong, "--out", str(tmp_path / "none.snam")).exit_code == 2
    assert not (tmp_path / "none.snam").exists()
