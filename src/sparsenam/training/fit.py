"""One fit of a bank: choose the stream of epochs, watch it, wake what should not sleep, keep the best."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import torch

from sparsenam.streams import Streams
from sparsenam.training import checkpoint
from sparsenam.training.checkpoint import Journal
from sparsenam.training.descent import descend
from sparsenam.training.loop import Pace, train
from sparsenam.training.problem import Problem
from sparsenam.training.progress import shown
from sparsenam.training.proximal import proximal_step
from sparsenam.training.schedules import Schedule
from sparsenam.training.solvers import Solver
from sparsenam.training.state import Epoch, Parameters, awaken
from sparsenam.training.stopping import Deadline, Stall, limited, measured, until_stalled, until_stationary

History = list[dict[str, float | int | None]]


@dataclass(frozen=True, slots=True)
class Plan:
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
    plan: Plan,
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
    plan: Plan,
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
    plan: Plan,
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
