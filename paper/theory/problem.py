"""The paper's problem (section 4), ½‖y - Σ Gⱼθⱼ‖² + λ Σ ‖θⱼ‖: its blocks, its solution and its conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.context import Streams
from sparsenam.convex.design import FrozenFeatures, GroupedDesign, grouped_design
from sparsenam.convex.path import convex_path
from sparsenam.convex.problem import certify, convex_problem
from sparsenam.errors import InputError, describe
from sparsenam.families import Gaussian
from sparsenam.networks.bank import MLPBank, build_bank, initial_parameters
from sparsenam.penalties import GroupLasso

Matrix: TypeAlias = NDArray[np.float64]
Vector: TypeAlias = NDArray[np.float64]
Blocks: TypeAlias = Sequence[ArrayLike]

STEPS_DOWN = 12  # warm starts on the way from λ_max
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


@dataclass(frozen=True, slots=True, eq=False)
class PaperSolution:
    """A solution on the paper's scale.

    Attributes
    ----------
    theta
        θⱼ of every feature, shapes (m_j,); exactly zero for a dropped one.
    fitted
        h at the rows, the mean of y included, shape (rows,).
    gap
        Duality gap relative to the loss without features.
    """

    lam: float
    theta: tuple[Vector, ...]
    fitted: Vector
    gap: float

    @property
    def norms(self) -> Vector:
        """‖θⱼ‖, shape (features,)."""
        return np.array([float(np.linalg.norm(group)) for group in self.theta], dtype=np.float64)

    @property
    def mu(self) -> float:
        """μ = Σⱼ ‖θⱼ‖, the size of the ball for which the dual form (section 4) has the same solution."""
        return float(self.norms.sum())

    @property
    def support(self) -> tuple[int, ...]:
        """{j : θⱼ ≠ 0}."""
        return tuple(int(feature) for feature in np.flatnonzero(self.norms))


def objective(blocks: Blocks, y: ArrayLike, theta: Sequence[ArrayLike], lam: float) -> float:
    """Return ½‖y - Σ Gⱼθⱼ‖² + λ Σ ‖θⱼ‖ on centred blocks and y."""
    matrices, target = centred(blocks, y)
    groups = same_shape(matrices, theta)
    residual = remainder(matrices, target, groups)
    return float(0.5 * residual @ residual + lam * sum(np.linalg.norm(group) for group in groups))


def lambda_max(blocks: Blocks, y: ArrayLike) -> float:
    """Return maxⱼ ‖Gⱼᵀy‖₂, from which on every θⱼ is zero."""
    matrices, target = centred(blocks, y)
    return max(float(np.linalg.norm(block.T @ target)) for block in matrices)


def paper_path(blocks: Blocks, y: ArrayLike, lams: ArrayLike, *, tol: float = 1e-6) -> Iterator[PaperSolution]:
    """Yield the solutions along a falling grid of λ, each started from the one before."""
    matrices, target = centred(blocks, y)
    grid = np.asarray(lams, dtype=np.float64).ravel()
    if grid.size == 0 or not np.isfinite(grid).all() or (grid <= 0).any():
        raise InputError(describe("lams", "numbers above 0", f"{lams!r}", "give at least one, all finite"))
    if (np.diff(grid) > 0).any():
        raise InputError(describe("lams", "a falling grid", f"{lams!r}", "sort them, the largest first"))
    rows, widths = target.size, [block.shape[1] for block in matrices]
    offset = float(np.mean(np.asarray(y, dtype=np.float64)))
    design = _design(matrices)
    # our loss is the mean over the rows, the paper's the sum: α = λ / n
    problem = convex_problem(design, target[:, None], Gaussian(), np.ones((1, rows)))
    path = convex_path(problem, alphas=grid / rows, tol=tol)
    for lam, point in zip(grid, path, strict=True):
        full = point.theta[0, :, :, 0]
        theta = tuple(full[feature, :width].copy() for feature, width in enumerate(widths))
        yield PaperSolution(float(lam), theta, offset + point.scores(design)[:, 0], float(point.gaps[0]))


def solve_paper_problem(blocks: Blocks, y: ArrayLike, lam: float, *, tol: float = 1e-8) -> PaperSolution:
    """Return argmin ½‖y - Σ Gⱼθⱼ‖² + λ Σ ‖θⱼ‖ (section 4), with blocks and y centred.

    This is our convex problem with ``norm="parameters"`` and alpha = λ / rows. `CertificateError` is raised when
    the relative duality gap stays above ``tol``, which happens for nearly collinear columns and a small λ.
    """
    matrices, target = centred(blocks, y)
    top = lambda_max(matrices, target)
    grid = np.geomspace(top, lam, STEPS_DOWN) if 0 < lam < top else np.array([lam])
    *_, solution = paper_path(blocks, y, grid, tol=0.5 * tol)
    design, rows = _design(matrices), target.size
    theta = np.zeros((len(matrices), design.width, 1))
    for feature, group in enumerate(solution.theta):
        theta[feature, : group.size, 0] = group
    names = [f"x{feature}" for feature in range(len(matrices))]
    problem = convex_problem(design, target[:, None], Gaussian(), np.ones((1, rows)))
    certify(problem, theta, np.zeros(1), lam / rows, GroupLasso(), names, tol)  # recomputed from the solution alone
    return solution


def kkt_violation(blocks: Blocks, y: ArrayLike, theta: Sequence[ArrayLike], lam: float) -> Vector:
    """Return how far each group is from Gⱼᵀ(y - Σ Gₗθₗ) = λ sⱼ, shape (features,); all 0 exactly at a solution.

    sⱼ = θⱼ/‖θⱼ‖ where θⱼ ≠ 0, which leaves ‖Gⱼᵀr - λθⱼ/‖θⱼ‖‖₂ (the appendix's condition in the proof of Theorem
    4.7). At θⱼ = 0 any ‖sⱼ‖ ≤ 1 will do, which leaves max(‖Gⱼᵀr‖₂ - λ, 0). Numbers have the unit of λ. Blocks
    (rows, m_j) and y (rows,) are centred first; ``theta`` has shapes (m_j,).
    """
    matrices, target = centred(blocks, y)
    groups = same_shape(matrices, theta)
    residual = remainder(matrices, target, groups)
    violations = np.zeros(len(matrices))
    for feature, (block, group) in enumerate(zip(matrices, groups, strict=True)):
        gradient, length = block.T @ residual, float(np.linalg.norm(group))
        if length > 0:
            violations[feature] = np.linalg.norm(gradient - lam * group / length)
        else:
            violations[feature] = max(float(np.linalg.norm(gradient)) - lam, 0.0)
    return violations


def same_shape(matrices: Sequence[Matrix], theta: Sequence[ArrayLike]) -> list[Vector]:
    """Return θ as vectors, checked against the blocks' columns."""
    groups = [np.asarray(group, dtype=np.float64) for group in theta]
    if [group.shape for group in groups] != [block.shape[1:] for block in matrices]:
        expected = f"one vector for each block, of sizes {[block.shape[1] for block in matrices][:5]}"
        got = f"shapes {[group.shape for group in groups][:5]}"
        raise InputError(describe("theta", expected, got, "correct it"))
    return groups


def remainder(matrices: Sequence[Matrix], target: Vector, groups: Sequence[Vector]) -> Vector:
    """Return y - Σ Gⱼθⱼ, shape (rows,)."""
    return target - np.sum([block @ group for block, group in zip(matrices, groups, strict=True)], axis=0)


def _design(matrices: Sequence[Matrix]) -> GroupedDesign:
    weights = np.ones(matrices[0].shape[0], dtype=np.float64)
    return grouped_design(lambda j: matrices[j], len(matrices), weights, norm="parameters")
