"""Classification faces."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    _check_sample_weight,  # pyright: ignore[reportPrivateUsage]
    check_array,
    check_consistent_length,
    column_or_1d,
)

from sparsenam.errors import InputError, describe
from sparsenam.estimators.base import AdditiveEstimator, SupportMixin
from sparsenam.estimators.settings import Penalize
from sparsenam.estimators.validation import all_or_nothing, require_target
from sparsenam.families import Binomial, Family, Multilabel, Multinomial, as_family
from sparsenam.networks import Hidden
from sparsenam.penalties import Penalty
from sparsenam.tables import check_target_not_inside
from sparsenam.tables.groups import ColumnName, FeatureGroups, FeatureTypes, PenaltyWeights
from sparsenam.training.solvers import Schedule

CLASSIFICATION_FAMILIES = ("binomial", "multinomial", "multilabel")
ClassWeight = dict[object, float] | Literal["balanced"] | None


class AdditiveClassifier(ClassifierMixin, AdditiveEstimator):
    """Fit and predict for two classes, several classes, or several yes/no labels at once."""

    classes_: NDArray[np.generic]

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : table of shape (rows, features)
            pandas, polars, pyarrow or numpy: numbers, categories, text, dates and missing cells. What was made of
            each column stands in ``table_``. Constant columns are left out, with a warning.
        y : array-like of shape (rows,) or (rows, labels)
            Classes of any type, or a 0/1 matrix of labels.
        sample_weight : array-like of shape (rows,), optional
            Weight of each row; a row of weight 0 counts as absent.
        """
        return self._fit_checked(X, y, sample_weight)

    def _fit_checked(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, groups: ArrayLike | None = None
    ) -> Self:
        with all_or_nothing(self):
            y = require_target(self, y)
            columns = self._read(X)
            labels = check_array(y, ensure_2d=False, dtype=None, input_name="y")
            check_classification_targets(labels)
            check_consistent_length(columns, labels)
            check_target_not_inside(X, y)
            weights = _check_sample_weight(sample_weight, columns, dtype=np.float64, ensure_non_negative=True)
            if type_of_target(labels) == "multilabel-indicator":
                target, family = self._several_labels(labels)
            else:
                target, family = self._one_label(column_or_1d(labels, warn=True), weights > 0)
                weights = weights * self._class_weights(target, weights > 0)
            return self._fit(
                columns, target if family.name != "binomial" else target[:, 1:], weights, family, groups
            )

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the linear predictor: log odds of the second class, shape (rows,), or (rows, outputs)."""
        scores = self._scores(X)
        if self.model_.family.name == "multilabel":
            return scores
        if scores.shape[1] == 1:
            return scores[:, 0]
        return scores[:, 1] - scores[:, 0] if self.classes_.size == 2 else scores

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return probabilities of the classes (or of each label), shape (rows, classes)."""
        scores = self._scores(X)
        means = self.model_.family.mean(scores)
        return np.column_stack([1.0 - means, means]) if self.model_.family.name == "binomial" else means

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """Return the most probable class, shape (rows,), or 0/1 labels, shape (rows, labels)."""
        probabilities = self.predict_proba(X)
        if self.model_.family.name == "multilabel":
            return (probabilities > 0.5).astype(int)
        return self.classes_[probabilities.argmax(axis=1)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        assert tags.classifier_tags is not None
        tags.classifier_tags.multi_label = True
        tags.input_tags.allow_nan = True
        return tags

    def _several_labels(self, labels: NDArray[np.generic]) -> tuple[NDArray[np.float64], Family]:
        wanted: object = getattr(self, "family", "auto")
        if wanted not in ("auto", "multilabel"):
            raise InputError(
                describe("family", "'auto' or 'multilabel' for several labels", repr(wanted), "choose one")
            )
        if getattr(self, "class_weight", None) is not None:
            raise InputError(describe("class_weight", "None for several labels", "weights", "use sample_weight"))
        self.classes_ = np.arange(labels.shape[1])
        return labels.astype(np.float64), Multilabel()

    def _one_label(
        self, labels: NDArray[np.generic], present: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], Family]:
        """Return one-hot rows; a class that only absent rows have is no class, and such rows are zero."""
        self.classes_ = np.unique(labels[present])
        if self.classes_.size < 2:
            got = f"{self.classes_.size} class ({self.classes_.tolist()})"
            raise InputError(describe("y", "at least two classes", got, "give rows of another class too"))
        target = (labels[:, None] == self.classes_[None, :]).astype(np.float64)
        wanted = getattr(self, "family", "auto")
        if wanted == "auto":
            return target, Binomial() if self.classes_.size == 2 else Multinomial()
        family = as_family(wanted, CLASSIFICATION_FAMILIES)
        if family.name == "multilabel" or (family.name == "binomial" and self.classes_.size != 2):
            got = f"{self.classes_.size} classes"
            raise InputError(describe("y", f"a target for the {family.name} family", got, "use family='auto'"))
        return target, family

    def _class_weights(self, target: NDArray[np.float64], present: NDArray[np.bool_]) -> NDArray[np.float64]:
        wanted: ClassWeight = getattr(self, "class_weight", None)
        codes = target.argmax(axis=1)
        by_class = compute_class_weight(wanted, classes=self.classes_, y=self.classes_[codes[present]])
        if (by_class < 0).any():
            raise InputError(describe("class_weight", "weights of at least 0", f"{wanted}", "correct them"))
        return by_class[codes]


class SNAMClassifier(SupportMixin, AdditiveClassifier):
    """Sparse Neural Additive Model for classification: log odds β + Σⱼ hⱼ(xⱼ), whole features switched off.

    Two classes give one output, several classes one each, a 0/1 matrix of labels one for each label; a
    feature is kept or dropped for all outputs at once. The objective is the mean cross-entropy over the rows
    plus α φ(‖Θ₁‖, …, ‖Θₚ‖), on columns of mean 0 and variance 1.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Weights of the classes, multiplied with the rows' weights.
    family : {"auto", "binomial", "multinomial"}, default "auto"
        "multinomial" on two classes gives the paper's classifier with two outputs.
    alpha, penalty, penalize, hidden, activation, solver, init, refit, learning_rate, schedule, batch_size, \
max_epochs, max_seconds, tol, patience, validation_fraction, dropout, feature_dropout, output_penalty, \
weight_decay, threshold, standardize, checkpoint, device, verbose, random_state
        As for `SNAMRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (classes,)
        The classes, sorted.
    model_, alpha_, intercept_, norms_, n_parameters_, history_, stationarity_, certificate_, cv_curve_
        As for `SNAMRegressor`.
    """

    def __init__(
        self,
        *,
        alpha: float | Literal["auto"] = "auto",
        penalty: str | Penalty = "group_lasso",
        penalize: Penalize = "subnetwork",
        family: str | Family = "auto",
        class_weight: ClassWeight = None,
        hidden: Hidden | Literal["auto"] = "auto",
        activation: str = "relu",
        solver: str = "auto",
        init: Literal["auto", "convex", "random"] = "auto",
        refit: bool | Literal["auto"] = "auto",
        learning_rate: float | None = None,
        schedule: str | Schedule = "constant",
        batch_size: int | None = 256,
        max_epochs: int | None = None,
        max_seconds: float | None = None,
        tol: float | None = None,
        patience: int = 10,
        validation_fraction: float = 0.0,
        dropout: float = 0.0,
        feature_dropout: float = 0.0,
        output_penalty: float = 0.0,
        weight_decay: float = 0.0,
        threshold: float = 0.01,
        standardize: bool = True,
        checkpoint: str | PathLike[str] | None = None,
        device: str = "auto",
        feature_types: FeatureTypes | None = None,
        feature_groups: FeatureGroups | None = None,
        penalty_weights: PenaltyWeights | None = None,
        keep: Sequence[ColumnName] | None = None,
        verbose: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.alpha = alpha
        self.penalty = penalty
        self.penalize = penalize
        self.family = family
        self.class_weight = class_weight
        self.hidden = hidden
        self.activation = activation
        self.solver = solver
        self.init = init
        self.refit = refit
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.tol = tol
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.dropout = dropout
        self.feature_dropout = feature_dropout
        self.output_penalty = output_penalty
        self.weight_decay = weight_decay
        self.threshold = threshold
        self.standardize = standardize
        self.checkpoint = checkpoint
        self.device = device
        self.feature_types = feature_types
        self.feature_groups = feature_groups
        self.penalty_weights = penalty_weights
        self.keep = keep
        self.verbose = verbose
        self.random_state = random_state
