"""The posterior of a smooth fit: bands about its curves, and its scores of each row without that row.

The posterior takes the smoothness as known. For bands two things are added: the first-order effect of its uncertainty
(Wood, Pya and Säfken, 2016), and the spread that a curve would have with one degree of freedom more, and at least two:
smoothing takes the tops off curves, and what the likelihood made flat or straight need not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, lapack
from scipy.optimize import brentq
from scipy.special import ndtri

from sparsenam.codec import Array, Count, Indices, Matrix, MaybeNaN, Vector
from sparsenam.context import Context
from sparsenam.convex.ramps import GHOSTS
from sparsenam.families import Family
from sparsenam.fit.problem import FamilyProblem, Fitted, SmoothEvidence
from sparsenam.fit.summary import Explained
from sparsenam.model.curve import interpolated
from sparsenam.selection.choose import MEAN_LOSS_ROUNDING, Choice
from sparsenam.selection.curve import mean_and_error
from sparsenam.smooth.design import RampDesign
from sparsenam.smooth.engine import SecondOrder, SmoothFit, SmoothProblem
from sparsenam.smooth.fit import MemoryRows
from sparsenam.smooth.grid import PairSpread

Verdict = Literal["shown", "approximate", "refused"]
Caveat = Literal["none", "another fit", "no likelihood", "few rows", "shared curvature"]

# of the largest standardised deviation over a whole curve; quantiles at these levels are kept
LEVELS = 1.0 - np.geomspace(0.5, 0.002, 25)
# of the largest deviation over a curve, and principal directions that they are made of
BAND_DRAWS, BAND_DIRECTIONS = 2000, 32
# make constants: MOST_BAND_KNOTS halved +1.1 %, doubled -0.1 % bands
MOST_BAND_KNOTS = 65  # of a band; it is smooth in between
# working weights for each degree of freedom: bands without a caveat, and any at all
ENOUGH_WEIGHT, SCARCE_WEIGHT = 5.0, 3.0
# make constants: LEAST_CURVATURE halved +2.3 %, doubled -1.6 % bands
LEAST_CURVATURE = 0.05  # of the restricted likelihood in log λ: a deviation of log λ is at most 4.5
# A band is that of a curve with so many more degrees of freedom than the fit took, and at least so many: what was
# smoothed away must lie within. Coverage of whole curves at 95 %, 500 rows, effects of 0.4 noise deviations each: 0.90
# with none more, 0.96 with one, 0.98 with two (benchmarks/bands.py has others, which did not set this)
# make constants: MORE_FREEDOM halved -3.5 %, doubled +12 % bands
# make constants: LEAST_FREEDOM halved -0.28 %, doubled +10 % bands
MORE_FREEDOM, LEAST_FREEDOM = 1.0, 2.0
# share of the rows used as degrees of freedom below which rows may share them evenly, where the exact shares would take
# long. Coverage at 0.9 with exact and with even shares: 0.899 and 0.899 at 0.05 (California, 3000 rows), 0.889 and
# 0.886 at 0.12, 0.897 and 0.883 at 0.24 (the paper's regression, 500 and 200 rows)
# make constants: EVEN_FREEDOM halved +0 %, doubled -0.16 % intervals
EVEN_FREEDOM, QUICK_COLUMNS = 0.1, 300
MOST_LEVERAGE = 0.99  # a row that the fit follows whatever it says has no score without it
CAVEATS: dict[Caveat, str] = {
    "none": "",
    "another fit": "bands come from the smooth fit, and this model was fitted in another way",
    "no likelihood": "its loss is no likelihood, so that nothing says how far curves vary",
    "shared curvature": "classes share one curvature, which is a mean of theirs",
}


@dataclass(frozen=True, slots=True, eq=False)
class TermBand:
    """The standard deviations (knots, outputs) of one term's centred effect at knots (knots,), linear in between.

    ``maxima`` (levels, outputs) are the quantiles, at `LEVELS`, of the largest deviation over the whole curve in
    standard deviations: a band of so many covers the whole curve at that level.
    """

    term: Count
    knots: Vector
    deviations: Annotated[Matrix, Array(2, 0.0)]
    maxima: Annotated[Matrix, Array(2, 0.0)]

    def at(self, x: Vector) -> Matrix:
        """Return the standard deviations at x (rows,), shape (rows, outputs); 0 where x is NaN, level beyond the ends.

        A term adds nothing for certain where it is absent.
        """
        return np.where(np.isnan(x)[:, None], 0.0, interpolated(x, self.knots, self.deviations))

    def critical(self, level: float) -> Vector:
        """Return how many standard deviations cover the whole curve at a level, shape (outputs,)."""
        if level <= LEVELS[0]:  # below, only the pointwise ones bound it
            return np.maximum(self.maxima[0] * level / LEVELS[0], ndtri(0.5 + 0.5 * level))
        return interpolated(-np.log1p([-level]), -np.log1p(-LEVELS), self.maxima)[0]


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """What a fit knows of the uncertainty of its effects.

    ``information`` are the rows' working weights for each degree of freedom of the bands, ``caveat`` says why bands
    are approximate or refused. The terms ``without`` a band are those of a shape that was asked for. ``pairs`` are the
    standard deviations (rows, columns, outputs) at the nodes of each pair of the model.
    """

    caveat: Caveat
    information: MaybeNaN = float("nan")
    terms: tuple[TermBand, ...] = ()
    without: tuple[Count, ...] = ()
    pairs: tuple[Annotated[NDArray[np.float64], Array(3, 0.0)], ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Whether bands are shown, shown as approximate, or refused."""
        if self.caveat in ("another fit", "no likelihood") or self.information < SCARCE_WEIGHT:
            return "refused"
        return "shown" if self.caveat == "none" else "approximate"

    @property
    def reason(self) -> str:
        """The caveat in words, empty where there is none."""
        if self.caveat != "few rows":
            return CAVEATS[self.caveat]
        enough = f"below {ENOUGH_WEIGHT:g} bands may be too narrow"
        needed = f"{SCARCE_WEIGHT:g} are needed" if self.verdict == "refused" else enough
        known = f"{self.information:.1f} observations' worth of information"
        return f"the rows hold {known} for each degree of freedom; {needed}"

    def deviations(self, terms: Matrix, n_outputs: int) -> NDArray[np.float64]:
        """Return the standard deviations of all terms' effects (rows, n_terms, outputs), NaN of those without."""
        found = np.zeros((*terms.shape, n_outputs))
        found[:, list(self.without)] = np.nan
        for band in self.terms:
            found[:, band.term] = band.at(terms[:, band.term])
        return found


def bands_of(fitted: Fitted, posterior: FitPosterior | None, context: Context) -> Bands:
    """Return how uncertain the effects of a fit are, given its posterior; refused where that cannot be said."""
    evidence = fitted.smooth
    if evidence is None:
        return Bands("another fit")
    family, prepared = evidence.problem.family, evidence.problem.prepared
    if family.dispersion == "empirical":
        return Bands("no likelihood")
    unit, scaling = prepared.target_scaling.scale, prepared.scaling
    shapes = list(evidence.fit.shapes)
    shaped = prepared.terms[evidence.places[shapes]]
    without = tuple(int(term) for term in shaped if term in fitted.model.terms)
    bands, information = dict[int, TermBand](), float("nan")  # by their places in ``prepared``
    if posterior is not None:
        information = float(np.mean(posterior.totals) / np.sum(band_freedom(posterior.degrees_of_freedom)))
        if information < SCARCE_WEIGHT:
            return Bands("few rows", information)
        normals = context.streams.generator("bands").standard_normal((BAND_DIRECTIONS, BAND_DRAWS))
        for index, place in enumerate(np.delete(evidence.places, shapes).tolist()):
            bands[place] = _term_band(posterior, index, normals, is_unordered=bool(prepared.levels[place]))
    for spread, pair in zip(evidence.pairs, fitted.model.pairs, strict=True):
        _add_margins(bands, spread, [int(np.flatnonzero(prepared.terms == term)[0]) for term in pair.terms])
    terms = tuple(
        TermBand(
            int(prepared.terms[place]),
            scaling.center[place] + scaling.scale[place] * band.knots,
            _short(band.deviations * unit),
            _short(band.maxima),
        )
        for place, band in sorted(bands.items())
        if prepared.terms[place] not in without
    )
    caveat: Caveat = "shared curvature" if family.couples_outputs and unit.size > 1 else "none"
    caveat = "few rows" if information < ENOUGH_WEIGHT else caveat
    return Bands(caveat, information, terms, without, tuple(_short(spread.nodes * unit) for spread in evidence.pairs))


def _short(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values with the digits that a model file keeps: those of single precision, of any size."""
    digits, power = np.frexp(values)
    return np.ldexp(np.rint(digits * 2.0**24) / 2.0**24, power)


def band_freedom(freedom: Vector) -> Vector:
    """Return the degrees of freedom that the bands of curves with so many (terms,) are drawn with."""
    return np.maximum(freedom + MORE_FREEDOM, LEAST_FREEDOM)


def _term_band(posterior: FitPosterior, term: int, normals: Matrix, *, is_unordered: bool) -> TermBand:
    """Return the band of one term's centred curve on the scale of the fit.

    The largest deviations of all terms are made of the same standard ``normals`` (directions, draws). Every level of an
    unordered category is kept.
    """
    ramps, means = posterior.layout.ramps[term], posterior.design.means[posterior.layout.slices[term]]
    every = 1 if is_unordered else max(1, int(np.ceil(ramps.size / (MOST_BAND_KNOTS - 1))))
    kept = np.unique(np.append(np.arange(0, ramps.size + 1, every), ramps.size))
    values = np.vstack([np.zeros(ramps.size), np.tril(np.ones((ramps.size, ramps.size)))])[kept] - means
    deviations, maxima = list[Vector](), list[Vector]()
    for covariance in _covariances(posterior, term):
        spread = values @ covariance @ values.T
        deviations.append(np.sqrt(np.maximum(spread.diagonal(), 0.0)))
        strengths, vectors = np.linalg.eigh(0.5 * (spread + spread.T))
        root = (vectors * np.sqrt(np.maximum(strengths, 0.0)))[:, -BAND_DIRECTIONS:]  # the others hold next to nothing
        sizes = np.sqrt(np.sum(root**2, axis=1))
        draws = np.abs(root @ normals[: root.shape[1]])
        relative = draws / np.maximum(sizes, 1e-12 * max(float(sizes.max()), 1e-300))[:, None]
        maxima.append(np.asarray(np.quantile(relative.max(axis=0), LEVELS), dtype=np.float64))
    return TermBand(term, ramps.knots[kept], np.stack(deviations, axis=1), np.stack(maxima, axis=1))


def _covariances(posterior: FitPosterior, term: int) -> list[Matrix]:
    """Return for each output the covariance (m, m) of a term's coefficients, all uncertainties included."""
    strengths, precision, beta = posterior.strengths[term], posterior.precisions[term], posterior.fit.parts[term]
    shared = beta.shape[1] // len(posterior.posteriors)  # outputs that have one posterior
    known = [part.spread.covariances[term] for part in posterior.posteriors]
    freedoms = [float(band_freedom(part.spread.degrees_of_freedom)[term]) for part in posterior.posteriors]
    wider = [_with_freedom(each, precision, freedom) for each, freedom in zip(known, freedoms, strict=True)]
    factors = _of_smoothness(posterior.layout.roughness[term], strengths, precision, known * shared, beta)
    return [each + factor @ factor.T for each, factor in zip(wider * shared, factors, strict=True)]


def _of_smoothness(
    matrices: Sequence[Matrix], strengths: Vector, precision: Matrix, covariances: Sequence[Matrix], beta: Matrix
) -> list[Matrix]:
    """Return for each output a factor J (m, λs), so that JJᵀ is a term's variance by that of its log λ, to first order.

    With dβ/dlog λᵢ = -V λᵢSᵢβ, and the variance of log λ the inverse of the restricted likelihood's Hessian. V (m, m)
    is the term's block of the posterior covariance, one for each output; the smoothness of other terms is taken as
    known, which changes bands by less than one part in a hundred.
    """
    scaled = [strength * matrix for strength, matrix in zip(strengths, matrices, strict=True)]
    safe = precision + 1e-13 * np.trace(precision) / len(precision) * np.eye(len(precision))
    relative = [np.asarray(np.linalg.solve(safe, each), dtype=np.float64) for each in scaled[:-1]]
    relative.append(np.eye(len(precision)) - np.sum(relative, axis=0))  # as P is the sum of all
    hessian, slopes = beta.shape[1] * _products(relative), list[Matrix]()
    for covariance, coefficients in zip(covariances, beta.T, strict=True):
        hessian -= _products([covariance @ each for each in scaled])
        pulls = np.stack([each @ coefficients for each in scaled], axis=1)
        slopes.append(-covariance @ pulls)
        hessian += 2.0 * pulls.T @ slopes[-1] + np.diag(coefficients @ pulls)
    values, vectors = np.linalg.eigh(0.25 * (hessian + hessian.T))
    root = vectors / np.sqrt(np.maximum(values, LEAST_CURVATURE))
    return [slope @ root for slope in slopes]


def _products(matrices: Sequence[Matrix]) -> Matrix:
    """Return the traces of the products of any two matrices, less the trace of each on the diagonal."""
    traces = np.array([[np.sum(one * other.T) for other in matrices] for one in matrices])
    return traces - np.diag([np.trace(each) for each in matrices])


def _with_freedom(covariance: Matrix, precision: Matrix, freedom: float) -> Matrix:
    """Return the covariance of a term under a prior so much weaker that it has this many degrees of freedom.

    With A = V⁻¹ - P what the rows know of the term, beside the others, V(t) = (A + tP)⁻¹ and the degrees of freedom are
    Σ μ/(μ + t), with μ the eigenvalues of A relative to P. A covariance with enough of them is returned as it is.
    """
    size = len(precision)
    wanted = min(freedom, size - 0.02)  # as many as it has ramps would leave no prior
    if size - float(np.sum(covariance * precision)) >= wanted:
        return covariance
    jitter = 1e-12 * np.diag(precision.diagonal())
    # VPu = u/(μ + 1): read off without a difference of large numbers
    values, vectors = eigh(covariance, precision + jitter, type=2)
    information = 1.0 / np.clip(values, 1e-12, 1.0) - 1.0

    def surplus(log_t: float) -> float:
        return float(np.sum(information / (information + np.exp(log_t)))) - wanted

    known = information[information > 1e-9]
    if known.size <= wanted or surplus(0.0) >= 0.0:
        return covariance
    t = float(np.exp(brentq(surplus, float(np.log(known.min())) - 20.0, 0.0)))
    spread = vectors / np.sqrt(information + t)
    return spread @ spread.T


def _add_margins(bands: dict[int, TermBand], spread: PairSpread, places: list[int]) -> None:
    """Add to the bands of a pair's two terms what the pair's margins, which are part of their effects, may be off."""
    for place, knots, margin in zip(places, spread.knots, (spread.rows, spread.columns), strict=True):
        band = bands.get(place)
        if band is not None:
            extra = interpolated(band.knots, knots, margin[:-1])
            bands[place] = replace(band, deviations=np.hypot(band.deviations, extra))
            continue
        # the largest of independent normal deviations bounds that of a margin on its own
        largest = np.asarray(ndtri(0.5 + 0.5 * LEVELS ** (1.0 / max(knots.size, 1))), dtype=np.float64)
        bands[place] = TermBand(place, knots, margin[:-1], np.repeat(largest[:, None], margin.shape[1], axis=1))


class FitPosterior(SecondOrder):
    """A fit without shapes, its scores (rows, outputs) on the training rows, and its coefficients' posterior there.

    ``offset`` (rows, outputs) is what other parts of the model add to the scores, and is taken as known. ``weights``
    (parts, rows) are the working weights of each output, or of all.
    """

    def __init__(self, task: SmoothProblem, fit: SmoothFit, offset: Matrix | float = 0.0) -> None:
        rows = MemoryRows(task, fit.layout)
        self.task, self.fit, self.design, self.offset = task, fit, rows.design, offset
        self.scores = rows.at(fit.coefficients, fit.intercept).scores + offset
        self.weights = task.weights * task.curvatures(self.scores)
        grams = [self.design.weighted_gram(each) for each in self.weights]
        super().__init__(fit.layout, grams, fit.strengths, fit.noise)

    @property
    def degrees_of_freedom(self) -> Vector:
        """Those of each term, the mean over outputs, shape (terms,)."""
        return np.mean([each.spread.degrees_of_freedom for each in self.posteriors], axis=0)


def task_of(problem: FamilyProblem) -> SmoothProblem:
    """Return what a smooth fit of all terms of a problem is given."""
    return SmoothProblem(problem.prepared.x, problem.prepared.target, problem.prepared.weights, problem.family)


def posterior_of(evidence: SmoothEvidence | None) -> FitPosterior | None:
    """Return the posterior of the terms without a shape, all else taken as known; None where there are none."""
    if evidence is None or len(evidence.fit.ramps) == len(evidence.fit.shapes):
        return None
    task, fit, places = task_of(evidence.problem), evidence.fit, evidence.places
    offset = 0.0 if evidence.offset is None else evidence.offset
    if fit.shapes:
        functions, free = fit.functions(), [term for term in range(len(fit.ramps)) if term not in fit.shapes]
        offset = offset + sum(functions[term](task.x[places[term]]) for term in fit.shapes)
        fit, places = fit.take(free), places[free]
    return FitPosterior(replace(task, x=task.x[places]), fit, offset)


def left_out_of(
    problem: FamilyProblem, fitted: Fitted, known: FitPosterior | None, rows: Indices, spent: float
) -> Matrix:
    """Return the scores of some rows without each of them, on the scale of the fit, shape (rows, outputs).

    ``known`` is the posterior of the fit, ``spent`` are degrees of freedom besides those of curves and pairs. Rows
    share those of pairs evenly.
    """
    prepared, smooth = problem.prepared, fitted.smooth
    of_curves = 0.0 if smooth is None else float(smooth.fit.degrees_of_freedom.sum())
    freedom = of_curves if fitted.freedom is None else fitted.freedom
    is_plain = smooth is not None and not smooth.fit.shapes and problem.solves_in_batches
    is_large = freedom > EVEN_FREEDOM * len(prepared.target)
    if known is not None and is_plain and (is_large or known.layout.size <= QUICK_COLUMNS):
        if not np.array_equal(prepared.weights, known.task.weights):
            known = FitPosterior(replace(known.task, weights=prepared.weights), known.fit, known.offset)
        return left_out_scores(known, rows, freedom - of_curves + spent - 1.0)
    posed, scores = problem.at(problem.scores(fitted.model))
    return left_out_evenly(task_of(posed), scores, rows, freedom + spent)


def is_of_classes(family: Family) -> bool:
    """Return whether the family is one of classes or labels, whose predictions are probabilities."""
    return family.response in ("binary", "classes", "labels")


def explained_by(
    problem: FamilyProblem, choice: Choice, rows: Indices, inflation: float, scores: Matrix, without: Matrix | None
) -> Explained:
    """Return what left-out scores (rows, outputs) explain of the loss, and how much more than those without pairs."""
    every, zeros = np.arange(problem.prepared.weights.size), np.zeros_like(problem.prepared.target)
    _, loss = problem.judged_by(choice.task, [(every, rows)], zeros)
    empty, _ = problem.at(zeros)
    prepared, family = empty.prepared, empty.family
    constant = np.tile(family.best_constant(prepared.target, prepared.weights), (every.size, 1))
    if problem.solves_in_batches and not is_of_classes(family):
        constant = left_out_evenly(task_of(problem), constant, every, 1.0)
    null, weights = loss.of_fold(0, rows, constant[rows]), loss.weights[rows]
    unit = max(abs(mean_and_error(null, weights)[0]), np.finfo(float).tiny)

    def explained(given: Matrix) -> tuple[float, float]:
        gains = null - inflation * loss.of_fold(0, rows, given)
        gains[np.abs(gains) <= MEAN_LOSS_ROUNDING * unit] = 0.0  # the empty model explains nothing
        gain, error = mean_and_error(gains, weights)
        return gain / unit, error / unit

    share, error = explained(scores)
    return Explained(share, error, None if without is None else share - explained(without)[0])


def leverages(known: FitPosterior, rows: Indices, extra: float = 0.0) -> Matrix:
    """Return by how much each row's score follows the row itself, shape (rows, outputs or 1).

    With V the posterior covariance, m the mean of the columns z under the working weights W and φ the noise, this is
    Wᵢ ((zᵢ - m)ᵀV(zᵢ - m)/φ + 1/ΣW): for squared loss the diagonal of the smoother. ``extra`` degrees of freedom, spent
    on what V does not know of, are shared among the rows as the intercept's is.
    """
    found = np.zeros((rows.size, len(known.posteriors)))
    parts = zip(known.posteriors, known.grams, known.weights, strict=True)
    for output, (part, gram, weights) in enumerate(parts):
        even = weights[rows] * (1.0 + extra) / gram.total
        if gram.root is not None:
            root = gram.root[:, rows]
            found[:, output] = np.sum(root * part.solve(root), axis=0) / known.noise + even
            continue
        lower = np.tril(lapack.dpotri(part.factor, lower=1)[0])
        covariance = (lower + np.tril(lower, -1).T) * np.outer(part.scales, part.scales)
        shift = covariance @ gram.means
        squares = _quadratic_form(known.design, covariance, rows) + float(gram.means @ shift)
        squares -= 2.0 * known.design.times(shift[:, None])[rows, 0]
        found[:, output] = weights[rows] * squares / known.noise + even
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
