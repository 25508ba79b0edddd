"""Bands about effects: how the curves of a smooth fit vary, what the fit keeps of that, and the limits read from it.

The posterior takes the smoothness as known. For bands two things are added: the first-order effect of its uncertainty
(Wood, Pya and Säfken, 2016), and the spread that a curve would have with one degree of freedom more, and at least two:
smoothing takes the tops off curves, and what the likelihood made flat or straight need not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.special import ndtri

from sparsenam.codec import Array, Count, Matrix, MaybeNaN, Vector
from sparsenam.context import Context
from sparsenam.errors import InputError, check_number, check_word, describe
from sparsenam.fit.problem import Fitted, SmoothEvidence
from sparsenam.model import AdditiveModel
from sparsenam.model.curve import interpolated
from sparsenam.model.pairs import PairFunction
from sparsenam.smooth.engine import SmoothProblem
from sparsenam.smooth.grid import PairSpread
from sparsenam.text import Finding, Found, count_text
from sparsenam.uncertainty.posterior import FitPosterior

if TYPE_CHECKING:
    from sparsenam.fit.pipeline import Fit

Verdict = Literal["shown", "approximate", "refused"]
BandScale = Literal["link", "response"]
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

    def pair_deviations(self, pairs: tuple[PairFunction, ...], terms: Matrix, n_outputs: int) -> NDArray[np.float64]:
        """Return those of the pairs of a model, shape (rows, pairs, outputs)."""
        found = np.zeros((len(terms), len(pairs), n_outputs))
        for place, (pair, deviations) in enumerate(zip(pairs, self.pairs, strict=True)):
            found[:, place] = replace(pair, values=deviations).effect(terms)
        return found


def bands_of(fitted: Fitted, context: Context) -> Bands:
    """Return how uncertain the effects of a fit are; refused where that cannot be said."""
    evidence = fitted.smooth
    if evidence is None:
        return Bands("another fit")
    family, prepared = evidence.problem.family, evidence.problem.prepared
    if family.dispersion == "empirical":
        return Bands("no likelihood")
    unit, scaling = prepared.target_scaling.scale, prepared.scaling
    free = [term for term in range(len(evidence.fit.ramps)) if term not in evidence.fit.shapes]
    shaped = prepared.terms[evidence.places[list(evidence.fit.shapes)]]
    without = tuple(int(term) for term in shaped if term in fitted.model.terms)
    bands, information = dict[int, TermBand](), float("nan")  # by their places in ``prepared``
    if free:
        posterior = _posterior(evidence, free)
        information = float(np.mean([part.sum() for part in posterior.weights]))
        information /= float(np.sum(band_freedom(posterior.degrees_of_freedom)))
        if information < SCARCE_WEIGHT:
            return Bands("few rows", information)
        normals = context.streams.generator("bands").standard_normal((BAND_DIRECTIONS, BAND_DRAWS))
        for index, place in enumerate(evidence.places[free].tolist()):
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


def _posterior(evidence: SmoothEvidence, free: list[int]) -> FitPosterior:
    """Return the posterior of the terms without a shape, all else taken as known."""
    prepared, places = evidence.problem.prepared, evidence.places[free]
    present = prepared.weights > 0
    x = prepared.x[:, present]
    offset = 0.0 if evidence.offset is None else evidence.offset[present]
    if evidence.fit.shapes:
        functions = evidence.fit.functions()
        offset = offset + sum(functions[term](x[evidence.places[term]]) for term in evidence.fit.shapes)
    task = SmoothProblem(x[places], prepared.target[present], prepared.weights[present], evidence.problem.family)
    return FitPosterior.of(task, evidence.fit.take(free), offset)


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
    strengths, beta = posterior.fit.strengths[term], posterior.fit.parts[term]
    precision = posterior.layout.take([term]).precisions([strengths])[0]
    shared = beta.shape[1] // len(posterior.posteriors)  # outputs that have one posterior
    known = [part.covariances[term] for part in posterior.posteriors]
    freedoms = [float(band_freedom(part.degrees_of_freedom)[term]) for part in posterior.posteriors]
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


class BandsRefusedError(InputError):
    """Bands were asked of a model for which none would hold."""


@dataclass(frozen=True, slots=True, eq=False)
class EffectBands(Found):
    """The effects of all columns and limits about them, each (rows, columns), or (rows, columns, outputs) for several.

    On the scale of the link they are what a column adds to the score; on that of the response they are predictions with
    all other columns at their average. Limits are NaN for columns that have none, where ``without`` says why, and for
    cells unlike any that the fit saw; dropped columns have effects and limits of 0. The same for
    pairs, (rows, pairs[, outputs]). ``verdict`` is "shown" or "approximate", with the ``reason``.
    """

    effect: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    pair_effect: NDArray[np.float64]
    pair_lower: NDArray[np.float64]
    pair_upper: NDArray[np.float64]
    level: float
    simultaneous: bool
    verdict: Verdict
    reason: str
    without: dict[str, str]

    def finding(self) -> Finding:
        rows, columns = self.effect.shape[:2]
        what = "whole curves" if self.simultaneous else "single points"
        size = f"{count_text(rows, 'row')} and {count_text(columns, 'column')}"
        sentence = f"limits of {what} at a level of {100 * self.level:g} %, in {size}."
        notes = [f"They are {self.verdict}, since {self.reason}."] if self.reason else list[str]()
        if self.without:
            notes.append("Without limits: " + ", ".join(f"{name} ({why})" for name, why in self.without.items()) + ".")
        return Finding("Bands about effects", sentence, notes=tuple(notes))


def effect_bands(
    fit: Fit, X: ArrayLike, level: float = 0.95, simultaneous: bool = False, scale: BandScale = "link"
) -> EffectBands:
    """Return the effect of each column in each row, with limits about it."""
    check_number("level", level, 0.0, 1.0, open_below=True, open_above=True)
    check_word("scale", scale, ("link", "response"))
    bands, model, encoder = fit.bands, fit.model, fit.encoder
    if bands is None:
        raise BandsRefusedError(describe("bands", "a fit that kept its uncertainty", "none", "fit again"))
    if bands.verdict == "refused":
        raise BandsRefusedError(f"bands: none would hold here, since {bands.reason}; look at curves without limits.")
    terms, outputs = fit.reader().encode(X), model.intercept.size
    point = float(ndtri(0.5 + 0.5 * level))
    critical = np.full((model.n_terms, outputs), point)
    if simultaneous:
        for band in bands.terms:
            critical[band.term] = band.critical(level)
    # of several terms, the sum of their widths is the most it can be
    half = fit.by_column(bands.deviations(terms, outputs) * critical)
    pair_effect = model.pair_effects(terms)
    pair_half = point * bands.pair_deviations(model.pairs, terms, outputs)
    if outputs == 1:
        pair_effect, pair_half = pair_effect[:, :, 0], pair_half[:, :, 0]
    shaped = "its shape was asked for, and bands take curves as free"
    without = {encoder.names[encoder.terms[term].column]: shaped for term in bands.without}
    without |= {edit.column: "it was edited after the fit" for edit in fit.edits if edit.column is not None}
    half[:, [encoder.places[name] for name in without]] = np.nan
    half[_never_seen(fit, terms)] = np.nan
    limits = _on_scale(model, fit.by_column(model.effects(terms)), half, scale)
    pair_limits = _on_scale(model, pair_effect, pair_half, scale)
    return EffectBands(*limits, *pair_limits, level, simultaneous, bands.verdict, bands.reason, without)


def _never_seen(fit: Fit, terms: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which cells (rows, columns) of kept columns the fit saw nothing like: new levels, first gaps."""
    found = np.zeros((len(terms), len(fit.encoder.columns)), dtype=np.bool_)
    for term in fit.model.terms:
        column = fit.encoder.terms[int(term)].column
        if fit.encoder.columns[column].n_missing == 0:
            found[:, column] |= np.isnan(terms[:, int(term)])
    return found


def _on_scale(
    model: AdditiveModel, effect: NDArray[np.float64], half: NDArray[np.float64], scale: BandScale
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return effects (rows, columns[, outputs]) and the limits ``half`` below and above them on the link's scale.

    On that of the response they are predictions beside average other columns.
    """
    lower, upper = effect - half, effect + half
    if scale == "link":
        return effect, lower, upper
    outputs = model.intercept.size
    if model.family.couples_outputs and outputs > 1:
        expected, got = "outputs that do not hang on each other", f"{outputs} classes"
        raise InputError(describe("scale", expected, got, "take scale='link'"))

    def mean(scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return model.family.mean(scores.reshape(-1, outputs) + model.intercept).reshape(scores.shape)

    return mean(effect), mean(lower), mean(upper)
