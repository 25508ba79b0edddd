"""Sub-networks of unit size with an amplitude each: a penalty on the amplitude is one on the function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.networks.bank import Dropout, SubnetBank

TINY = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class UnitFunctions:
    """fⱼ = aⱼ uⱼ/‖uⱼ‖ₙ with uⱼ the centred output of ``inner``.

    ‖·‖ₙ is the root mean square over the rows at hand. Then ‖fⱼ‖ₙ = ‖aⱼ‖, so the group norm
    of SPAM is the norm of the last columns of θ, the amplitudes.
    """

    inner: SubnetBank

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.inner.outputs

    @property
    def size(self) -> int:
        """Number of columns of θ: those of ``inner`` and one amplitude for each output."""
        return self.inner.size + self.outputs

    @property
    def output_columns(self) -> slice:
        """The amplitudes."""
        return slice(self.inner.size, self.size)

    def effects(
        self, theta: Tensor, x: Tensor, dropout: Dropout | None = None, weights: Tensor | None = None
    ) -> Tensor:
        """Return aⱼ uⱼ/‖uⱼ‖ₙ, shape (features, rows, outputs); ``weights`` of the rows enter mean and norm."""
        raw = self.inner.effects(theta[:, : self.inner.size].contiguous(), x, dropout)
        centred, lengths = _centred(raw, weights)
        return centred / lengths * theta[:, None, self.output_columns]

    def draw(self, feature: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return a draw of ``inner`` with unit amplitudes; `wrap` sets them to the draw's own size."""
        return np.concatenate([self.inner.draw(feature, generator), np.ones(self.outputs)])

    def padding(self) -> Tensor | None:
        """Return the padding of ``inner``; amplitudes are never padding."""
        padding = self.inner.padding()
        if padding is None:
            return None
        return torch.cat([padding, torch.zeros(padding.shape[0], self.outputs, dtype=torch.bool)], dim=1)

    def take(self, features: NDArray[np.intp]) -> Self:
        """Return the bank of these features alone."""
        return type(self)(self.inner.take(features))

    def wrap(self, inner_theta: Tensor, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return θ with which the effects equal the centred ones of ``inner``, shape (features, size)."""
        return torch.cat([inner_theta, self._lengths(inner_theta, x, weights)], dim=1)

    def unwrap(self, theta: Tensor, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return θ of ``inner`` with the amplitudes folded into its output layer."""
        inner_theta = theta[:, : self.inner.size].clone()
        factors = theta[:, self.output_columns] / self._lengths(inner_theta, x, weights)
        columns = self.inner.output_columns
        width = columns.stop - columns.start
        by_output = inner_theta[:, columns].view(theta.shape[0], width // self.outputs, self.outputs)
        inner_theta[:, columns] = (by_output * factors[:, None, :]).reshape(theta.shape[0], width)
        return inner_theta

    def _lengths(self, inner_theta: Tensor, x: Tensor, weights: Tensor | None) -> Tensor:
        return _centred(self.inner.effects(inner_theta, x), weights)[1][:, 0]


def _centred(raw: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return raw - mean and the root mean square of that, shapes (features, rows | 1, outputs).

    The floor stands before the root, where the derivative of a feature that is constant in these rows is 0.
    """
    if weights is None:
        centred = raw - raw.mean(1, keepdim=True)
        squares = centred.square().mean(1, keepdim=True)
    else:
        shares = (weights / weights.sum())[None, :, None]
        centred = raw - (shares * raw).sum(1, keepdim=True)
        squares = (shares * centred.square()).sum(1, keepdim=True)
    return centred, squares.clamp_min(TINY**2).sqrt()
