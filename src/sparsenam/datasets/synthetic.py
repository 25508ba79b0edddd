"""Simulated tables: a few true effects among many columns of noise, for regression, classes and survival times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sparsenam.codec import Matrix, Vector
from sparsenam.families import Binomial

Effect = Callable[[Vector], Vector]

# of the paper's tasks
EFFECTS: tuple[Effect, ...] = (
    lambda x: 2 * x**2 * np.tanh(x),
    lambda x: np.sin(x) * np.cos(x) + x**2,
    lambda x: 20 / (1 + np.exp(-5 * np.sin(x))),
    lambda x: 20 * np.sin(2 * x) ** 3 - 6 * np.cos(x) + x**2,
)
# each of variance about 0.5 for uniform columns on (-2, 2): the true risk then has a concordance of about 0.8
LOG_HAZARDS: tuple[Effect, ...] = (
    lambda x: 0.6 * x,
    lambda x: 0.6 * (x**2 - 4 / 3),
    lambda x: np.sin(2 * x),
    lambda x: np.asarray(np.where(np.abs(x) < 0.8, 0.9, -0.6), dtype=np.float64),
)
WEIBULL_SHAPE = 1.5  # of the baseline


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticTask:
    """X (rows, features), y (rows,), and the true effects (rows, features); feature j < 4 has effect fⱼ."""

    X: Matrix
    y: Vector
    effects: Matrix


def make_regression(
    n_rows: int = 3000, n_features: int = 24, *, correlation: float = 0.0, noise: float = 1.0, seed: int = 0
) -> SyntheticTask:
    """Return y = f₁(x₁) + … + f₄(x₄) + N(0, noise²) with normal columns, corr(xᵢ, xⱼ) = correlation^|i-j|."""
    generator = np.random.default_rng(seed)
    X = _columns(generator, n_rows, n_features, correlation)
    effects = true_effects(X)
    return SyntheticTask(X, effects.sum(axis=1) + noise * generator.normal(size=n_rows), effects)


def make_classification(
    n_rows: int = 3000, n_features: int = 24, *, correlation: float = 0.0, seed: int = 0
) -> SyntheticTask:
    """Return y in {0, 1} with P(y = 1) = sigmoid(f₁(x₁) + … + f₄(x₄))."""
    generator = np.random.default_rng(seed)
    X = _columns(generator, n_rows, n_features, correlation)
    effects = true_effects(X)
    chances = Binomial().mean(effects.sum(axis=1))
    y = np.where(generator.uniform(size=n_rows) < chances, 1.0, 0.0)
    return SyntheticTask(X, y, effects)


def true_effects(X: Matrix, functions: Sequence[Effect] = EFFECTS) -> Matrix:
    """Return fⱼ(xⱼ) for the first columns, by default four, and 0 for the others, shape (rows, features)."""
    effects = np.zeros_like(X)
    for index, function in enumerate(functions[: X.shape[1]]):
        effects[:, index] = function(X[:, index])
    return effects


def _columns(generator: np.random.Generator, n_rows: int, n_features: int, correlation: float) -> Matrix:
    X = generator.normal(size=(n_rows, n_features))
    for index in range(1, n_features if correlation else 0):
        X[:, index] = correlation * X[:, index - 1] + np.sqrt(1 - correlation**2) * X[:, index]
    return X


@dataclass(frozen=True, slots=True, eq=False)
class SurvivalTask:
    """X (rows, features), y (rows,) structured as (event, time), and the true effects (rows, features)."""

    X: Matrix
    y: NDArray[np.void]
    effects: Matrix

    @property
    def risk(self) -> Vector:
        """The true linear predictor, shape (rows,)."""
        return self.effects.sum(axis=1)


def make_survival(n_rows: int = 1000, n_features: int = 30, *, censored: float = 0.3, seed: int = 0) -> SurvivalTask:
    """Return times with hazard λ₀(t) exp(f₁(x₁) + … + f₄(x₄)), Weibull λ₀, and uniform censoring independent of X.

    Columns are uniform on (-2, 2). The longest censoring time is set so that the share ``censored`` of these rows
    is expected to be censored.
    """
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2.0, 2.0, size=(n_rows, n_features))
    effects = true_effects(X, LOG_HAZARDS)
    time = (generator.exponential(size=n_rows) * np.exp(-effects.sum(axis=1))) ** (1.0 / WEIBULL_SHAPE)
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
