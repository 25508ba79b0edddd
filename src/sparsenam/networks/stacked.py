"""Forward and backward pass of stacked perceptrons, written out.

The tape of autograd would give the same numbers; writing the backward pass out fills one flat gradient in
place and took 5.2 ms instead of 7.2 ms a step (24 features, 100-50 hidden, batch 256, one thread).
"""

# pyright: reportIncompatibleMethodOverride=false
from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.autograd import Function

if TYPE_CHECKING:
    from sparsenam.networks.bank import Dropout
    from sparsenam.networks.mlp import MLPBank


def stacked_effects(theta: Tensor, x: Tensor, bank: MLPBank, dropout: Dropout | None) -> Tensor:
    """Return the effects of all sub-networks, shape (features, rows, outputs), differentiable in θ."""
    return cast(Tensor, StackedPass.apply(theta, x, bank, dropout))  # pyright: ignore[reportUnknownMemberType]


class StackedPass(Function):
    """Effects of all sub-networks as one differentiable operation of θ."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, x: Tensor, bank: MLPBank, dropout: Dropout | None) -> Tensor:
        """Return the effects, shape (features, rows, outputs), for x of shape (features, rows)."""
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
        """Return ∂/∂θ given ∂/∂effects, shape (features, rows, outputs)."""
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
