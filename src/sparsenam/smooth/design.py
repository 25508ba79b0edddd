"""The ramps of all terms as columns: sums over rows, the prior on roughness, and how likelihood sets its weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from scipy.linalg import cho_solve, cholesky, lapack, solve_triangular
from scipy.sparse.linalg import SuperLU

from sparsenam.convex.design import Array, Indices
from sparsenam.convex.ramps import NEAREST_KNOTS, SPACING, PlacedRows, Ramps, distinct, ramps_among, slots
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
    values, counts = distinct(cells, weights)
    if values.size < 2:
        start = values[0] if values.size else 0.0
        return Ramps(np.array([start, start + 1.0]))
    return (_with_jump(values, counts, count) if may_jump else None) or ramps_among(values, counts, count)


def _with_jump(values: Vector, counts: Vector, count: int) -> Ramps | None:
    """Return ramps of which one jumps from the first or last value, if that has many rows, as 0 has of most gains."""
    if count < 4 or values.size <= count + 1:  # every value is a knot
        return None
    least = NEAREST_KNOTS * (values[-1] - values[0])
    for end, beside, rest in ((0, 1, slice(1, None)), (-1, -2, slice(-1))):
        has_many = counts[end] >= max(JUMP_SHARE * counts.sum(), JUMP_TIMES * counts[rest].mean())
        if has_many and abs(values[beside] - values[end]) > least:
            knots = ramps_among(values[rest], counts[rest], count - 1).knots
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


class Kind(NamedTuple):
    """The k terms with as many columns and matrices, whose sums are taken at once: a call for each takes longer.

    ``columns`` (k, m) and ``knots`` (k, m + 1) are their places, ``matrices`` (k, i, m, m) their roughness.
    """

    terms: Sequence[int]
    columns: Indices
    knots: Indices
    matrices: Array
    jumps: bool

    def of(self, values: Sequence[Array]) -> Array:
        """Return what belongs to these terms among arrays of each term, shape (k, ...)."""
        return np.stack([values[term] for term in self.terms])

    def traces(self, matrices: Array) -> Array:
        """Return tr(MSᵢ) for M (k, m, m), shape (k, i), or the diagonals of M where the terms jump."""
        return np.einsum("kaa->ka", matrices) if self.jumps else np.einsum("kab,kiab->ki", matrices, self.matrices)


@dataclass(frozen=True, eq=False)
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

    @cached_property
    def kinds(self) -> list[Kind]:
        """The terms by their numbers of columns and of matrices."""
        found, kinds = dict[tuple[int, int, bool], list[int]](), list[Kind]()
        for term, (place, matrices) in enumerate(zip(self.slices, self.roughness, strict=True)):
            found.setdefault((place.stop - place.start, len(matrices), self.jumping[term]), []).append(term)
        for (size, _, jumps), terms in found.items():
            matrices = np.zeros(0) if jumps else np.stack([np.stack(self.roughness[term]) for term in terms])
            columns = np.array([self.slices[term].start for term in terms])[:, None] + np.arange(size + 1)
            kinds.append(Kind(terms, columns[:, :size], columns + np.array(terms)[:, None], matrices, jumps))
        return kinds

    def by_term(self, found: Sequence[Array]) -> tuple[Array, ...]:
        """Return what was found for each kind, shape (its terms, ...), by term."""
        parts = [each for of_kind in found for each in of_kind]
        terms = [term for kind in self.kinds for term in kind.terms]
        return tuple(parts[terms.index(term)] for term in range(len(terms)))

    def precisions(self, strengths: Sequence[Vector]) -> tuple[Matrix, ...]:
        """Return Pⱼ = Σᵢ λᵢSᵢ of each term, (m_j, m_j); diag(λ) where it jumps."""
        given = [(kind, kind.of(strengths)) for kind in self.kinds]
        found = [
            each[:, :, None] * np.eye(each.shape[1]) if kind.jumps else np.einsum("ki,kiab->kab", each, kind.matrices)
            for kind, each in given
        ]
        return self.by_term(found)

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
        self.layout, self.means = layout, np.zeros(layout.size)
        beyond = self.to_ramps(at_knots[:, None])[:, 0]
        for kind in layout.kinds:
            totals = np.maximum(at_knots[kind.knots].sum(axis=1, keepdims=True), np.finfo(float).tiny)
            self.means[kind.columns] = beyond[kind.columns] / totals

    def at_knots(self, coefficients: Matrix) -> Matrix:
        """Return Tβ, the values of a sum of ramps at all knots, shape (knots, r)."""
        values = np.zeros((self.layout.size + len(self.layout.ramps), coefficients.shape[1]))
        for kind in self.layout.kinds:
            beta, means = coefficients[kind.columns], self.means[kind.columns][:, None]
            values[kind.knots[:, 1:]] = np.cumsum(beta, axis=1)
            values[kind.knots] -= np.matmul(means, beta)
        return values

    def to_ramps(self, sums: Matrix) -> Matrix:
        """Return Tᵀs, shape (columns, r), for s of shape (knots, r)."""
        result = np.empty((self.layout.size, sums.shape[1]))
        for kind in self.layout.kinds:
            part = sums[kind.knots]
            beyond = np.cumsum(part[:, :0:-1], axis=1)[:, ::-1]  # of each ramp
            result[kind.columns] = beyond - self.means[kind.columns][:, :, None] * part.sum(axis=1, keepdims=True)
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
        """Return the sums of products of columns under weights (rows,), with R where columns outnumber rows."""
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
        layout, blocks, freedom, traces = self.layout, self.blocks(), list[Array](), list[Array]()
        for kind, block in zip(layout.kinds, blocks, strict=True):
            precisions, size = kind.of(self.precisions), kind.columns.shape[1]
            freedom.append(np.clip(size - np.sum(block * precisions, axis=(1, 2)), 0.0, size))
            if kind.jumps or len(kind.matrices[0]) == 1 or not size:  # P is λS
                traces.append((1 if kind.jumps else size) / kind.of(self.strengths))
            else:
                traces.append(kind.traces(np.asarray(np.linalg.inv(regularised(precisions)), dtype=np.float64)))
        sizes = np.array([len(precision) for precision in self.precisions], dtype=np.float64)
        by_term = layout.by_term
        return Spread(by_term(blocks), np.array(by_term(freedom)), by_term(traces), sizes)

    def blocks(self) -> list[Array]:
        """Return the blocks of V of each kind's terms (k, m, m): they are made of columns of L⁻¹ squared."""
        inverse = lapack.dtrtri(self.factor, lower=1)[0] if self.factor.size else self.factor
        roots = [inverse.T[kind.columns] * self.scales[kind.columns][:, :, None] for kind in self.layout.kinds]
        return [np.matmul(each, each.transpose(0, 2, 1)) for each in roots]


class PosteriorOfRows(Posterior):
    """The same through a matrix of rows, where columns outnumber them: given R (columns, rows) with RRᵀ = ZᵀWZ.

    With P = LLᵀ, which goes by term, and A = L⁻¹R/√φ, V = L⁻ᵀ(I - A(I + AᵀA)⁻¹Aᵀ)L⁻¹ (Sherman, Morrison and Woodbury).
    """

    def __init__(self, layout: Layout, root: Matrix, strengths: Sequence[Vector], noise: float) -> None:
        self.layout, self.strengths, self.precisions = layout, strengths, layout.precisions(strengths)
        lowers = [np.linalg.cholesky(regularised(kind.of(self.precisions))) for kind in layout.kinds]
        self._turns = layout.by_term([np.asarray(np.linalg.inv(each), dtype=np.float64) for each in lowers])
        over = layout.times(self._turns, root / np.sqrt(noise))
        lower = np.linalg.cholesky(np.eye(over.shape[1]) + over.T @ over)
        self._down: Matrix = solve_triangular(lower, over.T, lower=True, check_finite=False)

    def solve(self, pull: Matrix) -> Matrix:
        turned = self.layout.times(self._turns, pull)
        turned -= self._down.T @ (self._down @ turned)
        return self.layout.times([turn.T for turn in self._turns], turned)

    def blocks(self) -> list[Array]:
        found = list[Array]()
        for kind in self.layout.kinds:
            turn, part = kind.of(self._turns), self._down.T[kind.columns]
            left = np.eye(turn.shape[1]) - np.matmul(part, part.transpose(0, 2, 1))
            found.append(np.matmul(turn.transpose(0, 2, 1), np.matmul(left, turn)))
        return found


def regularised(precisions: Array) -> Array:
    """Return precisions (…, m, m) that are positive definite in spite of rounding."""
    size = precisions.shape[-1]
    return precisions + 1e-14 / size * np.trace(precisions, axis1=-2, axis2=-1)[..., None, None] * np.eye(size)


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
    updated = list[Array]()
    for kind in layout.kinds:
        now, prior = kind.of(strengths), np.mean([kind.of(each.traces) for each in spreads], axis=0)
        gained = prior - kind.traces(np.mean([kind.of(each.covariances) for each in spreads], axis=0))
        beta = coefficients[kind.columns]
        squares = kind.traces(np.matmul(beta, beta.transpose(0, 2, 1))) / free
        if not kind.jumps:
            squares[:, 0] += pulled(now[:, 0], gained[:, 0])
        # where inequalities leave nothing free nothing is known
        known = prior > 0.0 if kind.jumps else prior.any(axis=1, keepdims=True)
        updated.append(np.where(known, fellner_schall(now, gained, squares), now))
    return list(layout.by_term(updated))


def fellner_schall(strengths: Array, gained: Array, squares: Array) -> Array:
    """Return λ g/q within the limits of λ and of one update, for arrays of one shape; see `updated_strengths`."""
    factors = np.maximum(gained, 1e-10) / np.maximum(squares, 1e-14)
    return np.clip(strengths * np.clip(factors, 1.0 / LARGEST_STEP, LARGEST_STEP), LOWEST, HIGHEST)


def pulled(strength: Array, gained: Array) -> Array:
    """Return what keeps a weak term from 0, to be added to q₁; see `updated_strengths`."""
    return PULL * (1.0 - np.clip(strength * gained, 0.0, 1.0)) / strength
