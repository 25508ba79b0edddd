"""Random-feature SNAM: hidden layers frozen, output layers by a convex problem solved to a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch

from sparsenam.convex.features import FrozenFeatures, RampFeatures, RandomFeatures
from sparsenam.errors import InputError, check_number, check_whole, check_word, describe
from sparsenam.estimators.base import SupportMixin
from sparsenam.estimators.classification import AdditiveClassifier, ClassWeight
from sparsenam.estimators.fitting import FOLDS, Fitted, prepared_for, require_numbers, scores_of
from sparsenam.estimators.regression import AdditiveRegressor
from sparsenam.families import CustomLoss, Family
from sparsenam.fitting.threads import threads_for
from sparsenam.model import finish
from sparsenam.networks import MLPBank, build_bank, initial_parameters
from sparsenam.penalties import Penalty, as_penalty
from sparsenam.selection import RULES, Rule
from sparsenam.selection.choose import ConvexTask, CrossValidation, Norm, choose_features
from sparsenam.selection.folds import Splits, deal
from sparsenam.selection.substitutes import stand_ins_of
from sparsenam.streams import Streams
from sparsenam.tables import PreparedSample, Sample
from sparsenam.tables.groups import ColumnName, FeatureGroups, FeatureTypes, PenaltyWeights

FeatureKind = Literal["ramps", "hinges", "random"]


class RandomFeatureMixin:
    """Fit by the convex solver."""

    alpha: float | Literal["auto"]
    penalty: str | Penalty
    features: FeatureKind
    norm: Norm
    width: int
    hidden: tuple[int, ...]
    activation: str
    rule: Rule
    n_alphas: int
    tol: float
    verbose: bool | None
    random_state: int | np.random.RandomState | None

    def _trains_an_architecture(self) -> bool:
        """Return whether random sub-networks read the columns."""
        return self.features == "random"

    def _solve(self, sample: Sample, family: Family, splits: Splits | None) -> Fitted:
        self._check()
        prepared = prepared_for(family, sample)
        if not prepared.terms.size:  # every column is constant: nothing to choose
            bank = MLPBank((), prepared.target.shape[1], "relu")
            nothing = np.zeros(0, dtype=np.intp)
            constant = family.best_constant(prepared.target, prepared.weights)
            finished = finish(prepared, family, bank, torch.zeros(0, bank.size), nothing, constant)
            return Fitted(finished.model, 0.0, finished.norms(), [])
        with threads_for(prepared.weights.size, prepared.terms.size):
            if family.first_family is not None:
                first = self._chosen(prepared, family.first_family, splits)
                family = family.estimated(scores_of(prepared, first.model), prepared.target, prepared.weights)
            return self._chosen(prepared, family, splits)

    def _chosen(self, prepared: PreparedSample, family: Family, splits: Splits | None) -> Fitted:
        task = ConvexTask.of(prepared, family, self._features(prepared), as_penalty(self.penalty), self.norm)
        if self.alpha == "auto" and prepared.grouping.weights.any():
            folds = min(FOLDS, prepared.weights.size)
            splits = deal(prepared.target, folds, self.random_state) if splits is None else splits
            plan = CrossValidation(splits, self.rule, self.n_alphas, self.verbose, least_shrinkage=True)
            choice = choose_features(task, plan, self.tol)
        else:
            # without a price there is nothing to choose, and any alpha gives the same
            choice = choose_features(task, 0.0 if self.alpha == "auto" else float(self.alpha), self.tol)
        model, norms = choice.task.model(choice.point), choice.task.norms(choice.point)
        return Fitted(model, choice.alpha, norms, [], choice=choice, stand_ins=stand_ins_of(choice, model))

    def _features(self, prepared: PreparedSample) -> RandomFeatures:
        if self.features != "random":
            return RampFeatures(prepared, self.width, hinges=self.features == "hinges")
        require_numbers(prepared)
        bank = build_bank(self.hidden, prepared.names, prepared.target.shape[1], self.activation)
        assert isinstance(bank, MLPBank)
        streams = Streams.from_random_state(self.random_state)
        return FrozenFeatures(prepared.x, bank, initial_parameters(bank, prepared.names, streams))

    def _check(self) -> None:
        if self.alpha != "auto":
            check_number("alpha", self.alpha, 0.0)
        check_number("tol", self.tol, 0.0, open_below=True)
        check_whole("width", self.width)
        check_whole("n_alphas", self.n_alphas)
        check_word("features", self.features, ("ramps", "hinges", "random"))
        check_word("norm", self.norm, ("function", "parameters"))
        check_word("rule", self.rule, RULES)
        if callable(self.hidden) or isinstance(self.hidden, str):
            raise InputError(describe("hidden", "hidden widths", "a callable", "give a tuple such as (100, 50)"))


class RandomFeatureSNAMRegressor(RandomFeatureMixin, SupportMixin, AdditiveRegressor):
    """Random-feature SNAM for regression, solved exactly (the paper's section 3.3).

    Parameters
    ----------
    alpha : float or "auto", default "auto"
        Weight of the penalty, on columns and target of mean 0 and variance 1; "auto" by cross-validation.
    penalty : str or object, default "group_lasso"
        A convex penalty: "group_lasso", "adaptive", "elastic_net", "group_slope", "two_level_slope".
    features : {"ramps", "hinges", "random"}, default "ramps"
        Hidden units placed by the data, clipped ReLU ("ramps") or ReLU ("hinges") with kinks at quantile-like
        knots, or the last hidden layer of random sub-networks with ``hidden`` widths and ``activation``, as in the
        paper.
    norm : {"function", "parameters"}, default "function"
        Group norm: of the function over the training rows, ‖Gⱼθⱼ‖ₙ with a little roughness, or ‖θⱼ‖ (the paper).
    width : int, default 32
        Most ramps of a feature.
    rule : {"compact", "one_se", "best"}, default "compact"
        Which point of the cross-validation curve to take.
    tol : float, default 1e-4
        Duality gap to reach, relative to the loss without features.

    Attributes
    ----------
    certificate_ : Certificate
        The gap reached and how near each dropped feature is to entering.
    cv_curve_ : CVCurve or None
        Held-out losses along the path when alpha is "auto".
    """

    def __init__(
        self,
        *,
        alpha: float | Literal["auto"] = "auto",
        penalty: str | Penalty = "group_lasso",
        family: str | Family | CustomLoss = "gaussian",
        features: FeatureKind = "ramps",
        norm: Norm = "function",
        width: int = 32,
        hidden: tuple[int, ...] = (100, 50),
        activation: str = "relu",
        rule: Rule = "compact",
        n_alphas: int = 30,
        tol: float = 1e-4,
        feature_types: FeatureTypes | None = None,
        feature_groups: FeatureGroups | None = None,
        penalty_weights: PenaltyWeights | None = None,
        keep: Sequence[ColumnName] | None = None,
        verbose: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.alpha = alpha
        self.penalty = penalty
        self.family = family
        self.features = features
        self.norm = norm
        self.width = width
        self.hidden = hidden
        self.activation = activation
        self.rule = rule
        self.n_alphas = n_alphas
        self.tol = tol
        self.feature_types = feature_types
        self.feature_groups = feature_groups
        self.penalty_weights = penalty_weights
        self.keep = keep
        self.verbose = verbose
        self.random_state = random_state


class RandomFeatureSNAMClassifier(RandomFeatureMixin, SupportMixin, AdditiveClassifier):
    """Random-feature SNAM for classification, solved exactly.

    Parameters and attributes as for `RandomFeatureSNAMRegressor`, with ``family`` and ``class_weight`` as for
    `SNAMClassifier`.
    """

    def __init__(
        self,
        *,
        alpha: float | Literal["auto"] = "auto",
        penalty: str | Penalty = "group_lasso",
        family: str | Family = "auto",
        class_weight: ClassWeight = None,
        features: FeatureKind = "ramps",
        norm: Norm = "function",
        width: int = 32,
        hidden: tuple[int, ...] = (100, 50),
        activation: str = "relu",
        rule: Rule = "compact",
        n_alphas: int = 30,
        tol: float = 1e-4,
        feature_types: FeatureTypes | None = None,
        feature_groups: FeatureGroups | None = None,
        penalty_weights: PenaltyWeights | None = None,
        keep: Sequence[ColumnName] | None = None,
        verbose: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.alpha = alpha
        self.penalty = penalty
        self.family = family
        self.class_weight = class_weight
        self.features = features
        self.norm = norm
        self.width = width
        self.hidden = hidden
        self.activation = activation
        self.rule = rule
        self.n_alphas = n_alphas
        self.tol = tol
        self.feature_types = feature_types
        self.feature_groups = feature_groups
        self.penalty_weights = penalty_weights
        self.keep = keep
        self.verbose = verbose
        self.random_state = random_state
