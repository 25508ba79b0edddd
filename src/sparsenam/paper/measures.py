"""What the paper measures on test rows, as formulas; one definition for every method."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
SMALLEST = float(np.finfo(np.float64).eps)  # a probability of 0 has no logarithm


def mean_squared_error(y: Vector, predicted: Vector) -> float:
    """Return mean (y - ŷ)²; both of shape (rows,)."""
    return float(np.mean((y - predicted) ** 2))


def mean_absolute_error(y: Vector, predicted: Vector) -> float:
    """Return mean |y - ŷ|; both of shape (rows,)."""
    return float(np.mean(np.abs(y - predicted)))


def explained_share(y: Vector, predicted: Vector) -> float:
    """Return R² = 1 - Σ(y - ŷ)² / Σ(y - ȳ)²; both of shape (rows,)."""
    return float(1.0 - np.sum((y - predicted) ** 2) / np.sum((y - y.mean()) ** 2))


def cross_entropy(y: Vector, chances: Vector) -> float:
    """Return -mean(y log c + (1 - y) log(1 - c)) for classes 0 and 1, chances c of class 1, shape (rows,)."""
    safe: Vector = np.clip(chances, SMALLEST, 1.0 - SMALLEST)
    return float(np.mean(-y * np.log(safe) - (1.0 - y) * np.log(1.0 - safe)))


def accuracy(y: Vector, chances: Vector) -> float:
    """Return the share of rows whose class is the more probable one."""
    right = np.equal(chances > 0.5, y > 0.5)
    return float(np.mean(right))


def area_under_curve(y: Vector, scores: Vector) -> float:
    """Return P(score of a class-1 row > that of a class-0 row), ties counting half, by Mann and Whitney's ranks."""
    positive = y > 0.5
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    ranks = rankdata(scores)
    return float((ranks[positive].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


def precision(kept: Collection[int], true: Collection[int]) -> float:
    """Return |kept ∩ true| / |kept|: 0 for a method that keeps nothing."""
    return len(set(kept) & set(true)) / len(kept) if kept else 0.0


def recall(kept: Collection[int], true: Collection[int]) -> float:
    """Return |kept ∩ true| / |true|."""
    return len(set(kept) & set(true)) / len(true)


def identification_error(effects: Matrix, truth: Matrix) -> float:
    """Return Σⱼ Var(f̂ⱼ - fⱼ) / p: the mean over all p features; both of shape (rows, features)."""
    return float(np.sum(np.var(effects - truth, axis=0)) / truth.shape[1])


def variations(effects: Matrix, names: tuple[str, ...]) -> dict[str, float]:
    """Return maxᵢ f̂ⱼ(xᵢⱼ) - minᵢ f̂ⱼ(xᵢⱼ) for each feature; effects have shape (rows, features)."""
    return dict(zip(names, np.ptp(effects, axis=0).tolist(), strict=True))
