"""What a model answers with: numbers, classes or censored times, and how losses read a target of other rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import (
    _check_sample_weight,  # pyright: ignore[reportPrivateUsage]
    check_array,
    column_or_1d,
)

from sparsenam.codec import Bounds, Matrix, Vector, Via
from sparsenam.errors import LARGEST_VALUE, LEAST_DIVISOR, InputError, RefusalError, RowError, describe, require, shown
from sparsenam.families import Family
from sparsenam.fit.problem import target_measure
from sparsenam.model import AdditiveModel
from sparsenam.survival import Baseline, RiskSets, Ties, read_survival
from sparsenam.text import Task

Classes = NDArray[np.generic]
ClassWeight = Mapping[object, float] | Literal["balanced"] | None
TwoModels = tuple[AdditiveModel, AdditiveModel]
PairedLosses = tuple[tuple[Vector, Vector], Vector]
NUMBERS = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float32", "float64")
LONGEST_LABEL = 10_000  # characters of a label
MOST_PADDED = 1 << 20  # characters of all labels, each as long as the longest
DAMAGE = "damaged class labels"


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels (classes,): the name of their type, ``text`` with a width for texts of numpy, and their values."""

    type: Annotated[str, Bounds(0, 100)]
    values: Annotated[tuple[Any, ...], Bounds(1)]


def as_labels(classes: NDArray[np.generic]) -> Labels:
    """Return type and values of labels; raise `InputError` for those that no file can hold."""
    values: list[Any] = classes.tolist()
    kind = f"text{classes.dtype.itemsize // 4}" if classes.dtype.kind == "U" else classes.dtype.name
    if kind not in NUMBERS and not (_are_texts(values) and (kind == "object" or kind.startswith("text"))):
        expected, got = "classes that are text, whole numbers, numbers or truth values", f"{classes.dtype}"
        raise InputError(describe("classes of the model to save", expected, got, "fit with text labels"))
    if kind.startswith("text") and not _fits(int(kind.removeprefix("text")), values):
        expected, got = "labels of like length", f"{len(values)} of which one has {max(map(len, values))} characters"
        raise InputError(describe("classes of the model to save", expected, got, "shorten the longest"))
    return Labels(kind, tuple(values))


def read_labels(stored: Labels) -> NDArray[Any]:
    """Return the labels as an array."""
    kind, values = stored.type, list(stored.values)
    if kind in NUMBERS:
        expected = {"b": bool, "i": int, "u": int, "f": float}[np.dtype(kind).kind]
        require(all(type(value) is expected for value in values), DAMAGE)
        try:
            labels = np.array(values, dtype=kind)
        except OverflowError as error:
            raise RefusalError(DAMAGE) from error
    else:
        require(_are_texts(values), DAMAGE)
        labels = np.array(values, dtype=object)
        if kind != "object":
            width = kind.removeprefix("text")
            require(kind.startswith("text") and width.isascii() and width.isdigit() and len(width) <= 6, DAMAGE)
            require(max(map(len, values)) <= int(width) and _fits(int(width), values), DAMAGE)
            labels = np.array(values, dtype=f"U{width}")
    require(np.unique(labels).size == labels.size, DAMAGE)
    return labels


def _fits(width: int, labels: list[Any]) -> bool:
    """Whether an array of labels of one width takes little, or not much more than the labels themselves."""
    return width * len(labels) <= max(MOST_PADDED, 16 * sum(map(len, labels)))


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) and len(value) <= LONGEST_LABEL for value in values)


StoredLabels = Annotated[NDArray[np.generic], Via(Labels, as_labels, read_labels)]


@dataclass(frozen=True, slots=True, eq=False)
class GivenRows:
    """Rows on which losses are measured: terms (rows, terms), target (rows, outputs), weights (rows,)."""

    terms: Matrix
    target: Matrix
    weights: Vector


@dataclass(frozen=True, slots=True, eq=False)
class GivenScores:
    """Rows with a model's scores (rows, outputs), target and weights as losses read them.

    Scores and target are to be divided by ``units`` (outputs,) for the loss.
    """

    family: Family
    scores: Matrix
    target: Matrix
    weights: Vector
    units: Vector

    @property
    def losses(self) -> Vector:
        """The loss of each row, shape (rows,)."""
        return self.family.loss(self.scores / self.units, self.target / self.units)


@dataclass(frozen=True, slots=True, eq=False)
class Response(ABC):
    """The kind of answer that a model gives."""

    task: ClassVar[Task]

    @abstractmethod
    def target(self, y: ArrayLike, model: AdditiveModel) -> Matrix:
        """Return the target of other rows as losses read it, shape (rows, outputs)."""

    def with_exposure(self, rows: GivenRows, exposure: ArrayLike | None, family: Family) -> GivenRows:
        """Return the rows with rates for targets; raise where there are no rates."""
        if exposure is None:
            return rows
        got = f"the {family.name} family"
        raise InputError(describe("exposure", "a family of rates", got, "leave the exposure out"))

    def row_weights(self, target: Matrix, weights: Vector, class_weight: ClassWeight) -> Vector:
        """Return the weights (rows,) with which the fit counts rows of a target (rows, outputs)."""
        return weights

    def scored(self, model: AdditiveModel, rows: GivenRows) -> GivenScores:
        """Return the scores of given rows, with target and weights as losses read them."""
        family, target, weights = model.family, rows.target, rows.weights
        return GivenScores(family, model.scores(rows.terms), target, weights, loss_units(family, target, weights))

    def mean_loss(self, model: AdditiveModel, rows: GivenRows) -> float:
        """Return the mean loss of a model over rows, y in units of its spread where the fit brings it to variance 1."""
        scored = self.scored(model, rows)
        return float(np.average(scored.losses, weights=scored.weights))

    def paired_losses(self, models: TwoModels, rows: tuple[GivenRows, GivenRows]) -> PairedLosses:
        """Return the losses of the same rows by two models, by the loss of the first, and the weights of the rows."""
        first = self.scored(models[0], rows[0])
        second = first.family.loss(models[1].scores(rows[1].terms) / first.units, first.target / first.units)
        return (first.losses, second), first.weights


@dataclass(frozen=True, slots=True, eq=False)
class NumberResponse(Response):
    """Numbers; ``flat`` says that y was given as one number for each row, not as a matrix."""

    task: ClassVar[Task] = "regression"
    flat: bool

    def target(self, y: ArrayLike, model: AdditiveModel) -> Matrix:
        """Return the numbers, in the range of the family."""
        found, outputs = check_target(y), model.intercept.size
        target = found.reshape(len(found), -1)
        if target.shape[1] != outputs:
            got = f"shape {found.shape}"
            raise InputError(describe("y", f"{outputs} number(s) for each row", got, "give the y of the fit"))
        model.family.range.check(target, f"the {model.family.name} family")
        return target

    def with_exposure(self, rows: GivenRows, exposure: ArrayLike | None, family: Family) -> GivenRows:
        """Return rates with the weights that exposures give them."""
        power = family.exposure_power
        if exposure is None or power is None:
            return Response.with_exposure(self, rows, exposure, family)
        units = check_exposure(exposure, rows.target)
        rates = rows.target / np.where(units > 0, units, 1.0)[:, None]
        return GivenRows(rows.terms, rates, rows.weights * units**power)


@dataclass(frozen=True, slots=True, eq=False)
class ClassResponse(Response):
    """Classes (classes,), or the numbers of labels where each row may have several."""

    task: ClassVar[Task] = "classification"
    classes: StoredLabels

    def target(self, y: ArrayLike, model: AdditiveModel) -> Matrix:
        """Return 0 and 1 for each output; raise for classes that the fit has not seen."""
        labels: Classes = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        if model.family.response == "labels":
            if labels.shape[1:] != self.classes.shape:
                got = f"shape {labels.shape}"
                raise InputError(describe("y", f"{self.classes.size} labels for each row", got, "correct y"))
            return labels.astype(np.float64)
        known = np.isin(labels := column_or_1d(labels, warn=True), self.classes)
        if not known.all():
            got = shown(labels[~known][0])
            raise InputError(describe("y", f"the classes {self.classes.tolist()}", got, "leave these rows out"))
        target = (labels[:, None] == self.classes[None, :]).astype(np.float64)
        return target[:, 1:] if model.family.response == "binary" else target

    def row_weights(self, target: Matrix, weights: Vector, class_weight: ClassWeight) -> Vector:
        """Return the weights of rows times those of their classes; labels have none."""
        if class_weight is None:
            return weights
        one_hot = np.column_stack([1.0 - target, target]) if target.shape[1] == 1 else target
        return weights * class_weights(class_weight, one_hot, self.classes, weights > 0)


@dataclass(frozen=True, slots=True, eq=False)
class SurvivalResponse(Response):
    """Censored times: the baseline hazard, the log partial likelihood of the fit, and how ties are counted."""

    task: ClassVar[Task] = "survival"
    baseline: Baseline
    log_likelihood: float
    ties: Ties

    def target(self, y: ArrayLike, model: AdditiveModel) -> Matrix:
        """Return event and time (rows, 2); raise without any event."""
        target = read_survival(y)
        if not (target[:, 0] == 1.0).any():
            raise InputError(describe("y", "at least one event", "none", "give rows that are not censored"))
        return target

    def scored(self, model: AdditiveModel, rows: GivenRows) -> GivenScores:
        """Return rates δ/Λ with weights Λ, Λ being the cumulative hazard that makes the scores most likely."""
        risk_sets, scores = _risk_sets(rows), model.scores(rows.terms)
        hazard = risk_sets.hazard(scores[:, 0], self.ties).rows
        rates = np.divide(risk_sets.event, hazard, out=np.zeros_like(hazard), where=hazard > 0)
        return GivenScores(model.family, scores, rates[:, None], rows.weights * hazard, np.ones(1))

    def mean_loss(self, model: AdditiveModel, rows: GivenRows) -> float:
        """Return minus the log partial likelihood of the rows over the number of their events."""
        risk_sets = _risk_sets(rows)
        likelihood = risk_sets.hazard(model.scores(rows.terms)[:, 0], self.ties).log_likelihood
        return -likelihood / risk_sets.n_events

    def paired_losses(self, models: TwoModels, rows: tuple[GivenRows, GivenRows]) -> PairedLosses:
        """Return the losses of the rows with the event, in the partial likelihood of all the rows."""
        risk_sets = _risk_sets(rows[0])
        scores = (model.scores(given.terms) for model, given in zip(models, rows, strict=True))
        first, second = (risk_sets.event_losses(each[:, 0]) for each in scores)
        return (first, second), rows[0].weights * risk_sets.event


def _risk_sets(rows: GivenRows) -> RiskSets:
    return RiskSets.of(rows.target[:, 0] == 1.0, rows.target[:, 1], rows.weights)


def loss_units(family: Family, target: Matrix, weights: Vector) -> Vector:
    """Return what scores and target are divided by before their loss is taken, shape (outputs,).

    Where a family's target is brought to variance 1 for the fit, its parameters are on that scale, and y is measured
    in units of its spread over the rows; elsewhere the units are 1.
    """
    measure = target_measure(family)
    scale = np.ones_like(target[0]) if measure is None else measure(target, weights)[1]
    return np.where(scale > 0, scale, 1.0)


def class_weights(wanted: ClassWeight, target: Matrix, classes: Classes, present: NDArray[np.bool_]) -> Vector:
    """Return the weight (rows,) of each row's class, for one-hot rows of which some are present (rows,)."""
    codes = target.argmax(axis=1)
    by_class = compute_class_weight(wanted, classes=classes, y=classes[codes[present]])
    if (by_class < 0).any():
        raise InputError(describe("class_weight", "weights of at least 0", f"{wanted}", "correct them"))
    return by_class[codes]


def require_rates(family: Family) -> None:
    """Raise for an exposure under a family without rates."""
    if family.exposure_power is None:
        expected = "a family of rates, such as 'poisson', 'gamma' or 'tweedie'"
        raise InputError(describe("exposure", expected, f"the {family.name} family", "leave the exposure out"))


def given_weights(sample_weight: ArrayLike | None, rows: int) -> Vector:
    """Return the weights of given rows, by default 1."""
    weights = np.ones(rows) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (rows,) or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        expected = f"{rows} finite weights of at least 0, not all of them 0"
        raise InputError(describe("sample_weight", expected, "others", "correct them"))
    return weights


def check_counts(values: NDArray[np.generic], name: str) -> Vector:
    """Return weights or exposures (rows,) as numbers; raise where one is negative, missing or no number."""
    expected, remedy = "finite numbers of at least 0", "correct the row"
    if values.dtype.kind not in "fiub" and not all(isinstance(value, Real | Decimal | None) for value in values.flat):
        row = next(row for row, value in enumerate(values) if not isinstance(value, Real | Decimal | None))
        raise RowError(name, expected, ((shown(values[row]), row),), remedy)
    numbers = np.array(values, dtype=np.float64)
    wrong = ~(np.isfinite(numbers) & (numbers >= 0.0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise RowError(name, expected, (("none" if np.isnan(numbers[row]) else f"{numbers[row]:g}", row),), remedy)
    return numbers


def check_exposure(exposure: ArrayLike, target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the exposure as finite numbers; one that is 0 must have counted nothing."""
    values = check_counts(np.atleast_1d(exposure), "exposure")
    if values.shape != (len(target),):
        expected = f"{len(target)} finite numbers of at least 0"
        raise InputError(describe("exposure", expected, f"shape {values.shape}", "correct them"))
    if (values > LARGEST_VALUE).any() or ((values > 0) & (values < LEAST_DIVISOR)).any():
        got = f"{values.max():g}" if (values > LARGEST_VALUE).any() else f"{values[values > 0].min():g}"
        expected = f"0 or numbers between {LEAST_DIVISOR:g} and {LARGEST_VALUE:g}"
        raise InputError(describe("exposure", expected, got, "count in another unit"))
    counted = target.reshape(len(target), -1).any(axis=1)
    if (counted & (values == 0)).any():
        row = int(np.flatnonzero(counted & (values == 0))[0])
        raise RowError("exposure", "y = 0 where it is 0", (("another y", row),), "correct the row")
    return values


def check_weights(sample_weight: ArrayLike | None, X: object) -> Vector:
    """Return the weights of the rows, shape (rows,), in a unit in which their sum is a number.

    Weights are relative: those that are all huge or all tiny are multiplied by a power of two, which is exact.
    """
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    largest = float(weights.max(initial=0.0))
    if largest > 0 and not LEAST_DIVISOR <= largest <= LARGEST_VALUE:
        return np.ldexp(weights, -math.frexp(largest)[1])
    return weights


def check_target(y: ArrayLike) -> NDArray[np.float64]:
    """Return a numeric target as finite float64 numbers."""
    target = check_array(y, ensure_2d=False, allow_nd=False, dtype=None, ensure_all_finite=False, input_name="y")
    try:
        numbers = target.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise _no_number(target, error) from error
    if not np.isfinite(numbers).all():
        row = int(np.argwhere(~np.isfinite(numbers))[0, 0])
        value = "NaN" if np.isnan(numbers[row]).any() else "infinity (inf)"
        raise RowError("y", "finite numbers", ((value, row),), "drop these rows")
    if (np.abs(numbers) > LARGEST_VALUE).any():
        row = int(np.argwhere(np.abs(numbers) > LARGEST_VALUE)[0, 0])
        got = ((f"{np.abs(numbers[row]).max():g}", row),)
        remedy = "drop these rows, or divide y by a power of ten"
        raise RowError("y", f"numbers of at most {LARGEST_VALUE:g} in size", got, remedy)
    return numbers


def _no_number(target: NDArray[Any], error: Exception) -> InputError:
    """Return the error about a target that is no number, which names the first such row; else what NumPy says."""
    remedy = "convert y to numbers, or use SNAMClassifier for classes"
    for row, cell in enumerate(target.tolist()):
        try:
            float(cell)
        except (TypeError, ValueError):
            got = f"the text {cell!r}" if isinstance(cell, str) else repr(cell)
            return RowError("y", "numbers", ((got, row),), remedy)
    return InputError(describe("y", "numbers", str(error), remedy))
