"""Banks in PyTorch: all sub-networks as one differentiable operation, and those whose norm is that of the function."""

# pyright: reportIncompatibleMethodOverride=false
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from sparsenam.networks.bank import Dropout, MLPBank, SubnetBank

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Operation:
    """An activation and the product of a gradient with its derivative.

    Where the derivative follows from the result, ``forward`` overwrites its argument and ``backward`` is
    given the result; otherwise ``backward`` is given the argument. ``backward`` overwrites the gradient: memory that
    was just written is in the cache, fresh memory is not.
    """

    forward: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]
    overwrites: bool = True


OPERATIONS: dict[str, Operation] = {
    "relu": Operation(
        torch.relu_,
        lambda gradient, result: aten.threshold_backward.grad_input(gradient, result, 0.0, grad_input=gradient),
    ),
    "clipped_relu": Operation(
        lambda argument: argument.clamp_(0.0, 1.0),
        lambda gradient, result: aten.hardtanh_backward.grad_input(gradient, result, 0.0, 1.0, grad_input=gradient),
    ),
    "tanh": Operation(
        torch.tanh_, lambda gradient, result: aten.tanh_backward.grad_input(gradient, result, grad_input=gradient)
    ),
    "gelu": Operation(
        functional.gelu,
        lambda gradient, argument: aten.gelu_backward.grad_input(gradient, argument, grad_input=gradient),
        overwrites=False,
    ),
    "silu": Operation(
        functional.silu,
        lambda gradient, argument: aten.silu_backward.grad_input(gradient, argument, grad_input=gradient),
        overwrites=False,
    ),
}


class StackedPass(Function):
    """Effects of all sub-networks as one differentiable operation of θ."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, x: Tensor, bank: MLPBank, dropout: Dropout | None) -> Tensor:
        """Return the effects, shape (terms, rows, outputs), for x of shape (terms, rows)."""
        *hidden, output = bank.tensors(theta)
        layer_input = x.unsqueeze(2)
        saved: list[tuple[Tensor, Tensor, Tensor | None]] = []
        for layer, name in enumerate(bank.activations):
            operation = OPERATIONS[name]
            weight, bias = hidden[2 * layer], hidden[2 * layer + 1]
            if layer > 0:
                argument = torch.baddbmm(bias, layer_input, weight)
            elif bank.exponential_units:
                argument = (layer_input - bias) * weight.exp()
            else:
                argument = torch.addcmul(bias, layer_input, weight)
            result = operation.forward(argument)
            mask = None if dropout is None else dropout.mask(result)
            saved.append((layer_input, result if operation.overwrites else argument, mask))
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
        delta: Any
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
            delta = OPERATIONS[bank.activations[layer]].backward(delta, kept)
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


LEAST_DEVIATION = 1e-12  # of a root mean square, where a sub-network is constant


@dataclass(frozen=True, slots=True, eq=False)
class UnitFunctions:
    """fⱼ = aⱼ uⱼ/‖uⱼ‖ₙ with uⱼ the centred output of ``inner``.

    ‖·‖ₙ is the root mean square over the rows at hand. Then ‖fⱼ‖ₙ = ‖aⱼ‖, so the group norm
    of SPAM is the norm of the last columns of θ, the amplitudes.
    """

    inner: SubnetBank

    @property
    def outputs(self) -> int:
        return self.inner.outputs

    @property
    def size(self) -> int:
        """Number of columns of θ: those of ``inner`` and one amplitude for each output."""
        return self.inner.size + self.outputs

    @property
    def output_columns(self) -> slice:
        return slice(self.inner.size, self.size)

    def effects(
        self, theta: Tensor, x: Tensor, dropout: Dropout | None = None, weights: Tensor | None = None
    ) -> Tensor:
        """Return aⱼ uⱼ/‖uⱼ‖ₙ, shape (terms, rows, outputs); ``weights`` of the rows enter mean and norm."""
        raw = self.inner.effects(theta[:, : self.inner.size].contiguous(), x, dropout)
        centred, lengths = _centred(raw, weights)
        return centred / lengths * theta[:, None, self.output_columns]

    def draw(self, term: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return a draw of ``inner`` with amplitudes 1; `wrap` sets them to the size of its effects."""
        return np.concatenate([self.inner.draw(term, generator), np.ones(self.outputs)])

    def padding(self) -> NDArray[np.bool_] | None:
        """Return the padding of ``inner``; amplitudes are never padding."""
        padding = self.inner.padding()
        return None if padding is None else np.pad(np.asarray(padding), ((0, 0), (0, self.outputs)))

    def take(self, terms: NDArray[np.intp]) -> Self:
        return type(self)(self.inner.take(terms))

    def wrap(self, inner_theta: Tensor, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return θ with which the effects equal the centred ones of ``inner``, shape (terms, size)."""
        _, lengths = _centred(self.inner.effects(inner_theta, x), weights)
        return torch.cat([inner_theta, lengths[:, 0]], dim=1)

    def unwrap(self, theta: Tensor, x: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return θ of ``inner`` with the amplitudes folded in, and what its effects add beyond ours, (outputs,)."""
        inner_theta = theta[:, : self.inner.size].clone()
        raw = self.inner.effects(inner_theta, x).detach()
        centred, lengths = _centred(raw, weights)
        factors = theta[:, self.output_columns] / lengths[:, 0]
        columns = self.inner.output_columns
        shape = theta.shape[0], (columns.stop - columns.start) // self.outputs, self.outputs
        by_output = inner_theta[:, columns].view(shape)
        inner_theta[:, columns] = (by_output * factors[:, None, :]).flatten(1)
        return inner_theta, ((raw - centred)[:, 0] * factors).sum(0)


def _centred(raw: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return raw - mean and the root mean square of that, shapes (terms, rows | 1, outputs).

    The floor stands before the root, where the derivative of a term that is constant in these rows is 0.
    """
    weights = raw.new_ones(raw.shape[1]) if weights is None else weights
    shares = (weights / weights.sum())[None, :, None]
    centred = raw - (shares * raw).sum(1, keepdim=True)
    squares = (shares * centred.square()).sum(1, keepdim=True)
    return centred, squares.clamp_min(LEAST_DEVIATION**2).sqrt()
