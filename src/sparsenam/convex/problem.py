"""The convex problem: a design, a target, a loss and one weight vector for each batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

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
