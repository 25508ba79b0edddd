"""Activation functions with their derivatives, so that a bank's backward pass needs no tape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Activation:
    """A function and the product of a gradient with its derivative.

    Where the derivative can be told from the result, ``forward`` overwrites its argument and ``backward`` is
    given the result; otherwise ``backward`` is given the argument.
    """

    forward: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]
    overwrites: bool = True
    piecewise_linear: bool = False


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(
        torch.relu_,
        lambda gradient, result: aten.threshold_backward(gradient, result, 0.0),
        piecewise_linear=True,
    ),
    "clipped_relu": Activation(
        lambda argument: argument.clamp_(0.0, 1.0),
        lambda gradient, result: aten.hardtanh_backward(gradient, result, 0.0, 1.0),
        piecewise_linear=True,
    ),
    "tanh": Activation(torch.tanh_, lambda gradient, result: aten.tanh_backward(gradient, result)),
    "gelu": Activation(
        functional.gelu, lambda gradient, argument: aten.gelu_backward(gradient, argument), overwrites=False
    ),
    "silu": Activation(
        functional.silu, lambda gradient, argument: aten.silu_backward(gradient, argument), overwrites=False
    ),
}
ACTIVATION_NAMES = (*ACTIVATIONS, "exu")
