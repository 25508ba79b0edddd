"""The whole harness by its command: every name in its quick form, on tables of the real ones' shape."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from paper import NAMES, data, figures, reproduce
from paper.__main__ import main
from paper.records import Reporter
from paper.reproduce import Request
from paper.tasks import Task
from sparsenam.errors import InputError
from sparsenam.explain import Explanation

RESULTS = Path(reproduce.__file__).parent / "results"


def table(rows, columns, task):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(rows, columns))
    score = X[:, 0] + np.abs(X[:, 1]) + 0.5 * generator.normal(size=rows)
    y = score if task == "regression" else (score > np.median(score)).astype(float)
    return data.Dataset(X, y, tuple(f"c{index}" for index in range(columns)), "y", task)


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setattr(data, "load_california", lambda folder=None: table(500, 8, "regression"))
    monkeypatch.setattr(data, "load_compas", lambda folder=None: table(400, 8, "classification"))
    monkeypatch.setattr(data, "load_superconductivity", lambda folder=None: table(400, 10, "regression"))


def run(name, request):
    return reproduce.reproduce(name, request, Reporter())


# --- every name ---


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a few epochs converge nowhere
@pytest.mark.parametrize("name", NAMES)
def test_every_name_runs_quickly_draws_its_figures_and_runs_only_once(name, tables, tmp_path, capsys):
    if name != "theory":
        pytest.importorskip("interpret")
    command = [name, "--quick", "--out", str(tmp_path), "--debug"]
    assert main([*command, "--figures"]) == 0
    printed = capsys.readouterr().out
    path = tmp_path / f"{name}-quick.json"
    records = json.loads(path.read_text())["records"]
    assert records and all(record["status"] == "done" for record in records), records
    assert "quick run" in (tmp_path / f"{name}-quick.md").read_text() and "quick run" in printed
    assert ("paper: SNAM" in printed) == (name not in ("penalties", "joint-penalties", "notebook", "theory"))
    drawn = list((tmp_path / "figures").iterdir())
    assert drawn and all(file.name.startswith(f"{name}-quick-") and file.suffix == ".png" for file in drawn)
    assert main(command) == 0
    assert json.loads(path.read_text())["records"] == records


def test_the_committed_reports_are_up_to_date_with_their_recipes():
    """Every record that a recipe asks for is there, and the tables are made from the records."""
    for name in NAMES:
        path = RESULTS / f"{name}.json"
        report = reproduce.Store(path, {}).records()
        recipes = {(record["section"], record["method"], record["seed"]): record["recipe"] for record in report}
        if name == "theory":
            works = list(reproduce.theory_works(reproduce.load_settings(None, quick=False)))
        else:
            works = list(reproduce.comparison_works(reproduce.load_recipe(name), None))
        assert [work.key for work in works if recipes.get(work.key) != work.recipe] == [], name
        text = "\n".join(one.markdown() for one in reproduce.tables_of(json.loads(path.read_text())))
        assert path.with_suffix(".md").read_text() == text, name


@pytest.mark.parametrize("page", ["reproduction.md", "paper_recipe.md"])
def test_every_row_of_a_table_in_the_documentation_is_a_committed_result(page):
    committed = {line for file in RESULTS.glob("*.md") for line in file.read_text().splitlines()}
    root = RESULTS.parent.parent
    rows = [line for line in (root / "docs" / page).read_text().splitlines() if line.startswith("| ")]
    assert rows and [row for row in rows if row not in committed] == []


# --- reports ---


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
    return Request(tmp_path, figures=True, recipe=path)


def test_a_report_says_which_columns_were_kept_and_the_cache_how_they_act(tmp_path):
    request = Request(tmp_path, quick=True, methods=("lasso",), splits=2)
    result = run("synthetic-regression", request)
    report = json.loads(result.store.path.read_text())
    first, _ = report["records"]
    assert report["seeds"] == [1, 2]
    assert set(first["support"]) <= {f"x{number}" for number in range(1, 9)}
    assert set(first["measures"]) >= {"mse", "precision", "identification", "seconds"}
    assert not {"curves", "drawing", "variation"} & set(first)
    explanation = Explanation.from_dict(result.store.drawing(first))
    assert {feature.name for feature in explanation.features} == set(first["support"])
    assert "±" in result.markdown.read_text()


def test_seeds_that_the_recipe_no_longer_has_are_hidden_and_the_new_first_one_is_drawn(tables, tmp_path):
    first = run("california", small(tmp_path, [0, 1]))
    assert "lasso: 2 splits" in first.markdown.read_text()
    second = run("california", small(tmp_path, [1]))
    assert "lasso: 1 split;" in second.markdown.read_text()
    assert [record["seed"] for record in second.store.records()] == [0, 1]  # hidden, not lost
    old, new = (second.store.drawing(record) for record in second.store.records())
    section = figures.parse_recipe("california", second.store.report()["recipe"]).sections[0]
    (shown,) = figures.explanations_of(second.store, section).values()
    assert shown == Explanation.from_dict(new) and old != new


def test_fewer_splits_show_only_so_many(tables, tmp_path):
    request = small(tmp_path, [0])
    run("california", replace(request, splits=3))
    one = run("california", replace(request, splits=1))
    assert "lasso: 1 split;" in one.markdown.read_text()
    three = run("california", replace(request, splits=3))
    assert "lasso: 3 splits" in three.markdown.read_text()


def test_a_figure_that_fails_stops_no_other(tables, tmp_path, monkeypatch):
    result = run("california", small(tmp_path, [0]))
    monkeypatch.setattr(figures, "draw_variation", lambda *given: 1 / 0)
    drawing = result.draw()
    assert [path.name for path in drawing.paths] == ["california-small-effects-lasso.png"]
    assert list(drawing.failures) == ["variation"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # three epochs converge nowhere
def test_the_california_report_has_a_history_for_each_solver(tables, tmp_path):
    recipe = tmp_path / "mine.toml"
    small(tmp_path, [0])
    solvers = '[optimizers]\nsolvers = ["adam", "prox_gd"]\nlambda = 1.0\nhidden = [4]\nmax_epochs = 3\n'
    recipe.write_text((tmp_path / "small.toml").read_text() + solvers)
    result = run("california", Request(tmp_path, recipe=recipe))
    assert result.store.path.name == "california-mine.json"
    records = {record["method"]: record for record in result.store.records()}
    assert records["adam"]["end"]["epoch"] == 3
    history = result.store.drawing(records["prox_gd"])["history"]
    assert history[-1] == records["prox_gd"]["end"]
    losses = [point["loss"] + point["penalty"] for point in history]
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


# --- the command ---


def test_help_names_all_that_can_be_run(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert "--quick" in shown and all(name in " ".join(shown.split()) for name in NAMES)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing",), "'nothing'"),
        (("compas", "--splits", "0"), "at least 1"),
        (("compas", "--methods", "magic"), "'magic'"),
        (("compas", "--recipe", "absent.toml"), "absent.toml"),
        (("all", "--splits", "2"), "single name"),
        (("theory", "--splits", "2"), "theory"),
        (("compas", "--methods", ""), "at least one name"),
        (("compas", "--recipe", "quick.toml"), "rename the file"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_two(words, message, tmp_path, capsys):
    assert main([*words, "--quick", "--out", str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert len(shown.err.strip().splitlines()) == 1
    assert shown.out == ""


def test_a_folder_that_cannot_be_written_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["compas", "--quick", "--out", str(tmp_path / "file" / "below")]) == 2
    message = capsys.readouterr().err
    assert "a folder that can be written" in message and "below" in message


LASSO = ("synthetic-regression", "--quick", "--figures", "--methods", "lasso")


def test_a_figure_that_cannot_be_drawn_is_a_message_after_the_tables(tmp_path, monkeypatch, capsys):
    def broken(*given):
        raise ZeroDivisionError("no scale")

    monkeypatch.setattr(figures, "draw_zoo", broken)
    assert main([*LASSO, "--out", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert "paper: LASSO" in shown.out
    assert "The figure zoo could not be drawn: no scale" in shown.err
    assert "Traceback" not in shown.err


def test_nothing_to_draw_is_said(tmp_path, monkeypatch, capsys):
    bare = {"measures": {"mse": 1.0}, "support_rule": "none", "chosen": {}}
    monkeypatch.setattr(reproduce, "compare", lambda *given: bare)
    assert main([*LASSO, "--out", str(tmp_path)]) == 0
    assert "No figure" in capsys.readouterr().err


def test_debug_gives_the_error_itself(tmp_path):
    with pytest.raises(InputError):
        main(["nothing", "--out", str(tmp_path), "--debug"])


def test_data_that_cannot_be_had_are_one_line_and_exit_code_two(tmp_path, monkeypatch, capsys):
    def offline(folder=None):
        raise InputError("COMPAS: expected a download, got no network; give --data.")

    monkeypatch.setattr(data, "load_compas", offline)
    assert main(["compas", "--quick", "--out", str(tmp_path)]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last == "paper: COMPAS: expected a download, got no network; give --data."


def test_of_all_names_one_without_its_data_keeps_no_other_waiting(tmp_path, monkeypatch, capsys):
    def refuse(name, request, reporter):
        raise InputError(f"{name}: expected data, got none.")

    monkeypatch.setattr("paper.__main__.reproduce", refuse)
    assert main(["all", "--quick", "--out", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == len(NAMES) + 1  # and the claims, without reports


def test_control_c_says_what_is_saved_and_the_same_command_goes_on(tmp_path, monkeypatch, capsys):
    real, calls = reproduce.compare, []

    def stopping(method, split, seed):
        calls.append(method.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(method, split, seed)

    monkeypatch.setattr(reproduce, "compare", stopping)
    command = ("synthetic-regression", "--quick", "--methods", "l1-svm,lasso", "--out", str(tmp_path))
    assert main(command) == 130
    message = capsys.readouterr().err
    assert "1 of 2 records are saved in" in message and "goes on from there" in message
    assert main(command) == 0
    assert calls == ["l1-svm", "lasso", "lasso"]
    assert "paper: LASSO" in capsys.readouterr().out
    report = json.loads((tmp_path / "synthetic-regression-quick.json").read_text())
    assert [record["method"] for record in report["records"]] == ["l1-svm", "lasso"]
