"""Smoothing of one column as a fixed linear operator, for the fit and all its folds at once.

For a column with B-splines B (rows, size), shares w of the rows and roughness D, the smoother
S = B (BᵀWB + κ DᵀD)⁻¹ BᵀW is diagonal in the coordinates g of f = B V g with VᵀBᵀWBV = I and VᵀDᵀDV = diag(γ)
(Demmler and Reinsch): it multiplies by 1/(1 + κγ). There ‖g‖ is the norm of the function, Σ w f² = ‖g‖², so that a
soft threshold, a change between sweeps and the degrees of freedom all are sums of a few numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular, svd
from scipy.sparse import csr_array

from sparsenam.baselines.splines import SplineBasis, SplineCurve, weighted_gram

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Batches = NDArray[np.float64]

RIDGE = 1e-11  # share of the mean Gram entry: keeps knots that a fold leaves without rows solvable
GRID = 60  # smoothing parameters tried


@dataclass(frozen=True, slots=True, eq=False)
class Smoother:
    """The smoother of one column; ``vectors`` V is (batches, size, size), ``roughness`` γ (batches, size).

    ``design`` is (rows, size), ``transposed`` the same the other way round, and ``shares`` (rows, batches) how much
    each row counts in each batch, adding up to 1.
    """

    basis: SplineBasis
    design: csr_array
    transposed: csr_array
    vectors: Batches
    roughness: Matrix
    shares: Matrix

    @classmethod
    def of(cls, x: Vector, shares: Matrix) -> Self:
        """Return the smoother of a column, shape (rows,), for rows weighted by each column of ``shares``."""
        basis = SplineBasis.of(x)
        design = basis.design(x)
        rough = basis.roughness()
        pairs = [_common_axes(weighted_gram(design, batch), rough) for batch in shares.T]
        vectors, roughness = (np.stack(part) for part in zip(*pairs, strict=True))
        return cls(basis, design, csr_array(design.T), vectors, roughness, shares)

    @property
    def most(self) -> float:
        """Most degrees of freedom, the constant not counted."""
        return float(self.basis.size - 1)

    def coordinates(self, residual: Matrix) -> Matrix:
        """Return VᵀBᵀW r for residuals of shape (rows, batches): the unsmoothed fit, shape (batches, size)."""
        moments = np.asarray(self.transposed @ (self.shares * residual))
        return np.matmul(moments.T[:, None, :], self.vectors)[:, 0]

    def values(self, coordinates: Matrix) -> Matrix:
        """Return B V g, shape (rows, batches)."""
        return np.asarray(self.design @ self.coefficients(coordinates).T)

    def coefficients(self, coordinates: Matrix) -> Matrix:
        """Return V g, the coefficients of the B-splines, shape (batches, size)."""
        return np.matmul(self.vectors, coordinates[:, :, None])[:, :, 0]

    def curve(self, coordinates: Vector) -> SplineCurve:
        """Return the function of the first batch, centred over its rows; ``coordinates`` has shape (size,)."""
        coefficients = self.vectors[0] @ coordinates
        # B-splines add up to 1, so a constant comes off every coefficient
        mean = float(self.shares[:, 0] @ (self.design @ coefficients))
        return SplineCurve(self.basis, coefficients - mean)

    def factors(self, degrees: float) -> Matrix:
        """Return 1/(1 + κγ) with κ such that they add up to ``degrees`` + 1, shape (batches, size).

        A straight line is 1 degree; more than the column has gives all it has.
        """
        if degrees >= self.most:
            return np.ones_like(self.roughness)
        if degrees <= 1:
            return np.where(self.roughness > 0, 0.0, 1.0)
        low, high = _bounds(self.roughness)
        for _ in range(100):
            middle = (low + high) / 2
            too_many = _factors(self.roughness, middle).sum(axis=1) - 1 > degrees
            low, high = np.where(too_many, middle, low), np.where(too_many, high, middle)
        return _factors(self.roughness, high)

    def of_first_batch(self) -> Smoother:
        """Return the smoother of the first batch alone."""
        return replace(self, vectors=self.vectors[:1], roughness=self.roughness[:1], shares=self.shares[:, :1])

    def candidates(self) -> Batches:
        """Return factors from a straight line to nearly unsmoothed, shape (GRID, batches, size)."""
        low, high = _bounds(self.roughness)
        steps = np.linspace(0, 1, GRID)[:, None]
        return np.stack([_factors(self.roughness, high + step * (low - high)) for step in steps])


def _common_axes(gram: Matrix, rough: Matrix) -> tuple[Matrix, Vector]:
    """Return V (size, size) and γ (size,) rising, with Vᵀ gram V = I and ‖rough V‖² = γ column by column.

    Singular values instead of eigenvalues of DᵀD: close knots make its entries differ by more than 10¹⁶.
    """
    size = gram.shape[0]
    ridge = RIDGE * float(np.diag(gram).mean())
    root = np.asarray(cholesky(gram + ridge * np.eye(size), lower=True, check_finite=False))
    scaled = np.asarray(solve_triangular(root, rough.T, lower=True, check_finite=False)).T
    _, values, rows = svd(scaled, full_matrices=True, check_finite=False)
    singular, axes = np.asarray(values), np.asarray(rows)
    roughness = np.zeros(size)
    roughness[: singular.size] = singular**2
    roughness[max(size - 2, 0) :] = 0.0  # lines are not rough
    vectors = np.asarray(solve_triangular(root, axes.T, trans="T", lower=True, check_finite=False))
    return np.ascontiguousarray(vectors[:, ::-1]), roughness[::-1].copy()


def _bounds(roughness: Matrix) -> tuple[Vector, Vector]:
    """Return log κ at which hardly anything, and at which all but the lines, is smoothed away, each (batches,)."""
    rough = np.where(roughness > 0, roughness, np.nan)
    if np.isnan(rough).all():
        return np.zeros(len(roughness)), np.zeros(len(roughness))
    return -np.log(np.nanmax(rough, axis=1)) - 3.0, -np.log(np.nanmin(rough, axis=1)) + 20.0


def _factors(roughness: Matrix, log_kappa: Vector) -> Matrix:
    return 1 / (1 + np.exp(log_kappa)[:, None] * roughness)
