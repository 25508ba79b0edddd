"""Bands about the curves of a smooth fit: its posterior, plus what is not known of the smoothness itself.

The posterior takes the smoothness as known. Two things are added: the first-order effect of its uncertainty (Wood, Pya
and Säfken, 2016), and the spread that a curve would have with one degree of freedom more, and at least two: smoothing
takes the tops off curves, and what the likelihood made flat or straight need not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import brentq

from sparsenam.convex.design import Ramps, place_ramps
from sparsenam.model.bands import LEVELS, TermBand
from sparsenam.smooth.prior import Layout, Posterior, RampDesign, roughness
from sparsenam.smooth.uncertainty import FitPosterior
from sparsenam.tables.sample import Matrix, Vector

LEAST_CURVATURE = 0.05  # of the restricted likelihood in log λ: a deviation of log λ is at most 4.5
# A band is that of a curve with so many more degrees of freedom than the fit took, and at least so many: what was
# smoothed away must lie within. Coverage of whole curves at 95 %, 500 rows, effects of 0.4 noise deviations each: 0.90
# with none more, 0.96 with one, 0.98 with two (benchmarks/bands.py has others, which did not set this)
MORE_FREEDOM, LEAST_FREEDOM = 1.0, 2.0
RAMPS_OF_LINES = 8  # on which the bends that a line may have are drawn
STRAIGHT = 1e4  # times the data's information: a prior under which a curve is a line
DRAWS = 2000  # of the largest deviation over a curve
MOST_KNOTS = 65  # of a band; it is smooth in between


def with_bends(fit: FitPosterior, lines: Sequence[int], levels: NDArray[np.bool_]) -> FitPosterior:
    """Return the posterior with the given terms, which are lines, on several ramps and under a prior for lines.

    A curve becomes a line when the data cannot tell the two apart; its band must not forget the bends. ``levels``
    (terms,) marks codes of unordered levels.
    """
    if not lines:
        return fit
    task, layout = fit.task, fit.layout
    ramps, precisions, strengths = list(layout.ramps), list(fit.precisions), list(fit.strengths)
    parts = [fit.coefficients[columns] for columns in layout.slices]
    for term in lines:
        cells = task.x[term]
        present = ~np.isnan(cells)
        fine = place_ramps(cells[present], task.weights[present], RAMPS_OF_LINES)
        widths = np.diff(fine.knots)
        matrices = roughness(fine)
        line = widths / widths.sum()
        first = float(precisions[term][0, 0]) / float(line @ matrices[0] @ line)
        information = float(fit.grams[0].matrix[layout.slices[term], layout.slices[term]].trace()) / fit.noise
        strengths[term] = np.array([first, *(STRAIGHT * information / np.trace(each) for each in matrices[1:])])
        precisions[term] = np.sum([s * each for s, each in zip(strengths[term], matrices, strict=True)], axis=0)
        ends = layout.ramps[term].knots
        shares = np.diff(np.clip((fine.knots - ends[0]) / (ends[-1] - ends[0]), 0.0, 1.0))
        parts[term] = shares[:, None] * parts[term]
        ramps[term] = fine
    finer = Layout.of(ramps, levels.tolist())
    design = RampDesign(finer, task.x, task.weights)
    return FitPosterior.at(task, finer, design, np.concatenate(parts), fit.scores, precisions, strengths, fit.noise)


def band_freedom(freedom: Vector) -> Vector:
    """Return the degrees of freedom that the bands of curves with so many (terms,) are drawn with."""
    return np.maximum(freedom + MORE_FREEDOM, LEAST_FREEDOM)


def curve_covariances(fit: FitPosterior) -> list[list[Matrix]]:
    """Return for each output the covariance (m_j, m_j) of each term's coefficients, all uncertainties included."""
    inverses = [_inverse(each) for each in fit.posteriors]
    extra = _of_smoothness(fit, inverses)
    found: list[list[Matrix]] = []
    for output in range(fit.coefficients.shape[1]):
        part = fit.posteriors[output if len(fit.posteriors) > 1 else 0]
        covariances, freedom = list[Matrix](), band_freedom(part.degrees_of_freedom)
        for term, (columns, precision) in enumerate(zip(fit.layout.slices, fit.precisions, strict=True)):
            wider = _with_freedom(part.covariances[term], precision, float(freedom[term]))
            covariances.append(wider + extra[output][columns] @ extra[output][columns].T)
        found.append(covariances)
    return found


def _inverse(part: Posterior) -> Matrix:
    """Return V, shape (columns, columns)."""
    inner = cho_solve((part.factor, True), np.diag(part.scales), check_finite=False)
    return part.scales[:, None] * inner


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """One λS of the prior: its term, the columns of that, λS itself and P⁻¹λS, both (m, m)."""

    term: int
    columns: slice
    matrix: Matrix
    relative: Matrix


def _of_smoothness(fit: FitPosterior, inverses: Sequence[Matrix]) -> list[Matrix]:
    """Return for each output a factor J (columns, λs), so that JJᵀ is the variance by that of log λ, to first order.

    With dβ/dlog λᵢ = -V λᵢSᵢβ, and the variance of log λ the inverse of the restricted likelihood's Hessian.
    """
    pieces: list[_Piece] = []
    for term, columns in enumerate(fit.layout.slices):
        precision = fit.precisions[term]
        safe = precision + 1e-13 * np.trace(precision) / len(precision) * np.eye(len(precision))
        for strength, matrix in zip(fit.strengths[term], fit.layout.roughness[term], strict=True):
            scaled = strength * matrix
            relative = np.asarray(np.linalg.solve(safe, scaled), dtype=np.float64)
            pieces.append(_Piece(term, columns, scaled, relative))
    outputs = fit.coefficients.shape[1]
    slopes: list[Matrix] = []
    hessian = np.zeros((len(pieces), len(pieces)))
    for output in range(outputs):
        shared = len(inverses) == 1
        inverse, beta = inverses[0 if shared else output], fit.coefficients[:, output]
        pulls = np.zeros((fit.layout.size, len(pieces)))
        for index, piece in enumerate(pieces):
            pulls[piece.columns, index] = piece.matrix @ beta[piece.columns]
        slope = -inverse @ pulls
        slopes.append(slope)
        hessian += pulls.T @ slope + 0.5 * np.diag(beta @ pulls)
        if not shared or output == 0:
            hessian += (outputs if shared else 1) * _determinants(pieces, inverse)
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    root = vectors / np.sqrt(np.maximum(values, LEAST_CURVATURE))
    return [slope @ root for slope in slopes]


def _determinants(pieces: Sequence[_Piece], inverse: Matrix) -> Matrix:
    """Return the second derivatives of ½ log|H| - ½ log|P| by the log λ, shape (λs, λs)."""
    products = [inverse[:, piece.columns] @ piece.matrix for piece in pieces]
    found = np.zeros((len(pieces), len(pieces)))
    for i, one in enumerate(pieces):
        for j, other in enumerate(pieces[: i + 1]):
            value = -np.sum(products[j][one.columns] * products[i][other.columns].T)
            if one.term == other.term:
                value += np.sum(one.relative * other.relative.T)
            if i == j:
                value += np.trace(products[i][one.columns]) - np.trace(one.relative)
            found[i, j] = found[j, i] = 0.5 * value
    return found


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


def term_band(
    term: int, ramps: Ramps, means: Vector, covariances: Sequence[Matrix], generator: np.random.Generator
) -> TermBand:
    """Return the band of one term on the scale of the fit; ``covariances`` has one (m, m) for each output.

    ``means`` (m,) are those of the ramps over the rows: the band is of the centred curve.
    """
    size = ramps.size
    every = max(1, int(np.ceil(size / (MOST_KNOTS - 1))))
    kept = np.unique(np.append(np.arange(0, size + 1, every), size))
    values = np.vstack([np.zeros(size), np.tril(np.ones((size, size)))])[kept] - means
    deviations, maxima = list[Vector](), list[Vector]()
    for covariance in covariances:
        spread = values @ covariance @ values.T
        strengths, vectors = np.linalg.eigh(0.5 * (spread + spread.T))
        root = vectors * np.sqrt(np.maximum(strengths, 0.0))
        deviation = np.sqrt(np.sum(root**2, axis=1))
        draws = np.abs(root @ generator.standard_normal((len(root), DRAWS)))
        relative = draws / np.maximum(deviation, 1e-12 * max(float(deviation.max()), 1e-300))[:, None]
        deviations.append(deviation)
        maxima.append(np.asarray(np.quantile(relative.max(axis=0), LEVELS), dtype=np.float64))
    return TermBand(term, ramps.knots[kept], np.stack(deviations, axis=1), np.stack(maxima, axis=1))
