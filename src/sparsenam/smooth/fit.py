"""Additive fits on given terms: coefficients, smoothness and knots chosen by the data."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.context import Context
from sparsenam.convex.design import ROUNDING, Ramps, distinct, place_ramps, ramp_bank
from sparsenam.families import Family
from sparsenam.families.dispersion import dispersion
from sparsenam.networks import MLPBank
from sparsenam.smooth.prior import Layout
from sparsenam.smooth.solve import SmoothProblem, Steps, solve
from sparsenam.tables.sample import Matrix, Vector

# MSE 1.09 and the like: mean test error of the synthetic regression, ten seeds, floor 1.0
FIRST_RAMPS = 16  # of each term; matters little: MSE 1.08 with 16, 1.10 with 32, 1.09 with 64
MOST_RAMPS = 512  # of one term; California, split 0: 0.2945, and 0.2975 with 128
ROWS_PER_RAMP = 8  # at least, on average
COLUMNS = 4000  # of all, a budget of time; Superconductivity: 129.6 with 3500, 126.8 with 4200, 125.3 with 5000
COLUMNS_REWEIGHTED = 2000  # where each step has a Gram matrix; for time, not measured
# share of its ramps used as degrees of freedom at which a term gets more: MSE and cross-entropy 1.095 and
# 0.0885 at 0.4, 1.109 and 0.0885 at 0.2, 1.062 and 0.0936 at 0.6
CROWDED = 0.4
TIED = 1e-4  # difference of such shares that single precision may make
ROUNDS = 5  # of doubling: MSE 1.25 without, cross-entropy 0.0936 instead of 0.0885


@dataclass(frozen=True, slots=True, eq=False)
class SmoothFit:
    """β₀ + Σⱼ Σₖ cⱼₖ rampⱼₖ(xⱼ), with the prior under which it is the most probable function.

    ``coefficients`` has a matrix (m_j, outputs) for each term, ``intercept`` is (outputs,),
    ``degrees_of_freedom`` (terms,) are those of one output (the mean over outputs), ``noise`` is σ² (1 for
    families without scale), and ``precision`` holds each term's prior precision Pⱼ (m_j, m_j), which the
    outputs share.
    """

    ramps: tuple[Ramps, ...]
    coefficients: tuple[Matrix, ...]
    intercept: Vector
    degrees_of_freedom: Vector
    noise: float
    precision: tuple[Matrix, ...]

    def scores(self, x: Matrix) -> Matrix:
        """Return the scores, shape (rows, outputs), for x of shape (terms, rows) without absent cells."""
        scores = np.tile(self.intercept, (x.shape[1], 1))
        for ramps, coefficients, cells in zip(self.ramps, self.coefficients, x, strict=True):
            scores += ramps.columns(cells) @ coefficients
        return scores

    def network(self) -> tuple[MLPBank, Tensor]:
        """Return the bank of ramps that is the fit without its intercept, and its θ, shape (terms, size)."""
        return ramp_bank(self.ramps, self.coefficients, self.intercept.size)


def smooth_fit(
    x: Matrix,
    target: Matrix,
    weights: Vector,
    family: Family,
    *,
    levels: NDArray[np.bool_] | None = None,
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
    context
        Once its clock leaves no time for another step, the fit reached so far is returned; a round with more knots
        begins only where there is time for all of it. Each step is reported.
    """
    present = weights > 0
    task = SmoothProblem(x[:, present], target[present], weights[present], family)
    if x.shape[0] == 0:
        return _intercept_alone(task)
    unordered = np.zeros(x.shape[0], dtype=np.bool_) if levels is None else levels
    most = _most_ramps(task, unordered)
    columns = COLUMNS if family.is_quadratic else COLUMNS_REWEIGHTED
    first = max(1, min(FIRST_RAMPS, columns // x.shape[0]))
    counts = np.where(unordered, most, np.minimum(first, most))
    steps, state = Steps(context), None
    for _ in range(ROUNDS + 1):
        ramps = [_ramps(cells, task.weights, int(count)) for cells, count in zip(task.x, counts, strict=True)]
        started = time.monotonic()
        state = solve(task, Layout.of(ramps, unordered.tolist()), state, steps)
        more = _doubled(counts, most, state.degrees_of_freedom, columns)
        growth = float(more.sum() / counts.sum()) ** 2  # of the products that take most of the time
        if np.array_equal(more, counts) or not context.clock.has_room_for(growth * (time.monotonic() - started)):
            break
        counts = more
    assert state is not None
    return SmoothFit(
        ramps=state.layout.ramps,
        coefficients=tuple(state.coefficients[columns] for columns in state.layout.slices),
        intercept=state.intercept,
        degrees_of_freedom=state.degrees_of_freedom,
        noise=state.noise,
        precision=state.layout.precisions(state.strengths),
    )


def _ramps(cells: Vector, weights: Vector, count: int) -> Ramps:
    """Return the ramps of a term's cells (rows,); one that is 0 in every row for a term without two values."""
    present = ~np.isnan(cells)
    if not present.all():
        cells, weights = cells[present], weights[present]
    if cells.size == 0 or np.ptp(cells) == 0.0:
        start = cells[0] if cells.size else 0.0
        return Ramps(np.array([start, start + 1.0]))
    return place_ramps(cells, weights, count)


def _most_ramps(task: SmoothProblem, unordered: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the most ramps of each term: by its rows and values, and from level to level where unordered."""
    values, rows = list[int](), list[int]()
    for cells in task.x:
        present = ~np.isnan(cells)
        values.append(distinct(cells[present], task.weights[present])[0].size)
        rows.append(int(task.weights[present].sum() * (1.0 + ROUNDING)))
    by_rows = np.maximum(np.array(rows) // ROWS_PER_RAMP, 4)
    highest = np.where(unordered, np.iinfo(np.intp).max, np.minimum(MOST_RAMPS, by_rows))
    return np.clip(np.array(values) - 1, 1, highest).astype(np.intp)


def _doubled(counts: NDArray[np.intp], most: NDArray[np.intp], freedom: Vector, columns: int) -> NDArray[np.intp]:
    """Return twice the ramps for crowded terms, most crowded first, while the columns last.

    Among terms whose shares differ by rounding, such as those of equal columns, the first comes first.
    """
    share, more = freedom / counts, counts.copy()
    for term in np.argsort(-np.rint(share / TIED), kind="stable"):
        wanted = min(2 * counts[term], most[term])
        if share[term] > CROWDED and more.sum() - more[term] + wanted <= columns:
            more[term] = wanted
    return more


def _intercept_alone(task: SmoothProblem) -> SmoothFit:
    intercept = task.family.best_constant(task.target, task.weights)
    noise = dispersion(task.family, np.tile(intercept, (len(task.target), 1)), task.target, task.weights, 1.0)
    return SmoothFit((), (), intercept, np.zeros(0), noise, ())
