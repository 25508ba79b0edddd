"""What a fit is given besides data and settings: time, progress, random streams and a resume file."""

from __future__ import annotations

import hashlib
import sys
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from tqdm import tqdm

from sparsenam.codec import pack, unpack
from sparsenam.container import packed, unpacked
from sparsenam.errors import CheckpointError, CheckpointWarning, RefusalError, describe, require
from sparsenam.files import write_atomically


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

    It remembers that it has refused more time (``ran_out``), and ``cut_short`` names the parts that it was refused to.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.started = time.monotonic()
        self.seconds = np.inf if seconds is None else seconds
        self.ran_out = False
        self.cut_short: list[str] = []

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self.started

    def passed(self) -> bool:
        """Return whether the budget is used up."""
        return self._refuses(self.elapsed() >= self.seconds)

    def has_room_for(self, seconds: float) -> bool:
        """Return whether so many seconds are left for what the fit would need."""
        return not self._refuses(self.elapsed() + seconds > self.seconds)

    def remaining(self) -> float:
        """Return the seconds that are left, infinite without a budget."""
        return self.seconds - self.elapsed()

    def end_part(self, name: str) -> None:
        """Note that a part of the fit was cut short, if more time was refused since the part before it ended."""
        if self.ran_out and name not in self.cut_short:
            self.cut_short.append(name)
        self.ran_out = False

    def _refuses(self, refused: bool) -> bool:
        self.ran_out = self.ran_out or refused
        return refused

    def laps(self, share: float = 1.0, least: float = 0.0) -> Callable[[], bool]:
        """Return for a loop whether another lap, as long as the last, would pass this share of the budget.

        The loop has ``least`` seconds from now in any case.
        """
        last = time.monotonic()
        end = max(share * self.seconds, last - self.started + least)

        def out_of_time() -> bool:
            nonlocal last
            now = time.monotonic()
            lap, last = now - last, now
            return self._refuses(self.elapsed() + lap > end)

        return out_of_time


class ProgressBar:
    """A bar on stderr for fits of more than two seconds; ``verbose=None`` draws it only on a terminal."""

    def __init__(self, verbose: bool | None = None) -> None:
        self._hidden = None if verbose is None else not verbose
        self._made = time.monotonic()
        self._stage: Stage | None = None
        self._bar: tqdm[Any] | None = None
        self._closed = Event()

    def report(self, stage: Stage, done: int, total: int | None = None, note: str = "") -> None:
        """Draw that ``done`` steps of a stage are finished, of ``total`` where that is known.

        A new stage takes the place of the one before.
        """
        if stage != self._stage or self._bar is None:
            self.close()
            self._stage = stage
            delay = max(0.0, BAR_DELAY - (time.monotonic() - self._made))
            units: dict[str, Any] = {"unit": " rows", "unit_scale": True} if stage in BY_ROWS else {}
            units |= {"bar_format": NO_TIME_LEFT} if stage in UP_TO and total is not None else {}
            shown: dict[str, Any] = {"disable": self._hidden, "leave": False, "file": sys.stderr}
            self._bar = tqdm(total=total, desc=stage, delay=delay, **shown, **units)
            if not self._bar.disable:
                self._closed = Event()
                Thread(target=_keep_drawn, args=(self._bar, self._closed, delay), daemon=True).start()
        elif done < self._bar.n:  # a further pass over the rows: its time left is that of this pass
            self._bar.reset(total)
        if note:
            self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Remove the bar."""
        self._closed.set()
        if self._bar is not None:
            self._bar.close()
        self._bar = self._stage = None


def _keep_drawn(bar: tqdm[Any], closed: Event, delay: float) -> None:
    """Draw a bar each second, as its time goes on, from its delay until it is closed: a step may take long."""
    if closed.wait(delay):
        return
    while not closed.wait(1.0):
        bar.refresh()


@dataclass(frozen=True, slots=True, eq=False)
class StageResult:
    """What a stage of a fit left in the resume file: arrays by name, and plain data."""

    arrays: Arrays
    facts: dict[str, Any]


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
            document, arrays = unpacked(self.path, finite=False)
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
        self._stages[stage] = StageResult(contiguous, dict(result.facts))
        everything = {
            f"{name}:{key}": array for name, kept in self._stages.items() for key, array in kept.arrays.items()
        }
        stages = {name: kept.facts for name, kept in self._stages.items()}
        document = Checkpoint("checkpoint", SCHEMA, self._identity, stages)
        try:
            write_atomically(self.path, *packed(pack(document)[0], everything, finite=False))
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
