"""Group SLOPE and its kin: the penalty mixes the groups, so all of them move at once."""

from __future__ import annotations

import numpy as np

from sparsenam.convex.design import Array, Indices
from sparsenam.convex.problem import SMALLEST_FLOAT, ConvexProblem, SortedPenalty, group_lengths, sorted_dual_norm

MAX_STEPS = 5000
CHECK_EVERY = 10
# steps from which the gap must halve while they double, before and after a first stall
GAP_PATIENCE, GAP_IMPATIENCE = 300, 100
POWER_STEPS = 30
EXPLAINED_ROUNDING, SORTED_LOSS_ROUNDING = 1e-12, 1e-14  # of what can be explained, and of a loss that is far larger


class SortedSolver:
    """State of loss(y, β + Qθ) + α Σᵢ wᵢ‖θ‖₍ᵢ₎ for all batches; θ is (batches, outputs, groups, m)."""

    def __init__(self, problem: ConvexProblem, penalty: SortedPenalty) -> None:
        self.problem, self.penalty = problem, penalty
        design = problem.design
        self.theta = np.zeros((problem.n_batches, problem.n_outputs, design.n_groups, design.width))
        self.intercepts = problem.constants()
        scores = problem.constant_scores(self.intercepts)
        self.intercepts = self.intercepts + problem.best_shifts(scores)
        self.null_losses = problem.explainable_loss(scores)
        self._inverse_steps = np.full(problem.n_batches, 0.1 * min(problem.family.curvature, 1.0))
        self._patience = GAP_PATIENCE
        self._steepest = problem.family.curvature * self._largest_eigenvalues()

    def solve(self, alpha: float, tol: float) -> tuple[Array, Array]:
        """Iterate until the relative gaps are below ``tol``; return gaps (batches,) and gradient norms.

        Accelerated proximal gradient with restarts (O'Donoghue & Candès 2015); the step is found by
        backtracking, since Poisson's curvature has no bound. Where the gap stalls, as far from y a loss whose slope
        is bounded lets it, the solution is as near as these steps come.
        """
        previous, ahead = self.theta, self.theta
        momentum = np.ones(self.problem.n_batches)
        gaps, norms = self.measure(alpha)
        reached = [float(gaps.max())]
        for step in range(1, MAX_STEPS + 1):
            point, intercepts = self._proximal_step(ahead, alpha)
            turned = np.einsum("fopm,fopm->f", ahead - point, point - previous) > 0
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            pace = np.where(turned, 0.0, (momentum - 1.0) / following)
            momentum = np.where(turned, 1.0, following)
            ahead = point + pace[:, None, None, None] * (point - previous)
            previous, self.theta, self.intercepts = point, point, intercepts
            if step % CHECK_EVERY == 0:
                gaps, norms = self.measure(alpha)
                reached.append(float(gaps.max()))
                if reached[-1] <= tol:
                    break
                if step >= self._patience and not reached[-1] <= 0.5 * min(reached[: 1 + len(reached) // 2]):
                    self._patience = GAP_IMPATIENCE  # points farther down are no easier
                    break
        return gaps, norms

    def measure(self, alpha: float) -> tuple[Array, Array]:
        """Return relative duality gaps (batches,) and ‖gradientⱼ‖ (batches, groups)."""
        scores = self._best_scores(self.theta)
        residuals = self.problem.residuals(scores)
        norms = self.problem.gradient_norms(residuals)
        sequence, alphas = self.penalty.sequence(norms.shape[1]), alpha * self.problem.alpha_scales
        scales = np.array(
            [1.0 / max(sorted_dual_norm(row, one * sequence), 1.0) for row, one in zip(norms, alphas, strict=True)]
        )
        lengths = group_lengths(self.theta)
        penalties = [self.penalty.value(row, float(one)) for row, one in zip(lengths, alphas, strict=True)]
        primals = self.problem.loss(scores) + np.array(penalties)
        return (primals - self.problem.dual(residuals, scales)) / self.null_losses, norms

    def residuals(self) -> Array:
        """Return y - mean, shape (batches, outputs, rows)."""
        return self.problem.residuals(self._best_scores(self.theta))

    def solution(self) -> tuple[Indices, Array, Array]:
        """Return active groups, their θ (batches, active, m, outputs) and intercepts (batches, outputs)."""
        active = np.flatnonzero(self.theta.any(axis=(0, 1, 3)))
        return active, self.theta[:, :, active].transpose(0, 2, 3, 1).copy(), self.intercepts.copy()

    def _proximal_step(self, ahead: Array, alpha: float) -> tuple[Array, Array]:
        """Return the next θ, and the best intercepts at ``ahead``.

        With the intercept always at its best, the loss is a function of θ alone, convex and with the
        same gradient.
        """
        scores = self._best_scores(ahead)
        intercepts = self.intercepts.copy()
        before = self.problem.loss(scores)
        gradients = self.problem.gradients(self.problem.residuals(scores))
        pull = gradients.transpose(2, 3, 0, 1).astype(np.float64)
        rounding = np.maximum(EXPLAINED_ROUNDING * self.null_losses, SORTED_LOSS_ROUNDING * np.abs(before))
        while True:
            point = self._shrunk(ahead + pull / self._inverse_steps[:, None, None, None], alpha)
            step = point - ahead
            model = before - np.einsum("fopm,fopm->f", pull, step)
            model += 0.5 * self._inverse_steps * np.einsum("fopm,fopm->f", step, step)
            after = self.problem.loss(self._scores(point) + intercepts[:, :, None])
            worse = ~(after <= model + rounding) & (self._inverse_steps < self._steepest)
            if not worse.any():
                return point, intercepts
            doubled = np.minimum(2.0 * self._inverse_steps, self._steepest)
            self._inverse_steps = np.where(worse, doubled, self._inverse_steps)

    def _largest_eigenvalues(self) -> Array:
        """Return a bound on the top eigenvalue of QᵀWQ by power iteration, shape (batches,)."""
        generator = np.random.default_rng(0)  # any start will do: the result does not depend on it
        vectors = generator.normal(size=(self.theta.shape[0], 1, *self.theta.shape[2:]))
        vectors = np.repeat(vectors, self.theta.shape[1], axis=1)
        lengths = np.ones(self.problem.n_batches)
        for _ in range(POWER_STEPS):
            products = self.problem.gradients(self._scores(vectors)).transpose(2, 3, 0, 1)
            lengths = np.sqrt(np.einsum("fopm,fopm->f", products, products)).astype(np.float64)
            vectors = products / np.maximum(lengths, SMALLEST_FLOAT)[:, None, None, None]
        return 1.1 * np.maximum(lengths, SMALLEST_FLOAT)

    def _shrunk(self, theta: Array, alpha: float) -> Array:
        lengths = group_lengths(theta)
        shrunk = np.stack(
            [
                self.penalty.shrink(row, alpha * scale, 1.0 / inverse)
                for row, inverse, scale in zip(lengths, self._inverse_steps, self.problem.alpha_scales, strict=True)
            ]
        )
        factors = np.divide(shrunk, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return theta * factors[:, None, :, None]

    def _best_scores(self, theta: Array) -> Array:
        """Return scores (batches, outputs, rows) after moving the intercepts to their best."""
        scores = self._scores(theta) + self.intercepts[:, :, None]
        shifts = self.problem.best_shifts(scores)
        self.intercepts = self.intercepts + shifts
        return scores + shifts[:, :, None]

    def _scores(self, theta: Array) -> Array:
        """Return Qθ, shape (batches, outputs, rows), from the groups that are not zero."""
        active = np.flatnonzero(theta.any(axis=(0, 1, 3)))
        flat = theta[:, :, active].reshape(*theta.shape[:2], active.size * theta.shape[3])
        rows = self.problem.design.combined(active, flat.reshape(flat.shape[0] * flat.shape[1], flat.shape[2]))
        return rows.astype(np.float64).reshape(*flat.shape[:2], -1)
