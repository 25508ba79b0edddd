"""Poisson fits in alternation with the baseline hazard, until the scores no longer move."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sparsenam.survival import RiskSets, Ties
from sparsenam.tables import PreparedSample

Vector = NDArray[np.float64]
Result = TypeVar("Result")

ITERATIONS = 30  # plain ones shrink the error by 2 to 25 on simulated data, mixed ones by more: 4 to 12 are enough
MEMORY = 4  # iterations that Anderson's mixing looks back
# changes of a score, and relative ones of the log-likelihood, at which exact fits and others have converged
EXACT_MOVE, EXACT_CHANGE = 1e-6, 1e-10
SMALL_MOVE, SMALL_CHANGE = 1e-2, 1e-6
# A fit that chooses its smoothness anew each time, or trains a network, may never come to rest: on simulated data the
# worst row moves by 0.005, but by 0.4 (root mean square 0.1) where two choices of smoothness alternate. It ends when
# so many iterations in a row came no nearer, with the one that moved least, and with a warning where even that one
# moved by more than `ROUGH` in the root mean square. Nor does an exact fit where few columns separate the events and
# the penalty hardly holds the scores: it ends when its iterations come nearer by less than a tenth, and gets more
# patience, since mixing may move back before it comes nearer.
REFIT_PATIENCE, EXACT_REFIT_PATIENCE, NEARER, ROUGH = 3, 5, 0.9, 0.1


@dataclass(frozen=True, slots=True, eq=False)
class CoxLikelihood:
    """The partial likelihood of one sample's rows."""

    risk_sets: RiskSets
    ties: Ties

    def value(self, scores: Vector) -> float:
        """Return the partial log-likelihood of scores (rows,)."""
        return self.risk_sets.hazard(scores, self.ties).log_likelihood

    def poisson(self, prepared: PreparedSample, scores: Vector, total: float) -> PreparedSample:
        """Return the sample with target δᵢ/Λᵢ and weights wᵢΛᵢ for Λ = Λ(scores): Poisson rates.

        Λ is in a unit in which the mean rate is 1; the weights add up to ``total``.
        """
        risk_sets = self.risk_sets
        hazard = risk_sets.hazard(scores, self.ties).rows
        exposure = hazard * (risk_sets.n_events / float(risk_sets.weights @ hazard))
        weights = risk_sets.weights * exposure * (total / risk_sets.n_events)
        return replace(prepared, target=(risk_sets.event / exposure)[:, None], weights=weights)


@dataclass(frozen=True, slots=True, eq=False)
class Converged(Generic[Result]):
    """The last fit of an alternation and its scores, shape (rows,); ``settled`` is False where they still moved."""

    result: Result
    scores: Vector
    iterations: int
    settled: bool = True


def alternate(
    likelihood: CoxLikelihood,
    fit: Callable[[Vector, int], tuple[Result, Vector]],
    start: Vector,
    *,
    exact: bool,
    out_of_time: Callable[[], bool],
) -> Converged[Result]:
    """Repeat ``fit`` until its scores are those that it was given.

    Parameters
    ----------
    fit
        Takes scores (rows,) and the number of the iteration, fits Poisson rates to the hazard that the scores give,
        and returns the fit and its scores.
    exact
        Whether each fit solves its problem exactly, so that the alternation can converge to many digits.
    """
    small, same = (EXACT_MOVE, EXACT_CHANGE) if exact else (SMALL_MOVE, SMALL_CHANGE)
    given, mixing, value, iteration = start - start.mean(), AndersonMixing(), -np.inf, 0
    least, best, since = np.inf, None, 0
    while True:
        iteration += 1
        result, scores = fit(given, iteration)
        scores = scores - scores.mean()
        last, value = value, likelihood.value(scores)
        move: Vector = scores - given
        reached = Converged(result, scores, iteration)
        if np.abs(move).max() <= small or abs(value - last) <= same * abs(value) or out_of_time():
            return reached
        size = float(np.sqrt(np.mean(move**2)))
        since = 0 if size < (NEARER if exact else 1.0) * least else since + 1
        if best is None or size < least:
            least, best = size, reached
        if iteration == ITERATIONS or since == (EXACT_REFIT_PATIENCE if exact else REFIT_PATIENCE):
            if exact or least > ROUGH:
                _warn(least, iteration)
            return replace(best, settled=False)
        given = mixing.next(given, scores)


def _warn(size: float, iterations: int) -> None:
    message = (
        f"Scores and baseline hazard did not converge in {iterations} iterations: the last ones still moved the scores "
        f"by {size:.2g} (root mean square); try fewer columns or another random_state."
    )
    warnings.warn(message, ConvergenceWarning, stacklevel=3)


class AndersonMixing:
    """Anderson's mixing: the next point is where the last iterations, extrapolated linearly, would not move.

    An iteration that moves more than the one before it shows that the extrapolation went too far: then all is
    forgotten.
    """

    def __init__(self) -> None:
        self._points: list[Vector] = []
        self._images: list[Vector] = []

    def next(self, point: Vector, image: Vector) -> Vector:
        """Take a point and its image in, shape (rows,); return the next point."""
        if self._points and _distance(point, image) > _distance(self._points[-1], self._images[-1]):
            self._points, self._images = [], []
        self._points = [*self._points, point][-MEMORY:]
        self._images = [*self._images, image][-MEMORY:]
        moves = np.array(self._images) - np.array(self._points)
        if len(moves) == 1:
            return image
        shares = np.asarray(np.linalg.lstsq(np.diff(moves, axis=0).T, moves[-1], rcond=None)[0], dtype=np.float64)
        return image - shares @ np.diff(self._images, axis=0)


def _distance(one: Vector, other: Vector) -> float:
    return float(np.linalg.norm(one - other))
