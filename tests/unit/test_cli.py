"""The command itself: quick help, the extra that it needs, and the module as the command."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sparsenam.cli.app import app
from sparsenam.cli.display import readable_errors

COMMANDS = ("fit", "predict", "explain", "report", "edit", "export", "path", "demo")


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_names_every_command_and_loads_none_of_the_heavy_packages():
    done = run(
        "import sys\nfrom sparsenam.cli import main\n"
        "sys.argv = ['sparsenam', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = ('torch', 'sklearn', 'numpy', 'scipy', 'pandas', 'narwhals', 'numba', 'rich', 'matplotlib')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    assert all(f"  {name} " in done.stdout for name in COMMANDS)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_of_its_options(name):
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert "--debug" in result.stdout


def test_the_module_is_the_command_too():
    done = subprocess.run([sys.executable, "-m", "sparsenam", "fit", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "Usage: sparsenam fit" in done.stdout


def test_without_its_package_the_command_says_in_one_line_what_to_install():
    done = run("import sys\nsys.modules['typer'] = None\nfrom sparsenam.cli import main\nmain()")
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "got no typer" in line
    assert 'pip install "sparsenam[cli]"' in line


def test_an_estimator_needs_neither_typer_nor_rich_and_loads_nothing_that_it_may_never_use():
    done = run(
        "import sys\nsys.modules['typer'] = sys.modules['rich'] = None\n"
        "import sparsenam\nprint(sparsenam.SNAMRegressor().alpha)\n"
        "print([name for name in ('numba', 'matplotlib', 'polars', 'interpret', 'onnx') if name in sys.modules])"
    )
    assert done.stdout == "auto\n[]\n", done.stderr


def test_an_error_inside_the_program_is_one_line_and_exit_code_one(monkeypatch):
    def broken(folder):
        raise KeyError("lost\nkey")

    monkeypatch.setattr("sparsenam.cli.app.write_demo_table", broken)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert "an error inside the program (KeyError" in line and "--debug shows where" in line
    assert isinstance(CliRunner().invoke(app, ["demo", "--debug"]).exception, KeyError)


def test_warnings_are_single_lines_said_once_and_only_those_for_users(capsys):
    import warnings

    with readable_errors(debug=False):
        for _ in range(2):
            warnings.warn("a column\n  is odd", UserWarning, stacklevel=1)
        warnings.warn("inside", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == "sparsenam: warning: a column is odd\n"
