"""The paper's problem (section 4), ½‖y - Σ Gⱼθⱼ‖² + λ Σ ‖θⱼ‖, solved with a certificate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sparsenam.convex import Certificate, GroupedDesign, certify, convex_path, orthonormal_design
from sparsenam.errors import InputError, describe
from sparsenam.families import Gaussian
from sparsenam.penalties import GroupLasso
from sparsenam.theory.blocks import Blocks, Matrix, Vector, centred

STEPS_DOWN = 12  # warm starts on the way from λ_max


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
        return np.array([float(np.linalg.norm(own)) for own in self.theta], dtype=np.float64)

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
    parts = same_shape(matrices, theta)
    residual = remainder(matrices, target, parts)
    return float(0.5 * residual @ residual + lam * sum(np.linalg.norm(own) for own in parts))


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
    walk = convex_path(design, target[:, None], Gaussian(), np.ones((1, rows)), alphas=grid / rows, tol=tol)
    for lam, point in zip(grid, walk, strict=True):
        full = point.theta[0, :, :, 0]
        theta = tuple(full[feature, :width].copy() for feature, width in enumerate(widths))
        yield PaperSolution(float(lam), theta, offset + point.scores(design)[:, 0], float(point.gaps[0]))


def solve_paper_problem(blocks: Blocks, y: ArrayLike, lam: float, *, tol: float = 1e-8) -> PaperSolution:
    """Return argmin ½‖y - Σ Gⱼθⱼ‖² + λ Σ ‖θⱼ‖ (section 4), with blocks and y centred.

    This is our convex problem with ``norm="parameters"`` and alpha = λ / rows. `CertificateError` is raised when
    the relative duality gap stays above ``tol``, which happens for nearly collinear columns and a small λ.
    """
    return certified_solution(blocks, y, lam, tol=tol)[0]


def certified_solution(
    blocks: Blocks, y: ArrayLike, lam: float, *, tol: float = 1e-8
) -> tuple[PaperSolution, Certificate]:
    """Return the solution and its certificate, recomputed from the solution alone."""
    matrices, target = centred(blocks, y)
    top = lambda_max(matrices, target)
    grid = np.geomspace(top, lam, STEPS_DOWN) if 0 < lam < top else np.array([lam])
    *_, solution = paper_path(blocks, y, grid, tol=0.5 * tol)
    design, rows = _design(matrices), target.size
    theta = np.zeros((len(matrices), design.width, 1))
    for feature, own in enumerate(solution.theta):
        theta[feature, : own.size, 0] = own
    names = [f"x{feature}" for feature in range(len(matrices))]
    arguments = (np.ones(rows), theta, np.zeros(1), lam / rows, GroupLasso(), names, tol)
    return solution, certify(design, target[:, None], Gaussian(), *arguments)


def same_shape(matrices: Sequence[Matrix], theta: Sequence[ArrayLike]) -> list[Vector]:
    """Return θ as vectors, checked against the blocks' columns."""
    parts = [np.asarray(own, dtype=np.float64) for own in theta]
    if [own.shape for own in parts] != [block.shape[1:] for block in matrices]:
        expected = f"one vector for each block, of sizes {[block.shape[1] for block in matrices][:5]}"
        raise InputError(describe("theta", expected, f"shapes {[own.shape for own in parts][:5]}", "correct it"))
    return parts


def remainder(matrices: Sequence[Matrix], target: Vector, parts: Sequence[Vector]) -> Vector:
    """Return y - Σ Gⱼθⱼ, shape (rows,)."""
    return target - np.sum([block @ own for block, own in zip(matrices, parts, strict=True)], axis=0)


def _design(matrices: Sequence[Matrix]) -> GroupedDesign:
    weights = np.ones(matrices[0].shape[0], dtype=np.float64)
    return orthonormal_design(lambda j: matrices[j], len(matrices), weights, norm="parameters")
