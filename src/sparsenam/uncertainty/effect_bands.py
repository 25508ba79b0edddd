"""Bands about the effects of a fitted estimator: between which limits each curve lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from sparsenam.errors import InputError, check_number, check_word, describe
from sparsenam.findings import Finding
from sparsenam.fit import Fit
from sparsenam.model import AdditiveModel
from sparsenam.model.bands import Bands, Verdict
from sparsenam.tables.encoder import column_places
from sparsenam.text import count_text

BandScale = Literal["link", "response"]


class BandsRefusedError(InputError):
    """Bands were asked of a model for which none would hold."""


@dataclass(frozen=True, slots=True, eq=False)
class EffectBands:
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

    def __str__(self) -> str:
        """Return the finding as text."""
        return str(self.finding())


def effect_bands(
    fit: Fit, X: ArrayLike, level: float = 0.95, simultaneous: bool = False, scale: BandScale = "link"
) -> EffectBands:
    """Return the effect of each column in each row, with limits about it."""
    check_number("level", level, 0.0, 1.0, open_below=True, open_above=True)
    check_word("scale", scale, ("link", "response"))
    bands, model = require_bands(fit), fit.model
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
    shown = [_on_scale(model, effect + side * half, scale) for side in (0.0, -1.0, 1.0)]
    shown[0] = _on_scale(model, effect, scale)  # also where there are no limits
    pairs = [_on_scale(model, pair_effect + side * pair_half, scale) for side in (0.0, -1.0, 1.0)]
    return EffectBands(
        effect=shown[0],
        lower=shown[1],
        upper=shown[2],
        pair_effect=pairs[0],
        pair_lower=pairs[1],
        pair_upper=pairs[2],
        level=level,
        simultaneous=simultaneous,
        verdict=bands.verdict,
        reason=bands.reason,
        without=without,
    )


def _never_seen(fit: Fit, terms: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which cells (rows, columns) of kept columns the fit saw nothing like: new levels, first gaps."""
    found = np.zeros((len(terms), len(fit.encoder.columns)), dtype=np.bool_)
    for term in fit.model.terms:
        column = fit.encoder.terms[int(term)].column
        if fit.encoder.columns[column].n_missing == 0:
            found[:, column] |= np.isnan(terms[:, int(term)])
    return found


def require_bands(fit: Fit) -> Bands:
    """Return the bands; raise where there are none that would hold."""
    bands = fit.bands
    remedy = "look at curves without limits"
    if bands is None:
        got, remedy = "none", "fit again"
        raise BandsRefusedError(describe("bands", "a fit that kept its uncertainty", got, remedy))
    if bands.verdict == "refused":
        raise BandsRefusedError(f"bands: none would hold here, since {bands.reason}; {remedy}.")
    return bands


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
