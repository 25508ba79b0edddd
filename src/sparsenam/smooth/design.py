"""The ramps of all terms as columns: sums over rows, the prior on roughness, and how likelihood sets its weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from scipy.linalg import cho_solve, cholesky, lapack, solve_triangular
from scipy.sparse.linalg import SuperLU

from sparsenam.convex.design import Array
from sparsenam.convex.ramps import NEAREST_KNOTS, SPACING, PlacedRows, Ramps, distinct, place_ramps, slots
from sparsenam.tables.sample import Matrix, Vector

Gram = TypeVar("Gram")

# without jumps four_or_nine loses 11 % and generated word counts 7 % (make ablate); other values were not measured
JUMP_SHARE, JUMP_TIMES = 0.02, 10.0  # share of the rows, and times as many as other values on average: it may jump
LOWEST, HIGHEST = 1e-6, 1e9  # of λ: the floor keeps the scores of separated classes finite
# at which a term is kept from 0: without, four_or_nine loses 4 % and genes2 69 % (benchmarks/ablate.py --only PULL)
# make constants: PULL halved -0.22 %, doubled +0.12 % loss
PULL = 0.5
# make constants: LARGEST_STEP halved -0.34 %, doubled -0.19 % loss
LARGEST_STEP = 20.0  # factor by which one update may change λ; a guard that costs nothing
JITTER = 1e-12  # share of the diagonal added before factorising


def ramps_of(cells: Vector, weights: Vector, count: int, *, may_jump: bool = True) -> Ramps:
    """Return the ramps of a term's cells (rows,); one that is 0 in every row for a term without two values."""
    present = ~np.isnan(cells)
    if not present.all():
        cells, weights = cells[present], weights[present]
    if cells.size == 0 or np.ptp(cells) == 0.0:
        start = cells[0] if cells.size else 0.0
        return Ramps(np.array([start, start + 1.0]))
    return (_with_jump(cells, weights, count) if may_jump else None) or place_ramps(cells, weights, count)


def _with_jump(cells: Vector, weights: Vector, count: int) -> Ramps | None:
    """Return ramps of which one jumps from the first or last value, if that has many rows, as 0 has of most gains."""
    values, counts = distinct(cells, weights)
    if count < 4 or values.size <= count + 1:  # every value is a knot
        return None
    least = NEAREST_KNOTS * (values[-1] - values[0])
    for end, beside, others in ((0, 1, counts[1:]), (-1, -2, counts[:-1])):
        has_many = counts[end] >= max(JUMP_SHARE * counts.sum(), JUMP_TIMES * others.mean())
        if has_many and abs(values[beside] - values[end]) > least:
            rest = cells > values[0] if end == 0 else cells < values[-1]
            knots = place_ramps(cells[rest], weights[rest], count - 1).knots
            if end == 0:  # no margin on the side of the jump
                return Ramps(np.array([values[0], values[1], *knots[1:]]), 0)
            return Ramps(np.array([*knots[:-1], values[-2], values[-1]]), knots.size - 1)
    return None


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
        matrices: list[tuple[Matrix, ...]] = []
        for term, each in enumerate(ramps):
            if jumping is not None and jumping[term]:
                matrices.append((np.eye(each.size),))
            else:
                matrices.append(scatter(each) if levels is not None and levels[term] else roughness(each))
        slices = slots([each.size for each in ramps])
        return cls(tuple(ramps), slices, tuple(matrices), tuple(jumping or [False] * len(ramps)))

    def take(self, terms: Sequence[int]) -> Layout:
        """Return the layout of some of its terms."""
        ramps = tuple(self.ramps[term] for term in terms)
        matrices, jumping = (self.roughness[term] for term in terms), (self.jumping[term] for term in terms)
        return Layout(ramps, slots([each.size for each in ramps]), tuple(matrices), tuple(jumping))

    @property
    def size(self) -> int:
        """Number of columns."""
        return self.slices[-1].stop if self.slices else 0

    def precisions(self, strengths: Sequence[Vector]) -> tuple[Matrix, ...]:
        """Return Pⱼ = Σᵢ λᵢSᵢ of each term, (m_j, m_j); diag(λ) where it jumps."""
        return tuple(
            np.diag(strength)
            if jumps
            else np.sum([value * matrix for value, matrix in zip(strength, matrices, strict=True)], axis=0)
            for strength, matrices, jumps in zip(strengths, self.roughness, self.jumping, strict=True)
        )

    def added(self, matrix: Matrix, precisions: Sequence[Matrix]) -> Matrix:
        """Return the matrix (columns, columns), changed in place, with the terms' precisions on its diagonal."""
        for columns, precision in zip(self.slices, precisions, strict=True):
            matrix[columns, columns] += precision
        return matrix

    def times(self, precisions: Sequence[Matrix], coefficients: Matrix) -> Matrix:
        """Return Pβ, shape (columns, outputs)."""
        parts = zip(self.slices, precisions, strict=True)
        return np.concatenate([precision @ coefficients[columns] for columns, precision in parts])

    def first_strengths(self, gram: Matrix, before: tuple[Layout, Sequence[Vector]] | None = None) -> list[Vector]:
        """Return first λ: each Sᵢ gets the data's information ZᵀWZ/φ, shape (columns, columns).

        It is tr G/tr Sᵢ, from the smooth side, where steps are few and safe; for levels, whose order must not matter,
        tr S⁻¹G/m. The λ of a fit with other ramps are taken instead where it had as many matrices: k times as many
        ramps have slopes' differences k times smaller in each order, hence λᵢ k²ⁱ⁻¹.
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
            first.append(np.clip(found, LOWEST, HIGHEST))
        if before is None:
            return first
        for term, (ramps, strengths) in enumerate(zip(before[0].ramps, before[1], strict=True)):
            if strengths.size == first[term].size and (ramps.jump is None) == (self.ramps[term].jump is None):
                growth, powers = self.ramps[term].size / ramps.size, 2.0 * np.arange(strengths.size) + 1.0
                powers[len(powers) if ramps.jump is None else -1 :] = 0.0  # a jump is as large whatever the ramps
                first[term] = strengths * growth**powers
        return first


@dataclass(frozen=True, slots=True, eq=False)
class WeightedGram:
    """ZᵀWZ once the intercept is eliminated, (columns, columns), and what elimination needs.

    ``means`` (columns,) are the means of the columns under the weights W, ``total`` the sum of the weights. ``root``
    (columns, rows), if it was asked for, is R with RRᵀ the matrix.
    """

    matrix: Matrix
    means: Vector
    total: float
    root: Matrix | None = None


class RampBasis:
    """T (knots, columns): the values at all knots of each ramp less its mean.

    A sum of ramps with coefficients β is H T β in the rows. ``means`` (columns,) are over the rows in which a ramp's
    term is present, by the weights whose sums at the knots, HᵀW1 (knots,), are given. Where a term is absent, its
    ramps less their means are 0.
    """

    def __init__(self, layout: Layout, at_knots: Vector) -> None:
        self.layout = layout
        self.knots = slots([ramps.size + 1 for ramps in layout.ramps])
        self.means = np.zeros(layout.size)
        for columns, knots in zip(layout.slices, self.knots, strict=True):
            self.means[columns] = _beyond(at_knots[knots]) / max(at_knots[knots].sum(), np.finfo(float).tiny)

    def at_knots(self, coefficients: Matrix) -> Matrix:
        """Return Tβ, the values of a sum of ramps at all knots, shape (knots, r)."""
        values = np.zeros((self.knots[-1].stop, coefficients.shape[1]))
        for columns, knots in zip(self.layout.slices, self.knots, strict=True):
            values[knots][1:] = np.cumsum(coefficients[columns], axis=0)
            values[knots] -= self.means[columns] @ coefficients[columns]
        return values

    def to_ramps(self, sums: Matrix) -> Matrix:
        """Return Tᵀs, shape (columns, r), for s of shape (knots, r)."""
        result = np.empty((self.layout.size, sums.shape[1]))
        for columns, knots in zip(self.layout.slices, self.knots, strict=True):
            part = sums[knots]
            result[columns] = _beyond(part) - np.multiply.outer(self.means[columns], part.sum(axis=0))
        return result

    def gram(self, knot_gram: Matrix, at_knots: Vector, total: float) -> WeightedGram:
        """Return the products of columns from HᵀWH (knots, knots), HᵀW1 (knots,) and the sum of the weights."""
        means = self.to_ramps(at_knots[:, None])[:, 0] / total
        matrix = self.to_ramps(self.to_ramps(knot_gram).T)
        matrix -= np.outer(total * means, means)
        return WeightedGram(matrix, means, total)


class RampDesign(RampBasis):
    """Z = H T: the ramps of all terms, less their weighted means, in rows x (terms, rows)."""

    def __init__(self, layout: Layout, x: Matrix, weights: Vector) -> None:
        self.placed = PlacedRows.of(layout.ramps, x)
        super().__init__(layout, self.placed.sums(weights[:, None])[:, 0])

    def times(self, coefficients: Matrix) -> Matrix:
        """Return Zβ, shape (rows, r)."""
        return self.placed.times(self.at_knots(coefficients))

    def transposed_times(self, values: Matrix) -> Matrix:
        """Return Zᵀv, shape (columns, r), for v of shape (rows, r)."""
        return self.to_ramps(self.placed.sums(values))

    def weighted_gram(self, weights: Vector) -> WeightedGram:
        """Return the sums of products of columns under weights of shape (rows,); with R where columns outnumber rows."""
        if self.placed.n_rows < self.layout.size:
            total = float(weights.sum())
            means = self._columns @ weights / total
            root = (self._columns - means[:, None]) * np.sqrt(weights)
            return WeightedGram(np.asarray(root @ root.T), means, total, root)
        at_knots = self.placed.sums(weights[:, None])[:, 0]
        return self.gram(self.placed.gram(weights), at_knots, float(weights.sum()))

    @cached_property
    def _columns(self) -> Matrix:
        """Zᵀ, shape (columns, rows)."""
        return self.to_ramps(self.placed.dense())


def _beyond(sums: Matrix) -> Matrix:
    """Return for each ramp the sum over the knots beyond it, along the first axis: shape (m, …) from (m + 1, …)."""
    return np.cumsum(sums[:0:-1], axis=0)[::-1]


class CachedGrams(Generic[Gram]):
    """ZᵀWZ for the working weights (parts, rows) of each output, or of all: made anew where these have changed.

    ``tolerance`` is the relative change up to which the last ones are returned.
    """

    def __init__(self, make: Callable[[Vector], Gram], tolerance: float = 0.0) -> None:
        self._make, self._tolerance = make, tolerance
        self._weights, self._grams = np.zeros((0, 0)), list[Gram]()

    def __call__(self, weights: Matrix) -> list[Gram]:
        if not self._grams or np.abs(weights - self._weights).sum() > self._tolerance * weights.sum():
            self._weights, self._grams = weights, [self._make(each) for each in weights]
        return self._grams


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """How uncertain coefficients are: of each term the covariance V (m_j, m_j) and tr(Pⱼ⁻¹Sᵢ) (matrices,).

    ``degrees_of_freedom`` (terms,) are m_j - tr(VⱼⱼPⱼ), the term's share of the smoother's trace, and ``dimensions``
    (terms,) the numbers of coefficients that are free.
    """

    covariances: tuple[Matrix, ...]
    degrees_of_freedom: Vector
    traces: tuple[Vector, ...]
    dimensions: Vector


class Posterior:
    """The inverse V of H = ZᵀWZ/φ + P, given ZᵀWZ (columns, columns), the strengths of the prior and φ.

    ``factor`` is L and ``scales`` the diagonal of D, shape (columns,), in H = D⁻¹LLᵀD⁻¹.
    """

    def __init__(self, layout: Layout, gram: Matrix, strengths: Sequence[Vector], noise: float) -> None:
        self.layout, self.strengths, self.precisions = layout, strengths, layout.precisions(strengths)
        self.factor, self.scales = factorised(layout, gram, self.precisions, noise)

    def solve(self, pull: Matrix) -> Matrix:
        """Return V times ``pull``, both (columns, r)."""
        scales = self.scales[:, None]
        return scales * cho_solve((self.factor, True), scales * pull, check_finite=False)

    @cached_property
    def spread(self) -> Spread:
        """What V says of each term."""
        blocks, freedom, traces = self.blocks(), list[float](), list[Vector]()
        for term, (block, precision) in enumerate(zip(blocks, self.precisions, strict=True)):
            size, strength = len(precision), self.strengths[term]
            freedom.append(float(np.clip(size - np.sum(block * precision), 0.0, size)))
            jumps = self.layout.jumping[term]
            traces.append(1.0 / strength if jumps else prior_traces(precision, strength, self.layout.roughness[term]))
        sizes = np.array([len(precision) for precision in self.precisions], dtype=np.float64)
        return Spread(tuple(blocks), np.array(freedom), tuple(traces), sizes)

    def blocks(self) -> list[Matrix]:
        """Return the block of V of each term (m_j, m_j): it is made of columns of L⁻¹ squared."""
        inverse = lapack.dtrtri(self.factor, lower=1)[0] if self.factor.size else self.factor
        parts = [np.tril(inverse[each.start :, each]) * self.scales[each] for each in self.layout.slices]
        return [part.T @ part for part in parts]


class PosteriorOfRows(Posterior):
    """The same through a matrix of rows, where columns outnumber them: given R (columns, rows) with RRᵀ = ZᵀWZ.

    With P = LLᵀ, which goes by term, and A = L⁻¹R/√φ, V = L⁻ᵀ(I - A(I + AᵀA)⁻¹Aᵀ)L⁻¹ (Sherman, Morrison and Woodbury).
    """

    def __init__(self, layout: Layout, root: Matrix, strengths: Sequence[Vector], noise: float) -> None:
        self.layout, self.strengths, self.precisions = layout, strengths, layout.precisions(strengths)
        self._turns = [np.linalg.inv(np.linalg.cholesky(nearly(each))) for each in self.precisions]  # L⁻¹
        over = layout.times(self._turns, root / np.sqrt(noise))
        lower = np.linalg.cholesky(np.eye(over.shape[1]) + over.T @ over)
        self._down: Matrix = solve_triangular(lower, over.T, lower=True, check_finite=False)

    def solve(self, pull: Matrix) -> Matrix:
        turned = self.layout.times(self._turns, pull)
        turned -= self._down.T @ (self._down @ turned)
        return self.layout.times([turn.T for turn in self._turns], turned)

    def blocks(self) -> list[Matrix]:
        parts = [self._down[:, each] for each in self.layout.slices]
        return [
            turn.T @ (np.eye(len(turn)) - part.T @ part) @ turn for turn, part in zip(self._turns, parts, strict=True)
        ]


def nearly(precision: Matrix) -> Matrix:
    """Return a precision that is positive definite in spite of rounding."""
    return precision + 1e-14 * np.trace(precision) / len(precision) * np.eye(len(precision))


def solved_by_output(factors: Sequence[Posterior] | Sequence[SuperLU[np.float64]], pull: Matrix) -> Matrix:
    """Return H⁻¹ times ``pull``, both (columns, outputs), for a factorised H of each output, or one for all."""
    parts = [pull] if len(factors) == 1 else np.split(pull, pull.shape[1], axis=1)
    return np.hstack([factor.solve(part) for factor, part in zip(factors, parts, strict=True)])


def factorised(layout: Layout, gram: Matrix, precisions: Sequence[Matrix], noise: float) -> tuple[Matrix, Vector]:
    """Return the lower Cholesky factor of DHD and D, with as much jitter as rounding asks for.

    D makes the diagonal 1: the jitter is then a share of each column, and a term with a strong prior does not
    add to that of another.
    """
    jitter = JITTER
    while True:  # mostly once: the matrix is made anew rather than kept, since it is large
        curvature = layout.added(gram / noise, precisions)
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
    layout: Layout, strengths: Sequence[Vector], spreads: Sequence[Spread], coefficients: Matrix, free: int
) -> list[Vector]:
    """Return λᵢ · gᵢ/qᵢ, the Fellner-Schall update: gᵢ = tr((Pⱼ⁻¹ - Vⱼⱼ)Sᵢ) and qᵢ = βⱼᵀSᵢβⱼ, means over outputs.

    Alone it ends at the restricted likelihood's maximum, which with few rows says 0 of weak terms. Hence for S₁, which
    holds the size of a term: to q₁ is added PULL (1 - λ₁g₁)₊/λ₁, so that no term falls below PULL/(1 + PULL) degrees
    of freedom while those above 1 are left alone.

    ``spreads`` hold one covariance for each output or one for all, ``coefficients`` is (columns, outputs), and
    ``free`` the number of outputs that are free to vary.
    """
    updated, traces = list[Vector](), [np.mean(each, axis=0) for each in zip(*(s.traces for s in spreads), strict=True)]
    for term, (columns, matrices) in enumerate(zip(layout.slices, layout.roughness, strict=True)):
        covariance = np.mean([part.covariances[term] for part in spreads], axis=0)
        beta, now, gained = coefficients[columns], strengths[term], traces[term]
        if layout.jumping[term]:
            squares = np.sum(beta**2, axis=1) / free
            found = fellner_schall(now, gained - covariance.diagonal(), squares)
            updated.append(np.where(gained > 0.0, found, now))
        elif gained.any():
            gained -= np.array([np.sum(covariance * matrix) for matrix in matrices])
            squares = np.array([np.sum(beta * (matrix @ beta)) for matrix in matrices]) / free
            squares[0] += pulled(now[0], gained[0])
            updated.append(fellner_schall(now, gained, squares))
        else:  # inequalities leave nothing free, hence nothing is known
            updated.append(now)
    return updated


def fellner_schall(strengths: Array, gained: Array, squares: Array) -> Array:
    """Return λ g/q within the limits of λ and of one update, for arrays of one shape; see `updated_strengths`."""
    factors = np.maximum(gained, 1e-10) / np.maximum(squares, 1e-14)
    return np.clip(strengths * np.clip(factors, 1.0 / LARGEST_STEP, LARGEST_STEP), LOWEST, HIGHEST)


def pulled(strength: Array, gained: Array) -> Array:
    """Return what keeps a weak term from 0, to be added to q₁; see `updated_strengths`."""
    return PULL * (1.0 - np.clip(strength * gained, 0.0, 1.0)) / strength


def prior_traces(precision: Matrix, strengths: Vector, matrices: Sequence[Matrix]) -> Vector:
    """Return tr(Pⱼ⁻¹Sᵢ) for each Sᵢ of one term, shape (matrices,); m/λ where Pⱼ is λS, 0 where m is 0."""
    size = precision.shape[0]
    if len(matrices) == 1 or not size:
        return size / strengths
    prior = np.asarray(np.linalg.inv(nearly(precision)), dtype=np.float64)
    return np.array([np.sum(prior * matrix) for matrix in matrices])
