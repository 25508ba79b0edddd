"""Runs calls in forked processes, one per core, with a limit on time and memory, and measures what they use.

The parent imports the libraries once, so that no fit pays for imports and none is warmed up by another.
"""

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Limits:
    """CPU seconds and memory that one call may use; beyond them there is an error instead of a result."""

    seconds: float = 300.0
    gigabytes: float = 8.0


@dataclass(eq=False)
class Child:
    """A process under way, and the end of the pipe that its record comes through."""

    key: object
    pid: int
    pipe: int
    core: int
    text: bytes = b""


def on_cpu() -> float:
    """Return the CPU seconds of this process and of the processes that it started and that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def status_megabytes(field: str) -> float:
    """Return VmRSS (resident now) or VmHWM (the highest so far) of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return float("nan")


class Meter:
    """Seconds, CPU seconds and memory of the block that it surrounds."""

    def __enter__(self) -> "Meter":
        Path("/proc/self/clear_refs").write_text("5")  # the highest resident size begins anew
        self._before, self._started, self._cpu = status_megabytes("VmRSS"), time.perf_counter(), on_cpu()
        return self

    def __exit__(self, *_: object) -> None:
        self.record = {
            "seconds": time.perf_counter() - self._started,
            "cpu_seconds": on_cpu() - self._cpu,
            "megabytes": max(status_megabytes("VmHWM") - self._before, 0.0),
        }


def run_all(
    calls: Iterable[tuple[object, Callable[[], dict]]], limits: Limits, jobs: int
) -> Iterator[tuple[object, dict]]:
    """Run calls in processes of their own, ``jobs`` at a time, and yield key and record of each that has ended."""
    cores = sorted(os.sched_getaffinity(0))[:jobs]
    running: list[Child] = []
    try:
        for key, call in calls:
            while len(running) == len(cores):
                yield from ended(running, limits)
            free = next(core for core in cores if core not in {child.core for child in running})
            running.append(start(key, call, free))
        while running:
            yield from ended(running, limits)
    finally:
        for child in running:
            stop(child)


def start(key: object, call: Callable[[], dict], core: int) -> Child:
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os._exit(run_here(call, core, writing))
    os.close(writing)
    return Child(key, pid, reading, core)


def run_here(call: Callable[[], dict], core: int, writing: int) -> int:
    """Run a call in the child and write its record, or its error, into the pipe."""
    os.setsid()
    os.sched_setaffinity(0, {core})
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    warnings.simplefilter("ignore")
    try:
        record = call()
    except BaseException as error:  # a panic of a library in Rust is no Exception
        words = " ".join(str(error).split())
        place = traceback.extract_tb(error.__traceback__)[-1]
        record = {
            "error": f"{type(error).__name__}: {words}"[:300],
            "at": f"{Path(place.filename).name}:{place.lineno}",
        }
    with os.fdopen(writing, "w") as pipe:
        json.dump(record, pipe)
    return 0


def ended(running: list[Child], limits: Limits) -> Iterator[tuple[object, dict]]:
    """Wait a moment; take out of the list the children that have ended, and yield their records."""
    ready, _, _ = select.select([child.pipe for child in running], [], [], 0.2)
    for child in list(running):
        record = None
        if child.pipe in ready:
            part = os.read(child.pipe, 1 << 20)
            child.text += part
            if not part:
                record = json.loads(child.text) if child.text else {"error": "the process died"}
        else:
            record = beyond(child.pid, limits)
        if record is not None:
            running.remove(child)
            stop(child)
            yield child.key, record


def beyond(pid: int, limits: Limits) -> dict | None:
    """Return the error of a process that has used more than it may."""
    try:
        # fields after the name in brackets; CPU time in ticks and the resident size in pages (proc(5))
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return None
    if sum(map(int, fields[11:15])) / TICKS > limits.seconds:
        return {"error": f"no result in {limits.seconds:.0f} s"}
    if int(fields[21]) * PAGE / 2**30 > limits.gigabytes:
        return {"error": f"more than {limits.gigabytes:.0f} GB"}
    return None


def stop(child: Child) -> None:
    os.close(child.pipe)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0)
