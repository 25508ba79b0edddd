"""Training a bank of sub-networks on a prepared sample."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from sparsenam.context import Context
from sparsenam.errors import DivergenceError, InputError, describe
from sparsenam.families import Family
from sparsenam.families.custom import CustomFamily, trial_rows
from sparsenam.networks import SubnetBank
from sparsenam.networks.stacked import UnitFunctions
from sparsenam.penalties import Penalty
from sparsenam.tables import PreparedSample
from sparsenam.training.network import Network, Penalize, Regularizers, TrainingPlan
from sparsenam.training.problem import Problem
from sparsenam.training.processes import Processes, joined_processes
from sparsenam.training.rows import TrainingBlocks
from sparsenam.training.run import Outcome, run
from sparsenam.training.state import Diverged, Parameters, epoch_of


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """What is minimised: the loss of a sample under a family, plus alpha times a penalty on the groups.

    ``rows`` are those of a table that is not in memory, of which the sample is a part: they are trained on.
    """

    prepared: PreparedSample
    family: Family
    penalty: Penalty
    alpha: float
    penalize: Penalize
    rows: TrainingBlocks | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TrainedNetwork:
    """Sub-networks of the active terms, their indices in the prepared sample, and how they came about.

    ``norms`` are the group norms of all encoded terms, shape (n_terms,).
    """

    bank: SubnetBank
    theta: NDArray[np.float64]
    active: NDArray[np.intp]
    intercept: NDArray[np.float64]
    norms: NDArray[np.float64]
    outcome: Outcome


def train_network(
    objective: Objective,
    network: Network,
    bank: SubnetBank,
    theta: NDArray[np.float64],
    context: Context,
    stage: str = "train",
    first_intercept: NDArray[np.float64] | None = None,
) -> TrainedNetwork:
    """Train a bank from ``theta``, shape (terms, size), and ``first_intercept`` (outputs,), else the empty model's.

    ``stage`` names this training in the resume file.
    """
    with joined_processes() as processes:
        plan = network.plan(objective.penalty)
        rows = objective.rows
        single = plan.mini_batches(objective.prepared.weights.size if rows is None else rows.n_rows)
        problem, start = _pose(objective, network, bank, theta, single=single)
        if first_intercept is not None:
            start = Parameters.starting_from(start.theta, torch.as_tensor(first_intercept).to(start.intercept))
        problem, start = _together(problem, start, processes, plan, context, stage)
        training, held_out = _split(problem, network.validation_fraction, context)

        def validate(parameters: Parameters) -> float:
            assert held_out is not None
            plain_bank, plain, intercept = _plain(training, parameters)
            restricted = held_out.restricted_to(parameters.active)
            return replace(restricted, bank=plain_bank, regularizers=Regularizers()).value(plain, intercept)

        try:
            outcome = run(training, start, plan, context, stage, None if held_out is None else validate)
        except Diverged as diverged:
            raise _divergence(objective.prepared, diverged) from diverged
        _warn_unless_converged(outcome)
        plain_bank, plain, intercept = _plain(training, outcome.parameters)
        return TrainedNetwork(
            bank=plain_bank,
            theta=plain.double().cpu().numpy(),
            active=outcome.parameters.active,
            intercept=intercept.double().cpu().numpy(),
            norms=problem.norms(outcome.parameters.complete()),
            outcome=outcome,
        )


def _together(
    problem: Problem, start: Parameters, processes: Processes, plan: TrainingPlan, context: Context, stage: str
) -> tuple[Problem, Parameters]:
    """Return problem and start for several processes, which must train the same and begin at the same point."""
    if processes.alone:
        return problem, start
    if plan.solver.searches_step:
        got, remedy = repr(plan.solver.name), "use 'prox_adam', or one process"
        raise InputError(describe("solver in several processes", "one of mini-batches, or 'gd'", got, remedy))
    if np.isfinite(context.clock.seconds):  # each has another clock, and all must take the same steps
        raise InputError(
            describe("max_seconds in several processes", "None", f"{context.clock.seconds:g}", "leave it out")
        )
    kept = context.recall(stage)
    names = hashlib.sha256(repr((problem.terms.tolist(), problem.alpha, stage)).encode()).digest()
    processes.require_same(
        {
            "random_state": context.streams.seed,
            "number of rows": problem.n_rows,
            "choice of columns": int.from_bytes(names[:4], "little"),
            "x": float(problem.x.double().square().sum()),
            "y": float(problem.target.double().abs().sum()),
            "sample_weight": float(problem.weights.double().square().sum()),
            "state in the checkpoint": 0 if kept is None else epoch_of(kept),
        },
        problem.x.device,
    )
    theta, intercept = processes.agreed(start.theta, start.intercept)
    return replace(problem, processes=processes), Parameters.starting_from(theta, intercept)


def _pose(
    objective: Objective, network: Network, bank: SubnetBank, first_theta: NDArray[np.float64], *, single: bool
) -> tuple[Problem, Parameters]:
    prepared, family = objective.prepared, objective.family
    _check_in_torch(family)
    # the noise of mini-batches is far above single precision's rounding; full batches have no noise
    kind, device = torch.float32 if single else torch.float64, network.chosen_device()

    def tensor(array: NDArray[np.float64]) -> Tensor:
        return torch.as_tensor(array, dtype=kind, device=device)

    x = tensor(np.nan_to_num(prepared.x, nan=0.0) if np.isnan(prepared.x).any() else prepared.x)
    theta = tensor(first_theta)
    posed: SubnetBank = bank
    if objective.penalize == "function":
        unit = UnitFunctions(bank)
        posed, theta = unit, unit.wrap(theta, x, tensor(prepared.weights))
    problem = Problem(
        bank=posed,
        family=family,
        penalty=objective.penalty,
        alpha=objective.alpha,
        group=slice(0, posed.size) if objective.penalize == "subnetwork" else posed.output_columns,
        x=x,
        target=tensor(prepared.target),
        weights=tensor(prepared.weights / prepared.weights.mean()),
        terms=prepared.terms,
        n_terms=prepared.n_terms,
        regularizers=network.regularizers,
        source=objective.rows,
    )
    intercept = tensor(family.best_constant(prepared.target, prepared.weights))
    return problem, Parameters.starting_from(theta, intercept)


def _check_in_torch(family: Family) -> None:
    """Raise unless the formulas of a custom loss give for tensors what they give for arrays."""
    if not isinstance(family, CustomFamily):
        return
    arrays = trial_rows(family)
    for name in ("loss", "gradient"):
        method: Callable[..., Any] = getattr(family.custom, name)
        where, remedy = f"{name} of family {type(family.custom).__name__}", "convert nothing"
        try:
            found: object = method(*(torch.as_tensor(array) for array in arrays))
        except Exception as error:
            expected, got = "formulas that serve torch tensors too", f"{type(error).__name__}: {error}"
            remedy = "use array_api_compat.array_namespace(scores) for functions"
            raise InputError(describe(where, expected, got, remedy)) from error
        if not isinstance(found, Tensor):
            raise InputError(describe(where, "a tensor for tensors", type(found).__name__, remedy))
        if not np.allclose(method(*arrays), found.detach().numpy(), rtol=1e-6, atol=1e-9):
            got = "others for scores between -2 and 2"
            raise InputError(describe(where, "the same numbers in numpy and torch", got, "correct the formula"))


def _split(problem: Problem, fraction: float, context: Context) -> tuple[Problem, Problem | None]:
    held = round(fraction * problem.n_rows)
    if fraction == 0.0:
        return problem, None
    if not 0 < held < problem.n_rows:
        expected, got = "a share that leaves rows on both sides", f"{fraction:g} of {problem.n_rows} rows"
        raise InputError(describe("validation_fraction", expected, got, "choose another"))
    if problem.source is not None:
        training, held_out = problem.source.split(fraction, context.streams)
        return replace(problem, source=training), replace(problem, source=held_out)
    order = torch.as_tensor(context.streams.generator("validation").permutation(problem.n_rows))
    return problem.on_rows(order[held:]), problem.on_rows(order[:held])


def _plain(problem: Problem, parameters: Parameters) -> tuple[SubnetBank, Tensor, Tensor]:
    """Return bank, θ and intercept of the active terms with unit functions folded into plain ones."""
    active = problem.restricted_to(parameters.active)
    if not isinstance(active.bank, UnitFunctions):
        return active.bank, parameters.theta, parameters.intercept
    theta = active.bank.unwrap(parameters.theta, active.x, active.weights)
    with torch.no_grad():
        shares = (active.weights / active.weights.sum())[None, :, None]
        means = (shares * active.bank.inner.effects(theta, active.x)).sum((0, 1))
    return active.bank.inner, theta, parameters.intercept - means


def _divergence(prepared: PreparedSample, diverged: Diverged) -> DivergenceError:
    names = dict(zip(prepared.terms.tolist(), prepared.names, strict=True))
    where = "the intercept" if diverged.term is None else f"column {names[diverged.term]!r}"
    return DivergenceError(
        f"Training diverged in epoch {diverged.epoch} at learning rate {diverged.rate:g}, "
        f"first in {where}: lower learning_rate or standardize the columns."
    )


def _warn_unless_converged(outcome: Outcome) -> None:
    if not outcome.converged:
        warnings.warn(
            f"The fit stopped after {len(outcome.history)} iterations with stationarity "
            f"{outcome.stationarity:.2g}, above tol; raise max_epochs or tol.",
            ConvergenceWarning,
            stacklevel=2,
        )
