"""Squared loss: block descent on cached Gram blocks."""

from __future__ import annotations

import numpy as np

from sparsenam.convex.descent import GramCache, descend
from sparsenam.convex.design import Array, Indices
from sparsenam.convex.problem import TINY, ConvexProblem, group_lengths, lasso_duals, lasso_values

MAX_SWEEPS = 500


class SquaredSolver:
    """State of ½‖y - β - Qθ‖² + Σⱼ aⱼ‖θⱼ‖ + ½b‖θⱼ‖² for all batches.

    ``theta`` (batches, outputs, k, m) and ``pull`` = QᵀW r (batches, outputs, k·m) are those of the first k cached
    groups.
    """

    forgets = False  # the Gram blocks stay, so a group once met costs nothing to keep in the working set

    def __init__(self, problem: ConvexProblem, gram: GramCache) -> None:
        self.problem, self.gram = problem, gram
        self.null_losses = 0.5 * np.einsum("fn,fon->f", problem.weights, gram.centred**2)
        self.theta = np.zeros((problem.n_batches, problem.n_outputs, 0, problem.design.width))
        self.pull = np.zeros((problem.n_batches, problem.n_outputs, 0))
        self._include(np.array(gram.groups, dtype=np.intp))

    @property
    def groups(self) -> Indices:
        """The groups that θ has room for; the cache may hold more."""
        return np.array(self.gram.groups[: self.theta.shape[2]], dtype=np.intp)

    def improve(self, thresholds: Array, ridge: float, working: Indices, tol: float) -> None:
        """Descend on the working groups until steps gain less than ``tol`` of the null loss."""
        if not working.size:
            return
        self._include(working)
        batches, outputs, count, width = self.theta.shape
        size = count * width
        flat = self.theta.reshape(batches, outputs, size)
        self.pull = self.gram.linear - np.matmul(flat, self.gram.hessian[:, :size, :size])
        descend(
            self.gram.hessian,
            self.gram.inverse[:count],
            self.theta,
            self.pull,
            np.sort(self.gram.index[working]).tolist(),
            thresholds[self.groups],
            ridge,
            tol * float(self.null_losses.max()),
            MAX_SWEEPS,
        )

    def measure(self, thresholds: Array, ridge: float) -> tuple[Array, Array]:
        """Return relative duality gaps (batches,) and ‖gradientⱼ‖ (batches, groups)."""
        squares, products, norms = self._residual_sums()

        def dual(scales: Array) -> Array:
            return scales * products - 0.5 * scales**2 * squares

        lengths = self.lengths()
        primals = 0.5 * squares + lasso_values(lengths, thresholds, ridge)
        gaps = primals - lasso_duals(dual, norms, lengths, thresholds, ridge)
        return gaps / np.maximum(self.null_losses, TINY), norms

    def lengths(self) -> Array:
        """Return ‖θⱼ‖, shape (batches, groups)."""
        lengths = np.zeros((self.problem.n_batches, self.problem.design.n_groups))
        lengths[:, self.groups] = group_lengths(self.theta)
        return lengths

    def residuals(self) -> Array:
        """Return the residuals with weighted mean 0, shape (batches, outputs, rows)."""
        moving = np.flatnonzero(self.theta.any(axis=(0, 1, 3)))
        if not moving.size:
            return self.gram.centred
        if 3 * moving.size > self.theta.shape[2]:  # to copy some columns takes longer than to read all
            moving = np.arange(self.theta.shape[2])
        rows = self.gram.rows_of(moving)
        columns = self.gram.columns
        columns = columns[: rows.size] if moving.size == self.theta.shape[2] else columns[rows]
        flat = self.theta[:, :, moving].reshape(-1, rows.size)
        fitted = (flat.astype(columns.dtype) @ columns).reshape(self.gram.centred.shape)
        return self.gram.centred - fitted + self._mean_effects(moving)[:, :, None]

    def solution(self) -> tuple[Indices, Array, Array]:
        """Return active groups, their θ (batches, active, m, outputs) and intercepts (batches, outputs)."""
        active = np.flatnonzero(self.theta.any(axis=(0, 1, 3)))
        active = active[np.argsort(self.groups[active])]
        intercepts = self.gram.target_means - self._mean_effects(active)
        return self.groups[active], self.theta[:, :, active].transpose(0, 2, 3, 1).copy(), intercepts

    def _include(self, groups: Indices) -> None:
        """Make room for these groups and all others that the cache holds."""
        self.gram.add(groups)
        fresh = len(self.gram.groups) - self.theta.shape[2]
        if fresh:
            room = np.zeros((*self.theta.shape[:2], fresh, self.theta.shape[3]))
            self.theta = np.concatenate([self.theta, room], axis=2)
            self.pull = np.concatenate([self.pull, self.gram.linear[:, :, self.pull.shape[2] :]], axis=2)

    def _mean_effects(self, indices: Indices) -> Array:
        """Return the weighted means of Qθ over groups at these indices of the cache, shape (batches, outputs)."""
        rows = self.gram.rows_of(indices)
        flat = self.theta[:, :, indices].reshape(*self.theta.shape[:2], rows.size)
        return np.einsum("fok,fk->fo", flat, self.gram.means[:, rows])

    def _residual_sums(self) -> tuple[Array, Array, Array]:
        """Return Σwr², Σwry and gradient norms: from the Gram alone when every group is cached."""
        if self.theta.shape[2] == self.problem.design.n_groups:
            flat = self.theta.reshape(self.pull.shape)
            explained = np.einsum("fok,fok->f", self.gram.linear, flat)
            left = np.einsum("fok,fok->f", self.pull, flat)
            norms = np.empty((self.problem.n_batches, self.problem.design.n_groups))
            norms[:, self.groups] = group_lengths(self.pull.reshape(self.theta.shape))
            total = 2.0 * self.null_losses
            return total - explained - left, total - explained, norms
        residuals = self.residuals()
        weighted = self.problem.weights[:, None, :] * residuals
        squares = np.einsum("fon,fon->f", weighted, residuals)
        products = np.einsum("fon,fon->f", weighted, self.gram.centred)
        return squares, products, self.problem.gradient_norms(residuals)
