"""The paper's synthetic tasks: four true effects among many columns of noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenam.families import Binomial

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

EFFECTS: tuple[Callable[[Vector], Vector], ...] = (
    lambda x: 2 * x**2 * np.tanh(x),
    lambda x: np.sin(x) * np.cos(x) + x**2,
    lambda x: 20 / (1 + np.exp(-5 * np.sin(x))),
    lambda x: 20 * np.sin(2 * x) ** 3 - 6 * np.cos(x) + x**2,
)


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


def true_effects(X: Matrix) -> Matrix:
    """Return fⱼ(xⱼ) for the first four columns and 0 for the others, shape (rows, features)."""
    effects = np.zeros_like(X)
    for place, effect in enumerate(EFFECTS[: X.shape[1]]):
        effects[:, place] = effect(X[:, place])
    return effects


def _columns(generator: np.random.Generator, n_rows: int, n_features: int, correlation: float) -> Matrix:
    X = generator.normal(size=(n_rows, n_features))
    for place in range(1, n_features if correlation else 0):
        X[:, place] = correlation * X[:, place - 1] + np.sqrt(1 - correlation**2) * X[:, place]
    return X
