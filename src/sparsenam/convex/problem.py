"""The convex problem for all batches, the points of its path, and duality gaps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from sparsenam.convex.design import Array, GroupedDesign, Indices
from sparsenam.errors import InputError, describe
from sparsenam.families import Family


@dataclass(frozen=True, slots=True, eq=False)
class ConvexProblem:
    """min over θ, β of Σᵢ wᵢ loss(yᵢ, β + Σⱼ Qⱼ,ᵢ θⱼ) + penalty(‖θ₁‖, …, ‖θₚ‖), one for each batch.

    Attributes
    ----------
    target
        Shape (outputs, rows).
    weights
        Shape (batches, rows), each row adding up to 1. Batch 0 is the fit proper, the others leave rows out.
    """

    design: GroupedDesign
    target: Array
    family: Family
    weights: Array
    _matrix: torch.Tensor = field(repr=False)

    @property
    def n_batches(self) -> int:
        """The number of weight vectors."""
        return self.weights.shape[0]

    @property
    def n_outputs(self) -> int:
        """The number of scores of a row."""
        return self.target.shape[0]

    def gradients(self, residuals: Array) -> Array:
        """Return Qⱼᵀ W r, shape (features, m, batches, outputs), for r of shape (batches, outputs, rows).

        One pass over the whole design, in the design's own precision.
        """
        weighted = (self.weights[:, None, :] * residuals).reshape(-1, self.design.n_rows)
        vectors = torch.from_numpy(weighted.astype(self.design.blocks.dtype))  # pyright: ignore[reportUnknownMemberType]
        product = self._matrix @ (vectors[0] if len(vectors) == 1 else vectors.T)
        shape = (self.design.n_features, self.design.width, self.n_batches, self.n_outputs)
        return product.numpy().reshape(shape)

    def gradient_norms(self, residuals: Array) -> Array:
        """Return ‖Qⱼᵀ W r‖, shape (batches, features)."""
        gradients = self.gradients(residuals)
        return np.sqrt(np.einsum("pmfo,pmfo->fp", gradients, gradients)).astype(np.float64)

    def exact_norms(self, residuals: Array, groups: Indices) -> Array:
        """Return batch 0's ‖Qⱼᵀ W r‖ of some groups in double precision, shape (groups,)."""
        columns = self.design.columns(groups).astype(np.float64)
        products = columns @ (self.weights[0] * residuals[0]).T
        return np.sqrt(np.sum(products.reshape(groups.size, self.design.width * self.n_outputs) ** 2, axis=1))

    def loss(self, scores: Array) -> Array:
        """Return Σᵢ wᵢ loss, shape (batches,), for scores of shape (batches, outputs, rows)."""
        return np.sum(self.weights * self.family.loss(np.moveaxis(scores, 1, 2), self.target.T), axis=1)

    def residuals(self, scores: Array) -> Array:
        """Return y - mean, minus the loss's gradient, shape (batches, outputs, rows)."""
        return -np.moveaxis(self.family.gradient(np.moveaxis(scores, 1, 2), self.target.T), 2, 1)

    def curvatures(self, scores: Array) -> Array:
        """Return the diagonal bound on the loss's Hessian, shape (batches, outputs, rows)."""
        bound = self.family.hessian_diagonal(np.moveaxis(scores, 1, 2), self.target.T)
        return np.moveaxis(bound, 2, 1)

    def dual(self, residuals: Array, scales: Array) -> Array:
        """Return -Σᵢ wᵢ loss*(-s r), shape (batches,): the dual objective without the penalty's part."""
        means = self.target - scales[:, None, None] * residuals
        conjugate = self.family.conjugate(np.moveaxis(means, 1, 2), self.target.T)
        return -np.sum(self.weights * conjugate, axis=1)

    def constants(self) -> Array:
        """Return the scores of the best models without features, shape (batches, outputs)."""
        return np.stack([self.family.best_constant(self.target.T, w) for w in self.weights])


def convex_problem(design: GroupedDesign, target: Array, family: Family, batch_weights: Array) -> ConvexProblem:
    """Check shapes, normalise the weights and lay the target out by output.

    ``target`` has shape (rows, outputs), ``batch_weights`` (batches, rows).
    """
    weights = np.atleast_2d(np.asarray(batch_weights, dtype=np.float64))
    if target.ndim != 2 or target.shape[0] != design.n_rows or weights.shape[1] != design.n_rows:
        expected = f"a target (rows, outputs) and weights (batches, rows) with {design.n_rows} rows"
        got = f"shapes {target.shape} and {weights.shape}"
        raise InputError(describe("convex problem", expected, got, "give one value for each row"))
    totals = weights.sum(axis=1, keepdims=True)
    if np.any(weights < 0) or not np.all(np.isfinite(weights)) or np.any(totals <= 0):
        expected = "finite weights, none negative, not all zero in any batch"
        raise InputError(describe("convex problem", expected, "other weights", "correct the weights"))
    matrix = torch.from_numpy(design.blocks.reshape(-1, design.n_rows))  # pyright: ignore[reportUnknownMemberType]
    laid_out = np.ascontiguousarray(np.asarray(target, dtype=np.float64).T)
    return ConvexProblem(design, laid_out, family, weights / totals, matrix)


@dataclass(frozen=True, slots=True, eq=False)
class ConvexPoint:
    """The solutions of all batches at one alpha, kept for the active features only.

    Attributes
    ----------
    active
        Features that are active in some batch, ascending, shape (active,).
    values
        Their θ in the solver's coordinates, shape (batches, active, m, outputs).
    intercepts
        Shape (batches, outputs).
    supports
        The active features of each batch.
    gaps
        Duality gap of each batch relative to its null loss, shape (batches,).
    gradient_norms
        Batch 0's ‖gradientⱼ‖ / wⱼ, shape (features,): divided by alpha, how far on the way to entering.
    """

    alpha: float
    n_features: int
    active: Indices
    values: Array
    intercepts: Array
    supports: tuple[Indices, ...]
    gaps: Array
    gradient_norms: Array

    @property
    def theta(self) -> Array:
        """All of θ, shape (batches, features, m, outputs), made anew at each call."""
        batches, _, width, outputs = self.values.shape
        theta = np.zeros((batches, self.n_features, width, outputs))
        theta[:, self.active] = self.values
        return theta

    def scores(self, design: GroupedDesign, batch: int = 0) -> Array:
        """Return β + Qθ of one batch, shape (rows, outputs)."""
        return design.scores(self.active, self.values[batch], self.intercepts[batch])


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
