"""The design of the convex problem: one centred block of columns for each feature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Floats: TypeAlias = NDArray[np.floating[Any]]
Indices: TypeAlias = NDArray[np.intp]

CHUNK = 4_000_000  # numbers held in double precision at once while the design is built
CUT = 1e-7  # directions with less than this share of a group's largest eigenvalue are left out


@dataclass(frozen=True, slots=True, eq=False)
class GroupedDesign:
    """Columns of p groups, each padded with zeros to m columns.

    Attributes
    ----------
    blocks
        Solver's columns Qⱼᵀ, shape (features, m, rows), single or double precision.
    transform
        Tⱼ with Qⱼ = (Gⱼ - meansⱼ) Tⱼ, shape (features, m, m).
    means
        Weighted means of the raw columns Gⱼ, shape (features, m).
    """

    blocks: Floats
    transform: Array
    means: Array

    @property
    def n_features(self) -> int:
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
        """Return Tⱼ θⱼ, shape (features, m, outputs): coefficients of the centred raw columns Gⱼ - meansⱼ."""
        return np.matmul(self.transform, solution)

    def columns(self, groups: Indices) -> Floats:
        """Return a copy of the chosen groups' columns, shape (groups · m, rows)."""
        return self.blocks[groups].reshape(groups.size * self.width, self.n_rows)

    def scores(self, groups: Indices, theta: Array, intercept: Array) -> Array:
        """Return β + Σⱼ Qⱼ θⱼ, shape (rows, outputs), for θ of shape (groups, m, outputs)."""
        flat = theta.reshape(groups.size * self.width, theta.shape[-1])
        return intercept + (self.columns(groups).T @ flat.astype(self.blocks.dtype)).astype(np.float64)


def orthonormal_design(
    columns_of: Callable[[int], Floats],
    n_features: int,
    weights: Array,
    *,
    norm: Literal["function", "parameters"] = "function",
    roughness: float = 1e-4,
    is_ordered: Callable[[int], bool] = lambda feature: True,
    dtype: type[np.floating[Any]] = np.float64,
) -> GroupedDesign:
    """Build the design in the coordinates of a group norm.

    With ``norm="function"`` the solver's ‖θⱼ‖ is √(‖Gⱼβⱼ‖ₙ² + roughness · rⱼ² Σₖ (βⱼ,ₖ₊₁ - βⱼ,ₖ)²), where
    βⱼ = Tⱼ θⱼ and rⱼ is the number of columns: on ramps β holds the jumps between knots, so the second term
    is the roughness of the shape. With ``norm="parameters"`` it is ‖βⱼ‖ (the paper), columns centred only.

    Parameters
    ----------
    columns_of
        Returns the raw columns Gⱼ of feature j, shape (rows, mⱼ); called once for each feature.
    weights
        Non-negative weights of the rows, shape (rows,).
    is_ordered
        Tells whether a feature's columns are in the order of its values; if not, Σₖ βⱼ,ₖ² replaces the roughness.
    """
    shares = np.asarray(weights, dtype=np.float64) / np.sum(weights)
    rows = shares.size
    blocks: Floats = np.zeros((n_features, 1, rows), dtype)
    means, transform = np.zeros((n_features, 1)), np.zeros((n_features, 1, 1))
    first = 0
    while first < n_features:
        raw = [np.asarray(columns_of(first), dtype=np.float64)]
        step = max(1, CHUNK // max(raw[0].size, 1))
        last = min(first + step, n_features)
        raw += [np.asarray(columns_of(j), dtype=np.float64) for j in range(first + 1, last)]
        widest = max(columns.shape[1] for columns in raw)
        if widest > blocks.shape[1]:
            extra = (0, widest - blocks.shape[1])
            blocks = _widened(blocks, widest, first)
            means = np.pad(means, ((0, 0), extra))
            transform = np.pad(transform, ((0, 0), extra, extra))
        chunk, sizes = _padded(raw, blocks.shape[1], rows)
        means[first:last] = chunk @ shares
        chunk -= means[first:last, :, None]
        if norm == "function":
            weighted = chunk * np.sqrt(shares)
            gram = np.matmul(weighted, weighted.transpose(0, 2, 1))
            ordered = np.array([is_ordered(j) for j in range(first, last)])
            transform[first:last] = whitening(gram, sizes, roughness, ordered)
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


def _padded(raw: list[Array], width: int, rows: int) -> tuple[Array, NDArray[np.int64]]:
    """Return the columns as (features, width, rows) and the number of real ones of each feature."""
    chunk = np.zeros((len(raw), width, rows))
    for place, columns in enumerate(raw):
        chunk[place, : columns.shape[1]] = columns.T
    return chunk, np.array([columns.shape[1] for columns in raw])


def whitening(
    gram: Array, sizes: NDArray[np.int64], roughness: float, ordered: NDArray[np.bool_] | None = None
) -> Array:
    """Return T with Tᵀ(gram + roughness · P)T = I on the directions that carry variance, shape (features, m, m)."""
    gram = gram.copy()
    if roughness:
        smooth = np.ones(sizes.size, dtype=np.bool_) if ordered is None else ordered
        for size in np.unique(sizes[sizes > 1]):
            difference = np.diff(np.eye(int(size)), axis=0)
            penalty = roughness * float(size) ** 2 * difference.T @ difference
            gram[(sizes == size) & smooth, :size, :size] += penalty
            gram[(sizes == size) & ~smooth, :size, :size] += roughness * np.eye(int(size))
    values, vectors = np.linalg.eigh(gram)
    kept = values > CUT * np.maximum(values[:, -1:], 1e-12)
    scales = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return vectors * scales[:, None, :]
