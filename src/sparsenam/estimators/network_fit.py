"""Training a bank on a prepared sample, with the settings of an estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.errors import DivergenceError
from sparsenam.estimators.settings import Settings
from sparsenam.families import Family
from sparsenam.networks import SubnetBank, UnitFunctions
from sparsenam.penalties import Penalty
from sparsenam.streams import Streams
from sparsenam.tables import PreparedSample
from sparsenam.training import Deadline, Diverged, Outcome, Parameters, Problem, Regularizers, run


@dataclass(frozen=True, slots=True, eq=False)
class NetworkFit:
    """What all trainings of one fit share."""

    prepared: PreparedSample
    family: Family
    settings: Settings
    streams: Streams
    clock: Deadline
    bank: SubnetBank


@dataclass(frozen=True, slots=True, eq=False)
class TrainedNetwork:
    """Sub-networks of the active features, their places in the prepared sample, and how they came about."""

    bank: SubnetBank
    theta: Tensor
    active: NDArray[np.intp]
    intercept: NDArray[np.float64]
    norms: NDArray[np.float64]
    outcome: Outcome


def train_network(
    fit: NetworkFit,
    theta: Tensor,
    penalty: Penalty,
    alpha: float,
    stage: str = "",
    first_intercept: NDArray[np.float64] | None = None,
) -> TrainedNetwork:
    """Train from ``theta``, shape (features, size); ``stage`` names one of several trainings.

    ``first_intercept`` (outputs,) is the start's, by default that of the model without features.
    """
    plan = fit.settings.plan(fit.clock, stage)
    plan = replace(plan, solver=plan.solver.suited_to(penalty))
    problem, start = _pose(fit, theta, penalty, alpha, single=plan.mini_batches(fit.prepared.weights.size))
    if first_intercept is not None:
        start = Parameters.starting_from(start.theta, torch.as_tensor(first_intercept).to(start.intercept))
    training, held_out = _split(problem, fit)

    def validate(parameters: Parameters) -> float:
        assert held_out is not None
        bank, plain, intercept = _plain(training, parameters)
        own = replace(held_out.restricted_to(parameters.active), bank=bank, regularizers=Regularizers())
        return own.value(plain, intercept)

    try:
        outcome = run(training, start, plan, fit.streams, None if held_out is None else validate)
    except Diverged as diverged:
        names = dict(zip(fit.prepared.terms.tolist(), fit.prepared.names, strict=True))
        where = "the intercept" if diverged.feature is None else f"feature {names[diverged.feature]!r}"
        raise DivergenceError(
            f"Training diverged in epoch {diverged.epoch} at learning rate {diverged.rate:g}, "
            f"first in {where}: lower learning_rate or standardize the columns."
        ) from diverged
    bank, plain, intercept = _plain(training, outcome.parameters)
    return TrainedNetwork(
        bank=bank,
        theta=plain,
        active=outcome.parameters.active,
        intercept=intercept.double().cpu().numpy(),
        norms=problem.norms(outcome.parameters.complete()),
        outcome=outcome,
    )


def _pose(
    fit: NetworkFit, theta: Tensor, penalty: Penalty, alpha: float, *, single: bool
) -> tuple[Problem, Parameters]:
    prepared, settings = fit.prepared, fit.settings
    # the noise of mini-batches is far above single precision's rounding; full batches have no noise
    kind, device = torch.float32 if single else torch.float64, settings.chosen_device()

    def tensor(array: NDArray[np.float64]) -> Tensor:
        return torch.as_tensor(array, dtype=kind, device=device)

    x = tensor(np.nan_to_num(prepared.x, nan=0.0) if np.isnan(prepared.x).any() else prepared.x)
    theta = theta.to(device, kind)
    bank = UnitFunctions(fit.bank) if settings.penalize == "function" else fit.bank
    if isinstance(bank, UnitFunctions):
        theta = bank.wrap(theta, x, tensor(prepared.weights))
    problem = Problem(
        bank=bank,
        family=fit.family,
        penalty=penalty,
        alpha=alpha,
        group=slice(0, bank.size) if settings.penalize == "subnetwork" else bank.output_columns,
        x=x,
        target=tensor(prepared.target),
        weights=tensor(prepared.weights / prepared.weights.mean()),
        features=prepared.terms,
        n_features=prepared.n_terms,
        regularizers=settings.regularizers(),
    )
    intercept = tensor(fit.family.best_constant(prepared.target, prepared.weights))
    return problem, Parameters.starting_from(theta, intercept)


def _split(problem: Problem, fit: NetworkFit) -> tuple[Problem, Problem | None]:
    held = round(fit.settings.validation_fraction * problem.n_rows)
    if held == 0 or held >= problem.n_rows:
        return problem, None
    order = torch.as_tensor(fit.streams.generator("validation").permutation(problem.n_rows))
    return problem.on_rows(order[held:]), problem.on_rows(order[:held])


def _plain(problem: Problem, parameters: Parameters) -> tuple[SubnetBank, Tensor, Tensor]:
    """Return bank, θ and intercept of the active features with unit functions folded into plain ones."""
    own = problem.restricted_to(parameters.active)
    if not isinstance(own.bank, UnitFunctions):
        return own.bank, parameters.theta, parameters.intercept
    theta = own.bank.unwrap(parameters.theta, own.x, own.weights)
    with torch.no_grad():
        shares = (own.weights / own.weights.sum())[None, :, None]
        means = (shares * own.bank.inner.effects(theta, own.x)).sum((0, 1))
    return own.bank.inner, theta, parameters.intercept - means
