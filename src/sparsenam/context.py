"""What a fit is given besides data and settings: time, progress, random streams, a resume file, and threads."""

from __future__ import annotations

import hashlib
import os
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from numbers import Integral
from pathlib import Path
from threading import Event, Lock, Thread, get_ident
from typing import Any, Literal, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from threadpoolctl import LibController, ThreadpoolController
from tqdm import tqdm

from sparsenam.codec import pack, unpack
from sparsenam.container import packed, unpacked
from sparsenam.errors import (
    CheckpointError,
    CheckpointWarning,
    InputError,
    RefusalError,
    check_number,
    describe,
    require,
)
from sparsenam.files import write_atomically

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Streams:
    """Independent generators, one for each name, all grown from one seed."""

    seed: int

    @classmethod
    def from_random_state(cls, random_state: int | np.random.RandomState | None) -> Self:
        """Take scikit-learn's ``random_state``: a seed, a generator to draw one from, or None."""
        if isinstance(random_state, int | np.integer):
            return cls(int(random_state))
        return cls(int(check_random_state(random_state).randint(2**31 - 1)))

    def generator(self, name: str) -> np.random.Generator:
        """Return a fresh generator for ``name``; the same name always gives the same numbers."""
        digest = hashlib.sha256(name.encode()).digest()
        key = tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

    def integer(self, name: str) -> int:
        """Return a seed for a generator of another library."""
        return int(self.generator(name).integers(2**63 - 1))


Stage = Literal["sample", "choose", "smooth", "detail", "rows", "pairs", "train", "halves", "other models", "audit"]
Arrays = dict[str, NDArray[Any]]

BAR_DELAY = 2.0  # seconds before a progress bar appears
SCHEMA = 1  # of a resume file
BY_ROWS: tuple[Stage, ...] = ("sample", "rows")  # stages whose steps are rows, of which there may be millions
# stages that mostly end before their last step, by steps that take unequal times: nobody knows the time left
UP_TO: tuple[Stage, ...] = ("choose", "pairs", "train")
NO_TIME_LEFT = "{desc}: {n_fmt} of at most {total_fmt} steps [{elapsed}{postfix}]"


class Clock:
    """A budget of seconds, running from its making; without a budget it never ends.

    ``part`` is what the fit is doing, and ``cut_short`` names the parts that were refused more time.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._started = time.monotonic()
        self.seconds = np.inf if seconds is None else seconds
        self.part = "the fit"
        self.cut_short: list[str] = []

    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def passed(self, needed: float = 0.0, budget: float | None = None) -> bool:
        """Return whether the seconds needed would pass the budget, and note that the part is cut short if so."""
        refused = self.elapsed() + needed >= (self.seconds if budget is None else budget)
        if refused and self.part not in self.cut_short:
            self.cut_short.append(self.part)
        return refused

    def laps(self, share: float = 1.0, *, doubled: bool = False) -> Callable[[], bool]:
        """Return for a loop whether another lap, as long as the last, would pass this share of the budget.

        If ``doubled`` the loop has at least as long as the fit has taken so far.
        """
        last = self.elapsed()
        budget = max(share * self.seconds, 2.0 * last if doubled else last)

        def out_of_time() -> bool:
            nonlocal last
            before, last = last, self.elapsed()
            return self.passed(last - before, budget)

        return out_of_time


class ProgressBar:
    """A bar on stderr for fits of more than two seconds; ``verbose=None`` draws it only on a terminal."""

    def __init__(self, verbose: bool | None = None) -> None:
        self._hidden = None if verbose is None else not verbose
        self._made = time.monotonic()
        self._stage: Stage | None = None
        self._bar: tqdm[NoReturn] | None = None
        self._closed = Event()

    def report(self, stage: Stage, done: int, total: int | None = None, note: str = "") -> None:
        """Draw that ``done`` steps of a stage are finished, of ``total`` where that is known.

        A new stage takes the place of the one before.
        """
        if stage != self._stage or self._bar is None:
            self.close()
            self._stage = stage
            delay = max(0.0, BAR_DELAY - (time.monotonic() - self._made))
            by_rows = stage in BY_ROWS
            self._bar = tqdm(
                desc=stage,
                total=total,
                leave=False,
                file=sys.stderr,
                disable=self._hidden,
                unit=" rows" if by_rows else "it",
                unit_scale=by_rows,
                bar_format=NO_TIME_LEFT if stage in UP_TO and total is not None else None,
                delay=delay,
            )
            if not self._bar.disable:
                self._closed = Event()
                Thread(target=_keep_drawn, args=(self._bar, self._closed, delay), daemon=True).start()
        elif done < self._bar.n:  # a further pass over the rows: its time left is that of this pass
            self._bar.reset(total)
        if note:
            self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        self._closed.set()
        if self._bar is not None:
            self._bar.close()
        self._bar = self._stage = None


def _keep_drawn(bar: tqdm[NoReturn], closed: Event, delay: float) -> None:
    """Draw a bar each second, as its time goes on, from its delay until it is closed: a step may take long."""
    if closed.wait(delay):
        return
    while not closed.wait(1.0):
        bar.refresh()


@dataclass(frozen=True, slots=True, eq=False)
class StageResult:
    """What a stage of a fit left in the resume file: arrays by name, and plain data."""

    arrays: Arrays
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The document of a resume file; each stage declares its facts where they are read."""

    kind: Literal["checkpoint"]
    schema: Literal[1]
    identity: str
    stages: dict[str, dict[str, Any]]


class ResumeFile:
    """Results of the finished stages of one fit, in one file without pickle that is whole at every moment.

    A fit claims the file with its identity, a digest of data and settings; a file of another fit is refused. A file
    that cannot be written does not end the fit: one warning says so, and the fit goes on. In memory only, for a fit
    that is stopped: ``reached`` is the best alpha so far, and ``chosen`` says whether it is the one that was chosen.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reached: float | None = None
        self.chosen = False
        self._identity = ""
        self._stages: dict[str, StageResult] = {}
        self._warned = False

    def claim(self, identity: str) -> None:
        """Read the stages that are there; raise `CheckpointError` for a damaged file and one of another fit."""
        self._identity, self._stages = identity, {}
        try:
            if not self.path.exists():
                return
            document, arrays = unpacked(self.path)
            found = unpack(Checkpoint, document)
            stages = {name: StageResult(_inside(arrays, name), facts) for name, facts in found.stages.items()}
            known = sum(len(kept.arrays) for kept in stages.values())
            require(known == len(arrays), "arrays of no stage")
        except (RefusalError, OSError) as error:
            raise self.refused(f"a file that does not read ({error})") from error
        if found.identity != identity:
            expected, got = "a checkpoint of this fit", "one of other data or settings"
            remedy = "delete it or name another file"
            raise CheckpointError(describe(f"checkpoint {self.path}", expected, got, remedy))
        self._stages = stages

    def refused(self, got: str) -> CheckpointError:
        """Return the error for a file that no fit has written."""
        return CheckpointError(describe(f"checkpoint {self.path}", "a checkpoint", got, "delete it to start anew"))

    @property
    def has_stages(self) -> bool:
        """Whether any stage has left something."""
        return bool(self._stages)

    def recall(self, stage: str) -> StageResult | None:
        """Return what a stage left, None when the fit had not come so far."""
        return self._stages.get(stage)

    def keep(self, stage: str, result: StageResult) -> None:
        """Store the result of a stage, in place of what it left before; warn once where it cannot be written."""
        # ascontiguousarray would give a single number an axis
        contiguous = {name: np.asarray(array, order="C") for name, array in result.arrays.items()}
        self._stages[stage] = StageResult(contiguous, result.facts)
        everything = {
            f"{name}:{key}": array for name, kept in self._stages.items() for key, array in kept.arrays.items()
        }
        stages = {name: dict(kept.facts) for name, kept in self._stages.items()}
        document = Checkpoint("checkpoint", SCHEMA, self._identity, stages)
        try:
            write_atomically(self.path, *packed(pack(document)[0], everything))
        except (RefusalError, OSError) as error:
            if not self._warned:
                self._warned = True
                got, remedy = f"{error}; the fit goes on without it", "free the disk or name another file"
                message = describe(f"checkpoint {self.path}", "a file that can be written", got, remedy)
                warnings.warn(message, CheckpointWarning, stacklevel=2)


def _inside(arrays: Arrays, stage: str) -> Arrays:
    prefix = f"{stage}:"
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """What every step of one fit may use: a clock, progress, named random streams, and a resume file.

    ``prefix`` names the part of the fit in the resume file.
    """

    streams: Streams
    clock: Clock = field(default_factory=Clock)
    progress: ProgressBar = field(default_factory=lambda: ProgressBar(verbose=False))
    resume: ResumeFile | None = None
    prefix: str = ""

    def within(self, name: str) -> Context:
        """Return the context of a part of the fit, whose stages have this name before theirs."""
        return replace(self, prefix=f"{self.prefix}{name}/")

    def recall(self, stage: str) -> StageResult | None:
        """Return what a stage left in the resume file, None when there is none."""
        return None if self.resume is None else self.resume.recall(self.prefix + stage)

    def keep(self, stage: str, result: StageResult) -> None:
        """Store the result of a stage in the resume file, if there is one."""
        if self.resume is not None:
            self.resume.keep(self.prefix + stage, result)

    @contextmanager
    def reading(self, stage: str) -> Generator[None]:
        """Raise `CheckpointError` for what cannot be read of a stage within the block."""
        try:
            yield
        except (RefusalError, KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            if self.resume is None or isinstance(error, CheckpointError):
                raise
            what = str(error) if isinstance(error, RefusalError) else f"{type(error).__name__}: {str(error)[:80]}"
            raise self.resume.refused(f"a damaged stage {self.prefix + stage!r} ({what})") from error


class _SharedLibraries:
    """The threads of libraries that have one number for the whole process, which all its Python threads share.

    The first fit sets it to one, and the last to end puts back what was there before.
    """

    def __init__(self) -> None:
        self._lock, self.torch = Lock(), Lock()  # ``torch`` is held while the number of its threads is read or set
        self._holders = dict[object, int]()  # the Python thread of each fit under way
        self._before = dict[str, tuple[LibController, int]]()  # libraries and their threads, by file

    def enter(self, holder: object, libraries: Sequence[LibController]) -> None:
        with self._lock:
            self._holders[holder] = get_ident()
            for library in libraries:  # some may have been loaded since the first of these fits began
                self._before.setdefault(library.filepath, (library, library.num_threads))
                _set_threads(library, 1)

    def leave(self, holder: object) -> None:
        """Put back what was there before, if no other fit is under way; to leave twice changes nothing."""
        with self._lock:
            self._holders.pop(holder, None)
            if not self._holders:
                for library, number in self._before.values():
                    _set_threads(library, number)
                self._before.clear()

    def forget_other_threads(self) -> None:
        """Let go of the fits of Python threads that a forked process does not have."""
        self._lock, self.torch = Lock(), Lock()
        self._holders = {holder: thread for holder, thread in self._holders.items() if thread == get_ident()}
        self.leave(object())  # puts back what was there before, if this thread is in no fit


SHARED = ("openblas", "blis", "flexiblas")  # of these, unless they use OpenMP, all Python threads share one pool
_LIMITS = _SharedLibraries()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LIMITS.forget_other_threads)


def _libraries() -> tuple[list[LibController], list[LibController]]:
    """Return the loaded libraries with one number of threads for the process, and those with one a Python thread."""
    shared, here = list[LibController](), list[LibController]()
    for library in ThreadpoolController().lib_controllers:
        is_shared = library.internal_api in SHARED and getattr(library, "threading_layer", "") != "openmp"
        (shared if is_shared else here).append(library)
    return shared, here


def _set_threads(library: LibController, number: int) -> None:
    """Set a library's threads; since 3.7 threadpoolctl does nothing in any Python thread but the first that asked."""
    _let_all_set(library)
    library.set_num_threads(number)
    _let_all_set(library)


def _let_all_set(library: LibController) -> None:
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)


def _in_another_thread(call: Callable[..., Result], *given: int) -> Result:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call, *given).result()


def _set_torch_threads(number: int | None) -> None:
    """Set torch's threads in this Python thread, and leave the number that new Python threads get as it is."""
    torch = sys.modules.get("torch")
    if torch is None or number is None:
        return
    with _LIMITS.torch:
        torch.get_num_threads()  # when first asked in a Python thread, torch forgets what was set there before
        of_new_threads: int = _in_another_thread(torch.get_num_threads)
        try:
            torch.set_num_threads(number)
        finally:
            _in_another_thread(torch.set_num_threads, of_new_threads)


@contextmanager
def one_thread() -> Generator[None]:
    """Let libraries have one thread within the block.

    The products of a fit are many and small: with two threads of BLAS or torch one table of ten was quicker, by 15 %,
    and others took up to twice the time, beside busy neighbours twenty times, since threads that wait keep a core.
    """
    # torch's, as OpenMP's, are of this Python thread, which takes the number of new ones when first asked
    torch_threads, torch = None, sys.modules.get("torch")
    if torch is not None:  # no fit that trains has loaded it yet
        with _LIMITS.torch:
            torch_threads = torch.get_num_threads()
    holder, left = object(), False
    shared, others = _libraries()
    here = [(library, library.num_threads) for library in others]

    def put_back() -> None:
        nonlocal left
        _LIMITS.leave(holder)
        for library, number in here:
            library.set_num_threads(number)
        _set_torch_threads(torch_threads)
        left = True

    try:
        try:
            _LIMITS.enter(holder, shared)
            _let_this_thread_have_one(others)
            yield
        finally:
            put_back()
    finally:
        if not left:  # an interrupt came in the midst of it
            put_back()


def thread_count(n_jobs: object) -> int:
    """Return how many threads ``n_jobs`` asks for: None is 1, as in scikit-learn, -1 all cores; raise for no number."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        expected = "a number of threads, or -1 for all cores"
        raise InputError(describe("n_jobs", expected, repr(n_jobs), "choose another"))
    count = int(n_jobs)
    return count if count > 0 else max(1, (os.cpu_count() or 1) + 1 + count)


def results_in_order(tasks: Iterable[Callable[[], Result]], count: int) -> Iterator[Result]:
    """Yield what each task returns, in their order, ``count`` of them at work at once: in threads, if above 1.

    After an error or an interrupt those at work end, and no other begins.
    """
    if count == 1:
        yield from (task() for task in tasks)
        return
    pool = ThreadPoolExecutor(count, "sparsenam", lambda: _let_this_thread_have_one(_libraries()[1]))
    try:
        waiting = deque[Future[Result]]()
        for task in tasks:
            waiting.append(pool.submit(copy_context().run, task))  # numpy's handling of errors is of the context
            if len(waiting) == count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _let_this_thread_have_one(libraries: Iterable[LibController]) -> None:
    """Let torch, and libraries with a number of threads for each Python thread, have one in this Python thread."""
    for library in libraries:
        library.set_num_threads(1)
    _set_torch_threads(1)


@contextmanager
def running(
    parameters: Mapping[str, Any], progress: ProgressBar | None = None, resume: ResumeFile | None = None
) -> Generator[Context]:
    """Give the time, the seed and the progress display that an estimator's parameters ask for, and one thread."""
    seconds = parameters.get("max_seconds")
    if seconds is not None:
        check_number("max_seconds", seconds, 0.0, open_below=True)
    progress = progress or ProgressBar(parameters.get("verbose"))
    context = Context(Streams.from_random_state(parameters.get("random_state")), Clock(seconds), progress, resume)
    try:
        with one_thread():
            yield context
    finally:
        progress.close()
