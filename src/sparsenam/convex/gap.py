"""Duality gaps: how far a point can be from the optimum, at most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.design import Array


def group_terms(lengths: Array, thresholds: Array, ridge: float) -> Array:
    """Return Σⱼ aⱼ‖θⱼ‖ + ½b‖θⱼ‖², shape (batches,), for group norms of shape (batches, groups)."""
    finite = np.where(np.isfinite(thresholds), thresholds, 0.0)  # an excluded group has norm 0: 0 · ∞ = 0
    return lengths @ finite + 0.5 * ridge * np.sum(lengths**2, axis=1)


def dual_scales(norms: Array, thresholds: Array) -> Array:
    """Return the largest s ≤ 1 with s‖gⱼ‖ ≤ aⱼ for every penalised group, shape (batches,).

    ``norms`` are ‖gⱼ‖, shape (batches, features); groups with aⱼ = 0 are for ``free_slack`` to count.
    """
    bound = np.isfinite(thresholds) & (thresholds > 0)
    worst = np.max(norms[:, bound] / thresholds[bound], axis=1, initial=0.0)
    return 1.0 / np.maximum(worst, 1.0)


def ridge_conjugate(norms: Array, thresholds: Array, ridge: float) -> Array:
    """Return Σⱼ (‖gⱼ‖ - aⱼ)₊² / (2b), the conjugate of a‖θ‖ + ½b‖θ‖², shape (batches,)."""
    beyond = np.maximum(norms - thresholds, 0.0)
    return np.sum(beyond**2, axis=1) / (2.0 * ridge)


def free_slack(norms: Array, lengths: Array, thresholds: Array) -> Array:
    """Return 2 Σ ‖gⱼ‖‖θⱼ‖ over the unpenalised groups, shape (batches,).

    Their dual constraint is gⱼ = 0, which no scaling reaches; by convexity the gap grows by at most
    ‖gⱼ‖‖θⱼ - θⱼ*‖, taken here with the optimum within twice the norm found.
    """
    free = thresholds == 0.0
    return 2.0 * np.sum(norms[:, free] * lengths[:, free], axis=1)


def sorted_scale(norms: Array, sequence: Array) -> float:
    """Return the largest s ≤ 1 for which s·‖g‖ lies in the dual ball of the sorted norm Σᵢ wᵢ r₍ᵢ₎.

    The ball is {g : Σᵢ≤ₖ ‖g‖₍ᵢ₎ ≤ Σᵢ≤ₖ wᵢ for all k}; ``norms`` has shape (features,).
    """
    return 1.0 / max(sorted_dual_norm(norms, sequence), 1.0)


def sorted_dual_norm(norms: Array, sequence: Array) -> float:
    """Return maxₖ Σᵢ≤ₖ ‖g‖₍ᵢ₎ / Σᵢ≤ₖ wᵢ, the dual of the sorted norm; it is α_max at the empty model."""
    sums = np.cumsum(np.sort(norms)[::-1])
    allowed = np.cumsum(sequence)
    if allowed[0] <= 0.0:
        return np.inf
    return float(np.max(sums / allowed))


def sorted_slack(norms: Array, dropped: NDArray[np.bool_], sequence: Array) -> Array:
    """Return how far each dropped feature is on the way to entering, shape (features,), 0 for kept ones.

    With k features kept, those dropped are optimal when the sum of their l largest gradient norms stays below
    w₍ₖ₊₁₎ + … + w₍ₖ₊ₗ₎ for every l; the l-th of them gets the ratio of the two sums.
    """
    slack = np.zeros_like(norms)
    places = np.flatnonzero(dropped)
    order = places[np.argsort(-norms[places], kind="stable")]
    allowed = np.cumsum(sequence[norms.size - places.size :])
    sums = np.cumsum(norms[order])
    slack[order] = np.divide(sums, allowed, out=np.where(sums > 0, np.inf, 0.0), where=allowed > 0)
    return slack


def allowed_slack(tol: float) -> float:
    """Return the largest ‖gradientⱼ‖/aⱼ of a dropped feature that a relative gap of ``tol`` excuses.

    At a violation of 1 + ε the dual point is scaled by 1/(1 + ε), which costs about ε² of the loss.
    """
    return 1.0 + float(np.sqrt(tol))
