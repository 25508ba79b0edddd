"""What the estimators share: their parameters, and the fit by the pipeline."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import _check_sample_weight  # pyright: ignore[reportPrivateUsage]

from sparsenam.context import Clock, Context, ProgressBar, ResumeFile, Streams
from sparsenam.convex.path import TOLERANCE
from sparsenam.errors import LARGEST_VALUE, LEAST_DIVISOR, ChoiceWarning, InputError, check_number, describe
from sparsenam.estimators.fitted import FittedModel
from sparsenam.families import Family
from sparsenam.fit import Fit
from sparsenam.fitting.pairs import Heredity, Pairs
from sparsenam.fitting.plan import FitInput, Plan, plan_of
from sparsenam.fitting.settings import DEFAULT_FOLDS, Alpha, WeightMeaning
from sparsenam.fitting.strategies import FeatureKind
from sparsenam.penalties import Penalty
from sparsenam.pipeline import Respond, fit
from sparsenam.selection import Rule, RuleName
from sparsenam.selection.curve import CrossValidator
from sparsenam.selection.task import Norm
from sparsenam.tables.encoder import ColumnName, FeatureGroups, FeatureTypes, PenaltyWeights
from sparsenam.threads import one_thread, thread_count
from sparsenam.training import Network

RandomState = int | np.random.RandomState | None


@dataclass(kw_only=True, eq=False, repr=False)
class AdditiveEstimator(FittedModel, ABC):
    """An estimator whose fitted state is an additive model; the parameters say how columns are chosen."""

    alpha: Alpha = field(default="auto", kw_only=False)
    penalty: str | Penalty = "group_lasso"
    cv: CrossValidator = DEFAULT_FOLDS
    rule: RuleName | Rule = "compact"
    n_alphas: int = 30
    max_features: int | None = None
    feature_types: FeatureTypes | None = None
    feature_groups: FeatureGroups | None = None
    penalty_weights: PenaltyWeights | None = None
    always_keep: Sequence[ColumnName] | None = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : table of shape (rows, features)
            pandas, polars, pyarrow or numpy: numbers, categories, text, dates and missing cells. What was made of
            each column stands in ``encoder_``. Constant columns are left out, with a warning.
            Or a table that is not in memory: Parquet files, a folder of them or a pattern of their names, a dataset of
            pyarrow, a table of Dask or Spark. Of more than 200,000 rows a sample chooses, and all are fitted.
        y : array-like of shape (rows,) or (rows, labels), or str
            For a classifier, classes of any type or a 0/1 matrix of labels; for survival, a structured array with one
            boolean field, whether the row ended with the event, and one of numbers above 0, when it ended, as
            `survival_target` makes one. A table that is not in memory holds its target: y is then the name of its
            column, and so are the weights. Survival needs a table in memory.
        sample_weight : array-like of shape (rows,) or str, optional
            Weight of each row; a row of weight 0 counts as absent. Weights are relative unless the parameter
            ``weights`` says otherwise.
        groups : array-like of shape (rows,), optional
            Groups of rows for a splitter ``cv`` that needs them.
        """
        return self._fit_in(Surroundings(), X, y, sample_weight=sample_weight, groups=groups)

    @abstractmethod
    def _fit_in(self, surroundings: Surroundings, X: ArrayLike, y: ArrayLike, **fit_params: Any) -> Self:
        """Fit as ``fit`` does, with the caller's own progress display and resume file."""

    def _refit(self, X: ArrayLike, y: ArrayLike, **given: ArrayLike) -> Fit:
        return clone(self).fit(X, y, **given).fit_

    def _plan(self, family: Family | None) -> Plan:
        """Check the parameters and return the plan that they ask for; without a family, Cox's model."""
        return plan_of(type(self).__name__, self.get_params(deep=False), family)

    def _fit_by(self, plan: Plan, rows: FitInput, respond: Respond, surroundings: Surroundings) -> Self:
        """Run the pipeline on some rows; nothing of the estimator changes before it has come to its end."""
        if rows.groups is not None and plan.settings.alpha != "auto":
            got, remedy = f"{plan.settings.alpha}", "leave groups out"
            raise InputError(describe("groups", "alpha='auto', which cross-validates", got, remedy))
        thread_count(plan.parameters.get("n_jobs"))  # raises for what is no number, also where all rows are at hand
        context = surroundings.context(plan.parameters)
        try:
            with one_thread():
                found = fit(rows, plan, respond, context)
        finally:
            context.progress.close()
        self.fit_ = found
        vars(self).pop("_session", None)  # of an editable copy that is fitted anew
        doubts = [] if found.evidence is None else found.evidence.doubts()
        if doubts:  # the level is that of whoever calls fit
            warnings.warn(" ".join([*doubts, "evidence_ has the figures."]), ChoiceWarning, stacklevel=4)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class SNAMParameters(AdditiveEstimator):
    """The constructor of the SNAM estimators; see `SNAMRegressor` for the meaning."""

    pairs: Pairs = 0
    heredity: Heredity = "none"
    refit: bool | Literal["auto"] = "auto"
    network: Network | None = None
    shapes: Mapping[ColumnName, str] | None = None
    weights: WeightMeaning = "relative"
    max_seconds: float | None = None
    n_jobs: int | None = None
    verbose: bool | None = None
    random_state: RandomState = None


@dataclass(kw_only=True, eq=False, repr=False)
class RandomFeatureParameters(AdditiveEstimator):
    """The constructor of the random-feature estimators; see `RandomFeatureSNAMRegressor` for the meaning."""

    features: FeatureKind = "ramps"
    norm: Norm = "function"
    width: int = 32
    hidden: tuple[int, ...] = (100, 50)
    activation: str = "relu"
    tol: float = TOLERANCE
    max_seconds: float | None = None
    n_jobs: int | None = None
    verbose: bool | None = None
    random_state: RandomState = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a fit reports progress and what it resumes from, where the caller gives them."""

    progress: ProgressBar | None = None
    resume: ResumeFile | None = None

    def context(self, parameters: Mapping[str, Any]) -> Context:
        """Return the context of a fit with an estimator's parameters."""
        network, random_state = parameters.get("network"), parameters.get("random_state")
        max_seconds, resume = parameters.get("max_seconds"), self.resume
        if max_seconds is not None:
            check_number("max_seconds", max_seconds, 0.0, open_below=True)
        if isinstance(network, Network) and network.checkpoint is not None:
            if random_state is None:
                expected = "a random_state, without which no other run is the same fit"
                raise InputError(describe("checkpoint", expected, "None", "set random_state"))
            resume = resume or ResumeFile(Path(network.checkpoint))
        progress = self.shown(parameters)
        return Context(Streams.from_random_state(random_state), Clock(max_seconds), progress, resume)

    def shown(self, parameters: Mapping[str, Any]) -> ProgressBar:
        """Return where progress is reported."""
        return self.progress or ProgressBar(parameters.get("verbose"))


Estimator = TypeVar("Estimator", bound=AdditiveEstimator)


def fit_with(
    estimator: Estimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    progress: ProgressBar | None = None,
    resume: ResumeFile | None = None,
    **fit_params: Any,
) -> Estimator:
    """Fit an estimator as its ``fit`` does, with the caller's own progress display and resume file.

    A fit that was stopped and is started again with the same file, data and settings goes on where it was.
    """
    return estimator._fit_in(Surroundings(progress, resume), X, y, **fit_params)  # pyright: ignore[reportPrivateUsage]


def require_target(estimator: BaseEstimator, y: ArrayLike | None) -> ArrayLike:
    """Return y; raise when it is None."""
    if y is None:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    return y


def check_weights(sample_weight: ArrayLike | None, X: object) -> NDArray[np.float64]:
    """Return the weights of the rows, shape (rows,), in a unit in which their sum is a number.

    Weights are relative: those that are all huge or all tiny are multiplied by a power of two, which is exact.
    """
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    largest = float(weights.max(initial=0.0))
    if largest > 0 and not LEAST_DIVISOR <= largest <= LARGEST_VALUE:
        return np.ldexp(weights, -math.frexp(largest)[1])
    return weights
