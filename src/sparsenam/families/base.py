"""What a family is: the cost of a prediction, and how scores become predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

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

    @property
    def is_quadratic(self) -> bool:
        """Whether the loss is ½ Σₖ (score - y)², so that one least-squares problem is a whole fit."""
        ...

    @property
    def couples_outputs(self) -> bool:
        """Whether the loss is more than a sum over outputs, as softmax is, which a common shift does not change."""
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


@runtime_checkable
class Settles(Protocol):
    """A family with a number that a first fit has to tell: a dispersion, a spread."""

    @property
    def first_family(self) -> Family | None:
        """The family of the first fit; None when the number is known already."""
        ...

    def settled(self, scores: Matrix, target: Matrix, weights: NDArray[np.float64]) -> Family:
        """Return the family with its number, from the scores (rows, outputs) of the first fit."""
        ...


def exposure_power(family: Family) -> float | None:
    """Return q such that y with mean E eˢ has the loss of y/E with mean eˢ, times E^q, or None.

    A model with exposures is then the one without, fitted to y/E with weights w E^q. None, where the family has no
    attribute ``exposure_power``, means that no such reduction exists (or none is known).
    """
    return cast("float | None", getattr(family, "exposure_power", None))


def uses_robust_scale(family: Family) -> bool:
    """Return whether y should be scaled by median and median absolute deviation instead of mean and variance.

    So says an attribute ``robust_scale``: where few outliers make most of the variance, everything else would
    shrink to nothing on the scale of the fit, and a width given on that scale would be too wide.
    """
    return bool(getattr(family, "robust_scale", False))
