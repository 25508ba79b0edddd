"""What a penalty is: a function of the group norms and nothing else."""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]


class Penalty(Protocol):
    """α φ(r) for the vector r of group norms, shape (groups,).

    Every penalty of the paper depends on the parameters only through r, and its proximal step keeps each
    group's direction, so the step on all the parameters reduces to these p numbers.
    """

    def value(self, norms: Vector, alpha: float) -> float:
        """Return α φ(r)."""
        ...

    def shrink(self, norms: Vector, alpha: float, step: Vector | float) -> Vector:
        """Return argmin over r ≥ 0 of Σⱼ (rⱼ - normsⱼ)² / (2 stepⱼ) + α φ(r)."""
        ...

    def slope(self, norms: Vector, alpha: float) -> Vector:
        """Return α ∂φ/∂rⱼ, with 0 where rⱼ = 0 (the paper's choice of subgradient)."""
        ...


@runtime_checkable
class WeightedLasso(Protocol):
    """A penalty of the form Σⱼ aⱼ rⱼ + ½ b Σⱼ rⱼ², for which the step is exact in any diagonal metric."""

    def lasso_and_ridge(self, n_groups: int, alpha: float) -> tuple[Vector, float]:
        """Return a, shape (groups,), and b."""
        ...


@runtime_checkable
class NeedsFirstFit(Protocol):
    """A penalty whose weights come from the norms of a first fit."""

    def first_alpha(self, alpha: float) -> float:
        """Return the alpha of the first fit."""
        ...

    def adapted_to(self, norms: Vector) -> Penalty:
        """Return the penalty of the second fit."""
        ...
