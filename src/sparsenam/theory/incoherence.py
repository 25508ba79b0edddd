"""Mutual incoherence (assumption 4.5): how well the true features can imitate a false one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sparsenam.errors import InputError, describe
from sparsenam.theory.blocks import Blocks, Matrix, centred_blocks, split_support


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
