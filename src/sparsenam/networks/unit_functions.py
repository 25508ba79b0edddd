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

    def effects(self, theta: Tensor, x: Tensor, dropout: Dropout | None = None) -> Tensor:
        """Return aⱼ uⱼ/‖uⱼ‖ₙ, shape (features, rows, outputs)."""
        raw = self.inner.effects(theta[:, : self.inner.size].contiguous(), x, dropout)
        centred = raw - raw.mean(1, keepdim=True)
        lengths = centred.square().mean(1, keepdim=True).sqrt().clamp_min(TINY)
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

    def wrap(self, inner_theta: Tensor, x: Tensor) -> Tensor:
        """Return θ with which the effects equal the centred ones of ``inner``, shape (features, size)."""
        return torch.cat([inner_theta, self._lengths(inner_theta, x)], dim=1)

    def unwrap(self, theta: Tensor, x: Tensor) -> Tensor:
        """Return θ of ``inner`` with the amplitudes folded into its output layer."""
        inner_theta = theta[:, : self.inner.size].clone()
        factors = theta[:, self.output_columns] / self._lengths(inner_theta, x).clamp_min(TINY)
        columns = self.inner.output_columns
        by_output = inner_theta[:, columns].view(theta.shape[0], -1, self.outputs)
        inner_theta[:, columns] = (by_output * factors[:, None, :]).reshape(theta.shape[0], -1)
        return inner_theta

    def _lengths(self, inner_theta: Tensor, x: Tensor) -> Tensor:
        raw = self.inner.effects(inner_theta, x)
        return (raw - raw.mean(1, keepdim=True)).square().mean(1).sqrt()
