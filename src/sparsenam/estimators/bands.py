"""Bands about the effects of a fitted estimator: between which limits each curve lies."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from sparsenam.errors import InputError, check_number, check_word, describe
from sparsenam.findings import Finding
from sparsenam.fit.summary import reader_of
from sparsenam.text import count_text
from sparsenam.model import AdditiveModel
from sparsenam.model.bands import Bands, Verdict
from sparsenam.model.editing import Edit
from sparsenam.tables import TableEncoder
from sparsenam.tables.encoder import column_places

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


class BandsMixin:
    """Bands of a fitted estimator."""

    model_: AdditiveModel
    encoder_: TableEncoder
    bands_: Bands | None
    edits_: tuple[Edit, ...]

    def effect_bands(
        self, X: ArrayLike, level: float = 0.95, simultaneous: bool = False, scale: BandScale = "link"
    ) -> EffectBands:
        """Return the effect of each column in each row, with limits about it.

        A limit is of the curve, not of y: see ``predict_interval`` for that. The bands take the fit's posterior, add
        what is not known of the smoothness, and hold for the range of the training data.

        Parameters
        ----------
        X : table of shape (rows, features)
            The rows.
        level : float
            The share of curves, in repetitions of the study, that lie within the limits.
        simultaneous : bool
            False for limits of single points, True for limits of whole curves: then a curve leaves them nowhere, at the
            given level. For pairs they are of single points in any case.
        scale : {"link", "response"}
            What a column adds to the score, or the prediction with all other columns at their average: a probability
            or a rate.

        Raises
        ------
        BandsRefusedError
            When no band would hold: with too few rows for what was fitted, and for models that are no smooth fit.
        """
        check_is_fitted(self)
        check_number("level", level, 0.0, 1.0, open_below=True, open_above=True)
        check_word("scale", scale, ("link", "response"))
        bands, model = self._require_bands(), self.model_
        terms = reader_of(self.encoder_, model).encode(X)
        outputs = model.intercept.size
        widths = bands.deviations(terms, outputs)
        point = float(ndtri(0.5 + 0.5 * level))
        critical = np.full((model.n_terms, outputs), point)
        if simultaneous:
            for band in bands.terms:
                critical[band.term] = band.critical(level)
        effect = self._by_column(model.effects(terms))
        half = self._by_column(widths * critical)  # of several terms, the sum of their widths is the most it can be
        pair_effect = model.pair_effects(terms)
        pair_half = point * bands.pair_deviations(model.pairs, terms)
        if outputs == 1:
            pair_effect, pair_half = pair_effect[:, :, 0], pair_half[:, :, 0]
        places = column_places(self.encoder_)
        without = {self.encoder_.names[self.encoder_.terms[term].column]: why for term, why in bands.without.items()}
        for edit in self.edits_:
            if edit.column is not None:
                without[edit.column] = "it was edited after the fit"
        half[:, [places[name] for name in without]] = np.nan
        half[self._never_seen(terms)] = np.nan
        shown = [self._on_scale(effect + side * half, scale) for side in (0.0, -1.0, 1.0)]
        shown[0] = self._on_scale(effect, scale)  # also where there are no limits
        pairs = [self._on_scale(pair_effect + side * pair_half, scale) for side in (0.0, -1.0, 1.0)]
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

    def _never_seen(self, terms: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which cells (rows, columns) of kept columns the fit saw nothing like: new levels, first gaps."""
        found = np.zeros((len(terms), len(self.encoder_.columns)), dtype=np.bool_)
        for term in self.model_.terms:
            column = self.encoder_.terms[int(term)].column
            if self.encoder_.columns[column].n_missing == 0:
                found[:, column] |= np.isnan(terms[:, int(term)])
        return found

    def _require_bands(self) -> Bands:
        """Return the bands; raise where there are none that would hold."""
        bands = self.bands_
        remedy = "look at curves without limits"
        if bands is None:
            got, remedy = "a model file of an earlier version, which has none", "fit again"
            raise BandsRefusedError(describe("bands", "a fit that kept its uncertainty", got, remedy))
        if bands.verdict == "refused":
            raise BandsRefusedError(f"bands: none would hold here, since {bands.reason}; {remedy}.")
        return bands

    def _on_scale(self, effects: NDArray[np.float64], scale: BandScale) -> NDArray[np.float64]:
        """Return effects (rows, columns[, outputs]) as they are, or as predictions beside average other columns."""
        if scale == "link":
            return effects
        model = self.model_
        several = effects if effects.ndim == 3 else effects[:, :, None]
        if model.family.couples_outputs and model.intercept.size > 1:
            expected, got = "outputs that do not hang on each other", f"{model.intercept.size} classes"
            raise InputError(describe("scale", expected, got, "take scale='link'"))
        means = np.empty_like(several)
        for column in range(several.shape[1]):
            means[:, column] = model.family.mean(several[:, column] + model.intercept)
        return means.reshape(effects.shape)

    @abstractmethod
    def _by_column(self, effects: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return effects of terms (rows, terms, outputs) added up by column, without the axis of a single output."""
