"""The solvers by name: an update rule, a schedule, a way to meet the penalty, and how many rows a step sees."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, Self

from sparsenam.errors import InputError, describe
from sparsenam.penalties import Penalty, WeightedLasso

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
    """θ moves by -rate · metric · direction; the metric is 1 where it is None."""

    direction: Tensor
    metric: Tensor | None
    memory: Memory


class UpdateRule(Protocol):
    """One way of turning gradients into moves."""

    def move(self, gradient: Tensor, memory: Memory) -> Move:
        """Return the move for a gradient of shape (rows, columns)."""
        ...


@dataclass(frozen=True, slots=True)
class GradientDescent:
    """The gradient itself."""

    def move(self, gradient: Tensor, memory: Memory) -> Move:
        return Move(gradient, None, memory)


@dataclass(frozen=True, slots=True)
class Momentum:
    """A running mean of the gradients, so that the rate keeps its meaning in a proximal step."""

    decay: float = 0.9

    def move(self, gradient: Tensor, memory: Memory) -> Move:
        """Return the running mean, corrected for its start from zero."""
        count = memory.count + 1
        mean = memory.tensors[0] if memory.tensors else gradient.new_zeros(gradient.shape)
        mean = mean.lerp(gradient, 1.0 - self.decay)
        return Move(mean / (1.0 - self.decay**count), None, Memory(count, (mean,)))


@dataclass(frozen=True, slots=True)
class Adagrad:
    """Metric 1/√(sum of squared gradients) (Duchi et al., 2011)."""

    epsilon: float = 1e-10

    def move(self, gradient: Tensor, memory: Memory) -> Move:
        squares = memory.tensors[0] if memory.tensors else gradient.new_zeros(gradient.shape)
        squares = squares.addcmul(gradient, gradient)
        return Move(gradient, 1.0 / (squares.sqrt() + self.epsilon), Memory(memory.count + 1, (squares,)))


@dataclass(frozen=True, slots=True)
class Adam:
    """Running mean in the metric 1/√(running mean square) (Kingma and Ba, 2015).

    ``by_row`` keeps one second moment for each row of θ instead of one for each entry: then the metric is a
    number for each group, and every penalty's proximal step stays exact.
    """

    mean_decay: float = 0.9
    square_decay: float = 0.999
    epsilon: float = 1e-8
    by_row: bool = False

    def move(self, gradient: Tensor, memory: Memory) -> Move:
        count = memory.count + 1
        squared = gradient.square()
        if self.by_row:
            squared = squared.mean(1, keepdim=True)
        mean, square = memory.tensors or (gradient.new_zeros(gradient.shape), squared.new_zeros(squared.shape))
        mean = mean.lerp(gradient, 1.0 - self.mean_decay)
        square = square.lerp(squared, 1.0 - self.square_decay)
        scale = (square / (1.0 - self.square_decay**count)).sqrt_().add_(self.epsilon)
        return Move(mean / (1.0 - self.mean_decay**count), scale.reciprocal_(), Memory(count, (mean, square)))


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
    if schedule not in SCHEDULES:
        expected = f"one of {sorted(SCHEDULES)} or a callable of the share of epochs done"
        raise InputError(describe("schedule", expected, repr(schedule), "choose one"))
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

    def suited_to(self, penalty: Penalty) -> Solver:
        """Return the solver with one second moment a group where a metric for each entry has no exact step."""
        if self.proximal and isinstance(self.rule, Adam) and not isinstance(penalty, WeightedLasso):
            return replace(self, rule=replace(self.rule, by_row=True))
        return self


SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        Solver("gd", GradientDescent(), proximal=False, full_batch=True, learning_rate=0.1),
        Solver("sgd", GradientDescent(), proximal=False, learning_rate=0.1),
        Solver("momentum", Momentum(), proximal=False, learning_rate=0.1),
        Solver("adagrad", Adagrad(), proximal=False),
        Solver("adam", Adam(), proximal=False, learning_rate=0.005),
        Solver("prox_gd", GradientDescent(), proximal=True, full_batch=True),
        Solver("fista", GradientDescent(), proximal=True, full_batch=True, accelerated=True),
        Solver("prox_sgd", Momentum(), proximal=True, learning_rate=0.1),
        Solver("prox_adam", Adam(), proximal=True, learning_rate=0.005),
    )
}


def as_solver(name: str) -> Solver:
    """Return the solver of a name."""
    if name not in SOLVERS:
        raise InputError(describe("solver", f"one of {sorted(SOLVERS)}", repr(name), "choose a name"))
    return SOLVERS[name]
