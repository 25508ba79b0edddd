"""Estimators that choose alpha by cross-validation with folds of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator

from sparsenam.estimators.base import SupportMixin
from sparsenam.estimators.classification import AdditiveClassifier, ClassWeight
from sparsenam.estimators.random_feature import FeatureKind, RandomFeatureMixin
from sparsenam.estimators.regression import AdditiveRegressor
from sparsenam.families import CustomLoss, Family
from sparsenam.networks import Hidden
from sparsenam.penalties import Penalty
from sparsenam.selection import RegularizationPath, Rule
from sparsenam.selection.choose import Norm
from sparsenam.tables.groups import ColumnName, FeatureGroups, FeatureTypes, PenaltyWeights

Folds: TypeAlias = int | BaseCrossValidator


class CrossValidatedRegressor(SupportMixin, AdditiveRegressor):
    """Fit with folds; ``path_`` is the convex path that was walked."""

    path_: RegularizationPath

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose alpha by cross-validation and fit; ``groups`` are for splitters that need them."""
        return self._fit_checked(X, y, sample_weight, groups, exposure)


class CrossValidatedClassifier(SupportMixin, AdditiveClassifier):
    """Fit with folds; ``path_`` is the convex path that was walked."""

    path_: RegularizationPath

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose alpha by cross-validation and fit; ``groups`` are for splitters that need them."""
        return self._fit_checked(X, y, sample_weight, groups)


class SNAMRegressorCV(CrossValidatedRegressor):
    """`SNAMRegressor` with alpha by cross-validation over a warm-started convex path.

    Every point of the path is judged by its relaxed fit (no penalty on its support), fold by fold; all folds are
    solved together.

    Parameters
    ----------
    cv : int or scikit-learn splitter, default 5
        Number of folds, dealt so that each sees the whole range of y, or a splitter (groups, time series, …).
    rule : {"compact", "one_se", "best"}, default "compact"
        The smallest support within one standard error of the best, or the best itself.
    n_alphas : int, default 30
        Points of the path.
    n_jobs : int, optional
        Threads.
    penalty, family, hidden, activation, init, refit, max_seconds, verbose, random_state
        As for `SNAMRegressor`.

    Attributes
    ----------
    path_ : RegularizationPath
        The convex path, with entry order and a model at each point.
    cv_curve_ : CVCurve
        Held-out losses with standard errors.
    """

    def __init__(
        self,
        *,
        cv: Folds = 5,
        rule: Rule = "compact",
        n_alphas: int = 30,
        penalty: str | Penalty = "group_lasso",
        family: str | Family | CustomLoss = "gaussian",
        hidden: Hidden | Literal["auto"] = "auto",
        activation: str = "relu",
        init: Literal["auto", "convex", "random"] = "auto",
        refit: bool | Literal["auto"] = "auto",
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        feature_types: FeatureTypes | None = None,
        feature_groups: FeatureGroups | None = None,
        penalty_weights: PenaltyWeights | None = None,
        keep: Sequence[ColumnName] | None = None,
        verbose: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.cv = cv
        self.rule = rule
        self.n_alphas = n_alphas
        self.penalty = penalty
        self.family = family
        self.hidden = hidden
        self.activation = activation
        self.init = init
        self.refit = refit
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.feature_types = feature_types
        self.feature_groups = feature_groups
        self.penalty_weights = penalty_weights
        self.keep = keep
        self.verbose = verbose
        self.random_state = random_state


class SNAMClassifierCV(CrossValidatedClassifier):
    """`SNAMClassifier` with alpha by cross-validation; see `SNAMRegressorCV`."""

    def __init__(
        self,
        *,
        cv: Folds = 5,
        rule: Rule = "compact",
        n_alphas: int = 30,
        penalty: str | Penalty = "group_lasso",
        family: str | Family = "auto",
        class_weight: ClassWeight = None,
        hidden: Hidden | Literal["auto"] = "auto",
        activation: str = "relu",
        init: Literal["auto", "convex", "random"] = "auto",
        refit: bool | Literal["auto"] = "auto",
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        feature_types: FeatureTypes | None = None,
        feature_groups: FeatureGroups | None = None,
        penalty_weights: PenaltyWeights | None = None,
        keep: Sequence[ColumnName] | None = None,
        verbose: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.cv = cv
        self.rule = rule
        self.n_alphas = n_alphas
        self.penalty = penalty
        self.family = family
        self.class_weight = class_weight
        self.hidden = hidden
        self.activation = activation
        self.init = init
        self.refit = refit
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.feature_types = feature_types
        self.feature_groups = feature_groups
        self.penalty_weights = penalty_weights
        self.keep = keep
        self.verbose = verbose
        self.random_state = random_state


class RandomFeatureSNAMRegressorCV(RandomFeatureMixin, CrossValidatedRegressor):
    """`RandomFeatureSNAMRegressor` with alpha by cross-validation; ``cv``, ``rule`` as for `SNAMRegressorCV`."""

    alpha: float | Literal["auto"] = "auto"

    def __init__(
        self,
        *,
        cv: Folds = 5,
        rule: Rule = "compact",
        n_alphas: int = 30,
        penalty: str | Penalty = "group_lasso",
        family: str | Family | CustomLoss = "gaussian",
        features: FeatureKind = "ramps",
        norm: Norm = "function",
        width: int = 32,
        hidden: tuple[int, ...] = (100, 50),
        activation: str = "relu",
        tol: float = 1e-4,
        n_jobs: int | None = None,
        feature_types: FeatureTypes | None = None,
        feature_groups: FeatureGroups | None = None,
        penalty_weights: PenaltyWeights | None = None,
        keep: Sequence[ColumnName] | None = None,
        verbose: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.cv = cv
        self.rule = rule
        self.n_alphas = n_alphas
        self.penalty = penalty
        self.family = family
        self.features = features
        self.norm = norm
        self.width = width
        self.hidden = hidden
        self.activation = activation
        self.tol = tol
        self.n_jobs = n_jobs
        self.feature_types = feature_types
        self.feature_groups = feature_groups
        self.penalty_weights = penalty_weights
        self.keep = keep
        self.verbose = verbose
        self.random_state = random_state


class RandomFeatureSNAMClassifierCV(RandomFeatureMixin, CrossValidatedClassifier):
    """`RandomFeatureSNAMClassifier` with alpha by cross-validation; see `SNAMRegressorCV`."""

    alpha: float | Literal["auto"] = "auto"

    def __init__(
        self,
        *,
        cv: Folds = 5,
        rule: Rule = "compact",
        n_alphas: int = 30,
        penalty: str | Penalty = "group_lasso",
        family: str | Family = "auto",
        class_weight: ClassWeight = None,
        features: FeatureKind = "ramps",
        norm: Norm = "function",
        width: int = 32,
        hidden: tuple[int, ...] = (100, 50),
        activation: str = "relu",
        tol: float = 1e-4,
        n_jobs: int | None = None,
        feature_types: FeatureTypes | None = None,
        feature_groups: FeatureGroups | None = None,
        penalty_weights: PenaltyWeights | None = None,
        keep: Sequence[ColumnName] | None = None,
        verbose: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.cv = cv
        self.rule = rule
        self.n_alphas = n_alphas
        self.penalty = penalty
        self.family = family
        self.class_weight = class_weight
        self.features = features
        self.norm = norm
        self.width = width
        self.hidden = hidden
        self.activation = activation
        self.tol = tol
        self.n_jobs = n_jobs
        self.feature_types = feature_types
        self.feature_groups = feature_groups
        self.penalty_weights = penalty_weights
        self.keep = keep
        self.verbose = verbose
        self.random_state = random_state
