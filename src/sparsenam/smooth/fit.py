"""Additive fits on given terms, smoothness and knots chosen by the data."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.ramps import Ramps, distinct, place_ramps
from sparsenam.families import Family
from sparsenam.families.dispersion import dispersion
from sparsenam.smooth.prior import Layout
from sparsenam.smooth.solve import SmoothProblem, SmoothState, solve
from sparsenam.tables.scaling import Matrix, Vector

# MSE 1.09 and the like: mean test error of the synthetic regression, ten seeds, floor 1.0
FIRST_RAMPS = 32  # of each feature; matters little: MSE 1.08 with 16, 1.10 with 32, 1.09 with 64
MOST_RAMPS = 512  # of one feature; California, split 0: 0.2945, and 0.2975 with 128
ROWS_PER_RAMP = 8  # at least, on average
COLUMNS = 3500  # of all; Superconductivity: 126.8 in 16 s with 2000, 120.0 in 39 s, 117.2 in 105 s with 5000
COLUMNS_REWEIGHTED = 1500  # where each step and output has its own Gram matrix; for time, not measured
# share of its ramps used as degrees of freedom at which a feature gets more: MSE and cross-entropy 1.095 and
# 0.0885 at 0.4, 1.109 and 0.0885 at 0.2, 1.062 and 0.0936 at 0.6
CROWDED = 0.4
ROUNDS = 4  # of doubling: MSE 1.25 without, cross-entropy 0.0936 instead of 0.0885


@dataclass(frozen=True, slots=True, eq=False)
class SmoothFit:
    """β₀ + Σⱼ Σₖ cⱼₖ rampⱼₖ(xⱼ), with the prior under which it is the most probable function.

    ``coefficients`` has a matrix (m_j, outputs) for each feature, ``intercept`` is (outputs,),
    ``degrees_of_freedom`` (features,) are those of one output (the mean over outputs), ``noise`` is σ² (1 for
    families without scale), and ``precision`` holds each feature's prior precision Pⱼ (m_j, m_j), which the
    outputs share.
    """

    ramps: tuple[Ramps, ...]
    coefficients: tuple[Matrix, ...]
    intercept: Vector
    degrees_of_freedom: Vector
    noise: float
    precision: tuple[Matrix, ...]

    def scores(self, x: Matrix) -> Matrix:
        """Return the scores, shape (rows, outputs), for x of shape (features, rows) without absent cells."""
        scores = np.tile(self.intercept, (x.shape[1], 1))
        for own, coefficients, column in zip(self.ramps, self.coefficients, x, strict=True):
            scores += own.columns(column) @ coefficients
        return scores


def smooth_fit(
    x: Matrix,
    target: Matrix,
    weights: Vector,
    family: Family,
    *,
    levels: NDArray[np.bool_] | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
    has_room_for: Callable[[float], bool] = lambda seconds: True,
) -> SmoothFit:
    """Return the additive fit on all the features of x, smoothness and knots chosen by the data.

    Parameters
    ----------
    x
        Standardised features, shape (features, rows); NaN where a feature is absent and contributes nothing.
    target
        Shape (rows, outputs); of mean 0 and variance 1 for a family that standardises it.
    weights
        Number of times that each row counts, shape (rows,); 2 is the row twice.
    levels
        Marks the features that are codes of unordered levels, shape (features,).
    out_of_time
        Asked between steps; once it says yes, the fit reached so far is returned.
    has_room_for
        Asked whether there are as many seconds left as a round with more knots will take.
    """
    present = weights > 0
    given = SmoothProblem(x[:, present], target[present], weights[present], family, out_of_time)
    if x.shape[0] == 0:
        return _intercept_alone(given)
    unordered = np.zeros(x.shape[0], dtype=np.bool_) if levels is None else levels
    most = _most_ramps(given, unordered)
    columns = COLUMNS if given.is_gaussian else COLUMNS_REWEIGHTED
    first = max(1, min(FIRST_RAMPS, columns // x.shape[0]))
    counts = np.where(unordered, most, np.minimum(first, most))
    state = None
    for _ in range(ROUNDS + 1):
        chosen = zip(given.x, counts, strict=True)
        ramps = [_ramps(column, given.weights, int(count)) for column, count in chosen]
        layout = Layout.of(ramps, unordered.tolist())
        started = time.monotonic()
        state = solve(given, layout, state)
        more = _doubled(counts, most, state.degrees_of_freedom, columns)
        if np.array_equal(more, counts):
            break
        growth = float(more.sum() / counts.sum()) ** 2  # of the products that take most of the time
        if not has_room_for(growth * (time.monotonic() - started)):
            break
        counts = more
    assert state is not None
    return _finished(state)


def _ramps(column: Vector, weights: Vector, count: int) -> Ramps:
    """Return the ramps of a column; one that is 0 in every row for a column that holds one value."""
    present = ~np.isnan(column)
    if not present.all():
        column, weights = column[present], weights[present]
    if np.ptp(column) == 0.0:
        return Ramps(np.array([column[0], column[0] + 1.0]))
    return place_ramps(column, weights, count)


def _most_ramps(given: SmoothProblem, unordered: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the most ramps of each feature: by its rows and values, and from level to level where unordered."""
    present = ~np.isnan(given.x)
    values = [distinct(row[own], given.weights[own])[0].size for row, own in zip(given.x, present, strict=True)]
    rows = [int(given.weights[own].sum()) for own in present]
    by_rows = np.maximum(np.array(rows) // ROWS_PER_RAMP, 4)
    highest = np.where(unordered, np.iinfo(np.intp).max, np.minimum(MOST_RAMPS, by_rows))
    return np.clip(np.array(values) - 1, 1, highest).astype(np.intp)


def _doubled(counts: NDArray[np.intp], most: NDArray[np.intp], freedom: Vector, columns: int) -> NDArray[np.intp]:
    """Return twice the ramps for crowded features, most crowded first, while the columns last."""
    share, more = freedom / counts, counts.copy()
    for feature in np.argsort(-share, kind="stable"):
        wanted = min(2 * counts[feature], most[feature])
        if share[feature] > CROWDED and more.sum() - more[feature] + wanted <= columns:
            more[feature] = wanted
    return more


def _finished(state: SmoothState) -> SmoothFit:
    return SmoothFit(
        ramps=state.layout.ramps,
        coefficients=tuple(state.coefficients[own] for own in state.layout.slices),
        intercept=state.intercept,
        degrees_of_freedom=state.degrees_of_freedom,
        noise=state.noise,
        precision=state.layout.precisions(state.strengths),
    )


def _intercept_alone(given: SmoothProblem) -> SmoothFit:
    intercept = given.family.best_constant(given.target, given.weights)
    noise = dispersion(given.family, np.tile(intercept, (len(given.target), 1)), given.target, given.weights, 1.0)
    return SmoothFit((), (), intercept, np.zeros(0), noise, ())
