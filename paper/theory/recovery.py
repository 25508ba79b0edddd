"""Theorem 4.7: when the solution keeps exactly the true features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from paper.theory.problem import (
    Blocks,
    Matrix,
    Vector,
    centred,
    centred_blocks,
    lambda_max,
    paper_path,
    solve_paper_problem,
)
from sparsenam.errors import InputError, describe

Reading = Literal["column_sums", "row_sums"]


@dataclass(frozen=True, slots=True, eq=False)
class Incoherence:
    """γ = 1 - max of ``per_feature``, which holds one number for each feature outside the support."""

    per_feature: Mapping[int, float]

    @property
    def gamma(self) -> float:
        """γ, at most 1; the assumption holds when it is above 0."""
        return 1.0 - max(self.per_feature.values(), default=0.0)


def mutual_incoherence(blocks: Blocks, support: Sequence[int], *, corrected: bool = False) -> Incoherence:
    """Return κⱼ for j outside S and γ = 1 - maxⱼ κⱼ, for centred blocks of shapes (rows, m_j).

    As printed: κⱼ = ‖(G_SᵀG_S)⁻¹G_SᵀGⱼ‖₂.
    Corrected: κⱼ = min(√|S| ‖Aⱼ‖₂, Σₗ ‖Aⱼₗ‖₂) with Aⱼ = (G_SᵀG_S)⁻¹G_SᵀGⱼ and Aⱼₗ its rows of feature l.

    The proof of Theorem 4.7 needs ‖Aⱼᵀs_S‖₂ < 1 and bounds it by ‖Aⱼ‖₂‖s_S‖∞ with ‖s_S‖∞ ≤ 1. The norm that goes
    with ‖·‖₂ is ‖s_S‖₂ = √|S|: s_S stacks |S| unit vectors. Both corrected bounds are true for every such s_S. With
    one true feature nothing changes. γ also depends on the blocks' scales, since Aⱼ has the unit of Gⱼ over G_S.
    """
    matrices = centred_blocks(blocks)
    inside, outside = split_support(support, len(matrices))
    true = np.hstack([matrices[feature] for feature in inside])
    if np.linalg.matrix_rank(true) < true.shape[1]:
        got = f"rank {np.linalg.matrix_rank(true)} of {true.shape[1]} columns"
        remedy = "use fewer units, or orthonormal blocks"
        raise InputError(describe("mutual incoherence", "true features of full column rank", got, remedy))
    edges = np.cumsum([matrices[feature].shape[1] for feature in inside])[:-1]
    values: dict[int, float] = {}
    for feature in outside:
        imitation = np.asarray(np.linalg.lstsq(true, matrices[feature], rcond=None)[0], dtype=np.float64)
        values[feature] = _size(imitation, np.split(imitation, edges), corrected)
    return Incoherence(values)


def _size(imitation: Matrix, parts: Sequence[Matrix], corrected: bool) -> float:
    whole = float(np.linalg.norm(imitation, 2))
    if not corrected:
        return whole
    return min(np.sqrt(len(parts)) * whole, sum(float(np.linalg.norm(part, 2)) for part in parts))


def recovery_lambda(
    blocks: Blocks,
    y: ArrayLike,
    support: Sequence[int],
    *,
    reading: Reading = "column_sums",
    corrected: bool = False,
) -> float:
    """Return the λ above which the theorem promises supp(h) = S, infinite when γ ≤ 0.

    As printed: maxⱼ ‖Gⱼᵀ‖∞ ‖y‖∞ / γ over j outside S.
    Corrected: maxⱼ ‖Gⱼᵀ P_S y‖₂ / (1 - κⱼ), with P_S the projection off the true features' columns and κⱼ the
    corrected number of `mutual_incoherence`.

    ``reading`` says what ‖Gⱼᵀ‖∞ is. "column_sums" is the paper's definition at the end of the proof,
    maxᵢ‖gⱼ(xᵢ)‖₁, the largest Σₖ|gⱼₖ(xᵢ)| over rows i, which does not grow with n. "row_sums" is the matrix norm
    that this symbol usually stands for, the largest Σᵢ|gⱼₖ(xᵢ)| over units k, which grows like n.

    Neither reading makes the proof's step ‖GⱼᵀP_S y‖₂ ≤ ‖Gⱼᵀ‖∞‖P_S‖₂‖y‖∞ an inequality: noise alone makes the left
    side grow like √n, above every bound by column sums; and several equal units j make it √m times their row sum.
    The corrected λ takes the left side itself, which is known once S is, and needs full rank of G_S only. Blocks
    (rows, m_j) and y (rows,) are centred first.
    """
    _check_reading(reading)
    matrices, target = centred(blocks, y)
    inside, outside = split_support(support, len(matrices))
    incoherence = mutual_incoherence(matrices, inside, corrected=corrected)
    if not outside:
        return 0.0
    if incoherence.gamma <= 0:
        return inf
    if corrected:
        rest = _off_support(matrices, target, inside)
        sizes = {feature: float(np.linalg.norm(matrices[feature].T @ rest)) for feature in outside}
        return max(size / (1.0 - incoherence.per_feature[feature]) for feature, size in sizes.items())
    axis = 0 if reading == "row_sums" else 1
    largest = max(float(np.abs(matrices[feature]).sum(axis=axis).max()) for feature in outside)
    return largest * float(np.abs(target).max()) / incoherence.gamma


def largest_dense_lambda(
    blocks: Blocks,
    y: ArrayLike,
    support: Sequence[int],
    *,
    points: int = 60,
    ratio: float = 1e-3,
    tol: float = 1e-6,
) -> float:
    """Return about the largest λ at which the problem on the true features keeps all of them (assumption 4.6).

    The largest of ``points`` values between λ_max and ``ratio`` times it; 0 when none will do.
    """
    matrices, target = centred(blocks, y)
    inside, _ = split_support(support, len(matrices))
    true = [matrices[feature] for feature in inside]
    grid = lambda_max(true, target) * np.geomspace(1.0, ratio, points)
    for solution in paper_path(true, target, grid, tol=tol):
        if len(solution.support) == len(true):
            return solution.lam
    return 0.0


@dataclass(frozen=True, slots=True)
class RecoveryConditions:
    """Which assumptions of Theorem 4.7 hold at one λ.

    Attributes
    ----------
    full_rank
        Assumption 4.2 (of all blocks as printed, of the true ones when ``corrected``).
    gamma
        Mutual incoherence, assumption 4.5; None where the true features have no full rank.
    lam, needed
        The λ at hand and the one it must exceed, infinite when γ ≤ 0.
    dense
        Assumption 4.6: the problem on the true features alone keeps all of them.
    empty_from
        λ_max, from which on nothing is kept: a ``needed`` above it makes the theorem say nothing.
    """

    full_rank: bool
    gamma: float | None
    lam: float
    needed: float
    dense: bool
    empty_from: float
    corrected: bool

    @property
    def incoherent(self) -> bool:
        """Whether γ > 0."""
        return self.gamma is not None and self.gamma > 0

    @property
    def large_enough(self) -> bool:
        """Whether λ exceeds the theorem's."""
        return self.lam > self.needed

    @property
    def guaranteed(self) -> bool:
        """Whether all assumptions hold. As printed this is what the theorem says; corrected, it can be proved."""
        return self.full_rank and self.incoherent and self.large_enough and self.dense

    def __str__(self) -> str:
        """Return the assumptions and the verdict, a line each."""
        gamma = "undefined" if self.gamma is None else f"{self.gamma:.3g}"
        lines = [
            f"full column rank: {_answer(self.full_rank)}",
            f"mutual incoherence: {_answer(self.incoherent)} (gamma = {gamma})",
            f"lambda large enough: {_answer(self.large_enough)} ({self.lam:.3g}, needed above {self.needed:.3g}; "
            f"nothing is kept from {self.empty_from:.3g} on)",
            f"lambda small enough to keep every true feature: {_answer(self.dense)}",
            f"exact support recovery {'is' if self.guaranteed else 'is not'} guaranteed"
            f" by Theorem 4.7 {'as corrected' if self.corrected else 'as printed'}",
        ]
        return "\n".join(lines)


def recovery_conditions(
    blocks: Blocks,
    y: ArrayLike,
    support: Sequence[int],
    lam: float,
    *,
    reading: Reading = "column_sums",
    corrected: bool = False,
    tol: float = 1e-8,
) -> RecoveryConditions:
    """Return which assumptions of Theorem 4.7 a λ meets, for blocks (rows, m_j) and y (rows,), centred first.

    ``tol`` is the duality gap to which the problem on the true features is solved.
    """
    _check_reading(reading)
    matrices, target = centred(blocks, y)
    inside, _ = split_support(support, len(matrices))
    true = [matrices[feature] for feature in inside]
    true_rank = _full_rank(true)
    gamma, needed = None, inf
    if true_rank:
        gamma = mutual_incoherence(matrices, inside, corrected=corrected).gamma
        needed = recovery_lambda(matrices, target, inside, reading=reading, corrected=corrected)
    restricted = solve_paper_problem(true, target, lam, tol=tol)
    return RecoveryConditions(
        full_rank=true_rank if corrected else _full_rank(matrices),
        gamma=gamma,
        lam=float(lam),
        needed=needed,
        dense=len(restricted.support) == len(true),
        empty_from=lambda_max(matrices, target),
        corrected=corrected,
    )


def _off_support(matrices: Sequence[Matrix], target: Vector, inside: Sequence[int]) -> Vector:
    """Return P_S y, what least squares on the true features leaves."""
    true = np.hstack([matrices[feature] for feature in inside])
    return target - true @ np.linalg.lstsq(true, target, rcond=None)[0]


def _full_rank(matrices: Sequence[Matrix]) -> bool:
    together = np.hstack(list(matrices))
    return bool(np.linalg.matrix_rank(together) == together.shape[1])


def _answer(holds: bool) -> str:
    return "yes" if holds else "no"


def _check_reading(reading: str) -> None:
    if reading not in ("column_sums", "row_sums"):
        raise InputError(describe("reading", "'column_sums' or 'row_sums'", repr(reading), "choose one"))


def split_support(support: Sequence[int], n_features: int) -> tuple[list[int], list[int]]:
    """Return S and its complement, both ascending."""
    inside = sorted({int(feature) for feature in support})
    if not inside or inside[0] < 0 or inside[-1] >= n_features:
        expected = f"some of the features 0 to {n_features - 1}"
        raise InputError(describe("support", expected, f"{list(support)}", "name the true features by index"))
    return inside, [feature for feature in range(n_features) if feature not in inside]
