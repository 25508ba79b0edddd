"""Smoothness of a sum of ramps: what roughness costs, and how restricted likelihood sets its weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, lapack

from sparsenam.convex.design import SPACING, Ramps
from sparsenam.tables.sample import Matrix, Vector

Array: TypeAlias = NDArray[np.float64]

# share of the data's information in the first prior: from the smooth side, where steps are few and safe
FIRST_PRIOR = 1.0  # chosen without a measurement
# chosen without a measurement
LOWEST, HIGHEST = 1e-6, 1e9  # of λ: the floor keeps the scores of separated classes finite
# at which a term is kept from 0: without, four_or_nine loses 4 % and genes2 69 % (benchmarks/ablate.py --only PULL)
PULL = 0.5
LARGEST_STEP = 20.0  # factor by which one update may change λ; a guard that costs nothing
JITTER = 1e-12  # share of the diagonal added before factorising


def roughness(ramps: Ramps) -> tuple[Matrix, ...]:
    """Return S₁, S₂ and S₃ of one term, each (m, m); only S₁ below 3 ramps, no S₃ below 5.

    With dₖ the widths relative to their mean, cᵀS₁c = Σ cₖ²/dₖ is the sum of squared slopes; S₂ and S₃ do the
    same for the first and second divided differences of the slopes. With a jump these are of the other ramps, and the
    last matrix is that of the jump alone, whose size says nothing of the bends elsewhere.
    """
    if ramps.jump is not None:
        others = np.arange(ramps.size) != ramps.jump
        inside = roughness(Ramps(ramps.knots[1:] if ramps.jump == 0 else ramps.knots[:-1]))
        found = [np.zeros((ramps.size, ramps.size)) for _ in inside]
        for matrix, part in zip(found, inside, strict=True):
            matrix[np.ix_(others, others)] = part
        return (*found, np.diag((~others).astype(np.float64)))
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
    """Which of all columns are each term's ramps, and the terms' roughness matrices.

    ``jumping`` marks terms of which each increment has its own variance, hence its own λ: restricted likelihood then
    sets most of them to 0 and leaves a few jumps. Their one matrix is the identity.
    """

    ramps: tuple[Ramps, ...]
    slices: tuple[slice, ...]
    roughness: tuple[tuple[Matrix, ...], ...]
    jumping: tuple[bool, ...]

    @classmethod
    def of(
        cls, ramps: Sequence[Ramps], levels: Sequence[bool] | None = None, jumping: Sequence[bool] | None = None
    ) -> Layout:
        """Return the layout with the terms one after the other; ``levels`` marks those without order."""
        ends = np.cumsum([each.size for each in ramps])
        slices = tuple(slice(int(end) - each.size, int(end)) for each, end in zip(ramps, ends, strict=True))
        matrices: list[tuple[Matrix, ...]] = []
        for term, each in enumerate(ramps):
            if jumping is not None and jumping[term]:
                matrices.append((np.eye(each.size),))
            else:
                matrices.append(scatter(each) if levels is not None and levels[term] else roughness(each))
        return cls(tuple(ramps), slices, tuple(matrices), tuple(jumping or [False] * len(ramps)))

    @property
    def size(self) -> int:
        """Number of columns."""
        return self.slices[-1].stop

    def precisions(self, strengths: Sequence[Vector]) -> tuple[Matrix, ...]:
        """Return Pⱼ = Σᵢ λᵢSᵢ of each term, (m_j, m_j); diag(λ) where it jumps."""
        return tuple(
            np.diag(strength)
            if jumps
            else np.sum([value * matrix for value, matrix in zip(strength, matrices, strict=True)], axis=0)
            for strength, matrices, jumps in zip(strengths, self.roughness, self.jumping, strict=True)
        )

    def first_strengths(self, gram: Matrix, before: tuple[Layout, Sequence[Vector]] | None = None) -> list[Vector]:
        """Return first λ: each Sᵢ gets a share of the data's information ZᵀWZ/φ, shape (columns, columns).

        That is tr G/tr Sᵢ; for levels, whose order must not matter, tr S⁻¹G/m. The λ of a fit with other ramps are
        taken instead where it had as many matrices: k times as many ramps have slopes' differences k times smaller in
        each order, hence λᵢ k²ⁱ⁻¹.
        """
        first: list[Vector] = []
        for columns, matrices, jumps in zip(self.slices, self.roughness, self.jumping, strict=True):
            block = gram[columns, columns]
            if jumps:
                found = [np.trace(block) / len(block)] * len(block)
            elif len(matrices) == 1:
                found = [np.trace(np.linalg.solve(matrices[0], block)) / len(block)]
            else:
                found = [np.trace(block) / np.trace(matrix) for matrix in matrices]
            first.append(np.clip(FIRST_PRIOR * np.array(found), LOWEST, HIGHEST))
        if before is None:
            return first
        for term, (ramps, strengths) in enumerate(zip(before[0].ramps, before[1], strict=True)):
            if strengths.size == first[term].size and (ramps.jump is None) == (self.ramps[term].jump is None):
                growth, powers = self.ramps[term].size / ramps.size, 2.0 * np.arange(strengths.size) + 1.0
                powers[len(powers) if ramps.jump is None else -1 :] = 0.0  # a jump is as large whatever the ramps
                first[term] = strengths * growth**powers
        return first


class Spread(Protocol):
    """How uncertain coefficients are: each term's covariance (m_j, m_j), and its degrees of freedom (terms,)."""

    @property
    def covariances(self) -> tuple[Matrix, ...]: ...
    @property
    def degrees_of_freedom(self) -> Vector: ...


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The inverse V of H = ZᵀWZ/φ + P, as a factor and, for each term, the block (m_j, m_j) of its coefficients.

    ``factor`` is L and ``scales`` the diagonal of D, shape (columns,), in H = D⁻¹LLᵀD⁻¹.
    ``degrees_of_freedom``, shape (terms,), is m_j - tr(VⱼⱼPⱼ), its share of the smoother's trace.
    """

    factor: Matrix
    scales: Vector
    covariances: tuple[Matrix, ...]
    degrees_of_freedom: Vector

    def solve(self, pull: Matrix) -> Matrix:
        """Return V times ``pull``, both (columns, r)."""
        return solved((self.factor, self.scales), pull)


def posterior(layout: Layout, gram: Matrix, precisions: Sequence[Matrix], noise: float) -> Posterior:
    """Return the covariance of β given ZᵀWZ (columns, columns), the terms' prior precisions and the noise φ.

    Blocks on the diagonal of V are all that is needed: with L⁻¹ the inverse of the factor, columns of L⁻¹ squared.
    """
    return posterior_of(layout, factorised(layout, gram, precisions, noise), precisions)


def posterior_of(layout: Layout, factors: tuple[Matrix, Vector], precisions: Sequence[Matrix]) -> Posterior:
    """Return the covariance of β given the factor and the scales of H."""
    factor, scales = factors
    inverse = lapack.dtrtri(factor, lower=1)[0] if factor.size else factor
    covariances: list[Matrix] = []
    freedom: list[float] = []
    for columns, precision in zip(layout.slices, precisions, strict=True):
        part = np.tril(inverse[columns.start :, columns]) * scales[columns]
        block = part.T @ part
        covariances.append(block)
        freedom.append(float(np.clip(precision.shape[0] - np.sum(block * precision), 0.0, precision.shape[0])))
    return Posterior(factor, scales, tuple(covariances), np.array(freedom))


def solved(factors: tuple[Matrix, Vector], pull: Matrix) -> Matrix:
    """Return H⁻¹ times ``pull``, both (columns, r), given the factor and the scales of H."""
    factor, scales = factors[0], factors[1][:, None]
    return scales * cho_solve((factor, True), scales * pull, check_finite=False)


def factorised(layout: Layout, gram: Matrix, precisions: Sequence[Matrix], noise: float) -> tuple[Matrix, Vector]:
    """Return the lower Cholesky factor of DHD and D, with as much jitter as rounding asks for.

    D makes the diagonal 1: the jitter is then a share of each column, and a term with a strong prior does not
    add to that of another.
    """
    jitter = JITTER
    while True:  # mostly once: the matrix is made anew rather than kept, since it is large
        curvature = gram / noise
        for columns, precision in zip(layout.slices, precisions, strict=True):
            curvature[columns, columns] += precision
        scales = 1.0 / np.sqrt(curvature.diagonal())
        curvature *= scales
        curvature *= scales[:, None]
        curvature[np.diag_indices(layout.size)] += jitter
        try:  # symmetric: its transpose has the order that LAPACK takes
            return cholesky(curvature.T, lower=True, overwrite_a=True, check_finite=False), scales
        except np.linalg.LinAlgError:
            if jitter > 1.0:
                raise
            jitter *= 100.0


def updated_strengths(
    layout: Layout,
    strengths: Sequence[Vector],
    precisions: Sequence[Matrix],
    posteriors: Sequence[Spread],
    coefficients: Matrix,
    free: int,
    traces: Sequence[Vector] | None = None,
) -> list[Vector]:
    """Return λᵢ · gᵢ/qᵢ, the Fellner-Schall update: gᵢ = tr((Pⱼ⁻¹ - Vⱼⱼ)Sᵢ) and qᵢ = βⱼᵀSᵢβⱼ, means over outputs.

    Alone it ends at the restricted likelihood's maximum, which with few rows says 0 of weak terms. Hence for S₁, which
    holds the size of a term: to q₁ is added PULL (1 - λ₁g₁)₊/λ₁, so that no term falls below PULL/(1 + PULL) degrees
    of freedom while those above 1 are left alone.

    ``posteriors`` hold one covariance for each output or one for all, ``coefficients`` is (columns, outputs), and
    ``free`` the number of outputs that are free to vary. ``traces`` are tr(Pⱼ⁻¹Sᵢ) of each term, where inequalities
    leave β a part of its space.
    """
    updated: list[Vector] = []
    for term, (columns, matrices) in enumerate(zip(layout.slices, layout.roughness, strict=True)):
        covariance = np.mean([part.covariances[term] for part in posteriors], axis=0)
        beta, now = coefficients[columns], strengths[term]
        if traces is not None and not traces[term].any():  # nothing is free, hence nothing is known
            updated.append(now)
            continue
        if layout.jumping[term]:
            prior = 1.0 / now if traces is None else traces[term]
            gained, squares = prior - covariance.diagonal(), np.sum(beta**2, axis=1) / free
            updated.append(np.where(prior > 0.0, fellner_schall(now, gained, squares), now))
            continue
        gained = prior_traces(precisions[term], now, matrices) if traces is None else traces[term].copy()
        gained -= np.array([np.sum(covariance * matrix) for matrix in matrices])
        squares = np.array([np.sum(beta * (matrix @ beta)) for matrix in matrices]) / free
        squares[0] += pulled(now[0], gained[0])
        updated.append(fellner_schall(now, gained, squares))
    return updated


def fellner_schall(strengths: Array, gained: Array, squares: Array) -> Array:
    """Return λ g/q within the limits of λ and of one update, for arrays of one shape; see `updated_strengths`."""
    factors = np.maximum(gained, 1e-10) / np.maximum(squares, 1e-14)
    return np.clip(strengths * np.clip(factors, 1.0 / LARGEST_STEP, LARGEST_STEP), LOWEST, HIGHEST)


def pulled(strength: Array, gained: Array) -> Array:
    """Return what keeps a weak term from 0, to be added to q₁; see `updated_strengths`."""
    return PULL * (1.0 - np.clip(strength * gained, 0.0, 1.0)) / strength


def prior_traces(precision: Matrix, strengths: Vector, matrices: Sequence[Matrix]) -> Vector:
    """Return tr(Pⱼ⁻¹Sᵢ) for each Sᵢ of one term, shape (matrices,); it is m/λ where Pⱼ is λS."""
    size = precision.shape[0]
    if len(matrices) == 1:
        return size / strengths
    safe = precision + 1e-14 * np.trace(precision) / size * np.eye(size)
    prior = cast(Matrix, np.linalg.inv(safe))
    return np.array([np.sum(prior * matrix) for matrix in matrices])
