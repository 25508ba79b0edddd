"""Bands about effects: what a fit keeps of how its curves vary, how that is found, and the limits read from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from sparsenam.codec import Array, Count, Matrix, MaybeNaN, Vector
from sparsenam.context import Context
from sparsenam.convex.design import Ramps
from sparsenam.errors import InputError, check_number, check_word, describe
from sparsenam.fitting.problem import Fitted, SmoothEvidence
from sparsenam.model import AdditiveModel
from sparsenam.model.pairs import PairFunction
from sparsenam.smooth.engine import SmoothProblem
from sparsenam.smooth.grid import PairSpread
from sparsenam.tables.encoder import column_places
from sparsenam.text import Finding, Found, count_text
from sparsenam.uncertainty.posterior import FitPosterior, band_freedom, curve_covariances

if TYPE_CHECKING:
    from sparsenam.fit import Fit

Verdict = Literal["shown", "approximate", "refused"]
BandScale = Literal["link", "response"]


# of the largest standardised deviation over a whole curve; quantiles at these levels are kept
LEVELS = 1.0 - np.geomspace(0.5, 0.002, 25)
# of the largest deviation over a curve, and principal directions that they are made of
BAND_DRAWS, BAND_DIRECTIONS = 2000, 32
MOST_BAND_KNOTS = 65  # of a band; it is smooth in between; chosen without a measurement
# working weights for each degree of freedom: bands without a caveat, and any at all
ENOUGH_WEIGHT, SCARCE_WEIGHT = 5.0, 3.0  # chosen without a measurement
SHAPED = "its shape was asked for, and bands take curves as free"


def between(x: Vector, knots: Vector, values: Matrix) -> Matrix:
    """Return functions with values (knots, k) at knots (knots,), linear in between, at x (rows,): shape (rows, k)."""
    found = np.empty((x.size, values.shape[1]))
    for column in range(values.shape[1]):
        found[:, column] = np.interp(x, knots, values[:, column])
    return found


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
        present = ~np.isnan(x)
        found = np.zeros((x.size, self.deviations.shape[1]))
        found[present] = between(x[present], self.knots, self.deviations)
        return found

    def critical(self, level: float) -> Vector:
        """Return how many standard deviations cover the whole curve at a level, shape (outputs,)."""
        if level <= LEVELS[0]:  # below, only the pointwise ones bound it
            return np.maximum(self.maxima[0] * level / LEVELS[0], ndtri(0.5 + 0.5 * level))
        scale = -np.log1p(-LEVELS)
        return between(np.array([-np.log1p(-level)]), scale, self.maxima)[0]


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """What a fit knows of the uncertainty of its effects.

    ``information`` are the rows' working weights for each degree of freedom of the bands; ``verdict`` says whether
    bands are shown, shown as approximate, or refused, and ``reason`` why. ``without`` has the reason of terms that
    have none. ``pairs`` are the standard deviations (rows, columns, outputs) at the nodes of each pair of the model.
    """

    verdict: Verdict
    reason: str
    information: MaybeNaN
    terms: tuple[TermBand, ...] = ()
    without: Mapping[int, str] = field(default_factory=dict[int, str])
    pairs: tuple[Annotated[NDArray[np.float64], Array(3, 0.0)], ...] = ()

    @classmethod
    def refused(cls, reason: str, information: float = float("nan")) -> Bands:
        """Return the bands of a fit that has none."""
        return cls("refused", reason, information)

    def deviations(self, terms: Matrix, n_outputs: int) -> NDArray[np.float64]:
        """Return the standard deviations of all terms' effects (rows, n_terms, outputs), NaN of those without."""
        found = np.zeros((*terms.shape, n_outputs))
        found[:, list(self.without)] = np.nan
        for band in self.terms:
            found[:, band.term] = band.at(terms[:, band.term])
        return found

    def pair_deviations(self, pairs: tuple[PairFunction, ...], terms: Matrix) -> NDArray[np.float64]:
        """Return those of the pairs of a model, shape (rows, pairs, outputs)."""
        outputs = pairs[0].values.shape[2] if pairs else 1
        found = np.zeros((len(pairs), len(terms), outputs))
        for effect, pair, deviations in zip(found, pairs, self.pairs, strict=True):
            PairFunction(pair.terms, pair.knots, deviations, pair.weights).add_to(effect, terms)
        return found.swapaxes(0, 1)


def bands_of(fitted: Fitted, context: Context) -> Bands:
    """Return how uncertain the effects of a fit are; refused where that cannot be said."""
    evidence = fitted.smooth
    if evidence is None:
        return Bands.refused("bands come from the smooth fit, and this model was fitted in another way")
    family, prepared = evidence.problem.family, evidence.problem.prepared
    if family.dispersion == "empirical":
        return Bands.refused(f"the {family.name} loss is no likelihood, so that nothing says how far curves vary")
    unit, scaling = prepared.target_scaling.scale, prepared.scaling
    free = [term for term in range(len(evidence.fit.ramps)) if term not in evidence.fit.shapes]
    without = {
        int(prepared.terms[evidence.places[term]]): SHAPED
        for term in evidence.fit.shapes
        if int(prepared.terms[evidence.places[term]]) in fitted.model.terms
    }
    bands, information = dict[int, TermBand](), float("nan")
    if free:
        posterior = _posterior(evidence, free)
        information = float(np.mean([part.sum() for part in posterior.weights]))
        information /= float(band_freedom(posterior.degrees_of_freedom).sum())
        if information < SCARCE_WEIGHT:
            return Bands.refused(_scarce(information), information)
        covariances = curve_covariances(posterior)
        normals = context.streams.generator("bands").standard_normal((BAND_DIRECTIONS, BAND_DRAWS))
        for index, term in enumerate(free):
            columns = posterior.layout.slices[index]
            parts = [output[index] for output in covariances]
            place = int(evidence.places[term])
            ramps, means = posterior.layout.ramps[index], posterior.design.means[columns]
            is_unordered = bool(prepared.levels[place])
            bands[place] = term_band(place, ramps, means, parts, normals, is_unordered=is_unordered)
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
        if int(prepared.terms[place]) not in without
    )
    reason = _scarce(information) if information < ENOUGH_WEIGHT else ""
    if not reason and family.couples_outputs and unit.size > 1:
        reason = "classes share one curvature, which is a mean of theirs"
    pairs = tuple(_short(spread.nodes * unit) for spread in evidence.pairs)
    return Bands("approximate" if reason else "shown", reason, information, terms, without, pairs)


def _short(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values with the digits that a model file keeps: those of single precision, of any size."""
    digits, power = np.frexp(values)
    return np.ldexp(np.rint(digits * 2.0**24) / 2.0**24, power)


def _scarce(information: float) -> str:
    needed = (
        f"{SCARCE_WEIGHT:g} are needed"
        if information < SCARCE_WEIGHT
        else f"below {ENOUGH_WEIGHT:g} bands may be too narrow"
    )
    return f"the rows hold {information:.1f} observations' worth of information for each degree of freedom; {needed}"


def _posterior(evidence: SmoothEvidence, free: list[int]) -> FitPosterior:
    """Return the posterior of the terms without a shape, all else taken as known."""
    prepared, places = evidence.problem.prepared, evidence.places[free]
    present = prepared.weights > 0
    x = prepared.x[:, present]
    offset = None if evidence.offset is None else evidence.offset[present]
    if evidence.fit.shapes:
        functions = evidence.fit.functions()
        held = np.sum([functions[term](x[evidence.places[term]]) for term in evidence.fit.shapes], axis=0)
        offset = held if offset is None else offset + held
    task = SmoothProblem(x[places], prepared.target[present], prepared.weights[present], evidence.problem.family)
    levels = prepared.levels[places]
    return FitPosterior.of(task, evidence.fit.take(free), levels, offset)


def term_band(
    term: int, ramps: Ramps, means: Vector, covariances: Sequence[Matrix], normals: Matrix, *, is_unordered: bool
) -> TermBand:
    """Return the band of one term on the scale of the fit; ``covariances`` has one (m, m) for each output.

    ``means`` (m,) are those of the ramps over the rows: the band is of the centred curve. The largest deviations of all
    terms are made of the same standard ``normals`` (directions, draws). Every level of an unordered category is kept.
    """
    size = ramps.size
    every = 1 if is_unordered else max(1, int(np.ceil(size / (MOST_BAND_KNOTS - 1))))
    kept = np.unique(np.append(np.arange(0, size + 1, every), size))
    values = np.vstack([np.zeros(size), np.tril(np.ones((size, size)))])[kept] - means
    deviations, maxima = list[Vector](), list[Vector]()
    for covariance in covariances:
        spread = values @ covariance @ values.T
        deviation = np.sqrt(np.maximum(spread.diagonal(), 0.0))
        strengths, vectors = np.linalg.eigh(0.5 * (spread + spread.T))
        root = (vectors * np.sqrt(np.maximum(strengths, 0.0)))[:, -BAND_DIRECTIONS:]  # the others hold next to nothing
        sizes = np.sqrt(np.sum(root**2, axis=1))
        draws = np.abs(root @ normals[: root.shape[1]])
        relative = draws / np.maximum(sizes, 1e-12 * max(float(sizes.max()), 1e-300))[:, None]
        deviations.append(deviation)
        maxima.append(np.asarray(np.quantile(relative.max(axis=0), LEVELS), dtype=np.float64))
    return TermBand(term, ramps.knots[kept], np.stack(deviations, axis=1), np.stack(maxima, axis=1))


def _add_margins(bands: dict[int, TermBand], spread: PairSpread, places: list[int]) -> None:
    """Add to the bands of a pair's two terms what the pair's margins, which are part of their effects, may be off."""
    for place, knots, margin in zip(places, spread.knots, (spread.rows, spread.columns), strict=True):
        band = bands.get(place)
        if band is None:
            outputs = margin.shape[1]
            bands[place] = TermBand(place, knots, margin[:-1], np.repeat(_alone(knots)[:, None], outputs, axis=1))
            continue
        extra = between(band.knots, knots, margin[:-1])
        bands[place] = replace(band, deviations=np.hypot(band.deviations, extra))


def _alone(knots: Vector) -> Vector:
    """Return the quantiles of the largest of independent normal deviations, a bound for a margin on its own."""
    return np.asarray(ndtri(0.5 + 0.5 * LEVELS ** (1.0 / max(knots.size, 1))), dtype=np.float64)


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
        """Return in words what limits these are."""
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
    bands, model = _require_bands(fit), fit.model
    terms = fit.reader().encode(X)
    outputs = model.intercept.size
    widths = bands.deviations(terms, outputs)
    point = float(ndtri(0.5 + 0.5 * level))
    critical = np.full((model.n_terms, outputs), point)
    if simultaneous:
        for band in bands.terms:
            critical[band.term] = band.critical(level)
    effect = fit.by_column(model.effects(terms))
    half = fit.by_column(widths * critical)  # of several terms, the sum of their widths is the most it can be
    pair_effect = model.pair_effects(terms)
    pair_half = point * bands.pair_deviations(model.pairs, terms)
    if outputs == 1:
        pair_effect, pair_half = pair_effect[:, :, 0], pair_half[:, :, 0]
    places = column_places(fit.encoder)
    without = {fit.encoder.names[fit.encoder.terms[term].column]: why for term, why in bands.without.items()}
    for edit in fit.edits:
        if edit.column is not None:
            without[edit.column] = "it was edited after the fit"
    half[:, [places[name] for name in without]] = np.nan
    half[_never_seen(fit, terms)] = np.nan
    limits = _with_limits(model, effect, half, scale)
    pair_limits = _with_limits(model, pair_effect, pair_half, scale)
    return EffectBands(*limits, *pair_limits, level, simultaneous, bands.verdict, bands.reason, without)


def _never_seen(fit: Fit, terms: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which cells (rows, columns) of kept columns the fit saw nothing like: new levels, first gaps."""
    found = np.zeros((len(terms), len(fit.encoder.columns)), dtype=np.bool_)
    for term in fit.model.terms:
        column = fit.encoder.terms[int(term)].column
        if fit.encoder.columns[column].n_missing == 0:
            found[:, column] |= np.isnan(terms[:, int(term)])
    return found


def _require_bands(fit: Fit) -> Bands:
    """Return the bands; raise where there are none that would hold."""
    if fit.bands is None:
        raise BandsRefusedError(describe("bands", "a fit that kept its uncertainty", "none", "fit again"))
    if fit.bands.verdict == "refused":
        why = fit.bands.reason
        raise BandsRefusedError(f"bands: none would hold here, since {why}; look at curves without limits.")
    return fit.bands


def _with_limits(
    model: AdditiveModel, effect: NDArray[np.float64], half: NDArray[np.float64], scale: BandScale
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return effects on a scale, and the limits that lie ``half`` below and above them on that of the link."""
    lower, upper = _on_scale(model, effect - half, scale), _on_scale(model, effect + half, scale)
    return _on_scale(model, effect, scale), lower, upper


def _on_scale(model: AdditiveModel, effects: NDArray[np.float64], scale: BandScale) -> NDArray[np.float64]:
    """Return effects (rows, columns[, outputs]) as they are, or as predictions beside average other columns."""
    if scale == "link":
        return effects
    several = effects if effects.ndim == 3 else effects[:, :, None]
    if model.family.couples_outputs and model.intercept.size > 1:
        expected, got = "outputs that do not hang on each other", f"{model.intercept.size} classes"
        raise InputError(describe("scale", expected, got, "take scale='link'"))
    means = np.empty_like(several)
    for column in range(several.shape[1]):
        means[:, column] = model.family.mean(several[:, column] + model.intercept)
    return means.reshape(effects.shape)
