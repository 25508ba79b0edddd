"""Where a training stands: the parameters of active terms, and those of terms whose group is zero."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.codec import Count, Indices, Matrix, Size, Vector, Via
from sparsenam.training.network import Loss
from sparsenam.training.problem import Problem, proximal_step
from sparsenam.training.solvers import Memory


def as_numpy(tensor: Tensor) -> NDArray[np.float64]:
    """Return the numbers of a tensor in memory of the processor, in double precision."""
    return tensor.detach().cpu().double().numpy()


@dataclass(frozen=True, slots=True, eq=False)
class StoredMemory:
    """A memory in a file: its numbers without their shapes, which follow from the solver."""

    count: Count
    numbers: tuple[Vector, ...]


def _stored(memory: Memory) -> StoredMemory:
    return StoredMemory(memory.count, tuple(as_numpy(tensor).ravel() for tensor in memory.tensors))


def _remembered(stored: StoredMemory) -> Memory:
    return Memory(stored.count, tuple(map(torch.as_tensor, stored.numbers)))


Weights = Annotated[Tensor, Via(Matrix, as_numpy, torch.as_tensor)]
Remembered = Annotated[Memory, Via(StoredMemory, _stored, _remembered)]


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """θ of the active terms, shape (active, size), and the intercept, shape (outputs,).

    ``last`` holds the parameters of all terms, shape (terms, size), as they were when the group of each became zero.
    """

    theta: Weights
    intercept: Annotated[Tensor, Via(Vector, as_numpy, torch.as_tensor)]
    active: Indices
    last: Weights

    @classmethod
    def starting_from(cls, theta: Tensor, intercept: Tensor) -> Self:
        """Return a start with every term active."""
        return cls(theta, intercept, np.arange(theta.shape[0]), theta.clone())

    def complete(self) -> Tensor:
        """Return the parameters of all terms, shape (terms, size)."""
        complete = self.last.clone()
        complete[torch.as_tensor(self.active)] = self.theta
        return complete


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
    def objective(self) -> float:
        """Smooth part and penalty."""
        return self.loss + self.penalty

    @property
    def n_active(self) -> int:
        """How many terms are active."""
        return int(self.parameters.active.size)


class Diverged(Exception):  # noqa: N818 - carries numbers to where the name of the term is known
    """Training left the finite numbers at this epoch and rate, first in this term; None is the intercept."""

    def __init__(self, epoch: int, rate: float, term: int | None) -> None:
        super().__init__(f"epoch {epoch}, rate {rate:g}, term {term}")
        self.epoch, self.rate, self.term = epoch, rate, term


def require_finite(problem: Problem, loss: float, theta: Tensor, epoch: int, rate: float) -> None:
    """Raise `Diverged` when the loss or the norm of θ (or of its gradient) is not finite."""
    flat = theta.flatten()
    if np.isfinite(loss) and bool(torch.isfinite(flat.dot(flat))):
        return
    bad = ~torch.isfinite(theta.square().sum(1))
    term = int(problem.terms[int(bad.int().argmax())]) if bool(bad.any()) else None
    raise Diverged(epoch, rate, term)


def zero_groups(problem: Problem, parameters: Parameters) -> NDArray[np.bool_]:
    """Return which active terms have a group of exactly zero, shape (active,)."""
    largest = parameters.theta[:, problem.group].abs().amax(dim=1)  # five times as fast as any
    return (largest == 0).cpu().numpy()


def deactivated(parameters: Parameters, zero: NDArray[np.bool_]) -> Parameters:
    """Return the parameters without these active terms, marked in a mask of shape (active,)."""
    rows = torch.as_tensor(~zero)
    return replace(
        parameters,
        theta=parameters.theta[rows],
        active=parameters.active[~zero],
        last=parameters.complete(),
    )


def reactivated(problem: Problem, parameters: Parameters, step: float) -> Parameters | None:
    """Return the parameters with those zero groups active again that a proximal step would move, or None.

    A zero group satisfies its optimality condition when a proximal step from zero stays at zero. A sub-network with
    hidden layers whose parameters are all zero has no gradient, so it stays zero.
    """
    complete = parameters.complete()
    if parameters.active.size == complete.shape[0]:
        return None
    smooth = problem.gradient(complete, parameters.intercept)
    (moved,) = problem.processes.agreed(proximal_step(problem, complete - step * smooth.theta, step))
    moves = moved[:, problem.group].any(dim=1).cpu().numpy()
    moves[parameters.active] = True
    if moves.sum() == parameters.active.size:
        return None
    active = np.flatnonzero(moves)
    return replace(parameters, theta=complete[torch.as_tensor(active)], active=active)
