"""Advice on the family of a target: a guess from its values, said only where held-out rows confirm it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skew

import sparsenam
from sparsenam.cli.display import plain_number
from sparsenam.cli.problem import LabelledRows
from sparsenam.context import Streams
from sparsenam.errors import InputError

Vector = NDArray[np.float64]

SKEWED_TARGET = 1.0  # skewness of an exponential distribution is 2, of a symmetric one 0
HEAVY = 0.1  # share of zeros
ADVICE_FOLDS = 3
MOST_ADVICE_ROWS = 3000  # rows that are compared on
FEWEST_ADVICE_ROWS = 60
GAIN = 0.05  # of the root mean squared error: less is not worth a line
SURE = 1.0  # standard errors of the difference, which the few largest rows make wide


def candidate(y: Vector) -> tuple[str, str] | None:
    """Return the family that the values of a target (rows,) suggest, and the reason; None for no other than Gauss's."""
    if not y.size or y.min() < 0 or y.max() == y.min():
        return None
    zeros = np.count_nonzero(y == 0) / y.size
    if bool((y == np.round(y)).all()) and y.mean() < 1000:
        return "poisson", "the target holds whole numbers from 0 on"
    if zeros >= HEAVY:
        return "tweedie", f"{100 * zeros:.0f} % of the target are 0 and the others positive"
    if zeros == 0 and skew(y) > SKEWED_TARGET and abs(skew(np.log(y))) < skew(y):
        return "gamma", "the target is positive and skewed"
    return None


def advise(rows: LabelledRows, kept: list[str], types: Mapping[str, str], seed: int, seconds: float) -> str | None:
    """Return the advice to take another family than Gauss's, where it is clearly better on held-out rows.

    Both families are fitted to the kept columns, in folds, within about so many seconds; None where the target suggests
    no other, where time is too short, and where the other is not clearly better.
    """
    suggested = candidate(rows.y.astype(np.float64))
    if suggested is None or not kept or len(rows.y) < FEWEST_ADVICE_ROWS:
        return None
    family, reason = suggested
    end = time.monotonic() + seconds
    order = Streams(seed).generator("advice").permutation(len(rows.y))[:MOST_ADVICE_ROWS]
    folds = [np.sort(part).astype(np.intp) for part in np.array_split(order, ADVICE_FOLDS)]
    rows = replace(rows, table=rows.table.select(kept))
    asked: Any = {name: kind for name, kind in types.items() if name in kept} or None
    losses: dict[str, list[Vector]] = {"gaussian": [], family: []}
    for number, held in enumerate(folds):
        rest = np.concatenate([part for place, part in enumerate(folds) if place != number])
        for name, found in losses.items():
            left = end - time.monotonic()
            if left <= 0:
                return None
            model = sparsenam.SNAMRegressor(
                alpha=0.0, family=name, feature_types=asked, max_seconds=left, random_state=0
            )
            try:
                found.append(_squared_errors(model, rows.take(rest), rows.take(held)))
            except InputError:  # such as levels that a fold does not have
                return None
    weights = None if rows.weights is None else rows.weights[np.concatenate(folds)]
    now, other = np.concatenate(losses["gaussian"]), np.concatenate(losses[family])
    if not _is_better(now, other, weights):
        return None
    error, error_now = (plain_number(float(np.sqrt(np.average(each, weights=weights)))) for each in (other, now))
    errors = f"root mean squared error {error} against {error_now} in {ADVICE_FOLDS} folds"
    return f"{reason}: --family {family} would predict better ({errors})."


def _is_better(now: Vector, other: Vector, weights: Vector | None) -> bool:
    """Return whether squared errors (rows,) are lower by more than chance and by enough to speak of."""
    difference = now - other
    gain = float(np.average(difference, weights=weights))
    error = float(np.sqrt(np.average((difference - gain) ** 2, weights=weights) / difference.size))
    enough = np.average(other, weights=weights) < (1.0 - GAIN) ** 2 * np.average(now, weights=weights)
    return bool(enough) and gain > SURE * error


def _squared_errors(model: sparsenam.SNAMRegressor, fitted: LabelledRows, held: LabelledRows) -> Vector:
    """Return the squared errors of held rows under a fit of the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what these fits warn of is not about the model that the user gets
        model.fit(fitted.table.native, fitted.y, **fitted.beside)
        return (held.y.astype(np.float64) - np.asarray(model.predict(held.table.native))) ** 2
