"""Records in a JSON file: those that are missing are made, one by one; one that fails stops no other.

The file holds what cannot be recomputed: seeds, versions, measures, times, kept columns. What only the figures need
(curves, histories) goes to the folder ``cache`` beside it, which git ignores.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias, cast

import torch

from sparsenam.errors import InputError, describe
from sparsenam.files import write_atomically

Record: TypeAlias = Mapping[str, Any]
Report: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[str, str, int]
Job: TypeAlias = Callable[[], Mapping[str, Any]]
PACKAGES = ("sparsenam", "numpy", "torch", "scikit-learn", "scipy", "interpret-core")
MOST_WARNINGS = 5
# failures that another state of the machine may mend; the rest would only fail again
MENDABLE = ("MissingPackageError", "ImportError", "ModuleNotFoundError", "MemoryError", "OSError")
ROOT = Path(__file__).resolve().parents[1]
CODE = ("src", "paper/*.py", "pyproject.toml")  # what a number depends on besides its recipe
COMMIT_DIGITS = 12
ENTRIES = {"section": str, "method": str, "seed": int, "recipe": str, "status": str}


class TimeLimitError(TimeoutError):
    """A fit took longer than its recipe allows."""


class Reporter:
    """Receives every step of a run and shows nothing; the command line has one that prints."""

    def begin(self, name: str, done: int, total: int) -> None:
        """A name begins, with so many of its records there already."""

    def start(self, label: str) -> None:
        """A record is being made."""

    def finish(self, record: Record) -> None:
        """A record is stored."""

    def say(self, message: str) -> None:
        """Something the reader should know."""


@dataclass(frozen=True, slots=True)
class Work:
    """A record to be made.

    ``ready`` gets the data and returns the job: what goes wrong with the data concerns every method and ends the
    run, what goes wrong in the job concerns this record only. The entry "drawing" of what the job returns goes to
    the cache; a work that is ``drawn`` is done again if the cache lacks it.
    """

    section: str
    method: str
    seed: int
    recipe: str
    ready: Callable[[], Job]
    drawn: bool = False

    @property
    def key(self) -> Key:
        """Section, method and seed."""
        return self.section, self.method, self.seed


def key_of(record: Record) -> Key:
    """Return what distinguishes records: section, method and seed."""
    return str(record["section"]), str(record["method"]), int(record["seed"])


def shown_records(report: Report) -> list[Record]:
    """Return the records of the seeds that the report is about; those of other seeds stay in the file, unseen."""
    records, seeds = report["records"], report["seeds"]
    return [record for record in records if seeds is None or record["seed"] in seeds]


def read_report(path: Path) -> dict[str, Any]:
    """Return the content of a report file; raise if it is none."""
    try:
        report: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(report, dict) or not isinstance(cast(Report, report).get("records"), list):
            raise ValueError("no records in it")
        content = cast("dict[str, Any]", report)
        for record in content["records"]:
            _check_record(record)
    except ValueError as error:
        raise InputError(
            describe(str(path), "a report of an earlier run", str(error), "move it away or give another --out")
        ) from error
    return content


def _check_record(record: object) -> None:
    if not isinstance(record, Mapping):
        raise ValueError(f"a record that is no table: {record!r}")
    found = cast(Record, record)
    reason = {} if found.get("status") == "done" else {"reason": str}
    for name, kind in {**ENTRIES, **reason}.items():
        if not isinstance(found.get(name), kind):
            raise ValueError(f"a record with {name!r} of {found.get(name)!r}")


class Store:
    """Records by key, with a header; every change goes to the file at once, so that a stopped run loses nothing."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.path = path
        self.cache = path.parent / "cache"
        self._header = dict(header)
        stored: list[Record] = read_report(path)["records"] if path.exists() else []
        self._records: dict[Key, Record] = {key_of(record): record for record in stored}

    def records(self) -> list[Record]:
        """Return all records."""
        return list(self._records.values())

    def report(self) -> dict[str, Any]:
        """Return what the file holds."""
        return {**self._header, "records": self.records()}

    def drawing(self, record: Record) -> dict[str, Any] | None:
        """Return what the figures need of a record, None where the cache lacks it."""
        path = self._drawing_path(record)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def has(self, work: Work, *, retry: bool) -> bool:
        """Tell whether a record need not be made: it is there with its drawing, or it would only fail again."""
        record = self._records.get(work.key)
        if record is None:
            return False
        if record["status"] == "done":
            return not work.drawn or self._drawing_path(record).exists()
        return not retry and record.get("error") not in MENDABLE

    def failed(self, keys: Collection[Key]) -> int:
        """Return how many of these records are failures."""
        return sum(record["status"] != "done" for key, record in self._records.items() if key in keys)

    def drop_outdated(self, current: Mapping[tuple[str, str], str]) -> list[str]:
        """Forget records whose recipe is not the current one; return the methods they belong to."""
        outdated = [key for key, record in self._records.items() if current.get(key[:2]) != record["recipe"]]
        for key in outdated:
            del self._records[key]
        return sorted({f"{section} {method}".strip() for section, method, _ in outdated})

    def put(self, record: Record, drawing: Mapping[str, Any] | None = None) -> None:
        """Store a record, replacing an earlier one of its key, and what the figures need of it."""
        self._records[key_of(record)] = record
        self.write()
        if drawing is not None:
            write_atomically(self._drawing_path(record), json.dumps(drawing, allow_nan=False).encode())

    def write(self) -> None:
        """Write the file, a line for each record; it is whole at every moment."""
        header = [f"{json.dumps(name)}: {_line(value)}" for name, value in self._header.items()]
        records = ",\n".join(_line(record) for record in self.records())
        text = "{\n" + ",\n".join([*header, f'"records": [\n{records}\n]']) + "\n}\n"
        write_atomically(self.path, text.encode())

    def _drawing_path(self, record: Record) -> Path:
        # the fingerprint has all that decides the numbers but the seed
        return self.cache / f"{record['recipe']}-{record['seed']}.json"


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def run_all(
    works: Sequence[Work],
    store: Store,
    reporter: Reporter,
    current: Mapping[tuple[str, str], str],
    time_limit: float | None = None,
    *,
    retry: bool = False,
    renew: bool = False,
) -> None:
    """Make the records that are missing; ``current`` has the recipe of every method there may be.

    A record that failed for want of a package, of memory or of a file is made again; any other that failed, by
    divergence or by the time limit say, only with ``retry``. ``renew`` makes all of ``works`` again, because the
    code is another now.
    """
    code_commit()  # before the first fit: the code at hand is the one that was read at the start
    outdated = store.drop_outdated(current)
    if outdated:
        reporter.say(f"The recipe has changed for {', '.join(outdated)}: their old records are dropped.")
    pending = [work for work in works if renew or not store.has(work, retry=retry)]
    store.write()
    reporter.begin(store.path.stem, len(works) - len(pending), len(works))
    left = store.failed({work.key for work in works} - {work.key for work in pending})
    if left:
        reporter.say(f"{left} of these failed and would fail again: --retry makes them all the same.")
    for work in pending:
        reporter.start(f"{work.section} {work.method}, seed {work.seed}".strip())
        record, drawing = attempt(work, work.ready(), time_limit)
        store.put(record, drawing)
        reporter.finish(record)


def attempt(work: Work, job: Job, time_limit: float | None = None) -> tuple[Record, Mapping[str, Any] | None]:
    """Return the job's record and drawing, or a record of why there is none."""
    record: dict[str, Any] = {"section": work.section, "method": work.method, "seed": work.seed}
    record["recipe"] = work.recipe
    drawing = None
    started, worked = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with limited_to(time_limit):
                outcome = dict(job())
            drawing = outcome.pop("drawing", None)
            json.dumps([outcome, drawing], allow_nan=False)  # numbers that are not finite are no result
            record |= {"status": "done", **outcome}
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            record |= {"status": "failed", "reason": reason or type(error).__name__, "error": type(error).__name__}
            drawing = None
    record["wall_seconds"], record["cpu_seconds"] = time.perf_counter() - started, time.process_time() - worked
    messages = dict.fromkeys(str(warning.message).splitlines()[0] for warning in caught if str(warning.message))
    record["warnings"] = list(messages)[:MOST_WARNINGS]
    machine = {"cores": os.cpu_count() or 1, "threads": torch.get_num_threads()}
    record |= {"date": datetime.now(UTC).date().isoformat(), "commit": code_commit()}
    record |= {"versions": versions(), "machine": machine}
    return record, drawing


@cache
def code_commit() -> str | None:
    """Return the commit of the code that runs, "… with changes" where files differ from it; None outside git."""
    try:
        head = _git("rev-parse", f"--short={COMMIT_DIGITS}", "HEAD")
        return f"{head} with changes" if _git("status", "--porcelain", "--", *CODE) else head
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*words: str) -> str:
    found = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return found.stdout.strip()


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that are installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue  # an extra that is not installed
    return found


@contextmanager
def limited_to(seconds: float | None) -> Generator[None]:
    """Raise `TimeLimitError` inside the block after so many seconds.

    The system's alarm does it, which rings in the main thread of POSIX systems only: elsewhere there is no limit.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if seconds is None or not in_main_thread or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeLimitError(f"longer than the limit of {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
