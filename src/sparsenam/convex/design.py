"""The design of the convex problem: one centred block of columns for each group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
