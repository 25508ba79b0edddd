"""How well a model does on held-out rows, beside a prediction that looks at no column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from scipy.stats import rankdata

from sparsenam.cli.problem import Part
from sparsenam.cli.task import Task

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """The main error of the model and of the baseline, what both are, and further figures by name.

    ``higher_is_better`` is True for a measure such as the concordance.
    """

    name: str
    model: float
    baseline: float
    baseline_name: str
    more: dict[str, float]
    higher_is_better: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that JSON can hold."""
        return {
            "measure": self.name,
            "model": self.model,
            "baseline": self.baseline,
            "baseline_is": self.baseline_name,
            "higher_is_better": self.higher_is_better,
            **self.more,
        }


def measure(estimator: Any, task: Task, fitted: Part, held: Part) -> Measured:
    """Return the errors on the held-out rows."""
    if task.kind == "survival":
        concordance = float(estimator.score(held.table.native, held.y))
        return Measured("concordance", concordance, 0.5, "a random order", {}, higher_is_better=True)
    if task.kind == "classification":
        return _classes(estimator, fitted, held)
    return _numbers(estimator, task, fitted, held)


def _classes(estimator: Any, fitted: Part, held: Part) -> Measured:
    chances = np.asarray(estimator.predict_proba(held.table.native))
    classes = np.asarray(estimator.classes_)
    predicted = classes[chances.argmax(axis=1)]
    names, counts = np.unique(fitted.y, return_counts=True)
    majority: object = names.tolist()[int(counts.argmax())]
    known = np.isin(held.y, classes)
    own: NDArray[np.intp] = np.searchsorted(classes, held.y[known]).astype(np.intp)
    more = {"log_loss": _log_loss(chances[known, own])}
    if classes.size == 2 and np.unique(own).size == 2:
        more["auc"] = _area_under_curve(own == 1, chances[known, 1])
    wrong, missed = np.asarray(predicted != held.y), np.array([own != majority for own in held.y.tolist()])
    return Measured(
        "share of wrong classes", float(wrong.mean()), float(missed.mean()), f"always {str(majority)!r}", more
    )


def _numbers(estimator: Any, task: Task, fitted: Part, held: Part) -> Measured:
    y = held.y.astype(np.float64)
    if held.exposure is None or fitted.exposure is None:
        predicted, unit, rate = estimator.predict(held.table.native), 1.0, float(np.mean(fitted.y))
    else:
        predicted = estimator.predict(held.table.native, exposure=held.exposure)
        unit, rate = held.exposure, float(fitted.y.sum() / fitted.exposure.sum())
    constant = np.broadcast_to(np.asarray(rate * unit), y.shape)
    words = "the mean" if held.exposure is None else "the mean rate"
    if task.family in ("quantile", "huber"):
        constant, words = np.full_like(y, np.median(fitted.y)), "the median"
    more = {
        "root_mean_squared_error": _root_mean_square(y, predicted),
        "mean_absolute_error": _mean_absolute(y, predicted),
        "r2": _explained(y, predicted),
    }
    name, error = _main_error(task)
    return Measured(name, error(y, predicted), error(y, constant), words, more)


def _main_error(task: Task) -> tuple[str, Callable[[Vector, Vector], float]]:
    if task.kind == "count":
        return "Poisson deviance", _poisson_deviance
    if task.family == "gamma":
        return "gamma deviance", _gamma_deviance
    if task.family in ("quantile", "huber"):
        return "mean absolute error", _mean_absolute
    return "root mean squared error", _root_mean_square


def _root_mean_square(y: Vector, predicted: Vector) -> float:
    return float(np.sqrt(np.mean((y - predicted) ** 2)))


def _mean_absolute(y: Vector, predicted: Vector) -> float:
    return float(np.mean(np.abs(y - predicted)))


def _explained(y: Vector, predicted: Vector) -> float:
    """Return R² = 1 - Σ(y - ŷ)²/Σ(y - ȳ)², NaN where y does not vary."""
    spread = float(np.sum((y - y.mean()) ** 2))
    return 1.0 - float(np.sum((y - predicted) ** 2)) / spread if spread > 0 else np.nan


def _poisson_deviance(y: Vector, predicted: Vector) -> float:
    """Return the mean of 2(y log(y/ŷ) - y + ŷ); rows of exposure 0, which predict 0, have none."""
    y, predicted = y[predicted > 0], predicted[predicted > 0]
    return float(np.mean(2.0 * (xlogy(y, y / predicted) - y + predicted)))


def _gamma_deviance(y: Vector, predicted: Vector) -> float:
    """Return the mean of 2(y/ŷ - 1 - log(y/ŷ))."""
    return float(np.mean(2.0 * (y / predicted - 1.0 - np.log(y / predicted))))


def _log_loss(chances: Vector) -> float:
    """Return the mean of -log p of the classes that happened; no p is below the rounding of a float."""
    return float(-np.mean(np.log(np.maximum(chances, np.finfo(np.float64).eps)))) if chances.size else np.nan


def _area_under_curve(positive: NDArray[np.bool_], chances: Vector) -> float:
    """Return the share of pairs, one of each class, that the chances put in order; ties count a half."""
    ranks, count = rankdata(chances), int(positive.sum())
    return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * (positive.size - count)))
