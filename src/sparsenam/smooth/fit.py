"""Additive fits on given terms: coefficients, smoothness and knots chosen by the data."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.convex.ramps import WEIGHT_ROUNDING, distinct, slots
from sparsenam.families import Family
from sparsenam.families.base import dispersion
from sparsenam.smooth.constraints import Cone, Shape, StepBins, rounded
from sparsenam.smooth.design import CachedGrams, Layout, RampDesign, WeightedGram, ramps_of
from sparsenam.smooth.engine import Point, Rows, SecondOrder, SmoothFit, SmoothProblem, Steps, solve
from sparsenam.tables.sample import Matrix, Vector

# MSE 1.09 and the like: mean test error of the synthetic regression, ten seeds, floor 1.0
# make constants: FIRST_RAMPS halved +0.54 %, doubled +0.34 % loss
FIRST_RAMPS = 16  # of each term; matters little: MSE 1.08 with 16, 1.10 with 32, 1.09 with 64
MOST_RAMPS = 512  # of one term; California, split 0: 0.2945, and 0.2975 with 128
# make constants: ROWS_PER_RAMP halved -1 %, doubled +0.28 % loss
ROWS_PER_RAMP = 8  # at least, on average; those of one value count for one ramp
COLUMNS = 2000  # of all: a budget of time and memory, eight matrices of 32 MB
# share of its ramps used as degrees of freedom at which a term gets more: MSE and cross-entropy 1.095 and
# 0.0885 at 0.4, 1.109 and 0.0885 at 0.2, 1.062 and 0.0936 at 0.6
# make constants: CROWDED_RAMPS halved +0.07 %, doubled +2.5 % loss
CROWDED_RAMPS = 0.4
TIED_SHARES = 1e-4  # difference of such shares that single precision may make
# without doubling temperature_airports loses 116 % (make ablate)
# make constants: DOUBLING_ROUNDS halved +1.6 %, doubled +0 % loss
DOUBLING_ROUNDS = 5  # of doubling: MSE 1.25 without, cross-entropy 0.0936 instead of 0.0885
SAME_WEIGHTS = 0.01  # relative change of the working weights up to which their Gram matrix serves again
INNER_STEPS, INNER_TOL = 30, 0.01  # of the conjugate gradients in one Newton step: most, and the residual's share


def smooth_fit(
    x: Matrix,
    target: Matrix,
    weights: Vector,
    family: Family,
    *,
    levels: NDArray[np.bool_] | None = None,
    shapes: Mapping[int, Shape] | None = None,
    lines: bool = False,
    context: Context,
) -> SmoothFit:
    """Return the additive fit on all the terms of x, smoothness and knots chosen by the data.

    x (terms, rows) are standardised terms, NaN where a term is absent and contributes nothing; the target (rows,
    outputs) has mean 0 and variance 1 for a family that standardises it. ``weights`` (rows,) are the number of times
    that each row counts; 2 is the row twice. ``levels`` (terms,) marks the terms that are codes of unordered levels,
    ``shapes`` says what is asked of terms, by index, and ``lines`` whether numbers of which nothing is asked have
    straight lines, each shrunk by restricted likelihood. Once the clock of the ``context`` leaves no time for another
    step, the fit reached so far is returned; a round with more knots begins only where there is time for all of it.
    """
    present = weights > 0
    task = SmoothProblem(x[:, present], target[present], weights[present], family)
    if x.shape[0] == 0:
        intercept = family.best_constant(task.target, task.weights)
        scores = np.tile(intercept, (len(task.target), 1))
        return SmoothFit.constant(intercept, dispersion(family, scores, task.target, task.weights, 1.0))
    asked: Mapping[int, Shape] = {} if shapes is None else shapes
    unordered = np.zeros(x.shape[0], dtype=np.bool_) if levels is None else levels
    most = most_ramps(task, unordered, asked)
    if lines:
        most[~unordered & ~np.isin(np.arange(len(x)), list(asked))] = 1
    first = max(1, min(FIRST_RAMPS, COLUMNS // x.shape[0]))
    counts = np.where(unordered, most, np.minimum(first, most))
    stepped = [term for term, shape in asked.items() if shape.form == "steps"]
    jumping = [term in stepped for term in range(len(x))]
    bent = {term for term, shape in asked.items() if shape.bend != 0}  # whose last slope goes on
    fine = np.minimum(most, max(first, COLUMNS // x.shape[0]))  # jumps are found in fine bins alone
    counts = np.where(jumping, fine, counts)
    steps, fit, bins = Steps(context), None, dict[int, StepBins]()
    for number in range(DOUBLING_ROUNDS + 1):
        if asked:
            found = {term: StepBins.of(task.x[term], task.weights, int(counts[term])) for term in stepped}
            bins = {term: each for term, each in found.items() if each.cuts.size}  # of two values or more
        within = replace(task, x=rounded(task.x, bins)) if bins else task
        ramps = [
            ramps_of(cells, task.weights, int(count), may_jump=term not in bent)
            for term, (cells, count) in enumerate(zip(within.x, counts, strict=True))
        ]
        started = time.monotonic()
        layout = Layout.of(ramps, unordered.tolist(), jumping)
        fit = solve(MemoryRows(within, layout), fit, steps, Cone.of(layout, asked) if asked else None)
        more = doubled(counts, most, used_share(fit), COLUMNS)
        growth = float(more.sum() / counts.sum()) ** 2  # of the products that take most of the time
        needed = growth * (time.monotonic() - started)
        if number == DOUBLING_ROUNDS or np.array_equal(more, counts) or context.clock.passed(needed):
            break
        counts = more
    assert fit is not None
    if bins:
        fit = _with_jumps(fit, task, bins, asked)
    return replace(fit, spreads=(), shapes=asked)


def _with_jumps(
    fit: SmoothFit, task: SmoothProblem, bins: Mapping[int, StepBins], shapes: Mapping[int, Shape]
) -> SmoothFit:
    """Return the fit with terms of steps as narrow ramps, with a rise at each jump."""
    ramps, parts, means = list(fit.ramps), fit.parts, [fit.means[columns] for columns in fit.layout.slices]
    for term, each in bins.items():
        variances = np.mean([spread.covariances[term].diagonal() for spread in fit.spreads], axis=0)
        freedom = np.where(variances > 0.0, 1.0 - fit.strengths[term] * variances, 0.0)
        ramps[term], parts[term] = each.jumps(parts[term], freedom, shapes[term].sign)
        present = ~np.isnan(task.x[term])
        columns = ramps[term].columns(task.x[term, present])
        means[term] = np.average(columns, axis=0, weights=task.weights[present])
    layout = Layout(tuple(ramps), slots([each.size for each in ramps]), fit.layout.roughness, fit.layout.jumping)
    return replace(fit, layout=layout, coefficients=np.concatenate(parts), means=np.concatenate(means))


def most_ramps(task: SmoothProblem, unordered: NDArray[np.bool_], shapes: Mapping[int, Shape]) -> NDArray[np.intp]:
    """Return the most ramps of each term: by its rows and values, from level to level where unordered, 1 for a line."""
    values, rows = list[int](), list[int]()
    for cells in task.x:
        present = ~np.isnan(cells)
        different, counts = distinct(cells[present], task.weights[present])
        values.append(different.size)
        rows.append(int(np.minimum(counts, ROWS_PER_RAMP).sum() * (1.0 + WEIGHT_ROUNDING)))
    by_rows = np.maximum(np.array(rows) // ROWS_PER_RAMP, 4)
    highest = np.where(unordered, np.iinfo(np.intp).max, np.minimum(MOST_RAMPS, by_rows))
    highest[[term for term, shape in shapes.items() if shape.form == "linear"]] = 1
    return np.clip(np.array(values) - 1, 1, highest).astype(np.intp)


def used_share(fit: SmoothFit) -> Vector:
    """Return the degrees of freedom of each term (terms,) as a share of the coefficients that are free."""
    return fit.degrees_of_freedom / np.maximum(np.mean([each.dimensions for each in fit.spreads], axis=0), 1.0)


def doubled(counts: NDArray[np.intp], most: NDArray[np.intp], share: Vector, columns: int) -> NDArray[np.intp]:
    """Return twice the ramps for terms whose share (terms,) of freedom is large, largest first, while columns last.

    Among terms whose shares differ by rounding, such as those of equal columns, the first comes first.
    """
    more = counts.copy()
    for term in np.argsort(-np.rint(share / TIED_SHARES), kind="stable"):
        wanted = min(2 * counts[term], most[term])
        if share[term] > CROWDED_RAMPS and more.sum() - more[term] + wanted <= columns:
            more[term] = wanted
    return more


@dataclass(frozen=True, slots=True, eq=False)
class ScoredPoint(Point):
    """A point with the scores (rows, outputs) of rows in memory."""

    scores: Matrix


class MemoryRows(Rows):
    """Rows in memory: one block."""

    def __init__(self, task: SmoothProblem, layout: Layout) -> None:
        super().__init__(task, layout)
        self.basis = self.design = RampDesign(layout, task.x, task.weights)
        self._grams = CachedGrams(self.design.weighted_gram, SAME_WEIGHTS)

    def at(self, coefficients: Matrix, intercept: Vector) -> ScoredPoint:
        scores = intercept + self.design.means @ coefficients + self.design.times(coefficients)
        return ScoredPoint(coefficients, intercept, self.task.loss(scores), scores)

    def grams(self, point: Point) -> Sequence[WeightedGram]:
        """Return the products of columns, or the last ones where the working weights have changed little.

        The gradient is exact, so that an old curvature changes how fast the steps converge, not where to.
        """
        assert isinstance(point, ScoredPoint)
        return self._grams(self.task.weights * self.task.curvatures(point.scores))

    def pulls(self, point: Point) -> tuple[Matrix, Vector]:
        assert isinstance(point, ScoredPoint)
        return self._products(-self.task.family.gradient(point.scores, self.task.target))

    def _products(self, values: Matrix) -> tuple[Matrix, Vector]:
        """Return ZᵀWv and 1ᵀWv for v of shape (rows, r)."""
        weighted = self.task.weights[:, None] * values
        return self.design.transposed_times(weighted), weighted.sum(axis=0)

    def dispersion(self, point: Point, freedom: float) -> float:
        assert isinstance(point, ScoredPoint)
        return dispersion(self.task.family, point.scores, self.task.target, self.task.weights, freedom + 1.0)

    def direction(self, model: SecondOrder, point: Point) -> tuple[Matrix, Vector]:
        """Return the changes to the model's minimum; of classes, to that of the whole Hessian of softmax.

        It is found by conjugate gradients, preconditioned by the curvature that outputs share.
        """
        if not (self.task.family.couples_outputs and point.intercept.size > 1):
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
