"""The ways to fit: what the convex problem reads, and how the chosen terms are fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.context import Context
from sparsenam.convex.design import grouped_design
from sparsenam.convex.features import FrozenFeatures, RampFeatures, RandomFeatures
from sparsenam.convex.relaxed import refit_on
from sparsenam.errors import InputError, describe
from sparsenam.fitting.problem import FamilyProblem, Fitted, Fitter, SmoothEvidence
from sparsenam.fitting.shapes import shaped_terms
from sparsenam.model import Finished, finish
from sparsenam.networks import MLPBank, SubnetBank, build_bank, initial_parameters
from sparsenam.penalties import GroupLasso, JointGroupLasso, NeedsFirstFit, Penalty, spread, weighted
from sparsenam.selection.choose import Choice
from sparsenam.selection.task import TOLERANCE, Norm
from sparsenam.smooth.constraints import Shape
from sparsenam.smooth.fit import smooth_fit
from sparsenam.tables import PreparedSample
from sparsenam.tables.encoder import ColumnName
from sparsenam.training import Network, Objective, TrainedNetwork, train_network

FeatureKind = Literal["ramps", "hinges", "random"]

RAMPS = 16  # most ramps of a term for choosing; the smooth fit that follows takes as many as it needs


@dataclass(frozen=True, slots=True, eq=False)
class Strategy:
    """One way to fit, resolved once from the settings.

    Attributes
    ----------
    features
        Returns the frozen hidden units of each term that the convex problem reads.
    fitter
        Returns how the chosen terms are fitted; given None, how all terms are.
    quick
        A fast fit of given terms, for choices that need one.
    splits_levels
        Whether a category becomes a 0/1 term for each level, as sub-networks need.
    standardize
        Whether terms and target are brought to mean 0 and variance 1.
    limits
        Whether cells far beyond all others are moved nearer first: right where effects are level beyond the data.
    chooses
        Whether the convex problem chooses terms.
    shapes
        What is asked of the effects of columns, by name or position.
    fits_all_rows
        Whether the fit can be that of all rows of a large table, of which a sample has chosen the terms.
    at_once
        What needs all rows of a table in memory at once; empty where nothing does.
    least_shrinkage, norm, tol
        Of the convex problem: the lowest alpha with the chosen support, the group norm, the duality gap.
    """

    features: Callable[[PreparedSample, Context], RandomFeatures]
    fitter: Callable[[Choice | None], Fitter]
    quick: Fitter
    splits_levels: bool = False
    standardize: bool = True
    limits: bool = False
    chooses: bool = True
    shapes: Mapping[ColumnName, Shape] = field(default_factory=dict[ColumnName, Shape])
    fits_all_rows: bool = False
    at_once: str = "refit=False or a random-feature model"
    least_shrinkage: bool = False
    norm: Norm = "function"
    tol: float = TOLERANCE


def smooth_strategy(shapes: Mapping[ColumnName, Shape]) -> Strategy:
    """Return the default: the convex problem chooses, and a fit with smoothness set by the data follows."""
    smooth = SmoothFitter(shapes)
    return Strategy(
        _ramps,
        lambda choice: smooth,
        smooth,
        limits=True,
        shapes=shapes,
        fits_all_rows=not shapes,
        at_once="shapes" if shapes else "",
    )


def convex_strategy(
    kind: FeatureKind = "ramps",
    width: int = RAMPS,
    hidden: tuple[int, ...] = (),
    activation: str = "relu",
    norm: Norm = "function",
    tol: float = TOLERANCE,
) -> Strategy:
    """Return the fit whose model is the penalised convex solution itself.

    ``kind`` says which hidden units it reads: ramps or hinges, at most ``width`` a term, or the last hidden layer of
    sub-networks with widths ``hidden`` and random parameters.
    """

    def features(prepared: PreparedSample, context: Context) -> RandomFeatures:
        if kind != "random":
            return RampFeatures(prepared, width, hinges=kind == "hinges")
        require_numbers(prepared)
        bank = build_bank(hidden, prepared.names, prepared.target.shape[1], activation)
        assert isinstance(bank, MLPBank)
        return FrozenFeatures(prepared.x, bank, initial_parameters(bank, prepared.names, context.streams))

    def fitter(choice: Choice | None) -> Fitter:
        return SmoothFitter() if choice is None else SolutionFitter(choice)

    return Strategy(
        features,
        fitter,
        SmoothFitter(),
        splits_levels=kind == "random",
        limits=kind == "ramps",
        least_shrinkage=True,
        norm=norm,
        tol=tol,
    )


def chosen_network_strategy(network: Network, penalty: Penalty, refits: bool) -> Strategy:
    """Return the fit of an architecture on the terms that the convex problem chooses, without penalty if ``refits``."""

    def fitter(choice: Choice | None) -> Fitter:
        return NetworkFitter(network, penalty, 0.0 if refits or choice is None else choice.alpha)

    quick = fitter(None) if network.is_linear else SmoothFitter()
    features = _terms_themselves if network.is_linear else _ramps
    return Strategy(
        features,
        fitter,
        quick,
        splits_levels=True,
        standardize=network.standardize,
        at_once=_all_at_once(network, penalty),
    )


def penalised_network_strategy(network: Network, penalty: Penalty, alpha: float, refits: bool) -> Strategy:
    """Return the paper's fit: an architecture trained on all terms under the penalty, from random parameters."""
    training = PenalisedNetworkFitter(network, penalty, alpha, refits)
    return Strategy(
        _ramps,
        lambda choice: training,
        training,
        splits_levels=True,
        standardize=network.standardize,
        chooses=False,
        at_once=_all_at_once(network, penalty),
    )


def _all_at_once(network: Network, penalty: Penalty) -> str:
    """Return what in a network's training needs all rows in memory at once."""
    solver = network.solver_for(penalty)
    if solver.full_batch:
        return f"a network with the solver {solver.name!r}, which takes all rows in every step"
    return "a network with batch_size=None" if network.batch_size is None else ""


def _ramps(prepared: PreparedSample, context: Context) -> RandomFeatures:
    return RampFeatures(prepared, RAMPS)


def _terms_themselves(prepared: PreparedSample, context: Context) -> RandomFeatures:
    """Return one column for each term, its value: the features of a linear model."""
    bank = MLPBank((), prepared.target.shape[1], "relu")
    return FrozenFeatures(prepared.x, bank, torch.zeros(prepared.terms.size, bank.size).double())


@dataclass(frozen=True, slots=True)
class SmoothFitter:
    """Ramps with smoothness and knots chosen by the data, and the shapes that are asked of columns."""

    shapes: Mapping[ColumnName, Shape] = field(default_factory=dict[ColumnName, Shape])
    counts_rows: bool = True
    is_exact: bool = False

    def fit(self, problem: FamilyProblem, context: Context) -> Fitted:
        """Fit all terms of the problem."""
        prepared = problem.prepared
        smooth = smooth_fit(
            prepared.x,
            prepared.target,
            prepared.weights,
            problem.family,
            levels=prepared.levels,
            shapes=shaped_terms(self.shapes, problem) if self.shapes else None,
            context=context,
        )
        evidence = SmoothEvidence(problem, smooth, _all(prepared))
        bank, theta = smooth.network()
        counted = evidence.counted.prepared
        finished = finish(counted, problem.family, bank, theta, _all(prepared), smooth.intercept.copy())
        if smooth.shapes:  # a term whose shape the data speak against is 0; it stays where it was asked to
            free = prepared.grouping.spread(prepared.grouping.weights) == 0.0
            finished = finished.keep(free | np.array([part.any() for part in smooth.coefficients], dtype=np.bool_))
        return Fitted(finished.model, finished.norms(), smooth=evidence)


@dataclass(frozen=True, slots=True, eq=False)
class SolutionFitter:
    """The penalised solution of a choice, as it is."""

    choice: Choice
    counts_rows: bool = False
    is_exact: bool = True

    def fit(self, problem: FamilyProblem, context: Context) -> Fitted:
        """Return the solution as a model."""
        task, point = self.choice.task, self.choice.point
        return Fitted(task.model(point), task.norms(point))


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Where a training starts: a bank of networks with parameters θ, and an intercept, by default the best constant."""

    bank: SubnetBank
    theta: Tensor
    intercept: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class NetworkFitter:
    """An architecture trained on given terms; with ``alpha`` above 0 the penalty is on the functions."""

    network: Network
    penalty: Penalty
    alpha: float
    counts_rows: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether the problem is convex and its solver runs to many digits."""
        return self.network.is_linear and self.network.solver_for(self.penalty).searches_step

    def fit(self, problem: FamilyProblem, context: Context) -> Fitted:
        """Train on all terms of the problem."""
        prepared, network = problem.prepared, self.network
        require_numbers(prepared)
        bank = build_bank(network.hidden, prepared.names, prepared.target.shape[1], network.activation)
        start = Start(bank, initial_parameters(bank, prepared.names, context.streams))
        if network.init == "convex" and isinstance(bank, MLPBank) and prepared.terms.size:
            start = _with_convex_output(problem, bank, start.theta)
        return self.train(problem, start, context, "train")

    def train(self, problem: FamilyProblem, start: Start, context: Context, stage: str) -> Fitted:
        """Train a bank on the problem's terms; where alpha is above 0, the penalty's group is the function norm."""
        network, alpha = self.network, self.alpha
        on_terms = penalty_on_terms(self.penalty, problem) if alpha > 0 else GroupLasso()
        penalize = "function" if alpha > 0 else network.penalize
        objective = Objective(problem.prepared, problem.family, on_terms, alpha, penalize, problem.training_rows)
        trained = train_network(objective, network, start.bank, start.theta, context, stage, start.intercept)
        finished, outcome = _finished(problem, trained), trained.outcome
        return Fitted(finished.model, finished.norms(), outcome.history, outcome.stationarity)


@dataclass(frozen=True, slots=True)
class PenalisedNetworkFitter:
    """The paper's training: all terms under the penalty, then, if asked for, the kept ones without it."""

    network: Network
    penalty: Penalty
    alpha: float
    refits: bool
    counts_rows: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether the problem is convex and its solver runs to many digits."""
        return self.network.is_linear and self.network.solver_for(self.penalty).searches_step

    def fit(self, problem: FamilyProblem, context: Context) -> Fitted:
        """Train on all terms of the problem."""
        prepared, network, family = problem.prepared, self.network, problem.family
        require_numbers(prepared)
        bank = build_bank(network.hidden, prepared.names, prepared.target.shape[1], network.activation)
        start = initial_parameters(bank, prepared.names, context.streams)
        penalty = penalty_on_terms(self.penalty, problem)
        objective = Objective(prepared, family, penalty, self.alpha, network.penalize, problem.training_rows)
        if isinstance(penalty, NeedsFirstFit):
            first_objective = replace(objective, alpha=penalty.first_alpha(self.alpha))
            first = train_network(first_objective, network, bank, start, context, "train/first")
            penalty = penalty.adapted_to(first.norms)
            objective = replace(objective, penalty=penalty)
        trained = train_network(objective, network, bank, start, context)
        finished = _finished(problem, trained)
        if not network.solver_for(penalty).proximal and self.alpha > 0:
            finished = finished.keep(_above_threshold(problem, finished, network.threshold))
        model, outcome = finished.model, trained.outcome
        if self.refits:
            kept = np.flatnonzero(np.isin(prepared.terms, model.terms))
            row_of = {int(index): row for row, index in enumerate(trained.active)}
            theta = trained.theta[[row_of[int(index)] for index in kept]]
            unpenalised = NetworkFitter(network, penalty, 0.0)
            return unpenalised.train(problem.take(kept), Start(bank.take(kept), theta), context, "train/refit")
        norms = np.zeros_like(trained.norms)
        norms[model.terms] = trained.norms[model.terms]
        return Fitted(model, norms, outcome.history, outcome.stationarity)


def train_path(
    problem: FamilyProblem, network: Network, penalty: Penalty, alphas: NDArray[np.float64], context: Context
) -> Iterator[tuple[float, Fitted]]:
    """Yield penalised networks for rising alphas, each started from the one before it."""
    rest, theta = problem, None
    for alpha in alphas:
        prepared = rest.prepared
        bank = build_bank(network.hidden, prepared.names, prepared.target.shape[1], network.activation)
        start = initial_parameters(bank, prepared.names, context.streams) if theta is None else theta
        on_terms = penalty_on_terms(penalty, rest)
        objective = Objective(prepared, problem.family, on_terms, float(alpha), network.penalize)
        trained = train_network(objective, network, bank, start, context)
        outcome = trained.outcome
        finished = _finished(rest, trained)
        yield float(alpha), Fitted(finished.model, trained.norms, outcome.history, outcome.stationarity)
        theta, rest = trained.theta, rest.take(trained.active)
        if context.clock.passed():
            return


def penalty_on_terms(penalty: Penalty, problem: FamilyProblem) -> Penalty:
    """Return the penalty on the norms of all encoded terms, groups and penalty weights included."""
    prepared, penalty = problem.prepared, spread(penalty, problem.column_of, len(problem.column_names))
    grouping = prepared.grouping
    if grouping.is_trivial:
        if np.all(grouping.weights == 1.0):
            return penalty
        weights = np.ones(prepared.n_terms)
        weights[prepared.terms] = grouping.weights
        return weighted(penalty, weights)
    if not isinstance(penalty, GroupLasso):
        where = "penalty of a network with feature_groups or categories, whose terms form groups"
        raise InputError(describe(where, "'group_lasso'", type(penalty).__name__, "choose that penalty"))
    members = tuple(prepared.terms[indices] for indices in grouping.members)
    leading = np.array([terms[0] for terms in members], dtype=np.intp)
    return JointGroupLasso(members, penalty.thresholds(prepared.n_terms, 1.0)[leading] * grouping.weights)


def require_numbers(prepared: PreparedSample) -> None:
    """Raise for a category: an architecture reads numbers, and codes of levels are none."""
    if prepared.levels.any():
        name = prepared.names[int(np.flatnonzero(prepared.levels)[0])]
        expected = "numbers or two-level categories for a network"
        remedy = "leave network=None, or give the category as 0/1 columns"
        raise InputError(describe(f"column {name!r}", expected, "a category", remedy))


def _with_convex_output(problem: FamilyProblem, bank: MLPBank, theta: Tensor) -> Start:
    """Return the start with the best output layers for frozen hidden layers."""
    prepared, everything = problem.prepared, _all(problem.prepared)
    features = FrozenFeatures(prepared.x, bank, theta)
    design = grouped_design(features.columns, prepared.terms.size, prepared.weights)
    solution, intercept = refit_on(design, prepared.target, problem.family, prepared.weights, everything)
    coefficients = design.original(solution)
    means = np.einsum("jm,jmk->k", design.means, coefficients)
    return Start(bank, features.network(everything, coefficients)[1], intercept - means)


def _above_threshold(problem: FamilyProblem, finished: Finished, threshold: float) -> NDArray[np.bool_]:
    """Return which kept terms stay: those of groups with a large effect, or of groups that are never penalised."""
    prepared, large = problem.prepared, finished.mean_absolute > threshold
    row_of = {int(term): row for row, term in enumerate(finished.model.terms)}
    for members, weight in zip(prepared.grouping.members, prepared.grouping.weights, strict=True):
        rows = [row_of[int(term)] for term in prepared.terms[members] if int(term) in row_of]
        large[rows] = weight == 0.0 or large[rows].any()
    return large


def _finished(problem: FamilyProblem, trained: TrainedNetwork) -> Finished:
    return finish(
        problem.prepared,
        problem.family,
        trained.bank,
        trained.theta,
        trained.active,
        trained.intercept,
        filled=True,
    )


def _all(prepared: PreparedSample) -> NDArray[np.intp]:
    return np.arange(prepared.terms.size)
