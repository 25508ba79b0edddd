"""One pair on a grid of nodes: bilinear hats, first differences along either axis, strengths by restricted likelihood.

A row touches four nodes, so that all sums are sparse and so is the factor of the posterior's precision. The prior
precision is P = λ₁ A⊗I + λ₂ I⊗B + λ₃ I: differences between neighbours along either axis, and the size of the values.
Traces of P⁻¹ come from the eigenvalues of A and B, traces of the posterior's covariance from random probes.

Levels without order have no neighbours, so an axis of levels has no matrix of its own. A category and a number are then
one smooth curve for each level, its size held back: a factor smooth interaction (Wood, Generalized Additive Models,
2017, section 7.7). Two categories are a random effect for each cell. What levels have in common the main effects hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, eye_array, kron, vstack
from scipy.sparse.linalg import SuperLU, splu

from sparsenam.convex.ramps import Ramps, distinct, place_ramps
from sparsenam.model.pairs import GridCells, PairFunction, Purified, purified
from sparsenam.smooth.constraints import dense
from sparsenam.smooth.design import HIGHEST, LOWEST, CachedGrams, fellner_schall, roughness, solved_by_output
from sparsenam.tables.sample import Matrix, Vector

# random vectors of ±1. Over 12 draws (5,000 rows, 16 and 32 intervals) degrees of freedom vary by 2 %, the strengths of
# differences by 4 to 7 %; that of the size by 30 to 70 %, where it hardly matters
PROBES = 12
# of the shares of a grid's strength: steps 0.083 of the empty loss and California, split 0, 0.166; 0.089 and 0.172
# with 2, 0.097 and 0.165 with shares that are all equal (benchmarks/pairs.py named, california)
EVEN = 8.0
# share of the data's information in the first prior: all 15 pairs of steps 0.0817 of the empty loss; 0.0915 with 0.02,
# 0.0887 with 1
FIRST_PAIR_PRIOR = 0.2
# of λ₃: a prior deviation of 100 at most keeps cells of one class finite; with 10 at most exact XOR loses 0.042 of the
# empty loss instead of 0.017
LEAST_SIZE = 1e-4
# of a penalty on rises of the wrong sign, in mean diagonals: soft, two and steps (benchmarks/shapes.py pairs) are the
# same to 0.5 % from 1e2 to 1e8
STIFF = 1e4
ORDERINGS = 20  # solutions until their set is stable, at most: 4 or 5 are usual; with two such columns some never are
POSTERIOR_DRAWS = 100  # from the posterior of a pair; a standard deviation is then known to 7 %
NODES_AT_ONCE = 2**16  # of which all draws are held together: 50 megabytes; two categories may have more

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, eq=False)
class PairSpread:
    """The standard deviations of a pair without what either term explains alone, and of those two functions.

    ``nodes`` is (a + 1, b + 1, outputs), ``rows`` (a + 1, outputs), ``columns`` (b + 1, outputs), on the fit's scale;
    ``knots`` (a,) and (b,) are those of the scaled terms.
    """

    knots: tuple[Vector, Vector]
    nodes: NDArray[np.float64]
    rows: Matrix
    columns: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class GridAxis:
    """The nodes along one axis, ascending, in units of the scaled term; one more is for absent cells.

    ``sign`` is 1 where the effect must not fall along the axis, -1 where it must not rise.
    """

    knots: Vector
    is_unordered: bool
    sign: int = 0

    @classmethod
    def of(cls, cells: Vector, weights: Vector, count: int, is_unordered: bool, sign: int = 0) -> GridAxis:
        """Return at most ``count`` + 1 nodes at quantiles of the cells (rows,), or one for each level."""
        present = ~np.isnan(cells)
        cells, weights = cells[present], weights[present]
        if is_unordered:
            return cls(distinct(cells, weights)[0], True)
        return cls(place_ramps(cells, weights, count).knots, False, sign)

    @property
    def size(self) -> int:
        """Number of nodes."""
        return self.knots.size + 1

    def rises(self) -> Matrix:
        """Return the rises between neighbours, shape (knots - 1, nodes); absent cells are no neighbour."""
        return np.diff(np.eye(self.size), axis=0)[:-1]

    def differences(self) -> Matrix:
        """Return what roughness is the sum of squares of: slopes between neighbours."""
        return np.sqrt(roughness(Ramps(self.knots))[0]) @ self.rises()


def output_means(values: Matrix, weights: Matrix) -> Vector:
    """Return the means of values (rows, outputs) over the rows, by weights (outputs, rows), or (1, rows) for all."""
    return np.sum(weights.T * values, axis=0) / weights.sum(axis=1)


class GridBlock:
    """One pair in a fit: values at its nodes, shape (nodes, outputs), and one strength λ for each matrix of its prior.

    ``nodes`` are those of the grid, of two categories only those that hold rows: no other node hangs on them.
    ``fitted`` (rows, outputs) is the effect, of mean 0 over the rows' weights; ``freedom`` its degrees of freedom.
    """

    def __init__(
        self, axes: tuple[GridAxis, GridAxis], x: tuple[Vector, Vector], outputs: int, generator: np.random.Generator
    ) -> None:
        self.axes, self.shape, self._knots = axes, (axes[0].size, axes[1].size), (axes[0].knots, axes[1].knots)
        self._ordered = [side for side, axis in enumerate(axes) if not axis.is_unordered]
        self.design = hats(axes, x)
        nodes = np.arange(self.shape[0] * self.shape[1])
        self.nodes = nodes if self._ordered else np.unique(self.design.indices)
        self._others = np.setdiff1d(nodes, self.nodes)
        self.design = self.design[:, self.nodes] if self._others.size else self.design
        self._transposed = self.design.T.tocsr()
        self._differences = [axes[side].differences() for side in self._ordered]
        rises = [axis.sign * self._along(side, axis.rises()) for side, axis in enumerate(axes) if axis.sign]
        self._rises = csr_array(vstack([csr_array((0, self.size)), *rises]))  # what must not be negative
        self._set_shares([np.ones(len(each)) for each in self._differences])
        self._probes = generator.choice(np.array([-1.0, 1.0]), size=(self.size, PROBES))
        self._solved = self._probes
        self.values = np.zeros((self.size, outputs))
        self.fitted = np.zeros((x[0].size, outputs))
        self.strengths: Vector | None = None
        self.freedom = 0.0
        self._traces = np.zeros(len(self._ordered) + 1)
        self._grams = CachedGrams(self._gram)

    @property
    def size(self) -> int:
        """Number of nodes."""
        return self.nodes.size

    def _set_shares(self, shares: Sequence[Vector]) -> None:
        """Set the share of the strength that each difference along the axes with order has."""
        self.shares = list(shares)
        self._forms = [each.T @ (share[:, None] * each) for each, share in zip(self._differences, shares, strict=True)]
        spectral = [np.linalg.eigh(form) for form in self._forms]
        self._spectra = [(np.maximum(values, 0.0), vectors) for values, vectors in spectral]
        self.matrices = self._on_grid(self._forms)

    def _by_side(self, parts: Sequence[Item]) -> list[tuple[int, Item]]:
        """Return the axes with order, 0 or 1, each with its part."""
        return list(zip(self._ordered, parts, strict=True))

    def _variances(self, strengths: Vector) -> NDArray[np.float64]:
        """Return the prior variances along the eigenvectors of the axes with order, shape of the grid; or (nodes,)."""
        total = np.zeros(self.shape if self._ordered else self.size)
        for strength, (side, (values, _)) in zip(strengths, self._by_side(self._spectra), strict=False):
            total += strength * (values if side else values[:, None])
        return 1.0 / (total + strengths[-1])

    def _on_grid(self, forms: Sequence[Matrix]) -> list[csc_array[np.float64]]:
        """Return A⊗I and I⊗B for matrices A and B of the axes, those with order, and I."""
        return [*(self._along(side, form) for side, form in self._by_side(forms)), eye_array(self.size, format="csc")]

    def _along(self, side: int, form: Matrix) -> csc_array[np.float64]:
        """Return the matrix of the grid for a matrix of one axis, which acts on each of its lines."""
        parts = csr_array(form), eye_array(self.shape[1 - side])
        return kron(*(parts[::-1] if side else parts), format="csc")

    def _forms_of(self, values: Matrix, others: Matrix) -> Vector:
        """Return Σ vᵀSᵢu over the columns v and u of two arrays (nodes, r), shape (matrices,)."""
        found = list[float]()
        for side, form in self._by_side(self._forms):
            one, other = (each.reshape(*self.shape, -1) for each in (values, others))
            found.append(float(np.sum(one * (np.matmul(form, other) if side else np.tensordot(form, other, 1)))))
        return np.array([*found, np.sum(values * others)])

    def spread_out(self, values: NDArray[np.float64], others: NDArray[np.float64] | float = 0.0) -> NDArray[np.float64]:
        """Return values (nodes, …) in the shape of the grid; ``others`` are those of nodes that are not in the fit."""
        found = np.empty((self.shape[0] * self.shape[1], *values.shape[1:]))
        found[self.nodes], found[self._others] = values, others
        return found.reshape(*self.shape, *values.shape[1:])

    @property
    def free(self) -> float:
        """The share of the nodes that no sign ties to a neighbour."""
        return max(1.0 - np.count_nonzero(dense(self._rises @ self.values) == 0.0) / self.values.size, 0.0)

    def mass(self, weights: Vector) -> Matrix:
        """Return the weight of the rows at each node, shape of the grid."""
        return self.spread_out(dense(self._transposed @ weights))

    def split(self, values: NDArray[np.float64], mass: Matrix) -> Purified:
        """Return values in the shape of the grid as what either term explains alone and the rest, by mass at the nodes.

        Where an axis has a sign the nodes' weights are products of both axes': what the term explains alone is then a
        mean of functions that have the sign. Under dependent terms it might not have it.
        """
        product: Matrix = mass.sum(axis=1, keepdims=True) * mass.sum(axis=0)
        return purified(PairFunction((0, 1), self._knots, values, mass), product if self._rises.shape[0] else mass)

    @property
    def prior(self) -> csc_array[np.float64]:
        """P, shape (nodes, nodes)."""
        assert self.strengths is not None
        found = csc_array((self.size, self.size))
        for strength, matrix in zip(self.strengths.tolist(), self.matrices, strict=True):
            found = csc_array(found + strength * matrix)
        return found

    def penalty(self) -> float:
        """Return ½ Σ cᵀPc over all outputs."""
        return 0.0 if self.strengths is None else 0.5 * float(self.strengths @ self._forms_of(self.values, self.values))

    def start_from(self, other: GridBlock, weights: Vector) -> None:
        """Take the values of another grid, read off at these nodes, and its strengths."""
        assert other.strengths is not None
        one, two = np.meshgrid(*(np.append(axis.knots, np.nan) for axis in self.axes), indexing="ij")
        self.values = dense(hats(other.axes, (one.ravel(), two.ravel())) @ other.values)
        shares = list[Vector]()
        for side, share in self._by_side(other.shares):
            knots, before = self.axes[side].knots, other.axes[side].knots
            interval = np.searchsorted(before, 0.5 * (knots[1:] + knots[:-1])) - 1
            shares.append(share[np.clip(interval, 0, before.size - 2)])
        self._set_shares(shares)
        self.strengths = other.strengths.copy()
        self.strengths[-1] *= other.size / self.size
        self._centre(weights[None])

    def _gram(self, weight: Vector) -> csc_array[np.float64]:
        return csc_array(self._transposed @ (self.design * weight[:, None]))

    def update(self, partial: Matrix, weights: Matrix, noise: float) -> None:
        """Fit partial residuals (rows, outputs) under the strengths as they are, by weights (outputs or 1, rows)."""
        grams = self._grams(weights)
        if self.strengths is None:
            information = float(np.mean([gram.trace() for gram in grams])) / noise
            sizes = [np.trace(form) * self.shape[1 - side] for side, form in self._by_side(self._forms)]
            first = FIRST_PAIR_PRIOR * information / np.array([*sizes, self.size], dtype=np.float64)
            self.strengths = np.clip(first, LOWEST, HIGHEST)
        prior = self.prior
        factors = [_factor(gram, noise, prior) for gram in grams]
        pull = dense(self._transposed @ (weights.T * partial)) / noise
        self._solved = np.mean([factor.solve(self._probes) for factor in factors], axis=0)
        self._traces = self._forms_of(self._probes, self._solved) / PROBES
        smoothed = float(self.strengths @ self._traces)
        self.freedom = float(np.clip(self.size - smoothed, 0.0, self.size))
        if self._rises.shape[0]:
            self._order(grams, prior, pull, noise)
        else:
            self.values = solved_by_output(factors, pull)
        self._centre(weights)

    def _order(
        self, grams: Sequence[csc_array[np.float64]], prior: csc_array[np.float64], pull: Matrix, noise: float
    ) -> None:
        """Move the values to the best ones that rise, or fall, along the axes that have a sign.

        Rises of the wrong sign are held at 0 by a penalty until their set stays the same (Bollaerts, Eilers and van
        Mechelen, 2006), which is a step of Newton's method each. What is left of them is then taken away.
        """
        found = np.empty_like(pull, order="C")
        for output, wanted in enumerate(pull.T):
            gram, wrong = grams[output % len(grams)], dense(self._rises @ self.values[:, output]) <= 0.0
            stiff = STIFF * float(gram.trace() / noise + prior.trace()) / self.size
            for _ in range(ORDERINGS):
                steps = self._rises[np.flatnonzero(wrong)]
                found[:, output] = _factor(gram, noise, csc_array(prior + stiff * (steps.T @ steps))).solve(wanted)
                before, wrong = wrong, dense(self._rises @ found[:, output]) < 0.0
                if np.array_equal(wrong, before):
                    break
        for side, axis in enumerate(self.axes):
            inside = np.moveaxis(found.reshape(*self.shape, -1), side, 0)[:-1]
            if axis.sign:
                inside[:] = axis.sign * np.maximum.accumulate(axis.sign * inside)
        self.values = found

    def learn(self, free: int) -> None:
        """Take a step of Fellner and Schall at the present values; ``free`` outputs are free to vary."""
        assert self.strengths is not None
        before = self.strengths
        variances, squares = self._variances(before), self._forms_of(self.values, self.values)
        along = [values @ variances.sum(axis=1 - side) for side, (values, _) in self._by_side(self._spectra)]
        gained = np.array([*along, variances.sum()]) - self._traces  # tr(P⁻¹Sᵢ) less that of the posterior
        self.strengths = fellner_schall(before, gained, squares / free)
        self.strengths[-1] = max(self.strengths[-1], LEAST_SIZE)
        self._share_out(before, variances, free)

    def _share_out(self, before: Vector, variances: Matrix, free: int) -> None:
        """Give each difference between neighbours along an axis its share of the strength.

        The update is that of Fellner and Schall under a Gamma prior about 1: a step, which is one difference, is then
        held back less than the level values on either side of it. ``variances`` are those of the prior under the
        strengths ``before``.
        """
        assert self.strengths is not None
        shares = list[Vector]()
        for place, (side, differences) in enumerate(self._by_side(self._differences)):
            cubes = [each.reshape(*self.shape, -1) for each in (self.values, self._probes, self._solved)]
            value, probe, solved = (np.tensordot(differences, np.moveaxis(cube, side, 0), 1) for cube in cubes)
            energy = float(self.strengths[place]) * np.sum(value**2, axis=(1, 2)) / free
            prior = (differences @ self._spectra[place][1]) ** 2 @ variances.sum(axis=1 - side)
            gained = prior - np.sum(probe * solved, axis=(1, 2)) / PROBES
            used = np.maximum(before[place] * self.shares[place] * gained, 0.0)
            shares.append((used + EVEN) / (energy + EVEN))
        self._set_shares(shares)

    def spread(self, reference: Vector, weights: Matrix, noise: float, generator: np.random.Generator) -> PairSpread:
        """Return the standard deviations under the posterior, all other parts of the fit given.

        A draw of covariance H⁻¹ is H⁻¹ times a draw of covariance H = ZᵀWZ/φ + P, which is a sum of independent ones.
        ``reference`` (rows,) are the weights under which the pair is purified.
        """
        assert self.strengths is not None
        roots = self._on_grid([(vectors * np.sqrt(values)) @ vectors.T for values, vectors in self._spectra])
        mass, parts = self.mass(reference), list[list[NDArray[np.float64]]]()
        for gram, weight in zip(self._grams(weights), weights, strict=True):
            noisy = np.sqrt(weight / noise)[:, None] * generator.standard_normal((weight.size, POSTERIOR_DRAWS))
            drawn = dense(self._transposed @ noisy)
            for strength, root in zip(self.strengths, roots, strict=True):
                drawn += np.sqrt(strength) * dense(root @ generator.standard_normal((self.size, POSTERIOR_DRAWS)))
            parts.append(self._deviations(_factor(gram, noise, self.prior).solve(drawn), mass, weight, generator))
        outputs = self.values.shape[1] if len(parts) == 1 else 1
        return PairSpread(
            self._knots,
            *(np.repeat(np.concatenate(each, axis=-1), outputs, axis=-1) for each in zip(*parts, strict=True)),
        )

    def _deviations(
        self, drawn: Matrix, mass: Matrix, weight: Vector, generator: np.random.Generator
    ) -> list[NDArray[np.float64]]:
        """Return the deviations of a pair and of its two margins, given draws (nodes, draws): some draws at a time."""
        assert self.strengths is not None
        number, found = min(-(-mass.size // NODES_AT_ONCE), POSTERIOR_DRAWS // 5), list[list[NDArray[np.float64]]]()
        for some in np.array_split(drawn, number, axis=1):
            others = generator.standard_normal((self._others.size, some.shape[1])) / np.sqrt(self.strengths[-1])
            split = self.split(self.spread_out(some, others), mass)
            of_some = split.pair.values, split.rows, split.columns
            nodes, *margins = (each.std(axis=-1, keepdims=True, ddof=int(number > 1)) for each in of_some)
            found.append([nodes * self._between_nodes(split.pair.values, nodes, weight), *margins])
        return [np.sqrt(np.mean(np.square(each), axis=0)) for each in zip(*found, strict=True)]

    def _between_nodes(self, draws: NDArray[np.float64], deviations: NDArray[np.float64], weight: Vector) -> float:
        """Return by how much deviations between nodes are smaller than those of the nodes about them, over the rows.

        Each of the four nodes varies on its own; what is read off between them is their mean. Levels are at nodes.
        """
        if not self._ordered:
            return 1.0
        of_rows = dense(self.design @ draws.reshape(self.size, -1)).std(axis=1)
        read_off = dense(self.design @ deviations.reshape(self.size, 1))[:, 0]
        read_squares = float(weight @ read_off**2)
        return float(np.sqrt(weight @ of_rows**2 / read_squares)) if read_squares > 0.0 else 1.0

    def _centre(self, weights: Matrix) -> None:
        """Move the effect to mean 0 over the rows."""
        fitted = dense(self.design @ self.values)
        means = output_means(fitted, weights)
        self.values, self.fitted = self.values - means, fitted - means


def hats(axes: tuple[GridAxis, GridAxis], x: tuple[Vector, Vector]) -> csr_array[np.float64]:
    """Return each row's shares of the nodes, a sparse array (rows, nodes)."""
    one, other = GridCells.of(axes[0].knots, x[0]), GridCells.of(axes[1].knots, x[1])
    width, rows = axes[1].size, x[0].size
    nodes: list[NDArray[np.intp]] = []
    shares: list[Vector] = []
    for row, part in ((one.left, 1.0 - one.share), (one.right, one.share)):
        for column, share in ((other.left, 1.0 - other.share), (other.right, other.share)):
            nodes.append(row * width + column)
            shares.append(part * share)
    index = np.tile(np.arange(rows), 4)
    found = csr_array((np.concatenate(shares), (index, np.concatenate(nodes))), shape=(rows, axes[0].size * width))
    found.eliminate_zeros()
    return found


def _factor(gram: csc_array[np.float64], noise: float, prior: csc_array[np.float64]) -> SuperLU[np.float64]:
    """Return a sparse factorisation of ZᵀWZ/φ + P."""
    matrix = gram.copy()
    matrix.data /= noise
    return splu(matrix + prior, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
