"""Survival: the face of Cox's proportional hazards with additive effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length

from sparsenam.errors import InputError, check_word, describe
from sparsenam.estimators.attributes import FromFit
from sparsenam.estimators.base import AdditiveEstimator, FitData, SNAMParameters, require_in_memory, require_target
from sparsenam.families import Poisson
from sparsenam.fit.cox import CoxProblem
from sparsenam.fit.pipeline import Fit
from sparsenam.fit.plan import FitInput, require_one_thread
from sparsenam.fit.problem import FamilyProblem
from sparsenam.fit.response import SurvivalResponse, check_weights
from sparsenam.model import AdditiveModel
from sparsenam.survival import TIES, StepFunction, Ties, concordance, read_survival

Curves = NDArray[np.object_] | NDArray[np.float64]


def _survival_in(fit: Fit) -> SurvivalResponse:
    """Return the baseline hazard and the likelihood of a model of censored times."""
    assert isinstance(fit.response, SurvivalResponse)
    return fit.response


class AdditiveSurvival(AdditiveEstimator):
    """Fit and predict for censored times."""

    ties: Ties = "efron"

    baseline_ = FromFit(lambda fit: _survival_in(fit).baseline)
    event_times_ = FromFit(lambda fit: _survival_in(fit).baseline.times)
    log_likelihood_ = FromFit(lambda fit: _survival_in(fit).log_likelihood)

    def _fit_rows(self, data: FitData) -> Self:
        check_word("ties", self.ties, TIES)
        require_one_thread(self.get_params(deep=False)["n_jobs"], "a fit of survival times")
        require_in_memory(data.X, "survival times")
        target = read_survival(require_target(self, data.y))
        plan = self._plan(Poisson("fixed"))  # Cox's model is a sequence of Poisson fits
        weights = check_weights(data.sample_weight, target)
        encoder, sample = plan.read(data.X, target[:, 1], target, weights)

        def respond(problem: FamilyProblem, model: AdditiveModel) -> SurvivalResponse:
            assert isinstance(problem, CoxProblem)
            return SurvivalResponse(*problem.baseline(model), self.ties)

        rows = FitInput(encoder, sample, groups=data.groups, stratum=target[:, 0])
        return self._fit_by(plan, rows, respond, data)

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the risk scores Σⱼ hⱼ(xⱼ), shape (rows,): log hazard ratios to the baseline, higher is riskier."""
        return self._fitted().scores(X)[:, 0]

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
        self._fitted()
        moments = self.event_times_ if times is None else np.asarray(times, dtype=np.float64)
        curves_of = self.baseline_.survival if start else self.baseline_.cumulative_hazards
        values = curves_of(self.predict(X), moments)
        if return_array or times is not None:
            return values
        functions = np.empty(len(values), dtype=object)
        functions[:] = [StepFunction(moments, row, start) for row in values]
        return functions


@dataclass(kw_only=True, eq=False, repr=False)
class SNAMSurvival(SNAMParameters, AdditiveSurvival):
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
    alpha_, norms_, n_parameters_, cv_curve_, path_, evidence_, fdr_, substitutes_, encoder_, history_, \
stationarity_
        As for `SNAMRegressor`; those of the last Poisson problem where they speak of one.

    Notes
    -----
    Each fit is a sequence of Poisson fits to the rates δᵢ/Λᵢ with weights Λᵢ, Λᵢ being the cumulative hazard of row
    i for the scores before. They converge where the gradient of the penalised partial likelihood is zero.
    """

    ties: Ties = "efron"
