"""The convex problem for all batches, the points of its path, and its dual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import torch

from sparsenam.convex.design import Array, GroupedDesign, Indices
from sparsenam.errors import InputError, describe
from sparsenam.families import Family
from sparsenam.families.numerics import increasing_root
from sparsenam.penalties import NeedsFirstFit, Penalty, Vector, WeightedLasso

TINY = float(np.finfo(float).tiny)
LONG = 10_000  # rows from which a transposed product is faster: 26 ms, not 38, at 20,000; as fast below 8000
INTERCEPT_STEPS = 200
INTERCEPT_TOLERANCE = 1e-12


@runtime_checkable
class SortedPenalty(Protocol):
    """A penalty α Σᵢ wᵢ r₍ᵢ₎ on the sorted norms."""

    def value(self, norms: Vector, alpha: float) -> float: ...
    def shrink(self, norms: Vector, alpha: float, step: Vector | float) -> Vector: ...
    def sequence(self, n_features: int, /) -> Vector:
        """Return w, shape (groups,), never rising."""
        ...


def check_convex(penalty: Penalty) -> None:
    """Raise unless the penalty is convex with a known dual."""
    if isinstance(penalty, NeedsFirstFit):
        remedy = "call its adapted_to(norms) with the norms of a first fit"
        raise InputError(describe("convex solver", "a penalty with known weights", repr(penalty), remedy))
    if not isinstance(penalty, WeightedLasso | SortedPenalty):
        remedy = "choose GroupLasso, GroupElasticNet, GroupSLOPE or KLevelSLOPE"
        raise InputError(describe("convex solver", "a convex penalty", repr(penalty), remedy))


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
        """Return Qⱼᵀ W r, shape (groups, m, batches, outputs), for r of shape (batches, outputs, rows).

        One pass over the whole design, in the design's precision.
        """
        weighted = (self.weights[:, None, :] * residuals).reshape(-1, self.design.n_rows)
        vectors = torch.from_numpy(weighted.astype(self.design.blocks.dtype))  # pyright: ignore[reportUnknownMemberType]
        if len(vectors) == 1:
            product = self._matrix @ vectors[0]
        elif self.design.n_rows < LONG:
            product = self._matrix @ vectors.T
        else:
            product = (vectors @ self._matrix.T).T
        shape = (self.design.n_groups, self.design.width, self.n_batches, self.n_outputs)
        return product.numpy().reshape(shape)

    def gradient_norms(self, residuals: Array) -> Array:
        """Return ‖Qⱼᵀ W r‖, shape (batches, groups)."""
        gradients = self.gradients(residuals)
        return np.sqrt(np.einsum("pmfo,pmfo->fp", gradients, gradients)).astype(np.float64)

    def exact_norms(self, residuals: Array, groups: Indices) -> Array:
        """Return batch 0's ‖Qⱼᵀ W r‖ of some groups in double precision, shape (groups,)."""
        weighted = (self.weights[0] * residuals[0]).T
        gradients = [block @ weighted for block in self.design.double_blocks(groups)]
        return np.concatenate([np.zeros(0), *(np.sqrt(np.sum(part**2, axis=(1, 2))) for part in gradients)])

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
        """Return the scores of the best models without groups, shape (batches, outputs)."""
        return np.stack([self.family.best_constant(self.target.T, w) for w in self.weights])

    def constant_scores(self, constants: Array) -> Array:
        """Return constants (batches, outputs) for every row, shape (batches, outputs, rows)."""
        return np.repeat(constants[:, :, None], self.design.n_rows, axis=2)

    def explainable_loss(self, scores: Array) -> Array:
        """Return how far the loss is above a perfect fit's, which need not be 0 (Poisson), shape (batches,)."""
        perfect = self.dual(np.zeros_like(scores), np.zeros(self.n_batches))
        return np.maximum(self.loss(scores) - perfect, TINY)

    def best_shifts(self, scores: Array) -> Array:
        """Return the shifts of the intercepts, shape (batches, outputs), after which Σᵢ wᵢ rᵢ = 0.

        That is the intercept's dual constraint, so a gap is valid only after this.
        """

        def slopes(shifts: Array) -> Array:
            return -np.einsum("fn,fon->fo", self.weights, self.residuals(scores + shifts[:, :, None]))

        def bends(shifts: Array) -> Array:
            return np.einsum("fn,fon->fo", self.weights, self.curvatures(scores + shifts[:, :, None]))

        shifts = np.zeros(scores.shape[:2])
        if not self.family.couples_outputs:
            return increasing_root(slopes, bends, shifts)
        for _ in range(INTERCEPT_STEPS):
            slope = slopes(shifts)
            if np.abs(slope).max() < INTERCEPT_TOLERANCE:
                break
            shifts = shifts - np.clip(slope / np.maximum(bends(shifts), 1e-8), -1.0, 1.0)
        return shifts


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
    by_output = np.ascontiguousarray(np.asarray(target, dtype=np.float64).T)
    return ConvexProblem(design, by_output, family, weights / totals, matrix)


@dataclass(frozen=True, slots=True, eq=False)
class ConvexPoint:
    """The solutions of all batches at one alpha, stored for the active groups only.

    Attributes
    ----------
    active
        Groups that are active in some batch, ascending, shape (active,).
    values
        Their θ in the solver's coordinates, shape (batches, active, m, outputs).
    intercepts
        Shape (batches, outputs).
    supports
        The active groups of each batch.
    gaps
        Duality gap of each batch relative to its null loss, shape (batches,).
    gradient_norms
        Batch 0's ‖gradientⱼ‖ / wⱼ, shape (groups,): divided by alpha, how far on the way to entering.
    """

    alpha: float
    n_groups: int
    active: Indices
    values: Array
    intercepts: Array
    supports: tuple[Indices, ...]
    gaps: Array
    gradient_norms: Array

    @property
    def theta(self) -> Array:
        """All of θ, shape (batches, groups, m, outputs), made anew at each call."""
        batches, _, width, outputs = self.values.shape
        theta = np.zeros((batches, self.n_groups, width, outputs))
        theta[:, self.active] = self.values
        return theta

    def scores(self, design: GroupedDesign, batch: int = 0) -> Array:
        """Return β + Qθ of one batch, shape (rows, outputs)."""
        return design.scores(self.active, self.values[batch], self.intercepts[batch])


def group_lengths(theta: Array) -> Array:
    """Return ‖θⱼ‖, shape (batches, groups), for θ of shape (batches, outputs, groups, m)."""
    return np.sqrt(np.einsum("fopm,fopm->fp", theta, theta))


def lasso_values(lengths: Array, thresholds: Array, ridge: float) -> Array:
    """Return Σⱼ aⱼ‖θⱼ‖ + ½b‖θⱼ‖², shape (batches,), for ‖θⱼ‖ of shape (batches, groups)."""
    finite = np.where(np.isfinite(thresholds), thresholds, 0.0)  # an excluded group has norm 0: 0 · ∞ = 0
    return lengths @ finite + 0.5 * ridge * np.sum(lengths**2, axis=1)


def lasso_duals(
    dual: Callable[[Array], Array], norms: Array, lengths: Array, thresholds: Array, ridge: float
) -> Array:
    """Return the best lower bound found on the optimum of loss + Σⱼ aⱼ‖θⱼ‖ + ½b‖θⱼ‖², shape (batches,).

    The dual point is s r with the largest s ≤ 1 for which s‖gⱼ‖ ≤ aⱼ in every penalised group, and with b > 0 also
    r itself, less the conjugate Σⱼ (‖gⱼ‖ - aⱼ)₊²/(2b). The constraint gⱼ = 0 of an unpenalised group is reached by
    no scaling; by convexity the bound falls by at most ‖gⱼ‖‖θⱼ - θⱼ*‖, taken as 2‖gⱼ‖‖θⱼ‖.

    Parameters
    ----------
    dual
        Returns the loss's part of the dual at s r for s of shape (batches,).
    norms, lengths
        ‖gⱼ‖ of the gradients and ‖θⱼ‖, shape (batches, groups).
    thresholds, ridge
        a of shape (groups,), infinite for a group that must stay out, and b ≥ 0.
    """
    bound = np.isfinite(thresholds) & (thresholds > 0)
    worst = np.max(norms[:, bound] / thresholds[bound], axis=1, initial=0.0)
    scales = 1.0 / np.maximum(worst, 1.0)
    if ridge == 0:
        free = thresholds == 0.0
        return dual(scales) - 2.0 * np.sum(norms[:, free] * lengths[:, free], axis=1)

    def conjugate(point: Array) -> Array:
        return np.sum(np.maximum(point - thresholds, 0.0) ** 2, axis=1) / (2.0 * ridge)

    scaled = dual(scales) - conjugate(scales[:, None] * norms)
    return np.maximum(scaled, dual(np.ones_like(scales)) - conjugate(norms))


def sorted_dual_norm(norms: Array, sequence: Array) -> float:
    """Return maxₖ Σᵢ≤ₖ ‖g‖₍ᵢ₎ / Σᵢ≤ₖ wᵢ, the dual of the sorted norm Σᵢ wᵢ r₍ᵢ₎, for norms of shape (groups,).

    It is α_max at the empty model; one over it, at most 1, scales a dual point into the unit ball.
    """
    sums = np.cumsum(np.sort(norms)[::-1])
    allowed = np.cumsum(sequence)
    return float(np.max(sums / allowed)) if allowed[0] > 0.0 else np.inf


def allowed_slack(tol: float) -> float:
    """Return the largest ‖gradientⱼ‖/aⱼ of a dropped group that a relative gap of ``tol`` excuses.

    At a violation of 1 + ε the dual point is scaled by 1/(1 + ε), which costs about ε² of the loss.
    """
    return 1.0 + float(np.sqrt(tol))
