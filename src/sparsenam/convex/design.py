"""The design of the convex problem: hidden units of every term, frozen, and one block of columns a group.

A group's columns are its functions from smooth to rough, the rough ones made small, so that the group norm is
√(‖f‖² + λ roughness(f)) (the sparsity-smoothness penalty of Meier, van de Geer and Bühlmann, 2009) in the basis of
Demmler and Reinsch (1975).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from sparsenam.convex.ramps import Hinges, Indices, LevelColumns, Ramps, place_ramps
from sparsenam.model.additive import Functions
from sparsenam.model.networks import network_functions
from sparsenam.networks.bank import MLPBank
from sparsenam.tables.sample import Grouping, Matrix, PreparedSample

Array: TypeAlias = NDArray[np.float64]
Floats: TypeAlias = NDArray[np.floating]
Number = TypeVar("Number", bound=np.floating)

# make constants: VALUES_PER_RAMP halved +0.04 %, doubled +0.01 % loss
VALUES_PER_RAMP = 5  # at least, where rows are few
MANY_ROWS = 10_000
FEWEST = 4  # columns of a term in a large group
# make constants: MOST_LEVEL_COLUMNS halved -0.25 %, doubled +0.09 % loss
MOST_LEVEL_COLUMNS = 8  # columns of a category: as many as a shape's smooth directions, so that blocks stay narrow
CHUNK = 250_000  # numbers held in double precision at once: 2 MB stay in a core's cache
EIGENVALUE_CUT = 1e-7  # directions with less than this share of a group's largest eigenvalue are left out
# 2, 2½ and 4 are no better: docs/architecture.md, "Choosing needs smoothness"
# make constants: FREEDOM halved -2 %, doubled -1.6 % loss
FREEDOM = 3.0  # degrees of freedom of a group: Σₖ 1/(1 + eₖ)
# make constants: REST halved +0.36 %, doubled +0.53 % loss
REST = 0.02  # share of them that the roughest directions may have together to be left out
SMALLEST_STRENGTH, LARGEST_STRENGTH = 1e-12, 1e12  # between which λ is looked for
LONG_PRODUCT_ROWS = 2000  # rows from which a product is quicker the other way round


@dataclass(frozen=True, slots=True, eq=False)
class RampFeatures:
    """Data-aware units: clipped ReLU between neighbouring knots, at most ``count`` a term.

    Few rows have few ramps. Terms that hold few values get a knot at each. ``hinges`` takes ReLU units with the
    same knots and slopes instead: between the knots they span the same functions, beyond them they run on in a
    straight line and feel outliers. Codes of unordered levels have a column for each level (`LevelColumns`).
    """

    prepared: PreparedSample
    count: int
    hinges: bool = False
    _units: dict[int, Ramps | LevelColumns] = field(
        default_factory=dict[int, Ramps | LevelColumns], init=False, repr=False
    )

    def columns(self, term: int) -> Matrix:
        """Return the hidden units of one term on the training rows, shape (rows, m); absent cells have their mean."""
        x = self.prepared.x[term]
        absent, columns = np.isnan(x), self.units(term).columns(x)
        if absent.any():
            columns[absent] = np.average(columns[~absent], axis=0, weights=self.prepared.weights[~absent])
        return columns

    def functions(self, terms: Indices, coefficients: Matrix) -> Functions:
        """Return the functions of some terms with these output layers, shape (terms, ≥ m, outputs)."""
        units = [self.units(int(term)) for term in terms]
        return tuple(each.curve(part[: each.size]) for each, part in zip(units, coefficients, strict=True))

    def roughness(self, term: int) -> Matrix:
        """Return the roughness of a term's function as a quadratic form of its coefficients, shape (m, m)."""
        return self.units(term).roughness

    def units(self, term: int) -> Ramps | LevelColumns:
        """Return the ramps, hinges or levels of a term."""
        if term not in self._units:
            self._units[term] = self._place(term)
        return self._units[term]

    def _place(self, term: int) -> Ramps | LevelColumns:
        prepared, x, weights = self.prepared, self.prepared.x[term], self.prepared.weights
        group = int(prepared.grouping.group_of[term])
        share = max(FEWEST, self.count // prepared.grouping.members[group].size)  # a group's terms share its columns
        if prepared.levels[term]:
            return LevelColumns.of(x, prepared.target, weights, min(share, MOST_LEVEL_COLUMNS))
        present = ~np.isnan(x)
        if not present.all():
            x, weights = x[present], weights[present]
        # values, not rows: a row twice is a row of weight 2
        most = max(2, np.unique(x).size // VALUES_PER_RAMP) if x.size < MANY_ROWS else self.count
        ramps = place_ramps(x, weights, min(share, most))
        return Hinges(ramps.knots) if self.hinges else ramps


@dataclass(frozen=True, slots=True, eq=False)
class FrozenFeatures:
    """The last hidden layer of any perceptron bank, frozen: the random features of the paper's section 3.3.

    ``x`` has shape (terms, rows), ``theta`` (terms, size). Without hidden layers the one column is the term itself.
    """

    x: Matrix
    bank: MLPBank
    theta: Matrix

    def columns(self, term: int) -> Matrix:
        absent = np.isnan(self.x[term])
        units = self.bank.units(self.theta[term : term + 1], np.where(absent, 0.0, self.x[term])[None])[0]
        widths = self.bank.widths
        columns = units if widths is None else units[:, : int(widths[term, -1]) if self.bank.hidden else 1]
        if absent.any():
            columns[absent] = columns[~absent].mean(axis=0)
        return columns

    def functions(self, terms: Indices, coefficients: Matrix) -> Functions:
        return network_functions(self.bank.take(terms), self.with_output(terms, coefficients))

    def with_output(self, terms: Indices, coefficients: Matrix) -> Matrix:
        """Return θ of some terms (terms, size) with these output layers (terms, m, outputs)."""
        theta = self.theta[terms]
        output = self.bank.tensors(theta)[-1]  # a view of θ
        output[:] = 0.0
        output[:, : coefficients.shape[1]] = coefficients
        return theta

    def roughness(self, term: int) -> Matrix:
        """Return the sum of squares: hidden units have no order. One column alone has no roughness."""
        units = self.columns(term).shape[1]
        return np.eye(units) if units > 1 else np.zeros((1, 1))


RandomFeatures: TypeAlias = RampFeatures | FrozenFeatures  # what the hidden layers of all terms compute, frozen


@dataclass(frozen=True, slots=True, eq=False)
class GroupedFeatures:
    """The random features of each group's terms, side by side.

    ``widths`` (terms,) are the terms' numbers of columns, not measured where each group is one term.
    """

    features: RandomFeatures
    grouping: Grouping
    widths: Indices

    @classmethod
    def of(cls, features: RandomFeatures, grouping: Grouping) -> GroupedFeatures:
        """Measure the widths, which groups of several terms need."""
        n_terms = grouping.group_of.size
        measured = range(n_terms if n_terms > len(grouping.members) else 0)
        widths = [len(features.roughness(term)) for term in measured]
        return cls(features, grouping, np.array(widths, dtype=np.intp))

    def columns(self, group: int) -> Matrix:
        """Return the columns of a group's terms, shape (rows, Σ m)."""
        members = self.grouping.members[group]
        if members.size == 1:
            return self.features.columns(int(members[0]))
        return np.hstack([self.features.columns(int(term)) for term in members])

    def ramps(self) -> list[list[Ramps | int]] | None:
        """Return the ramps of each group's terms, the number of columns for levels; None where columns are no ramps."""
        features = self.features
        if not isinstance(features, RampFeatures) or features.hinges:
            return None
        groups = [[features.units(int(term)) for term in members] for members in self.grouping.members]
        return [[each if isinstance(each, Ramps) else each.size for each in units] for units in groups]

    def freedom(self, group: int) -> float:
        """Return the degrees of freedom of a group: those of its terms, which for one of few columns are these."""
        members = self.grouping.members[group]
        return FREEDOM if members.size == 1 else float(np.minimum(self.widths[members], FREEDOM).sum())

    def roughness(self, group: int) -> Matrix:
        """Return the roughness of a group's functions, shape (Σ m, Σ m): those of its terms add up."""
        return block_diag(*(self.features.roughness(int(term)) for term in self.grouping.members[group]))

    def split(self, groups: Indices, terms: Indices, values: Matrix) -> Matrix:
        """Return values (groups, m, …) of blocks by their terms in rising order, shape (terms, widest term, …)."""
        if not self.widths.size:
            return values
        result = np.zeros((terms.size, int(self.widths.max()), *values.shape[2:]))
        for group, block in zip(groups, values, strict=True):
            start = 0
            for term in self.grouping.members[int(group)]:
                width = int(self.widths[term])
                result[np.searchsorted(terms, term), :width] = block[start : start + width]
                start += width
        return result


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GroupedDesign(ABC):
    """Columns Qⱼ = (Gⱼ - meansⱼ) Tⱼ of p groups, each padded with zeros to m columns.

    ``transform`` T has shape (groups, raw columns, m), the weighted ``means`` of the raw columns G (groups, raw
    columns). ``roughness`` (groups, m) is e ≥ 0 of each column: its variance is 1/(1 + e) and its roughness
    e/(1 + e); both are 0 for padding. It is 0 where the norm knows no roughness.
    """

    transform: Array
    means: Array
    roughness: Array

    @property
    def n_groups(self) -> int:
        """The number p of groups."""
        return self.transform.shape[0]

    @property
    def width(self) -> int:
        """The number m of columns of a group."""
        return self.transform.shape[2]

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[np.floating]:
        """The precision of the columns."""

    @abstractmethod
    def columns(self, groups: Indices) -> Floats:
        """Return a copy of the chosen groups' columns, shape (groups · m, rows)."""

    def exact(self, groups: Indices) -> Array:
        """Return the chosen groups' columns in double precision, shape (groups · m, rows)."""
        return self.columns(groups).astype(np.float64, copy=False)

    def working(self, groups: Indices) -> WorkingColumns:
        """Return the chosen groups' columns for sums that are taken again and again."""
        return WorkingColumns(self.columns(groups))

    @abstractmethod
    def products(self, vectors: Array) -> Floats:
        """Return Qᵀv of all groups, shape (groups, m, r), for v of shape (r, rows), in the columns' precision."""

    def combined(self, groups: Indices, theta: Array) -> Array:
        """Return Σⱼ Qⱼ θⱼ, shape (…, rows), for θ of shape (…, groups · m)."""
        return self.working(groups).times(theta)


class WorkingColumns:
    """Some groups' columns Q, shape (k, rows), in memory, by the sums over rows that steps of a solver take.

    Sums of products of two columns are in the columns' precision.
    """

    def __init__(self, columns: Floats) -> None:
        self._written = columns
        self._exact: Array | None = None

    @property
    def count(self) -> int:
        """The number k of columns."""
        return len(self._written)

    @property
    def columns(self) -> Floats:
        """The columns written out, shape (k, rows)."""
        return self._written

    def times(self, theta: Array) -> Array:
        """Return θQ, shape (…, rows), for θ of shape (…, k)."""
        return np.asarray(np.tensordot(theta.astype(self.columns.dtype), self.columns, 1), dtype=np.float64)

    def products(self, vectors: Array) -> Array:
        """Return vQᵀ in double precision, shape (…, k), for v of shape (…, rows)."""
        if self._exact is None:
            self._exact = self.columns.astype(np.float64, copy=False)
        return np.asarray(np.tensordot(vectors, self._exact, (-1, -1)), dtype=np.float64)

    def second_moments(self, weights: Array, rows: Indices | None = None, first: int = 0) -> Array:
        """Return Q diag(w) Qᵀ from row ``first`` on, shape (k - first, k), for weights w of some rows, or of all."""
        columns = self.columns if rows is None else self.columns.take(rows, axis=1)
        if first:
            return np.asarray((columns[first:] * weights.astype(columns.dtype)) @ columns.T, dtype=np.float64)
        scaled = columns * np.sqrt(weights).astype(columns.dtype)  # one array times its transpose is half the work
        return np.asarray(scaled @ scaled.T, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DenseDesign(GroupedDesign):
    """The columns written out: ``blocks`` Qⱼᵀ, shape (groups, m, rows), single or double precision."""

    blocks: Floats

    @property
    def n_rows(self) -> int:
        return self.blocks.shape[2]

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return self.blocks.dtype

    def columns(self, groups: Indices) -> Floats:
        return self.blocks[groups].reshape(groups.size * self.width, self.n_rows)

    def products(self, vectors: Array) -> Floats:
        matrix, given = self.blocks.reshape(-1, self.n_rows), vectors.astype(self.dtype)
        if len(given) == 1:
            product = (matrix @ given[0])[:, None]
        elif self.n_rows < LONG_PRODUCT_ROWS:
            product = matrix @ given.T
        else:
            product = (given @ matrix.T).T
        return product.reshape(self.n_groups, self.width, len(vectors))


def grouped_design(
    columns_of: Callable[[int], Floats],
    n_groups: int,
    weights: Array,
    *,
    norm: Literal["function", "parameters"] = "function",
    roughness_of: Callable[[int], Array] | None = None,
    freedoms: Array | float = FREEDOM,
    dtype: type[np.floating] = np.float64,
) -> DenseDesign:
    """Build the design in the coordinates of a group norm.

    With ``norm="function"`` the solver's ‖θⱼ‖ is √(‖Gⱼβⱼ‖ₙ² + λⱼ βⱼᵀPⱼβⱼ) with βⱼ = Tⱼ θⱼ. In the basis that makes the
    Gram matrix of Gⱼ the identity and Pⱼ diagonal, with entries d from smooth to rough, a column is a basis function
    over √(1 + λd), and λⱼ is such that Σ 1/(1 + λd) is its ``freedoms``: noise has the same chance in every
    group that has so many columns. The roughest directions, with hardly any degrees of freedom, are left out. Without
    ``roughness_of`` the columns are orthonormal. With ``norm="parameters"`` ‖θⱼ‖ is ‖βⱼ‖ (the paper), columns centred
    only. ``columns_of``, called once for each group, returns the raw columns Gⱼ, shape (rows, mⱼ), ``roughness_of`` Pⱼ,
    shape (mⱼ, mⱼ).
    """
    shares = np.asarray(weights, dtype=np.float64) / np.sum(weights)
    rows = shares.size
    blocks: Floats = np.zeros((n_groups, 0, rows), dtype)
    means, rough = np.zeros((n_groups, 0)), np.zeros((n_groups, 0))
    transform = np.zeros((n_groups, 0, 0))
    first = 0
    while first < n_groups:
        raw = [np.asarray(columns_of(first), dtype=np.float64)]
        last = min(first + max(1, CHUNK // max(raw[0].size, 1)), n_groups)
        raw += [np.asarray(columns_of(group), dtype=np.float64) for group in range(first + 1, last)]
        chunk = np.zeros((len(raw), max(columns.shape[1] for columns in raw), rows))
        for padded, columns in zip(chunk, raw, strict=True):
            padded[: columns.shape[1]] = columns.T
        centres = chunk @ shares
        chunk -= centres[:, :, None]
        if norm == "function":
            weighted = chunk * np.sqrt(shares)
            gram = np.matmul(weighted, weighted.transpose(0, 2, 1))
            penalty = np.zeros_like(gram)
            if roughness_of is not None:
                for group in range(first, last):
                    size = raw[group - first].shape[1]
                    penalty[group - first, :size, :size] = roughness_of(group)
            turn, bent = smooth_basis(gram, penalty, np.broadcast_to(freedoms, n_groups)[first:last])
            chunk = np.matmul(turn.transpose(0, 2, 1), chunk)
        else:
            turn = np.tile(np.eye(chunk.shape[1]), (len(raw), 1, 1))
            bent = np.zeros(chunk.shape[:2])
        blocks, means = _filled(blocks, chunk, first), _filled(means, centres, first)
        rough, transform = _filled(rough, bent, first), _filled(transform, turn, first)
        first = last
    return DenseDesign(transform=transform, means=means, roughness=rough, blocks=blocks)


def _filled(array: NDArray[Number], part: Array, first: int) -> NDArray[Number]:
    """Write the groups from ``first`` on; a new array, where it must be wider, is zeros, given out when touched."""
    shape = (len(array), *np.maximum(array.shape, part.shape)[1:].tolist())
    if shape != array.shape:
        wider = np.zeros(shape, array.dtype)
        wider[(slice(first), *map(slice, array.shape[1:]))] = array[:first]
        array = wider
    array[(slice(first, first + len(part)), *map(slice, part.shape[1:]))] = part
    return array


def smooth_basis(gram: Array, penalty: Array, freedoms: Array) -> tuple[Array, Array]:
    """Return T (groups, raw columns, m) with Tᵀ(gram + λ penalty)T = I, and e = λd (groups, m), from smooth to rough.

    Both are 0 for directions that are left out. An eigenvalue is known to rounding of the largest, far below
    `EIGENVALUE_CUT`, so that no direction is kept or left out by rounding.
    """
    values, vectors = np.linalg.eigh(gram)
    kept = values > EIGENVALUE_CUT * np.maximum(values[:, -1:], 1e-12)
    whiten = vectors * np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[:, None, :]
    rough = np.matmul(whiten.transpose(0, 2, 1), np.matmul(penalty, whiten))
    # directions without variance come last
    far = 2.0 * np.trace(rough, axis1=1, axis2=2) + 1.0
    rough[:, np.arange(rough.shape[1]), np.arange(rough.shape[1])] += np.where(kept, 0.0, far[:, None])
    d, turns = np.linalg.eigh(rough)
    number = np.asarray(kept.sum(axis=1), dtype=np.intp)
    real = np.arange(d.shape[1], dtype=np.intp)[None, :] < number[:, None]
    d = np.where(real, np.maximum(d, 0.0), np.inf)
    e = _strength(d, freedoms)[:, None] * np.where(real, d, 0.0)
    used = np.where(real, 1.0 / (1.0 + e), 0.0)
    rest = used.sum(axis=1, keepdims=True) - np.cumsum(used, axis=1) + used  # of a direction and all rougher ones
    real &= rest > REST * used.sum(axis=1, keepdims=True)
    width = max(int(real.sum(axis=1).max(initial=0)), 1)
    scale = np.where(real, np.sqrt(used), 0.0)[:, None, :width]
    return np.matmul(whiten, turns[:, :, :width]) * scale, np.where(real, e, 0.0)[:, :width]


def _strength(d: Array, freedoms: Array) -> Array:
    """Return λ with Σₖ 1/(1 + λdₖ) = freedoms, shape (groups,), for d of shape (groups, m), ∞ for no direction.

    0 for groups that have no more directions than that, or only smooth ones.
    """
    finite = np.isfinite(d)
    scale = np.where(finite, d, 0.0).max(axis=1)
    usable = (finite.sum(axis=1) > freedoms) & (scale > 0.0)
    unit = np.where(usable, scale, 1.0)[:, None]
    low, high = np.full(len(d), np.log(SMALLEST_STRENGTH)), np.full(len(d), np.log(LARGEST_STRENGTH))
    for _ in range(60):
        middle = 0.5 * (low + high)
        sums = (1.0 / (1.0 + np.exp(middle)[:, None] * d / unit)).sum(axis=1)
        low, high = np.where(sums > freedoms, middle, low), np.where(sums > freedoms, high, middle)
    return np.where(usable, np.exp(0.5 * (low + high)) / unit[:, 0], 0.0)
