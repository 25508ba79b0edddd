"""Group bridge with exponent ½, the penalty of the paper's notebook."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenam.penalties.base import Vector


@dataclass(frozen=True, slots=True)
class GroupBridge:
    """α Σⱼ ‖Θⱼ‖^½: not convex; it shrinks strong features less and drops weak ones sooner."""

    def value(self, norms: Vector, alpha: float) -> float:
        """Return α Σⱼ √rⱼ."""
        return float(alpha * np.sum(np.sqrt(norms)))

    def shrink(self, norms: Vector, alpha: float, step: Vector | float) -> Vector:
        """Return the global minimiser by half-thresholding (Xu et al., 2012).

        A stationary r = u² solves u³ - norms·u + ½ step α = 0; its largest root is the minimiser exactly when
        norms exceeds 1.5 (step α)^⅔, below which zero is better.
        """
        strength = np.broadcast_to(np.asarray(step * alpha, dtype=np.float64), norms.shape)
        threshold = 1.5 * strength ** (2.0 / 3.0)
        beyond = norms > threshold
        safe = np.where(beyond, norms, 1.0)
        cosine = np.clip(np.where(beyond, strength, 0.0) * 0.25 * (3.0 / safe) ** 1.5, -1.0, 1.0)
        root = 2.0 * np.sqrt(safe / 3.0) * np.cos((np.pi - np.arccos(cosine)) / 3.0)
        return np.where(beyond, root**2, 0.0)

    def slope(self, norms: Vector, alpha: float) -> Vector:
        """Return α / (2√rⱼ) where rⱼ > 0."""
        return np.where(norms > 0, 0.5 * alpha / np.sqrt(np.where(norms > 0, norms, 1.0)), 0.0)
