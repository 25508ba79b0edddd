"""Runs `bench_worker.py` in a process of its own, with a limit on time and memory, and the same cores for everyone."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = Path(os.environ.get("SPARSENAM_PEERS") or HERE.parent / "build" / "peers")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
HELPER_MEGABYTES = 64  # joblib's tracker of resources is no worker
requests: list[bool] = []  # to end, seen by `watched` between two looks
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Limits:
    """What a process may use; beyond it there is no result."""

    cores: int = 2
    seconds: float = 600.0
    gigabytes: float = 12.0


def python_of(environment: str | None) -> Path | None:
    """Return the interpreter of an environment, this one without a name, ``None`` where it has not been made."""
    if environment is None:
        return Path(sys.executable)
    python = ENVIRONMENTS / environment / "bin" / "python"
    return python if python.exists() else None


def version_of(python: Path, package: str) -> str | None:
    """Return the version of a package that an interpreter has, ``None`` if it has none."""
    code = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    done = subprocess.run([python, "-c", code, package], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def settings_of(environment: str | None, cores: int) -> dict[str, str]:
    """Return the process's environment variables; ours alone keep the path to sources that are not installed."""
    settings = dict(os.environ) | dict.fromkeys(THREADS, str(cores)) | {"OMP_WAIT_POLICY": "passive"}
    if environment is not None:
        settings.pop("PYTHONPATH", None)
        settings["MPLBACKEND"] = "Agg"
    return settings


def run(peer: str, environment: str | None, data: Path, limits: Limits, **settings: object) -> dict[str, object]:
    """Return the record of one fit; ``refused`` in it says why there is none."""
    python = python_of(environment)
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "result.json", Path(folder) / "log"
        command = [python, HERE / "bench_worker.py", peer, data, result, str(limits.cores), json.dumps(settings)]
        with log.open("w") as stream:
            process = subprocess.Popen(
                command,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=settings_of(environment, limits.cores),
                cwd=folder,  # some libraries write files where they are started
                start_new_session=True,
            )
            stopped, children = watched(process, limits)
        if stopped:
            return {"refused": stopped}
        if not result.exists():
            return {"refused": f"ended with code {process.returncode}: {last_line(log)}"}
        record = json.loads(result.read_text())
    if children > HELPER_MEGABYTES and "megabytes" in record:
        # the time on the CPU of further processes is not known, and theirs is most of it
        record |= {"megabytes": record["megabytes"] + children, "cpu_seconds": None}
    return record


def end_fits_when_stopped() -> None:
    """Let a request to end this process end the fit under way too.

    The handler only takes note: an exception raised inside ``Popen.wait`` can leave its lock held for ever.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: requests.append(True))


def last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "without a word"


def watched(process: subprocess.Popen, limits: Limits) -> tuple[str, float]:
    """Wait for the end; return why it was stopped, if so, and the largest size in MB of the processes it started."""
    started, largest = time.monotonic(), 0.0
    try:
        while True:
            if process.poll() is not None:
                return "", largest
            if requests:
                sys.exit("stopped; what was finished is in the file")
            time.sleep(0.1)
            sizes = session_megabytes(process.pid)
            largest = max(largest, sum(size for pid, size in sizes.items() if pid != process.pid))
            if time.monotonic() - started > limits.seconds:
                return f"no result in {limits.seconds:.0f} s", largest
            if sum(sizes.values()) > 1024 * limits.gigabytes:
                return f"more than {limits.gigabytes:.0f} GB", largest
    finally:
        end_session(process)


def end_session(process: subprocess.Popen) -> None:
    """End what is left of the session that the process leads."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def session_megabytes(leader: int) -> dict[int, float]:
    """Return the resident size of each process of a session."""
    sizes = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # fields after the name in brackets: state, parent, group, session, …, and the 22nd is the size in pages
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[3]) == leader:
            sizes[int(folder.name)] = int(fields[21]) * PAGE / 2**20
    return sizes
