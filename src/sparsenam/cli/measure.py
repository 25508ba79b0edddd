"""How good a fitted model is on held-out rows, and whether another family would be better there."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import skew
from sklearn.metrics import (
    log_loss,
    mean_absolute_error,
    mean_gamma_deviance,
    mean_pinball_loss,
    mean_poisson_deviance,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from sparsenam.cli.display import plain_number
from sparsenam.cli.problem import LabelledRows, TargetKind
from sparsenam.codec import Plain
from sparsenam.context import Streams
from sparsenam.errors import InputError
from sparsenam.estimators import AdditiveEstimator, SNAMRegressor
from sparsenam.estimators.classification import AdditiveClassifier
from sparsenam.estimators.regression import AdditiveRegressor
from sparsenam.estimators.survival import AdditiveSurvival
from sparsenam.explain.performance import class_performance, number_performance

Vector = NDArray[np.float64]

SKEWED_TARGET = 1.0  # skewness of an exponential distribution is 2, of a symmetric one 0
HEAVY = 0.1  # share of zeros
ADVICE_FOLDS = 3
MOST_ADVICE_ROWS = 3000  # rows that are compared on
FEWEST_ADVICE_ROWS = 60
GAIN = 0.05  # of the root mean squared error: less is not worth a line
SURE = 1.0  # standard errors of the difference, which the few largest rows make wide


def performance(estimator: AdditiveEstimator, kind: TargetKind, held: LabelledRows) -> Plain:
    """Return how predictions of held-out rows compare with what came true; nothing for more than two classes."""
    with held.named():
        if isinstance(estimator, AdditiveClassifier) and len(estimator.classes_) == 2:
            chances, second = estimator.predict_proba(held.table.native)[:, 1], estimator.classes_[1]
            return {"performance": class_performance(chances, held.y == second, str(second))}
        if isinstance(estimator, AdditiveRegressor) and kind.task == "regression":
            predicted = estimator.predict(held.table.native, held.exposure)
            return {"performance": number_performance(predicted, held.y.astype(np.float64))}
    return {}


def measure(estimator: AdditiveEstimator, kind: TargetKind, fitted: LabelledRows, held: LabelledRows) -> Plain:
    """Return the errors on held-out rows, of the model and of a prediction that looks at no column."""
    with held.named():
        if isinstance(estimator, AdditiveSurvival):
            found = estimator.score(held.table.native, held.y)
            errors = {"measure": "concordance", "model": found, "baseline": 0.5, "baseline_is": "a random order"}
        elif isinstance(estimator, AdditiveClassifier):
            errors = _class_errors(estimator, fitted, held)
        else:
            assert isinstance(estimator, AdditiveRegressor)
            errors = _number_errors(estimator, kind, fitted, held)
    return errors | {"higher_is_better": kind.task == "survival"}


def _class_errors(estimator: AdditiveClassifier, fitted: LabelledRows, held: LabelledRows) -> Plain:
    probabilities, classes = estimator.predict_proba(held.table.native), estimator.classes_
    weights = _weights(held)
    names, places = np.unique(fitted.y, return_inverse=True)
    majority: object = names.tolist()[int(np.bincount(places.ravel(), weights=fitted.weights).argmax())]
    known = np.isin(held.y, classes)
    codes = np.searchsorted(classes, held.y[known]).astype(np.intp)
    chances, labels = probabilities[known], np.arange(classes.size)
    wrong = np.asarray(classes[probabilities.argmax(axis=1)] != held.y)
    errors = {
        "measure": "share of wrong classes",
        "model": _measured(np.average, wrong, weights=weights),
        "baseline": _measured(np.average, [label != majority for label in held.y.tolist()], weights=weights),
        "baseline_is": f"always {str(majority)!r}",
        "log_loss": _measured(log_loss, codes, chances, sample_weight=weights[known], labels=labels),
    }
    if classes.size == 2 and np.unique(codes).size == 2:
        errors["auc"] = _measured(roc_auc_score, codes, chances[:, 1])
    return errors


def _number_errors(estimator: AdditiveRegressor, kind: TargetKind, fitted: LabelledRows, held: LabelledRows) -> Plain:
    y, seen, weights = held.y.astype(np.float64), fitted.y.astype(np.float64), _weights(held)
    mean = np.average(seen, weights=fitted.weights)
    constant: Vector = np.full(y.size, mean)
    predicted, baseline = estimator.predict(held.table.native, held.exposure), "the mean"
    if held.exposure is not None and fitted.exposure is not None:
        constant = held.exposure * (mean / np.average(fitted.exposure, weights=fitted.weights))
        baseline = "the mean rate"
    family = estimator.model_.family
    error: Callable[..., float]
    name, error = "root mean squared error", root_mean_squared_error
    if kind.task == "count":
        name, error = "Poisson deviance", _poisson_deviance
    elif family.variance_power == 2.0:
        name, error = "gamma deviance", mean_gamma_deviance
    elif family.robust_scale:
        level = 0.5 if kind.quantile is None else kind.quantile
        name, error, baseline = "mean absolute error", mean_absolute_error, "the median"
        if level != 0.5:
            name, error = f"pinball loss at {level:g}", partial(mean_pinball_loss, alpha=level)
            baseline = f"the {level:g} quantile"
        method = "linear" if fitted.weights is None else "inverted_cdf"
        constant = np.full(y.size, np.quantile(seen, level, method=method, weights=fitted.weights))
    return {
        "measure": name,
        "model": _measured(error, y, predicted, sample_weight=weights),
        "baseline": _measured(error, y, constant, sample_weight=weights),
        "baseline_is": baseline,
        "root_mean_squared_error": _measured(root_mean_squared_error, y, predicted, sample_weight=weights),
        "mean_absolute_error": _measured(mean_absolute_error, y, predicted, sample_weight=weights),
        "r2": _measured(r2_score, y, predicted, sample_weight=weights, force_finite=False),
    }


def _weights(rows: LabelledRows) -> Vector:
    return np.ones(len(rows.y)) if rows.weights is None else rows.weights


def _measured(metric: Callable[..., float], *values: ArrayLike, **options: object) -> float:
    """Return a metric, or NaN where it is not defined: no weight, y of one value, or values outside its domain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return float(metric(*values, **options))
        except (ValueError, ZeroDivisionError):
            return math.nan


def _poisson_deviance(y: Vector, predicted: Vector, sample_weight: Vector) -> float:
    """Return the mean Poisson deviance without the rows of exposure 0, which predict 0."""
    if not predicted.any():  # the mean of counts that are all 0
        return math.inf if y.any() else 0.0
    counted = predicted > 0
    return mean_poisson_deviance(y[counted], predicted[counted], sample_weight=sample_weight[counted])


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
    asked = {name: kind for name, kind in types.items() if name in kept} or None
    losses: dict[str, list[Vector]] = {"gaussian": [], family: []}
    for number, held in enumerate(folds):
        rest = np.concatenate([part for place, part in enumerate(folds) if place != number])
        for name, found in losses.items():
            left = end - time.monotonic()
            if left <= 0:
                return None
            model = SNAMRegressor(alpha=0.0, family=name, feature_types=asked, max_seconds=left, random_state=0)
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


def _squared_errors(model: SNAMRegressor, fitted: LabelledRows, held: LabelledRows) -> Vector:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what these fits warn of is not about the model that the user gets
        model.fit(fitted.table.native, fitted.y, fitted.weights, fitted.exposure)
        return (held.y.astype(np.float64) - np.asarray(model.predict(held.table.native))) ** 2
