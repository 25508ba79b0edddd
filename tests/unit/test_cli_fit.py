"""The commands on files: fit, predict, explain, path, report and demo, and fits that are stopped."""

import csv
import gzip
import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import sparsenam
from sparsenam.cli.app import app, write_demo_table
from sparsenam.cli.problem import TargetRequest, pose, split
from sparsenam.cli.tables import FileTable, read_file, write_table
from sparsenam.context import ProgressBar
from sparsenam.datasets import make_regression
from sparsenam.errors import InputError

ROWS = 200


def columns(seed=0):
    """Return a small table of houses: numbers, a category, a postal code, and missing cells."""
    random = np.random.default_rng(seed)
    size, age, noise = random.uniform(40, 200, ROWS), random.uniform(0, 90, ROWS), random.normal(size=ROWS)
    zone = random.choice(["north", "south", "east"], ROWS)
    price = 3 * size + 60 * (zone == "north") + 10 * np.sin(age / 10) + random.normal(size=ROWS)
    cells = {
        "size": [f"{value:.3f}" for value in size],
        "age": [f"{value:.2f}" if index % 9 else "" for index, value in enumerate(age)],
        "zone": list(zone),
        "zip": [f"0{index % 3}234" for index in range(ROWS)],
        "noise": [f"{value:.4f}" for value in noise],
        "price": [f"{value:.3f}" for value in price],
    }
    cells["expensive"] = ["yes" if value > np.median(price) else "no" for value in price]
    return cells


def write(path, cells, separator=","):
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=separator)
    writer.writerow(cells)
    writer.writerows(zip(*cells.values(), strict=True))
    content = buffer.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def without(cells, *names):
    return {name: column for name, column in cells.items() if name not in names}


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def houses(tmp_path_factory):
    return write(tmp_path_factory.mktemp("houses") / "houses.csv", without(columns(), "expensive"))


@pytest.fixture(scope="module")
def fitted(houses):
    """Return the folder of a finished fit and what it printed."""
    folder = houses.parent / "fitted"
    result = invoke("fit", houses, "--target", "price", "--out", folder)
    assert result.exit_code == 0, result.output
    return folder, result


def test_fit_prints_task_kept_features_and_test_error_and_writes_three_files(fitted):
    folder, result = fitted
    assert "task: regression (the target holds 200 different numbers)" in result.stdout
    assert "kept: size, age, zone" in result.stdout
    assert "test root mean squared error: " in result.stdout
    assert result.stderr == ""  # progress is for terminals
    assert sorted(path.name for path in folder.iterdir()) == ["metrics.json", "model.snam", "report.html"]
    assert "<html" in (folder / "report.html").read_text()
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["test"]["model"] < 0.2 * metrics["test"]["baseline"]
    assert metrics["rows"] == {"fit": 160, "test": 40}
    assert set(metrics["kept"]) | set(metrics["dropped"]) == {"size", "age", "zone", "zip", "noise"}


def test_the_test_error_is_that_of_the_saved_model_on_the_rows_held_out(houses, fitted):
    folder, _ = fitted
    problem = pose(read_file(houses), TargetRequest("price"))
    parts = split(problem, 0.2, 0)
    train, held = parts.seen, parts.held_out
    model = sparsenam.load(folder / "model.snam")
    metrics = json.loads((folder / "metrics.json").read_text())["test"]
    error = np.sqrt(np.mean((model.predict(held.table.native) - held.y) ** 2))
    assert metrics["model"] == pytest.approx(error, rel=1e-12)
    assert metrics["baseline"] == pytest.approx(np.sqrt(np.mean((train.y.mean() - held.y) ** 2)), rel=1e-12)


def test_predict_writes_the_table_again_with_the_models_predictions(houses, fitted, tmp_path):
    out = tmp_path / "predictions.tsv.gz"
    result = invoke("predict", fitted[0] / "model.snam", houses, "--out", out)
    assert result.exit_code == 0, result.output
    written = read_file(out)
    assert written.names == (*read_file(houses).names, "prediction")
    inputs = read_file(houses).without(["price"])
    expected = sparsenam.load(fitted[0] / "model.snam").predict(inputs.native)
    assert [float(cell) for cell in written.texts("prediction")] == expected.tolist()
    assert written.texts("zip") == inputs.texts("zip")


def test_explain_ranks_columns_and_says_rows_in_words(houses, fitted):
    model = fitted[0] / "model.snam"
    whole = invoke("explain", model)
    assert whole.exit_code == 0, whole.output
    assert "would let each in: " in whole.stdout and "noise 0." in whole.stdout
    assert whole.stdout.index("size") < whole.stdout.index("zone")
    local = invoke("explain", model, houses, "--rows", "3,0")
    assert local.exit_code == 0, local.output
    assert local.stdout.index("row 3: prediction") < local.stdout.index("row 0: prediction")
    record = json.loads(invoke("explain", model, houses, "--rows", "3", "--json").stdout)["rows"][0]
    total = record["intercept"][0] + sum(part["effect"][0] for part in record["contributions"])
    assert record["row"] == 3
    assert record["score"][0] == pytest.approx(total)


def test_shapes_are_asked_for_by_column(houses, tmp_path):
    asked = ("--shape", "size=increasing", "--shape", "age=steps")
    result = invoke("fit", houses, "--target", "price", "--out", tmp_path / "model", *asked)
    assert result.exit_code == 0, result.output
    model = sparsenam.load(tmp_path / "model" / "model.snam")
    assert model.get_params()["shapes"] == {"size": "increasing", "age": "steps"}
    assert "number, increasing" in invoke("explain", tmp_path / "model" / "model.snam").output


def test_explain_says_how_much_is_explained_and_how_often_the_folds_keep_a_column(fitted):
    shown = invoke("explain", fitted[0] / "model.snam").stdout
    explanation = sparsenam.load(fitted[0] / "model.snam").explain()
    assert f"Explained in rows held out: {explanation.explained} of the loss." in shown
    assert "in folds" in shown and f"{100 * explanation.feature('size').kept_in:.0f} %" in shown
    metrics = json.loads((fitted[0] / "metrics.json").read_text())
    assert metrics["explained"] == explanation.card["explained"] and metrics["notes"] == list(explanation.notes)


def test_what_to_know_of_a_doubtful_choice_is_said_once_by_fit_and_again_by_explain(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 6))
    cells = {f"x{index}": [f"{value:.6f}" for value in column] for index, column in enumerate(X.T)}
    cells["y"] = [f"{value:.6f}" for value in 0.35 * X[:, 0] + random.normal(size=60)]
    table, out = write(tmp_path / "hint.csv", cells), tmp_path / "hint"
    result = invoke("fit", table, "--target", "y", "--test", "0", "--rule", "best", "--out", out)
    assert result.exit_code == 0, result.output
    (note,) = sparsenam.load(out / "model.snam").evidence_.doubts()
    assert result.stdout.count(note) == 1 and f"note: {note}" in result.stdout
    assert result.stderr == ""
    assert note in json.loads((out / "metrics.json").read_text())["notes"]
    assert note in (out / "report.html").read_text()
    assert f"note: {note}" in invoke("explain", out / "model.snam").stdout
    assert (
        f"note: {note}"
        in invoke("fit", table, "--target", "y", "--test", "0", "--rule", "best", "--out", out, "--resume").stdout
    )


def test_explain_reads_classes_against_one_of_them(houses, fitted, tmp_path):
    cells = columns()
    sizes = np.array([float(size) for size in cells["size"]])
    cells = without(cells, "expensive", "price", "zip") | {
        "kind": list(np.array(["flat", "house", "villa"])[np.digitize(sizes, [90, 150])])
    }
    table, out = write(tmp_path / "kinds.csv", cells), tmp_path / "kinds"
    assert invoke("fit", table, "--target", "kind", "--alpha", "0.05", "--out", out).exit_code == 0
    model = out / "model.snam"
    shown = invoke("explain", model, "--reference", "house")
    assert shown.exit_code == 0 and "effects are in log odds against 'house'" in shown.stdout
    found = json.loads(invoke("explain", model, "--reference", "house", "--json").stdout)
    assert found == sparsenam.load(model).explain(reference="house").to_dict()
    for words in ((model, "--reference", "barn"), (model, table, "--rows", "0", "--reference", "house")):
        refused = invoke("explain", *words)
        assert refused.exit_code == 2 and "reference: expected" in refused.stderr
    refused = invoke("explain", fitted[0] / "model.snam", "--reference", "house")
    assert refused.exit_code == 2 and "a model of classes" in refused.stderr


def test_report_is_written_with_and_without_a_table(houses, fitted, tmp_path):
    for words in ((), (houses,)):
        out = tmp_path / f"report{len(words)}.html"
        result = invoke("report", fitted[0] / "model.snam", *words, "--out", out)
        assert result.exit_code == 0, result.output
        assert "zone" in out.read_text()
    chosen = invoke("report", fitted[0] / "model.snam", houses, "--rows", "3,7", "--out", tmp_path / "rows.html")
    assert chosen.exit_code == 0, chosen.output
    assert re.findall(r'Row <bdi class="name">(\d+)</bdi>', (tmp_path / "rows.html").read_text()) == ["3", "7"]


def test_path_starts_empty_and_names_each_column_once_as_it_enters(houses):
    result = invoke("path", houses, "--target", "price", "--json")
    assert result.exit_code == 0, result.output
    walked = json.loads(result.stdout)
    entered = [name for point in walked["points"] for name in point["entered"]]
    assert walked["points"][0]["features"] == 0
    assert walked["entry_order"][0] == "size"
    assert sorted(entered) == sorted(set(entered)) == sorted(walked["entry_order"])
    assert sum(point["taken"] for point in walked["points"]) == 1
    assert "order of entry: size" in invoke("path", houses, "--target", "price").stdout


def test_every_kind_of_file_gives_the_same_model(fitted, tmp_path):
    cells = without(columns(), "expensive")
    files = [write(tmp_path / "a.tsv", cells, "\t"), write(tmp_path / "b.csv.gz", cells, ";")]
    frame = pl.DataFrame({name: [cell or None for cell in column] for name, column in cells.items()})
    frame = frame.with_columns(pl.col("size", "age", "noise", "price").cast(pl.Float64))
    frame.write_parquet(tmp_path / "c.parquet")
    expected = json.loads((fitted[0] / "metrics.json").read_text())
    for index, path in enumerate([*files, tmp_path / "c.parquet"]):
        out = tmp_path / str(index)
        result = invoke("fit", path, "--target", "price", "--out", out)
        assert result.exit_code == 0, result.output
        found = json.loads((out / "metrics.json").read_text())
        assert [found["test"], found["kept"]] == [expected["test"], expected["kept"]]


def test_parquet_without_a_library_says_what_to_install(tmp_path, monkeypatch):
    pl.DataFrame({"a": [1.0]}).write_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"install sparsenam\[files\], or convert the file to CSV"):
        read_file(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"install sparsenam\[files\], or write a .csv"):
        write_table(tmp_path / "b.parquet", FileTable({"a": ["1"]}), {})


def test_ordered_categories_of_a_parquet_file_stay_ordered(tmp_path):
    sizes = pd.Categorical(["low", "high"], categories=["low", "mid", "high"], ordered=True)
    pd.DataFrame({"size": sizes}).to_parquet(tmp_path / "a.parquet")
    cells = read_file(tmp_path / "a.parquet").cells("size")
    assert (cells.stored, cells.values) == ("ordered", ("low", "mid", "high"))


@pytest.mark.parametrize(
    ("cells", "task", "words"),
    [
        (["yes", "no"] * 50, "classification", "2 classes"),
        (["0", "1"] * 50, "classification", "two values"),
        (["1", "2", "3", "4"] * 25, "classification", "--task regression"),
        ([str(index) for index in range(100)], "regression", "--task count"),
        ([str(index / 7) for index in range(100)], "regression", "different numbers"),
        ([str(index - 50) for index in range(100)], "regression", "different numbers"),
    ],
)
def test_the_task_is_guessed_from_the_target_and_the_guess_explained(cells, task, words, tmp_path):
    path = write(tmp_path / "a.csv", {"x": [str(index) for index in range(100)], "y": cells})
    found = pose(read_file(path), TargetRequest("y")).kind
    assert found.task == task
    assert words in found.reason


def test_classes_are_held_out_in_their_shares_and_get_probabilities(tmp_path):
    path = write(tmp_path / "a.csv", without(columns(), "price"))
    problem = split(pose(read_file(path), TargetRequest("expensive")), 0.2, 0)
    train, held = problem.seen, problem.held_out
    assert np.mean(held.y == "yes") == pytest.approx(0.5, abs=0.03)
    assert len(train.y) + len(held.y) == ROWS
    result = invoke("fit", path, "--target", "expensive", "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert "test share of wrong classes" in result.stdout
    out = tmp_path / "p.csv"
    assert invoke("predict", tmp_path / "m" / "model.snam", path, "--out", out).exit_code == 0
    table = read_file(out)
    chances = np.array([table.texts(f"probability of {name}") for name in ("no", "yes")], dtype=float)
    assert chances.sum(axis=0) == pytest.approx(1.0)
    assert np.array(["no", "yes"])[chances.argmax(axis=0)].tolist() == table.texts("prediction")


def test_counts_are_fitted_with_their_exposure(tmp_path):
    random = np.random.default_rng(0)
    x, years = random.normal(size=ROWS), random.uniform(0.5, 4, ROWS)
    counts = random.poisson(years * np.exp(0.8 * x))
    cells = {"x": x.astype(str), "years": years.astype(str), "z": random.normal(size=ROWS).astype(str)}
    path = write(tmp_path / "a.csv", cells | {"claims": counts.astype(str)})
    result = invoke("fit", path, "--target", "claims", "--exposure", "years", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "task: count (an exposure was named)" in result.stdout
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["test"]["measure"] == "Poisson deviance"
    assert metrics["test"]["model"] < metrics["test"]["baseline"]
    assert metrics["kept"] == ["x"]
    out = tmp_path / "p.csv"
    assert invoke("predict", tmp_path / "model.snam", path, "--exposure", "years", "--out", out).exit_code == 0
    rates = sparsenam.load(tmp_path / "model.snam").predict(read_file(path).select(["x", "z"]).native)
    assert np.array(read_file(out).texts("prediction"), dtype=float) == pytest.approx(rates * years)


def test_survival_reads_times_and_events(tmp_path):
    random = np.random.default_rng(0)
    x = random.normal(size=ROWS)
    time, censored = random.exponential(np.exp(-1.5 * x)), random.exponential(3.0, ROWS)
    cells = {
        "x": x.astype(str),
        "z": random.normal(size=ROWS).astype(str),
        "months": np.minimum(time, censored).astype(str),
        "died": ["yes" if died else "no" for died in time <= censored],
    }
    path = write(tmp_path / "a.csv", cells)
    result = invoke("fit", path, "--target", "months", "--event", "died", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "task: survival" in result.stdout
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["kept"] == ["x"]
    assert metrics["test"]["model"] > 0.65
    assert invoke("predict", tmp_path / "model.snam", path, "--out", tmp_path / "p.csv").exit_code == 0


def test_rows_without_a_target_are_left_out_and_counted(tmp_path):
    cells = without(columns(), "expensive")
    cells["price"][3] = cells["price"][8] = ""
    problem = pose(read_file(write(tmp_path / "a.csv", cells)), TargetRequest("price"))
    assert len(problem.rows.y) == ROWS - 2
    assert problem.notes == ("2 rows without 'price' left out.",)


def test_warnings_are_single_lines(tmp_path):
    cells = without(columns(), "expensive") | {"same": ["1"] * ROWS}
    result = invoke("fit", write(tmp_path / "a.csv", cells), "--target", "price", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stderr.splitlines() if "constant column" in line]
    assert lines == ["sparsenam: warning: 1 constant column(s) left out of the model: 'same'."]
    assert "Warning" not in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fit", "absent.csv", "--target", "y"), "absent.csv: expected a file"),
        (("fit", "HOUSES", "--target", "cost"), "'cost'"),
        (("fit", "HOUSES", "--target", "price", "--task", "magic"), "--task: expected"),
        (("fit", "HOUSES", "--target", "price", "--task", "survival"), "--event"),
        (("fit", "HOUSES", "--target", "price", "--family", "poisson", "--task", "regression"), "--family"),
        (("fit", "HOUSES", "--target", "price", "--alpha", "much"), "--alpha"),
        (("fit", "HOUSES", "--target", "price", "--test", "1.5"), "--test"),
        (("fit", "HOUSES", "--target", "price", "--types", "zip"), "zip=category"),
        (("fit", "HOUSES", "--target", "price", "--types", "zip=colour"), "'colour'"),
        (("fit", "HOUSES", "--target", "price", "--shape", "size"), "--shape age=increasing"),
        (("fit", "HOUSES", "--target", "price", "--shape", "size=wavy"), "'wavy'"),
        (("fit", "HOUSES", "--target", "price", "--shape", "zone=linear"), "a category"),
        (("fit", "HOUSES", "--target", "price", "--keep", "garden"), "'garden'"),
        (("fit", "HOUSES", "--target", "zone", "--task", "regression"), "numbers"),
        (("path", "HOUSES", "--target", "price", "--task", "survival"), "--task"),
        (("predict", "HOUSES", "HOUSES"), "houses.csv"),
        (("predict", "MODEL", "OTHER"), "'age'"),
        (("predict", "MODEL", "HOUSES", "--out", "p.xlsx"), ".csv"),
        (("explain", "MODEL", "--rows", "0"), "--rows"),
        (("explain", "MODEL", "HOUSES", "--rows", "0,999"), "999"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_two(words, message, houses, fitted, tmp_path):
    other = write(tmp_path / "other.csv", {"size": ["1", "2"], "zone": ["north", "south"]})
    named = {"HOUSES": houses, "MODEL": fitted[0] / "model.snam", "OTHER": other}
    arguments = [named.get(word, word) for word in words]
    result = invoke(*arguments, *(("--out", tmp_path / "out") if arguments[0] == "fit" else ()))
    assert result.exit_code == 2
    said = [line for line in result.stderr.splitlines() if line.startswith("sparsenam: ")]
    assert len(said) == 1
    assert message in said[0]
    assert "Traceback" not in result.output
    assert not (tmp_path / "out" / "model.snam").exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--keep", "noise"), lambda found: "noise" in found["kept"]),
        (("--alpha", "1000"), lambda found: found["kept"] == [] and found["alpha"] == 1000.0),
        (("--alpha", "1000", "--keep", "noise"), lambda found: found["kept"] == ["noise"]),
        (
            ("--family", "huber", "--alpha", "0.01"),
            lambda found: found["test"]["measure"] == "mean absolute error",
        ),
        (("--test", "0"), lambda found: found["rows"] == {"fit": ROWS, "test": 0} and found["test"] is None),
        (("--test", "0.5"), lambda found: found["rows"] == {"fit": 100, "test": 100}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_every_option_acts(options, expected, houses, tmp_path):
    result = invoke("fit", houses, "--target", "price", "--out", tmp_path, *options)
    assert result.exit_code == 0, result.output
    assert expected(json.loads((tmp_path / "metrics.json").read_text()))


def test_seed_types_and_budget_reach_the_model(houses, fitted, tmp_path):
    options = ("--seed", "3", "--types", "zip=number", "--max-seconds", "100")
    result = invoke("fit", houses, "--target", "price", "--out", tmp_path, *options)
    assert result.exit_code == 0, result.output
    model = sparsenam.load(tmp_path / "model.snam")
    assert (model.random_state, model.feature_types, model.max_seconds) == (3, {"zip": "number"}, 100.0)
    found, usual = (json.loads((folder / "metrics.json").read_text()) for folder in (tmp_path, fitted[0]))
    assert found["test"]["baseline"] != usual["test"]["baseline"]  # other rows are held out


def test_a_text_file_leaves_the_process_as_it_was(tmp_path):
    before = csv.field_size_limit()
    path = write(tmp_path / "a.csv", {"x": ["a" * (before + 1)] * 2, "y": ["1", "2"]})
    assert read_file(path).n_rows == 2
    assert csv.field_size_limit() == before


def test_debug_gives_the_error_itself(houses):
    result = invoke("fit", houses, "--target", "cost", "--debug")
    assert isinstance(result.exception, InputError)


def stop_at(monkeypatch, stage):
    """Stop fits by Ctrl-C when they come to a stage."""
    usual = ProgressBar.report

    def stopping(self, name, *more):
        usual(self, name, *more)
        if name == stage:
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressBar, "report", stopping)


def test_control_c_before_the_choice_leaves_no_model_and_says_so(houses, tmp_path, monkeypatch):
    stop_at(monkeypatch, "choose")
    result = invoke("fit", houses, "--target", "price", "--out", tmp_path)
    assert result.exit_code == 130
    assert "before there was a model" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["price", "expensive"])
def test_a_stopped_fit_leaves_a_model_and_resumes_to_the_bits_of_an_unbroken_one(target, tmp_path, monkeypatch):
    path = write(tmp_path / "a.csv", without(columns(), "price" if target == "expensive" else "expensive"))
    words = ("fit", path, "--target", target, "--out", tmp_path / "stopped")
    with monkeypatch.context() as patch:
        stop_at(patch, "smooth")
        result = invoke(*words)
    assert result.exit_code == 130
    assert "preliminary model" in result.stderr
    table = read_file(path).without([target]).native
    quick = sparsenam.load(tmp_path / "stopped" / "model.snam")
    again = invoke(*words, "--resume")
    assert again.exit_code == 0, again.output
    unbroken = invoke(*words[:-1], tmp_path / "unbroken")
    assert unbroken.exit_code == 0
    resumed, whole = (sparsenam.load(tmp_path / name / "model.snam") for name in ("stopped", "unbroken"))
    assert set(quick.get_feature_names_out()) <= set(whole.get_feature_names_out())
    assert resumed.model_.curves == whole.model_.curves
    assert resumed.effects(table).tobytes() == whole.effects(table).tobytes()
    explained, expected = (json.loads(model.explain().to_json()) for model in (resumed, whole))
    for explanation in (explained, expected):
        del explanation["card"]  # it says how long the fit took
    assert explained == expected
    assert not (tmp_path / "stopped" / "stage.safetensors").exists()


def test_resume_of_a_finished_fit_only_prints(houses, fitted):
    folder, first = fitted
    before = (folder / "model.snam").stat().st_mtime_ns
    result = invoke("fit", houses, "--target", "price", "--out", folder, "--resume")
    assert result.exit_code == 0
    assert "finished already" in result.stderr
    assert result.stdout == first.stdout
    assert (folder / "model.snam").stat().st_mtime_ns == before


def test_a_kill_at_any_moment_leaves_a_whole_model_or_none(houses, tmp_path):
    # the script loads everything once, and then kills one fit after the other just before it opens, renames or
    # removes a file in the folder for the first time, the second time and so on, until a fit ends by itself
    script = f"""
import os, signal, sys
import sparsenam
from pathlib import Path
from sparsenam.cli.app import app
folder, words = Path({str(tmp_path)!r}), ["fit", {str(houses)!r}, "--target", "price", "--out", {str(tmp_path)!r}]
app(words, standalone_mode=False)
def killer(moment):
    touched = 0
    def hook(event, arguments):
        nonlocal touched
        inside = event in ("open", "os.rename", "os.remove") and str(arguments[0]).startswith(str(folder))
        touched += inside
        if inside and touched == moment:
            os.kill(os.getpid(), signal.SIGKILL)
    return hook
moment, status = 0, 1
while status:
    moment += 1
    for file in folder.iterdir():
        file.unlink()
    child = os.fork()
    if child == 0:
        sys.addaudithook(killer(moment))
        app(words, standalone_mode=False)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if (folder / "model.snam").exists():
        sparsenam.load(folder / "model.snam").get_feature_names_out()
        print("whole", flush=True)
    else:
        print("none", flush=True)
"""
    quiet = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=quiet, check=True)
    ends = [line for line in done.stdout.splitlines() if line in ("whole", "none")]
    first = ends.index("whole")
    assert first >= 2  # its file was opened and renamed
    assert ends[first:] == ["whole"] * (len(ends) - first)
    assert len(ends) - first >= 4  # so were those of the report and the metrics


def test_demo_ends_with_a_report_that_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr("sparsenam.datasets.make_regression", lambda seed: make_regression(300, 6, seed=seed))
    result = invoke("demo", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    last = result.stdout.splitlines()[-1]
    assert last == f"open {(tmp_path / 'report.html').resolve().as_uri()}"
    assert (tmp_path / "report.html").is_file()
    assert write_demo_table(tmp_path).is_file()


# pairs


@pytest.fixture(scope="module")
def with_pairs(tmp_path_factory):
    """Return a table whose price is a product of two columns, one with a comma in its name."""
    random = np.random.default_rng(1)
    size, rooms, noise = random.normal(size=(3, 400))
    price = size * rooms + 0.1 * random.normal(size=400)
    cells = {"size, m2": size, "rooms": rooms, "noise": noise, "price": price}
    folder = tmp_path_factory.mktemp("pairs")
    return write(folder / "table.csv", {name: [f"{cell:.5f}" for cell in column] for name, column in cells.items()})


def test_pairs_are_found_printed_written_and_explained(with_pairs):
    folder = with_pairs.parent / "auto"
    result = invoke("fit", with_pairs, "--target", "price", "--pairs", "auto", "--out", folder)
    assert result.exit_code == 0, result.output
    metrics = json.loads((folder / "metrics.json").read_text())
    assert [set(pair) for pair in metrics["pairs"]] == [{"size, m2", "rooms"}]
    assert f"pairs: {' × '.join(metrics['pairs'][0])}\n" in result.stdout
    assert metrics["test"]["model"] < 0.5 * metrics["test"]["baseline"]
    assert 'id="pair-0"' in (folder / "report.html").read_text()
    printed = invoke("explain", folder / "model.snam").stdout
    assert "columns and 1 pair kept" in printed
    assert [line for line in printed.splitlines() if " × " in line and " pair " in line]
    explained = json.loads(invoke("explain", folder / "model.snam", "--json").stdout)
    assert explained["pairs"][0]["one"]["name"] in metrics["pairs"][0]
    row = invoke("explain", folder / "model.snam", with_pairs, "--rows", "0").stdout
    assert " × " in row


def test_a_named_pair_may_have_a_comma_in_a_name(with_pairs):
    folder = with_pairs.parent / "named"
    words = ("--pair", '"size, m2",rooms', "--pair", "rooms,noise", "--alpha", "0.01", "--test", "0")
    result = invoke("fit", with_pairs, "--target", "price", *words, "--out", folder)
    assert result.exit_code == 0, result.output
    found = {frozenset(pair) for pair in json.loads((folder / "metrics.json").read_text())["pairs"]}
    assert found == {frozenset(("size, m2", "rooms")), frozenset(("rooms", "noise"))}


def test_without_pairs_nothing_is_said_of_them(fitted):
    folder, result = fitted
    assert "pairs:" not in result.stdout
    assert json.loads((folder / "metrics.json").read_text())["pairs"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--pairs", "some"), "--pairs: expected auto or a number of at least 0"),
        (("--pairs", "-1"), "--pairs: expected auto or a number of at least 0"),
        (("--pairs", "1000000"), "pairs: expected at most the"),
        (("--pairs", "2", "--pair", "rooms,noise"), "leave --pairs or --pair out"),
        (("--pair", "rooms"), "--pair: expected two columns"),
        (("--pair", "size, m2,rooms"), "--pair: expected two columns"),
        (("--pair", "rooms,"), "--pair: expected two columns"),
        (("--pair", "rooms,rooms"), "pairs: expected two different columns"),
        (("--pair", "rooms,cellar"), "cellar"),
        (("--pairs", "0", "--heredity", "strong"), "heredity: expected its default 'none'"),
        (("--pairs", "auto", "--heredity", "royal"), "heredity: expected"),
    ],
)
def test_a_request_for_pairs_that_cannot_be_is_refused_in_one_line(words, message, with_pairs):
    result = invoke("fit", with_pairs, "--target", "price", *words, "--out", with_pairs.parent / "refused")
    assert result.exit_code == 2, result.output
    assert message in result.stderr and len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("words", [(), ("--task", "count"), ("--family", "huber"), ("--event", "died")])
@pytest.mark.parametrize("value", [0, 3])
def test_a_constant_target_is_fitted_and_reported(words, value, tmp_path):
    value = value or 1 if "--event" in words else value  # times are above 0
    cells = {"x": np.random.default_rng(0).normal(size=40), "died": np.arange(40) % 2, "y": np.full(40, value)}
    path = write(tmp_path / "table.csv", {name: column.tolist() for name, column in cells.items()})
    result = invoke("fit", path, "--target", "y", "--out", tmp_path / "model", *words)
    assert result.exit_code == 0, result.output
    assert "error inside" not in result.output and (tmp_path / "model" / "report.html").exists()
    assert "classification" not in result.output
