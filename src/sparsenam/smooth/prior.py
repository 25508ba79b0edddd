"""Smoothness of a sum of ramps: what roughness costs, how restricted likelihood sets its weight, and sums over rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.linalg import cho_solve, cholesky, lapack

from sparsenam.convex.design import Ramps
from sparsenam.tables.sample import Matrix, Vector

SPACING = 8.0  # times the median at which widths are clipped: an outlier must not make its ramp free
WEAK = 0.02  # share of the data's information in the first prior; from 0.0002 to 2 it changes MSE by 0.014
LOWEST, HIGHEST = 1e-6, 1e9  # of λ: the floor keeps the scores of separated classes finite
LARGEST_STEP = 20.0  # factor by which one update may change λ; a guard that costs nothing
JITTER = 1e-10  # share of the mean diagonal added before factorising


def roughness(ramps: Ramps) -> tuple[Matrix, ...]:
    """Return S₁, S₂ and S₃ of one term, each (m, m); only S₁ below 3 ramps, no S₃ below 5.

    With dₖ the widths relative to their mean, cᵀS₁c = Σ cₖ²/dₖ is the sum of squared slopes; S₂ and S₃ do the
    same for the first and second divided differences of the slopes.
    """
    widths = np.diff(ramps.knots)
    widths = np.clip(widths / np.median(widths), 1.0 / SPACING, SPACING)
    widths /= widths.mean()
    matrices = [np.diag(1.0 / widths)]
    if ramps.size >= 3:
        between = 0.5 * (widths[:-1] + widths[1:])
        bends = np.diff(np.diag(1.0 / widths), axis=0) / np.sqrt(between)[:, None]
        matrices.append(bends.T @ bends)
        if ramps.size >= 5:
            twists = np.diff(bends / np.sqrt(between)[:, None], axis=0) / np.sqrt(widths[1:-1])[:, None]
            matrices.append(twists.T @ twists)
    return tuple(matrices)


def scatter(ramps: Ramps) -> tuple[Matrix, ...]:
    """Return the one matrix S of unordered levels, (m, m): cᵀSc is the sum of squares of the m + 1 levels' values.

    The values are taken about their mean. The order of the levels does not matter, and a level with few rows is
    drawn to the others.
    """
    values = np.vstack([np.zeros(ramps.size), np.tril(np.ones((ramps.size, ramps.size)))])
    values -= values.mean(axis=0)
    return (values.T @ values,)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Which of all columns are each term's ramps, and the terms' roughness matrices."""

    ramps: tuple[Ramps, ...]
    slices: tuple[slice, ...]
    roughness: tuple[tuple[Matrix, ...], ...]

    @classmethod
    def of(cls, ramps: Sequence[Ramps], levels: Sequence[bool] | None = None) -> Layout:
        """Return the layout with the terms one after the other; ``levels`` marks those without order."""
        ends = np.cumsum([each.size for each in ramps])
        slices = tuple(slice(int(end) - each.size, int(end)) for each, end in zip(ramps, ends, strict=True))
        matrices = tuple(
            scatter(each) if levels is not None and levels[term] else roughness(each) for term, each in enumerate(ramps)
        )
        return cls(tuple(ramps), slices, matrices)

    @property
    def size(self) -> int:
        """Number of columns."""
        return self.slices[-1].stop

    def precisions(self, strengths: Sequence[Vector]) -> tuple[Matrix, ...]:
        """Return Pⱼ = Σᵢ λᵢSᵢ of each term, (m_j, m_j)."""
        return tuple(
            np.einsum("i,ikl->kl", strength, np.stack(matrices))
            for strength, matrices in zip(strengths, self.roughness, strict=True)
        )

    def first_strengths(
        self, information: Vector, before: tuple[Layout, Sequence[Vector]] | None = None
    ) -> list[Vector]:
        """Return first λ: each Sᵢ gets a small share of the data's information, shape (columns,).

        The λ of a fit with other ramps are taken instead where it had as many matrices: k times as many ramps have
        slopes' differences k times smaller in each order, hence λᵢ k²ⁱ⁻¹.
        """
        first: list[Vector] = [
            np.clip([WEAK * information[columns].sum() / np.trace(matrix) for matrix in matrices], LOWEST, HIGHEST)
            for columns, matrices in zip(self.slices, self.roughness, strict=True)
        ]
        if before is None:
            return first
        for term, (ramps, strengths) in enumerate(zip(before[0].ramps, before[1], strict=True)):
            if strengths.size == first[term].size:
                growth = self.ramps[term].size / ramps.size
                first[term] = strengths * growth ** (2.0 * np.arange(strengths.size) + 1.0)
        return first


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Mean (columns, r) and, for each term, the covariance block (m_j, m_j) of its coefficients.

    ``degrees_of_freedom``, shape (terms,), is m_j - tr(VⱼⱼPⱼ), its share of the smoother's trace.
    """

    mean: Matrix
    covariances: tuple[Matrix, ...]
    degrees_of_freedom: Vector


def posterior(layout: Layout, gram: Matrix, moment: Matrix, precisions: Sequence[Matrix], noise: float) -> Posterior:
    """Return the distribution of β in y = Zβ + N(0, σ²) given ZᵀZ (columns, columns) and Zᵀy (columns, r).

    H = ZᵀZ/σ² + P is factorised once; β = H⁻¹Zᵀy/σ² and V = H⁻¹.
    """
    factor = _factor(layout, gram, precisions, noise)
    mean = cho_solve((factor, True), moment / noise, check_finite=False)
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)  # its lower triangle is filled
    covariances: list[Matrix] = []
    freedom: list[float] = []
    for columns, precision in zip(layout.slices, precisions, strict=True):
        lower = np.tril(inverse[columns, columns])
        block = lower + np.tril(lower, -1).T
        covariances.append(block)
        freedom.append(float(np.clip(precision.shape[0] - np.sum(block * precision), 0.0, precision.shape[0])))
    return Posterior(mean, tuple(covariances), np.array(freedom))


def _factor(layout: Layout, gram: Matrix, precisions: Sequence[Matrix], noise: float) -> Matrix:
    """Return the lower Cholesky factor of H, with as much jitter as rounding asks for."""
    diagonal = np.diag_indices(layout.size)
    jitter = JITTER
    while True:
        curvature = gram / noise
        for columns, precision in zip(layout.slices, precisions, strict=True):
            curvature[columns, columns] += precision
        curvature[diagonal] += jitter * np.trace(curvature) / layout.size
        try:
            return cholesky(curvature, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            if jitter > 1.0:
                raise
            jitter *= 100.0


def updated_strengths(
    layout: Layout,
    strengths: Sequence[Vector],
    precisions: Sequence[Matrix],
    posteriors: Sequence[Posterior],
    free: float = 1.0,
) -> list[Vector]:
    """Return λᵢ · Σ tr((Pⱼ⁻¹ - Vⱼⱼ)Sᵢ) / Σ βⱼᵀSᵢβⱼ, the Fellner-Schall update, sums over outputs.

    ``posteriors`` hold all outputs in their columns, ``free`` is the share of outputs that are free to vary.
    """
    updated: list[Vector] = []
    for term, (columns, matrices) in enumerate(zip(layout.slices, layout.roughness, strict=True)):
        precision = precisions[term]
        safe = precision + 1e-14 * np.trace(precision) / precision.shape[0] * np.eye(precision.shape[0])
        prior = cast(Matrix, np.linalg.inv(safe))
        gained = sum(part.mean.shape[1] * (prior - part.covariances[term]) for part in posteriors)
        squares = sum(part.mean[columns] @ part.mean[columns].T for part in posteriors)
        ratios = [
            max(free * np.sum(gained * matrix), 1e-10) / max(np.sum(squares * matrix), 1e-14) for matrix in matrices
        ]
        factors = np.clip(ratios, 1.0 / LARGEST_STEP, LARGEST_STEP)
        updated.append(np.clip(strengths[term] * factors, LOWEST, HIGHEST))
    return updated


ROWS_AT_ONCE = 4096
SINGLE = 2_000_000  # cells above which products are in single precision; California 0.2945 in 5 s, not 12 s
KEPT = 20_000_000  # cells up to which the columns are kept in memory (80 MB) and not made anew for each pass


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """½ βᵀAβ - bᵀβ, the squared error of working targets once the intercept is eliminated.

    ``gram`` A is (columns, columns), ``moment`` b (columns, r), ``means`` (columns,) and ``centers`` (r,) the
    weighted means of columns and targets, ``squares`` (r,) the weighted squares of the centred targets.
    """

    gram: Matrix
    moment: Matrix
    means: Vector
    centers: Vector
    squares: Vector

    def intercept(self, coefficients: Matrix) -> Vector:
        """Return the best intercept, shape (r,), for coefficients of shape (columns, r)."""
        return self.centers - self.means @ coefficients

    def residual(self, coefficients: Matrix) -> float:
        """Return the weighted sum of squared residuals over all r targets."""
        explained = np.sum(coefficients * (2.0 * self.moment - self.gram @ coefficients))
        return max(float(self.squares.sum() - explained), 0.0)


class RampDesign:
    """Z: the ramps of all terms, less their weighted means, shape (rows, columns).

    Centring comes first because the products of a ramp that is 1 in nearly all rows would cancel in single
    precision. A ramp's mean is over the rows in which its term is present; where it is absent, Z is 0.
    """

    def __init__(self, layout: Layout, x: Matrix, weights: Vector) -> None:
        self.layout, self.x, self.weights = layout, x, weights
        cells = x.shape[1] * layout.size
        self.dtype = np.float32 if cells > SINGLE else np.float64
        self.absent = [gone if gone.any() else None for gone in np.isnan(x)]
        self.means = np.zeros(layout.size)
        for ramps, columns, cells_of, gone in zip(layout.ramps, layout.slices, x, self.absent, strict=True):
            present = slice(None) if gone is None else ~gone
            self.means[columns] = ramps.means(cells_of[present], weights[present])
        self._kept = [block for _, block in self._made()] if cells <= KEPT else None

    def blocks(self) -> Iterator[tuple[slice, Matrix]]:
        """Yield slices of rows and their part of Zᵀ, shape (columns, rows)."""
        if self._kept is None:
            yield from self._made()
        else:
            yield from zip(self._slices(), self._kept, strict=True)

    def times(self, coefficients: Matrix) -> Matrix:
        """Return Zβ, shape (rows, r)."""
        transposed = coefficients.T.astype(self.dtype)
        return np.concatenate([(transposed @ block).T.astype(np.float64) for _, block in self.blocks()])

    def quadratic(self, weights: Vector, targets: Matrix) -> LeastSquares:
        """Return the weighted squared error of targets (rows, r) for weights of shape (rows,)."""
        size, total = self.layout.size, weights.sum()
        centers = weights @ targets / total
        weighted = weights[:, None] * (targets - centers)
        gram, moment, means = np.zeros((size, size)), np.zeros((size, targets.shape[1])), np.zeros(size)
        roots = np.sqrt(weights)
        for rows, block in self.blocks():
            means += block @ weights[rows].astype(self.dtype)
            moment += block @ weighted[rows].astype(self.dtype)
            scaled = block * roots[rows].astype(self.dtype)
            gram += scaled @ scaled.T
        means /= total
        gram -= total * np.outer(means, means)
        squares = np.sum(weighted * (targets - centers), axis=0)
        return LeastSquares(gram, moment, means, centers, squares)

    def _slices(self) -> Iterator[slice]:
        rows = self.x.shape[1]
        for start in range(0, rows, ROWS_AT_ONCE):
            yield slice(start, min(start + ROWS_AT_ONCE, rows))

    def _made(self) -> Iterator[tuple[slice, Matrix]]:
        for rows in self._slices():
            block = np.empty((self.layout.size, rows.stop - rows.start), self.dtype)
            for term, columns in enumerate(self.layout.slices):
                block[columns] = self.layout.ramps[term].columns(self.x[term, rows]).T - self.means[columns, None]
                gone = self.absent[term]
                if gone is not None:
                    block[columns, gone[rows]] = 0.0
            yield rows, cast(Matrix, block)
