"""The command line: quick help."""

import subprocess
import sys


def test_help_loads_none_of_the_heavy_packages():
    code = (
        "import sys\nfrom sparsenam.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = ('torch', 'sklearn', 'numpy', 'scipy', 'rich', 'matplotlib')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "explain" in done.stdout and "reproduce" not in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_module_is_the_command_too():
    done = subprocess.run(
        [sys.executable, "-m", "sparsenam.cli", "fit", "--help"], capture_output=True, text=True, check=True
    )
    assert "--target" in done.stdout
