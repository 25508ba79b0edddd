"""Fits of the command that are cut short, and what their files remember of them."""

import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import sparsenam
from cli_cases import houses_table, invoke, write_csv
from sparsenam import SNAMRegressor
from sparsenam.context import Clock, ProgressBar
from sparsenam.fit.summary import TrainingSummary
from sparsenam.selection import choose


@pytest.fixture(scope="module")
def houses(tmp_path_factory):
    return write_csv(tmp_path_factory.mktemp("houses") / "houses.csv", houses_table())


@pytest.fixture(scope="module")
def fitted(houses):
    folder = houses.parent / "fitted"
    assert invoke("fit", houses, "--target", "price", "--out", folder).exit_code == 0
    return folder


def read_metrics(folder):
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


def test_a_clock_names_the_parts_that_it_refused_more_time():
    clock = Clock(0.0)
    clock.part = "nothing asked"
    clock.part = "the choice"
    assert clock.passed()
    assert clock.passed()
    clock.part = "nothing asked since"
    clock.part = "the fit"
    assert clock.passed(1.0)
    assert clock.cut_short == ["the choice", "the fit"]
    endless = Clock()
    assert not endless.passed()
    assert not endless.passed(1e9)
    assert endless.cut_short == []


def test_a_fit_cut_short_says_so_in_metrics_model_and_report(houses, tmp_path, ticking):
    words = ("fit", houses, "--target", "price", "--out", tmp_path)
    result = invoke(*words, "--max-seconds", "5")
    assert result.exit_code == 0, result.output
    sentence = read_metrics(tmp_path)["cut_short"]
    assert sentence.startswith("max_seconds ended the choice of columns")
    assert f"note: {sentence}" in result.stdout
    assert sparsenam.load(tmp_path / "model.snam").summary_.cut_short == sentence
    assert sentence in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert sentence in invoke("explain", tmp_path / "model.snam", "--json").stdout
    again = invoke(*words, "--resume")  # with all the time that it needs
    assert again.exit_code == 0, again.output
    assert "finished already" not in again.stderr
    assert read_metrics(tmp_path)["cut_short"] is None
    assert sparsenam.load(tmp_path / "model.snam").summary_.cut_short is None


def test_without_time_no_fit_on_all_columns_is_made_to_compare_with(ticking, monkeypatch):
    asked, usual = [], choose.Finals.evidence

    def watched(finals, chosen):
        asked.append(finals.all is not None)
        return usual(finals, chosen)

    monkeypatch.setattr(choose.Finals, "evidence", watched)
    random = np.random.default_rng(0)
    X = random.normal(size=(100, 4))
    with pytest.warns(UserWarning, match="max_seconds"):
        model = SNAMRegressor(max_seconds=5.0, random_state=0).fit(X, X[:, 0] + 0.1 * random.normal(size=100))
    SNAMRegressor(random_state=0).fit(X, X[:, 0] + 0.1 * random.normal(size=100))
    assert asked == [False, True]
    assert model.get_support()[0]


def test_control_c_while_columns_are_chosen_leaves_the_best_columns_so_far(houses, tmp_path, monkeypatch):
    usual = ProgressBar.report

    def stopping(self, stage, done, *more):
        usual(self, stage, done, *more)
        if stage == "choose" and done == 12:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressBar, "report", stopping)
        result = invoke("fit", houses, "--target", "price", "--out", tmp_path)
    assert result.exit_code == 130
    assert "while columns were chosen" in result.stderr
    metrics = read_metrics(tmp_path)
    assert metrics["preliminary"]
    assert "size" in metrics["kept"]
    assert "stopped while columns were chosen" in metrics["cut_short"]
    model = sparsenam.load(tmp_path / "model.snam")
    assert model.summary_.cut_short == metrics["cut_short"]
    assert model.summary_.target == "price"
    assert "preliminary model" in invoke("explain", tmp_path / "model.snam").stdout
    again = invoke("fit", houses, "--target", "price", "--out", tmp_path, "--resume")
    assert again.exit_code == 0, again.output
    assert read_metrics(tmp_path)["cut_short"] is None


def test_a_model_file_is_explained_and_reported_as_right_after_the_fit(houses, fitted, tmp_path):
    metrics = read_metrics(fitted)
    explained = json.loads(invoke("explain", fitted / "model.snam", "--json").stdout)
    assert explained["target"] == "price"
    card = explained["card"]
    assert card["family"] == "gaussian"
    assert card["scores"]["root mean squared error on held-out rows"] == metrics["test"]["model"]
    assert card["scores"]["r2"] == metrics["test"]["r2"]
    assert card["source"]["file"] == "houses.csv"
    assert card["source"]["rows held out"] == str(metrics["rows"]["test"])
    assert card["rows"] == metrics["rows"]["fit"]
    assert invoke("report", fitted / "model.snam", "--out", tmp_path / "again.html").exit_code == 0
    first, again = (path.read_text(encoding="utf-8") for path in (fitted / "report.html", tmp_path / "again.html"))
    for words in ("Report of price", "root mean squared error on held-out rows", "houses.csv", "rows held out"):
        assert words in first, words
        assert words in again, words


def test_a_summary_of_an_older_file_has_no_target_and_no_scores(fitted):
    summary = sparsenam.load(fitted / "model.snam").summary_
    data = summary.to_dict()
    for name in ("out_of_time", "target", "scores", "source"):
        del data[name]
    assert TrainingSummary.from_dict(data) == replace(summary, target=None, scores=None, source=None)


def test_the_bar_of_a_stage_that_may_end_early_promises_no_time_left(capsys, monkeypatch):
    monkeypatch.setattr("sparsenam.context.BAR_DELAY", 0.0)
    bar = ProgressBar(verbose=True)
    bar.report("choose", 0, 31)
    bar.report("choose", 7, 31)
    bar.close()
    shown = capsys.readouterr().err
    assert "of at most 31 steps" in shown
    assert "<" not in shown


def test_rows_of_the_report_are_those_of_the_file(tmp_path):
    rows = 60
    marks = np.arange(rows) / 7.0  # a cell that says which row it is in
    table = pl.DataFrame({"mark": marks, "y": 3.0 * marks + np.random.default_rng(0).normal(size=rows)})
    table.write_csv(tmp_path / "table.csv")
    assert invoke("fit", tmp_path / "table.csv", "--target", "y", "--out", tmp_path / "out").exit_code == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    cards = re.split(r">(\d+) of the file, held out", page)
    numbers, texts = [int(number) for number in cards[1::2]], cards[2::2]
    assert len(set(numbers)) == 5
    for number, text in zip(numbers, texts, strict=True):
        assert f"mark = {marks[number]:.4g}" in text
