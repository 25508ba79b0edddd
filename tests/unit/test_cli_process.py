"""The command as a process: Ctrl-C from its first instruction on, closed pipes, full disks and folders to read only."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import sparsenam

QUIET = os.environ | {"OMP_NUM_THREADS": "1"}

# one process loads everything; each case is a fork of it, with streams and limits of its kind
SCRIPT = """
import json, os, resource, signal, sys, threading, time
from pathlib import Path
import sparsenam.cli.run
from sparsenam.cli import main

table, place = sys.argv[1], Path(sys.argv[2])

def gone_pipe(stream):
    reading, writing = os.pipe()
    os.close(reading)
    os.dup2(writing, stream)

def full(stream):
    os.dup2(os.open("/dev/full", os.O_WRONLY), stream)

def closed(*streams):
    for stream in streams:
        os.close(stream)

def is_open(stream):
    try:
        os.fstat(stream)
    except OSError:
        return False
    return True

def small_files(most):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

CASES = {
    "usual": lambda: None,
    "stdout gone": lambda: gone_pipe(1),
    "both gone": lambda: (gone_pipe(1), gone_pipe(2)),
    "stdout full": lambda: full(1),
    "stderr full": lambda: full(2),
    "all closed": lambda: closed(0, 1, 2),
    "disk full": lambda: small_files(20_000),
    "disk full at once": lambda: small_files(0),
}
for name, prepare in CASES.items():
    out, log = place / name, place / (name + ".txt")
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 2)
        prepare()
        sys.stdout, sys.stderr = (open(one, "w", closefd=False) if is_open(one) else None for one in (1, 2))
        sys.argv = ["sparsenam", "fit", table, "--target", "y", "--out", str(out)]
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            code = 99
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    files = sorted(file.name for file in out.iterdir()) if out.is_dir() else []
    print(json.dumps([name, code, log.read_text(), files]), flush=True)
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    random = np.random.default_rng(0)
    X = random.normal(size=(100, 3))
    path = tmp_path_factory.mktemp("process") / "table.csv"
    np.savetxt(path, np.column_stack([X, 2 * X[:, 0]]), delimiter=",", header="a,b,c,y", comments="")
    return path


@pytest.fixture(scope="module")
def ends(table):
    """Return how a fit ended in each case: its exit code, what it said on stderr, and its files."""
    place = table.parent / "cases"
    place.mkdir()
    words = [sys.executable, "-c", textwrap.dedent(SCRIPT), table, place]
    done = subprocess.run(words, capture_output=True, text=True, env=QUIET, check=True)
    return {name: (code, said, files) for name, code, said, files in map(json.loads, done.stdout.splitlines())}


WHOLE = ["metrics.json", "model.snam", "report.html"]


@pytest.mark.parametrize("case", ["usual", "stdout gone", "both gone", "stderr full", "all closed"])
def test_a_stream_that_nobody_reads_does_not_stop_a_fit(case, ends):
    assert ends[case] == (0, "", WHOLE)


@pytest.mark.parametrize(
    ("case", "named"),
    [("stdout full", "standard output"), ("disk full", "disk full/"), ("disk full at once", "disk full")],
)
def test_a_disk_that_is_full_is_one_sentence_and_exit_code_two(case, named, ends):
    code, said, files = ends[case]
    lines = [line for line in said.splitlines() if line.startswith("sparsenam: ") and "warning" not in line]
    assert code == 2 and len(lines) == (0 if case == "disk full at once" else 1), said  # the log is on that disk, too
    assert "Traceback" not in said
    assert all(named in line and ("no space left" in line or "file too large" in line) for line in lines)
    if case == "stdout full":  # what was fitted is kept, and then what could not be printed is said
        assert files == WHOLE
    else:
        assert files == [] or files == ["stage.safetensors"]


@pytest.mark.parametrize(
    "module", ["signal", "typer", "sparsenam.cli.app", "numpy", "scipy.linalg", "sparsenam.cli.run"]
)
def test_control_c_while_libraries_are_loaded_is_one_sentence_and_exit_code_130(module, table):
    # the interrupt comes at the moment when the module is looked for
    code = f"""
import os, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), {signal.SIGINT.value})
sys.modules.pop({module!r}, None)
sys.meta_path.insert(0, Interrupting())
from sparsenam.cli import main
sys.argv = ["sparsenam", "fit", {str(table)!r}, "--target", "y"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=QUIET, cwd=table.parent)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "Stopped before anything was done; the same command starts again.\n"
    assert done.stdout == ""
    assert not (table.parent / "sparsenam-model").exists()


def test_a_control_c_that_python_would_only_print_stops_the_work_all_the_same():
    code = """
import signal, sys, time
from sparsenam.cli.display import _raised_again
class Odd:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)
sys.unraisablehook = _raised_again
odd = Odd()
try:
    del odd
    time.sleep(60)
except KeyboardInterrupt:
    print("stopped")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=QUIET)
    assert (done.stdout, done.stderr) == ("stopped\n", "")


def test_a_command_in_the_background_of_a_script_hears_no_control_c():
    code = (
        "import os, signal, sys\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nfrom sparsenam.cli import main\n"
        "sys.argv = ['sparsenam', '--version']\n"
        "try:\n    main()\nfinally:\n    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=QUIET)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"sparsenam {sparsenam.__version__}\n"


def test_a_folder_that_can_only_be_read_is_one_sentence_before_the_work(table, tmp_path):
    unshare = shutil.which("unshare")
    mounts = 'mount -t tmpfs -o ro tmpfs "$0"'
    if unshare is None or subprocess.run([unshare, "-m", "sh", "-c", mounts, tmp_path], capture_output=True).returncode:
        pytest.skip("this user may not mount a folder to read only")
    fit = f"exec {sys.executable} -m sparsenam fit {table} --target y --out"
    words = [unshare, "-m", "sh", "-c", f'{mounts} && {fit} "$0"', tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, env=QUIET)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"sparsenam: {tmp_path}: expected") and "read-only file system" in line


@pytest.mark.parametrize("words", [("fit", "none.csv", "--target", "y"), ("predict", "model.snam", "none.csv")])
def test_a_file_that_is_not_there_is_said_before_heavy_libraries_are_loaded(words, tmp_path):
    code = f"""
import sys
from sparsenam.cli import main
sys.argv = ["sparsenam", *{words!r}]
try:
    main()
except SystemExit as end:
    print(end.code, "torch" in sys.modules, "sklearn" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=QUIET, cwd=tmp_path)
    assert done.stdout == "2 False False\n", done.stderr
    assert done.stderr == "sparsenam: none.csv: expected a file, got none of that name; correct the path.\n"
