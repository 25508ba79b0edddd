"""Predicting from the kept columns alone: others may be there or not, in any order, and nothing is said of them."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import sparsenam
from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.cli.app import app
from sparsenam.errors import ConstantWidthWarning, InputError
from sparsenam.tables.text import UnseenLevelWarning, UnseenMissingWarning

ROWS = 300


def table(seed=0):
    rng = np.random.default_rng(seed)
    numbers = {name: rng.normal(size=ROWS) for name in ("age", "noise", "width")}
    texts = {name: rng.choice(["u", "v", "w"], ROWS) for name in ("city", "colour")}
    return pd.DataFrame({"noise": numbers["noise"], "age": numbers["age"], **texts, "width": numbers["width"]})


def target(frame):
    """Errors are as large as the column "width" says, which the mean does not use."""
    errors = np.random.default_rng(1).normal(size=len(frame)) * np.exp(frame["width"])
    return (np.sin(frame["age"]) + (frame["city"] == "u") + 0.1 * errors).to_numpy()


@pytest.fixture(scope="module")
def model():
    fitted = SNAMRegressor(random_state=0).fit(table(), target(table()))
    assert list(fitted.get_feature_names_out()) == ["age", "city"]
    return fitted


KEPT = ["age", "city"]
ANSWERS = {
    "predict": lambda model, X: model.predict(X),
    "effects": lambda model, X: model.effects(X),
    "missing_effects": lambda model, X: model.missing_effects(X),
    "effect_bands": lambda model, X: model.effect_bands(X).upper,
    "explain": lambda model, X: model.explain(X).to_dict()["features"],
    "explain_local": lambda model, X: [row.prediction for row in model.explain_local(X[:20]).rows],
    "constant intervals": lambda model, X: np.asarray(model.predict_interval(X, scale="constant")),
    "compare": lambda model, X: [part.mean_absolute for part in sparsenam.compare(model, model, X).curves],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_kept_columns_alone_give_the_answers_of_the_whole_table(model, name):
    whole, answer = table(2), ANSWERS[name]
    expected = answer(model, whole)
    others = whole[KEPT[::-1]].assign(unheard_of="text")
    for given in (whole[KEPT], others, pl.from_pandas(others), whole[KEPT].assign(noise="no number", colour="new")):
        np.testing.assert_array_equal(answer(model, given), expected)


def test_one_row_of_kept_columns_is_predicted_too(model):
    whole = table(2)
    assert model.predict(whole[KEPT][:1]) == model.predict(whole[:1])


def test_a_kept_column_that_is_not_there_is_named_and_a_dropped_one_is_not(model):
    with pytest.raises(InputError, match=r"yet now missing:\n- age\n$"):
        model.predict(table()[["city"]])
    with pytest.raises(
        InputError, match=r"unseen at fit time:\n- aeg\n.*yet now missing:\n- age\nDid you mean 'aeg' for 'age'\?$"
    ):
        model.predict(table()[KEPT].rename(columns={"age": "aeg"}))


def test_a_table_without_names_needs_as_many_columns_as_the_fit():
    X = np.random.default_rng(0).normal(size=(200, 4))
    fitted = SNAMRegressor(random_state=0).fit(X, X[:, 0])
    with pytest.raises(InputError, match="X has 1 features, but SNAMRegressor is expecting 4"):
        fitted.predict(X[:, :1])


@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "compare"])
def test_warnings_are_of_kept_columns_once_a_call(model, name):
    odd = table(2)
    odd.loc[3, ["noise", "age"]], odd.loc[4, ["city", "colour"]] = np.nan, "new"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ANSWERS[name](model, odd)
    assert sorted(each.category.__name__ for each in caught) == ["UnseenLevelWarning", "UnseenMissingWarning"]
    said = " ".join(str(each.message) for each in caught)
    assert "city" in said and "age" in said and "colour" not in said and "noise" not in said


def test_intervals_have_one_width_where_the_column_of_the_width_is_not_there(model):
    whole = table(2)
    with pytest.warns(ConstantWidthWarning, match="'width'"):
        narrow = model.predict_interval(whole[KEPT])
    np.testing.assert_array_equal(narrow, model.predict_interval(whole, scale="constant"))
    with_width = model.predict_interval(whole[[*KEPT, "width"]])
    np.testing.assert_array_equal(with_width, model.predict_interval(whole))
    with pytest.raises(InputError, match="- width"):
        model.predict_interval(whole[KEPT], scale="x")
    with pytest.raises(InputError, match="- colour"):
        model.predict_interval(whole[[*KEPT, "width"]], groups="colour")


def test_what_asks_about_dropped_columns_needs_them(model):
    for ask in (model.audit, model.calibrate):
        with pytest.raises(InputError, match="- colour"):
            ask(table()[KEPT], target(table()))
    with pytest.raises(InputError, match="colour"):
        sparsenam.compare(model, model, table()[KEPT], groups=["colour"])


def test_the_columns_of_a_pair_are_kept_columns():
    frame = table()
    product = (frame["age"] * frame["noise"]).to_numpy()
    fitted = SNAMRegressor(pairs=[("age", "noise")], random_state=0).fit(frame, product)
    kept = list(fitted.get_feature_names_out())
    assert {"age", "noise"} <= set(kept)
    np.testing.assert_array_equal(fitted.predict(frame[kept]), fitted.predict(frame))


def test_sets_of_classes_warn_once_of_a_kept_column_and_of_that_of_groups():
    frame = table()
    fitted = SNAMClassifier(alpha=0.05, random_state=0).fit(frame, target(frame) > 0.3)
    assert list(fitted.get_feature_names_out()) == KEPT
    np.testing.assert_array_equal(fitted.predict_proba(frame[KEPT]), fitted.predict_proba(frame))
    odd = frame.assign(colour=["new", *frame["colour"][1:]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict_set(odd)
    with pytest.warns(UnseenLevelWarning, match="colour"):
        fitted.predict_set(odd, groups="colour")


def test_a_model_that_keeps_nothing_predicts_for_any_named_table():
    frame = table()
    noise = np.random.default_rng(5).normal(size=ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = SNAMRegressor(alpha=10.0, random_state=0).fit(frame, noise)
    assert not fitted.get_support().any()
    assert set(fitted.predict(pd.DataFrame({"other": [1.0, 2.0]}))) == {fitted.intercept_}


def test_the_command_and_files_in_blocks_need_the_kept_columns_alone(model, tmp_path):
    whole, path = table(2), tmp_path / "model.snam"
    model.save(path)
    whole[KEPT].assign(more=1).to_csv(tmp_path / "kept.csv", index=False)
    whole[KEPT].to_parquet(tmp_path / "kept.parquet")
    out = tmp_path / "out.csv"
    result = CliRunner().invoke(app, ["predict", str(path), str(tmp_path / "kept.csv"), "--out", str(out)])
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(pd.read_csv(out)["prediction"], model.predict(whole), rtol=1e-9)
    found = sparsenam.predict_table(model, str(tmp_path / "kept.parquet"), to=tmp_path / "out.parquet")
    columns = pyarrow.parquet.read_table(found).column_names
    assert columns == [*KEPT, "prediction"]
    result = CliRunner().invoke(app, ["explain", str(path), str(tmp_path / "kept.csv"), "--rows", "0"])
    assert result.exit_code == 0, result.output
    whole[["city"]].to_csv(tmp_path / "less.csv", index=False)
    result = CliRunner().invoke(app, ["predict", str(path), str(tmp_path / "less.csv"), "--out", str(out)])
    assert result.exit_code == 2 and "'age'" in result.output and "colour" not in result.output


def test_missing_cells_of_a_dropped_column_are_no_news(model):
    gaps = table(2)
    gaps.loc[::2, "noise"] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(gaps)
    gaps.loc[0, "age"] = np.nan
    with pytest.warns(UnseenMissingWarning, match="age"):
        model.predict(gaps)


def test_a_renamed_column_is_answered_with_what_was_meant(model):
    given = table().rename(columns={"age": "Age", "city": "citty"})
    with pytest.raises(InputError, match=r"Did you mean 'Age' for 'age', 'citty' for 'city'\?$"):
        model.predict(given)
    with pytest.raises(InputError, match=r"now missing:\n- age\n$"):
        model.predict(table().drop(columns="age"))
