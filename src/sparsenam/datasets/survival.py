"""Simulated survival times with proportional hazards: four true effects among many columns of noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# each of variance about 0.5 for uniform columns on (-2, 2): the true risk then has a concordance of about 0.8
EFFECTS: tuple[Callable[[Vector], Vector], ...] = (
    lambda x: 0.6 * x,
    lambda x: 0.6 * (x**2 - 4 / 3),
    lambda x: np.sin(2 * x),
    lambda x: np.asarray(np.where(np.abs(x) < 0.8, 0.9, -0.6), dtype=np.float64),
)
SHAPE = 1.5  # of the Weibull baseline


@dataclass(frozen=True, slots=True, eq=False)
class SurvivalTask:
    """X (rows, features), y (rows,) structured as (event, time), and the true effects (rows, features)."""

    X: Matrix
    y: NDArray[Any]
    effects: Matrix

    @property
    def risk(self) -> Vector:
        """The true linear predictor, shape (rows,)."""
        return self.effects.sum(axis=1)


def make_survival(
    n_rows: int = 1000, n_features: int = 30, *, censored: float = 0.3, seed: int = 0
) -> SurvivalTask:
    """Return times with hazard λ₀(t) exp(f₁(x₁) + … + f₄(x₄)), Weibull λ₀, and uniform censoring independent of X.

    Columns are uniform on (-2, 2). The longest censoring time is set so that the share ``censored`` of these rows
    is expected to be censored.
    """
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2.0, 2.0, size=(n_rows, n_features))
    effects = np.zeros_like(X)
    for place, effect in enumerate(EFFECTS[:n_features]):
        effects[:, place] = effect(X[:, place])
    time = (generator.exponential(size=n_rows) * np.exp(-effects.sum(axis=1))) ** (1.0 / SHAPE)
    limit = generator.uniform(size=n_rows) * _longest(time, censored)
    event = time <= limit
    y = np.empty(n_rows, dtype=[("event", np.bool_), ("time", np.float64)])
    y["event"], y["time"] = event, np.where(event, time, limit)
    return SurvivalTask(X, y, effects)


def _longest(time: Vector, censored: float) -> float:
    """Return c with mean P(c U < time) = mean min(time/c, 1) = censored; infinity for no censoring."""
    if censored <= 0:
        return float("inf")

    def excess(log_limit: float) -> float:
        return float(np.minimum(time / np.exp(log_limit), 1.0).mean()) - censored

    return float(np.exp(brentq(excess, np.log(time.min()) - 1.0, np.log(time.max()) + 30.0)))
