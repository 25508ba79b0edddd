"""Convex conjugates of losses that have none in closed form."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sparsenam.families.base import Array, Matrix
from sparsenam.families.roots import increasing_root

OUTSIDE = 1e-9  # a slope farther than this from every gradient has conjugate +∞


class Separable(Protocol):
    """A loss that is a sum over outputs."""

    def loss(self, scores: Array, target: Array) -> Array:
        """Return the loss of each row, shape (rows,)."""
        ...

    def gradient(self, scores: Array, target: Array) -> Array:
        """Return ∂loss/∂scores, shape (rows, outputs)."""
        ...

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        """Return the second derivatives or a bound on them, shape (rows, outputs)."""
        ...


def numeric_conjugate(
    family: Separable, slope: Matrix, target: Matrix, start: Matrix | None = None
) -> NDArray[np.float64]:
    """Return loss*(slope) = Σₖ sup over s of slope·s - loss(s, y), shape (rows,), +∞ outside the domain.

    The supremum is where the gradient is the slope; an error δ there costs only ½ loss''δ², so that the result is
    exact to about 1e-12. The loss must be a sum over outputs.

    Parameters
    ----------
    slope, target
        Shape (…, rows, outputs); they are broadcast against each other.
    start
        Scores near the solution; by default those equal to y.
    """
    slopes, targets = np.broadcast_arrays(slope, target)
    shape = slopes.shape
    slopes, targets = slopes.reshape(-1, 1), targets.reshape(-1, 1)
    first = targets if start is None else np.broadcast_to(start, shape).reshape(-1, 1)

    def height(scores: Matrix) -> Matrix:
        return family.gradient(scores, targets) - slopes

    scores = increasing_root(height, lambda own: family.hessian_diagonal(own, targets), first)
    missed = np.abs(height(scores)) > OUTSIDE * (1.0 + np.abs(slopes) + family.hessian_diagonal(scores, targets))
    values = (slopes * scores)[:, 0] - family.loss(scores, targets)
    return np.where(missed[:, 0], np.inf, values).reshape(shape).sum(axis=-1)
