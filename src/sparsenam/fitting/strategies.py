"""The ways to fit: what the convex problem reads, and how the chosen terms are fitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sparsenam.context import Context
from sparsenam.convex.features import FrozenFeatures, RampFeatures, RandomFeatures
from sparsenam.convex.path import TOLERANCE
from sparsenam.errors import InputError, describe
from sparsenam.fitting.problem import FamilyProblem, Fitted, Fitter, SmoothEvidence, shaped_terms
from sparsenam.model import finish
from sparsenam.networks import MLPBank, build_bank, initial_parameters
from sparsenam.penalties import Penalty
from sparsenam.selection.choose import Choice
from sparsenam.selection.task import Norm
from sparsenam.smooth.constraints import Shape
from sparsenam.smooth.fit import smooth_fit
from sparsenam.tables import PreparedSample
from sparsenam.tables.encoder import ColumnName
from sparsenam.training import Network

FeatureKind = Literal["ramps", "hinges", "random"]

# chosen without a measurement
CHOICE_RAMPS = 16  # most ramps of a term for choosing; the smooth fit that follows takes as many as it needs


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
    width: int = CHOICE_RAMPS,
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
    from sparsenam.fitting.networks import NetworkFitter  # and PyTorch, which no other fit needs

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
    from sparsenam.fitting.networks import PenalisedNetworkFitter  # and PyTorch, which no other fit needs

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
    return RampFeatures(prepared, CHOICE_RAMPS)


def _terms_themselves(prepared: PreparedSample, context: Context) -> RandomFeatures:
    """Return one column for each term, its value: the features of a linear model."""
    bank = MLPBank((), prepared.target.shape[1], "relu")
    return FrozenFeatures(prepared.x, bank, np.zeros((prepared.terms.size, bank.size)))


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
        evidence = SmoothEvidence(problem, smooth, np.arange(prepared.terms.size))
        finished = finish(prepared, problem.family, tuple(smooth.functions()), smooth.intercept.copy())
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


def require_numbers(prepared: PreparedSample) -> None:
    """Raise for a category: an architecture reads numbers, and codes of levels are none."""
    if prepared.levels.any():
        name = prepared.names[int(np.flatnonzero(prepared.levels)[0])]
        expected = "numbers or two-level categories for a network"
        remedy = "leave network=None, or give the category as 0/1 columns"
        raise InputError(describe(f"column {name!r}", expected, "a category", remedy))
