"""The posterior of a smooth fit, its scores of each row without that row, and how the size of errors varies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import betainc

from sparsenam.context import Context
from sparsenam.convex.ramps import GHOSTS
from sparsenam.families import Gaussian
from sparsenam.model import AdditiveModel
from sparsenam.model.additive import finish
from sparsenam.selection.task import SCREEN_BINS, SCREEN_CODES, bin_codes
from sparsenam.smooth.design import Layout, Posterior, RampDesign, WeightedGram, posterior, ramps_of
from sparsenam.smooth.engine import SmoothFit, SmoothProblem, Steps, solve
from sparsenam.smooth.fit import MemoryRows
from sparsenam.tables import PreparedSample, Scaling
from sparsenam.tables.sample import Grouping, Matrix, Vector, mean_and_deviation

Indices = NDArray[np.intp]

MOST_LEVERAGE = 0.99  # a row that the fit follows whatever it says has no score without it
CUTS = (1, 4)  # neighbouring bins that are joined; the better of both cuts counts, twice
SPREAD_LEVEL = 0.01  # of the test, over all terms and cuts
MOST_TESTED = 200  # terms; of more, those that the model keeps
# make constants: MOST_SPREAD_TERMS halved +0.01 %, doubled +0.2 % intervals
# make constants: SPREAD_RAMPS halved +0.08 %, doubled +0.09 % intervals
MOST_SPREAD_TERMS, SPREAD_RAMPS = 4, 8  # that the spread depends on, and of each of them
FEWEST_SPREAD_ROWS = 40  # below, no spread but a constant one can be told
# for each term that could be chosen: of many, the chosen ones are those along which errors happen to be small. With 60
# rows and 500 columns a spread was found in 27 of 100 tables without one, and intervals covered 0.68 instead of 0.9
ROWS_PER_TERM = 2
SMALLEST_ERROR = 0.02  # of the median error: a logarithm of less says next to nothing of the spread


@dataclass(frozen=True, slots=True, eq=False)
class FitPosterior:
    """A fit without shapes, its scores (rows, outputs) on the training rows, and its coefficients' posterior there.

    ``grams`` and ``posteriors`` are one for each output, or one for all where outputs share them; ``weights`` has the
    working weights (rows,) of each. Rows of weight 0 are left out of ``task``.
    """

    task: SmoothProblem
    fit: SmoothFit
    layout: Layout
    design: RampDesign
    scores: Matrix
    weights: tuple[Vector, ...]
    grams: tuple[WeightedGram, ...]
    posteriors: tuple[Posterior, ...]

    @classmethod
    def of(cls, task: SmoothProblem, fit: SmoothFit, offset: Matrix | float = 0.0) -> FitPosterior:
        """Return the posterior of a fit.

        ``offset`` (rows, outputs) is what other parts of the model
        add to the scores, and is taken as known.
        """
        layout, coefficients = fit.layout, fit.coefficients
        design = RampDesign(layout, task.x, task.weights)
        scores = fit.intercept + design.means @ coefficients + design.times(coefficients) + offset
        weights = (task.weights,)
        if not task.family.is_quadratic:
            weights = tuple(task.weights * bend for bend in task.curvatures(scores))
        grams = tuple(design.weighted_gram(each) for each in weights)
        posteriors = tuple(posterior(layout, gram.matrix, fit.strengths, fit.noise) for gram in grams)
        return cls(task, fit, layout, design, scores, weights, grams, posteriors)

    @property
    def degrees_of_freedom(self) -> Vector:
        """Those of each term, the mean over outputs, shape (terms,)."""
        return np.mean([each.degrees_of_freedom for each in self.posteriors], axis=0)


def leverages(known: FitPosterior, rows: Indices, extra: float = 0.0) -> Matrix:
    """Return by how much each row's score follows the row itself, shape (rows, outputs or 1).

    With V the posterior covariance, m the mean of the columns z under the working weights W and φ the noise, this is
    Wᵢ ((zᵢ - m)ᵀV(zᵢ - m)/φ + 1/ΣW): for squared loss the diagonal of the smoother. ``extra`` degrees of freedom, spent
    on what V does not know of, are shared among the rows as the intercept's is.
    """
    found = np.zeros((rows.size, len(known.posteriors)))
    parts = zip(known.posteriors, known.grams, known.weights, strict=True)
    for output, (part, gram, weights) in enumerate(parts):
        lower = np.tril(lapack.dpotri(part.factor, lower=1)[0])
        covariance = (lower + np.tril(lower, -1).T) * np.outer(part.scales, part.scales)
        shift = covariance @ gram.means
        squares = _quadratic_form(known.design, covariance, rows) + float(gram.means @ shift)
        squares -= 2.0 * known.design.times(shift[:, None])[rows, 0]
        found[:, output] = weights[rows] * (squares / known.fit.noise + (1.0 + extra) / gram.total)
    return np.clip(found, 0.0, MOST_LEVERAGE)


def _quadratic_form(design: RampDesign, covariance: Matrix, rows: Indices) -> Vector:
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


def left_out_scores(known: FitPosterior, rows: Indices, extra: float = 0.0) -> Matrix:
    """Return the scores that a fit without each row would give it, its smoothness kept, shape (rows, outputs)."""
    follow = leverages(known, rows, extra)
    bends = np.stack([weights[rows] / known.task.weights[rows] for weights in known.weights], axis=1)
    return _stepped(known.task, known.scores[rows], rows, follow, bends)


def left_out_evenly(task: SmoothProblem, scores: Matrix, rows: Indices, freedom: float) -> Matrix:
    """Return the same where only the degrees of freedom are known: rows share them by their working weights.

    ``scores`` (all rows, outputs) are those of the fit.
    """
    bends = np.ones_like(scores) if task.family.is_quadratic else task.curvatures(scores).T
    weights = task.weights[:, None] * bends
    follow = np.clip(freedom * weights / weights.sum(axis=0), 0.0, MOST_LEVERAGE)
    return _stepped(task, scores[rows], rows, follow[rows], bends[rows])


def _stepped(task: SmoothProblem, scores: Matrix, rows: Indices, follow: Matrix, bends: Matrix) -> Matrix:
    """Return the scores (rows, outputs) after one Newton step without each row; for squared loss this is exact.

    With g and h the slope and the curvature of its loss, and l its leverage, they are s + l/(1 - l) g/h.
    """
    slopes = task.family.gradient(scores, task.target[rows])
    return scores + follow / (1.0 - follow) * slopes / bends


class ErrorSpread(NamedTuple):
    """A model of the logarithm of the spread, and its scores (rows, outputs) for its rows, each left out."""

    model: AdditiveModel
    left_out: Matrix


def spread_of(
    prepared: PreparedSample, errors: Matrix, score: Vector, kept: Indices, context: Context
) -> ErrorSpread | None:
    """Return how the size of errors (rows, outputs) depends on the terms and on the score (rows,), None if it does not.

    ``kept`` are the indices of the model's terms in ``prepared``, which are tested alone where there are very many.
    """
    if len(errors) < max(FEWEST_SPREAD_ROWS, ROWS_PER_TERM * prepared.terms.size):
        return None
    wide = _with_score(prepared, score)
    tested = np.append(kept, wide.terms.size - 1)
    if wide.terms.size <= MOST_TESTED:
        tested = np.arange(wide.terms.size)
    sizes = np.abs(errors)
    middle = np.median(sizes, axis=0)
    if not (middle > 0).all():
        return None
    found = tested[_screened(wide.x[tested], wide.levels[tested], np.sqrt(sizes / middle))]
    if not found.size:
        return None
    logs = np.log(np.maximum(sizes / middle, SMALLEST_ERROR))
    return _fitted(replace(wide.take(found), target=logs - logs.mean(axis=0)), context)


def _with_score(prepared: PreparedSample, score: Vector) -> PreparedSample:
    """Return the sample with the score (rows,) as one more term, each term a group of its own."""
    (center,), (scale,) = mean_and_deviation(score[:, None], prepared.weights)
    scale = scale if scale > 0.0 else 1.0
    return replace(
        prepared,
        terms=np.append(prepared.terms, prepared.n_terms),
        names=[*prepared.names, "score"],
        n_terms=prepared.n_terms + 1,
        scaling=Scaling(np.append(prepared.scaling.center, center), np.append(prepared.scaling.scale, scale)),
        x=np.vstack([prepared.x, (score - center) / scale]),
        levels=np.append(prepared.levels, False),
        grouping=Grouping.separate(prepared.terms.size + 1),
    )


def _fitted(sample: PreparedSample, context: Context) -> ErrorSpread | None:
    """Return the fit of the sample's terms to its target, of mean 0, with few ramps: logarithms of errors are noisy."""
    family, unit = Gaussian(), sample.target.std(axis=0)
    if not (unit > 0).all():
        return None
    task = SmoothProblem(sample.x, sample.target / unit, sample.weights, family)
    values = [np.unique(cells[~np.isnan(cells)]).size for cells in sample.x]
    counts = np.where(sample.levels, np.maximum(np.array(values) - 1, 1), SPREAD_RAMPS).tolist()
    ramps = [ramps_of(cells, sample.weights, count) for cells, count in zip(sample.x, counts, strict=True)]
    rows = MemoryRows(task, Layout.of(ramps, sample.levels.tolist()))
    fit = solve(rows, None, Steps(context))
    left_out = unit * left_out_scores(FitPosterior.of(task, fit), np.arange(len(task.target)))
    scaling = Scaling(np.zeros_like(unit), unit)
    scaled = replace(sample, target=task.target, target_scaling=scaling, exposure_unit=np.ones(1))
    return ErrorSpread(finish(scaled, family, tuple(fit.functions()), fit.intercept.copy()).model, left_out)


def _screened(x: Matrix, levels: NDArray[np.bool_], response: Matrix) -> Indices:
    """Return the terms of x (terms, rows) whose bins differ in the mean of the response, the surest first.

    One-way tables are compared with a constant by an F test, summed over outputs.
    """
    rows, outputs = response.shape
    centred = np.clip(response - response.mean(axis=0), None, 4.0 * response.std(axis=0))
    total = float(np.sum(centred**2))
    log_p = np.zeros(len(x))
    for term, codes in enumerate(bin_codes(x, levels)):
        for cut in CUTS:
            joined = np.where(codes == SCREEN_BINS, SCREEN_BINS, codes // cut) if not levels[term] else codes
            counts = np.bincount(joined, minlength=SCREEN_CODES)
            filled = counts > 0
            n_filled = int(filled.sum())
            freed, below = outputs * (n_filled - 1), outputs * (rows - n_filled)
            if freed < 1 or below < 1:
                continue
            sums = np.stack([np.bincount(joined, column, SCREEN_CODES)[filled] for column in centred.T])
            ratio = 1.0 - float(np.sum(sums**2 / counts[filled])) / total if total > 0 else 1.0
            p_value = float(np.asarray(betainc(0.5 * below, 0.5 * freed, np.clip(ratio, 0.0, 1.0)), dtype=np.float64))
            log_p[term] = min(log_p[term], np.log(max(p_value, 1e-300) * len(CUTS)))
    passing = np.flatnonzero(log_p + np.log(len(x)) < np.log(SPREAD_LEVEL))
    return passing[np.argsort(log_p[passing], kind="stable")][:MOST_SPREAD_TERMS]
