"""What the paper measures on test rows, as formulas; one definition for every method."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
SMALLEST = float(np.finfo(np.float64).eps)  # a probability of 0 has no logarithm
# measures that a table can show: heading, and the factor that takes ours to the unit shown
COLUMNS: dict[str, tuple[str, float]] = {
    "mse": ("MSE", 1.0),
    "mae": ("MAE", 1.0),
    "r2": ("R²", 1.0),
    "cross_entropy": ("cross-entropy", 1.0),
    "accuracy": ("accuracy %", 100.0),
    "auc": ("AUC of probabilities", 1.0),
    "auc_of_labels": ("AUC of labels", 1.0),
    "precision": ("precision", 1.0),
    "recall": ("recall", 1.0),
    "identification": ("identification error", 1.0),
    "features": ("features", 1.0),
    "parameters": ("parameters", 1.0),
    "alpha": ("α", 1.0),
    "lambda": ("λ", 1.0),
    "seconds": ("seconds", 1.0),
}


def mean_squared_error(y: Vector, predicted: Vector) -> float:
    """Return mean (y - ŷ)²; both of shape (rows,)."""
    return float(np.mean((y - predicted) ** 2))


def mean_absolute_error(y: Vector, predicted: Vector) -> float:
    """Return mean |y - ŷ|; both of shape (rows,)."""
    return float(np.mean(np.abs(y - predicted)))


def explained_share(y: Vector, predicted: Vector) -> float:
    """Return R² = 1 - Σ(y - ŷ)² / Σ(y - ȳ)²; both of shape (rows,)."""
    return float(1.0 - np.sum((y - predicted) ** 2) / np.sum((y - y.mean()) ** 2))


def cross_entropy(y: Vector, probabilities: Vector) -> float:
    """Return -mean(y log c + (1 - y) log(1 - c)) for classes 0 and 1, c the probability of 1, shape (rows,)."""
    safe: Vector = np.clip(probabilities, SMALLEST, 1.0 - SMALLEST)
    return float(np.mean(-y * np.log(safe) - (1.0 - y) * np.log(1.0 - safe)))


def accuracy(y: Vector, probabilities: Vector) -> float:
    """Return the share of rows whose class is the more probable one."""
    return float(np.mean(np.equal(probabilities > 0.5, y > 0.5)))


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
    """Return Σⱼ Var(f̂ⱼ - fⱼ) / p: the mean over all p columns; both of shape (rows, columns)."""
    return float(np.sum(np.var(effects - truth, axis=0)) / truth.shape[1])
