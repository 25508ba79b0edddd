"""What a family is: the cost of a prediction, and how scores become predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe

Array = TypeVar("Array", bound=Any)  # numpy or torch: every formula is written once for both
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TargetRange:
    """The values that y may take."""

    lowest: float = -np.inf
    highest: float = np.inf
    words: str = "finite numbers"

    def check(self, target: Matrix, where: str) -> None:
        """Raise when a value lies outside."""
        wrong = ~((target >= self.lowest) & (target <= self.highest) & np.isfinite(target))
        if wrong.any():
            row = int(np.argwhere(wrong)[0, 0])
            got = f"{target[wrong][0]} in row {row} ({int(wrong.sum())} such values)"
            raise InputError(describe(f"y of {where}", self.words, got, "correct y or choose another family"))


class Family(Protocol):
    """Loss, link and range of y. Scores and targets have shape (rows, outputs)."""

    @property
    def name(self) -> str:
        """The word by which ``family`` names it."""
        ...

    @property
    def link(self) -> str:
        """The function that turns a mean into a score."""
        ...

    @property
    def range(self) -> TargetRange:
        """The values that y may take."""
        ...

    @property
    def standardizes_target(self) -> bool:
        """Whether y is brought to mean 0 and variance 1 before training."""
        ...

    @property
    def curvature(self) -> float:
        """A bound on the second derivative of the loss in the scores."""
        ...

    def loss(self, scores: Array, target: Array) -> Array:
        """Return the loss of each row, shape (rows,)."""
        ...

    def gradient(self, scores: Array, target: Array) -> Array:
        """Return ∂loss/∂scores, shape (rows, outputs)."""
        ...

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        """Return a diagonal bound on the Hessian of each row's loss, shape (rows, outputs)."""
        ...

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return loss*(mean - y) = sup over s of (mean - y)·s - loss(s, y), shape (rows,)."""
        ...

    def mean(self, scores: Array) -> Array:
        """Return the expected y, shape (rows, outputs): the inverse of the link."""
        ...

    def best_constant(self, target: Matrix, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores, shape (outputs,), of the best model without features."""
        ...
