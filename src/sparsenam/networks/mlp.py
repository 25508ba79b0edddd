"""The paper's sub-networks: multi-layer perceptrons of one input, stacked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, expit

if TYPE_CHECKING:
    from torch import Tensor

    from sparsenam.networks.bank import Dropout

Array = TypeVar("Array", bound=Any)  # numpy or torch
Vector = NDArray[np.float64]

ACTIVATIONS: dict[str, Callable[[Vector], Vector]] = {
    "relu": lambda argument: np.maximum(argument, 0.0),
    "clipped_relu": lambda argument: np.clip(argument, 0.0, 1.0),
    "tanh": np.tanh,
    "gelu": lambda argument: 0.5 * argument * (1.0 + erf(argument / np.sqrt(2.0))),
    "silu": lambda argument: argument * expit(argument),
}
PIECEWISE_LINEAR = ("relu", "clipped_relu")
ACTIVATION_NAMES = (*ACTIVATIONS, "exu")


@dataclass(frozen=True, slots=True, eq=False)
class MLPBank:
    """Stacked perceptrons: biases in the hidden layers only, as in the paper's appendix D.

    Parameters
    ----------
    hidden
        Hidden widths; of the widest sub-network where they differ.
    outputs
        Number of outputs.
    activation
        A name of `ACTIVATIONS`, or ``"exu"``, whose first layer computes clip(eʷ(x - b), 0, 1) (Agarwal et
        al., 2021). After a first layer of ``"exu"`` or ``"clipped_relu"`` the others are ReLU.
    widths
        Hidden widths of each term, shape (terms, hidden layers), where they differ. Narrower
        sub-networks are padded with entries that stay zero.
    """

    hidden: tuple[int, ...]
    outputs: int
    activation: str
    widths: NDArray[np.intp] | None = None

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Shapes of the tensors in the order of θ: weight and bias of each hidden layer, output weight."""
        shapes: list[tuple[int, int]] = []
        for before, after in pairwise((1, *self.hidden)):
            shapes += [(before, after), (1, after)]
        return [*shapes, ((1, *self.hidden)[-1], self.outputs)]

    @property
    def size(self) -> int:
        """Number of columns of θ."""
        return sum(rows * columns for rows, columns in self.shapes)

    @property
    def output_columns(self) -> slice:
        """The columns of the output layer."""
        rows, columns = self.shapes[-1]
        return slice(self.size - rows * columns, self.size)

    @property
    def activations(self) -> list[str]:
        """The name of the activation of each hidden layer."""
        clipped = self.activation in ("exu", "clipped_relu")
        first = "clipped_relu" if clipped else self.activation
        others = "relu" if clipped else first
        return [first if layer == 0 else others for layer in range(len(self.hidden))]

    @property
    def exponential_units(self) -> bool:
        """Whether the first layer computes eʷ(x - b)."""
        return self.activation == "exu" and len(self.hidden) > 0

    @property
    def piecewise_linear(self) -> bool:
        """Whether every sub-network is a piecewise linear function of its input."""
        return all(activation in PIECEWISE_LINEAR for activation in self.activations)

    def tensors(self, theta: Array) -> list[Array]:
        """Return the layers' tensors as views of θ, each of shape (terms, in, out)."""
        views: list[Array] = []
        start = 0
        for rows, columns in self.shapes:
            views.append(theta[:, start : start + rows * columns].reshape(theta.shape[0], rows, columns))
            start += rows * columns
        return views

    def effects(self, theta: Tensor, x: Tensor, dropout: Dropout | None = None) -> Tensor:
        """Return every sub-network's output, shape (terms, rows, outputs), differentiable in θ."""
        from sparsenam.networks.stacked import stacked_effects  # and PyTorch, which only training needs

        return stacked_effects(self, theta, x, dropout)

    def values(self, theta: Vector, x: Vector) -> Vector:
        """Return every sub-network's output, shape (terms, rows, outputs), for x of shape (terms, rows)."""
        return self.arguments(theta, x, len(self.hidden))

    def arguments(self, theta: Vector, x: Vector, layer: int) -> Vector:
        """Return the arguments of the units of a layer (terms, rows, units); after the hidden ones come the outputs."""
        if layer == len(self.hidden):
            units = self.units(theta, x)
            return np.matmul(units, self.tensors(theta)[-1])
        weight, bias = self.tensors(theta)[2 * layer : 2 * layer + 2]
        if layer > 0:
            return np.matmul(self.units(theta, x, layer), weight) + bias
        return (x[:, :, None] - bias) * np.exp(weight) if self.exponential_units else x[:, :, None] * weight + bias

    def units(self, theta: Vector, x: Vector, layers: int | None = None) -> Vector:
        """Return the units of the last of some hidden layers, by default of all, shape (terms, rows, units)."""
        layers = len(self.hidden) if layers is None else layers
        if layers == 0:
            return x[:, :, None]
        return ACTIVATIONS[self.activations[layers - 1]](self.arguments(theta, x, layers - 1))

    def draw(self, term: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return random initial parameters, shape (size,).

        PyTorch's default for linear layers, U(±1/√fan-in), and normal draws for ExU.
        """
        widths = self.hidden if self.widths is None else tuple(int(width) for width in self.widths[term])
        parts: list[NDArray[np.float64]] = []
        fan_ins, fan_outs = (1, *widths), (*widths, self.outputs)
        layouts = zip((1, *self.hidden), (*self.hidden, self.outputs), strict=True)
        layers = zip(fan_ins, fan_outs, layouts, strict=True)
        for layer, (fan_in, fan_out, (rows, columns)) in enumerate(layers):
            weight, bias = np.zeros((rows, columns)), np.zeros(columns)
            bound = 1.0 / np.sqrt(fan_in)
            if layer == 0 and self.exponential_units:
                weight[:fan_in, :fan_out] = generator.normal(3.0, 0.5, (fan_in, fan_out))
                bias[:fan_out] = generator.normal(0.0, 1.0, fan_out)
            else:
                weight[:fan_in, :fan_out] = generator.uniform(-bound, bound, (fan_in, fan_out))
                bias[:fan_out] = generator.uniform(-bound, bound, fan_out)
            parts += [weight.ravel(), bias] if layer < len(widths) else [weight.ravel()]
        return np.concatenate(parts)

    def padding(self) -> NDArray[np.bool_] | None:
        """Return the entries of θ beyond the widths of narrower sub-networks."""
        if self.widths is None:
            return None
        inside: list[NDArray[np.bool_]] = []
        before = np.ones((len(self.widths), 1), dtype=np.bool_)
        for layer, width in enumerate(self.hidden):
            after = np.arange(width) < self.widths[:, layer, None]
            inside += [(before[:, :, None] & after[:, None, :]).reshape(len(after), -1), after]
            before = after
        inside.append(np.repeat(before, self.outputs, axis=1))
        return ~np.concatenate(inside, axis=1)

    def take(self, terms: NDArray[np.intp]) -> Self:
        """Return the bank of these terms, in the same layout."""
        if self.widths is None:
            return self
        return type(self)(self.hidden, self.outputs, self.activation, self.widths[terms])
