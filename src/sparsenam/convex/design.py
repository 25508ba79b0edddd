"""Ramps, the clipped ReLU units of one term, and the design of the convex problem: one block of columns a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.errors import InputError, describe
from sparsenam.networks import MLPBank
from sparsenam.tables.sample import Matrix, Vector

# numbers are mean test MSE of the synthetic regression, ten seeds, floor 1.0
EVEN_SHARE = 0.4  # of the scale by length, not rows: 1.095; 1.232 at 0, 1.100 at 1
MARGIN = 0.1  # share of the bulk by which the end ramps pass the data: 1.095; 1.133 at 0, 1.116 at 0.3
REACH = 3.0  # interquartile ranges from the quartiles to the ends of the bulk; outliers get few knots
ROUNDING = 1e-9  # far above that of a sum of weights
NEAR = 1e-10  # knots closer than this share of the range are one: a steeper ramp would be rounding alone


@dataclass(frozen=True, slots=True, eq=False)
class Ramps:
    """Clipped ReLU units clip((x - tₖ)/hₖ, 0, 1) between neighbouring knots t₀ < … < tₘ of one term.

    hₖ = tₖ₊₁ - tₖ, and ``knots`` has shape (m + 1,). Σₖ cₖ rampₖ(x) is piecewise linear with these knots,
    0 left of t₀, level right of tₘ, and rises by cₖ between tₖ and tₖ₊₁.
    """

    knots: Vector

    @property
    def size(self) -> int:
        """Number of ramps, m."""
        return self.knots.size - 1

    def columns(self, x: Vector) -> Matrix:
        """Return the ramps at x of shape (rows,), shape (rows, m)."""
        columns = x - self.knots[:-1, None]  # a ramp at a time: rows are many, ramps few
        columns /= np.diff(self.knots)[:, None]
        return np.clip(columns, 0.0, 1.0, out=columns).T

    def means(self, x: Vector, weights: Vector) -> Vector:
        """Return the weighted means of the ramps at x of shape (rows,), shape (m,).

        A row between tₖ and tₖ₊₁ has ramps 1, …, 1, u, 0, …, 0, so that sums of w and wu for each k are enough.
        """
        interval = np.clip(np.searchsorted(self.knots, x, side="right") - 1, 0, self.size - 1)
        u = np.clip((x - self.knots[interval]) / np.diff(self.knots)[interval], 0.0, 1.0)
        inside = np.bincount(interval, weights, minlength=self.size)
        partly = np.bincount(interval, weights * u, minlength=self.size)
        beyond = np.cumsum(inside[::-1])[::-1] - inside
        return (beyond + partly) / weights.sum()


def place_ramps(x: Vector, weights: Vector, count: int) -> Ramps:
    """Return about ``count`` ramps for one term, dense where rows are many and even elsewhere.

    The knots are equally spaced on the scale 0.6 F + 0.4 L, where F is the share of rows below (a tied value
    counts for at most one ramp) and L the position between the ends of the bulk. A term with at most
    ``count + 1`` values gets its knots at the values, so that any function of them is a sum of ramps.

    Parameters
    ----------
    x
        Values, shape (rows,).
    weights
        Number of times that each row counts, shape (rows,); 2 is the row twice.
    """
    values, counts = distinct(x, weights)
    if values.size < 2:
        got = f"{values.size} value(s) in rows of weight above 0"
        raise InputError(describe("place_ramps", "a column that varies", got, "leave the column out"))
    if values.size <= count + 1:
        return Ramps(_apart(values))
    total = counts.sum()
    cumulated = np.cumsum(counts)
    quarter = 0.25 * total * (1.0 - ROUNDING)  # a quartile that falls between two values is the lower one
    first, third = values[np.searchsorted(cumulated, (quarter, 3.0 * quarter))]
    spread = third - first if third > first else (values[-1] - values[0]) / 6.0
    low, high = max(values[0], first - REACH * spread), min(values[-1], third + REACH * spread)
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
    np.greater(gaps, NEAR * (knots[-1] - knots[0]), out=kept[1:])
    result = knots[kept]
    result[-1] = knots[-1]
    return result


def ramp_bank(
    ramps: Sequence[Ramps], coefficients: Sequence[Matrix], outputs: int, activation: str = "clipped_relu"
) -> tuple[MLPBank, Tensor]:
    """Return the bank whose sub-network j is Σₖ cₖ clip((x - tₖ)/hₖ, 0, 1), and its θ in double precision.

    With ``activation="relu"`` the units are hinges, max((x - tₖ)/hₖ, 0).

    Parameters
    ----------
    ramps
        The ramps of each term.
    coefficients
        c of each term, shape (m_j, outputs).
    """
    slopes = [1.0 / np.diff(each.knots) for each in ramps]
    shifts = [-each.knots[:-1] * slope for each, slope in zip(ramps, slopes, strict=True)]
    return unit_bank(slopes, shifts, coefficients, outputs, activation)


def unit_bank(
    slopes: Sequence[Vector],
    shifts: Sequence[Vector],
    coefficients: Sequence[Matrix],
    outputs: int,
    activation: str = "clipped_relu",
) -> tuple[MLPBank, Tensor]:
    """Return the bank whose sub-network j is Σₖ cₖ activation(aₖ x + bₖ), and its θ.

    ``slopes`` a and ``shifts`` b have shape (m_j,), ``coefficients`` c shape (m_j, outputs). The bank is as
    wide as its widest sub-network; narrower ones are padded with zeros. θ has shape (terms, size).
    """
    sizes = [slope.size for slope in slopes]
    width = max(sizes, default=1)
    bank = MLPBank((width,), outputs, activation, np.array(sizes, dtype=np.intp).reshape(-1, 1))
    theta = torch.zeros(len(sizes), bank.size, dtype=torch.float64)
    weight, bias, output = bank.tensors(theta)  # views of θ
    for term, size in enumerate(sizes):
        weight[term, 0, :size] = torch.as_tensor(slopes[term])
        bias[term, 0, :size] = torch.as_tensor(shifts[term])
        output[term, :size] = torch.as_tensor(coefficients[term])
    return bank, theta


Array: TypeAlias = NDArray[np.float64]
Floats: TypeAlias = NDArray[np.floating[Any]]
Indices: TypeAlias = NDArray[np.intp]

CHUNK = 250_000  # numbers held in double precision at once: 2 MB stay in a core's cache
CUT = 1e-7  # directions with less than this share of a group's largest eigenvalue are left out


@dataclass(frozen=True, slots=True, eq=False)
class GroupedDesign:
    """Columns of p groups, each padded with zeros to m columns.

    Attributes
    ----------
    blocks
        Solver's columns Qⱼᵀ, shape (groups, m, rows), single or double precision.
    transform
        Tⱼ with Qⱼ = (Gⱼ - meansⱼ) Tⱼ, shape (groups, m, m).
    means
        Weighted means of the raw columns Gⱼ, shape (groups, m).
    """

    blocks: Floats
    transform: Array
    means: Array

    @property
    def n_groups(self) -> int:
        """The number p of groups."""
        return self.blocks.shape[0]

    @property
    def width(self) -> int:
        """The number m of columns of a group."""
        return self.blocks.shape[1]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.blocks.shape[2]

    def original(self, solution: Array) -> Array:
        """Return Tⱼ θⱼ, shape (groups, m, outputs): coefficients of the centred raw columns Gⱼ - meansⱼ."""
        return np.matmul(self.transform, solution)

    def columns(self, groups: Indices) -> Floats:
        """Return a copy of the chosen groups' columns, shape (groups · m, rows)."""
        return self.blocks[groups].reshape(groups.size * self.width, self.n_rows)

    def double_blocks(self, groups: Indices) -> Iterator[Array]:
        """Yield the blocks of some groups in double precision, shape (≤ groups, m, rows), a chunk at a time."""
        step = max(1, CHUNK // max(self.width * self.n_rows, 1))
        for first in range(0, groups.size, step):
            yield self.blocks[groups[first : first + step]].astype(np.float64)

    def scores(self, groups: Indices, theta: Array, intercept: Array) -> Array:
        """Return β + Σⱼ Qⱼ θⱼ, shape (rows, outputs), for θ of shape (groups, m, outputs)."""
        flat = theta.reshape(groups.size * self.width, theta.shape[-1])
        return intercept + (self.columns(groups).T @ flat.astype(self.blocks.dtype)).astype(np.float64)


def orthonormal_design(
    columns_of: Callable[[int], Floats],
    n_groups: int,
    weights: Array,
    *,
    norm: Literal["function", "parameters"] = "function",
    roughness: float = 1e-4,
    is_ordered: Callable[[int], bool] = lambda group: True,
    dtype: type[np.floating[Any]] = np.float64,
) -> GroupedDesign:
    """Build the design in the coordinates of a group norm.

    With ``norm="function"`` the solver's ‖θⱼ‖ is √(‖Gⱼβⱼ‖ₙ² + roughness · rⱼ² Σₖ (βⱼ,ₖ₊₁ - βⱼ,ₖ)²), where
    βⱼ = Tⱼ θⱼ and rⱼ is the number of columns: on ramps β holds the jumps between knots, so the second term
    is the roughness of the shape. With ``norm="parameters"`` it is ‖βⱼ‖ (the paper), columns centred only.

    Parameters
    ----------
    columns_of
        Returns the raw columns Gⱼ of group j, shape (rows, mⱼ); called once for each group.
    weights
        Non-negative weights of the rows, shape (rows,).
    is_ordered
        Returns whether a group's columns are in the order of its values; if not, Σₖ βⱼ,ₖ² replaces the roughness.
    """
    shares = np.asarray(weights, dtype=np.float64) / np.sum(weights)
    rows = shares.size
    blocks: Floats = np.zeros((n_groups, 1, rows), dtype)
    means, transform = np.zeros((n_groups, 1)), np.zeros((n_groups, 1, 1))
    first = 0
    while first < n_groups:
        raw = [np.asarray(columns_of(first), dtype=np.float64)]
        last = min(first + max(1, CHUNK // max(raw[0].size, 1)), n_groups)
        raw += [np.asarray(columns_of(group), dtype=np.float64) for group in range(first + 1, last)]
        sizes = np.array([columns.shape[1] for columns in raw])
        extra = (0, max(int(sizes.max()) - blocks.shape[1], 0))
        if extra[1]:
            blocks = _widened(blocks, blocks.shape[1] + extra[1], first)
            means, transform = np.pad(means, ((0, 0), extra)), np.pad(transform, ((0, 0), extra, extra))
        chunk = np.zeros((len(raw), blocks.shape[1], rows))
        for padded, columns in zip(chunk, raw, strict=True):
            padded[: columns.shape[1]] = columns.T
        means[first:last] = chunk @ shares
        chunk -= means[first:last, :, None]
        if norm == "function":
            weighted = chunk * np.sqrt(shares)
            gram = np.matmul(weighted, weighted.transpose(0, 2, 1))
            ordered = np.array([is_ordered(group) for group in range(first, last)])
            transform[first:last] = _whitening(gram, sizes, roughness, ordered)
            chunk = np.matmul(transform[first:last].transpose(0, 2, 1), chunk)
        else:
            transform[first:last] = np.eye(blocks.shape[1])
        blocks[first:last] = chunk
        first = last
    return GroupedDesign(blocks, transform, means)


def _widened(blocks: Floats, width: int, filled: int) -> Floats:
    """Return a copy with room for ``width`` columns; zeros are pages the system hands out when touched."""
    wider: Floats = np.zeros((blocks.shape[0], width, blocks.shape[2]), blocks.dtype)
    wider[:filled, : blocks.shape[1]] = blocks[:filled]
    return wider


def _whitening(gram: Array, sizes: NDArray[np.int64], roughness: float, ordered: NDArray[np.bool_]) -> Array:
    """Return T with Tᵀ(gram + roughness · P)T = I on the directions that carry variance, shape (groups, m, m).

    ``sizes`` (groups,) are the numbers of columns that are not padding. An eigenvalue is known to rounding of the
    largest, far below CUT, so that no direction is kept or left out by rounding.
    """
    for size in np.unique(sizes[sizes > 1]) if roughness else ():
        difference = np.diff(np.eye(int(size)), axis=0)
        penalty = roughness * float(size) ** 2 * difference.T @ difference
        gram[(sizes == size) & ordered, :size, :size] += penalty
        gram[(sizes == size) & ~ordered, :size, :size] += roughness * np.eye(int(size))
    values, vectors = np.linalg.eigh(gram)
    kept = values > CUT * np.maximum(values[:, -1:], 1e-12)
    scales = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return vectors * scales[:, None, :]
