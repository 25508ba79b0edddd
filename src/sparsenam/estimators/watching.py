"""A watcher of a fit: it sees how far the fit has come, keeps its choice of features, and may give one back."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, Protocol

from sparsenam.selection.choose import ConvexTask, FeatureChoice

Step = Literal["choose", "smooth", "polish"]


class Watcher(Protocol):
    """Who watches a fit."""

    def recall(self, task: ConvexTask) -> FeatureChoice | None:
        """Return the choice that an earlier, stopped run of the same fit made for this task; None to make it."""
        ...

    def keep(self, choice: FeatureChoice) -> None:
        """Take a choice that was just made, or recalled."""
        ...

    def step(self, step: Step, done: int, most: int) -> None:
        """Take note that so many laps of a step are done, of at most so many; 0 where that is unknown."""
        ...


_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher) -> Generator[None]:
    """Let the fits within the block be watched."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def choice_of(task: ConvexTask, choose: Callable[[], FeatureChoice]) -> FeatureChoice:
    """Return the choice that the watcher recalls, else the one made now; the watcher sees either."""
    watcher = _WATCHER.get()
    if watcher is None:
        return choose()
    recalled = watcher.recall(task)
    choice = choose() if recalled is None else recalled
    watcher.keep(choice)
    return choice


def tell(step: Step, done: int = 0, most: int = 0) -> None:
    """Tell the watcher, if there is one, how far a step is."""
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher.step(step, done, most)


def counted(step: Step, most: int, out_of_time: Callable[[], bool]) -> Callable[[], bool]:
    """Return ``out_of_time``, which a loop asks once a lap, so that the watcher counts the laps."""
    done = 0

    def asked() -> bool:
        nonlocal done
        done += 1
        tell(step, done, most)
        return out_of_time()

    return asked
