"""The command on Parquet files that are read block by block: fit, held-out rows, Ctrl-C, predictions."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sparsenam
from fit_cases import INPUTS, mixed_table, small_blocks, write_parts
from sparsenam import context
from sparsenam.cli.app import app
from sparsenam.cli.large import pose_large, source_at
from sparsenam.cli.problem import TargetRequest
from sparsenam.context import ProgressBar
from sparsenam.tables import blocks

ROWS = 3000
QUICK = ("--alpha", "0.02")  # no cross-validation, which other tests are about


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    small_blocks(monkeypatch, sample=1000)


@pytest.fixture(scope="module")
def table():
    frame = mixed_table(ROWS)[[*INPUTS, "y", "two", "n", "e"]]
    frame["two"] = frame["two"].astype(object)
    frame.loc[[3, 2000], "y"] = np.nan
    frame.loc[5, "two"] = None
    return frame


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    """Folders of Parquet files by target."""
    place = tmp_path_factory.mktemp("parts")
    columns = {"y": ["y"], "two": ["two"], "n": ["n", "e"]}
    for name, more in columns.items():
        write_parts(table[[*INPUTS, *more]], place / name)
    return place


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def metrics_of(out):
    return json.loads((out / "metrics.json").read_text())


@pytest.fixture(scope="module")
def fitted(folder, tmp_path_factory):
    """The folder of a finished fit of numbers, and what it printed."""
    out = tmp_path_factory.mktemp("fitted") / "model"
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, sample=1000)
        result = invoke("fit", folder / "y" / "*.parquet", "--target", "y", "--out", out)
    assert result.exit_code == 0, result.output
    return out, result


def test_a_pattern_is_fitted_and_measured_on_rows_held_out(fitted, folder, table):
    out, result = fitted
    assert "2,998 rows in blocks: 1,000 of them choose columns, all are fitted." in result.stderr
    assert "2 rows without 'y' left out." in result.stderr
    metrics = metrics_of(out)
    assert sum(metrics["rows"].values()) == 2998
    assert 0.15 < metrics["rows"]["test"] / 2998 < 0.25
    assert {"a", "b", "colour"} <= set(metrics["kept"])
    assert "<html" in (out / "report.html").read_text()
    model = sparsenam.load(out / "model.snam")
    problem = pose_large(source_at(folder / "y", in_cluster=False), TargetRequest("y"), 0.2, 0)
    held = problem.held()
    error = np.sqrt(np.mean((model.predict(held.table.native) - held.y) ** 2))
    assert metrics["test"]["model"] == pytest.approx(error, rel=1e-12)
    assert metrics["test"]["model"] < 0.7 * metrics["test"]["baseline"]


def test_the_model_has_not_seen_the_rows_held_out(fitted, folder, tmp_path):
    problem = pose_large(source_at(folder / "y", in_cluster=False), TargetRequest("y"), 0.2, 0)
    again = sparsenam.SNAMRegressor(random_state=0).fit(problem.fitted, "y")
    again.save(tmp_path / "model.snam")
    models = [sparsenam.load(place / "model.snam").model_ for place in (tmp_path, fitted[0])]
    assert models[0].curves == models[1].curves
    fit, held = (
        {tuple(row) for row in blocks.sample_of(part, 0, ROWS).X.select(["a", "b"]).to_pandas().to_numpy().tolist()}
        for part in (problem.fitted, problem.held_out)
    )
    assert len(fit) + len(held) == 2998
    assert not fit & held


def test_no_more_rows_are_drawn_for_measuring_than_choose(folder, tmp_path, monkeypatch):
    small_blocks(monkeypatch, sample=300)
    out = tmp_path / "model"
    result = invoke("fit", folder / "n", "--target", "n", "--task", "count", "--exposure", "e", "--out", out, *QUICK)
    assert result.exit_code == 0, result.output
    rows = metrics_of(out)["rows"]
    assert rows["measured"] == 300
    assert rows["fit"] + rows["test"] == ROWS
    assert "on 300 rows (baseline, the mean rate" in result.stdout


def test_one_file_is_read_in_blocks_if_it_has_more_rows_than_choose(table, tmp_path):
    path = tmp_path / "one.parquet"
    table[[*INPUTS, "two"]].to_parquet(path)
    out = tmp_path / "model"
    result = invoke("fit", path, "--target", "two", "--test", "0", "--out", out, *QUICK)
    assert result.exit_code == 0, result.output
    assert "1 row without 'two' left out." in result.stderr
    assert "task: classification (the target holds 2 classes" in result.stdout
    assert "test: no rows held out" in result.stdout
    assert metrics_of(out)["rows"] == {"fit": ROWS - 1, "test": 0}
    few = tmp_path / "few.parquet"
    table[[*INPUTS, "y"]].head(900).to_parquet(few)
    assert "in blocks" not in invoke("fit", few, "--target", "y", "--out", tmp_path / "few", *QUICK).stderr
    shaped = invoke("fit", path, "--target", "two", "--shape", "a=linear", "--out", tmp_path / "shaped", *QUICK)
    assert shaped.exit_code == 0, shaped.output
    assert "in blocks" not in shaped.stderr


def test_a_fit_stopped_while_all_rows_are_read_goes_on_to_the_same_bits(folder, tmp_path, monkeypatch):
    words = ["fit", folder / "two", *QUICK, "--target", "two", "--out"]
    usual, reports = ProgressBar.report, []

    def stopping(self, stage, *more):
        usual(self, stage, *more)
        reports.append((stage, *more))
        if sum(name == "rows" for name, *_ in reports) == 25:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressBar, "report", stopping)
        result = invoke(*words, tmp_path / "stopped")
    assert result.exit_code == 130
    assert "Stopped while all rows were read; the same command with --resume goes on" in result.stderr
    assert [path.name for path in (tmp_path / "stopped").iterdir()] == ["stage.safetensors"]
    by_rows = [more for stage, *more in reports if stage in ("sample", "rows")]
    assert all(0 < done <= total for done, total in by_rows)
    stage = tmp_path / "stopped" / "stage.safetensors"
    whole = stage.read_bytes()
    other = invoke(*words, tmp_path / "stopped", "--resume", "--seed", "1")
    assert other.exit_code == 2 and "other data or settings" in other.stderr
    stage.write_bytes(whole[:1000])
    damaged = invoke(*words, tmp_path / "stopped", "--resume")
    assert damaged.exit_code == 2 and "does not read" in damaged.stderr
    stage.write_bytes(whole)
    again = invoke(*words, tmp_path / "stopped", "--resume")
    assert again.exit_code == 0, again.output
    assert invoke(*words, tmp_path / "unbroken").exit_code == 0
    resumed, whole = (sparsenam.load(tmp_path / name / "model.snam") for name in ("stopped", "unbroken"))
    assert resumed.model_.curves == whole.model_.curves
    finished = invoke(*words, tmp_path / "stopped", "--resume")
    assert "finished already" in finished.stderr


def test_predictions_are_written_as_parquet_with_probabilities_of_classes(fitted, folder, table, tmp_path):
    out = tmp_path / "predictions.parquet"
    result = invoke("predict", fitted[0] / "model.snam", folder / "y" / "*.parquet", "--out", out)
    assert result.exit_code == 0, result.output
    assert f"{ROWS} predictions" in result.stdout
    expected = sparsenam.load(fitted[0] / "model.snam").predict(table[INPUTS])
    assert np.array_equal(pq.read_table(out)["prediction"].to_numpy(), expected)
    classes = sparsenam.SNAMClassifier(alpha=0.02, random_state=0).fit(
        table[INPUTS].head(300), table["two"].head(300).fillna("no")
    )
    classes.save(tmp_path / "classes.snam")
    result = invoke("predict", tmp_path / "classes.snam", folder / "two", "--out", out)
    assert result.exit_code == 0, result.output
    written = pq.read_table(out)
    assert written.column_names[-3:] == ["prediction", "probability of no", "probability of yes"]
    assert np.array_equal(written["probability of yes"].to_numpy(), classes.predict_proba(table[INPUTS])[:, 1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["classes.snam", "predictions.parquet"]


def test_what_blocks_cannot_do_is_one_sentence(fitted, folder, tmp_path):
    model, parts = fitted[0] / "model.snam", folder / "y"
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    out = ("--out", tmp_path / "model")
    for words, sentence in (
        (("fit", parts, "--target", "price", *out), "expected a column 'price'"),
        (("fit", parts, "--target", "y", "--event", "a", *out), "a table in blocks: expected regression, count or"),
        (
            ("fit", parts, "--target", "y", "--shape", "a=increasing", *out),
            "expected a fit that reads its rows block by block, got shapes",
        ),
        (("fit", parts, "--target", "y", "--test", "1", *out), "--test: expected a share"),
        (("fit", folder / "none*.parquet", "--target", "y", *out), "expected Parquet files, got none"),
        (("fit", folder / "n", "--target", "n", "--exposure", "n", *out), "expected different columns, got one twice"),
        (("predict", model, parts, "--out", tmp_path / "p.csv"), "--out: expected a name that ends in .parquet"),
        (("predict", model, parts, "--out", tmp_path / "p.parquet", "--intervals", "0.9"), "--intervals: expected"),
        (("predict", model, parts, "--out", tmp_path / "no" / "p.parquet"), "--out: expected a file in a folder"),
        (("predict", model, tmp_path / "a.csv", "--out", tmp_path / "p.parquet"), "a.csv: expected the"),
    ):
        result = invoke(*words)
        assert result.exit_code == 2, (words, result.output)
        assert sentence in result.stderr
        assert result.stderr.count("\n") <= 3


def test_the_bar_shows_rows_and_the_time_left_of_this_pass(capsys, monkeypatch):
    monkeypatch.setattr(context, "BAR_DELAY", 0.0)
    bar = ProgressBar(verbose=True)
    for done in (2_000_000, 4_000_000, 1_000_000):  # the last one is of a further pass
        bar.report("rows", done, 4_000_000)
        bar._bar.refresh()
    shown = capsys.readouterr().err
    bar.close()
    assert "2.00M/4.00M" in shown
    assert " rows/s" in shown
    assert shown.rstrip().rpartition("rows: ")[2].startswith(" 25%")


def test_predictions_of_several_files_are_parquet_where_no_name_is_given(fitted, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("predict", fitted[0] / "model.snam", folder / "y" / "*.parquet")
    assert result.exit_code == 0, result.output
    assert f"{ROWS} predictions: predictions.parquet" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.parquet"]


def interrupting(*given, **more):
    raise KeyboardInterrupt


def test_ctrl_c_in_the_first_passes_is_said(fitted, folder, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("sparsenam.cli.large.count_rows", interrupting)
        result = invoke("fit", folder / "y", "--target", "y", "--out", tmp_path / "model")
    assert result.exit_code == 130
    assert "Stopped before there was a model; the same command with --resume starts again." in result.stderr
    with monkeypatch.context() as patch:
        patch.setattr("sparsenam.cli.large.predict_table", interrupting)
        result = invoke("predict", fitted[0] / "model.snam", folder / "y", "--out", tmp_path / "p.parquet")
    assert result.exit_code == 130
    assert result.stderr == "Stopped before the end; the same command starts again.\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("sample", [1000, 10_000])
def test_the_labels_of_rows_that_pandas_wrote_are_no_column(sample, table, tmp_path, monkeypatch):
    small_blocks(monkeypatch, sample=sample)
    frame = table[["a", "b", "y"]].dropna()
    frame = frame.set_index(pd.Index(frame["y"].rank(), name="place"))
    frame.to_parquet(tmp_path / "one.parquet")
    result = invoke("fit", tmp_path / "one.parquet", "--target", "y", "--out", tmp_path / "model", *QUICK)
    assert result.exit_code == 0, result.output
    assert metrics_of(tmp_path / "model")["columns"] == 2
    result = invoke("fit", tmp_path / "one.parquet", "--target", "place", "--out", tmp_path / "label", *QUICK)
    assert metrics_of(tmp_path / "label")["columns"] == 3
