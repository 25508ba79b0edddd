"""What a smooth fit would say of each of its rows without that row, from one fit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sparsenam.convex.moments import GHOSTS
from sparsenam.smooth.design import RampDesign
from sparsenam.smooth.engine import SmoothProblem
from sparsenam.smooth.prior import Posterior
from sparsenam.smooth.uncertainty import FitPosterior
from sparsenam.tables.sample import Matrix, Vector

MOST_LEVERAGE = 0.99  # a row that the fit follows whatever it says has no score without it


def leverages(fit: FitPosterior, rows: NDArray[np.intp], extra: float = 0.0) -> Matrix:
    """Return by how much each row's score follows the row itself, shape (rows, outputs or 1).

    With V the posterior covariance, m the mean of the columns z under the working weights W and φ the noise, this is
    Wᵢ ((zᵢ - m)ᵀV(zᵢ - m)/φ + 1/ΣW): for squared loss the diagonal of the smoother. ``extra`` degrees of freedom, spent
    on what V does not know of, are shared among the rows as the intercept's is.
    """
    found = np.zeros((rows.size, len(fit.posteriors)))
    parts = zip(fit.posteriors, fit.grams, fit.weights, strict=True)
    for output, (part, gram, weights) in enumerate(parts):
        covariance = _inverse(part)
        shift = covariance @ gram.means
        squares = _quadratic_form(fit.design, covariance, rows) + float(gram.means @ shift)
        squares -= 2.0 * fit.design.times(shift[:, None])[rows, 0]
        found[:, output] = weights[rows] * (squares / fit.noise + (1.0 + extra) / gram.total)
    return np.clip(found, 0.0, MOST_LEVERAGE)


def _inverse(part: Posterior) -> Matrix:
    """Return V, shape (columns, columns)."""
    lower = np.tril(lapack.dpotri(part.factor, lower=1)[0])
    whole = lower + np.tril(lower, -1).T
    return whole * np.outer(part.scales, part.scales)


def _quadratic_form(design: RampDesign, covariance: Matrix, rows: NDArray[np.intp]) -> Vector:
    """Return zᵀVz of each row, from the values of V at the few knots about its cells, shape (rows,)."""
    at_knots = np.pad(design.at_knots(np.ascontiguousarray(design.at_knots(covariance).T)), (0, GHOSTS))
    places, right = design.placed.places[:, rows].astype(np.intp), design.placed.shares[:, rows]
    entries = [
        (place + side, share) for place, u in zip(places, right, strict=True) for side, share in ((0, 1.0 - u), (1, u))
    ]
    total = np.zeros(rows.size)
    for entry, (knot, share) in enumerate(entries):
        total += share**2 * at_knots[knot, knot]
        for other_knot, other_share in entries[entry + 1 :]:
            total += 2.0 * share * other_share * at_knots[knot, other_knot]
    return total


def left_out_scores(fit: FitPosterior, rows: NDArray[np.intp], extra: float = 0.0) -> Matrix:
    """Return the scores that a fit without each row would give it, its smoothness kept, shape (rows, outputs)."""
    follow = leverages(fit, rows, extra)
    bends = np.stack([weights[rows] / fit.task.weights[rows] for weights in fit.weights], axis=1)
    return _stepped(fit.task, fit.scores[rows], rows, follow, bends)


def left_out_evenly(task: SmoothProblem, scores: Matrix, rows: NDArray[np.intp], freedom: float) -> Matrix:
    """Return the same where only the degrees of freedom are known: rows share them by their working weights.

    ``scores`` (all rows, outputs) are those of the fit.
    """
    bends = np.ones_like(scores) if task.family.is_quadratic else task.curvatures(scores).T
    weights = task.weights[:, None] * bends
    follow = np.clip(freedom * weights / weights.sum(axis=0), 0.0, MOST_LEVERAGE)
    return _stepped(task, scores[rows], rows, follow[rows], bends[rows])


def _stepped(task: SmoothProblem, scores: Matrix, rows: NDArray[np.intp], follow: Matrix, bends: Matrix) -> Matrix:
    """Return the scores (rows, outputs) after one Newton step without each row; for squared loss this is exact.

    With g and h the slope and the curvature of its loss, and l its leverage, they are s + l/(1 - l) g/h.
    """
    slopes = task.family.gradient(scores, task.target[rows])
    return scores + follow / (1.0 - follow) * slopes / bends
