"""Where a training stands: the parameters of active and of zero terms, and their form in the resume file of a fit."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.codec import Count, Indices, Matrix, Size, Vector, Via, pack, unpack
from sparsenam.container import is_object
from sparsenam.context import Context, StageResult
from sparsenam.errors import DivergenceError, require
from sparsenam.training.network import History, Loss
from sparsenam.training.problem import Problem, proximal_step
from sparsenam.training.solvers import Memory, Solver


def as_numpy(tensor: Tensor) -> NDArray[np.float64]:
    """Return the numbers of a tensor in memory of the processor, in double precision."""
    return tensor.detach().cpu().double().numpy()


Weights = Annotated[Tensor, Via(Matrix, as_numpy, torch.as_tensor)]
Remembered = Annotated[
    Memory,
    Via(
        tuple[Count, tuple[Weights, ...]], lambda memory: (memory.count, memory.tensors), lambda stored: Memory(*stored)
    ),
]


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """θ of all terms, shape (terms, size), the intercept, shape (outputs,), and which terms are active.

    Those that are not have the parameters with which their group became zero.
    """

    theta: Weights
    intercept: Annotated[Tensor, Via(Vector, as_numpy, torch.as_tensor)]
    active: Indices

    @classmethod
    def starting_from(cls, theta: Tensor, intercept: Tensor) -> Self:
        return cls(theta, intercept, np.arange(theta.shape[0]))

    @property
    def of_active(self) -> Tensor:
        """θ of the active terms, shape (active, size)."""
        return self.theta[torch.as_tensor(self.active)]

    def moved(self, theta: Tensor, intercept: Tensor, zero: NDArray[np.bool_] | None = None) -> Self:
        """Return the parameters with these of the active terms, of which those in the mask ``zero`` are so no more."""
        complete = self.theta.clone()
        complete[torch.as_tensor(self.active)] = theta
        active = self.active if zero is None else self.active[~zero]
        return replace(self, theta=complete, intercept=intercept, active=active)


@dataclass(frozen=True, slots=True, eq=False)
class Epoch:
    """A report after one pass over the rows (one iteration of a full-batch solver)."""

    number: Count
    loss: Loss
    penalty: Size
    parameters: Parameters
    memories: tuple[Remembered, Remembered] = field(default_factory=lambda: (Memory(), Memory()))
    rate: Size = 0.0
    stationarity: Size | None = None
    validation: Loss | None = None
    seconds: Size = 0.0
    whole: bool = True  # False when the time ran out within the epoch: such a state is not resumed from

    @property
    def n_active(self) -> int:
        return int(self.parameters.active.size)


def diverged(problem: Problem, epoch: int, rate: float, term: int | None) -> DivergenceError:
    """Return the error for a training that left the finite numbers, first in this term; None is the intercept."""
    where = "the intercept" if term is None else f"column {problem.names.get(term, term)!r}"
    return DivergenceError(
        f"Training diverged in epoch {epoch} at learning rate {rate:g}, first in {where}: "
        "lower learning_rate or standardize the columns."
    )


def require_finite(problem: Problem, loss: float, theta: Tensor, epoch: int, rate: float) -> None:
    """Raise `DivergenceError` when the loss or the norm of θ (or of its gradient) is not finite."""
    flat = theta.flatten()
    if np.isfinite(loss) and bool(torch.isfinite(flat.dot(flat))):
        return
    bad = ~torch.isfinite(theta.square().sum(1))
    raise diverged(problem, epoch, rate, int(problem.terms[int(bad.int().argmax())]) if bool(bad.any()) else None)


def zero_groups(problem: Problem, theta: Tensor) -> NDArray[np.bool_]:
    """Return which of the problem's terms have a group of exactly zero, shape (terms,)."""
    largest = theta[:, problem.group].abs().amax(dim=1)  # five times as fast as any
    return (largest == 0).cpu().numpy()


def reactivated(problem: Problem, parameters: Parameters, step: float) -> Parameters | None:
    """Return the parameters with those zero groups active again that a proximal step would move, or None.

    A zero group satisfies its optimality condition when a proximal step from zero stays at zero. A sub-network with
    hidden layers whose parameters are all zero has no gradient, so it stays zero.
    """
    theta, active = parameters.theta, parameters.active
    if active.size == theta.shape[0]:
        return None
    smooth = problem.gradient(theta, parameters.intercept)
    (moved,) = problem.processes.agreed(proximal_step(problem, theta - step * smooth.theta, step))
    moves = moved[:, problem.group].any(dim=1).cpu().numpy()
    moves[active] = True
    return None if moves.sum() == active.size else replace(parameters, active=np.flatnonzero(moves))


SECONDS_BETWEEN = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Journal:
    """The epochs so far: the last one, the best one, the numbers of all, and what the training rests on."""

    last: Epoch
    best: Epoch
    history: History
    basis: str = ""
    finished: bool = False


def stored(journals: Iterable[Journal], context: Context, stage: str) -> Iterator[Journal]:
    """Pass the journals on and store one every few seconds, and the last."""
    journal, moment = None, time.monotonic()
    try:
        for latest in journals:
            journal = latest if latest.last.whole else journal
            if journal is not None and time.monotonic() - moment >= SECONDS_BETWEEN:
                _keep(context, stage, journal)
                moment = time.monotonic()
            yield latest
    finally:  # an interrupted fit keeps its last whole epoch too
        if journal is not None:
            _keep(context, stage, journal)


def read_journal(kept: StageResult, start: Parameters, solver: Solver) -> Journal:
    """Return the journal that a stage left, on the device of the start; raise `RefusalError` for what cannot be one.

    ``start`` are the parameters from which the training began, ``solver`` is what moved them.
    """
    journal = unpack(Journal, kept.facts, kept.arrays)
    require(journal.best.number <= journal.last.number, "a best epoch after the last one")
    last, best = (_checked(epoch, start, solver) for epoch in (journal.last, journal.best))
    return replace(journal, last=last, best=best)


def epoch_of(kept: StageResult) -> int:
    """Return the last epoch of the journal that a stage left, 0 where there is none."""
    last = kept.facts.get("last")
    number = last.get("number") if is_object(last) else None
    return number if isinstance(number, int) else 0


def _checked(epoch: Epoch, start: Parameters, solver: Solver) -> Epoch:
    """Return an epoch in the precision and on the device of the start; it must be one of this training."""
    found, (terms, size) = epoch.parameters, start.theta.shape
    active = found.active
    rising = bool((np.diff(active) > 0).all()) and (not active.size or int(active[-1]) < terms)
    shapes = found.theta.shape, found.intercept.shape
    require(rising and shapes == (start.theta.shape, start.intercept.shape), "terms that cannot be")
    # what a solver remembers of θ and of the intercept
    if solver.searches_step:
        wanted: list[list[tuple[int, ...]]] = [[(1, active.size * size + start.intercept.numel())], [(1, 2)]]
    else:
        gradients = start.theta.new_zeros((active.size, size)), torch.zeros_like(start.intercept)[None]
        wanted = [[tuple(each.shape) for each in solver.rule(part, Memory()).memory.tensors] for part in gradients]
    for memory, expected in zip(epoch.memories, wanted, strict=True):
        shapes = [tuple(part.shape) for part in memory.tensors]
        fits = shapes == expected if memory.count > 0 else not shapes
        require(fits, "a memory that cannot be")
    by_theta, rest = (
        Memory(memory.count, tuple(part.to(start.theta) for part in memory.tensors)) for memory in epoch.memories
    )
    if solver.searches_step and rest.tensors:
        require(bool((rest.tensors[0] >= 1e-300).all()), "a step that cannot be")  # momentum and step
    parameters = Parameters(found.theta.to(start.theta), found.intercept.to(start.theta), active)
    return replace(epoch, parameters=parameters, memories=(by_theta, rest))


def _keep(context: Context, stage: str, journal: Journal) -> None:
    reached = [entry for entry in journal.history if entry.epoch <= journal.last.number]
    facts, arrays = pack(replace(journal, history=reached))
    context.keep(stage, StageResult(arrays, facts))
