"""The engine of every smooth fit: penalised likelihood, its smoothness set by Fellner and Schall's updates.

The objective is Σ w loss/φ + ½ Σ βᵀPβ with P = Σ λS. For squared loss the sums over the rows are taken once, and β
alternates with λ and φ. For other losses a Newton step in β, shortened until the objective falls, alternates with one
update of λ and of φ. What is needed of the rows is in `Rows`: `MemoryRows` has them at hand, the rows of large tables
are summed block by block (`sparsenam.smooth.all_rows`). References: Wood and Fasiolo (2017), "A generalized
Fellner-Schall method for smoothing parameter optimization"; Wood (2017), "Generalized Additive Models", chapter 6.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sparsenam.context import Context
from sparsenam.families import Family
from sparsenam.families.base import dispersion
from sparsenam.smooth.constraints import Cone, ConeSolver, together
from sparsenam.smooth.design import LeastSquares, RampBasis, RampDesign, SmoothState, WeightedGram
from sparsenam.smooth.prior import Layout, Posterior, Spread, posterior, updated_strengths
from sparsenam.tables.sample import Matrix, Vector

LIGHTEST = 1e-6  # of a row's curvature: keeps the mean score determined where all rows are certain
# chosen without a measurement
FIRST_NOISE, LEAST_NOISE = 0.5, 1e-8  # of σ², on the scale of a standardised target: rather too rough than too smooth
NEWTON_HALVINGS = 5  # of a step; shorter ones only answer to rounding
OBJECTIVE_ROUNDING = 1e-8  # of the objective: a step that raises it by less is taken
# chosen without a measurement
UPDATE_TOL, FREEDOM_TOL = 0.01, 0.02  # relative and absolute change of the degrees of freedom at which the updates end
UPDATES, NEWTON_STEPS = 15, 25  # at most; chosen without a measurement
# chosen without a measurement
LARGE, UPDATES_OF_LARGE = 2500, 6  # columns from which an update takes half a second and more, and updates there
SAME_WEIGHTS = 0.01  # relative change of the working weights up to which their Gram matrix serves again
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

    def curvatures(self, scores: Matrix) -> Matrix:
        """Return the curvature h of the loss in each score, shape (outputs, rows), or (1, rows) for softmax.

        There it is (1 - Σp²)/(K - 1), the mean of the eigenvalues of diag(p) - ppᵀ in the K - 1 directions that it
        sees: exact for two classes and for equal shares. A bound would make many classes look more informative.
        """
        family, outputs = self.family, scores.shape[1]
        if family.couples_outputs and outputs > 1:
            mean = family.mean(scores)
            return np.maximum(np.sum(mean * (1.0 - mean), axis=1) / (outputs - 1.0), LIGHTEST)[None]
        return np.maximum(family.hessian_diagonal(scores, self.target), LIGHTEST).T


class Steps:
    """The engine's steps in all rounds of one fit: their number, which is reported, and the time for more."""

    def __init__(self, context: Context) -> None:
        self.progress, self.done = context.progress, 0
        self.out_of_time = context.clock.laps()

    def report(self) -> None:
        """Report one more step."""
        self.done += 1
        self.progress.report("smooth", self.done)


def has_converged(freedoms: Sequence[float]) -> bool:
    """Return whether the sum of the degrees of freedom has changed little twice in a row."""
    changes = [abs(now - last) < UPDATE_TOL * now + FREEDOM_TOL for last, now in pairwise(freedoms[-3:])]
    return len(changes) == 2 and all(changes)


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Coefficients (columns, outputs), base score (outputs,) and the sum of the rows' losses there."""

    coefficients: Matrix
    base: Vector
    loss: float


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """Where a fit stands after its last step: the point, φ, λ, and the degrees of freedom after each step."""

    point: Point
    noise: float
    strengths: Sequence[Vector]
    freedoms: Sequence[float]


class Rows(ABC):
    """All rows of a fit at one set of ramps, known by the sums that its steps need.

    ``task`` has the family and the rows, or the sample of them from which knots and dispersion are taken.
    """

    basis: RampBasis

    def __init__(self, task: SmoothProblem, layout: Layout) -> None:
        self.task, self.layout = task, layout

    @abstractmethod
    def squares(self) -> LeastSquares:
        """Return the sums of squared loss."""

    @abstractmethod
    def at(self, coefficients: Matrix, intercept: Vector) -> Point:
        """Return a point by its coefficients and its intercept (outputs,), the score where all ramps are 0."""

    @abstractmethod
    def along(self, point: Point, move: Matrix, lift: Vector) -> Callable[[float], Point]:
        """Return the function from a step's length to the point that it leads to."""

    @abstractmethod
    def grams(self, point: Point) -> Sequence[WeightedGram]:
        """Return the products of columns under the curvature of the loss, one for each output or one for all."""

    @abstractmethod
    def pulls(self, point: Point) -> tuple[Matrix, Vector]:
        """Return the negative gradient of the loss by coefficients (columns, outputs) and base score (outputs,)."""

    @abstractmethod
    def dispersion(self, point: Point, freedom: float) -> float:
        """Return φ at a point, for as many degrees of freedom of each output, the intercept's included."""

    def direction(self, model: SecondOrder, point: Point) -> tuple[Matrix, Vector]:
        """Return the changes of coefficients and base score that lead to the model's minimum."""
        pull, lift = self.pulls(point)
        return model.solve(pull / model.noise - model.prior_times(point.coefficients), lift / model.noise)

    def recall(self) -> Reached | None:
        """Return where an earlier fit that was stopped has left off with these ramps, if there was one."""
        return None

    def keep(self, reached: Reached) -> None:
        """Keep where the fit stands, for a fit that is stopped."""
        return


@dataclass(frozen=True, slots=True, eq=False)
class SecondOrder:
    """The objective to second order, the base score eliminated: Gram matrices and what is known of β under them."""

    layout: Layout
    grams: Sequence[WeightedGram]
    strengths: Sequence[Vector]
    precisions: Sequence[Matrix]
    noise: float
    posteriors: Sequence[Posterior]

    @classmethod
    def of(
        cls, layout: Layout, grams: Sequence[WeightedGram], strengths: Sequence[Vector], noise: float, *, free: bool
    ) -> SecondOrder:
        """Factorise the curvature of data and prior; not where inequalities leave β a part of its space."""
        precisions = layout.precisions(strengths)
        found = [posterior(layout, gram.matrix, precisions, noise) for gram in grams] if free else []
        return cls(layout, grams, strengths, precisions, noise, found)

    def solve(self, pull: Matrix, lift: Vector) -> tuple[Matrix, Vector]:
        """Return the solution of [ZᵀWZ/φ + P, ZᵀW1/φ; 1ᵀWZ/φ, 1ᵀW1/φ] with right-hand sides (columns, r) and (r,)."""
        move, turn = np.empty_like(pull), np.empty_like(lift)
        for index, (gram, known) in enumerate(zip(self.grams, self.posteriors, strict=True)):
            outputs = slice(None) if len(self.grams) == 1 else slice(index, index + 1)
            move[:, outputs] = known.solve(pull[:, outputs] - np.outer(gram.means, lift[outputs]))
            turn[outputs] = lift[outputs] * self.noise / gram.total - gram.means @ move[:, outputs]
        return move, turn

    def objective(self, point: Point) -> float:
        """Return the penalised loss at a point."""
        beta = point.coefficients
        return point.loss / self.noise + 0.5 * float(np.sum(beta * self.prior_times(beta)))

    def prior_times(self, coefficients: Matrix) -> Matrix:
        """Return Pβ, shape (columns, outputs)."""
        parts = zip(self.layout.slices, self.precisions, strict=True)
        return np.concatenate([precision @ coefficients[columns] for columns, precision in parts])

    def step(self, along: Callable[[float], Point], start: Point) -> tuple[Point, float]:
        """Return the first point at 1, ½, ¼, … that is no worse than the start, and the step.

        The start itself with a step of 0 where none is.
        """
        before, length = self.objective(start), 1.0
        for _ in range(NEWTON_HALVINGS + 1):
            trial = along(length)
            if self.objective(trial) <= before + OBJECTIVE_ROUNDING * abs(before):
                return trial, length
            length *= 0.5
        return start, 0.0


def solve(rows: Rows, before: SmoothState | None, steps: Steps, cone: Cone | None = None) -> SmoothState:
    """Return the fit with the ramps of the rows, in a cone if one is given, from a fit with other ramps, if any."""
    solver = None if cone is None else ConeSolver(cone, rows.task.target.shape[1])
    if rows.task.family.is_quadratic:
        quadratic = rows.squares()
        return _solve_squares(rows.basis, quadratic, before, steps, solver)
    return _solve_reweighted(rows, before, steps, solver)


def _solve_squares(
    basis: RampBasis,
    quadratic: LeastSquares,
    before: SmoothState | None,
    steps: Steps,
    solver: ConeSolver | None,
) -> SmoothState:
    """Alternate β with λ and σ², given sums over the rows alone; all outputs share one prior and one noise."""
    layout, gram, outputs = basis.layout, quadratic.gram, quadratic.moment.shape[1]
    noise = FIRST_NOISE if before is None else before.noise
    used = strengths = layout.first_strengths(gram.matrix / noise, _carried(before))
    mean, freedom, freedoms = np.zeros_like(quadratic.moment), np.zeros(len(layout.ramps)), list[float]()
    spreads: Sequence[Spread] = ()
    for _ in range(UPDATES if layout.size < LARGE else UPDATES_OF_LARGE):
        used, precisions = strengths, layout.precisions(strengths)
        if solver is None:
            spreads, traces = (), None  # the last one ends before the next, since it is large
            found = posterior(layout, gram.matrix, precisions, noise)
            mean, freedom, spreads = found.solve(quadratic.moment / noise), found.degrees_of_freedom, [found]
        else:
            grams = [gram.matrix] * outputs
            spreads = solver.minima(grams, used, noise, quadratic.moment / noise, np.zeros_like(mean))
            mean, freedom, traces = together(spreads)
        strengths = updated_strengths(layout, used, precisions, spreads, mean, outputs, traces)
        left = max(gram.total - float(freedom.sum()) - 1.0, 1.0)
        noise = max(quadratic.residual(mean) / (outputs * left), LEAST_NOISE)
        freedoms.append(float(freedom.sum()))
        steps.report()
        if has_converged(freedoms) or steps.out_of_time():
            break
    intercept = quadratic.intercept(mean) - basis.means @ mean
    return SmoothState(layout, mean, intercept, used, noise, freedom, spreads)


def _solve_reweighted(rows: Rows, before: SmoothState | None, steps: Steps, solver: ConeSolver | None) -> SmoothState:
    """Alternate a Newton step in β with one update of λ and of φ; end where steps no longer find a lower objective."""
    task, layout, reached, failed = rows.task, rows.layout, rows.recall(), 0
    if reached is None:
        if before is None:
            coefficients = np.zeros((layout.size, task.target.shape[1]))
            point = rows.at(coefficients, task.family.best_constant(task.target, task.weights))
        else:
            point = rows.at(*resampled(layout, before))
        noise, freedoms = rows.dispersion(point, 1.0), list[float]()
        information = np.mean([gram.matrix for gram in rows.grams(point)], axis=0)
        used = strengths = layout.first_strengths(information / noise, _carried(before))
    else:
        point, noise, freedoms = reached.point, reached.noise, list(reached.freedoms)
        used = strengths = list(reached.strengths)
    freedom, spreads = np.zeros(len(layout.ramps)), list[Spread]()
    for _ in range(len(freedoms), NEWTON_STEPS):
        used = strengths
        model = SecondOrder.of(layout, rows.grams(point), used, noise, free=solver is None)
        if solver is None:
            spreads, traces = list[Spread](model.posteriors), None
            move, lift = rows.direction(model, point)
        else:
            move, lift, spreads, traces = _direction_in_cone(rows, model, point, solver)
        point, step = model.step(rows.along(point, move, lift), point)
        freedom = np.mean([each.degrees_of_freedom for each in spreads], axis=0)
        beta, free = point.coefficients, task.free_outputs
        strengths = updated_strengths(layout, used, model.precisions, spreads, beta, free, traces)
        noise = rows.dispersion(point, float(freedom.sum()) + 1.0)
        # a shortened step changes little by itself
        freedoms = [*freedoms, float(freedom.sum())] if step == 1.0 else [float(freedom.sum())]
        failed = failed + 1 if step == 0.0 else 0
        steps.report()
        if has_converged(freedoms) or failed == 2 or steps.out_of_time():
            break
        rows.keep(Reached(point, noise, strengths, freedoms))
    coefficients = point.coefficients if solver is None else solver.cone.inside(point.coefficients)
    intercept = point.base - rows.basis.means @ coefficients
    return SmoothState(layout, coefficients, intercept, used, noise, freedom, spreads)


def _direction_in_cone(
    rows: Rows, model: SecondOrder, point: Point, solver: ConeSolver
) -> tuple[Matrix, Vector, list[Spread], Sequence[Vector]]:
    """Return the changes that lead to the best point of a cone, with what is known of the coefficients there."""
    pull, lift = rows.pulls(point)
    pull = pull / model.noise - model.prior_times(point.coefficients)
    pull -= np.stack([gram.means for gram in model.grams], axis=1) * lift / model.noise
    grams = [gram.matrix for gram in model.grams]
    found = solver.minima(grams, model.strengths, model.noise, pull, point.coefficients)
    move = np.stack([each.beta for each in found], axis=1) - point.coefficients
    turns = [lift[k] / gram.total - gram.means @ move[:, k] for k, gram in enumerate(model.grams)]
    return move, np.array(turns), list[Spread](found), together(found)[2]


def _carried(before: SmoothState | None) -> tuple[Layout, Sequence[Vector]] | None:
    return None if before is None else (before.layout, before.strengths)


def resampled(layout: Layout, before: SmoothState) -> tuple[Matrix, Vector]:
    """Return coefficients and intercept of the function ``before``, read off at other knots."""
    parts, intercept = list[Matrix](), before.intercept
    for new, old, columns in zip(layout.ramps, before.layout.ramps, before.layout.slices, strict=True):
        values = old.columns(new.knots) @ before.coefficients[columns]
        parts.append(np.diff(values, axis=0))
        intercept = intercept + values[0]
    return np.concatenate(parts), intercept


@dataclass(frozen=True, slots=True, eq=False)
class ScoredPoint(Point):
    """A point with the scores (rows, outputs) of rows in memory."""

    scores: Matrix


class MemoryRows(Rows):
    """Rows in memory: one block."""

    def __init__(self, task: SmoothProblem, layout: Layout) -> None:
        super().__init__(task, layout)
        self.basis = self.design = RampDesign(layout, task.x, task.weights)
        self._weights, self._grams = np.zeros((0, 0)), list[WeightedGram]()

    def squares(self) -> LeastSquares:
        """Return the sums of squared loss."""
        return self.design.squared_error(self.task.weights, self.task.target)

    def at(self, coefficients: Matrix, intercept: Vector) -> ScoredPoint:
        """Return a point by its coefficients and its intercept."""
        base = intercept + self.design.means @ coefficients
        scores = base + self.design.times(coefficients)
        return ScoredPoint(coefficients, base, self.task.loss(scores), scores)

    def along(self, point: Point, move: Matrix, lift: Vector) -> Callable[[float], ScoredPoint]:
        """Return the function from a step's length to the point that it leads to."""
        assert isinstance(point, ScoredPoint)
        turn = lift + self.design.times(move)

        def after(step: float) -> ScoredPoint:
            scores = point.scores + step * turn
            return ScoredPoint(
                point.coefficients + step * move, point.base + step * lift, self.task.loss(scores), scores
            )

        return after

    def grams(self, point: Point) -> Sequence[WeightedGram]:
        """Return the products of columns, or the last ones where the working weights have changed little.

        The gradient is exact, so that an old curvature changes how fast the steps converge, not where to.
        """
        assert isinstance(point, ScoredPoint)
        weights = self.task.weights * self.task.curvatures(point.scores)
        if not self._grams or np.abs(weights - self._weights).sum() > SAME_WEIGHTS * weights.sum():
            self._weights, self._grams = weights, [self.design.weighted_gram(each) for each in weights]
        return self._grams

    def pulls(self, point: Point) -> tuple[Matrix, Vector]:
        """Return the negative gradient of the loss by coefficients and base score."""
        assert isinstance(point, ScoredPoint)
        return self._products(-self.task.family.gradient(point.scores, self.task.target))

    def _products(self, values: Matrix) -> tuple[Matrix, Vector]:
        """Return ZᵀWv and 1ᵀWv for v of shape (rows, r)."""
        weighted = self.task.weights[:, None] * values
        return self.design.transposed_times(weighted), weighted.sum(axis=0)

    def dispersion(self, point: Point, freedom: float) -> float:
        """Return φ at a point."""
        assert isinstance(point, ScoredPoint)
        return dispersion(self.task.family, point.scores, self.task.target, self.task.weights, freedom)

    def direction(self, model: SecondOrder, point: Point) -> tuple[Matrix, Vector]:
        """Return the changes to the model's minimum; of classes, to that of the whole Hessian of softmax.

        It is found by conjugate gradients, preconditioned by the curvature that outputs share.
        """
        if not (self.task.family.couples_outputs and point.base.size > 1):
            return super().direction(model, point)
        assert isinstance(point, ScoredPoint)
        mean, (pull, lift) = self.task.family.mean(point.scores), self.pulls(point)
        pull, lift = pull / model.noise - model.prior_times(point.coefficients), lift / model.noise
        move, turn = np.zeros_like(pull), np.zeros_like(lift)
        ahead, up = model.solve(pull, lift)
        size = first = float(np.sum(pull * ahead) + lift @ up)
        for _ in range(INNER_STEPS):
            if not size > INNER_TOL**2 * first:
                break
            change = self.design.times(ahead) + up
            change = mean * (change - np.sum(mean * change, axis=1, keepdims=True))
            bend, rise = (each / model.noise for each in self._products(change))
            bend += model.prior_times(ahead)
            length = size / float(np.sum(ahead * bend) + up @ rise)
            move, turn = move + length * ahead, turn + length * up
            pull, lift = pull - length * bend, lift - length * rise
            next_ahead, next_up = model.solve(pull, lift)
            last, size = size, float(np.sum(pull * next_ahead) + lift @ next_up)
            ahead, up = next_ahead + size / last * ahead, next_up + size / last * up
        return move, turn
