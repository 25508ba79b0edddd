"""The posterior of a finished smooth fit: how its coefficients vary, and its scores of each row without that row.

The posterior takes the smoothness as known. For bands two things are added: the first-order effect of its uncertainty
(Wood, Pya and Säfken, 2016), and the spread that a curve would have with one degree of freedom more, and at least two:
smoothing takes the tops off curves, and what the likelihood made flat or straight need not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, lapack, solve_triangular
from scipy.optimize import brentq

from sparsenam.convex.moments import GHOSTS
from sparsenam.smooth.design import RampDesign, WeightedGram
from sparsenam.smooth.engine import SmoothProblem
from sparsenam.smooth.fit import SmoothFit
from sparsenam.smooth.prior import Layout, Posterior, posterior
from sparsenam.tables.sample import Matrix, Vector

# chosen without a measurement
LEAST_CURVATURE = 0.05  # of the restricted likelihood in log λ: a deviation of log λ is at most 4.5
# A band is that of a curve with so many more degrees of freedom than the fit took, and at least so many: what was
# smoothed away must lie within. Coverage of whole curves at 95 %, 500 rows, effects of 0.4 noise deviations each: 0.90
# with none more, 0.96 with one, 0.98 with two (benchmarks/bands.py has others, which did not set this)
MORE_FREEDOM, LEAST_FREEDOM = 1.0, 2.0
# chosen without a measurement
MOST_LEVERAGE = 0.99  # a row that the fit follows whatever it says has no score without it


@dataclass(frozen=True, slots=True, eq=False)
class FitPosterior:
    """A fit's ramps, its scores on the training rows and the posterior of its coefficients there.

    ``scores`` are (rows, outputs), ``coefficients`` (columns, outputs). ``grams`` and ``posteriors`` are one for each
    output, or one for all where outputs share them; ``weights`` has the working weights (rows,) of each. Rows of
    weight 0 are left out of ``task``.
    """

    task: SmoothProblem
    layout: Layout
    design: RampDesign
    coefficients: Matrix
    scores: Matrix
    precisions: tuple[Matrix, ...]
    strengths: tuple[Vector, ...]
    noise: float
    weights: tuple[Vector, ...]
    grams: tuple[WeightedGram, ...]
    posteriors: tuple[Posterior, ...]

    @classmethod
    def of(
        cls, task: SmoothProblem, fit: SmoothFit, levels: NDArray[np.bool_], offset: Matrix | None = None
    ) -> FitPosterior:
        """Return the posterior of a fit without shapes.

        ``levels`` (terms,) marks codes of unordered levels; ``offset`` (rows, outputs) is what other parts of the model
        add to the scores, and is taken as known.
        """
        layout = Layout.of(fit.ramps, levels.tolist())
        design = RampDesign(layout, task.x, task.weights)
        coefficients = np.concatenate(fit.coefficients)
        scores = fit.intercept + design.means @ coefficients + design.times(coefficients)
        if offset is not None:
            scores = scores + offset
        return cls.at(task, layout, design, coefficients, scores, fit.precision, fit.strengths, fit.noise)

    @classmethod
    def at(
        cls,
        task: SmoothProblem,
        layout: Layout,
        design: RampDesign,
        coefficients: Matrix,
        scores: Matrix,
        precisions: Sequence[Matrix],
        strengths: Sequence[Vector],
        noise: float,
    ) -> FitPosterior:
        """Return the posterior about given coefficients and scores."""
        if task.family.is_quadratic:
            weights, grams = (task.weights,), (design.weighted_gram(task.weights),)
        else:
            weights = tuple(task.weights * bend for bend in task.curvatures(scores))
            grams = tuple(design.weighted_gram(each) for each in weights)
        found = tuple(posterior(layout, gram.matrix, precisions, noise) for gram in grams)
        given = (task, layout, design, coefficients, scores, tuple(precisions), tuple(strengths), noise)
        return cls(*given, weights, grams, found)

    @property
    def degrees_of_freedom(self) -> Vector:
        """Those of each term, the mean over outputs, shape (terms,)."""
        return np.mean([each.degrees_of_freedom for each in self.posteriors], axis=0)


def band_freedom(freedom: Vector) -> Vector:
    """Return the degrees of freedom that the bands of curves with so many (terms,) are drawn with."""
    return np.maximum(freedom + MORE_FREEDOM, LEAST_FREEDOM)


def curve_covariances(fit: FitPosterior) -> list[list[Matrix]]:
    """Return for each output the covariance (m_j, m_j) of each term's coefficients, all uncertainties included."""
    found: list[list[Matrix]] = [[] for _ in range(fit.coefficients.shape[1])]
    shared = len(fit.posteriors) == 1
    freedom = [band_freedom(part.degrees_of_freedom) for part in fit.posteriors]
    for term, (columns, precision) in enumerate(zip(fit.layout.slices, fit.precisions, strict=True)):
        parts = [part.covariances[term] for part in fit.posteriors]
        wider = [_with_freedom(part, precision, float(each[term])) for part, each in zip(parts, freedom, strict=True)]
        factors = _of_smoothness(
            fit.layout.roughness[term], fit.strengths[term], precision, parts, fit.coefficients[columns]
        )
        for output, factor in enumerate(factors):
            found[output].append(wider[0 if shared else output] + factor @ factor.T)
    return found


def _of_smoothness(
    matrices: Sequence[Matrix], strengths: Vector, precision: Matrix, covariances: Sequence[Matrix], beta: Matrix
) -> list[Matrix]:
    """Return for each output a factor J (m, λs), so that JJᵀ is a term's variance by that of its log λ, to first order.

    With dβ/dlog λᵢ = -V λᵢSᵢβ, and the variance of log λ the inverse of the restricted likelihood's Hessian. V (m, m)
    is the term's block of the posterior covariance, one for each output or one for all; the smoothness of other terms
    is taken as known, which changes bands by less than one part in a hundred.
    """
    scaled = [strength * matrix for strength, matrix in zip(strengths, matrices, strict=True)]
    safe = precision + 1e-13 * np.trace(precision) / len(precision) * np.eye(len(precision))
    relative = [np.asarray(np.linalg.solve(safe, each), dtype=np.float64) for each in scaled[:-1]]
    relative.append(np.eye(len(precision)) - np.sum(relative, axis=0))  # as P is the sum of all
    outputs = beta.shape[1]
    hessian = outputs * np.array([[np.sum(one * other.T) for other in relative] for one in relative])
    hessian -= outputs * np.diag([np.trace(each) for each in relative])
    slopes: list[Matrix] = []
    for output in range(outputs):
        covariance = covariances[0 if len(covariances) == 1 else output]
        products = [covariance @ each for each in scaled]
        hessian -= np.array([[np.sum(one * other.T) for other in products] for one in products])
        hessian += np.diag([np.trace(each) for each in products])
        pulls = np.stack([each @ beta[:, output] for each in scaled], axis=1)
        slopes.append(-covariance @ pulls)
        hessian += 2.0 * pulls.T @ slopes[-1] + np.diag(beta[:, output] @ pulls)
    values, vectors = np.linalg.eigh(0.25 * (hessian + hessian.T))
    root = vectors / np.sqrt(np.maximum(values, LEAST_CURVATURE))
    return [slope @ root for slope in slopes]


def _with_freedom(covariance: Matrix, precision: Matrix, freedom: float) -> Matrix:
    """Return the covariance of a term under a prior so much weaker that it has this many degrees of freedom.

    With A = V⁻¹ - P what the rows know of the term, beside the others, V(t) = (A + tP)⁻¹ and the degrees of freedom are
    Σ μ/(μ + t), with μ the eigenvalues of A relative to P. A covariance with enough of them is returned as it is.
    """
    size = len(precision)
    wanted = min(freedom, size - 0.02)  # as many as it has ramps would leave no prior
    if size - float(np.sum(covariance * precision)) >= wanted:
        return covariance
    root = _root(precision)
    # LᵀVL has the eigenvalues 1/(μ + 1): read off without a difference of large numbers
    values, vectors = np.linalg.eigh(root.T @ covariance @ root)
    information = 1.0 / np.clip(values, 1e-12, 1.0) - 1.0

    def surplus(log_t: float) -> float:
        return float(np.sum(information / (information + np.exp(log_t)))) - wanted

    known = information[information > 1e-9]
    if known.size <= wanted or surplus(0.0) >= 0.0:
        return covariance
    t = float(np.exp(brentq(surplus, float(np.log(known.min())) - 20.0, 0.0)))
    spread = solve_triangular(root, vectors, lower=True, trans="T") / np.sqrt(information + t)
    return spread @ spread.T


def _root(precision: Matrix) -> Matrix:
    """Return the lower L with P = LLᵀ, with as much jitter as rounding asks for."""
    scales = 1.0 / np.sqrt(np.maximum(precision.diagonal(), np.finfo(float).tiny))
    scaled = precision * scales * scales[:, None]
    scaled[np.diag_indices(len(scaled))] += 1e-12
    return cholesky(scaled, lower=True) / scales[:, None]


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
