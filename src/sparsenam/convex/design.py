"""Ramps, the clipped ReLU units of one term, and the design of the convex problem: one block of columns a group.

A group's columns are its functions from smooth to rough, the rough ones made small, so that the group norm is
√(‖f‖² + λ roughness(f)) (the sparsity-smoothness penalty of Meier, van de Geer and Bühlmann, 2009) in the basis of
Demmler and Reinsch (1975).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.model import FittedCurve
from sparsenam.tables.sample import Matrix, Vector

# numbers are mean test MSE of the synthetic regression, ten seeds, floor 1.0
# at 0 real tables gain 2.1 ± 1.8 % and the synthetic regression loses 18 % (make ablate)
EVEN_SHARE = 0.4  # of the scale by length, not rows: 1.095; 1.232 at 0, 1.100 at 1
# at 0 real tables gain 2.6 ± 1.7 % and the synthetic regression loses 14 % (make ablate)
MARGIN = 0.1  # share of the bulk by which the end ramps pass the data: 1.095; 1.133 at 0, 1.116 at 0.3
# without it real tables gain 1.3 ± 0.9 %, remifentanil_in_blood loses 13 % (make ablate)
REACH = 3.0  # interquartile ranges from the quartiles to the ends of the bulk; outliers get few knots
WEIGHT_ROUNDING = 1e-9  # far above that of a sum of weights
# without it real tables gain 1.7 ± 1.4 % (make ablate)
SPACING = 8.0  # times the median at which widths are clipped: an outlier must not make its ramp free
NEAREST_KNOTS = 1e-10  # knots closer than this share of the range are one: a steeper ramp would be rounding alone


@dataclass(frozen=True, slots=True, eq=False)
class Ramps:
    """Clipped ReLU units clip((x - tₖ)/hₖ, 0, 1) between neighbouring knots t₀ < … < tₘ of one term.

    hₖ = tₖ₊₁ - tₖ, and ``knots`` has shape (m + 1,). Σₖ cₖ rampₖ(x) is piecewise linear with these knots,
    0 left of t₀, level right of tₘ, and rises by cₖ between tₖ and tₖ₊₁. ``jump`` is the ramp, the first or the last,
    that leads from a value of many rows to all others, if there is such a value: no smoothness is asked of it.
    """

    knots: Vector
    jump: int | None = None

    @property
    def size(self) -> int:
        """Number of ramps, m."""
        return self.knots.size - 1

    def columns(self, x: Vector) -> Matrix:
        """Return the ramps at x of shape (rows,), shape (rows, m)."""
        columns = x - self.knots[:-1, None]  # a ramp at a time: rows are many, ramps few
        columns /= np.diff(self.knots)[:, None]
        return np.clip(columns, 0.0, 1.0, out=columns).T

    def curve(self, rises: Matrix) -> FittedCurve:
        """Return Σₖ cₖ rampₖ for coefficients c of shape (m, outputs): 0 at the first knot, level beyond the ends."""
        values = np.concatenate([np.zeros((1, rises.shape[1])), np.cumsum(rises, axis=0)])
        return FittedCurve.level_beyond(self.knots, values)


def bend_roughness(ramps: Ramps) -> Matrix:
    """Return the roughness of a sum of ramps as a quadratic form of its coefficients, shape (m, m).

    It is the sum of squared second differences over knots whose widths are tempered, √clip(w/median, ⅛, 8): with the
    widths themselves the few rows of long tails would get a curve of their own, with equal ones the curve would be
    too stiff where rows are dense.
    """
    if ramps.size < 2:
        return np.zeros((ramps.size, ramps.size))
    widths = np.diff(ramps.knots)
    widths = np.sqrt(np.clip(widths / np.median(widths), 1.0 / SPACING, SPACING))
    widths /= widths.mean()
    bends = np.diff(np.diag(1.0 / widths), axis=0) / np.sqrt(0.5 * (widths[:-1] + widths[1:]))[:, None]
    return bends.T @ bends


def place_ramps(x: Vector, weights: Vector, count: int) -> Ramps:
    """Return about ``count`` ramps for one term, dense where rows are many and even elsewhere.

    The knots are equally spaced on the scale 0.6 F + 0.4 L, where F is the share of rows below (a tied value
    counts for at most one ramp) and L the position between the ends of the bulk. A term with at most
    ``count + 1`` values gets its knots at the values, so that any function of them is a sum of ramps. ``weights``
    (rows,) are the number of times that each row counts; 2 is the row twice.
    """
    values, counts = distinct(x, weights)
    if values.size < 2:
        got = f"{values.size} value(s) in rows of weight above 0"
        raise InputError(describe("place_ramps", "a column that varies", got, "leave the column out"))
    if values.size <= count + 1:
        return Ramps(_apart(values))
    total = counts.sum()
    low, high = bulk_of(values, counts)
    low, high = max(values[0], low), min(values[-1], high)
    counts = np.minimum(counts, total / count)
    middles = np.cumsum(counts) - 0.5 * counts
    middles = (middles - middles[0]) / (middles[-1] - middles[0])
    positions = np.minimum(np.maximum((values - low) / (high - low), 0.0), 1.0)
    scale = (1.0 - EVEN_SHARE) * middles + EVEN_SHARE * (positions - positions[0])
    steps = np.arange(count + 1, dtype=np.float64) / count * scale[-1]
    knots = _apart(cast(Vector, np.interp(steps, scale, values)))
    knots[0] -= MARGIN * (high - low)
    knots[-1] += MARGIN * (high - low)
    return Ramps(knots)


def bulk_of(values: Vector, counts: Vector) -> tuple[float, float]:
    """Return the ends of the bulk, by sorted values and their counts: beyond them cells are far, if there are any."""
    cumulated = np.cumsum(counts)
    quarter = 0.25 * counts.sum() * (1.0 - WEIGHT_ROUNDING)  # a quartile that falls between two values is the lower one
    first, third = values[np.searchsorted(cumulated, (quarter, 3.0 * quarter))]
    spread = third - first if third > first else (values[-1] - values[0]) / 6.0
    return first - REACH * spread, third + REACH * spread


def distinct(x: Vector, weights: Vector) -> tuple[Vector, Vector]:
    """Return the distinct values of the rows that count, sorted, and the weight of each."""
    if not weights.all():
        x, weights = x[weights > 0], weights[weights > 0]
    if x.size == 0:
        return x, weights
    even = bool((weights == weights[0]).all())
    # ties in the order of the rows give the same sums of weights on every CPU; equal weights need no order at all
    order = None if even else np.argsort(x, kind="stable")
    ordered = np.sort(x) if order is None else x[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if order is None:
        return ordered[starts], weights[0] * np.diff(starts, append=x.size)
    return ordered[starts], np.add.reduceat(weights[order], starts)


def _apart(knots: Vector) -> Vector:
    """Return the knots without those that all but coincide with the one before; both ends stay."""
    gaps = knots[1:] - knots[:-1]
    kept = np.empty(knots.size, dtype=np.bool_)
    kept[0] = True
    np.greater(gaps, NEAREST_KNOTS * (knots[-1] - knots[0]), out=kept[1:])
    result = knots[kept]
    result[-1] = knots[-1]
    return result


Array: TypeAlias = NDArray[np.float64]
Floats: TypeAlias = NDArray[np.floating[Any]]
Indices: TypeAlias = NDArray[np.intp]
Number = TypeVar("Number", bound=np.floating[Any])

CHUNK = 250_000  # numbers held in double precision at once: 2 MB stay in a core's cache
EIGENVALUE_CUT = 1e-7  # directions with less than this share of a group's largest eigenvalue are left out
# 2, 2½ and 4 are no better: docs/architecture.md, "Choosing needs smoothness"
FREEDOM = 3.0  # degrees of freedom of a group: Σₖ 1/(1 + eₖ)
REST = 0.02  # share of them that the roughest directions may have together to be left out; chosen without a measurement
SMALLEST_STRENGTH, LARGEST_STRENGTH = 1e-12, 1e12  # between which λ is looked for


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
    def dtype(self) -> np.dtype[np.floating[Any]]:
        """The precision of the columns."""

    @abstractmethod
    def columns(self, groups: Indices) -> Floats:
        """Return a copy of the chosen groups' columns, shape (groups · m, rows)."""

    def working(self, groups: Indices) -> WorkingColumns:
        """Return the chosen groups' columns for sums that are taken again and again."""
        return WorkingColumns(self.columns(groups))

    @abstractmethod
    def products(self, vectors: Array) -> Floats:
        """Return Qᵀv of all groups, shape (groups, m, r), for v of shape (r, rows), in the columns' precision."""

    def original(self, solution: Array) -> Array:
        """Return Tⱼ θⱼ, shape (groups, raw columns, outputs): coefficients of the centred columns Gⱼ - meansⱼ."""
        return np.matmul(self.transform, solution)

    def double_blocks(self, groups: Indices) -> Iterator[Array]:
        """Yield the blocks of some groups in double precision, shape (≤ groups, m, rows), a chunk at a time."""
        step = max(1, CHUNK // max(self.width * self.n_rows, 1))
        for first in range(0, groups.size, step):
            yield self.exact(groups[first : first + step]).reshape(-1, self.width, self.n_rows)

    def exact(self, groups: Indices) -> Array:
        """Return the chosen groups' columns in double precision, shape (groups · m, rows)."""
        return self.columns(groups).astype(np.float64, copy=False)

    def combined(self, groups: Indices, theta: Floats) -> Floats:
        """Return Σⱼ Qⱼ θⱼ, shape (r, rows), for θ of shape (r, groups · m)."""
        return theta.astype(self.dtype) @ self.columns(groups)


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
        """Return θQ, shape (r, rows), for θ of shape (r, k)."""
        return np.asarray(theta.astype(self.columns.dtype) @ self.columns, dtype=np.float64)

    def products(self, vectors: Array) -> Array:
        """Return vQᵀ in double precision, shape (r, k), for v of shape (r, rows)."""
        if self._exact is None:
            self._exact = self.columns.astype(np.float64, copy=False)
        return vectors @ self._exact.T

    def second_moments(self, weights: Array, rows: Indices | None = None) -> Array:
        """Return Q diag(w) Qᵀ, shape (k, k), for weights w of some rows, or of all."""
        columns = self.columns if rows is None else self.columns.take(rows, axis=1)
        scaled = columns * np.sqrt(weights).astype(columns.dtype)  # one array times its transpose is half the work
        return np.asarray(scaled @ scaled.T, dtype=np.float64)


LONG_PRODUCT_ROWS = 2000  # rows from which a product is quicker the other way round


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DenseDesign(GroupedDesign):
    """The columns written out: ``blocks`` Qⱼᵀ, shape (groups, m, rows), single or double precision."""

    blocks: Floats

    @property
    def n_rows(self) -> int:
        return self.blocks.shape[2]

    @property
    def dtype(self) -> np.dtype[np.floating[Any]]:
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
    dtype: type[np.floating[Any]] = np.float64,
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
