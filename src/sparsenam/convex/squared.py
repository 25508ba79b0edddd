"""Squared loss: block descent on cached Gram blocks."""

from __future__ import annotations

import numpy as np

from sparsenam.convex.descent import GramCache, GroupQuadratic, descend
from sparsenam.convex.design import Array, Indices
from sparsenam.convex.problem import ConvexProblem, dual_scales, free_slack, group_terms, ridge_conjugate

MAX_SWEEPS = 500


class SquaredSolver:
    """State of ½‖y - β - Qθ‖² + Σⱼ aⱼ‖θⱼ‖ + ½b‖θⱼ‖² for all batches; θ lives on the cached groups only."""

    forgets = False  # the Gram blocks stay, so a group once met costs nothing to keep in the working set

    def __init__(self, problem: ConvexProblem, gram: GramCache) -> None:
        self.problem, self.gram = problem, gram
        self.target_means = problem.weights @ problem.target.T
        self.centred = problem.target - self.target_means[:, :, None]
        self.null_losses = 0.5 * np.einsum("fn,fon->f", problem.weights, self.centred**2)
        width = problem.design.width
        self.theta = np.zeros((problem.n_batches, problem.n_outputs, 0, width))
        self.linear = np.zeros((problem.n_batches, problem.n_outputs, 0))
        self.pull = self.linear
        self.include(np.array(gram.groups, dtype=np.intp))

    @property
    def groups(self) -> Indices:
        """The features that θ has room for; the cache may hold more."""
        return np.array(self.gram.groups[: self.theta.shape[2]], dtype=np.intp)

    def include(self, features: Indices) -> None:
        """Make room for these features and all others that the cache holds."""
        self.gram.add(features)
        known = self.theta.shape[2]
        fresh = np.array(self.gram.groups[known:], dtype=np.intp)
        if not fresh.size:
            return
        room = np.zeros((*self.theta.shape[:2], fresh.size, self.theta.shape[3]))
        self.theta = np.concatenate([self.theta, room], axis=2)
        products = self.gram.products(fresh, self.centred)
        self.linear = np.concatenate([self.linear, products], axis=2)
        self.pull = np.concatenate([self.pull, products], axis=2)

    def improve(self, thresholds: Array, ridge: float, working: Indices, tol: float) -> None:
        """Descend on the working features until steps gain less than ``tol`` of the null loss."""
        if not working.size:
            return
        self.include(working)
        batches, outputs, count, width = self.theta.shape
        size = count * width
        flat = self.theta.reshape(batches, outputs, size)
        self.pull = self.linear - np.matmul(flat, self.gram.hessian[:, :size, :size])
        descend(
            GroupQuadratic(self.gram.hessian, self.gram.inverse[:count]),
            self.theta,
            self.pull,
            np.sort(self.gram.place[working]).tolist(),
            thresholds[self.groups],
            ridge,
            tol * float(self.null_losses.max()),
            MAX_SWEEPS,
        )

    def measure(self, thresholds: Array, ridge: float) -> tuple[Array, Array]:
        """Return relative duality gaps (batches,) and ‖gradientⱼ‖ (batches, features)."""
        squares, products, norms = self._residual_sums()
        scales = dual_scales(norms, thresholds)
        duals = scales * products - 0.5 * scales**2 * squares
        if ridge > 0:
            duals -= ridge_conjugate(scales[:, None] * norms, thresholds, ridge)
            plain = products - 0.5 * squares - ridge_conjugate(norms, thresholds, ridge)
            duals = np.maximum(duals, plain)
        lengths = self.lengths()
        primals = 0.5 * squares + group_terms(lengths, thresholds, ridge)
        slack = free_slack(norms, lengths, thresholds) if ridge == 0 else 0.0
        return (primals - duals + slack) / np.maximum(self.null_losses, np.finfo(float).tiny), norms

    def lengths(self) -> Array:
        """Return ‖θⱼ‖, shape (batches, features)."""
        lengths = np.zeros((self.problem.n_batches, self.problem.design.n_features))
        lengths[:, self.groups] = np.sqrt(np.einsum("fokm,fokm->fk", self.theta, self.theta))
        return lengths

    def residuals(self) -> Array:
        """Return the residuals with weighted mean 0, shape (batches, outputs, rows)."""
        moving = np.flatnonzero(self.theta.any(axis=(0, 1, 3)))
        if not moving.size:
            return self.centred
        rows = self.gram.rows_of(moving)
        flat = self.theta[:, :, moving].reshape(*self.theta.shape[:2], rows.size)
        columns = self.gram.columns if moving.size == len(self.gram.groups) else self.gram.columns[rows]
        fitted = np.matmul(flat.astype(columns.dtype), columns)
        offsets = np.einsum("fok,fk->fo", flat, self.gram.means[:, rows])
        return self.centred - fitted + offsets[:, :, None]

    def solution(self) -> tuple[Indices, Array, Array]:
        """Return active features, their θ (batches, active, m, outputs) and intercepts (batches, outputs)."""
        positions = np.flatnonzero(self.theta.any(axis=(0, 1, 3)))
        features = self.groups[positions]
        order = np.argsort(features)
        values = self.theta[:, :, positions[order]]
        rows = self.gram.rows_of(positions[order])
        flat = values.reshape(*values.shape[:2], rows.size)
        intercepts = self.target_means - np.einsum("fok,fk->fo", flat, self.gram.means[:, rows])
        return features[order], values.transpose(0, 2, 3, 1).copy(), intercepts

    def _residual_sums(self) -> tuple[Array, Array, Array]:
        """Return Σwr², Σwry and gradient norms: from the Gram alone when every group is cached."""
        if self.theta.shape[2] == self.problem.design.n_features:
            batches, outputs, count, width = self.theta.shape
            flat = self.theta.reshape(batches, outputs, -1)
            shared = np.einsum("fok,fok->f", self.linear, flat)
            left = np.einsum("fok,fok->f", self.pull, flat)
            pulls = self.pull.reshape(batches, outputs, count, width)
            norms = np.empty((batches, count))
            norms[:, self.groups] = np.sqrt(np.einsum("fokm,fokm->fk", pulls, pulls))
            total = 2.0 * self.null_losses
            return total - shared - left, total - shared, norms
        residuals = self.residuals()
        weighted = self.problem.weights[:, None, :] * residuals
        squares = np.einsum("fon,fon->f", weighted, residuals)
        products = np.einsum("fon,fon->f", weighted, self.centred)
        return squares, products, self.problem.gradient_norms(residuals)
