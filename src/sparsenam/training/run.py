"""One training of a bank: run epochs, decide when to stop, re-examine zero groups, keep the best."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from sparsenam.context import Clock, Context
from sparsenam.training.loop import Pace, descend, train
from sparsenam.training.network import History, TrainingPlan
from sparsenam.training.problem import Problem, proximal_step
from sparsenam.training.state import Epoch, Journal, Parameters, reactivated, read_journal, stored

Validate = Callable[[Parameters], float]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Where a training ended: the parameters, the numbers of all epochs, and how stationary the end is."""

    parameters: Parameters
    history: History
    stationarity: float | None
    converged: bool


@dataclass(slots=True)
class EarlyStopping:
    """Counts the epochs since the observed number last fell by a relative ``tol``."""

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


def run(
    problem: Problem,
    start: Parameters,
    plan: TrainingPlan,
    context: Context,
    stage: str = "train",
    validate: Validate | None = None,
) -> Outcome:
    """Train until converged, out of epochs or out of time; with ``validate`` the best epoch is returned.

    ``stage`` names the training in the resume file, where a fit has one.
    """
    first = Epoch(0, float("inf"), 0.0, start)
    journal, kept = Journal(first, first, []), context.recall(stage)
    basis = "" if context.resume is None else _basis(problem, start)
    if kept is not None and kept.facts.get("basis") == basis:
        with context.reading(stage):
            journal = read_journal(kept, start, plan.solver)
    journals = _journals(problem, journal, plan, context, validate)
    if context.resume is not None:
        journals = stored(journals, context, stage, basis)
    (journal,) = deque(chain([journal], journals), maxlen=1)
    chosen = journal.last if validate is None else journal.best
    if context.clock.passed():  # measuring takes a pass over all rows, for which there is no time
        return Outcome(chosen.parameters, journal.history, None, True)
    stationarity = measure_stationarity(problem, chosen.parameters, chosen.rate)
    # the best epoch on held-out rows is not the end of the descent, and need not be stationary
    converged = not plan.solver.searches_step or validate is not None or stationarity <= 10 * plan.tol
    return Outcome(chosen.parameters, journal.history, stationarity, converged)


def _basis(problem: Problem, start: Parameters) -> str:
    """Return a digest of what a training rests on, which an earlier stage of the fit may have changed."""
    digest = hashlib.sha256(repr((problem.family, problem.alpha, problem.terms.tolist())).encode())
    for tensor in (problem.target, problem.weights, start.theta, start.intercept):
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    norms = np.arange(1.0, problem.n_terms + 1.0)  # any will do: weights from a first fit show in what they shrink to
    digest.update(problem.penalty.shrink(norms, 1.0, 1.0).tobytes())
    return digest.hexdigest()


def measure_stationarity(problem: Problem, parameters: Parameters, step: float) -> float:
    """Return the largest entry of (Θ - prox(Θ - step ∇loss))/step over all terms, zero ones too, and the intercept.

    Zero exactly at a stationary point of the objective, whatever the penalty. Steps above 1e-3 are cut to it,
    so that penalties that are not convex are judged near the point and not by a jump to another minimum.
    """
    step = min(max(step, 1e-8), 1e-3)
    exact = replace(problem, x=problem.x.double(), target=problem.target.double(), weights=problem.weights.double())
    theta = parameters.complete().double()
    smooth = exact.gradient(theta, parameters.intercept.double())
    moved = proximal_step(exact, theta - step * smooth.theta, step)
    by_theta = float((theta - moved).abs().max()) / step if theta.numel() else 0.0
    return max(by_theta, float(smooth.intercept.abs().max()))


def _journals(
    problem: Problem, journal: Journal, plan: TrainingPlan, context: Context, validate: Validate | None
) -> Iterator[Journal]:
    history, best, last = list(journal.history), journal.best, journal.last
    stopping = EarlyStopping(plan.patience, plan.tol)
    # a resumed training has as much patience left as it had
    stalled = any([stopping.observe(_observed(entry)) for entry in history]) and not plan.solver.searches_step
    while not journal.finished and last.number < plan.max_epochs:
        epochs = () if stalled else _epochs(problem, last, plan, context, validate, stopping)
        for last in epochs:
            note = f"loss {last.loss:.4g}, {last.n_active} terms"
            context.progress.report("train", last.number, plan.max_epochs, note)
            to_beat = np.inf if best.validation is None else best.validation
            if validate is not None and (last.validation or 0.0) < to_beat:
                best = last
            history.append(_numbers(last))
            yield Journal(last, best, history)
        if last.number >= plan.max_epochs or context.clock.passed():
            return
        again = reactivated(problem, last.parameters, max(last.rate, 1e-6)) if plan.solver.proximal else None
        if again is None:
            yield Journal(last, best, history, finished=True)
            return
        last = Epoch(last.number, last.loss, last.penalty, again)
        stopping.waited, stalled = 0, False


def _epochs(
    problem: Problem,
    start: Epoch,
    plan: TrainingPlan,
    context: Context,
    validate: Validate | None,
    stopping: EarlyStopping,
) -> Iterator[Epoch]:
    """Yield measured epochs until they converge, or the epochs or the time are used up."""
    clock = context.clock
    if plan.solver.searches_step:
        source = descend(problem, start, plan.solver.accelerated)
    else:
        pace = Pace(plan.batch_size, lambda done: plan.learning_rate * plan.schedule(done / plan.max_epochs))
        source = train(problem, start, plan.solver, pace, context.streams, clock.passed)
    for epoch in _measured(source, validate, clock):
        yield epoch
        if plan.solver.searches_step:
            converged = epoch.stationarity is not None and epoch.stationarity <= plan.tol
        else:
            converged = stopping.observe(epoch.objective if epoch.validation is None else epoch.validation)
        if converged or epoch.number >= plan.max_epochs or clock.passed():
            return


def _measured(epochs: Iterable[Epoch], validate: Validate | None, clock: Clock) -> Iterator[Epoch]:
    """Add the validation loss and the time to each epoch."""
    for epoch in epochs:
        validation = None if validate is None else validate(epoch.parameters)
        yield replace(epoch, validation=validation, seconds=clock.elapsed())


def _numbers(epoch: Epoch) -> dict[str, float | int | None]:
    return {
        "epoch": epoch.number,
        "loss": epoch.loss,
        "penalty": epoch.penalty,
        "validation": epoch.validation,
        "terms": epoch.n_active,
        "rate": epoch.rate,
        "seconds": epoch.seconds,
    }


def _observed(entry: dict[str, float | int | None]) -> float:
    """Return the number that early stopping observes in an entry of the history."""
    validation = entry["validation"]
    return (entry["loss"] or 0.0) + (entry["penalty"] or 0.0) if validation is None else validation
