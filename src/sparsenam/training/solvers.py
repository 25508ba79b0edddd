"""The solvers by name: an update rule, a schedule, a way to meet the penalty, and how many rows a step sees."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sparsenam.errors import check_word

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What a rule remembers of earlier gradients: tensors of the parameters' shape, and their number."""

    count: int = 0
    tensors: tuple[Tensor, ...] = ()

    def take(self, rows: Tensor) -> Self:
        return type(self)(self.count, tuple(tensor[rows] for tensor in self.tensors))


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """θ moves by -rate · metric · direction."""

    direction: Tensor
    memory: Memory
    metric: Tensor | float = 1.0


UpdateRule = Callable[["Tensor", Memory], Move]  # the move for a gradient of shape (rows, columns)


def plain_gradient(gradient: Tensor, memory: Memory) -> Move:
    """Move along the gradient itself."""
    return Move(gradient, memory)


def momentum(gradient: Tensor, memory: Memory) -> Move:
    """Move along a running mean of the gradients, so that the rate keeps its meaning in a proximal step."""
    decay, count = 0.9, memory.count + 1
    mean = memory.tensors[0] if memory.tensors else gradient.new_zeros(gradient.shape)
    mean = mean.lerp(gradient, 1.0 - decay)
    return Move(mean / (1.0 - decay**count), Memory(count, (mean,)))


def adagrad(gradient: Tensor, memory: Memory) -> Move:
    """Move in the metric 1/√(sum of squared gradients) (Duchi et al., 2011)."""
    squares = memory.tensors[0] if memory.tensors else gradient.new_zeros(gradient.shape)
    squares = squares.addcmul(gradient, gradient)
    return Move(gradient, Memory(memory.count + 1, (squares,)), 1.0 / (squares.sqrt() + 1e-10))


def adam(gradient: Tensor, memory: Memory, *, by_row: bool = False) -> Move:
    """Move along a running mean in the metric 1/√(running mean square) (Kingma and Ba, 2015).

    ``by_row`` keeps one second moment for each row of θ instead of one for each entry: then the metric is a
    number for each group, and every penalty's proximal step stays exact.
    """
    mean_decay, square_decay, count = 0.9, 0.999, memory.count + 1
    squared = gradient.square()
    if by_row:
        squared = squared.mean(1, keepdim=True)
    mean, square = memory.tensors or (gradient.new_zeros(gradient.shape), squared.new_zeros(squared.shape))
    mean = mean.lerp(gradient, 1.0 - mean_decay)
    square = square.lerp(squared, 1.0 - square_decay)
    scale = (square / (1.0 - square_decay**count)).sqrt_().add_(1e-8)
    return Move(mean / (1.0 - mean_decay**count), Memory(count, (mean, square)), scale.reciprocal_())


Schedule = Callable[[float], float]

SCHEDULES: dict[str, Schedule] = {
    "constant": lambda done: 1.0,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0))),
    "exponential": lambda done: 0.01 ** min(done, 1.0),
}


def as_schedule(schedule: str | Schedule) -> Schedule:
    """Return the schedule of a name, or the callable itself."""
    if callable(schedule):
        return schedule
    check_word("schedule", schedule, tuple(SCHEDULES))
    return SCHEDULES[schedule]


@dataclass(frozen=True, slots=True)
class Solver:
    """How a fit moves.

    Proximal solvers reach exact zeros. Subgradient ones never do: their support is decided by a stated
    threshold. Full-batch solvers run in double precision to a tolerance; proximal full-batch solvers find
    their step by backtracking.
    """

    name: str
    rule: UpdateRule
    proximal: bool
    full_batch: bool = False
    accelerated: bool = False
    learning_rate: float = 0.01

    @property
    def searches_step(self) -> bool:
        """Whether the step is found by backtracking."""
        return self.proximal and self.full_batch


SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        Solver("gd", plain_gradient, proximal=False, full_batch=True, learning_rate=0.1),
        Solver("sgd", plain_gradient, proximal=False, learning_rate=0.1),
        Solver("momentum", momentum, proximal=False, learning_rate=0.1),
        Solver("adagrad", adagrad, proximal=False),
        Solver("adam", adam, proximal=False, learning_rate=0.005),
        Solver("prox_gd", plain_gradient, proximal=True, full_batch=True),
        Solver("fista", plain_gradient, proximal=True, full_batch=True, accelerated=True),
        Solver("prox_sgd", momentum, proximal=True, learning_rate=0.1),
        Solver("prox_adam", adam, proximal=True, learning_rate=0.005),
    )
}
