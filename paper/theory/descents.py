"""Subgradient and proximal gradient descent (appendix B.1) on the paper's convex problem, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from paper.theory.problem import Blocks, Matrix, Vector, centred, same_shape


@dataclass(frozen=True, slots=True, eq=False)
class DescentTrace:
    """Objective and number of groups that are exactly zero at some iterations, and the last θ, shapes (m_j,)."""

    iteration: tuple[int, ...]
    objective: tuple[float, ...]
    zeros: tuple[int, ...]
    theta: tuple[Vector, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Quadratic:
    """½θᵀHθ - qᵀθ + c with H = GᵀG: a step then costs no pass over the rows."""

    hessian: Matrix
    product: Vector
    constant: float
    edges: tuple[int, ...]

    def groups(self, theta: Vector) -> list[Vector]:
        return [theta[start:stop] for start, stop in pairwise(self.edges)]

    def norms(self, theta: Vector) -> Vector:
        return np.sqrt(np.add.reduceat(theta**2, self.edges[:-1]))

    def spread(self, factors: Vector) -> Vector:
        """Return one factor of each group for every entry."""
        return np.repeat(factors, np.diff(self.edges))

    def objective(self, theta: Vector, lam: float) -> float:
        smooth = 0.5 * theta @ self.hessian @ theta - self.product @ theta + self.constant
        return float(smooth + lam * self.norms(theta).sum())


def subgradient_descent(
    blocks: Blocks,
    y: ArrayLike,
    lam: float,
    start: Sequence[ArrayLike],
    iterations: int,
    *,
    step: float | None = None,
    shrinking: bool = False,
) -> DescentTrace:
    """Return the trace of θⱼ ← θⱼ - η(∂L/∂θⱼ + λ θⱼ/‖θⱼ‖ · 1{θⱼ ≠ 0}).

    With a fixed step it ends near the optimum, at a distance that falls with η, and jumps over zero without meeting
    it. ``shrinking`` takes η/√(t + 1) instead, for which the best objective so far converges. The paper (section
    3.4) argues with the flow of infinitely small steps; its ∫‖dΘ/dt‖²dt < ∞ makes dΘ/dt small somewhere, and a
    stationary point is a minimum only where the problem is convex. The minimum is not a zero loss for λ > 0.

    Parameters
    ----------
    start
        θⱼ(0), shapes (m_j,).
    step
        η; by default one over the largest eigenvalue of GᵀG.
    """
    problem, theta, rate = _prepared(blocks, y, start, step)
    recorder = _Recorder(problem, lam, iterations)
    recorder.see(0, theta)
    for count in range(1, iterations + 1):
        norms = problem.norms(theta)
        directions = problem.spread(np.divide(lam, norms, out=np.zeros_like(norms), where=norms > 0)) * theta
        length = rate / np.sqrt(count) if shrinking else rate
        theta = theta - length * (problem.hessian @ theta - problem.product + directions)
        recorder.see(count, theta)
    return recorder.trace(theta)


def proximal_descent(
    blocks: Blocks,
    y: ArrayLike,
    lam: float,
    start: Sequence[ArrayLike],
    iterations: int,
    *,
    step: float | None = None,
    accelerated: bool = False,
) -> DescentTrace:
    """Return the trace of θⱼ ← prox(θⱼ - η ∂L/∂θⱼ) with prox(v) = (1 - ηλ/‖v‖)₊ v, which reaches exact zeros.

    ``accelerated`` steps from Nesterov's extrapolated points (FISTA). Parameters as for `subgradient_descent`.
    """
    problem, theta, rate = _prepared(blocks, y, start, step)
    recorder = _Recorder(problem, lam, iterations)
    recorder.see(0, theta)
    ahead, momentum = theta, 1.0
    for count in range(1, iterations + 1):
        moved = ahead - rate * (problem.hessian @ ahead - problem.product)
        norms = problem.norms(moved)
        kept = np.maximum(0.0, 1.0 - rate * lam / np.maximum(norms, np.finfo(float).tiny))
        reached = problem.spread(kept) * moved
        if accelerated:
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            ahead, momentum = reached + (momentum - 1.0) / following * (reached - theta), following
        else:
            ahead = reached
        theta = reached
        recorder.see(count, theta)
    return recorder.trace(theta)


class _Recorder:
    """Keeps about 40 iterations a decade, so that a long descent stays a short list."""

    def __init__(self, problem: _Quadratic, lam: float, iterations: int) -> None:
        decades = max(1.0, np.log10(max(iterations, 1)))
        chosen = np.geomspace(1, max(iterations, 1), int(40 * decades))
        self._wanted = {0, *(round(float(number)) for number in chosen)}
        self._problem, self._lam = problem, lam
        self._rows: list[tuple[int, float, int]] = []

    def see(self, count: int, theta: Vector) -> None:
        if count in self._wanted:
            zeros = int(np.count_nonzero(self._problem.norms(theta) == 0.0))
            self._rows.append((count, self._problem.objective(theta, self._lam), zeros))

    def trace(self, theta: Vector) -> DescentTrace:
        counts, values, zeros = zip(*self._rows, strict=True)
        return DescentTrace(counts, values, zeros, tuple(group.copy() for group in self._problem.groups(theta)))


def _prepared(
    blocks: Blocks, y: ArrayLike, start: Sequence[ArrayLike], step: float | None
) -> tuple[_Quadratic, Vector, float]:
    matrices, target = centred(blocks, y)
    theta = np.concatenate(same_shape(matrices, start))
    together = np.hstack(list(matrices))
    hessian = together.T @ together
    edges = (0, *(int(edge) for edge in np.cumsum([block.shape[1] for block in matrices])))
    problem = _Quadratic(hessian, together.T @ target, float(0.5 * target @ target), edges)
    return problem, theta, 1.0 / float(np.linalg.eigvalsh(hessian)[-1]) if step is None else float(step)
