"""Architectures trained on given terms, under the penalty or without it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.convex.design import FrozenFeatures, grouped_design
from sparsenam.convex.newton import refit_on
from sparsenam.errors import InputError, describe
from sparsenam.fit.problem import FamilyProblem, Fitted, Fitter, require_numbers
from sparsenam.model import Finished, finish
from sparsenam.model.networks import n_weights, network_functions
from sparsenam.networks.bank import MLPBank, SubnetBank, build_bank, initial_parameters
from sparsenam.penalties import GroupLasso, JointGroupLasso, NeedsFirstFit, Penalty, spread, weighted
from sparsenam.tables.sample import Matrix, Vector
from sparsenam.training import Network
from sparsenam.training.run import Objective, TrainedNetwork, train_network


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Where a training starts: a bank of networks with parameters θ, and an intercept, by default the best constant."""

    bank: SubnetBank
    theta: Matrix
    intercept: Vector | None = None


def network_fitter(network: Network, penalty: Penalty, alpha: float) -> Fitter:
    """Return the training of an architecture on given terms; with ``alpha`` above 0 the penalty is on the functions."""

    def fit(problem: FamilyProblem, context: Context) -> Fitted:
        require_numbers(problem.prepared)
        start = _random_start(problem, network, context)
        if network.init == "convex" and isinstance(start.bank, MLPBank) and problem.prepared.terms.size:
            start = _with_convex_output(problem, start.bank, start.theta)
        return _trained(problem, network, penalty, alpha, start, context, "train")

    return Fitter(fit, is_exact=_is_exact(network, penalty))


def penalised_network_fitter(network: Network, penalty: Penalty, alpha: float, refits: bool) -> Fitter:
    """Return the paper's training: all terms under the penalty, then, if asked for, the kept ones without it."""

    def fit(problem: FamilyProblem, context: Context) -> Fitted:
        prepared, family = problem.prepared, problem.family
        require_numbers(prepared)
        start = _random_start(problem, network, context)
        on_terms = penalty_on_terms(penalty, problem)
        objective = Objective(prepared, family, on_terms, alpha, network.penalize, problem.training_rows)
        if isinstance(on_terms, NeedsFirstFit):
            first_objective = replace(objective, alpha=on_terms.first_alpha(alpha))
            first = train_network(first_objective, network, start.bank, start.theta, context, "train/first")
            on_terms = on_terms.adapted_to(first.norms)
            objective = replace(objective, penalty=on_terms)
        trained = train_network(objective, network, start.bank, start.theta, context)
        finished = _finished(problem, trained)
        if not network.solver_for(on_terms).proximal and alpha > 0:
            finished = finished.keep(_above_threshold(problem, finished, network.threshold))
        model, outcome = finished.model, trained.outcome
        if refits:
            kept = np.flatnonzero(np.isin(prepared.terms, model.terms))
            row_of = {int(index): row for row, index in enumerate(trained.active)}
            theta = trained.theta[[row_of[int(index)] for index in kept]]
            start = Start(start.bank.take(kept), theta)
            return _trained(problem.take(kept), network, GroupLasso(), 0.0, start, context, "train/refit")
        norms = np.zeros_like(trained.norms)
        norms[model.terms] = trained.norms[model.terms]
        return Fitted(model, norms, outcome.history, outcome.stationarity)

    return Fitter(fit, is_exact=_is_exact(network, penalty))


def _is_exact(network: Network, penalty: Penalty) -> bool:
    """Return whether the problem is convex and its solver runs to many digits."""
    return network.is_linear and network.solver_for(penalty).searches_step


def _trained(
    problem: FamilyProblem, network: Network, penalty: Penalty, alpha: float, start: Start, context: Context, stage: str
) -> Fitted:
    """Train a bank on the problem's terms; where alpha is above 0, the penalty's group is the function norm."""
    on_terms = penalty_on_terms(penalty, problem) if alpha > 0 else GroupLasso()
    penalize = "function" if alpha > 0 else network.penalize
    objective = Objective(problem.prepared, problem.family, on_terms, alpha, penalize, problem.training_rows)
    trained = train_network(objective, network, start.bank, start.theta, context, stage, start.intercept)
    finished, outcome = _finished(problem, trained), trained.outcome
    return Fitted(finished.model, finished.norms(), outcome.history, outcome.stationarity)


def train_path(
    problem: FamilyProblem, network: Network, penalty: Penalty, alphas: Vector, context: Context
) -> Iterator[tuple[float, Fitted]]:
    """Yield penalised networks for rising alphas, each started from the one before it."""
    rest, start = problem, _random_start(problem, network, context)
    for alpha in alphas:
        on_terms = penalty_on_terms(penalty, rest)
        objective = Objective(rest.prepared, problem.family, on_terms, float(alpha), network.penalize)
        trained = train_network(objective, network, start.bank, start.theta, context)
        outcome, model = trained.outcome, _finished(rest, trained).model
        yield float(alpha), Fitted(model, trained.norms, outcome.history, outcome.stationarity)
        rest, start = rest.take(trained.active), Start(trained.bank, trained.theta)
        if context.clock.passed():
            return


def penalty_on_terms(penalty: Penalty, problem: FamilyProblem) -> Penalty:
    """Return the penalty on the norms of all encoded terms, groups and penalty weights included."""
    prepared, penalty = problem.prepared, spread(penalty, problem.column_of, len(problem.column_names))
    grouping = prepared.grouping
    if grouping.group_of.size == len(grouping.members):
        if np.all(grouping.weights == 1.0):
            return penalty
        weights = np.ones(prepared.n_terms)
        weights[prepared.terms] = grouping.weights[grouping.group_of]
        return weighted(penalty, weights)
    if not isinstance(penalty, GroupLasso):
        where = "penalty of a network with feature_groups or categories, whose terms form groups"
        raise InputError(describe(where, "'group_lasso'", type(penalty).__name__, "choose that penalty"))
    members = tuple(prepared.terms[indices] for indices in grouping.members)
    leading = np.array([terms[0] for terms in members], dtype=np.intp)
    return JointGroupLasso(members, penalty.thresholds(prepared.n_terms, 1.0)[leading] * grouping.weights)


def _random_start(problem: FamilyProblem, network: Network, context: Context) -> Start:
    """Return the architecture for a problem's terms, with random parameters."""
    prepared = problem.prepared
    bank = build_bank(network.hidden, prepared.names, prepared.target.shape[1], network.activation)
    return Start(bank, initial_parameters(bank, prepared.names, context.streams))


def _with_convex_output(problem: FamilyProblem, bank: MLPBank, theta: Matrix) -> Start:
    """Return the start with the best output layers for frozen hidden layers."""
    prepared, everything = problem.prepared, np.arange(problem.prepared.terms.size)
    features = FrozenFeatures(prepared.x, bank, theta)
    design = grouped_design(features.columns, prepared.terms.size, prepared.weights)
    solution, intercept = refit_on(design, prepared.target, problem.family, prepared.weights, everything)
    coefficients = np.matmul(design.transform, solution)
    means = np.einsum("jm,jmk->k", design.means, coefficients)
    return Start(bank, features.with_output(everything, coefficients), intercept - means)


def _above_threshold(problem: FamilyProblem, finished: Finished, threshold: float) -> NDArray[np.bool_]:
    """Return which kept terms stay: those of groups with a large effect, or of groups that are never penalised."""
    prepared, large = problem.prepared, finished.mean_absolute > threshold
    row_of = {int(term): row for row, term in enumerate(finished.model.terms)}
    for members, weight in zip(prepared.grouping.members, prepared.grouping.weights, strict=True):
        rows = [row_of[int(term)] for term in prepared.terms[members] if int(term) in row_of]
        large[rows] = weight == 0.0 or large[rows].any()
    return large


def _finished(problem: FamilyProblem, trained: TrainedNetwork) -> Finished:
    prepared, every = problem.prepared.take(trained.active), np.arange(trained.active.size)
    functions = network_functions(trained.bank, trained.theta)
    made = finish(prepared, problem.family, functions, trained.intercept, filled=True)
    return replace(made, model=replace(made.model, weights=n_weights(trained.bank, every)))
