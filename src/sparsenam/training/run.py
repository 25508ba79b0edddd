"""One training of a bank: run epochs, decide when to stop, re-examine zero groups, keep the best."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from sparsenam.streams import Streams
from sparsenam.training import checkpoint
from sparsenam.training.checkpoint import Journal
from sparsenam.training.descent import descend
from sparsenam.training.loop import Pace, train
from sparsenam.training.problem import Problem, proximal_step
from sparsenam.training.solvers import Schedule, Solver
from sparsenam.training.state import Epoch, Parameters, awaken


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


BAR_DELAY = 2.0  # seconds before the bar appears


def shown(epochs: Iterable[Epoch], last: int, verbose: bool | None) -> Iterator[Epoch]:
    """Pass the epochs on and draw them; ``verbose=None`` draws only on a terminal."""
    hidden = (not verbose) if verbose is not None else None
    with tqdm(
        total=last, desc="fit", unit="epoch", delay=BAR_DELAY, disable=hidden, leave=False, file=sys.stderr
    ) as bar:
        for epoch in epochs:
            bar.update(epoch.number - bar.n)
            bar.set_postfix_str(f"loss {epoch.loss:.4g}, {epoch.n_active} features", refresh=False)
            yield epoch


History = list[dict[str, float | int | None]]


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How to run a fit."""

    solver: Solver
    schedule: Schedule
    learning_rate: float
    batch_size: int | None
    max_epochs: int
    patience: int
    tol: float
    clock: Deadline
    checkpoint: Path | None = None
    verbose: bool | None = None
    words: str = ""

    def mini_batches(self, n_rows: int) -> bool:
        """Return whether a step sees only some of the rows."""
        return not self.solver.full_batch and self.batch_size is not None and self.batch_size < n_rows


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Where a fit ended: the parameters, the numbers of all epochs, and how stationary the end is."""

    parameters: Parameters
    history: History
    stationarity: float | None
    converged: bool


def run(
    problem: Problem,
    start: Parameters,
    plan: TrainingPlan,
    streams: Streams,
    validate: Callable[[Parameters], float] | None = None,
) -> Outcome:
    """Fit until converged, out of epochs or out of time; with ``validate`` the best epoch wins."""
    first = Epoch(0, float("inf"), 0.0, start)
    beginning = Journal(first, first, [])
    if plan.checkpoint is None:
        journals = _journals(problem, beginning, plan, streams, validate)
    else:
        data = (problem.x, problem.target, problem.weights, start.theta)
        identity = checkpoint.fingerprint(
            data, f"{plan.words} {checkpoint.stable_words(problem.penalty)} {problem.alpha} {streams.seed}"
        )
        beginning = checkpoint.read(plan.checkpoint, identity, start.theta.device) or beginning
        journals = _journals(problem, beginning, plan, streams, validate)
        journals = checkpoint.kept(journals, plan.checkpoint, identity)
    (journal,) = deque(chain([beginning], journals), maxlen=1)
    chosen = journal.last if validate is None else journal.best
    if plan.clock.passed():  # measuring takes a pass over all rows, for which there is no time
        return Outcome(chosen.parameters, journal.history, None, True)
    stationarity = measure_stationarity(problem, chosen.parameters, chosen.rate)
    # the best epoch on held-out rows is not the end of the descent, and need not be stationary
    converged = not plan.solver.searches_step or validate is not None or stationarity <= 10 * plan.tol
    return Outcome(chosen.parameters, journal.history, stationarity, converged)


def measure_stationarity(problem: Problem, parameters: Parameters, step: float) -> float:
    """Return the largest entry of (Θ - prox(Θ - step ∇loss))/step over the active features and the intercept.

    Zero exactly at a stationary point of the objective, whatever the penalty. Steps above 1e-3 are cut to it,
    so that penalties that are not convex are judged near the point and not by a jump to another minimum.
    """
    step = min(max(step, 1e-8), 1e-3)
    own = problem.restricted_to(parameters.active)
    theta = parameters.theta.double()
    own = replace(own, x=own.x.double(), target=own.target.double(), weights=own.weights.double())
    smooth = own.gradient(theta, parameters.intercept.double())
    moved = proximal_step(own, theta - step * smooth.theta, step)
    by_theta = float((theta - moved).abs().max()) / step if theta.numel() else 0.0
    return max(by_theta, float(smooth.intercept.abs().max()))


def _journals(
    problem: Problem,
    journal: Journal,
    plan: TrainingPlan,
    streams: Streams,
    validate: Callable[[Parameters], float] | None,
) -> Iterator[Journal]:
    history, best, last = list(journal.history), journal.best, journal.last
    stall = Stall(plan.patience, plan.tol)
    # a resumed fit has as much patience left as it had
    stalled = any([_observe(stall, entry) for entry in history]) and not plan.solver.searches_step
    while not journal.finished and last.number < plan.max_epochs:
        epochs = () if stalled else _watched(problem, last, plan, streams, validate, stall)
        for last in shown(epochs, plan.max_epochs, plan.verbose):
            to_beat = torch.inf if best.validation is None else best.validation
            if validate is not None and (last.validation or 0.0) < to_beat:
                best = last
            history.append(_numbers(last))
            yield Journal(last, best, history)
        if last.number >= plan.max_epochs or plan.clock.passed():
            return
        woken = awaken(problem, last.parameters, max(last.rate, 1e-6)) if plan.solver.proximal else None
        if woken is None:
            yield Journal(last, best, history, finished=True)
            return
        last = Epoch(last.number, last.loss, last.penalty, woken)
        stall.waited, stalled = 0, False


def _watched(
    problem: Problem,
    start: Epoch,
    plan: TrainingPlan,
    streams: Streams,
    validate: Callable[[Parameters], float] | None,
    stall: Stall,
) -> Iterator[Epoch]:
    if plan.solver.searches_step:
        source = descend(problem, start, plan.solver.accelerated)
        watched = until_stationary(measured(source, validate, plan.clock), plan.tol)
    else:
        pace = Pace(plan.batch_size, lambda done: plan.learning_rate * plan.schedule(done / plan.max_epochs))
        source = train(problem, start, plan.solver, pace, streams, plan.clock.passed)
        watched = until_stalled(measured(source, validate, plan.clock), stall)
    return limited(watched, plan.max_epochs, plan.clock)


def _numbers(epoch: Epoch) -> dict[str, float | int | None]:
    return {
        "epoch": epoch.number,
        "loss": epoch.loss,
        "penalty": epoch.penalty,
        "validation": epoch.validation,
        "features": epoch.n_active,
        "rate": epoch.rate,
        "seconds": epoch.seconds,
    }


def _observe(stall: Stall, entry: dict[str, float | int | None]) -> bool:
    validation = entry["validation"]
    return stall.observe((entry["loss"] or 0.0) + (entry["penalty"] or 0.0) if validation is None else validation)
