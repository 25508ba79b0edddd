"""What a bank of sub-networks is: pure functions of one matrix of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Dropout:
    """Random dropping of hidden units: a share of them is set to zero, the others are scaled up."""

    def __init__(self, share: float, generator: torch.Generator) -> None:
        self.share = share
        self.generator = generator

    def mask(self, like: Tensor) -> Tensor:
        """Return zeros and 1/(1 - share), in the shape and type of ``like``."""
        kept = torch.empty_like(like).bernoulli_(1.0 - self.share, generator=self.generator)
        return kept.div_(1.0 - self.share)


class SubnetBank(Protocol):
    """One sub-network for each term, all with one layout of parameters.

    The parameters θ are a matrix of shape (terms, size): a row is a sub-network, so a norm is a reduction
    along a row, pruning is taking rows, and a proximal step multiplies rows. The bank itself holds no
    parameters. Any object with these members is a bank; give ``hidden`` a callable
    ``(names, outputs) -> SubnetBank`` that returns it.
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
        """Return the outputs, shape (terms, rows, outputs), for x of shape (terms, rows)."""
        ...

    def draw(self, term: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return random initial parameters of one sub-network, shape (size,)."""
        ...

    def padding(self) -> Tensor | None:
        """Return which entries of θ must stay zero, boolean, the shape of θ; None when there are none."""
        ...

    def take(self, terms: NDArray[np.intp]) -> Self:
        """Return the bank of these terms alone, in the same layout."""
        ...


TINY = 1e-12  # of a root mean square, where a sub-network is constant


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
        """Return aⱼ uⱼ/‖uⱼ‖ₙ, shape (terms, rows, outputs); ``weights`` of the rows enter mean and norm."""
        raw = self.inner.effects(theta[:, : self.inner.size].contiguous(), x, dropout)
        centred, lengths = _centred(raw, weights)
        return centred / lengths * theta[:, None, self.output_columns]

    def draw(self, term: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return a draw of ``inner`` with amplitudes 1; `wrap` sets them to the size of its effects."""
        return np.concatenate([self.inner.draw(term, generator), np.ones(self.outputs)])

    def padding(self) -> Tensor | None:
        """Return the padding of ``inner``; amplitudes are never padding."""
        padding = self.inner.padding()
        if padding is None:
            return None
        return torch.cat([padding, torch.zeros(padding.shape[0], self.outputs, dtype=torch.bool)], dim=1)

    def take(self, terms: NDArray[np.intp]) -> Self:
        """Return the bank of these terms alone."""
        return type(self)(self.inner.take(terms))

    def wrap(self, inner_theta: Tensor, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return θ with which the effects equal the centred ones of ``inner``, shape (terms, size)."""
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
    """Return raw - mean and the root mean square of that, shapes (terms, rows | 1, outputs).

    The floor stands before the root, where the derivative of a term that is constant in these rows is 0.
    """
    if weights is None:
        centred = raw - raw.mean(1, keepdim=True)
        squares = centred.square().mean(1, keepdim=True)
    else:
        shares = (weights / weights.sum())[None, :, None]
        centred = raw - (shares * raw).sum(1, keepdim=True)
        squares = (shares * centred.square()).sum(1, keepdim=True)
    return centred, squares.clamp_min(TINY**2).sqrt()
