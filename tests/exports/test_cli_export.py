"""The command ``sparsenam export``: files for a target, their check on rows, and errors in one line."""

import json

import numpy as np
import openpyxl
import pandas as pd
import pytest
from typer.testing import CliRunner

import sparsenam
from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.cli.app import app
from sparsenam.cli.models import options_of
from sparsenam.errors import InputError


def invoke(*words):
    return CliRunner().invoke(app, ["export", *map(str, words)])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A classifier with a number, a category, a date and gaps, its file, and its rows as CSV."""
    folder = tmp_path_factory.mktemp("models")
    generator = np.random.default_rng(0)
    X = pd.DataFrame({"age": generator.uniform(20, 80, 400), "city": generator.choice(["a", "b", "c"], 400)})
    X["since"] = (pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 900, 400), "D")).strftime("%F")
    X.loc[::9, "age"] = np.nan
    since = pd.to_datetime(X["since"]).map(pd.Timestamp.toordinal) - 737425
    odds = np.sin(X["age"].fillna(50) / 9) * 2 + 1.5 * (X["city"] == "a") - 1.0 + since / 300
    y = np.where(generator.random(400) < 1 / (1 + np.exp(-odds)), "defaulted", "paid")
    SNAMClassifier(random_state=0).fit(X, y).save(folder / "model.snam")
    X.assign(more=1).to_csv(folder / "rows.csv", index=False)
    return folder


def test_the_suffix_says_the_target_and_the_file_is_named(saved, tmp_path):
    result = invoke(saved / "model.snam", tmp_path / "model.json")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"written: {tmp_path / 'model.json'}\n"
    written = json.loads((tmp_path / "model.json").read_text("utf-8"))
    assert written == sparsenam.load(saved / "model.snam").portable().to_dict()


def test_a_check_says_the_largest_difference_on_the_rows_of_a_table(saved, tmp_path):
    path = tmp_path / "card.xlsx"
    scale = ("--pdo", 40, "--base-score", 500, "--base-odds", 20, "--option", "good=paid", "--option", "max-error=1")
    result = invoke(saved / "model.snam", path, *scale, "--check", saved / "rows.csv")
    assert result.exit_code == 0, result.output
    *_, line = result.stdout.splitlines()
    assert line.startswith("largest difference of the score over its scale: ")
    assert 0.0 < float(line.rpartition(" ")[2]) < 0.1
    facts = {line[6].value: line[7].value for line in openpyxl.load_workbook(path)["scorecard"].iter_rows(max_row=5)}
    assert list(facts.values()) == [40, 500, 20, "paid", "defaulted"]


def test_the_target_can_be_named(saved, tmp_path):
    result = invoke(saved / "model.snam", tmp_path / "points.csv", "--to", "scorecard", "--check", saved / "rows.csv")
    assert result.exit_code == 0, result.output
    assert pd.read_csv(tmp_path / "points.csv").columns.tolist() == ["column", "bin", "from", "below", "points"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("model.txt",), "expected a suffix of"),
        (("model.json", "--to", "cobol"), "to: expected one of"),
        (("model.json", "--dialect", "duckdb"), "export to json: expected no options"),
        (("card.xlsx", "--option", "colour=red"), "export to scorecard: expected options among"),
        (("card.xlsx", "--option", "pdo"), "--option: expected name=value"),
        (("card.xlsx", "--pdo", "20", "--option", "pdo=30"), "--option: expected an option of the target, once"),
        (("card.xlsx", "--option", "path=here"), "--option: expected an option of the target, once"),
        (("card.xlsx", "--pdo", "-1"), "pdo: expected a number above 0"),
        (("model.json", "--check", "none.csv"), "none.csv: expected a file"),
    ],
)
def test_what_cannot_be_is_said_in_one_line_with_exit_code_2_and_nothing_is_written(saved, tmp_path, words, said):
    result = invoke(saved / "model.snam", tmp_path / words[0], *words[1:])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("sparsenam: ")
    assert said in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("model.json",), "expected a target that can be run, got JSON"),
        (("model.sql", "--dialect", "snowflake"), "expected SQL for duckdb or sqlite, got SQL for snowflake"),
    ],
)
def test_a_target_that_cannot_be_run_says_so_before_anything_is_written(saved, tmp_path, words, said):
    result = invoke(saved / "model.snam", tmp_path / words[0], *words[1:], "--check", saved / "rows.csv")
    assert result.exit_code == 2
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("sparsenam: ")]
    assert said in line
    assert list(tmp_path.iterdir()) == []


def test_an_export_never_takes_the_place_of_the_model_or_of_the_rows_to_check_on(saved, tmp_path):
    model, rows = tmp_path / "model.snam", tmp_path / "rows.csv"
    model.write_bytes((saved / "model.snam").read_bytes())
    rows.write_bytes((saved / "rows.csv").read_bytes())
    (tmp_path / "folder").mkdir()
    for path in (model, tmp_path / "folder" / ".." / "model.snam"):
        result = invoke(model, path, "--to", "python")
        assert result.exit_code == 2
        assert "expected a file to write, got the model file; name another." in result.stderr
    result = invoke(model, rows, "--to", "scorecard", "--check", rows)
    assert result.exit_code == 2
    assert "expected a file to write, got the table to check on; name another." in result.stderr
    assert model.read_bytes() == (saved / "model.snam").read_bytes()
    assert rows.read_bytes() == (saved / "rows.csv").read_bytes()


def test_rows_that_the_model_refuses_are_said_before_anything_is_written(saved, tmp_path):
    folder = tmp_path / "exports"
    folder.mkdir()
    rows = pd.read_csv(saved / "rows.csv")
    rows.loc[3, "age"] = np.inf
    rows.to_csv(tmp_path / "rows.csv", index=False)
    result = invoke(saved / "model.snam", folder / "model.py", "--check", tmp_path / "rows.csv")
    assert result.exit_code == 2
    assert "infinity (inf) in row 3" in result.stderr
    assert list(folder.iterdir()) == []


def test_a_regression_has_no_scorecard(tmp_path):
    X = np.random.default_rng(0).standard_normal((80, 2))
    SNAMRegressor(random_state=0).fit(X, X[:, 0]).save(tmp_path / "model.snam")
    result = invoke(tmp_path / "model.snam", tmp_path / "card.xlsx")
    assert result.exit_code == 2
    assert "scorecard: expected a model of two classes, got one of the task 'regression'" in result.stderr


def test_options_are_numbers_truth_values_or_texts():
    found = options_of(["digits=2", "max-error=0.5", "header=true", "dialect=duckdb", "good=1"], {"pdo": 20.0})
    wanted = {"pdo": 20.0, "digits": 2, "max_error": 0.5, "header": True, "dialect": "duckdb", "good": "1"}
    assert found == wanted
    with pytest.raises(InputError, match="expected name=value"):
        options_of(["=3"], {})
