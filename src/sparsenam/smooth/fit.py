"""Additive fits on given terms: coefficients, smoothness and knots chosen by the data."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.convex.design import WEIGHT_ROUNDING, Ramps, distinct
from sparsenam.families import Family
from sparsenam.families.base import dispersion
from sparsenam.model import FittedCurve
from sparsenam.smooth.constraints import (
    Cone,
    ConeSolution,
    Shape,
    StepBins,
    rounded,
    shape_function,
    step_bins,
)
from sparsenam.smooth.design import SmoothState, ramps_of
from sparsenam.smooth.engine import MemoryRows, SmoothProblem, Steps, solve
from sparsenam.smooth.prior import Layout
from sparsenam.tables.sample import Matrix, Vector

# MSE 1.09 and the like: mean test error of the synthetic regression, ten seeds, floor 1.0
FIRST_RAMPS = 16  # of each term; matters little: MSE 1.08 with 16, 1.10 with 32, 1.09 with 64
MOST_RAMPS = 512  # of one term; California, split 0: 0.2945, and 0.2975 with 128
ROWS_PER_RAMP = 8  # at least, on average; those of one value count for one ramp; chosen without a measurement
COLUMNS = 2000  # of all: a budget of time and memory, eight matrices of 32 MB; chosen without a measurement
# share of its ramps used as degrees of freedom at which a term gets more: MSE and cross-entropy 1.095 and
# 0.0885 at 0.4, 1.109 and 0.0885 at 0.2, 1.062 and 0.0936 at 0.6
CROWDED_RAMPS = 0.4
TIED_SHARES = 1e-4  # difference of such shares that single precision may make
# without doubling temperature_airports loses 116 % (make ablate)
DOUBLING_ROUNDS = 5  # of doubling: MSE 1.25 without, cross-entropy 0.0936 instead of 0.0885


@dataclass(frozen=True, slots=True, eq=False)
class SmoothFit:
    """β₀ + Σⱼ Σₖ cⱼₖ rampⱼₖ(xⱼ), with the prior under which it is the most probable function.

    ``coefficients`` has a matrix (m_j, outputs) for each term, ``intercept`` is (outputs,), ``strengths`` has the λ of
    each, ``degrees_of_freedom`` (terms,) are those of one output (the mean over outputs), ``noise`` is σ² (1 for
    families without scale), and ``precision`` holds each term's prior precision Pⱼ (m_j, m_j), which the
    outputs share; those of steps are of its jumps. ``shapes`` has what was asked of terms, by index.
    """

    ramps: tuple[Ramps, ...]
    coefficients: tuple[Matrix, ...]
    intercept: Vector
    degrees_of_freedom: Vector
    noise: float
    precision: tuple[Matrix, ...]
    strengths: tuple[Vector, ...]
    shapes: Mapping[int, Shape] = field(default_factory=dict[int, Shape])

    def take(self, terms: Sequence[int]) -> SmoothFit:
        """Return the fit of some of its terms; the others are left out as they are."""
        number = {term: index for index, term in enumerate(terms)}
        return SmoothFit(
            ramps=tuple(self.ramps[term] for term in terms),
            coefficients=tuple(self.coefficients[term] for term in terms),
            intercept=self.intercept,
            degrees_of_freedom=self.degrees_of_freedom[list(terms)],
            noise=self.noise,
            precision=tuple(self.precision[term] for term in terms),
            strengths=tuple(self.strengths[term] for term in terms),
            shapes={number[term]: shape for term, shape in self.shapes.items() if term in number},
        )

    def state(self, unordered: NDArray[np.bool_]) -> SmoothState:
        """Return a fit without shapes as a state to start from; ``unordered`` (terms,) marks codes of levels."""
        layout, coefficients = Layout.of(self.ramps, unordered.tolist()), np.concatenate(self.coefficients)
        freedom, strengths = self.degrees_of_freedom, list(self.strengths)
        return SmoothState(layout, coefficients, self.intercept, strengths, self.noise, freedom, ())

    def functions(self) -> list[FittedCurve]:
        """Return the effect of each term as a function of it, 0 at its first knot.

        Ramps are level beyond their ends; where a shape is asked for, there may be slopes.
        """
        parts = zip(self.ramps, self.coefficients, strict=True)
        return [
            shape_function(ramps, rises, self.shapes[term]) if term in self.shapes else ramps.curve(rises)
            for term, (ramps, rises) in enumerate(parts)
        ]

    def scores(self, x: Matrix) -> Matrix:
        """Return the scores, shape (rows, outputs), for x of shape (terms, rows) without absent cells."""
        scores = np.tile(self.intercept, (x.shape[1], 1))
        for ramps, coefficients, cells in zip(self.ramps, self.coefficients, x, strict=True):
            scores += ramps.columns(cells) @ coefficients
        return scores


def smooth_fit(
    x: Matrix,
    target: Matrix,
    weights: Vector,
    family: Family,
    *,
    levels: NDArray[np.bool_] | None = None,
    shapes: Mapping[int, Shape] | None = None,
    context: Context,
) -> SmoothFit:
    """Return the additive fit on all the terms of x, smoothness and knots chosen by the data.

    Parameters
    ----------
    x
        Standardised terms, shape (terms, rows); NaN where a term is absent and contributes nothing.
    target
        Shape (rows, outputs); of mean 0 and variance 1 for a family that standardises it.
    weights
        Number of times that each row counts, shape (rows,); 2 is the row twice.
    levels
        Marks the terms that are codes of unordered levels, shape (terms,).
    shapes
        What is asked of terms, by index.
    context
        Once its clock leaves no time for another step, the fit reached so far is returned; a round with more knots
        begins only where there is time for all of it. Each step is reported.
    """
    present = weights > 0
    task = SmoothProblem(x[:, present], target[present], weights[present], family)
    if x.shape[0] == 0:
        return _intercept_alone(task)
    asked: Mapping[int, Shape] = {} if shapes is None else shapes
    unordered = np.zeros(x.shape[0], dtype=np.bool_) if levels is None else levels
    most = most_ramps(task, unordered, asked)
    first = max(1, min(FIRST_RAMPS, COLUMNS // x.shape[0]))
    counts = np.where(unordered, most, np.minimum(first, most))
    jumping = [term for term, shape in asked.items() if shape.form == "steps"]
    bent = {term for term, shape in asked.items() if shape.bend != 0}  # whose last slope goes on
    counts[jumping] = np.minimum(most[jumping], max(first, COLUMNS // x.shape[0]))  # jumps are found in fine bins alone
    steps, state, bins = Steps(context), None, dict[int, StepBins]()
    for number in range(DOUBLING_ROUNDS + 1):
        if asked:
            bins = step_bins(asked, task.x, task.weights, counts)
        within = replace(task, x=rounded(task.x, bins)) if bins else task
        ramps = [
            ramps_of(cells, task.weights, int(count), may_jump=term not in bent)
            for term, (cells, count) in enumerate(zip(within.x, counts, strict=True))
        ]
        started = time.monotonic()
        state = _solve_shapes(within, ramps, unordered, asked, state, steps)
        share = state.degrees_of_freedom / _room(state, counts)
        more = doubled(counts, most, share, COLUMNS)
        growth = float(more.sum() / counts.sum()) ** 2  # of the products that take most of the time
        needed = growth * (time.monotonic() - started)
        if number == DOUBLING_ROUNDS or np.array_equal(more, counts) or not context.clock.has_room_for(needed):
            break
        counts, state = more, replace(state, spreads=())  # large, and not needed any more
    assert state is not None
    return as_fit(state, bins, asked)


def as_fit(state: SmoothState, bins: Mapping[int, StepBins], shapes: Mapping[int, Shape]) -> SmoothFit:
    """Return the fit by terms, those of steps as narrow ramps."""
    parts = [
        _jumps(bins[term], state, term, shapes[term]) if term in bins else (ramps, state.coefficients[columns])
        for term, (ramps, columns) in enumerate(zip(state.layout.ramps, state.layout.slices, strict=True))
    ]
    return SmoothFit(
        ramps=tuple(ramps for ramps, _ in parts),
        coefficients=tuple(coefficients for _, coefficients in parts),
        intercept=state.intercept,
        degrees_of_freedom=state.degrees_of_freedom,
        noise=state.noise,
        precision=state.layout.precisions(state.strengths),
        strengths=tuple(state.strengths),
        shapes=shapes,
    )


def _jumps(bins: StepBins, state: SmoothState, term: int, shape: Shape) -> tuple[Ramps, Matrix]:
    """Return the narrow ramps of a term of steps, and their increments."""
    variances = np.mean([spread.covariances[term].diagonal() for spread in state.spreads], axis=0)
    freedom = np.where(variances > 0.0, 1.0 - state.strengths[term] * variances, 0.0)
    return bins.jumps(state.coefficients[state.layout.slices[term]], freedom, shape.sign)


def _solve_shapes(
    task: SmoothProblem,
    ramps: Sequence[Ramps],
    unordered: NDArray[np.bool_],
    shapes: Mapping[int, Shape],
    before: SmoothState | None,
    steps: Steps,
) -> SmoothState:
    """Return the fit with these ramps and shapes."""
    if not shapes:
        return solve(MemoryRows(task, Layout.of(ramps, unordered.tolist())), before, steps)
    jumping = [term in shapes and shapes[term].form == "steps" for term in range(len(ramps))]
    layout = Layout.of(ramps, unordered.tolist(), jumping)
    return solve(MemoryRows(task, layout), before, steps, Cone.of(layout, shapes))


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


def _room(state: SmoothState, counts: NDArray[np.intp]) -> Vector:
    """Return the most degrees of freedom of each term, (terms,): its ramps, or what inequalities leave free."""
    dimensions = [spread.dimensions for spread in state.spreads if isinstance(spread, ConeSolution)]
    return np.maximum(np.mean(dimensions, axis=0), 1.0) if dimensions else counts.astype(np.float64)


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


def _intercept_alone(task: SmoothProblem) -> SmoothFit:
    intercept = task.family.best_constant(task.target, task.weights)
    noise = dispersion(task.family, np.tile(intercept, (len(task.target), 1)), task.target, task.weights, 1.0)
    return SmoothFit((), (), intercept, np.zeros(0), noise, (), ())
