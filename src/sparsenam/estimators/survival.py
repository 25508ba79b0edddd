"""The survival face: Cox's proportional hazards with additive effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import (
    _check_sample_weight,  # pyright: ignore[reportPrivateUsage]
    check_consistent_length,
    check_is_fitted,
)

from sparsenam.errors import check_word
from sparsenam.estimators.base import AdditiveEstimator, SupportMixin
from sparsenam.estimators.cox_fitting import fit_cox
from sparsenam.estimators.fitting import Fitted
from sparsenam.estimators.settings import Penalize
from sparsenam.estimators.validation import all_or_nothing, require_target
from sparsenam.families import Family, Poisson
from sparsenam.networks import Hidden
from sparsenam.penalties import Penalty
from sparsenam.selection.folds import Splits
from sparsenam.survival.concordance import concordance
from sparsenam.survival.cox import TIES, Baseline, StepFunction, Ties
from sparsenam.survival.target import read_survival
from sparsenam.tables import Sample, check_target_not_inside
from sparsenam.tables.groups import ColumnName, FeatureGroups, FeatureTypes, PenaltyWeights
from sparsenam.training.solvers import Schedule

Curves = NDArray[np.object_] | NDArray[np.float64]


class SNAMSurvival(SupportMixin, AdditiveEstimator):
    """Sparse Neural Additive Model for censored times: hazard λ₀(t) exp(Σⱼ hⱼ(xⱼ)), whole features switched off.

    With nothing set, a convex problem in random features chooses alpha and the features by cross-validation, the
    kept features are fitted with smoothness chosen by the data, and the network trains all parameters from there.
    The loss is minus Cox's log partial likelihood over the number of events; the baseline λ₀ is free.

    Parameters
    ----------
    ties : {"efron", "breslow"}, default "efron"
        How events at one time are counted.
    alpha : float or "auto", default "auto"
        Weight of the penalty, on the loss of one event and columns of mean 0 and variance 1. 0 keeps every feature;
        "auto" chooses by five-fold cross-validation.
    penalty, penalize, hidden, activation, solver, init, refit, learning_rate, schedule, batch_size, max_epochs
        As for `SNAMRegressor`.
    max_seconds, tol, patience, validation_fraction, dropout, feature_dropout, output_penalty, weight_decay
        As for `SNAMRegressor`; ``max_seconds`` is for all turns together.
    threshold, standardize, feature_types, feature_groups, penalty_weights, keep, device, verbose, random_state
        As for `SNAMRegressor`.

    Attributes
    ----------
    model_ : AdditiveModel
        The fitted, pruned model; its scores are log hazard ratios, of mean 0 over the training rows.
    baseline_ : Baseline
        Event times and the cumulative hazard of a row whose score is 0, as estimated by Breslow or Efron.
    event_times_ : ndarray of shape (event times,)
        The distinct times of events.
    log_likelihood_ : float
        Log partial likelihood of the training rows, with weights scaled to mean 1.
    alpha_, norms_, n_parameters_, history_, stationarity_, woken_, stand_ins_, cv_curve_
        As for `SNAMRegressor`; history, stationarity and curve are those of the last Poisson problem.
    certificate_ : Certificate or None
        Optimality of the convex choice: its gradients are those of the penalised partial likelihood, its gap is
        that of the Poisson problem whose exposures are the cumulative hazards of the choice itself.

    Notes
    -----
    Each fit is a sequence of Poisson fits to the rates δᵢ/Λᵢ with weights Λᵢ, Λᵢ being the cumulative hazard of row
    i for the scores before. They come to rest where the gradient of the penalised partial likelihood is zero.
    """

    baseline_: Baseline
    event_times_: NDArray[np.float64]
    log_likelihood_: float

    def __init__(
        self,
        *,
        ties: Ties = "efron",
        alpha: float | Literal["auto"] = "auto",
        penalty: str | Penalty = "group_lasso",
        penalize: Penalize = "subnetwork",
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
        feature_types: FeatureTypes | None = None,
        feature_groups: FeatureGroups | None = None,
        penalty_weights: PenaltyWeights | None = None,
        keep: Sequence[ColumnName] | None = None,
        device: str = "auto",
        verbose: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.ties: Ties = ties
        self.alpha = alpha
        self.penalty = penalty
        self.penalize = penalize
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
        self.feature_types = feature_types
        self.feature_groups = feature_groups
        self.penalty_weights = penalty_weights
        self.keep = keep
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : table of shape (rows, features)
            As for `SNAMRegressor`.
        y : structured array of shape (rows,)
            One boolean field, whether the row ended with the event, and one of numbers above 0, when it ended.
            `survival_target` makes one.
        sample_weight : array-like of shape (rows,), optional
            Weight of each row; a row of weight 0 counts as absent.
        """
        with all_or_nothing(self):
            check_word("ties", self.ties, TIES)
            target = read_survival(require_target(self, y))
            columns = self._read(X)
            check_consistent_length(columns, target)
            check_target_not_inside(X, target[:, 1])
            weights = _check_sample_weight(sample_weight, columns, dtype=np.float64, ensure_non_negative=True)
            return self._fit(columns, target, weights, Poisson())

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the risk scores Σⱼ hⱼ(xⱼ), shape (rows,): log hazard ratios to the baseline, higher is riskier."""
        return self._scores(X)[:, 0]

    def predict_survival_function(
        self, X: ArrayLike, times: ArrayLike | None = None, *, return_array: bool = False
    ) -> Curves:
        """Return S(t|x) = exp(-Λ₀(t) e^{score}).

        Parameters
        ----------
        times : array-like of shape (times,), optional
            When to read the curves; by default ``event_times_``. After the last event they stay where they are.
        return_array : bool, default False
            Whether to return numbers where no times are given.

        Returns
        -------
        ndarray of shape (rows,) or (rows, times)
            Without ``times``, a `StepFunction` for each row; with ``times`` or ``return_array`` numbers.
        """
        return self._curves(X, times, return_array, start=1.0)

    def predict_cumulative_hazard_function(
        self, X: ArrayLike, times: ArrayLike | None = None, *, return_array: bool = False
    ) -> Curves:
        """Return Λ(t|x) = Λ₀(t) e^{score}, in the form of `predict_survival_function`."""
        return self._curves(X, times, return_array, start=0.0)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return Harrell's concordance of the risk scores with y: 1 is a perfect order, 0.5 a random one."""
        target, risk = read_survival(y), self.predict(X)
        check_consistent_length(risk, target)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return concordance(target[:, 0] == 1.0, target[:, 1], risk, weights)

    def _curves(self, X: ArrayLike, times: ArrayLike | None, return_array: bool, start: float) -> Curves:
        check_is_fitted(self)
        moments = self.event_times_ if times is None else np.asarray(times, dtype=np.float64)
        curves_of = self.baseline_.survival if start else self.baseline_.cumulative_hazards
        values = curves_of(self.predict(X), moments)
        if return_array or times is not None:
            return values
        functions = np.empty(len(values), dtype=object)
        functions[:] = [StepFunction(moments, row, start) for row in values]
        return functions

    def _solve(self, sample: Sample, family: Family, splits: Splits | None) -> Fitted:
        cox = fit_cox(sample, self._settings(), self.ties)
        self.baseline_, self.event_times_ = cox.baseline, cox.baseline.times
        self.log_likelihood_ = cox.log_likelihood
        return cox.fitted

    def __sklearn_tags__(self) -> Tags:
        tags: Any = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        return tags
