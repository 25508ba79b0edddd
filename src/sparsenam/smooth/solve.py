"""Coefficients and smoothness together, for given ramps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sparsenam.context import Context
from sparsenam.families import Family
from sparsenam.families.dispersion import dispersion
from sparsenam.smooth.design import LeastSquares, RampDesign
from sparsenam.smooth.prior import Layout, posterior, updated_strengths
from sparsenam.tables.scaling import Matrix, Vector

UPDATE_TOL = 0.01  # relative change of the degrees of freedom, twice in a row, at which the updates end
LIGHTEST = 1e-6  # of a working weight: keeps the working targets of certain rows finite
LEAST_NOISE = 1e-8  # of σ², on the scale of a standardised target
SHORTEST = 0.02  # step of the line search; shorter ones only answer to rounding
LARGE = 1500  # columns from which 6 updates must do instead of 15, each taking a second at 3500


@dataclass(frozen=True, slots=True, eq=False)
class SmoothProblem:
    """What a fit is given: x (terms, rows), target (rows, outputs) and weights (rows,)."""

    x: Matrix
    target: Matrix
    weights: Vector
    family: Family

    @property
    def free_outputs(self) -> float:
        """Share of the outputs that are free: softmax scores matter up to a common shift."""
        outputs = self.target.shape[1]
        return (outputs - 1.0) / outputs if self.family.couples_outputs and outputs > 1 else 1.0

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


def _solve_squares(
    task: SmoothProblem, design: RampDesign, before: SmoothState | None, steps: Steps
) -> SmoothState:
    """Alternate β with λ and σ²; all outputs share one Gram matrix, one prior and one noise."""
    layout, outputs = design.layout, task.target.shape[1]
    quadratic = design.quadratic(task.weights, task.target)
    noise = 0.5 if before is None else before.noise  # of a variance of 1: rather too rough than too smooth
    carried = None if before is None else (before.layout, before.strengths)
    used = strengths = layout.first_strengths(quadratic.gram.diagonal() / noise, carried)
    found, freedoms = None, list[float]()
    for _ in range(15 if layout.size < LARGE else 6):
        used, precisions = strengths, layout.precisions(strengths)
        found = posterior(layout, quadratic.gram, quadratic.moment, precisions, noise)
        strengths = updated_strengths(layout, used, precisions, [found])
        freedom = float(found.degrees_of_freedom.sum())
        rows = max(float(task.weights.sum()) - freedom - 1.0, 1.0)
        noise = max(quadratic.residual(found.mean) / (outputs * rows), LEAST_NOISE)
        freedoms.append(freedom)
        steps.report()
        if _has_converged(freedoms) or steps.out_of_time():
            break
    assert found is not None
    intercept = quadratic.intercept(found.mean) - design.means @ found.mean
    return SmoothState(layout, found.mean, intercept, used, noise, found.degrees_of_freedom)


def _solve_reweighted(
    task: SmoothProblem, design: RampDesign, before: SmoothState | None, steps: Steps
) -> SmoothState:
    """Alternate a Newton step in β, shortened until the objective falls, with one update of λ and of φ."""
    layout = design.layout
    coefficients, intercept = _resampled(task, layout, before)
    scores = intercept + design.means @ coefficients + design.times(coefficients)
    used = strengths = list[Vector]()
    freedom, freedoms = np.zeros(len(layout.ramps)), list[float]()
    noise = dispersion(task.family, scores, task.target, task.weights, 1.0)
    for number in range(25):
        quadratics = _working_problems(task, design, scores)
        if number == 0:
            information = np.mean([part.gram.diagonal() for part in quadratics], axis=0)
            carried = None if before is None else (before.layout, before.strengths)
            strengths = layout.first_strengths(information / noise, carried)
        used, precisions = strengths, layout.precisions(strengths)
        found = [posterior(layout, part.gram, part.moment, precisions, noise) for part in quadratics]
        goal = np.hstack([each.mean for each in found])
        base = np.concatenate([part.intercept(each.mean) for part, each in zip(quadratics, found, strict=True)])
        move, turn = goal - coefficients, base + design.times(goal) - scores
        step = _step(task, layout, precisions, noise, (coefficients, scores), (move, turn))
        coefficients, scores = coefficients + step * move, scores + step * turn
        intercept = intercept + step * (base - design.means @ goal - intercept)
        freedom = np.mean([each.degrees_of_freedom for each in found], axis=0)
        strengths = updated_strengths(layout, used, precisions, found, task.free_outputs)
        noise = dispersion(task.family, scores, task.target, task.weights, float(freedom.sum()) + 1.0)
        # a shortened step changes little by itself
        freedoms = [*freedoms, float(freedom.sum())] if step == 1.0 else [float(freedom.sum())]
        steps.report()
        if _has_converged(freedoms) or steps.out_of_time():
            break
    return SmoothState(layout, coefficients, intercept, used, noise, freedom)


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


def _working_problems(task: SmoothProblem, design: RampDesign, scores: Matrix) -> list[LeastSquares]:
    """Return for each output the squared error of the working target s - g/h with weights w h."""
    curvature = _working_weights(task.family, scores, task.target)
    working = scores - task.family.gradient(scores, task.target) / curvature
    return [
        design.quadratic(task.weights * curvature[:, output], working[:, output : output + 1])
        for output in range(scores.shape[1])
    ]


def _step(
    task: SmoothProblem,
    layout: Layout,
    precisions: Sequence[Matrix],
    noise: float,
    point: tuple[Matrix, Matrix],
    direction: tuple[Matrix, Matrix],
) -> float:
    """Return the first of 1, ½, ¼, … at which Σ w loss/φ + ½ Σ βᵀPβ is not above where it was.

    ``point`` and ``direction`` are pairs of coefficients (columns, outputs) and scores (rows, outputs).
    """

    def objective(step: float) -> float:
        coefficients = point[0] + step * direction[0]
        cost = task.loss(point[1] + step * direction[1]) / noise
        for columns, precision in zip(layout.slices, precisions, strict=True):
            cost += 0.5 * float(np.sum(coefficients[columns] * (precision @ coefficients[columns])))
        return cost

    start, step = objective(0.0), 1.0
    while step >= SHORTEST and not objective(step) <= start + 1e-8 * abs(start):
        step *= 0.5
    return step if step >= SHORTEST else 0.0


def _working_weights(family: Family, scores: Matrix, target: Matrix) -> Matrix:
    """Return the curvature of the loss in each score, shape (rows, outputs).

    For softmax it is K/(K-1) p(1 - p), the curvature in the free directions for K = 2 or equal shares; the
    bound 2p(1 - p) would make many classes look twice as informative. The line search covers the rest.
    """
    curvature, outputs = family.hessian_diagonal(scores, target), scores.shape[1]
    if family.couples_outputs and outputs > 1:
        curvature = curvature * (0.5 * outputs / (outputs - 1.0))
    return np.maximum(curvature, LIGHTEST)
