"""The engine of every smooth fit: penalised likelihood, its smoothness set by Fellner and Schall's updates.

The objective is Σ w loss/φ + ½ Σ βᵀPβ with P = Σ λS. A Newton step in β, shortened until the objective falls,
alternates with one update of λ and of φ. What is needed of the rows is in `Rows`: those in memory are at hand
(`sparsenam.smooth.fit`), those of large tables are summed block by block (`sparsenam.smooth.all_rows`), and for squared
loss sums at one point serve all steps (`SquaredRows`). References: Wood and Fasiolo (2017), "A generalized
Fellner-Schall method for smoothing parameter optimization"; Wood (2017), "Generalized Additive Models", chapter 6.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from sparsenam.context import Context
from sparsenam.convex.problem import step_lengths
from sparsenam.convex.ramps import Ramps
from sparsenam.families import Family
from sparsenam.model import FittedCurve
from sparsenam.smooth.constraints import Cone, Shape, shape_function
from sparsenam.smooth.design import (
    Layout,
    Posterior,
    PosteriorOfRows,
    RampBasis,
    Spread,
    WeightedGram,
    solved_by_output,
    updated_strengths,
)
from sparsenam.tables.sample import Matrix, Vector

LIGHTEST = 1e-6  # of a row's curvature: keeps the mean score determined where all rows are certain
FIRST_NOISE, LEAST_NOISE = 0.5, 1e-8  # of σ², on the scale of a standardised target: rather too rough than too smooth
NEWTON_HALVINGS = 5  # of a step; shorter ones only answer to rounding
OBJECTIVE_ROUNDING = 1e-8  # of the objective: a step that raises it by less is taken
# make constants: UPDATE_TOL halved -0.18 %, doubled +0.15 % loss
# make constants: FREEDOM_TOL halved -0.29 %, doubled -0.03 % loss
UPDATE_TOL, FREEDOM_TOL = 0.01, 0.02  # relative and absolute change of the degrees of freedom at which the updates end
# make constants: UPDATES halved -0.01 %, doubled +0.03 % loss
UPDATES, NEWTON_STEPS = 15, 25  # at most
# of the loss before a step: where it is less while the degrees of freedom rise, classes are being separated. Without,
# breast cancer with all columns has a log loss of 0.117 instead of 0.089 (3 × 5 folds), four_or_nine twice its loss
# make constants: SEPARATING halved +0.21 %, doubled +0 % loss
SEPARATING = 0.95
# of the constant's loss: the end where columns outnumber rows. Without, four_or_nine has 1.3 times the loss in folds
FITTED = 0.02
LARGE, UPDATES_OF_LARGE = 2500, 6  # columns from which an update takes half a second and more, and updates there


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

    @property
    def constant_scores(self) -> Matrix:
        """The scores (rows, outputs) of the best constant."""
        return np.tile(self.family.best_constant(self.target, self.weights), (len(self.target), 1))

    def curvatures(self, scores: Matrix) -> Matrix:
        """Return the curvature h of the loss in each score, (outputs, rows), or (1, rows) where all outputs share it.

        That of squared loss is 1; for softmax it is (1 - Σp²)/(K - 1), the mean of the eigenvalues of diag(p) - ppᵀ in
        the K - 1 directions that it sees: exact for two classes and for equal shares. A bound would make many classes
        look more informative.
        """
        family, outputs = self.family, scores.shape[1]
        if family.is_quadratic:
            return np.ones((1, len(scores)))
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


def has_converged(freedoms: Sequence[float], relative: float = UPDATE_TOL, absolute: float = FREEDOM_TOL) -> bool:
    """Return whether the sum of the degrees of freedom has changed little twice in a row."""
    changes = [abs(now - last) < relative * now + absolute for last, now in pairwise(freedoms[-3:])]
    return len(changes) == 2 and all(changes)


def step_length(objective: Callable[[float], float], before: float) -> float:
    """Return the first of 1, ½, ¼, … at which the objective is no worse than before, where its last call is, or 0."""
    highest = before + OBJECTIVE_ROUNDING * abs(before)
    found = step_lengths(lambda steps: np.array([objective(float(steps[0])) <= highest]), 1, NEWTON_HALVINGS + 1)
    return float(found[0])


def residual_variance(squares: Vector, count: Vector, freedom: Vector, outputs: int) -> Vector:
    """Return σ² of each fit, by its sum of squared residuals over all outputs and the degrees of freedom of one."""
    return np.maximum(squares / (outputs * np.maximum(count - freedom - 1.0, 1.0)), LEAST_NOISE)


@dataclass(frozen=True, slots=True, eq=False)
class SmoothFit:
    """β₀ + Σⱼ Σₖ cⱼₖ rampⱼₖ(xⱼ), the most probable function under a prior of strengths λ.

    ``coefficients`` is (columns, outputs), ``intercept`` (outputs,), and ``means`` (columns,) are those of the ramps
    over the rows in which their term is present: an absent term adds its mean. ``degrees_of_freedom`` (terms,) are
    those of one output (the mean over outputs), ``noise`` is σ² (1 for families without scale). ``spreads`` say how
    uncertain the coefficients of each output are; one where the outputs share them. ``shapes`` has what was asked of
    terms, by index; λ of a term of steps are those of its bins.
    """

    layout: Layout
    coefficients: Matrix
    means: Vector
    intercept: Vector
    strengths: Sequence[Vector]
    noise: float
    degrees_of_freedom: Vector
    spreads: Sequence[Spread] = ()
    shapes: Mapping[int, Shape] = field(default_factory=dict[int, Shape])

    @classmethod
    def constant(cls, intercept: Vector, noise: float) -> SmoothFit:
        """Return the fit without terms."""
        return cls(Layout.of([]), np.zeros((0, intercept.size)), np.zeros(0), intercept, (), noise, np.zeros(0))

    @property
    def ramps(self) -> tuple[Ramps, ...]:
        """The ramps of each term."""
        return self.layout.ramps

    @property
    def parts(self) -> list[Matrix]:
        """The coefficients (m_j, outputs) of each term."""
        return [self.coefficients[columns] for columns in self.layout.slices]

    @property
    def mean_effects(self) -> Matrix:
        """The mean of each term's effect over the rows in which it is present, shape (terms, outputs)."""
        effects = [self.means[columns] @ self.coefficients[columns] for columns in self.layout.slices]
        return np.array(effects).reshape(-1, self.intercept.size)

    def take(self, terms: Sequence[int]) -> SmoothFit:
        """Return the fit of some of its terms; the others are left out as they are."""
        layout, number = self.layout.take(terms), {term: index for index, term in enumerate(terms)}
        columns = np.concatenate([np.arange(0), *(np.r_[self.layout.slices[term]] for term in terms)])
        return replace(
            self,
            layout=layout,
            coefficients=self.coefficients[columns],
            means=self.means[columns],
            strengths=[self.strengths[term] for term in terms],
            degrees_of_freedom=self.degrees_of_freedom[list(terms)],
            shapes={number[term]: shape for term, shape in self.shapes.items() if term in number},
        )

    def functions(self) -> list[FittedCurve]:
        """Return the effect of each term as a function of it, 0 at its first knot.

        Ramps are level beyond their ends; where a shape is asked for, there may be slopes.
        """
        return [
            shape_function(ramps, rises, self.shapes[term]) if term in self.shapes else ramps.curve(rises)
            for term, (ramps, rises) in enumerate(zip(self.ramps, self.parts, strict=True))
        ]

    def resampled(self, layout: Layout) -> tuple[Matrix, Vector]:
        """Return coefficients and intercept of the same function, read off at other knots."""
        values = [
            old.columns(new.knots) @ part for new, old, part in zip(layout.ramps, self.ramps, self.parts, strict=True)
        ]
        rises = np.concatenate([np.diff(each, axis=0) for each in values])
        return rises, self.intercept + np.sum([each[0] for each in values], axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Coefficients (columns, outputs), the intercept (outputs,) beside them and the sum of the rows' losses there."""

    coefficients: Matrix
    intercept: Vector
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
    most_steps = NEWTON_STEPS

    def __init__(self, task: SmoothProblem, layout: Layout) -> None:
        self.task, self.layout = task, layout

    @abstractmethod
    def at(self, coefficients: Matrix, intercept: Vector) -> Point:
        """Return a point; its intercept (outputs,) is the score where all ramps are 0."""

    @abstractmethod
    def grams(self, point: Point) -> Sequence[WeightedGram]:
        """Return the products of columns under the curvature of the loss, one for each output or one for all."""

    @abstractmethod
    def pulls(self, point: Point) -> tuple[Matrix, Vector]:
        """Return the negative gradient of the loss by coefficients (columns, outputs) and by the scores at means."""

    @abstractmethod
    def dispersion(self, point: Point, freedom: float) -> float:
        """Return φ at a point, for as many degrees of freedom of each output, without the intercept's."""

    def direction(self, model: SecondOrder, point: Point) -> tuple[Matrix, Vector]:
        """Return the changes of coefficients and of the score at their means that lead to the model's minimum."""
        pull, lift = self.pulls(point)
        return model.solve(pull / model.noise - model.prior_times(point.coefficients), lift / model.noise)

    def first(self, before: SmoothFit | None) -> Reached:
        """Return where a fit starts: where one that was stopped has left off, at a fit with other ramps, or at 0."""
        task, layout = self.task, self.layout
        if before is None or task.family.is_quadratic:
            coefficients = np.zeros((layout.size, task.target.shape[1]))
            point = self.at(coefficients, task.family.best_constant(task.target, task.weights))
        else:
            point = self.at(*before.resampled(layout))
        if task.family.is_quadratic:
            noise = FIRST_NOISE if before is None else before.noise
        else:
            noise = self.dispersion(point, 0.0)
        information = np.mean([gram.matrix for gram in self.grams(point)], axis=0) / noise
        known = None if before is None else (before.layout, before.strengths)
        return Reached(point, noise, layout.first_strengths(information, known), ())

    def keep(self, reached: Reached) -> None:
        """Keep where the fit stands, for a fit that is stopped."""
        return


class SquaredRows(Rows):
    """Rows under squared loss, by what is known of them where all coefficients are 0.

    The loss is squares/2 - βᵀ moment + βᵀGβ/2 with the best intercept. All outputs share one prior and one noise.
    """

    def __init__(self, rows: Rows, start: Point) -> None:
        super().__init__(rows.task, rows.layout)
        self.basis, (self.gram,) = rows.basis, rows.grams(start)
        pull, lift = rows.pulls(start)
        self.moment = pull - np.outer(self.gram.means, lift)
        self._center = start.intercept + lift / self.gram.total
        self._squares = 2.0 * start.loss - float(lift @ lift) / self.gram.total
        self.most_steps = UPDATES if rows.layout.size < LARGE else UPDATES_OF_LARGE

    def at(self, coefficients: Matrix, intercept: Vector) -> Point:
        explained = float(np.sum(coefficients * (2.0 * self.moment - self.gram.matrix @ coefficients)))
        best = self._center - (self.gram.means + self.basis.means) @ coefficients
        return Point(coefficients, best, 0.5 * max(self._squares - explained, 0.0))

    def grams(self, point: Point) -> Sequence[WeightedGram]:
        return [self.gram]

    def pulls(self, point: Point) -> tuple[Matrix, Vector]:
        return self.moment - self.gram.matrix @ point.coefficients, np.zeros_like(point.intercept)

    def dispersion(self, point: Point, freedom: float) -> float:
        given = np.array([2.0 * point.loss]), np.array([self.gram.total]), np.array([freedom])
        return float(residual_variance(*given, point.intercept.size)[0])


class SecondOrder:
    """The objective to second order, the base score eliminated: Gram matrices and what is known of β under them.

    ``means`` (columns, parts) are those of the columns under the working weights, whose sums are ``totals`` (parts,);
    there is one part for each output, or one for all.
    """

    def __init__(
        self, layout: Layout, grams: Sequence[WeightedGram], strengths: Sequence[Vector], noise: float
    ) -> None:
        self.layout, self.grams, self.strengths, self.noise = layout, grams, strengths, noise
        self.precisions = layout.precisions(strengths)
        self.means = np.stack([gram.means for gram in grams], axis=1)
        self.totals = np.array([gram.total for gram in grams])

    @cached_property
    def posteriors(self) -> list[Posterior]:
        """The curvature of data and prior factorised; not asked for where inequalities leave β a part of its space."""
        known = self.strengths, self.noise
        return [
            Posterior(self.layout, gram.matrix, *known)
            if gram.root is None
            else PosteriorOfRows(self.layout, gram.root, *known)
            for gram in self.grams
        ]

    def solve(self, pull: Matrix, lift: Vector) -> tuple[Matrix, Vector]:
        """Return the solution of [ZᵀWZ/φ + P, ZᵀW1/φ; 1ᵀWZ/φ, 1ᵀW1/φ] with right-hand sides (columns, r) and (r,)."""
        move = solved_by_output(self.posteriors, pull - self.means * lift)
        return move, lift * self.noise / self.totals - np.sum(self.means * move, axis=0)

    def objective(self, point: Point) -> float:
        """Return the penalised loss at a point."""
        beta = point.coefficients
        return point.loss / self.noise + 0.5 * float(np.sum(beta * self.prior_times(beta)))

    def prior_times(self, coefficients: Matrix) -> Matrix:
        """Return Pβ, shape (columns, outputs)."""
        return self.layout.times(self.precisions, coefficients)

    def step(self, rows: Rows, start: Point, move: Matrix, lift: Vector) -> tuple[Point, float]:
        """Return the first point at 1, ½, ¼, … that is no worse than the start, and the step, or the start and 0."""
        point, turn = start, lift - rows.basis.means @ move

        def objective(step: float) -> float:
            nonlocal point
            point = rows.at(start.coefficients + step * move, start.intercept + step * turn)
            return self.objective(point)

        length = step_length(objective, self.objective(start))
        return (point, length) if length else (start, 0.0)


def solve(rows: Rows, before: SmoothFit | None, steps: Steps, cone: Cone | None = None) -> SmoothFit:
    """Return the fit with the ramps of the rows, in a cone if one is given, from a fit with other ramps, if any.

    It ends where the degrees of freedom rest, or steps no longer find a lower objective.
    """
    task, layout, failed = rows.task, rows.layout, 0
    reached = rows.first(before)
    if task.family.is_quadratic:
        rows = SquaredRows(rows, reached.point)
    point, noise, freedoms = reached.point, reached.noise, list(reached.freedoms)
    used = strengths = reached.strengths
    freedom, spreads = np.zeros(len(layout.ramps)), list[Spread]()
    for _ in range(len(freedoms), rows.most_steps):
        used, loss = strengths, point.loss
        point, step, spreads = _stepped(rows, point, used, noise, cone)
        freedom = np.mean([each.degrees_of_freedom for each in spreads], axis=0)
        strengths = updated_strengths(layout, used, spreads, point.coefficients, task.free_outputs)
        noise = rows.dispersion(point, float(freedom.sum()))
        # a shortened step changes little by itself
        freedoms = [*freedoms, float(freedom.sum())] if step == 1.0 else [float(freedom.sum())]
        failed = failed + 1 if step == 0.0 else 0
        steps.report()
        is_separated = separates(rows, freedoms, point.loss, loss)
        if has_converged(freedoms) or failed == 2 or is_separated or steps.out_of_time():
            break
        rows.keep(Reached(point, noise, strengths, freedoms))
    coefficients = point.coefficients if cone is None else cone.inside(point.coefficients)
    return SmoothFit(layout, coefficients, rows.basis.means, point.intercept, used, noise, freedom, spreads)


def separates(rows: Rows, freedoms: Sequence[float], loss: float, before: float) -> bool:
    """Return whether the last step separated classes: as curvature vanishes, scores grow without end.

    ``before`` is the loss before the last step.
    """
    task = rows.task
    if task.family.response not in ("binary", "labels", "classes"):
        return False
    if rows.layout.size > len(task.target) and loss < FITTED * task.loss(task.constant_scores):
        return True
    return len(freedoms) > 2 and freedoms[-3] < freedoms[-2] < freedoms[-1] and loss < SEPARATING * before


def _stepped(
    rows: Rows, point: Point, strengths: Sequence[Vector], noise: float, cone: Cone | None
) -> tuple[Point, float, list[Spread]]:
    """Return where a Newton step leads, its length, and how uncertain the coefficients are there."""
    model = SecondOrder(rows.layout, rows.grams(point), strengths, noise)
    if cone is None:
        move, lift = rows.direction(model, point)
        spreads = [each.spread for each in model.posteriors]
    else:
        pull, lift = rows.pulls(point)
        pull = (pull - model.means * lift) / noise - model.prior_times(point.coefficients)
        grams = [gram.matrix for gram in model.grams]
        best, faces = cone.minima(grams, strengths, noise, pull, point.coefficients)
        move = best - point.coefficients
        lift = lift / model.totals - np.sum(model.means * move, axis=0)
        spreads = [face.spread for face in faces]
    return *model.step(rows, point, move, lift), spreads
