"""Bands about the curves of a smooth fit: its posterior, plus what is not known of the smoothness itself.

The posterior takes the smoothness as known. Two things are added: the first-order effect of its uncertainty (Wood, Pya
and Säfken, 2016), and the spread that a curve would have with one degree of freedom more, and at least two: smoothing
takes the tops off curves, and what the likelihood made flat or straight need not be.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import brentq

from sparsenam.convex.design import Ramps
from sparsenam.model.bands import LEVELS, TermBand
from sparsenam.smooth.uncertainty import FitPosterior
from sparsenam.tables.sample import Matrix, Vector

LEAST_CURVATURE = 0.05  # of the restricted likelihood in log λ: a deviation of log λ is at most 4.5
# A band is that of a curve with so many more degrees of freedom than the fit took, and at least so many: what was
# smoothed away must lie within. Coverage of whole curves at 95 %, 500 rows, effects of 0.4 noise deviations each: 0.90
# with none more, 0.96 with one, 0.98 with two (benchmarks/bands.py has others, which did not set this)
MORE_FREEDOM, LEAST_FREEDOM = 1.0, 2.0
DRAWS, DIRECTIONS = 2000, 32  # of the largest deviation over a curve, and principal directions that they are made of
MOST_KNOTS = 65  # of a band; it is smooth in between


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


def normal_draws(generator: np.random.Generator) -> Matrix:
    """Return the standard normal numbers from which all terms' largest deviations are drawn, (`DIRECTIONS`, draws)."""
    return generator.standard_normal((DIRECTIONS, DRAWS))


def term_band(
    term: int, ramps: Ramps, means: Vector, covariances: Sequence[Matrix], normals: Matrix, *, is_unordered: bool
) -> TermBand:
    """Return the band of one term on the scale of the fit; ``covariances`` has one (m, m) for each output.

    ``means`` (m,) are those of the ramps over the rows: the band is of the centred curve. ``normals`` are those of
    `normal_draws`. Every level of an unordered category is kept.
    """
    size = ramps.size
    every = 1 if is_unordered else max(1, int(np.ceil(size / (MOST_KNOTS - 1))))
    kept = np.unique(np.append(np.arange(0, size + 1, every), size))
    values = np.vstack([np.zeros(size), np.tril(np.ones((size, size)))])[kept] - means
    deviations, maxima = list[Vector](), list[Vector]()
    for covariance in covariances:
        spread = values @ covariance @ values.T
        deviation = np.sqrt(np.maximum(spread.diagonal(), 0.0))
        strengths, vectors = np.linalg.eigh(0.5 * (spread + spread.T))
        root = (vectors * np.sqrt(np.maximum(strengths, 0.0)))[:, -DIRECTIONS:]  # the others hold next to nothing
        sizes = np.sqrt(np.sum(root**2, axis=1))
        draws = np.abs(root @ normals[: root.shape[1]])
        relative = draws / np.maximum(sizes, 1e-12 * max(float(sizes.max()), 1e-300))[:, None]
        deviations.append(deviation)
        maxima.append(np.asarray(np.quantile(relative.max(axis=0), LEVELS), dtype=np.float64))
    return TermBand(term, ramps.knots[kept], np.stack(deviations, axis=1), np.stack(maxima, axis=1))
