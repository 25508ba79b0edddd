"""From columns and a target to a fitted additive model: the one way through the rooms."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from sparsenam.errors import ConstantColumnWarning, DivergenceError, InputError, describe
from sparsenam.estimators.settings import Settings
from sparsenam.families import Family
from sparsenam.model import AdditiveModel
from sparsenam.networks import SubnetBank, UnitFunctions, build_bank, initial_parameters
from sparsenam.penalties import NeedsFirstFit, Penalty, as_penalty
from sparsenam.streams import Streams
from sparsenam.tables import Scaling
from sparsenam.training import Diverged, Outcome, Parameters, Problem, run
from sparsenam.training.fit import History

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Training data in numbers: columns (rows, features), target (rows, outputs), weights (rows,), names."""

    columns: Matrix
    target: Matrix
    weights: Vector
    names: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A fitted model with the story of its fit. ``norms`` are the group norms of all input features."""

    model: AdditiveModel
    history: History
    stationarity: float
    norms: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A sample on the scale of the fit, its varying columns sorted by name.

    The sorting makes every sum, draw and tie the same whatever the order of the table's columns.
    """

    features: NDArray[np.intp]
    names: list[str]
    scaling: Scaling
    target_scaling: Scaling
    x: Matrix
    target: Matrix
    weights: Vector


def fit_additive(sample: Sample, family: Family, settings: Settings) -> Fitted:
    """Return the model that the settings give for the sample."""
    streams = Streams.from_random_state(settings.random_state)
    prepared = prepare(sample, family, settings.standardize)
    bank = build_bank(settings.hidden, prepared.names, prepared.target.shape[1], settings.activation)
    theta = initial_parameters(bank, prepared.names, streams)
    penalty = as_penalty(settings.penalty)
    if isinstance(penalty, NeedsFirstFit):
        first = _train(prepared, bank, theta, family, penalty, penalty.first_alpha(settings.alpha), settings, streams, "-first")
        problem, outcome = first
        penalty = penalty.adapted_to(problem.norms(outcome.parameters.complete()))
    problem, outcome = _train(prepared, bank, theta, family, penalty, settings.alpha, settings, streams)
    if not outcome.converged:
        warnings.warn(
            f"The fit stopped after {len(outcome.history)} iterations with stationarity {outcome.stationarity:.2g}, "
            f"above tol; raise max_epochs or tol.",
            ConvergenceWarning,
            stacklevel=4,
        )
    return _finished(prepared, bank, family, problem, outcome, settings, sample.columns.shape[1])


def prepare(sample: Sample, family: Family, standardize: bool) -> Prepared:
    """Check the target, leave out constant columns and rows of weight 0, and scale."""
    family.range.check(sample.target, f"the {family.name} family")
    present = sample.weights > 0
    if not present.any():
        raise InputError(describe("sample_weight", "some weight above 0", "none", "give at least one row weight"))
    columns, target, weights = sample.columns[present], sample.target[present], sample.weights[present]
    weights = weights / weights.mean()
    scaling = Scaling.of(columns, weights)
    constant = scaling.scale == 0
    if constant.any():
        named = [sample.names[place] for place in np.flatnonzero(constant)]
        shown = ", ".join(map(str, named[:5])) + (" …" if len(named) > 5 else "")
        warnings.warn(
            f"{len(named)} constant column(s) left out of the model: {shown}.", ConstantColumnWarning, stacklevel=5
        )
    varying = [int(place) for place in np.flatnonzero(~constant)]
    features = np.array(sorted(varying, key=lambda place: str(sample.names[place])), dtype=np.intp)
    scaling = scaling.take(features) if standardize else Scaling.none(features.size)
    target_scaling = Scaling.none(target.shape[1])
    if family.standardizes_target and standardize:
        measured = Scaling.of(target, weights)
        target_scaling = Scaling(measured.center, np.where(measured.scale == 0, 1.0, measured.scale))
    return Prepared(
        features=features,
        names=[str(sample.names[place]) for place in features],
        scaling=scaling,
        target_scaling=target_scaling,
        x=np.ascontiguousarray(scaling.apply(columns[:, features]).T),
        target=target_scaling.apply(target),
        weights=weights,
    )


def _train(
    prepared: Prepared,
    bank: SubnetBank,
    theta: Tensor,
    family: Family,
    penalty: Penalty,
    alpha: float,
    settings: Settings,
    streams: Streams,
    stage: str = "",
) -> tuple[Problem, Outcome]:
    """Run one fit; return its problem with unit functions unfolded and its outcome."""
    plan = settings.plan("fit", stage)
    # the noise of mini-batches is far above single precision's rounding; full batches have no noise
    sees_all_rows = plan.solver.full_batch or plan.batch_size is None or plan.batch_size >= prepared.weights.size
    kind = torch.float64 if sees_all_rows else torch.float32
    device = settings.chosen_device()

    def tensor(array: Matrix) -> Tensor:
        return torch.as_tensor(array, dtype=kind, device=device)

    x = tensor(prepared.x)
    theta = theta.to(device, kind)
    trained = UnitFunctions(bank) if settings.penalize == "function" else bank
    if isinstance(trained, UnitFunctions):
        theta = trained.wrap(theta, x)
    everything = Problem(
        bank=trained,
        family=family,
        penalty=penalty,
        alpha=alpha,
        group=slice(0, trained.size) if settings.penalize == "subnetwork" else trained.output_columns,
        x=x,
        target=tensor(prepared.target),
        weights=tensor(prepared.weights),
        features=np.arange(prepared.features.size),
        n_features=prepared.features.size,
        regularizers=settings.regularizers(),
    )
    intercept = tensor(family.best_constant(prepared.target, prepared.weights))
    training, held_out = _split(everything, settings, streams)

    def validate(parameters: Parameters) -> float:
        assert held_out is not None
        own = replace(held_out, regularizers=type(held_out.regularizers)())
        return own.restricted_to(parameters.active).value(parameters.theta, parameters.intercept)

    start = Parameters.starting_from(theta, intercept)
    try:
        outcome = run(training, start, plan, streams, None if held_out is None else validate)
    except Diverged as diverged:
        where = "the intercept" if diverged.feature is None else f"feature {prepared.names[diverged.feature]!r}"
        raise DivergenceError(
            f"Training diverged in epoch {diverged.epoch} at learning rate {diverged.rate:g}, first in {where}: "
            "lower learning_rate or standardize the columns."
        ) from diverged
    return everything, outcome


def _split(problem: Problem, settings: Settings, streams: Streams) -> tuple[Problem, Problem | None]:
    held = round(settings.validation_fraction * problem.n_rows)
    if held == 0 or held >= problem.n_rows:
        return problem, None
    order = torch.from_numpy(streams.generator("validation").permutation(problem.n_rows))
    return problem.on_rows(order[held:]), problem.on_rows(order[:held])


def _finished(
    prepared: Prepared,
    bank: SubnetBank,
    family: Family,
    problem: Problem,
    outcome: Outcome,
    settings: Settings,
    n_features_in: int,
) -> Fitted:
    """Prune, centre the effects and bring everything to the units of the data."""
    parameters = outcome.parameters
    active, theta = parameters.active, parameters.theta
    if isinstance(problem.bank, UnitFunctions):
        own = UnitFunctions(bank.take(active))
        theta = own.unwrap(theta, problem.x[torch.from_numpy(active)])
    theta = theta.double().cpu()
    norms = np.zeros(n_features_in)
    norms[prepared.features] = problem.norms(parameters.complete())
    model = AdditiveModel(
        family=family,
        bank=bank.take(active),
        theta=theta,
        features=prepared.features[active],
        n_features_in=n_features_in,
        scaling=prepared.scaling.take(active),
        offsets=np.zeros((active.size, prepared.target.shape[1])),
        intercept=np.zeros(prepared.target.shape[1]),
        target_scale=np.ones(prepared.target.shape[1]),
    )
    raw = _raw_effects(model, prepared.x[active])
    offsets = np.einsum("jik,i->jk", raw, prepared.weights) / prepared.weights.sum()
    kept = np.ones(active.size, dtype=bool)
    if not settings.chosen_solver().proximal and problem.alpha > 0:
        sizes = np.einsum("jik,i->j", np.abs(raw - offsets[:, None]), prepared.weights) / prepared.weights.sum()
        kept = sizes > settings.threshold
    places = np.flatnonzero(kept)
    base = parameters.intercept.double().cpu().numpy() + offsets.sum(axis=0)
    unit = prepared.target_scaling.scale
    model = replace(
        model,
        bank=model.bank.take(places),
        theta=model.theta[torch.from_numpy(places)],
        features=model.features[places],
        scaling=model.scaling.take(places),
        offsets=offsets[places],
        intercept=prepared.target_scaling.center + unit * base,
        target_scale=unit,
    )
    return Fitted(model, outcome.history, outcome.stationarity, norms)


def _raw_effects(model: AdditiveModel, x: Matrix) -> NDArray[np.float64]:
    with torch.no_grad():
        return model.bank.effects(model.theta, torch.from_numpy(np.ascontiguousarray(x))).numpy()
