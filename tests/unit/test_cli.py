"""The command line: quick help, one-line errors, and a stop that loses nothing."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sparsenam import datasets
from sparsenam.cli import app
from sparsenam.errors import InputError
from sparsenam.paper import comparison


def invoke(*words):
    return CliRunner().invoke(app, ["reproduce", *words])


def test_help_loads_none_of_the_heavy_packages():
    code = (
        "import sys\nfrom sparsenam.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = ('torch', 'sklearn', 'numpy', 'scipy', 'rich', 'matplotlib')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reproduce" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_module_is_the_command_too():
    done = subprocess.run(
        [sys.executable, "-m", "sparsenam.cli", "reproduce", "--help"], capture_output=True, text=True, check=True
    )
    assert "--quick" in done.stdout


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
def test_a_mistake_is_one_line_on_stderr_and_exit_code_two(words, message, tmp_path):
    result = invoke(*words, "--quick", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    result = invoke("compas", "--quick", "--out", str(tmp_path / "file" / "below"))
    assert result.exit_code == 2
    assert "a folder that can be written" in result.stderr
    assert "below" in result.stderr


def test_missing_matplotlib_is_told_before_anything_is_run(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sparsenam.paper.figures", None)
    monkeypatch.setattr(comparison, "compare", lambda *words, **more: pytest.fail("a fit began"))
    result = invoke("synthetic-regression", "--quick", "--figures", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "sparsenam[plots]" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_figure_that_cannot_be_drawn_is_a_message_after_the_tables(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    from sparsenam.paper import figures

    def broken(*words):
        raise ZeroDivisionError("no scale")

    monkeypatch.setattr(figures, "draw_effects_against_truth", broken)
    words = ("synthetic-regression", "--quick", "--figures", "--methods", "lasso", "--out", str(tmp_path))
    result = invoke(*words)
    assert result.exit_code == 1
    assert "paper: LASSO" in result.stdout
    assert "The figure effects-lasso could not be drawn: no scale" in result.stderr
    assert "Traceback" not in result.stderr


def test_nothing_to_draw_is_said(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    bare = {"measures": {"mse": 1.0}, "support_rule": "none", "chosen": {}}
    monkeypatch.setattr(comparison, "compare", lambda *words, **more: bare)
    words = ("synthetic-regression", "--quick", "--figures", "--methods", "lasso", "--out", str(tmp_path))
    result = invoke(*words)
    assert result.exit_code == 0
    assert "No figure" in result.stderr


def test_debug_gives_the_error_itself(tmp_path):
    assert isinstance(invoke("nothing", "--out", str(tmp_path), "--debug").exception, InputError)


def test_data_that_cannot_be_had_are_one_line_and_exit_code_two(tmp_path, monkeypatch):
    def offline(folder=None):
        raise InputError("COMPAS: expected a download, got no network; give --data.")

    monkeypatch.setattr(datasets, "load_compas", offline)
    result = invoke("compas", "--quick", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr.strip().splitlines()[-1] == (
        "sparsenam: COMPAS: expected a download, got no network; give --data."
    )


def test_control_c_says_what_is_saved_and_the_same_command_goes_on(tmp_path, monkeypatch):
    real, calls = comparison.compare, []

    def stopping(method, split, seed, **rest):
        calls.append(method.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(method, split, seed, **rest)

    monkeypatch.setattr(comparison, "compare", stopping)
    words = ("synthetic-regression", "--quick", "--methods", "l1-svm,lasso", "--out", str(tmp_path))
    stopped = invoke(*words)
    assert stopped.exit_code == 130
    assert "1 of 2 records are saved in" in stopped.stderr
    assert "goes on from there" in stopped.stderr
    again = invoke(*words)
    assert again.exit_code == 0
    assert calls == ["l1-svm", "lasso", "lasso"]
    assert "paper: LASSO" in again.stdout
    report = json.loads((tmp_path / "synthetic-regression-quick.json").read_text())
    assert [record["method"] for record in report["records"]] == ["l1-svm", "lasso"]
