"""Newton steps: proximal ones for losses other than the squared one, and refits on a support without the penalty.

A quadratic model of the loss is minimised by block descent on the rows: it needs no Gram matrix, and knows softmax's
whole Hessian.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.design import Array, Floats, GroupedDesign, WorkingColumns
from sparsenam.convex.problem import (
    BlockSolver,
    ConvexProblem,
    convex_problem,
    group_lengths,
    lasso_values,
    step_lengths,
)
from sparsenam.convex.ramps import Indices
from sparsenam.convex.squared import SMALLEST_CURVATURE
from sparsenam.families import Family
from sparsenam.families.base import SMALLEST_FLOAT, softmax_inverse

NEWTON_SWEEPS = 100
STEP_HALVINGS = 20  # of a step that is too long
STEP_ROUNDING = 1e-12  # of the null loss: a step that raises the objective by less is taken
SMALLEST_BEND = 1e-5  # a floor on the loss's second derivative keeps steps finite where it is flat
BLOCK_ROOT_STEPS = 12
ROOT_TOLERANCE = 1e-6  # of the last step: Newton's next error is about its square
SINGLE_TOL = 5e-8  # gain of a step, as a share of the null loss, down to which sums of single precision are enough
# sweeps between extrapolations, and what is added to the matrix of their moves, whose trace is 1; on four classes of
# 18 collinear columns 16 sweeps leave 1e-4 of the null loss instead of 3e-3, and single precision halves their time
EXTRAPOLATED, EXTRAPOLATION_JITTER = 5, 1e-10


class ScoreSolver(BlockSolver):
    """State of a solver that keeps the scores of all rows, with the intercepts at their best."""

    def __init__(self, problem: ConvexProblem) -> None:
        super().__init__(problem)
        self.intercepts = problem.constants()
        self.scores = problem.constant_scores(self.intercepts)
        self.move_intercepts()
        self.null_losses = problem.explainable_loss(self.scores)

    def move_intercepts(self) -> None:
        """Bring the intercepts, and the scores with them, to their best."""
        shifts = self.problem.best_shifts(self.scores)
        self.scores = self.scores + shifts[:, :, None]
        self.intercepts = self.intercepts + shifts

    def best_intercepts(self) -> Array:
        return self.intercepts

    def losses(self) -> tuple[Array, Callable[[Array], Array], Array]:
        residuals = self.residuals()
        norms = self.problem.gradient_norms(residuals)
        return self.problem.loss(self.scores), lambda scales: self.problem.dual(residuals, scales), norms

    def residuals(self) -> Array:
        """Return y - mean at the scores, shape (batches, outputs, rows)."""
        return self.problem.residuals(self.scores)


class NewtonSolver(ScoreSolver):
    """State of loss(y, β + Qθ) + Σⱼ aⱼ‖θⱼ‖ + ½b‖θⱼ‖² for all batches."""

    forgets = True  # a Newton step pays for every group of the working set, so idle ones leave it

    def __init__(self, problem: ConvexProblem) -> None:
        super().__init__(problem)
        nothing = np.zeros(0, np.intp)
        self._held = nothing, WorkingColumns(problem.design.columns(nothing))  # a working set and its columns
        self._before = self.theta.copy(), self.scores, self.intercepts

    def go_on(self, thresholds: Array, ridge: float) -> None:
        """Go as far again as since the last call, or as near that as the objective is lower."""
        now = self.theta.copy(), self.scores, self.intercepts
        step, change, shift = (each - last for each, last in zip(now, self._before, strict=True))
        sizes = self._line_search(self.theta, step, change, self.problem.bars(thresholds), ridge, -STEP_ROUNDING)
        self._before = now
        self.theta[:] += sizes[:, None, None, None] * step
        self.scores = self.scores + sizes[:, None, None] * change
        self.intercepts = self.intercepts + sizes[:, None] * shift

    def improve(self, thresholds: Array, ridge: float, working: Indices, tol: float) -> None:
        """Take one Newton step on the working groups, with a line search, and move the intercepts."""
        if not working.size:
            return
        old = self.theta[:, :, working]
        bars = self.problem.bars(thresholds[working])
        if not np.array_equal(self._held[0], working):
            self._held = working, WorkingColumns(self.problem.design.columns(working))
        columns = self._held[1]
        new, shift = self._model_minimum(columns.columns, old, bars, ridge, tol)
        if self.problem.family.couples_outputs:
            # Softmax does not see what all outputs share; without it every norm is smaller.
            new -= new.mean(axis=1, keepdims=True)
            shift -= shift.mean(axis=1, keepdims=True)
        step = new - old
        change = columns.times(step.reshape(*step.shape[:2], -1)) + shift[:, :, None]
        sizes = self._line_search(old, step, change, bars, ridge)
        self.theta[:, :, working] = old + sizes[:, None, None, None] * step
        self.scores = self.scores + sizes[:, None, None] * change
        self.intercepts = self.intercepts + sizes[:, None] * shift
        self.move_intercepts()

    def _model_minimum(self, columns: Floats, old: Array, bars: Array, ridge: float, tol: float) -> tuple[Array, Array]:
        """Return the model's minimum θ, shape as ``old``, and the shift of the intercepts (batches, outputs)."""
        problem, precision = self.problem, columns.dtype if tol < SINGLE_TOL else np.float32
        weights, residuals = problem.weights[:, None, :], self.residuals()
        if problem.family.couples_outputs:
            shares = problem.target - residuals
            # diag(p) - ppᵀ is a graph's Laplacian with pₖpₗ on its edges, so twice its diagonal dominates it
            bends, bounds = shares, np.maximum(2.0 * shares * (1.0 - shares), SMALLEST_BEND)
            inverse = softmax_inverse(shares, problem.weights, SMALLEST_BEND)
        else:
            shares = None
            bends = bounds = np.maximum(problem.curvatures(self.scores), SMALLEST_BEND)
            inverse = np.eye(old.shape[1]) / np.sum(weights * bends, axis=2)[:, :, None]
        model = RowModel(
            residuals=(weights * residuals).astype(precision),
            bends=(weights * bends).astype(precision),
            bounds=(weights * bounds).astype(precision),
            shares=None if shares is None else shares.astype(precision),
        )
        new, gain = old.copy(), tol * float(self.null_losses.max())
        return new, model.descend(inverse, columns.astype(precision, copy=False), new, bars, ridge, gain, NEWTON_SWEEPS)

    def _line_search(
        self, old: Array, step: Array, change: Array, bars: Array, ridge: float, rise: float = STEP_ROUNDING
    ) -> Array:
        """Return the first of 1, ½, ¼ … that raises the objective by no more than allowed, shape (batches,)."""

        def objective(sizes: Array) -> Array:
            theta = old + sizes[:, None, None, None] * step
            loss = self.problem.loss(self.scores + sizes[:, None, None] * change)
            return loss + lasso_values(group_lengths(theta), bars, ridge)

        before = self.problem.loss(self.scores) + lasso_values(group_lengths(old), bars, ridge)
        highest = before + rise * self.null_losses
        return step_lengths(lambda sizes: objective(sizes) <= highest, len(old), STEP_HALVINGS)


@dataclass(frozen=True, slots=True, eq=False)
class RowModel:
    """½ Σᵢ cᵢᵀHᵢcᵢ - Σᵢ rᵢᵀcᵢ for changes c of the scores, shape (batches, outputs, rows), as all that follow.

    ``residuals`` r are minus the weighted gradient of the loss, and r - Hc as a descent goes on. Hᵢ = diag(``bends``),
    or with ``shares`` p of softmax, bends being wp, Hᵢ = w(diag(p) - ppᵀ). ``bounds`` is a diagonal that dominates Hᵢ.
    """

    residuals: Floats
    bends: Floats
    bounds: Floats
    shares: Floats | None

    def bent(self, change: Floats) -> Floats:
        """Return Hc for a change c of the scores, which is used up."""
        if self.shares is not None:
            change -= np.einsum("fon,fon->fn", self.shares, change)[:, None, :]
        change *= self.bends
        return change

    def move(self, change: Floats) -> None:
        """Move by a change of the scores, which is used up."""
        np.subtract(self.residuals, self.bent(change), out=self.residuals)

    def descend(
        self,
        constant_inverse: Array,
        columns: Floats,
        theta: Array,
        thresholds: Array,
        ridge: float,
        tol: float,
        max_sweeps: int,
    ) -> Array:
        """Minimise at c = β + Qᵀ(θ - θ₀), plus Σⱼ aⱼ‖θⱼ‖ + ½b‖θⱼ‖², over θ and β from θ₀ and 0; return β.

        Sweeps visit the groups that are not zero and those that their gradient lets in, until one gains about ``tol``.
        A visit costs two products with the group's columns, whatever the number of other groups.

        ``constant_inverse`` (batches, outputs, outputs) is the inverse of Σᵢ Hᵢ, ``columns`` (k·m, rows) is Q of k
        groups, ``theta`` (batches, outputs, k, m) is θ₀ and changed in place; ``thresholds`` a (batches, k) are
        infinite for groups that must stay out. β has shape (batches, outputs).
        """
        blocks = columns.reshape(*theta.shape[2:], -1)
        metrics = dict[int, tuple[Array, Array | None]]()  # of the groups met
        left, shifts = self.residuals, np.zeros(theta.shape[:2])
        visiting, known = self._wanted(columns, theta, thresholds), [(theta.copy(), shifts.copy())]
        for _ in range(max_sweeps):
            shift = np.einsum("fop,fp->fo", constant_inverse, left.sum(axis=2, dtype=np.float64))
            shifts += shift
            self.move(np.repeat(shift.astype(left.dtype)[:, :, None], left.shape[2], axis=2))
            gains, moved = np.zeros(len(theta)), np.zeros_like(visiting)
            for k in np.flatnonzero(visiting).tolist():
                if k not in metrics:
                    metrics[k] = _metric(self.bounds, blocks[k], ridge, bool(thresholds[0, k] == 0.0))
                gain = self._visit(blocks[k], theta[:, :, k], thresholds[:, k], ridge, *metrics[k])
                gains, moved[k] = gains + gain, bool(gain.any())
            visiting = moved
            if gains.max() < tol:
                moved = moved | theta.any(axis=(0, 1, 3))
                visiting = moved | self._wanted(columns, theta, thresholds)
                if np.array_equal(visiting, moved):
                    break
            known.append((theta.copy(), shifts.copy()))
            if len(known) > EXTRAPOLATED:
                self._extrapolate(columns, known, (theta, shifts), thresholds, ridge)
                known = [(theta.copy(), shifts.copy())]
        return shifts

    def _extrapolate(
        self,
        columns: Floats,
        known: list[tuple[Array, Array]],
        point: tuple[Array, Array],
        thresholds: Array,
        ridge: float,
    ) -> None:
        """Move θ and β in place to Anderson's mean of the last sweeps' points, where the objective is lower there.

        Its weights make the same mean of the sweeps' moves least (Bertrand and Massias, 2021): of columns that are
        nearly combinations of others, sweeps alone take a tenth of the way.
        """
        (theta, shifts), left = point, self.residuals
        flat = np.stack([np.hstack([t.reshape(len(t), -1), s]) for t, s in known], axis=1)
        moves = np.diff(flat, axis=1)
        products = np.matmul(moves, moves.transpose(0, 2, 1))
        size = np.trace(products, axis1=1, axis2=2)[:, None, None] + SMALLEST_FLOAT
        apart = products / size + EXTRAPOLATION_JITTER * np.eye(moves.shape[1])
        shares = np.asarray(np.linalg.solve(apart, np.ones((*apart.shape[:2], 1))), dtype=np.float64)
        goal = np.sum(shares / shares.sum(axis=1, keepdims=True) * flat[:, 1:], axis=1)
        is_in = group_lengths(theta)[:, None, :, None] > 0.0
        step = is_in * (goal[:, : -shifts.shape[1]].reshape(theta.shape) - theta)
        turn = goal[:, -shifts.shape[1] :] - shifts
        change = np.tensordot(step.reshape(*shifts.shape, -1).astype(left.dtype), columns, 1)
        change += turn.astype(left.dtype)[:, :, None]
        pull, bent = np.einsum("fon,fon->f", change, left), self.bent(change.copy())
        gain = pull - 0.5 * np.einsum("fon,fon->f", change, bent)
        gain -= lasso_values(group_lengths(theta + step), thresholds, ridge)
        is_lower = gain + lasso_values(group_lengths(theta), thresholds, ridge) > 0.0
        theta += is_lower[:, None, None, None] * step
        shifts += is_lower[:, None] * turn
        left -= is_lower[:, None, None] * bent

    def _visit(
        self, block: Floats, theta: Array, threshold: Array, ridge: float, metric: Array, solver: Array | None
    ) -> Array:
        """Move one group's θ (batches, outputs, m) in place; return about how much that gains, shape (batches,).

        ``block`` has shape (m, rows), ``metric`` (batches, outputs, m), ``threshold`` (batches,), ``solver``
        (batches, outputs, m, m).
        """
        left = self.residuals
        flat = left.reshape(-1, left.shape[2])  # a view: one product serves all batches and outputs
        pull = (flat @ block.T).astype(np.float64).reshape(theta.shape)
        if solver is None:
            step = shrunk(theta + pull / metric, metric, threshold, ridge, theta) - theta
        else:
            step = np.matmul((pull - ridge * theta)[:, :, None, :], solver)[:, :, 0]
        if self.shares is not None:
            # softmax does not see what all outputs share; without it every norm is smaller
            step -= (theta + step).mean(axis=1, keepdims=True)
        gain = np.einsum("fom,fom,fom->f", step, step, metric)
        if gain.any():
            theta += step
            self.move((step.astype(left.dtype).reshape(len(flat), -1) @ block).reshape(left.shape))
        return gain

    def _wanted(self, columns: Floats, theta: Array, thresholds: Array) -> NDArray[np.bool_]:
        """Return which groups are not zero or have a gradient above their threshold, shape (groups,)."""
        pulls = (self.residuals.reshape(-1, self.residuals.shape[2]) @ columns.T).reshape(theta.shape)
        return np.any(group_lengths(pulls) > thresholds, axis=0) | theta.any(axis=(0, 1, 3))


def shrunk(point: Array, metric: Array, threshold: Array, ridge: float, guess: Array) -> Array:
    """Return the θ, shape (batches, outputs, m), that minimises ½ Σ h(θ - v)² + a‖θ‖ + ½b‖θ‖² for each batch.

    It is 0 where ‖hv‖ ≤ a. Elsewhere θ = hvt/((h + b)t + a) with t = ‖θ‖, the root of
    1/√(Σ (hv)²/((h + b)t + a)²) = 1. The left side is concave and rises, so that Newton's steps, whatever
    their start, come from below after the first. ``point`` is v and ``guess`` a point whose length is perhaps near that
    of θ, shape (batches, outputs, m) like ``metric``, h > 0; ``threshold`` is a (batches,).
    """
    flat = (len(point), -1)
    squares, stretched = ((metric * point) ** 2).reshape(flat), (metric + ridge).reshape(flat)
    least = (np.sqrt(squares.sum(axis=1)) - threshold) / stretched.max(axis=1)
    outside = least > 0.0
    if not outside.any():
        return np.zeros_like(point)
    least = np.where(outside, least, 1.0)  # any number: a θ inside is 0
    length = np.maximum(least, np.sqrt(np.einsum("fom,fom->f", guess, guess)))
    for _ in range(BLOCK_ROOT_STEPS):
        below = stretched * length[:, None] + threshold[:, None]
        terms = squares / below**2
        total = terms.sum(axis=1) + SMALLEST_FLOAT
        step = total * (np.sqrt(total) - 1.0) / ((terms * stretched / below).sum(axis=1) + SMALLEST_FLOAT)
        length = np.maximum(length + step, least)
        if (np.abs(step) <= ROOT_TOLERANCE * length)[outside].all():
            break
    share = outside * length
    factor = share[:, None, None] * metric / ((metric + ridge) * length[:, None, None] + threshold[:, None, None])
    return point * factor


def _metric(bounds: Floats, block: Floats, ridge: float, is_free: bool) -> tuple[Array, Array | None]:
    """Return a diagonal that dominates Q diag(bounds) Qᵀ for Q (m, rows), shape (batches, outputs, m), and an inverse.

    The diagonal is that of the matrix itself times the top eigenvalue of what is left when both sides are divided by
    its root. The inverse (batches, outputs, m, m) is that of a group without a threshold, which has no shrinkage to
    help along its flat directions.
    """
    width, rows = block.shape
    upper, gram = np.triu_indices(width), np.empty((*bounds.shape[:2], width, width))
    sums = bounds.reshape(-1, rows) @ (block[upper[0]] * block[upper[1]]).T
    gram[..., upper[0], upper[1]] = gram[..., upper[1], upper[0]] = sums.reshape(*bounds.shape[:2], -1)
    diagonal = np.maximum(np.einsum("...mm->...m", gram), SMALLEST_CURVATURE)
    roots = np.sqrt(diagonal)
    tops = np.linalg.eigvalsh(gram / roots[..., :, None] / roots[..., None, :])[..., -1:]
    metric = np.asarray(np.maximum(tops, 1.0) * diagonal, dtype=np.float64)
    if not is_free:
        return metric, None
    penalised = gram + ridge * np.eye(width)
    return metric, np.asarray(np.linalg.pinv(penalised, rcond=1e-9, hermitian=True), dtype=np.float64)


RIDGE = 1e-3
REFIT_STEPS, REFIT_TOLERANCE = 100, 1e-10  # Newton steps at most, and the duality gap, as a share of the null loss


def refit_on(
    design: GroupedDesign,
    target: Array,
    family: Family,
    weights: Array,
    support: Sequence[int] | Indices,
    ridge: float = RIDGE,
) -> tuple[Array, Array]:
    """Return θ, shape (support, m, outputs), and β, shape (outputs,), refitted on a support without the group penalty.

    They minimise Σᵢ wᵢ loss(yᵢ, β + Σⱼ Qⱼ,ᵢ θⱼ) + ½ ridge ‖θ‖², weights adding up to 1.
    """
    solver, chosen = NewtonSolver(convex_problem(design, target, family, weights)), np.asarray(support, dtype=np.intp)
    thresholds = np.full(design.n_groups, np.inf)
    thresholds[chosen] = 0.0
    for _ in range(REFIT_STEPS if chosen.size else 0):
        solver.improve(thresholds, ridge, chosen, REFIT_TOLERANCE)
        if solver.measure(thresholds, ridge)[0].max() < REFIT_TOLERANCE:
            break
    return solver.theta[0][:, chosen].transpose(1, 2, 0).copy(), solver.intercepts[0].copy()
