"""What a family is: the cost of a prediction, and how scores become predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe

Array = TypeVar("Array", bound=Any)  # numpy or torch: every formula is written once for both
Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Dispersion = Literal["fixed", "pearson", "empirical"]


@dataclass(frozen=True, slots=True)
class TargetRange:
    """The values that y may take."""

    lowest: float = -np.inf
    highest: float = np.inf
    description: str = "finite numbers"

    def check(self, target: Matrix, where: str) -> None:
        """Raise when a value lies outside."""
        wrong = ~((target >= self.lowest) & (target <= self.highest) & np.isfinite(target))
        if wrong.any():
            row = int(np.argwhere(wrong)[0, 0])
            got = f"{target[wrong][0]} in row {row} ({int(wrong.sum())} such values)"
            remedy = "correct y or choose another family"
            raise InputError(describe(f"y of {where}", self.description, got, remedy))


class Family(Protocol):
    """Loss, link and range of y, and what a fit may rely on; a family inherits it and declares what differs.

    Scores and targets have shape (rows, outputs).

    Attributes
    ----------
    name
        The name that the parameter ``family`` takes.
    link
        The function that turns a mean into a score.
    range
        The values that y may take.
    standardizes_target
        Whether y is brought to mean 0 and variance 1 before the fit.
    robust_scale
        Whether that is done by median and median absolute deviation: where few outliers make most of the variance,
        everything else would shrink to nothing otherwise.
    curvature
        A bound on the second derivative of the loss in the scores; ∞ where there is none.
    is_quadratic
        Whether the loss is ½ Σₖ (score - y)², so that least squares solve it.
    couples_outputs
        Whether the loss is not a sum over outputs, as for softmax.
    dispersion
        How the scale φ of the noise is found: it is 1 ("fixed"), by Pearson's estimate ("pearson"), or from the
        derivatives of the loss ("empirical").
    variance_power
        The power p of the variance φ μᵖ in Pearson's estimate; 0 where that is not used.
    exposure_power
        The power q such that y with mean E eˢ has the loss of y/E with mean eˢ, times E^q: a model with exposures E
        is then one without, fitted to y/E with weights w E^q. None where there is no such q.
    """

    name: str
    link: str = "identity"
    range: TargetRange = TargetRange()
    standardizes_target: bool = False
    robust_scale: bool = False
    curvature: float = np.inf
    is_quadratic: bool = False
    couples_outputs: bool = False
    dispersion: Dispersion = "empirical"
    variance_power: float = 0.0
    exposure_power: float | None = None

    @property
    def first_family(self) -> Family | None:
        """The family of a first fit, from which `estimated` takes a parameter; None when all are known."""
        return None

    def estimated(self, scores: Matrix, target: Matrix, weights: Vector) -> Family:
        """Return the family with its parameter estimated from the scores (rows, outputs) of the first fit."""
        return self

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

    def best_constant(self, target: Matrix, weights: Vector) -> Vector:
        """Return the scores, shape (outputs,), of the best model without features."""
        ...
