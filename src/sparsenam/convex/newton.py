"""Newton steps: proximal ones for losses other than the squared one, and refits on a support without the penalty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from sparsenam.convex.design import Array, Floats, GroupedDesign, Indices, WorkingColumns
from sparsenam.convex.problem import ConvexProblem, group_lengths, lasso_duals, lasso_values, softmax_inverse
from sparsenam.convex.rows import RowModel, descend_on_rows
from sparsenam.convex.squared import constant_columns, descend, inverse_curvatures, rows_left_out
from sparsenam.families import Family

NEWTON_SWEEPS = 100
STEP_HALVINGS = 20
DOUBLINGS = 20
STEPS_BEFORE_LONGER = 8  # steps at one alpha after which longer ones are tried
SMALLEST_BEND = 1e-5  # a floor on the loss's second derivative keeps steps finite where it is flat
TALL_GRAM_RATIO = 10  # rows for each column from which a Gram matrix costs less than descent on the rows
# relative change of the curvature up to which a Hessian serves on: steps still shrink the error by it
STALE_NEWTON_CURVATURE = 0.05
LIGHT_HESSIAN = 3e7  # rows times squared columns up to which it costs little anyway


@dataclass(frozen=True, slots=True)
class GramModel:
    """Second-order sums of some columns: the curvatures of rows that they are of, and what follows from them.

    ``flat`` (batches, outputs, k) says which columns are constant in a batch.
    """

    bends: Array
    hessian: Array
    flat: NDArray[np.bool_]
    means: Array
    totals: Array
    inverse: Array


class NewtonSolver:
    """State of loss(y, β + Qθ) + Σⱼ aⱼ‖θⱼ‖ + ½b‖θⱼ‖² for all batches."""

    forgets = True  # a Newton step pays for every group of the working set, so idle ones leave it

    def __init__(self, problem: ConvexProblem) -> None:
        self.problem = problem
        design = problem.design
        self.theta = np.zeros((problem.n_batches, problem.n_outputs, design.n_groups, design.width))
        self.intercepts = problem.constants()
        self.scores = problem.constant_scores(self.intercepts)
        self._move_intercepts()
        self.null_losses = problem.explainable_loss(self.scores)
        found = [rows_left_out(problem.weights[0], batch) for batch in problem.weights[1:]]
        self._left_out = [each for each in found if each is not None]
        self._nested = len(self._left_out) == len(found)
        self._shares_curvature = self._nested
        nothing = np.zeros(0, np.intp)
        self._held: tuple[Indices, WorkingColumns] = (nothing, design.working(nothing))
        self._model: GramModel | None = None  # of the columns held
        self._solved: Array = np.zeros(0)  # the thresholds of the last step, and how many steps they have seen
        self._steps = 0

    def improve(self, thresholds: Array, ridge: float, working: Indices, tol: float) -> None:
        """Take one Newton step on the working groups, with a line search, and move the intercepts."""
        if not working.size:
            return
        old = self.theta[:, :, working]
        bars = self.problem.alpha_scales[:, None] * thresholds[working]
        columns = self._columns(working)
        if self.problem.family.couples_outputs or not _suits_a_gram(columns.count, self.problem.design.n_rows):
            new, shift = self._on_rows(columns.columns, old, bars, ridge, tol)
        else:
            new, shift = self._on_gram(columns, old, bars, ridge, tol)
        if self.problem.family.couples_outputs:
            # Softmax does not see what all outputs share; without it every norm is smaller.
            new -= new.mean(axis=1, keepdims=True)
            shift -= shift.mean(axis=1, keepdims=True)
        step = new - old
        change = columns.times(step.reshape(step.shape[0] * step.shape[1], -1)).reshape(self.scores.shape)
        change += shift[:, :, None]
        self._steps = self._steps + 1 if np.array_equal(self._solved, thresholds) else 0
        self._solved = thresholds
        sizes = self._line_search(old, step, change, bars, ridge)
        # batches that leave rows out of batch 0 have nearly its curvature; where a step fell short they have not
        self._shares_curvature = self._nested and bool(np.all(sizes == 1.0))
        self.theta[:, :, working] = old + sizes[:, None, None, None] * step
        self.scores = self.scores + sizes[:, None, None] * change
        self.intercepts = self.intercepts + sizes[:, None] * shift
        self._move_intercepts()

    def measure(self, thresholds: Array, ridge: float) -> tuple[Array, Array]:
        """Return relative duality gaps (batches,) and ‖gradientⱼ‖ (batches, groups)."""
        residuals = self.problem.residuals(self.scores)
        norms, lengths = self.problem.gradient_norms(residuals), self.lengths()
        bars = self.problem.alpha_scales[:, None] * thresholds
        primals = self._loss() + lasso_values(lengths, bars, ridge)
        duals = lasso_duals(lambda scales: self.problem.dual(residuals, scales), norms, lengths, bars, ridge)
        return (primals - duals) / self.null_losses, norms

    def lengths(self) -> Array:
        """Return ‖θⱼ‖, shape (batches, groups)."""
        return group_lengths(self.theta)

    def residuals(self) -> Array:
        """Return y - mean, shape (batches, outputs, rows)."""
        return self.problem.residuals(self.scores)

    def solution(self) -> tuple[Indices, Array, Array]:
        """Return active groups, their θ (batches, active, m, outputs) and intercepts (batches, outputs)."""
        active = np.flatnonzero(self.theta.any(axis=(0, 1, 3)))
        return active, self.theta[:, :, active].transpose(0, 2, 3, 1).copy(), self.intercepts.copy()

    def _on_rows(self, columns: Floats, old: Array, bars: Array, ridge: float, tol: float) -> tuple[Array, Array]:
        """Return the model's minimum θ, shape as ``old``, and the shift of the intercepts (batches, outputs)."""
        problem, precision = self.problem, columns.dtype
        weights, residuals = problem.weights[:, None, :], problem.residuals(self.scores)
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
        return new, descend_on_rows(model, inverse, columns, new, bars, ridge, gain, NEWTON_SWEEPS)

    def _on_gram(
        self, columns: WorkingColumns, old: Array, bars: Array, ridge: float, tol: float
    ) -> tuple[Array, Array]:
        """Return the model's minimum θ, shape as ``old``, and the shift of the intercepts (batches, outputs)."""
        problem, count = self.problem, old.shape[2]
        residuals = problem.weights[:, None, :] * problem.residuals(self.scores)
        model = self._gram_model(columns, count)
        rests = residuals.sum(axis=2)
        pull = _products(residuals, columns) - model.means * (rests / model.totals)[:, :, None]
        pull[model.flat] = 0.0
        new = old.copy()
        scale = tol * float(self.null_losses.max())
        descend(model.hessian, model.inverse, new, pull, list(range(count)), bars, ridge, (scale, NEWTON_SWEEPS))
        flat = (new - old).reshape(*old.shape[:2], -1)
        return new, (rests - np.einsum("fok,fok->fo", model.means, flat)) / model.totals

    def _gram_model(self, columns: WorkingColumns, count: int) -> GramModel:
        """Return the working set's curvature, summed anew only when it has moved."""
        scores = self.scores[:1] if self._shares_curvature else self.scores
        bends = np.maximum(self.problem.curvatures(scores), SMALLEST_BEND)
        held = self._model
        if held is not None and held.bends.shape == bends.shape:
            weights = self.problem.weights[: len(bends), None, :]
            if np.sum(weights * np.abs(bends - held.bends)) <= STALE_NEWTON_CURVATURE * np.sum(weights * held.bends):
                return held
        weighted = self.problem.weights[:, None, :] * bends
        totals, means = weighted.sum(axis=2), _products(weighted, columns)
        hessian = _second_moments(columns, weighted, self._left_out if self._shares_curvature else None)
        moments = np.diagonal(hessian, axis1=2, axis2=3).copy()
        if self._shares_curvature:
            moments[1:] = moments[0] * np.array([factor for _, factor in self._left_out])[:, None, None]
        hessian -= means[..., :, None] * (means / totals[:, :, None])[..., None, :]
        flat = constant_columns(np.diagonal(hessian, axis1=2, axis2=3), moments, self.problem.design.dtype)
        if flat.any():
            hessian[flat] = 0.0
            hessian.swapaxes(2, 3)[flat] = 0.0
        inverse = inverse_curvatures(hessian, count, self.problem.design.width)
        self._model = GramModel(bends, hessian, flat, means, totals, inverse)
        return self._model

    def _loss(self) -> Array:
        """Return the losses at the scores, shape (batches,), computed once for each point."""
        if self._losses is None:
            self._losses = self.problem.loss(self.scores)
        return self._losses

    def _move_intercepts(self) -> None:
        self._losses: Array | None = None
        shifts = self.problem.best_shifts(self.scores)
        self.scores = self.scores + shifts[:, :, None]
        self.intercepts = self.intercepts + shifts

    def _columns(self, working: Indices) -> WorkingColumns:
        """Return the working groups' columns, made only when the working set changes."""
        if not np.array_equal(self._held[0], working):
            self._held, self._model = (working, self.problem.design.working(working)), None
        return self._held[1]

    def _line_search(self, old: Array, step: Array, change: Array, bars: Array, ridge: float) -> Array:
        """Return the first of 1, ½, ¼ … that does not raise the objective, shape (batches,)."""

        def objective(sizes: Array) -> Array:
            theta = old + sizes[:, None, None, None] * step
            loss = self.problem.loss(self.scores + sizes[:, None, None] * change)
            return loss + lasso_values(group_lengths(theta), bars, ridge)

        sizes = np.ones(old.shape[0])
        worse = np.ones(old.shape[0], dtype=bool)
        before = self._loss() + lasso_values(group_lengths(old), bars, ridge)
        for _ in range(STEP_HALVINGS):
            worse = ~(objective(sizes) <= before + 1e-12 * self.null_losses)  # NaN counts as worse
            if not worse.any():
                break
            sizes[worse] *= 0.5
        if self._steps >= STEPS_BEFORE_LONGER:
            self._lengthen(sizes, (group_lengths(old) > 0) == (group_lengths(old + step) > 0), objective)
        return np.where(worse, 0.0, sizes)

    def _lengthen(self, sizes: Array, stays: NDArray[np.bool_], objective: Callable[[Array], Array]) -> None:
        """Double full steps in place while the objective falls, where ``stays`` says that no group comes or goes.

        A loss that is flat far from y, as that of a quantile, has curvatures whose steps are safe and too short.
        """
        growing = (sizes == 1.0) & stays.all(axis=1)
        lowest = objective(sizes)
        for _ in range(DOUBLINGS):
            if not growing.any():
                return
            longer = np.where(growing, 2.0 * sizes, sizes)
            found = objective(longer)
            growing &= found < lowest
            sizes[growing], lowest[growing] = longer[growing], found[growing]


def _suits_a_gram(n_columns: int, n_rows: int) -> bool:
    return n_rows >= TALL_GRAM_RATIO * n_columns or n_rows * n_columns**2 <= LIGHT_HESSIAN


def _products(vectors: Array, columns: WorkingColumns) -> Array:
    """Return vectors (batches, outputs, rows) times columnsᵀ (k, rows), shape (batches, outputs, k)."""
    flat = columns.products(vectors.reshape(-1, vectors.shape[2]))
    return flat.reshape(*vectors.shape[:2], columns.count)


def _second_moments(columns: WorkingColumns, bends: Array, left_out: list[tuple[Indices, float]] | None) -> Array:
    """Return Q diag(d) Qᵀ, shape (batches, outputs, k, k), for d of shape (batches, outputs, rows).

    With ``left_out``, the rows that batches 1, … leave out of batch 0 and the factor on the others, all folds
    together cost no more than batch 0.
    """
    moments = np.empty((*bends.shape[:2], columns.count, columns.count))
    for output in range(bends.shape[1]):
        moments[0, output] = columns.second_moments(bends[0, output])
        for batch in range(1, len(bends)):
            if left_out is None:
                moments[batch, output] = columns.second_moments(bends[batch, output])
            else:
                rows, factor = left_out[batch - 1]
                part = columns.second_moments(bends[0, output][rows], rows)
                moments[batch, output] = factor * (moments[0, output] - part)
    return moments


RIDGE = 1e-3
REFIT_BEND, REFIT_STEPS = 1e-6, 100
REFIT_TOLERANCE = 1e-13  # of the gain that a last step promises


def refit_on(
    design: GroupedDesign,
    target: Array,
    family: Family,
    weights: Array,
    support: Sequence[int] | Indices,
    ridge: float = RIDGE,
) -> tuple[Array, Array]:
    """Return θ, shape (support, m, outputs), and β, shape (outputs,), refitted on a support without the group penalty.

    They minimise Σᵢ wᵢ loss(yᵢ, β + Σⱼ Qⱼ,ᵢ θⱼ) + ½ ridge ‖θ‖², weights adding up to 1, by Newton steps. Each output
    has a Hessian: exact for all families but the multinomial, where it is a bound.
    """
    chosen, shares = np.asarray(support, dtype=np.intp), weights / weights.sum()
    table = np.vstack([design.columns(chosen).astype(np.float64), np.ones(design.n_rows)])
    decay = np.append(np.full(len(table) - 1, ridge), 0.0)
    point = np.zeros((target.shape[1], len(table)))
    point[:, -1] = family.best_constant(target, shares)
    scores = (point @ table).T
    objective = float(shares @ family.loss(scores, target) + 0.5 * np.sum(decay * point**2))
    for _ in range(REFIT_STEPS if chosen.size else 0):
        pull = (table @ (-shares[:, None] * family.gradient(scores, target))).T - decay * point
        bends = shares[:, None] * np.maximum(family.hessian_diagonal(scores, target), REFIT_BEND)
        step = np.stack([_newton_step(table, bend, decay, row) for bend, row in zip(bends.T, pull, strict=True)])
        if family.couples_outputs:  # softmax does not see what all outputs share, the ridge does
            step -= (point + step).mean(axis=0)
        promise = float(np.sum(pull * step))
        change, length = (step @ table).T, 1.0
        for _ in range(STEP_HALVINGS):
            moved = point + length * step
            loss = shares @ family.loss(scores + length * change, target)
            after = float(loss + 0.5 * np.sum(decay * moved**2))
            if after <= objective - 1e-4 * length * promise:
                break
            length *= 0.5
        else:
            break  # rounding: nothing left to gain
        point, scores, objective = moved, scores + length * change, after
        if promise < REFIT_TOLERANCE or family.is_quadratic:
            break
    theta = point[:, :-1].reshape(target.shape[1], chosen.size, design.width)
    return theta.transpose(1, 2, 0).copy(), point[:, -1].copy()


def _newton_step(table: Array, bend: Array, decay: Array, pull: Array) -> Array:
    scaled = table * np.sqrt(bend)
    hessian = scaled @ scaled.T
    hessian[np.diag_indices_from(hessian)] += decay + 1e-12 * np.trace(hessian) / len(hessian)
    return np.asarray(cho_solve(cho_factor(hessian, overwrite_a=True, check_finite=False), pull))
