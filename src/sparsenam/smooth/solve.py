"""Coefficients and smoothness of given ramps: Newton steps in β in turn with updates of λ and of the noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sparsenam.context import Context
from sparsenam.families import Family
from sparsenam.families.dispersion import dispersion
from sparsenam.smooth.design import RampDesign, WeightedGram
from sparsenam.smooth.prior import Layout, Posterior, posterior, updated_strengths
from sparsenam.tables.sample import Matrix, Vector

UPDATE_TOL = 0.01  # relative change of the degrees of freedom, twice in a row, at which the updates end
LIGHTEST = 1e-6  # of a row's curvature: keeps the mean score determined where all rows are certain
LEAST_NOISE = 1e-8  # of σ², on the scale of a standardised target
SAME = 0.01  # relative change of the working weights up to which their Gram matrix serves again
SHORTEST = 0.02  # step of the line search; shorter ones only answer to rounding
LARGE = 2500  # columns from which 6 updates must do instead of 15, each taking half a second and more
INNER_STEPS, INNER_TOL = 30, 0.01  # of the conjugate gradients in one Newton step: most, and the residual's share


@dataclass(frozen=True, slots=True, eq=False)
class SmoothProblem:
    """What a fit is given: x (terms, rows), target (rows, outputs) and weights (rows,)."""

    x: Matrix
    target: Matrix
    weights: Vector
    family: Family

    @property
    def free_outputs(self) -> int:
        """Number of outputs that are free: softmax scores matter up to a common shift."""
        outputs = self.target.shape[1]
        return outputs - 1 if self.family.couples_outputs and outputs > 1 else outputs

    def loss(self, scores: Matrix) -> float:
        """Return Σᵢ wᵢ loss(yᵢ, scoresᵢ)."""
        return float(self.weights @ self.family.loss(scores, self.target))


@dataclass(frozen=True, slots=True, eq=False)
class SmoothState:
    """A fit: the columns' coefficients (columns, outputs) and the λ of each term that gave them."""

    layout: Layout
    coefficients: Matrix
    intercept: Vector
    strengths: list[Vector]
    noise: float
    degrees_of_freedom: Vector


class Steps:
    """The solver's steps in all rounds of one fit: their number, which is reported, and the time for more."""

    def __init__(self, context: Context) -> None:
        self.progress, self.done = context.progress, 0
        self.out_of_time = context.clock.laps()

    def report(self) -> None:
        """Report one more step."""
        self.done += 1
        self.progress.report("smooth", self.done)


def _has_converged(freedoms: Sequence[float]) -> bool:
    """Return whether the sum of the degrees of freedom has changed little twice in a row."""
    changes = [abs(now - last) < UPDATE_TOL * now + 0.02 for last, now in pairwise(freedoms[-3:])]
    return len(changes) == 2 and all(changes)


def solve(task: SmoothProblem, layout: Layout, before: SmoothState | None, steps: Steps) -> SmoothState:
    """Return the fit with the ramps of ``layout``, starting from the fit ``before`` with other ramps."""
    design = RampDesign(layout, task.x, task.weights)
    if task.family.is_quadratic:
        return _solve_squares(task, design, before, steps)
    return _solve_reweighted(task, design, before, steps)


def _solve_squares(task: SmoothProblem, design: RampDesign, before: SmoothState | None, steps: Steps) -> SmoothState:
    """Alternate β with λ and σ²; all outputs share one Gram matrix, one prior and one noise."""
    layout, outputs = design.layout, task.target.shape[1]
    quadratic = design.least_squares(task.weights, task.target)
    gram = quadratic.gram.matrix
    noise = 0.5 if before is None else before.noise  # of a variance of 1: rather too rough than too smooth
    carried = None if before is None else (before.layout, before.strengths)
    used = strengths = layout.first_strengths(gram / noise, carried)
    mean, freedom, freedoms = np.zeros_like(quadratic.moment), np.zeros(len(layout.ramps)), list[float]()
    for _ in range(15 if layout.size < LARGE else 6):
        used, precisions = strengths, layout.precisions(strengths)
        found = posterior(layout, gram, precisions, noise)
        mean, freedom = found.solve(quadratic.moment / noise), found.degrees_of_freedom
        strengths = updated_strengths(layout, used, precisions, [found], mean, outputs)
        rows = max(float(task.weights.sum()) - float(freedom.sum()) - 1.0, 1.0)
        noise = max(quadratic.residual(mean) / (outputs * rows), LEAST_NOISE)
        freedoms.append(float(freedom.sum()))
        steps.report()
        if _has_converged(freedoms) or steps.out_of_time():
            break
    intercept = quadratic.intercept(mean) - design.means @ mean
    return SmoothState(layout, mean, intercept, used, noise, freedom)


def _solve_reweighted(task: SmoothProblem, design: RampDesign, before: SmoothState | None, steps: Steps) -> SmoothState:
    """Alternate a Newton step in β, shortened until the objective falls, with one update of λ and of φ."""
    layout = design.layout
    coefficients, intercept = _resampled(task, layout, before)
    base = intercept + design.means @ coefficients
    scores = base + design.times(coefficients)
    used = strengths = list[Vector]()
    freedom, freedoms = np.zeros(len(layout.ramps)), list[float]()
    noise = dispersion(task.family, scores, task.target, task.weights, 1.0)
    curvatures = Curvatures(task, design)
    for number in range(25):
        grams = curvatures.grams(scores)
        if number == 0:
            information = np.mean([gram.matrix for gram in grams], axis=0)
            carried = None if before is None else (before.layout, before.strengths)
            strengths = layout.first_strengths(information / noise, carried)
        used, precisions = strengths, layout.precisions(strengths)
        found = [posterior(layout, gram.matrix, precisions, noise) for gram in grams]
        newton = NewtonStep(task, design, precisions, noise, grams, found)
        move, lift = newton.direction(coefficients, scores)
        turn = lift + design.times(move)
        step = newton.length((coefficients, scores), (move, turn))
        coefficients, scores, base = coefficients + step * move, scores + step * turn, base + step * lift
        freedom = np.mean([each.degrees_of_freedom for each in found], axis=0)
        strengths = updated_strengths(layout, used, precisions, found, coefficients, task.free_outputs)
        noise = dispersion(task.family, scores, task.target, task.weights, float(freedom.sum()) + 1.0)
        # a shortened step changes little by itself
        freedoms = [*freedoms, float(freedom.sum())] if step == 1.0 else [float(freedom.sum())]
        steps.report()
        if _has_converged(freedoms) or steps.out_of_time():
            break
    return SmoothState(layout, coefficients, base - design.means @ coefficients, used, noise, freedom)


def _resampled(task: SmoothProblem, layout: Layout, before: SmoothState | None) -> tuple[Matrix, Vector]:
    """Return coefficients and intercept of the function ``before``, read off at the new knots."""
    outputs = task.target.shape[1]
    if before is None:
        return np.zeros((layout.size, outputs)), task.family.best_constant(task.target, task.weights)
    parts: list[Matrix] = []
    intercept = before.intercept
    for new, old, columns in zip(layout.ramps, before.layout.ramps, before.layout.slices, strict=True):
        values = old.columns(new.knots) @ before.coefficients[columns]
        parts.append(np.diff(values, axis=0))
        intercept = intercept + values[0]
    return np.concatenate(parts), intercept


class Curvatures:
    """The Gram matrices of the columns under the working weights w h, one for each output or one for all."""

    def __init__(self, task: SmoothProblem, design: RampDesign) -> None:
        self.task, self.design = task, design
        self._weights, self._grams = np.zeros((0, 0)), list[WeightedGram]()

    def grams(self, scores: Matrix) -> list[WeightedGram]:
        """Return those at scores (rows, outputs), or the last ones where the weights have changed little.

        The gradient is exact, so that an old curvature changes how fast the steps converge, not where to.
        """
        weights = self.task.weights * self._bends(scores)
        if not self._grams or np.abs(weights - self._weights).sum() > SAME * weights.sum():
            self._weights, self._grams = weights, [self.design.gram(each) for each in weights]
        return self._grams

    def _bends(self, scores: Matrix) -> Matrix:
        """Return the curvature h of the loss in each score, shape (outputs, rows), or (1, rows) for softmax.

        There it is (1 - Σp²)/(K - 1), the mean of the eigenvalues of diag(p) - ppᵀ in the K - 1 directions that it
        sees: exact for two classes and for equal shares. A bound would make many classes look more informative.
        """
        family, outputs = self.task.family, scores.shape[1]
        if family.couples_outputs and outputs > 1:
            mean = family.mean(scores)
            return np.maximum(np.sum(mean * (1.0 - mean), axis=1) / (outputs - 1.0), LIGHTEST)[None]
        return np.maximum(family.hessian_diagonal(scores, self.task.target), LIGHTEST).T


@dataclass(frozen=True, slots=True, eq=False)
class NewtonStep:
    """One step of Σ w loss/φ + ½ Σ βᵀPβ: its direction and its length.

    ``grams`` and ``posteriors`` are one for each output, or one for all where the family couples them.
    """

    task: SmoothProblem
    design: RampDesign
    precisions: Sequence[Matrix]
    noise: float
    grams: Sequence[WeightedGram]
    posteriors: Sequence[Posterior]

    def direction(self, coefficients: Matrix, scores: Matrix) -> tuple[Matrix, Vector]:
        """Return the changes of the coefficients (columns, outputs) and of the base score (outputs,)."""
        slopes = self.task.family.gradient(scores, self.task.target)
        pull, lift = self._products(-slopes)
        pull -= self._prior_times(coefficients)
        if self.task.family.couples_outputs and scores.shape[1] > 1:
            return self._coupled(pull, lift, scores)
        parts = [
            self._solve(output, pull[:, output : output + 1], lift[output : output + 1])
            for output in range(scores.shape[1])
        ]
        return np.hstack([move for move, _ in parts]), np.concatenate([turn for _, turn in parts])

    def _products(self, values: Matrix) -> tuple[Matrix, Vector]:
        """Return ZᵀWv/φ and 1ᵀWv/φ for v of shape (rows, r)."""
        weighted = self.task.weights[:, None] / self.noise * values
        return self.design.transposed_times(weighted), weighted.sum(axis=0)

    def _prior_times(self, coefficients: Matrix) -> Matrix:
        """Return Pβ, shape (columns, outputs)."""
        parts = zip(self.design.layout.slices, self.precisions, strict=True)
        return np.concatenate([precision @ coefficients[columns] for columns, precision in parts])

    def _solve(self, output: int, pull: Matrix, lift: Vector) -> tuple[Matrix, Vector]:
        """Return the solution of [ZᵀWZ/φ + P, ZᵀW1/φ; 1ᵀWZ/φ, 1ᵀW1/φ] with right-hand sides pull and lift."""
        gram = self.grams[output]
        move = self.posteriors[output].solve(pull - np.outer(gram.means, lift))
        return move, lift * self.noise / gram.total - gram.means @ move

    def _coupled(self, pull: Matrix, lift: Vector, scores: Matrix) -> tuple[Matrix, Vector]:
        """Solve with the whole Hessian by conjugate gradients, preconditioned by the curvature that outputs share."""
        mean = self.task.family.mean(scores)
        move, turn = np.zeros_like(pull), np.zeros_like(lift)
        ahead, up = self._solve(0, pull, lift)
        size = first = float(np.sum(pull * ahead) + lift @ up)
        for _ in range(INNER_STEPS):
            if not size > INNER_TOL**2 * first:
                break
            change = self.design.times(ahead) + up
            change = mean * (change - np.sum(mean * change, axis=1, keepdims=True))
            bend, rise = self._products(change)
            bend += self._prior_times(ahead)
            length = size / float(np.sum(ahead * bend) + up @ rise)
            move, turn = move + length * ahead, turn + length * up
            pull, lift = pull - length * bend, lift - length * rise
            next_ahead, next_up = self._solve(0, pull, lift)
            last, size = size, float(np.sum(pull * next_ahead) + lift @ next_up)
            ahead, up = next_ahead + size / last * ahead, next_up + size / last * up
        return move, turn

    def length(self, point: tuple[Matrix, Matrix], direction: tuple[Matrix, Matrix]) -> float:
        """Return the first of 1, ½, ¼, … at which the objective is not above where it was, 0 where none is.

        ``point`` and ``direction`` are pairs of coefficients (columns, outputs) and scores (rows, outputs).
        """

        def objective(step: float) -> float:
            coefficients = point[0] + step * direction[0]
            cost = self.task.loss(point[1] + step * direction[1]) / self.noise
            return cost + 0.5 * float(np.sum(coefficients * self._prior_times(coefficients)))

        start, step = objective(0.0), 1.0
        while step >= SHORTEST and not objective(step) <= start + 1e-8 * abs(start):
            step *= 0.5
        return step if step >= SHORTEST else 0.0
