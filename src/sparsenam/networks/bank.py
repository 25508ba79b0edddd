"""What a bank of sub-networks is: pure functions of one matrix of parameters."""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Dropout:
    """Random silence of hidden units: a share of them is set to zero, the others are scaled up."""

    def __init__(self, share: float, generator: torch.Generator) -> None:
        self.share = share
        self.generator = generator

    def mask(self, like: Tensor) -> Tensor:
        """Return zeros and 1/(1 - share), in the shape and type of ``like``."""
        kept = torch.empty_like(like).bernoulli_(1.0 - self.share, generator=self.generator)
        return kept.div_(1.0 - self.share)


class SubnetBank(Protocol):
    """One sub-network for each feature, all with one layout of parameters.

    The parameters θ are a matrix of shape (features, size): a row is a sub-network, so a norm is a reduction
    along a row, pruning is taking rows, and a proximal step multiplies rows. The bank itself holds no
    parameters. A bank of one's own is any object with these members; give ``hidden`` a callable
    ``(names, outputs) -> SubnetBank``.
    """

    @property
    def size(self) -> int:
        """Number of columns of θ."""
        ...

    @property
    def outputs(self) -> int:
        """Number of outputs of each sub-network."""
        ...

    @property
    def output_columns(self) -> slice:
        """The columns of θ that hold the output layer; the effects are linear in them."""
        ...

    def effects(self, theta: Tensor, x: Tensor, dropout: Dropout | None = None) -> Tensor:
        """Return the outputs, shape (features, rows, outputs), for x of shape (features, rows)."""
        ...

    def draw(self, feature: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return random initial parameters of one sub-network, shape (size,)."""
        ...

    def padding(self) -> Tensor | None:
        """Return which entries of θ must stay zero, boolean, the shape of θ; None when there are none."""
        ...

    def take(self, features: NDArray[np.intp]) -> Self:
        """Return the bank of these features alone, in the same layout."""
        ...
