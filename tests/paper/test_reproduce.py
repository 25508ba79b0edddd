"""The whole harness: every name in its quick form, by the command line, on tables of the real ones' shape."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from sparsenam import datasets
from sparsenam.cli import app
from sparsenam.paper import NAMES, figures
from sparsenam.paper.drawing import curves_by_method
from sparsenam.paper.reporter import Silence
from sparsenam.paper.reproduce import Wishes, draw, reproduce
from sparsenam.paper.tasks import Task


def table(rows, features, task):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(rows, features))
    score = X[:, 0] + np.abs(X[:, 1]) + 0.5 * generator.normal(size=rows)
    y = score if task == "regression" else (score > np.median(score)).astype(float)
    return datasets.Dataset(X, y, tuple(f"c{place}" for place in range(features)), "y", task)


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setattr(datasets, "load_california", lambda folder=None: table(900, 8, "regression"))
    monkeypatch.setattr(datasets, "load_compas", lambda folder=None: table(600, 13, "classification"))
    monkeypatch.setattr(datasets, "load_superconductivity", lambda folder=None: table(500, 20, "regression"))


def test_everything_runs_quickly_draws_its_figures_and_runs_only_once(tables, tmp_path):
    pytest.importorskip("interpret")
    command = ["reproduce", "all", "--quick", "--figures", "--out", str(tmp_path), "--debug"]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    for name in NAMES:
        report = json.loads((tmp_path / f"{name}-quick.json").read_text())
        failed = [record["reason"] for record in report["records"] if record["status"] != "done"]
        assert not failed, failed
        markdown = (tmp_path / f"{name}-quick.md").read_text()
        assert "quick run" in markdown
        assert list((tmp_path / "figures").glob(f"{name}-quick-*.png")) or name == "penalties"
    assert "paper: SNAM" in first.output
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "figures").iterdir()}
    assert stamps
    records = json.loads((tmp_path / "california-quick.json").read_text())["records"]
    second = CliRunner().invoke(app, ["reproduce", "california", "--quick", "--out", str(tmp_path), "--debug"])
    assert second.exit_code == 0
    assert json.loads((tmp_path / "california-quick.json").read_text())["records"] == records


def test_a_report_tells_which_features_were_kept_and_how_they_act(tables, tmp_path):
    wishes = Wishes(tmp_path, quick=True, methods=("lasso",), splits=2)
    result = reproduce("synthetic-regression", wishes, Silence())
    report = json.loads(result.report.read_text())
    first, second = report["records"]
    assert report["seeds"] == [1, 2]
    assert set(first["support"]) <= {f"x{place}" for place in range(1, 9)}
    assert set(first["variation"]) == {f"x{place}" for place in range(1, 9)}
    assert len(first["curves"]) == 8
    assert "truth" in first["curves"][0]
    assert "curves" not in second
    assert "±" in result.markdown.read_text()


def small(tmp_path, seeds):
    path = tmp_path / "small.toml"
    path.write_text(
        f"""
        title = "small"
        seeds = {seeds}
        measures = ["mse"]
        [task]
        dataset = "california"
        n_rows = 200
        [[methods]]
        name = "lasso"
        kind = "lasso"
        """
    )
    return Wishes(tmp_path, recipe=path)


def test_seeds_that_the_recipe_no_longer_has_are_hidden_and_the_new_first_one_gets_curves(tables, tmp_path):
    first = reproduce("california", small(tmp_path, [0, 1]), Silence())
    assert "lasso: 2 splits" in first.markdown.read_text()
    second = reproduce("california", small(tmp_path, [1]), Silence())
    assert "lasso: 1 split;" in second.markdown.read_text()
    report = json.loads(second.report.read_text())
    assert [record["seed"] for record in report["records"]] == [0, 1]  # hidden, not lost
    old, new = report["records"]
    assert curves_by_method(report, "")["lasso"][0]["effect"] == new["curves"][0]["effect"]
    assert old["curves"] != new["curves"]


def test_fewer_splits_show_only_so_many(tables, tmp_path):
    wishes = small(tmp_path, [0])
    reproduce("california", replace(wishes, splits=3), Silence())
    one = reproduce("california", replace(wishes, splits=1), Silence())
    assert "lasso: 1 split;" in one.markdown.read_text()
    three = reproduce("california", replace(wishes, splits=3), Silence())
    assert "lasso: 3 splits" in three.markdown.read_text()


def test_a_feature_is_drawn_as_kept_if_the_record_keeps_it():
    curve = {"feature": "a", "x": [0.0, 1.0], "effect": [0.0, 0.001], "kept": True, "variation": 0.001}
    record = {"section": "", "method": "m", "seed": 0, "status": "done", "support": ["b"]}
    record["curves"] = [curve, {**curve, "feature": "b"}]
    kept = [own["kept"] for own in curves_by_method({"seeds": [0], "records": [record]}, "")["m"]]
    assert kept == [False, True]


def test_a_figure_that_fails_stops_no_other(tables, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    result = reproduce("california", small(tmp_path, [0]), Silence())
    monkeypatch.setattr(figures, "draw_variation", lambda *words: 1 / 0)
    drawing = draw(result)
    assert [path.name for path in drawing.paths] == [
        f"california-small-effects-lasso.{end}" for end in ("png", "svg")
    ]
    assert list(drawing.failures) == ["variation"]


def test_the_california_report_has_a_history_for_each_solver(tables, tmp_path):
    recipe = tmp_path / "own.toml"
    recipe.write_text(
        """
        title = "own"
        seeds = [0]
        measures = ["mse"]
        [task]
        dataset = "california"
        n_rows = 200
        [[methods]]
        name = "lasso"
        kind = "lasso"
        [optimizers]
        solvers = ["adam", "prox_gd"]
        lambda = 1.0
        hidden = [4]
        max_epochs = 3
        """
    )
    result = reproduce("california", Wishes(tmp_path, recipe=recipe), Silence())
    assert result.report.name == "california-own.json"
    records = {record["method"]: record for record in json.loads(result.report.read_text())["records"]}
    assert [point["epoch"] for point in records["adam"]["history"]][-1] == 3
    losses = [point["loss"] + point["penalty"] for point in records["prox_gd"]["history"]]
    assert losses == sorted(losses, reverse=True)  # backtracking never goes up


def test_a_split_is_the_same_for_every_method_and_takes_a_fifth_to_test_on(tables):
    task = Task({"dataset": "california", "n_rows": 100})
    one, other = task.split(3), task.split(3)
    assert one.test.y.size == 20
    assert one.train.y.size == 80
    np.testing.assert_array_equal(one.test.X, other.test.X)
    assert not np.array_equal(one.test.X, task.split(4).test.X)


def test_the_true_effects_of_a_synthetic_split_belong_to_its_rows():
    split = Task({"dataset": "synthetic-regression", "n_rows": 200, "n_features": 5, "noise": 1e-9}).split(0)
    np.testing.assert_allclose(split.truth_of(split.test.X).sum(axis=1), split.test.y, atol=1e-6)
    assert split.true_support == (0, 1, 2, 3)
