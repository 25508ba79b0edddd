"""What is chosen from and fitted, a prepared sample under a loss, and the ways to fit it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from sparsenam.codec import Indices, Mask, Vector
from sparsenam.context import Context
from sparsenam.convex.design import FrozenFeatures, RampFeatures, RandomFeatures
from sparsenam.convex.path import TOLERANCE
from sparsenam.errors import InputError, describe
from sparsenam.families import Family
from sparsenam.families.base import robust_center_and_scale
from sparsenam.model import AdditiveModel, finish
from sparsenam.networks.bank import MLPBank, build_bank, initial_parameters
from sparsenam.penalties import Penalty
from sparsenam.selection.choose import (
    Choice,
    CrossValidation,
    FamilyLoss,
    HeldOutLoss,
    choose_at,
    choose_by_cross_validation,
)
from sparsenam.selection.curve import Splits
from sparsenam.selection.task import ConvexTask, Norm, centred_effects
from sparsenam.smooth.constraints import Shape
from sparsenam.smooth.engine import SmoothFit
from sparsenam.smooth.fit import smooth_fit
from sparsenam.smooth.grid import PairSpread
from sparsenam.tables.encoder import ColumnName, TableEncoder, column_index
from sparsenam.tables.sample import PreparedSample, Sample, mean_and_deviation, prepare
from sparsenam.training import History, Network
from sparsenam.training.rows import TrainingBlocks

FeatureKind = Literal["ramps", "hinges", "random"]

# make constants: CHOICE_RAMPS halved +0.42 %, doubled +0.08 % loss
CHOICE_RAMPS = 16  # most ramps of a term for choosing; the smooth fit that follows takes as many as it needs


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A fitted model and the norms of all encoded terms, shape (n_terms,).

    ``history`` and ``stationarity`` are there where a network was trained, ``smooth`` is the fit of ramps, ``freedom``
    the degrees of freedom of a smooth fit that holds more than ramps, ``scores`` (rows, outputs) what
    `FamilyProblem.scores` gives, where that is at hand.
    """

    model: AdditiveModel
    norms: Vector
    history: History | None = None
    stationarity: float | None = None
    smooth: SmoothEvidence | None = None
    freedom: float | None = None
    scores: Vector | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SmoothEvidence:
    """A smooth fit with the problem that it was fitted to, for what is to be known of its uncertainty.

    ``places`` (terms,) says which of the problem's terms the fit's terms are; ``offset`` (rows, outputs) is what pairs
    add to the scores, and ``pairs`` how uncertain they are.
    """

    problem: FamilyProblem
    fit: SmoothFit
    places: Indices
    offset: Vector | None = None
    pairs: tuple[PairSpread, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class FamilyProblem:
    """A prepared sample under the loss of a family.

    ``column_of`` is the column of each encoded term, shape (n_terms,), out of ``column_names``; ``counted`` marks the
    rows of the table that count, shape (table rows,). ``all_rows`` returns the rows that a network is trained on, for
    the problem of some terms, where the table is not in memory and the prepared sample is a part of it.
    ``solves_in_batches`` says whether parts of the rows are the same problem with other weights.
    """

    solves_in_batches: ClassVar[bool] = True
    prepared: PreparedSample
    family: Family
    column_of: Indices
    column_names: tuple[str, ...]
    counted: Mask
    all_rows: Callable[[FamilyProblem], TrainingBlocks] | None = None

    @property
    def training_rows(self) -> TrainingBlocks | None:
        """All rows of a table that is not in memory, None for one that is."""
        return None if self.all_rows is None else self.all_rows(self)

    @property
    def fold_target(self) -> Vector:
        """What folds are balanced by, shape (rows, outputs)."""
        return self.prepared.target

    def take(self, indices: Indices) -> FamilyProblem:
        """Return the problem with some of its terms alone."""
        return replace(self, prepared=self.prepared.take(indices))

    def choose(self, task: ConvexTask, how: float | CrossValidation, strategy: Strategy, context: Context) -> Choice:
        """Solve the convex problem at an alpha, or at the one that cross-validation chooses."""
        if isinstance(how, CrossValidation):
            lines = None if strategy.straight is None else self.refit(strategy.straight, context)
            refits = self.refit(strategy.quick, context), lines
            return choose_by_cross_validation(task, how, refits, context, strategy.tol)
        return choose_at(task, how, context, strategy.tol)

    def refit(self, quick: Fitter, context: Context) -> Callable[[Vector, Indices], Vector]:
        """Return the scores (rows, outputs) of the fit of some terms under other weights of the rows (rows,)."""

        def scores(weights: Vector, terms: Indices) -> Vector:
            part = replace(self, prepared=replace(self.prepared, weights=weights)).take(terms)
            fitted = quick.fit(part, context)
            return self.scores(fitted.model) if fitted.scores is None else fitted.scores

        return scores

    def fit(self, fitter: Fitter, indices: Indices, start: Vector | None, context: Context) -> Fitted:
        """Return the fit of some terms, from some scores (rows,) where fits alternate with something else."""
        return fitter.fit(self.take(indices), context)

    def at(self, scores: Vector) -> tuple[FamilyProblem, Vector]:
        """Return the problem of a family, and scores (rows, outputs) as that family reads them: both as they are."""
        return self, scores

    def judged_by(self, task: ConvexTask, splits: Splits, scores: Vector) -> tuple[ConvexTask, HeldOutLoss]:
        """Return the task, and the loss of held-out rows by which its supports are judged."""
        return task, FamilyLoss.of(task, splits)

    def finish(self, fitted: Fitted) -> Fitted:
        """Return the fit as users see it: unchanged."""
        return fitted

    def scores(self, model: AdditiveModel) -> Vector:
        """Return a model's scores on the training rows and the scale of the fit, shape (rows, outputs)."""
        prepared = self.prepared
        base = (model.intercept - prepared.target_scaling.center) / prepared.target_scaling.scale
        total = centred_effects(prepared, model).sum(axis=0) + base - np.log(prepared.exposure_unit)
        if model.pairs:
            terms = np.full((prepared.x.shape[1], model.n_terms), np.nan)
            terms[:, prepared.terms] = prepared.x.T * prepared.scaling.scale + prepared.scaling.center
            total += model.pair_effects(terms).sum(axis=1) / prepared.target_scaling.scale
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Fitter:
    """How given terms are fitted: all those of a problem.

    ``counts_rows`` says that the fit takes the weights of rows as counts, as restricted likelihood does; ``is_exact``
    that it solves its problem to many digits, so that a sequence of such fits can converge to many digits too.
    """

    fit: Callable[[FamilyProblem, Context], Fitted]
    counts_rows: bool = False
    is_exact: bool = False


def target_measure(family: Family) -> Callable[[Vector, Vector], tuple[Vector, Vector]] | None:
    """Return what measures centers and spreads of a target (rows, outputs); None for a family that keeps its unit."""
    if not family.standardizes_target:
        return None
    return robust_center_and_scale if family.robust_scale else mean_and_deviation


def family_problem(
    sample: Sample, encoder: TableEncoder, family: Family, *, standardize: bool, limits: bool = False
) -> FamilyProblem:
    """Check the target and bring the sample to the scale on which the family is fitted."""
    measure = target_measure(family) if standardize else None
    family.range.check(sample.target, f"the {family.name} family")
    prepared = prepare(
        sample,
        standardize=standardize,
        limits=limits,
        measure_target=measure,
        exposure_power=family.exposure_power,
        counts_events=family.dispersion == "fixed",
    )
    return FamilyProblem(prepared, family, encoder.term_columns, encoder.names, sample.present)


def check_shapes(shapes: Mapping[ColumnName, Shape], encoder: TableEncoder, problem: FamilyProblem) -> None:
    """Raise for a shape of a column that is absent, given twice, constant or no number, and of several classes."""
    seen = set[int]()
    varying = {*problem.prepared.names, *(name for twins in problem.prepared.twins.values() for name in twins)}
    for column, shape in shapes.items():
        index = column_index(encoder, column, "shapes")
        where, kind = f"shapes of column {encoder.names[index]!r}", encoder.columns[index].kind
        if index in seen:
            raise InputError(describe(where, "one shape", "two, by name and by position", "take one out"))
        seen.add(index)
        if kind == "category":
            remedy = "leave it out, or say in feature_types that it is a number or ordered"
            raise InputError(describe(where, "a column of numbers, dates or ordered levels", "a category", remedy))
        if kind == "constant" or encoder.names[index] not in varying:
            raise InputError(describe(where, "a column that varies", "a constant column", "leave it out"))
        outputs = problem.prepared.target.shape[1]
        if problem.family.couples_outputs and outputs > 1 and not shape.is_free:
            remedy = "leave it out, or ask for 'linear' or 'steps'"
            expected = "two classes, since several share no direction"
            raise InputError(describe(where, expected, f"{outputs} classes", remedy))


def shaped_terms(shapes: Mapping[ColumnName, Shape], problem: FamilyProblem) -> dict[int, Shape]:
    """Return what is asked of the terms of a problem, by index: of the numbers of a column, not its missing cells."""
    names = problem.column_names
    wanted = {column if isinstance(column, str) else names[column]: shape for column, shape in shapes.items()}
    return {index: wanted[name] for index, name in enumerate(problem.prepared.names) if name in wanted}


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
    straight
        The same with straight lines, where these are compared with curves.
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
    takes_pairs
        Whether joint effects of two columns can be part of the fit.
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
    straight: Fitter | None = None
    splits_levels: bool = False
    standardize: bool = True
    limits: bool = False
    chooses: bool = True
    shapes: Mapping[ColumnName, Shape] = field(default_factory=dict[ColumnName, Shape])
    takes_pairs: bool = False
    fits_all_rows: bool = False
    at_once: str = "refit=False or a random-feature model"
    least_shrinkage: bool = False
    norm: Norm = "function"
    tol: float = TOLERANCE


def smooth_strategy(shapes: Mapping[ColumnName, Shape]) -> Strategy:
    """Return the default: the convex problem chooses, and a fit with smoothness set by the data follows."""
    smooth, straight = smooth_fitter(shapes), smooth_fitter(shapes, lines=True)
    return Strategy(
        _ramps,
        lambda choice: straight if choice is not None and choice.lines else smooth,
        smooth,
        straight,
        limits=True,
        shapes=shapes,
        takes_pairs=True,
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
        if choice is None:
            return smooth_fitter()
        task, point = choice.task, choice.point
        return Fitter(lambda problem, context: Fitted(task.model(point), task.norms(point)), is_exact=True)

    return Strategy(
        features,
        fitter,
        smooth_fitter(),
        splits_levels=kind == "random",
        limits=kind == "ramps",
        least_shrinkage=True,
        norm=norm,
        tol=tol,
    )


def chosen_network_strategy(network: Network, penalty: Penalty, refits: bool) -> Strategy:
    """Return the fit of an architecture on the terms that the convex problem chooses, without penalty if ``refits``."""
    from sparsenam.fit.networks import network_fitter  # and PyTorch, which no other fit needs

    def fitter(choice: Choice | None) -> Fitter:
        return network_fitter(network, penalty, 0.0 if refits or choice is None else choice.alpha)

    quick = fitter(None) if network.is_linear else smooth_fitter()
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
    from sparsenam.fit.networks import penalised_network_fitter  # and PyTorch, which no other fit needs

    training = penalised_network_fitter(network, penalty, alpha, refits)
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


def smooth_fitter(shapes: Mapping[ColumnName, Shape] | None = None, *, lines: bool = False) -> Fitter:
    """Return the fit by ramps: smoothness and knots chosen by the data, and the shapes that are asked of columns.

    With ``lines`` numbers have straight lines instead of curves.
    """

    def fit(problem: FamilyProblem, context: Context) -> Fitted:
        prepared = problem.prepared
        rows = prepared.x, prepared.target, prepared.weights, problem.family
        asked = shaped_terms(shapes, problem) if shapes else None
        smooth = smooth_fit(*rows, levels=prepared.levels, shapes=asked, lines=lines, context=context)
        evidence = SmoothEvidence(problem, smooth, np.arange(prepared.terms.size))
        finished = finish(prepared, problem.family, tuple(smooth.functions()), smooth.intercept.copy())
        if smooth.shapes:  # a term whose shape the data speak against is 0; it stays where it was asked to
            free = prepared.grouping.weights[prepared.grouping.group_of] == 0.0
            finished = finished.keep(free | np.array([part.any() for part in smooth.parts], dtype=np.bool_))
        return Fitted(finished.model, finished.norms(), smooth=evidence, scores=finished.scores)

    return Fitter(fit, counts_rows=True)


def require_numbers(prepared: PreparedSample) -> None:
    """Raise for a category: an architecture reads numbers, and codes of levels are none."""
    if prepared.levels.any():
        name = prepared.names[int(np.flatnonzero(prepared.levels)[0])]
        expected = "numbers or two-level categories for a network"
        remedy = "leave network=None, or give the category as 0/1 columns"
        raise InputError(describe(f"column {name!r}", expected, "a category", remedy))
