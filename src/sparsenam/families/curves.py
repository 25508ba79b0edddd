"""Curves over time: step functions, the baseline hazard, and the survival it gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class StepFunction:
    """The function that takes the value y from its time x on, and ``start`` before the first.

    ``x`` and ``y`` have shape (steps,), x ascending.
    """

    x: Vector
    y: Vector
    start: float

    def __call__(self, times: ArrayLike) -> NDArray[np.float64]:
        """Return the values at some times, in their shape."""
        values = np.concatenate([[self.start], self.y])
        return values[np.searchsorted(self.x, np.asarray(times, dtype=np.float64), side="right")]


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """The cumulative hazard Λ₀(t) of a row whose score is 0.

    ``times`` are the event times and ``cumulative_hazard`` the values from them on, shape (event times,).
    """

    times: Vector
    cumulative_hazard: Vector

    def at(self, times: ArrayLike) -> NDArray[np.float64]:
        """Return Λ₀ at some times: 0 before the first event, constant after the last."""
        return StepFunction(self.times, self.cumulative_hazard, 0.0)(times)

    def cumulative_hazards(self, scores: Vector, times: ArrayLike) -> Matrix:
        """Return Λ(t|x) = Λ₀(t) eˢ, shape (rows, times), for scores of shape (rows,)."""
        return np.exp(scores)[:, None] * np.atleast_1d(self.at(times))

    def survival(self, scores: Vector, times: ArrayLike) -> Matrix:
        """Return S(t|x) = exp(-Λ₀(t) eˢ), shape (rows, times), for scores of shape (rows,)."""
        return np.exp(-self.cumulative_hazards(scores, times))
