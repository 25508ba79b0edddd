"""Limits about the effects of a table's rows, read from the bands of a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from sparsenam.errors import InputError, check_number, check_word, describe
from sparsenam.fit.pipeline import Fit
from sparsenam.model import AdditiveModel
from sparsenam.text import Finding, Found, count_text
from sparsenam.uncertainty.bands import Verdict

BandScale = Literal["link", "response"]


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
    pair_half = np.zeros_like(pair_effect)
    for place, (pair, deviations) in enumerate(zip(model.pairs, fit.of_pairs(bands.pairs), strict=True)):
        pair_half[:, place] = point * replace(pair, values=deviations).effect(terms)
    if outputs == 1:
        pair_effect, pair_half = pair_effect[:, :, 0], pair_half[:, :, 0]
    shaped = "its shape was asked for, and bands take curves as free"
    without = {encoder.names[encoder.terms[term].column]: shaped for term in bands.without}
    without |= {edit.column: "it was edited after the fit" for edit in fit.edits if edit.column is not None}
    half[:, [encoder.places[name] for name in without]] = np.nan
    for term in map(int, model.terms):  # new levels and first gaps: the fit saw nothing like them
        if encoder.columns[encoder.terms[term].column].n_missing == 0:
            half[np.isnan(terms[:, term]), encoder.terms[term].column] = np.nan
    limits = _on_scale(model, fit.by_column(model.effects(terms)), half, scale)
    pair_limits = _on_scale(model, pair_effect, pair_half, scale)
    return EffectBands(*limits, *pair_limits, level, simultaneous, bands.verdict, bands.reason, without)


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
