"""Support-vector regression with an ℓ1 penalty, solved by the alternating direction method of multipliers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def insensitive_objective(
    X: Matrix, y: Vector, coefficients: Vector, intercept: float, alpha: float, epsilon: float
) -> float:
    """Return mean max(|y - Xb - β| - ε, 0) + α‖b‖₁; X has shape (rows, features)."""
    residuals = np.abs(y - X @ coefficients - intercept)
    return float(np.mean(np.maximum(residuals - epsilon, 0.0)) + alpha * np.sum(np.abs(coefficients)))


def insensitive_path(
    X: Matrix, y: Vector, alphas: list[float], epsilon: float, *, tol: float = 1e-4, max_iter: int = 2000
) -> list[tuple[Vector, float]]:
    """Return (b, β) minimising mean max(|y - Xb - β| - ε, 0) + α‖b‖₁ for each alpha, each started from the last.

    Residuals r = y - Xb - β and the copy z = b are split off, so that one step is a soft threshold of r and z
    and a least-squares step with one matrix, factored once. Columns are meant to be standardised; y is divided by
    its mean absolute deviation inside, so that one step size serves every unit.
    """
    scale = float(np.mean(np.abs(y - np.median(y)))) or 1.0
    walk = _Walk(X, y / scale)
    solutions: list[tuple[Vector, float]] = []
    for alpha in alphas:
        walk.run(alpha, epsilon / scale, tol, max_iter)
        solutions.append((walk.copy * scale, walk.intercept(epsilon / scale) * scale))
    return solutions


class _Walk:
    """Coefficients, residuals, the sparse copy, the scaled multipliers, and the factored matrix."""

    def __init__(self, X: Matrix, y: Vector) -> None:
        self.design = np.column_stack([X, np.ones(y.size)])
        self.y = y
        self.weights = np.zeros(X.shape[1] + 1)
        self.residuals = y.copy()
        self.copy = np.zeros(X.shape[1])
        self.of_residuals = np.zeros(y.size)
        self.of_copy = np.zeros(X.shape[1])
        # the copy's constraint weighs as much as all rows do, or it would be met only after very many steps
        self.share = float(y.size)
        matrix = self.design.T @ self.design
        matrix[np.arange(X.shape[1]), np.arange(X.shape[1])] += self.share
        self.factor = cho_factor(matrix)

    def run(self, alpha: float, epsilon: float, tol: float, max_iter: int) -> None:
        """Step until constraints and steps are small against the data."""
        rows = self.y.size
        for _ in range(max_iter):
            aim = self.design.T @ (self.y - self.residuals - self.of_residuals)
            aim[:-1] += self.share * (self.copy - self.of_copy)
            self.weights = cho_solve(self.factor, aim)
            gaps = self.y - self.design @ self.weights
            before = self.copy
            self.residuals = _shrink_outside(gaps - self.of_residuals, epsilon, 1.0)
            self.copy = _soft(self.weights[:-1] + self.of_copy, alpha * rows / self.share)
            self.of_residuals += self.residuals - gaps
            self.of_copy += self.weights[:-1] - self.copy
            apart = np.sqrt(np.mean((self.residuals - gaps) ** 2)) + np.abs(self.weights[:-1] - self.copy).max()
            if apart < tol and np.abs(self.copy - before).max(initial=0.0) < tol:
                break

    def intercept(self, epsilon: float) -> float:
        """Return the best intercept for the sparse copy: the middle of the half that loses on either side."""
        gaps = self.y - self.design[:, :-1] @ self.copy
        edges = np.sort(np.concatenate([gaps - epsilon, gaps + epsilon]))
        return float(0.5 * (edges[self.y.size - 1] + edges[self.y.size]))


def _soft(values: Vector, threshold: float) -> Vector:
    return np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0)


def _shrink_outside(values: Vector, epsilon: float, threshold: float) -> Vector:
    """Return argmin over r of max(|r| - ε, 0) · threshold + ½(r - value)²."""
    beyond = np.maximum(np.abs(values) - epsilon, 0.0)
    return np.sign(values) * (np.minimum(np.abs(values), epsilon) + np.maximum(beyond - threshold, 0.0))
