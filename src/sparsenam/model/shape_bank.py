"""A bank of shapes: sub-networks that are given by their knots, as a stored model has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.model.shape import ShapeFunction, Vector
from sparsenam.networks import Dropout


@dataclass(frozen=True, slots=True, eq=False)
class ShapeBank:
    """Piecewise linear functions with fixed knots; a row of θ holds values at the knots and the two outer slopes.

    ``knots`` has one array (m_j,) for each feature. A row of θ is ``longest`` + 2 times ``outputs`` numbers: values
    at the knots, zeros up to the most knots of a feature, left slope, right slope. The effects are linear in θ.
    """

    knots: tuple[Vector, ...]
    outputs: int
    longest: int

    @classmethod
    def of(cls, shapes: Sequence[ShapeFunction], outputs: int) -> tuple[Self, Tensor]:
        """Return the bank of these shapes, and θ in double precision."""
        bank = cls(
            tuple(shape.knots for shape in shapes), outputs, max((own.knots.size for own in shapes), default=1)
        )
        theta = torch.zeros(len(shapes), bank.size, dtype=torch.float64)
        for row, shape in zip(theta.view(len(shapes), bank.longest + 2, outputs), shapes, strict=True):
            row[: shape.knots.size] = torch.as_tensor(shape.values)
            row[-2], row[-1] = torch.as_tensor(shape.left_slope), torch.as_tensor(shape.right_slope)
        return bank, theta

    @property
    def size(self) -> int:
        """Number of columns of θ."""
        return (self.longest + 2) * self.outputs

    @property
    def output_columns(self) -> slice:
        """All columns."""
        return slice(0, self.size)

    def shape(self, theta: Tensor, feature: int, absent: Vector) -> ShapeFunction:
        """Return one feature's shape; ``absent`` has shape (outputs,)."""
        row = theta[feature].detach().double().cpu().numpy().reshape(-1, self.outputs)
        knots = self.knots[feature]
        return ShapeFunction(knots, row[: knots.size].copy(), row[-2].copy(), row[-1].copy(), absent)

    def effects(self, theta: Tensor, x: Tensor, dropout: Dropout | None = None) -> Tensor:
        """Return the functions at x (features, rows), shape (features, rows, outputs); there is nothing to drop."""
        results = [
            _through(torch.as_tensor(knots, dtype=x.dtype, device=x.device), row.view(-1, self.outputs), own)
            for knots, row, own in zip(self.knots, theta, x, strict=True)
        ]
        return torch.stack(results) if results else x.new_zeros(0, x.shape[1], self.outputs)

    def draw(self, feature: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return small random values at the knots, shape (size,)."""
        rows = np.zeros((self.longest + 2, self.outputs))
        used = self.knots[feature].size
        rows[:used] = generator.normal(0.0, 0.1, (used, self.outputs))
        return rows.ravel()

    def padding(self) -> Tensor | None:
        """Return the rows of θ beyond a feature's own knots."""
        places = torch.arange(self.longest + 2)
        sizes = torch.tensor([own.size for own in self.knots], dtype=torch.int64)[:, None]
        return ((places >= sizes) & (places < self.longest)).repeat_interleave(self.outputs, dim=1)

    def take(self, features: NDArray[np.intp]) -> Self:
        """Return the bank of these features, in the same layout."""
        return type(self)(tuple(self.knots[int(place)] for place in features), self.outputs, self.longest)


def _through(knots: Tensor, row: Tensor, x: Tensor) -> Tensor:
    """Return the function at x (rows,), shape (rows, outputs), with a row of θ as (longest + 2, outputs)."""
    values = row[: knots.shape[0]]
    rises = values.diff(dim=0) / knots.diff()[:, None]
    slopes = torch.cat([row[-2:-1], rises, row[-1:]])
    places = torch.searchsorted(knots, x.contiguous(), right=True)
    starts = (places - 1).clamp_min(0)
    return values[starts] + slopes[places] * (x - knots[starts])[:, None]
