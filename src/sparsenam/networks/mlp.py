"""The paper's sub-networks: multi-layer perceptrons of one input, stacked, with the backward pass written out."""

# pyright: reportIncompatibleMethodOverride=false
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from sparsenam.networks.bank import Dropout

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Activation:
    """A function and the product of a gradient with its derivative.

    Where the derivative follows from the result, ``forward`` overwrites its argument and ``backward`` is
    given the result; otherwise ``backward`` is given the argument. ``backward`` overwrites the gradient: memory that
    was just written is in the cache, fresh memory is not.
    """

    forward: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]
    overwrites: bool = True
    piecewise_linear: bool = False


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(
        torch.relu_,
        lambda gradient, result: aten.threshold_backward.grad_input(gradient, result, 0.0, grad_input=gradient),
        piecewise_linear=True,
    ),
    "clipped_relu": Activation(
        lambda argument: argument.clamp_(0.0, 1.0),
        lambda gradient, result: aten.hardtanh_backward.grad_input(gradient, result, 0.0, 1.0, grad_input=gradient),
        piecewise_linear=True,
    ),
    "tanh": Activation(
        torch.tanh_, lambda gradient, result: aten.tanh_backward.grad_input(gradient, result, grad_input=gradient)
    ),
    "gelu": Activation(
        functional.gelu,
        lambda gradient, argument: aten.gelu_backward.grad_input(gradient, argument, grad_input=gradient),
        overwrites=False,
    ),
    "silu": Activation(
        functional.silu,
        lambda gradient, argument: aten.silu_backward.grad_input(gradient, argument, grad_input=gradient),
        overwrites=False,
    ),
}
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
    def activations(self) -> list[Activation]:
        """The activation of each hidden layer."""
        clipped = self.activation in ("exu", "clipped_relu")
        first = ACTIVATIONS["clipped_relu" if clipped else self.activation]
        others = ACTIVATIONS["relu"] if clipped else first
        return [first if layer == 0 else others for layer in range(len(self.hidden))]

    @property
    def exponential_units(self) -> bool:
        """Whether the first layer computes eʷ(x - b)."""
        return self.activation == "exu" and len(self.hidden) > 0

    @property
    def piecewise_linear(self) -> bool:
        """Whether every sub-network is a piecewise linear function of its input."""
        return all(activation.piecewise_linear for activation in self.activations)

    def tensors(self, theta: Tensor) -> list[Tensor]:
        """Return the layers' tensors as views of θ, each of shape (terms, in, out)."""
        views: list[Tensor] = []
        start = 0
        for rows, columns in self.shapes:
            views.append(theta[:, start : start + rows * columns].view(theta.shape[0], rows, columns))
            start += rows * columns
        return views

    def effects(self, theta: Tensor, x: Tensor, dropout: Dropout | None = None) -> Tensor:
        """Return every sub-network's output, shape (terms, rows, outputs), differentiable in θ."""
        return cast(Tensor, StackedPass.apply(theta, x, self, dropout))  # pyright: ignore[reportUnknownMemberType]

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

    def padding(self) -> Tensor | None:
        """Return the entries of θ beyond the widths of narrower sub-networks."""
        if self.widths is None:
            return None
        inside: list[Tensor] = []
        before = torch.ones(len(self.widths), 1, dtype=torch.bool)
        for layer, width in enumerate(self.hidden):
            after = torch.arange(width) < torch.as_tensor(self.widths[:, layer, None])
            inside += [(before[:, :, None] & after[:, None, :]).flatten(1), after]
            before = after
        inside.append(before.repeat_interleave(self.outputs, dim=1))
        return ~torch.cat(inside, dim=1)

    def take(self, terms: NDArray[np.intp]) -> Self:
        """Return the bank of these terms, in the same layout."""
        if self.widths is None:
            return self
        return type(self)(self.hidden, self.outputs, self.activation, self.widths[terms])


class StackedPass(Function):
    """Effects of all sub-networks as one differentiable operation of θ."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, x: Tensor, bank: MLPBank, dropout: Dropout | None) -> Tensor:
        """Return the effects, shape (terms, rows, outputs), for x of shape (terms, rows)."""
        *hidden, output = bank.tensors(theta)
        layer_input = x.unsqueeze(2)
        saved: list[tuple[Tensor, Tensor, Tensor | None]] = []
        for layer, activation in enumerate(bank.activations):
            weight, bias = hidden[2 * layer], hidden[2 * layer + 1]
            if layer > 0:
                argument = torch.baddbmm(bias, layer_input, weight)
            elif bank.exponential_units:
                argument = (layer_input - bias) * weight.exp()
            else:
                argument = torch.addcmul(bias, layer_input, weight)
            result = activation.forward(argument)
            mask = None if dropout is None else dropout.mask(result)
            saved.append((layer_input, result if activation.overwrites else argument, mask))
            layer_input = result if mask is None else result * mask
        ctx.theta, ctx.bank, ctx.saved, ctx.last = theta, bank, saved, layer_input
        if bank.outputs == 1:  # a matrix product with one column is three times slower
            return (layer_input * output.transpose(1, 2)).sum(2, keepdim=True)
        return torch.bmm(layer_input, output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        """Return ∂/∂θ given ∂/∂effects, shape (terms, rows, outputs)."""
        theta, bank, saved, last = ctx.theta, ctx.bank, ctx.saved, ctx.last
        flat = torch.empty_like(theta)
        *hidden, output = bank.tensors(theta)
        *hidden_gradients, output_gradient = bank.tensors(flat)
        if bank.outputs == 1:
            output_gradient.copy_((last * gradient).sum(1).unsqueeze(2))
            delta = gradient * output.transpose(1, 2) if saved else None
        else:
            output_gradient.copy_(torch.bmm(last.transpose(1, 2), gradient))
            delta = torch.bmm(gradient, output.transpose(1, 2)) if saved else None
        for layer in reversed(range(len(saved))):
            layer_input, kept, mask = saved[layer]
            if mask is not None:
                delta = delta * mask
            delta = bank.activations[layer].backward(delta, kept)
            weight, bias_gradient = hidden[2 * layer], hidden_gradients[2 * layer + 1]
            if layer == 0 and bank.exponential_units:
                # where the clipping lets a gradient through, the result equals eʷ(x - b)
                hidden_gradients[0].copy_((kept * delta).sum(1, keepdim=True))
                bias_gradient.copy_(delta.sum(1, keepdim=True) * -weight.exp())
                continue
            hidden_gradients[2 * layer].copy_(torch.bmm(layer_input.transpose(1, 2), delta))
            bias_gradient.copy_(delta.sum(1, keepdim=True))
            if layer > 0:
                delta = torch.bmm(delta, weight.transpose(1, 2))
        return flat, None, None, None
