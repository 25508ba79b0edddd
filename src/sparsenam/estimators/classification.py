"""Classification: the faces of models of classes and labels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array, column_or_1d

from sparsenam.errors import InputError, LongFitWarning, RowError, describe, rows_named_by, shown
from sparsenam.estimators.attributes import FromFit
from sparsenam.estimators.base import (
    AdditiveEstimator,
    FitData,
    RandomFeatureParameters,
    SNAMParameters,
    Vector,
    name_of,
    require_target,
)
from sparsenam.explain import Explanation, against_class
from sparsenam.families import Binomial, Family, Multilabel, Multinomial, as_family
from sparsenam.fit.all_rows import LargeTable
from sparsenam.fit.pipeline import Fit
from sparsenam.fit.plan import FitInput
from sparsenam.fit.response import Classes, ClassResponse, ClassWeight, check_weights, class_weights
from sparsenam.tables.blocks import SAMPLE_ROWS, MemoryBlocks
from sparsenam.tables.cells import cell_type_of
from sparsenam.tables.encoder import ColumnName
from sparsenam.uncertainty.intervals import Matrix, calibrated_proba, predict_set
from sparsenam.uncertainty.results import PredictionSets

CLASSIFICATION_FAMILIES = ("binomial", "multinomial", "multilabel")

# benchmarks/classes.py, one core: with 10 to 200 classes a fit takes so long for each cell and class
SECONDS_PER_CELL, BYTES_PER_ROW = 1.3e-5, 700.0  # and so much memory for each row and class
MANY_CLASSES, LONG_SECONDS = 20, 30.0  # classes and seconds from which the user hears of it before


def what_classes_take(rows: int, columns: int, classes: int) -> str:
    """Return a sentence on the time and memory of a fit of many classes; empty where there is nothing to say."""
    seconds, size = SECONDS_PER_CELL * rows * columns * classes, BYTES_PER_ROW * rows * classes
    if classes < MANY_CLASSES or seconds < LONG_SECONDS:
        return ""
    time = _rounded(seconds, ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds")))
    memory = _rounded(size, ((1e9, "GB"), (1e6, "MB")))
    return (
        f"{classes} classes: a fit of {rows} rows and {columns} columns takes about {time} of one core and {memory}; "
        "merge rare classes, leave columns out, or set max_seconds."
    )


def _rounded(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Return a number of two digits in the largest unit of which there are two, or else in the last."""
    size, name = next((each for each in units if value >= 2.0 * each[0]), units[-1])
    return f"{float(f'{value / size:.2g}'):g} {name}"


def _classes_in(fit: Fit) -> Classes:
    """Return the classes, sorted."""
    assert isinstance(fit.response, ClassResponse)
    return fit.response.classes


def _with_all_classes(given: FitData) -> FitData:
    """Return a table in memory as it is, without a sample of its rows, where the sample lacks a class."""
    blocks = given.blocks
    if not isinstance(blocks, MemoryBlocks):
        return given
    _check_labels(blocks.y)
    if len(set(blocks.y.tolist())) == len(set(np.asarray(given.y).tolist())):
        return given
    whole = {"X": blocks.X, "y": blocks.y, "sample_weight": blocks.weights}
    return replace(given, **whole, blocks=None, places=None)


def _check_labels(y: Classes) -> None:
    """Raise where a row has no class: None, NaN or another mark of a missing cell."""
    if y.ndim != 1 or y.dtype.kind not in "fO":
        return
    labels: list[object] = y.tolist()
    missing = np.array([cell_type_of(type(label)) == "missing" or label != label for label in labels], dtype=bool)
    if missing.any():
        got = (("none", int(np.argmax(missing))),)
        raise RowError("y", "a class in every row", got, "leave out the rows without one")


def class_target(classes: Classes, factors: Vector, binary: bool, y: Classes) -> tuple[Matrix, Vector]:
    """Return y as 0 and 1 (rows, outputs), one output if ``binary``, and the factors of the rows' classes."""
    labels = column_or_1d(y)
    _check_labels(labels)
    places = np.clip(np.searchsorted(classes, labels), 0, classes.size - 1)
    unknown = classes[places] != labels
    if unknown.any():
        expected = f"the classes of a sample of {SAMPLE_ROWS:,} rows"
        got = ((f"{shown(labels[unknown][0])}, which it does not hold,", int(np.argmax(unknown))),)
        raise RowError("y", expected, got, "leave out rows of so rare classes")
    target = (places[:, None] == np.arange(classes.size)).astype(np.float64)
    return target[:, 1:] if binary else target, factors[places]


class AdditiveClassifier(ClassifierMixin, AdditiveEstimator):
    """Fit and predict for two classes, several classes, or several yes/no labels at once."""

    classes_ = FromFit(_classes_in)
    family: str | Family = "auto"
    class_weight: ClassWeight = None
    _instead: ClassVar = {"predict_interval": "predict_set(X), which is for classes"}

    def _fit_rows(self, data: FitData) -> Self:
        reading, y = self._plan(Binomial()), require_target(self, data.y)  # the classes are not known yet
        given = _with_all_classes(data.sampled(reading, at_once=np.asarray(y).ndim > 1))
        with rows_named_by(given.places):
            _check_labels(np.asarray(given.y))
            labels = check_array(given.y, ensure_2d=False, dtype=None, input_name="y")
            check_classification_targets(labels)
        weights, factors = check_weights(given.sample_weight, labels), np.ones(0)
        if type_of_target(labels) == "multilabel-indicator":
            target, classes, family = self._several_labels(labels)
            stratum = labels[:, 0]
        else:
            stratum = column_or_1d(labels, warn=True)
            target, classes, family = self._one_label(stratum, weights > 0)
            factors = class_weights(self.class_weight, target, classes, weights > 0)
            weights = weights * factors
        outputs = target[:, 1:] if family.response == "binary" else target
        plan = self._plan(family)
        with rows_named_by(given.places):
            encoder, sample = plan.read(given.X, given.y, outputs, weights, among=given.among)
        unlimited = plan.settings.alpha == "auto" and plan.parameters.get("max_seconds") is None
        if family.response == "classes" and unlimited:
            said = what_classes_take(int((weights > 0).sum()), sample.terms.shape[1], classes.size)
            if said:  # the level is that of whoever calls fit
                warnings.warn(said, LongFitWarning, stacklevel=3)
        table = None
        if given.blocks is not None:
            by_class = np.array([factors[target.argmax(axis=1) == code][0] for code in range(classes.size)])
            table = LargeTable(given.blocks, partial(class_target, classes, by_class, family.response == "binary"))
        rows = FitInput(encoder, sample, name_of(y, encoder.names), data.groups, stratum, table)
        return self._fit_by(plan, rows, ClassResponse(classes), data)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the linear predictor: log odds of the second class, shape (rows,), or (rows, outputs)."""
        scores = self._fitted().scores(X)
        if self.model_.family.response == "labels":
            return scores
        if scores.shape[1] == 1:
            return scores[:, 0]
        return scores[:, 1] - scores[:, 0] if self.classes_.size == 2 else scores

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return probabilities of the classes (or of each label), shape (rows, classes)."""
        return self._fitted().probabilities(X)

    def predict(self, X: ArrayLike) -> Classes:
        """Return the most probable class, shape (rows,), or 0/1 labels, shape (rows, labels)."""
        probabilities = self.predict_proba(X)
        if self.model_.family.response == "labels":
            return (probabilities > 0.5).astype(int)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_set(self, X: ArrayLike, level: float = 0.9, groups: ColumnName | None = None) -> PredictionSets:
        """Return the classes that a new row may have: its class is among them with a probability of at least ``level``.

        A class is in the set where its probability is not below a threshold, the same for all rows; the most probable
        one always is. ``groups`` as for `SNAMRegressor.predict_interval`.

        Returns
        -------
        PredictionSets
            ``members`` (rows, classes), the method, and what it guarantees.
        """
        return predict_set(self._fitted(), X, level, groups)

    def calibrated_proba(self, X: ArrayLike) -> Matrix:
        """Return probabilities of the classes after the correction that lowers the loss of left-out rows for certain.

        Where none does, they are those of ``predict_proba``; `uncertainty` says which correction it is.

        Returns
        -------
        ndarray of shape (rows, classes)
        """
        return calibrated_proba(self._fitted(), X)

    def explain(self, X: ArrayLike | None = None, *, reference: str | None = None) -> Explanation:
        """Return what the model does with each column, as data for pictures, pages and files.

        Parameters
        ----------
        X : table of shape (rows, features), optional
            Rows whose densities and importances are shown; by default those of the training data.
        reference : str, optional
            Of three classes or more, the one that the effects are read against: log odds of each other class against
            it. By default effects are log odds against the average of all classes. Probabilities are the same.
        """
        explanation = super().explain(X)
        return explanation if reference is None else against_class(explanation, str(reference))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        assert tags.classifier_tags is not None
        tags.classifier_tags.multi_label = True
        return tags

    def _several_labels(self, labels: Classes) -> tuple[NDArray[np.float64], Classes, Family]:
        wanted = self.family
        if wanted not in ("auto", "multilabel"):
            expected = "'auto' or 'multilabel' for several labels"
            raise InputError(describe("family", expected, repr(wanted), "choose one"))
        if self.class_weight is not None:
            raise InputError(describe("class_weight", "None for several labels", "weights", "use sample_weight"))
        columns: Classes = np.arange(labels.shape[1], dtype=np.intp)
        return labels.astype(np.float64), columns, Multilabel()

    def _one_label(self, labels: Classes, present: NDArray[np.bool_]) -> tuple[NDArray[np.float64], Classes, Family]:
        """Return one-hot rows; a class that only absent rows have is no class, and such rows are zero."""
        classes = np.unique(labels[present])
        if classes.size < 2:
            got = f"{classes.size} class ({classes.tolist()})"
            raise InputError(describe("y", "at least two classes", got, "give rows of another class too"))
        target = (labels[:, None] == classes[None, :]).astype(np.float64)
        if self.family == "auto":
            return target, classes, Binomial() if classes.size == 2 else Multinomial()
        family = as_family(self.family, CLASSIFICATION_FAMILIES)
        if family.response == "labels" or (family.response == "binary" and classes.size != 2):
            expected, got = f"a target for the {family.name} family", f"{classes.size} classes"
            raise InputError(describe("y", expected, got, "use family='auto'"))
        return target, classes, family


@dataclass(kw_only=True, eq=False, repr=False)
class SNAMClassifier(SNAMParameters, AdditiveClassifier):
    """Sparse Neural Additive Model for classification: log odds β + Σⱼ hⱼ(xⱼ), whole columns switched off.

    Two classes give one output, several classes one each, a 0/1 matrix of labels one for each label; a column is kept
    or dropped for all outputs at once. The objective is the mean cross-entropy over the rows plus
    α φ(‖Θ₁‖, …, ‖Θₚ‖), on columns of mean 0 and variance 1.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Weights of the classes, multiplied with the rows' weights.
    family : {"auto", "binomial", "multinomial", "multilabel"}, default "auto"
        "multinomial" on two classes gives the paper's classifier with two outputs.
    alpha, penalty, cv, rule, n_alphas, max_features, refit, network, shapes, weights, feature_types, \
feature_groups, penalty_weights, always_keep, pairs, heredity, max_seconds, n_jobs, verbose, random_state
        As for `SNAMRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (classes,)
        The classes, sorted.
    model_, alpha_, intercept_, norms_, n_parameters_, certificate_, cv_curve_, path_, evidence_, fdr_, \
bands_, residuals_, substitutes_, encoder_, history_, stationarity_
        As for `SNAMRegressor`.
    """

    family: str | Family = "auto"
    class_weight: ClassWeight = None


@dataclass(kw_only=True, eq=False, repr=False)
class RandomFeatureSNAMClassifier(RandomFeatureParameters, AdditiveClassifier):
    """Random-feature SNAM for classification, solved exactly.

    Parameters and attributes as for `RandomFeatureSNAMRegressor`, with ``family`` and ``class_weight`` as for
    `SNAMClassifier`.
    """

    family: str | Family = "auto"
    class_weight: ClassWeight = None
