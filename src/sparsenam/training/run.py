"""Training a bank of sub-networks: pose the problem, run epochs, stop, re-examine zero groups, keep the best."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from sparsenam.context import Context
from sparsenam.errors import InputError, describe
from sparsenam.families import Family
from sparsenam.families.custom import CustomFamily, evaluated, trial_rows
from sparsenam.networks.bank import SubnetBank
from sparsenam.networks.stacked import UnitFunctions
from sparsenam.penalties import Penalty
from sparsenam.tables.sample import PreparedSample
from sparsenam.training.loop import descend, train
from sparsenam.training.network import History, HistoryEntry, Network, Penalize, Regularizers, TrainingPlan
from sparsenam.training.problem import Problem, proximal_step
from sparsenam.training.processes import Processes, joined_processes
from sparsenam.training.rows import TrainingBlocks
from sparsenam.training.state import Epoch, Journal, Parameters, epoch_of, reactivated, read_journal, stored

Validate = Callable[[Parameters], float]


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
        n_rows = objective.prepared.weights.size if rows is None else rows.n_rows
        single = plan.rows_of_step(n_rows) < n_rows
        problem, start = _pose(objective, network, bank, theta, first_intercept, single=single)
        problem, start = _together(problem, start, processes, plan, context, stage)
        training, held_out = _split(problem, network.validation_fraction, context)

        def validate(parameters: Parameters) -> float:
            assert held_out is not None
            plain_bank, plain, intercept = _plain(training, parameters)
            restricted = held_out.restricted_to(parameters.active)
            return replace(restricted, bank=plain_bank, regularizers=Regularizers()).value(plain, intercept)

        outcome = run(training, start, plan, context, stage, None if held_out is None else validate)
        if not outcome.converged:
            warnings.warn(
                f"The fit stopped after {len(outcome.history)} iterations with stationarity "
                f"{outcome.stationarity:.2g}, above tol; raise max_epochs or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        plain_bank, plain, intercept = _plain(training, outcome.parameters)
        return TrainedNetwork(
            bank=plain_bank,
            theta=plain.double().cpu().numpy(),
            active=outcome.parameters.active,
            intercept=intercept.double().cpu().numpy(),
            norms=problem.norms(outcome.parameters.theta),
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
        got = f"{context.clock.seconds:g}"
        raise InputError(describe("max_seconds in several processes", "None", got, "leave it out"))
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
    objective: Objective,
    network: Network,
    bank: SubnetBank,
    first_theta: NDArray[np.float64],
    first_intercept: NDArray[np.float64] | None,
    *,
    single: bool,
) -> tuple[Problem, Parameters]:
    prepared, family = objective.prepared, objective.family
    _check_in_torch(family)
    # the noise of mini-batches is far above single precision's rounding; full batches have no noise
    kind, device = torch.float32 if single else torch.float64, network.chosen_device()

    def tensor(array: NDArray[np.float64]) -> Tensor:
        return torch.as_tensor(array, dtype=kind, device=device)

    x = tensor(np.nan_to_num(prepared.x, nan=0.0))
    theta = tensor(first_theta)
    if objective.penalize == "function":
        unit = UnitFunctions(bank)
        bank, theta = unit, unit.wrap(theta, x, tensor(prepared.weights))
    problem = Problem(
        bank=bank,
        family=family,
        penalty=objective.penalty,
        alpha=objective.alpha,
        group=slice(0, bank.size) if objective.penalize == "subnetwork" else bank.output_columns,
        x=x,
        target=tensor(prepared.target),
        weights=tensor(prepared.weights / prepared.weights.mean()),
        terms=prepared.terms,
        n_terms=prepared.n_terms,
        regularizers=network.regularizers,
        source=objective.rows,
        names=dict(zip(prepared.terms.tolist(), prepared.names, strict=True)),
    )
    if first_intercept is None:
        first_intercept = family.best_constant(prepared.target, prepared.weights)
    return problem, Parameters.starting_from(theta, tensor(first_intercept))


def _check_in_torch(family: Family) -> None:
    """Raise unless the formulas of a custom loss give for tensors what they give for arrays."""
    if not isinstance(family, CustomFamily):
        return
    arrays = trial_rows(family)
    scores, target = map(torch.as_tensor, arrays)
    for name in ("loss", "gradient"):
        method: Callable[..., Any] = getattr(family.custom, name)
        where = f"{name} of family {type(family.custom).__name__}"
        found = evaluated(method, scores, target, where, "tensor")
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
        return active.bank, parameters.of_active, parameters.intercept
    theta, beyond = active.bank.unwrap(parameters.of_active, active.x, active.weights)
    return active.bank.inner, theta, parameters.intercept - beyond


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Where a training ended: the parameters, the numbers of all epochs, and how stationary the end is."""

    parameters: Parameters
    history: History
    stationarity: float | None
    converged: bool


@dataclass(slots=True)
class EarlyStopping:
    """Counts the epochs since the observed number last fell by a relative ``tol``."""

    patience: int
    tol: float
    best: float = np.inf
    waited: int = 0

    def observe(self, number: float) -> bool:
        """Take a number in; return whether patience has run out."""
        if number < self.best - self.tol * abs(self.best) or not np.isfinite(self.best):
            self.best, self.waited = number, 0
        else:
            self.waited += 1
        return self.waited >= self.patience


def run(
    problem: Problem,
    start: Parameters,
    plan: TrainingPlan,
    context: Context,
    stage: str = "train",
    validate: Validate | None = None,
) -> Outcome:
    """Train until converged, out of epochs or out of time; with ``validate`` the best epoch is returned.

    ``stage`` names the training in the resume file, where a fit has one.
    """
    first, kept = Epoch(0, float("inf"), 0.0, start), context.recall(stage)
    journal = Journal(first, first, [], "" if context.resume is None else _basis(problem, start))
    if kept is not None and kept.facts.get("basis") == journal.basis:
        with context.reading(stage):
            journal = read_journal(kept, start, plan.solver)
    journals = _journals(problem, journal, plan, context, validate)
    if context.resume is not None:
        journals = stored(journals, context, stage)
    for journal in journals:  # noqa: B007 - the last one counts
        pass
    chosen = journal.last if validate is None else journal.best
    if context.clock.passed():  # measuring takes a pass over all rows, for which there is no time
        return Outcome(chosen.parameters, journal.history, None, True)
    stationarity = measure_stationarity(problem, chosen.parameters, chosen.rate)
    # the best epoch on held-out rows is not the end of the descent, and need not be stationary
    converged = not plan.solver.searches_step or validate is not None or stationarity <= 10 * plan.tol
    return Outcome(chosen.parameters, journal.history, stationarity, converged)


def _basis(problem: Problem, start: Parameters) -> str:
    """Return a digest of what a training rests on, which an earlier stage of the fit may have changed."""
    digest = hashlib.sha256(repr((problem.family, problem.alpha, problem.terms.tolist())).encode())
    for tensor in (problem.target, problem.weights, start.theta, start.intercept):
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    norms = np.arange(1.0, problem.n_terms + 1.0)  # any will do: weights from a first fit show in what they shrink to
    digest.update(problem.penalty.shrink(norms, 1.0, 1.0).tobytes())
    return digest.hexdigest()


def measure_stationarity(problem: Problem, parameters: Parameters, step: float) -> float:
    """Return the largest entry of (Θ - prox(Θ - step ∇loss))/step over all terms, zero ones too, and the intercept.

    Zero exactly at a stationary point of the objective, whatever the penalty. Steps above 1e-3 are cut to it,
    so that penalties that are not convex are judged near the point and not by a jump to another minimum.
    """
    step = min(max(step, 1e-8), 1e-3)
    exact = replace(problem, x=problem.x.double(), target=problem.target.double(), weights=problem.weights.double())
    theta = parameters.theta.double()
    smooth = exact.gradient(theta, parameters.intercept.double())
    moved = proximal_step(exact, theta - step * smooth.theta, step)
    by_theta = float((theta - moved).abs().max()) / step if theta.numel() else 0.0
    return max(by_theta, float(smooth.intercept.abs().max()))


def _journals(
    problem: Problem, journal: Journal, plan: TrainingPlan, context: Context, validate: Validate | None
) -> Iterator[Journal]:
    """Yield the journal after each epoch until they converge, or the epochs or the time are used up."""
    history, best, last = list(journal.history), journal.best, journal.last
    clock, searches_step = context.clock, plan.solver.searches_step
    stopping = EarlyStopping(plan.patience, plan.tol)
    # a resumed training has as much patience left as it had
    stalled = any([stopping.observe(entry.observed) for entry in history]) and not searches_step
    while not journal.finished and last.number < plan.max_epochs:
        if searches_step:
            epochs = descend(problem, last, plan.solver.accelerated)
        else:
            epochs = train(problem, last, plan, context.streams, clock.passed)
        for epoch in () if stalled else epochs:
            validation = None if validate is None else validate(epoch.parameters)
            last = replace(epoch, validation=validation, seconds=clock.elapsed())
            note = f"loss {last.loss:.4g}, {last.n_active} terms"
            context.progress.report("train", last.number, plan.max_epochs, note)
            if validation is not None and (best.validation is None or validation < best.validation):
                best = last
            numbers = last.number, last.loss, last.penalty, validation, last.n_active, last.rate, last.seconds
            history.append(HistoryEntry(*numbers))
            yield Journal(last, best, history, journal.basis)
            if searches_step:
                converged = last.stationarity is not None and last.stationarity <= plan.tol
            else:
                converged = stopping.observe(history[-1].observed)
            if converged or last.number >= plan.max_epochs or clock.passed():
                break
        if last.number >= plan.max_epochs or clock.passed():
            return
        again = reactivated(problem, last.parameters, max(last.rate, 1e-6)) if plan.solver.proximal else None
        if again is None:
            yield Journal(last, best, history, journal.basis, finished=True)
            return
        last = Epoch(last.number, last.loss, last.penalty, again)
        stopping.waited, stalled = 0, False
