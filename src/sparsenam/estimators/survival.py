"""Survival: the face of Cox's proportional hazards with additive effects."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from sparsenam.errors import InputError, check_word, describe
from sparsenam.estimators.auditing import GivenScores, PairedLosses
from sparsenam.estimators.base import (
    AdditiveEstimator,
    SNAMParameters,
    SupportMixin,
    Surroundings,
    all_or_nothing,
    check_weights,
    require_one_thread,
    require_target,
)
from sparsenam.estimators.editing import GivenRows
from sparsenam.estimators.rows import require_in_memory
from sparsenam.explain.performance import survival_facts
from sparsenam.families import Family, Poisson
from sparsenam.fitting.pipeline import Pose
from sparsenam.fitting.strategies import Strategy
from sparsenam.model import AdditiveModel
from sparsenam.survival import (
    TIES,
    Baseline,
    CoxProblem,
    RiskSets,
    StepFunction,
    Ties,
    concordance,
    cox_problem,
    read_survival,
)
from sparsenam.tables import check_target_not_inside

Curves = NDArray[np.object_] | NDArray[np.float64]


class AdditiveSurvival(AdditiveEstimator):
    """Fit and predict for censored times."""

    ties: Ties
    baseline_: Baseline
    event_times_: NDArray[np.float64]
    log_likelihood_: float

    def _fit_in(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        surroundings: Surroundings,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        with all_or_nothing(self):
            check_word("ties", self.ties, TIES)
            require_one_thread(self._settings().get("n_jobs"), "a fit of survival times")
            require_in_memory(X, "survival times")
            target = read_survival(require_target(self, y))
            strategy, penalty = self._resolve()
            plan = self._plan(self._pose(strategy, Poisson()), strategy, penalty)
            encoder, terms = self._read(X, strategy)
            check_consistent_length(terms, target)
            check_target_not_inside(X, target[:, 1])
            sample = plan.sample(encoder, terms, target, check_weights(sample_weight, terms))
            result = self._fit_by(plan, surroundings, encoder, sample, groups, target[:, 0])
            assert isinstance(result.problem, CoxProblem)
            self.baseline_, self.log_likelihood_ = result.problem.baseline(result.model)
            self.event_times_ = self.baseline_.times
            return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the risk scores Σⱼ hⱼ(xⱼ), shape (rows,): log hazard ratios to the baseline, higher is riskier."""
        return self._scores(X)[:, 0]

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> NoReturn:
        """Raise: a time with censoring has no interval that left-out rows could check; its distribution is there."""
        remedy = "read quantiles of the time from predict_survival_function"
        raise InputError(describe("predict_interval", "a regressor", "a model of survival times", remedy))

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

    def _card_facts(self) -> dict[str, Any]:
        baseline = self.baseline_
        return {**super()._card_facts(), "baseline": survival_facts(baseline.times, baseline.cumulative_hazard)}

    def _target_in(self, y: ArrayLike) -> NDArray[np.float64]:
        target = read_survival(y)
        if not (target[:, 0] == 1.0).any():
            raise InputError(describe("y", "at least one event", "none", "give rows that are not censored"))
        return target

    def _in_loss_units(self, rows: GivenRows) -> GivenScores:
        """Return rates δ/Λ with weights Λ, Λ being the cumulative hazard that makes the scores most likely."""
        risk_sets = RiskSets.of(rows.target[:, 0] == 1.0, rows.target[:, 1], rows.weights)
        scores = self.model_.scores(rows.terms)
        hazard = risk_sets.hazard(scores[:, 0], self.ties).rows
        rates = np.divide(risk_sets.event, hazard, out=np.zeros_like(hazard), where=hazard > 0)
        return GivenScores(self.model_.family, scores, rates[:, None], rows.weights * hazard, np.ones(1))

    def _paired_losses(self, other: AdditiveModel, rows: GivenRows, other_rows: GivenRows) -> PairedLosses:
        """Return the losses of the rows with the event, in the partial likelihood of all the rows."""
        risk_sets = RiskSets.of(rows.target[:, 0] == 1.0, rows.target[:, 1], rows.weights)
        scores = (self.model_.scores(rows.terms), other.scores(other_rows.terms))
        first, second = (risk_sets.event_losses(each[:, 0]) for each in scores)
        return (first, second), rows.weights * risk_sets.event

    def _mean_loss(self, model: AdditiveModel, rows: GivenRows) -> float:
        """Return minus the log partial likelihood of the rows over the number of their events."""
        risk_sets = RiskSets.of(rows.target[:, 0] == 1.0, rows.target[:, 1], rows.weights)
        likelihood = risk_sets.hazard(model.scores(rows.terms)[:, 0], self.ties).log_likelihood
        return -likelihood / risk_sets.n_events

    def _pose(self, strategy: Strategy, family: Family) -> Pose:
        return partial(cox_problem, ties=self.ties, standardize=strategy.standardize, limits=strategy.limits)

    def __sklearn_tags__(self) -> Tags:
        tags: Any = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class SNAMSurvival(SupportMixin, SNAMParameters, AdditiveSurvival):
    """Sparse Neural Additive Model for censored times: hazard λ₀(t) exp(Σⱼ hⱼ(xⱼ)), whole columns switched off.

    With nothing set, a convex problem in random features chooses alpha and the columns by cross-validation, and the
    kept columns are fitted with smoothness chosen by the data. The loss is minus Cox's log partial likelihood over the
    number of events; the baseline λ₀ is free.

    Parameters
    ----------
    ties : {"efron", "breslow"}, default "efron"
        How events at one time are counted.
    alpha : float or "auto", default "auto"
        Weight of the penalty, on the loss of one event and columns of mean 0 and variance 1. 0 keeps every column;
        "auto" chooses by cross-validation.
    penalty, cv, rule, n_alphas, max_features, refit, network, shapes, weights, feature_types, feature_groups, \
penalty_weights, always_keep, pairs, heredity, max_seconds, n_jobs, verbose, random_state
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
    certificate_ : Certificate or None
        Optimality of the convex choice: its gradients are those of the penalised partial likelihood, its gap is
        that of the Poisson problem whose exposures are the cumulative hazards of the choice itself.
    alpha_, norms_, n_parameters_, cv_curve_, path_, readmitted_, evidence_, fdr_, substitutes_, encoder_, history_, \
stationarity_
        As for `SNAMRegressor`; those of the last Poisson problem where they speak of one.

    Notes
    -----
    Each fit is a sequence of Poisson fits to the rates δᵢ/Λᵢ with weights Λᵢ, Λᵢ being the cumulative hazard of row
    i for the scores before. They converge where the gradient of the penalised partial likelihood is zero.
    """

    ties: Ties = "efron"
