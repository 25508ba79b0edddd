"""When to stop: consumers of the stream of epochs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from sparsenam.training.state import Epoch, Parameters


class Deadline:
    """A budget of seconds, running from its making."""

    def __init__(self, seconds: float | None) -> None:
        self.started = time.monotonic()
        self.seconds = np.inf if seconds is None else seconds

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self.started

    def passed(self) -> bool:
        """Return whether the budget is used up."""
        return self.elapsed() >= self.seconds

    def has_room_for(self, seconds: float) -> bool:
        """Return whether so many seconds are left."""
        return self.elapsed() + seconds <= self.seconds

    def laps(self, share: float = 1.0) -> Callable[[], bool]:
        """Return for a loop whether another lap, as long as the last, would pass this share of the budget."""
        last = time.monotonic()

        def out_of_time() -> bool:
            nonlocal last
            now = time.monotonic()
            lap, last = now - last, now
            return self.elapsed() + lap > share * self.seconds

        return out_of_time


@dataclass(slots=True)
class Stall:
    """Counts the epochs since the watched number last fell by a relative ``tol``."""

    patience: int
    tol: float
    best: float = np.inf
    waited: int = 0

    def observe(self, number: float) -> bool:
        """Take a number in; return whether patience has run out."""
        if number < self.best - self.tol * abs(self.best) or not np.isfinite(self.best):
            self.best, self.waited = number, 0
        else:
            self.waited += 1
        return self.waited >= self.patience


def measured(
    epochs: Iterable[Epoch], score: Callable[[Parameters], float] | None, clock: Deadline
) -> Iterator[Epoch]:
    """Add the validation score and the time to each epoch."""
    for epoch in epochs:
        validation = None if score is None else score(epoch.parameters)
        yield replace(epoch, validation=validation, seconds=clock.elapsed())


def until_stalled(epochs: Iterable[Epoch], stall: Stall) -> Iterator[Epoch]:
    """Stop when the validation score, or without one the objective, no longer falls."""
    for epoch in epochs:
        yield epoch
        if stall.observe(epoch.objective if epoch.validation is None else epoch.validation):
            return


def until_stationary(epochs: Iterable[Epoch], tol: float) -> Iterator[Epoch]:
    """Stop when the stationarity is at most ``tol``."""
    for epoch in epochs:
        yield epoch
        if epoch.stationarity is not None and epoch.stationarity <= tol:
            return


def limited(epochs: Iterable[Epoch], last: int, clock: Deadline) -> Iterator[Epoch]:
    """Stop after epoch ``last`` or when the time is up."""
    for epoch in epochs:
        yield epoch
        if epoch.number >= last or clock.passed():
            return
