"""The feature blocks G₁, …, Gₚ of the paper's section 3.3, checked and centred."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.convex.features import FrozenFeatures
from sparsenam.errors import InputError, describe
from sparsenam.networks import MLPBank, build_bank, initial_parameters
from sparsenam.streams import Streams

Matrix: TypeAlias = NDArray[np.float64]
Vector: TypeAlias = NDArray[np.float64]
Blocks: TypeAlias = Sequence[ArrayLike]

NEGLIGIBLE = 1e-4  # singular values below this share of the largest are left out of an orthonormal basis
ROUNDING = 1e-7  # a block that varies by less than this share of its size is constant


def centred_blocks(blocks: Blocks) -> tuple[Matrix, ...]:
    """Return Gⱼ - mean(Gⱼ) for every feature, shapes (rows, m_j)."""
    arrays = [np.asarray(block, dtype=np.float64) for block in blocks]
    shapes = [array.shape for array in arrays]
    if not arrays or any(len(shape) != 2 or shape[0] != shapes[0][0] or 0 in shape for shape in shapes):
        expected = "matrices (rows, m_j) with the same rows"
        raise InputError(describe("blocks", expected, f"shapes {shapes[:5]}", "give one matrix for each feature"))
    if not all(np.isfinite(array).all() for array in arrays):
        raise InputError(describe("blocks", "finite numbers", "others", "drop these rows"))
    return tuple(array - array.mean(axis=0) for array in arrays)


def centred(blocks: Blocks, y: ArrayLike) -> tuple[tuple[Matrix, ...], Vector]:
    """Return the blocks and y with means of 0, which is the same as an intercept without penalty.

    The paper leaves β out "for ease of presentation". With β in the model and no penalty on it, the best β for
    given θ takes off the means, so that all formulas hold with centred Gⱼ (rows, m_j) and y (rows,).
    """
    matrices = centred_blocks(blocks)
    target = np.asarray(y, dtype=np.float64)
    if target.shape != matrices[0].shape[:1] or not np.isfinite(target).all():
        expected = f"finite numbers of shape ({matrices[0].shape[0]},)"
        raise InputError(describe("y", expected, f"shape {target.shape}", "give one number for each row"))
    return matrices, target - target.mean()


def split_support(support: Sequence[int], n_features: int) -> tuple[list[int], list[int]]:
    """Return S and its complement, both ascending."""
    inside = sorted({int(feature) for feature in support})
    if not inside or inside[0] < 0 or inside[-1] >= n_features:
        expected = f"some of the features 0 to {n_features - 1}"
        raise InputError(describe("support", expected, f"{list(support)}", "name the true features by place"))
    return inside, [feature for feature in range(n_features) if feature not in inside]


def random_feature_blocks(
    X: ArrayLike,
    hidden: Sequence[int],
    *,
    activation: str = "relu",
    orthonormal: bool = False,
    seed: int = 0,
) -> list[Matrix]:
    """Return Gⱼ = gⱼ(Xⱼ, wⱼ(0)), the last hidden layers at their random start, shapes (rows, m_j).

    The hidden layers depend on the seed and not on X, so that samples of several sizes can share them. ReLU units
    whose kink lies outside the data are all straight lines there: such a block never has full column rank, against
    the paper's assumption 4.2. ``orthonormal`` replaces each block by a basis Q of its centred columns with
    QᵀQ = rows · I, which drops these directions and makes ‖θⱼ‖ the size of the function over the rows.
    """
    columns = np.asarray(X, dtype=np.float64)
    if columns.ndim != 2 or 0 in columns.shape or not np.isfinite(columns).all():
        expected, got = "finite numbers of shape (rows, features)", f"shape {columns.shape}"
        raise InputError(describe("X", expected, got, "give a matrix without missing values"))
    names = [f"x{feature}" for feature in range(columns.shape[1])]
    bank = build_bank(tuple(hidden), names, 1, activation)
    assert isinstance(bank, MLPBank)
    features = FrozenFeatures(columns.T, bank, initial_parameters(bank, names, Streams(seed)))
    blocks = [features.columns(feature) for feature in range(len(names))]
    return [_orthonormal(block, name) for block, name in zip(blocks, names, strict=True)] if orthonormal else blocks


def _orthonormal(block: Matrix, name: str) -> Matrix:
    left, values, _ = np.linalg.svd(block - block.mean(axis=0), full_matrices=False)
    if values[0] <= ROUNDING * np.linalg.norm(block):  # a basis of it would be a basis of the rounding errors
        remedy = "drop the column, or draw other features"
        raise InputError(describe(f"orthonormal block of {name}", "units that vary over the rows", "none", remedy))
    return left[:, values > NEGLIGIBLE * values[0]] * np.sqrt(block.shape[0])
