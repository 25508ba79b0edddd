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
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_two(words, message, tmp_path):
    result = invoke(*words, "--quick", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


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
