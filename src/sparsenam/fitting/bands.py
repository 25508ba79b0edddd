"""The bands of a finished fit, in the units of the table; or why there are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sparsenam.context import Context
from sparsenam.fitting.problem import Fitted, SmoothEvidence, Vector
from sparsenam.model.bands import LEVELS, Bands, TermBand, between
from sparsenam.smooth.bands import band_freedom, curve_covariances, normal_draws, term_band
from sparsenam.smooth.engine import SmoothProblem
from sparsenam.smooth.grid import PairSpread
from sparsenam.smooth.uncertainty import FitPosterior

ENOUGH, SCARCE = 5.0, 3.0  # working weights for each degree of freedom: bands without a caveat, and any at all
SHAPED = "its shape was asked for, and bands take curves as free"


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
        if information < SCARCE:
            return Bands.refused(_scarce(information), information)
        covariances, normals = curve_covariances(posterior), normal_draws(context.streams.generator("bands"))
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
    verdict = Bands(
        "shown", "", information, terms, without, tuple(_short(spread.nodes * unit) for spread in evidence.pairs)
    )
    if information < ENOUGH:
        return replace(verdict, verdict="approximate", reason=_scarce(information))
    if family.couples_outputs and unit.size > 1:
        return replace(verdict, verdict="approximate", reason="classes share one curvature, which is a mean of theirs")
    return verdict


def _short(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values with the digits that a model file keeps: those of single precision, of any size."""
    digits, power = np.frexp(values)
    return np.ldexp(np.rint(digits * 2.0**24) / 2.0**24, power)


def _scarce(information: float) -> str:
    needed = f"{SCARCE:g} are needed" if information < SCARCE else f"below {ENOUGH:g} bands may be too narrow"
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
