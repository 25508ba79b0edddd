"""Update rules as pure functions: from a gradient and a memory to a direction, a metric and a new memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What a rule remembers of earlier gradients: tensors of the parameters' shape, and their number."""

    count: int = 0
    tensors: tuple[Tensor, ...] = ()

    def take(self, rows: Tensor) -> Self:
        """Return the memory of some rows of θ."""
        return type(self)(self.count, tuple(tensor[rows] for tensor in self.tensors))


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """θ moves by -rate · metric · direction; the metric is 1 where it is None."""

    direction: Tensor
    metric: Tensor | None
    memory: Memory


class Rule(Protocol):
    """One way of turning gradients into moves."""

    def move(self, gradient: Tensor, memory: Memory) -> Move:
        """Return the move for a gradient of shape (rows, columns)."""
        ...


@dataclass(frozen=True, slots=True)
class GradientDescent:
    """The gradient itself."""

    def move(self, gradient: Tensor, memory: Memory) -> Move:
        """Return the gradient."""
        return Move(gradient, None, memory)


@dataclass(frozen=True, slots=True)
class Momentum:
    """A running mean of the gradients, so that the rate keeps its meaning in a proximal step."""

    decay: float = 0.9

    def move(self, gradient: Tensor, memory: Memory) -> Move:
        """Return the running mean, corrected for its start from zero."""
        count = memory.count + 1
        mean = memory.tensors[0] if memory.tensors else torch.zeros_like(gradient)
        mean = torch.lerp(mean, gradient, 1.0 - self.decay)
        return Move(mean / (1.0 - self.decay**count), None, Memory(count, (mean,)))


@dataclass(frozen=True, slots=True)
class Adagrad:
    """Metric 1/√(sum of squared gradients) (Duchi et al., 2011)."""

    epsilon: float = 1e-10

    def move(self, gradient: Tensor, memory: Memory) -> Move:
        """Return the gradient in its accumulated metric."""
        squares = memory.tensors[0] if memory.tensors else torch.zeros_like(gradient)
        squares = torch.addcmul(squares, gradient, gradient)
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
        """Return the running mean and its metric."""
        count = memory.count + 1
        squared = gradient.square()
        if self.by_row:
            squared = squared.mean(1, keepdim=True)
        mean, square = memory.tensors or (torch.zeros_like(gradient), torch.zeros_like(squared))
        mean = torch.lerp(mean, gradient, 1.0 - self.mean_decay)
        square = torch.lerp(square, squared, 1.0 - self.square_decay)
        scale = (square / (1.0 - self.square_decay**count)).sqrt_().add_(self.epsilon)
        return Move(mean / (1.0 - self.mean_decay**count), scale.reciprocal_(), Memory(count, (mean, square)))
