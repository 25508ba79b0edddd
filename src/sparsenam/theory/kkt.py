"""The optimality conditions of the paper's problem, in numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from sparsenam.theory.blocks import Blocks, Vector, centred
from sparsenam.theory.problem import remainder, same_shape


def kkt_violation(blocks: Blocks, y: ArrayLike, theta: Sequence[ArrayLike], lam: float) -> Vector:
    """Return how far each group is from Gⱼᵀ(y - Σ Gₗθₗ) = λ sⱼ, shape (features,); all 0 exactly at a solution.

    sⱼ = θⱼ/‖θⱼ‖ where θⱼ ≠ 0, which leaves ‖Gⱼᵀr - λθⱼ/‖θⱼ‖‖₂ (the appendix's condition in the proof of Theorem
    4.7). At θⱼ = 0 any ‖sⱼ‖ ≤ 1 will do, which leaves max(‖Gⱼᵀr‖₂ - λ, 0). Numbers have the unit of λ. Blocks
    (rows, m_j) and y (rows,) are centred first; ``theta`` has shapes (m_j,).
    """
    matrices, target = centred(blocks, y)
    parts = same_shape(matrices, theta)
    residual = remainder(matrices, target, parts)
    violations = np.zeros(len(matrices))
    for feature, (block, own) in enumerate(zip(matrices, parts, strict=True)):
        pull, length = block.T @ residual, float(np.linalg.norm(own))
        if length > 0:
            violations[feature] = np.linalg.norm(pull - lam * own / length)
        else:
            violations[feature] = max(float(np.linalg.norm(pull)) - lam, 0.0)
    return violations
