"""What a strategy fits: a prepared sample and a loss, chosen from and fitted in one way for every kind of target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.errors import InputError, describe
from sparsenam.families import Family
from sparsenam.families.base import robust_center_and_scale
from sparsenam.model import AdditiveModel
from sparsenam.selection.choose import (
    Choice,
    CrossValidation,
    choose_at,
    choose_by_cross_validation,
)
from sparsenam.selection.curve import Splits
from sparsenam.selection.task import ConvexTask, centred_effects
from sparsenam.selection.walk import FamilyLoss, HeldOutLoss
from sparsenam.smooth.constraints import Shape
from sparsenam.smooth.fit import SmoothFit
from sparsenam.smooth.grid import PairSpread
from sparsenam.tables import PreparedSample, Sample, TableEncoder, prepare
from sparsenam.tables.encoder import ColumnName, column_index, column_places
from sparsenam.tables.sample import mean_and_deviation
from sparsenam.training import History
from sparsenam.training.rows import TrainingBlocks

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A fitted model and the norms of all encoded terms, shape (n_terms,).

    ``history`` and ``stationarity`` are there where a network was trained, ``smooth`` is the fit of ramps, ``freedom``
    the degrees of freedom of a smooth fit that holds more than ramps.
    """

    model: AdditiveModel
    norms: Vector
    history: History | None = None
    stationarity: float | None = None
    smooth: SmoothEvidence | None = None
    freedom: float | None = None


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
    """

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

    def with_family(self, family: Family) -> Self:
        """Return the problem under another loss."""
        return replace(self, family=family)

    def take(self, indices: Indices) -> FamilyProblem:
        """Return the problem with some of its terms alone."""
        return replace(self, prepared=self.prepared.take(indices))

    def choose(
        self, task: ConvexTask, how: float | CrossValidation, tol: float, quick: Fitter, context: Context
    ) -> Choice:
        """Solve the convex problem at an alpha, or at the one that cross-validation chooses."""
        if isinstance(how, CrossValidation):
            return choose_by_cross_validation(task, how, context, tol)
        return choose_at(task, how, context, tol)

    def fit(self, fitter: Fitter, indices: Indices, start: Vector | None, context: Context) -> tuple[Fitted, Vector]:
        """Fit some terms; return the fit and its scores on the training rows, shape (rows, outputs)."""
        fitted = fitter.fit(self.take(indices), context)
        return fitted, self.scores(fitted.model)

    def at(self, scores: Vector) -> tuple[FamilyProblem, Vector]:
        """Return the problem of a family, and scores (rows, outputs) as that family reads them: both as they are."""
        return self, scores

    @property
    def solves_in_batches(self) -> bool:
        """Whether parts of the rows are the same problem with other weights: they are."""
        return True

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
            terms[:, prepared.terms] = (
                prepared.x * prepared.scaling.scale[:, None] + prepared.scaling.center[:, None]
            ).T
            total += model.pair_effects(terms).sum(axis=1) / prepared.target_scaling.scale
        return total


class Fitter(Protocol):
    """How given terms are fitted.

    ``counts_rows`` says that the fit takes the weights of rows as counts, as restricted likelihood does; ``is_exact``
    that it solves its problem to many digits, so that a sequence of such fits can converge to many digits too.
    """

    @property
    def counts_rows(self) -> bool: ...
    @property
    def is_exact(self) -> bool: ...
    def fit(self, problem: FamilyProblem, context: Context) -> Fitted: ...


class FitProblem(Protocol):
    """What the pipeline needs of a problem; `FamilyProblem` has it, and survival's."""

    @property
    def prepared(self) -> PreparedSample: ...
    @property
    def family(self) -> Family: ...
    @property
    def column_of(self) -> Indices: ...
    @property
    def column_names(self) -> tuple[str, ...]: ...
    @property
    def counted(self) -> Mask: ...
    @property
    def fold_target(self) -> Vector: ...
    def with_family(self, family: Family) -> Self: ...
    def choose(
        self, task: ConvexTask, how: float | CrossValidation, tol: float, quick: Fitter, context: Context
    ) -> Choice: ...
    def fit(
        self, fitter: Fitter, indices: Indices, start: Vector | None, context: Context
    ) -> tuple[Fitted, Vector]: ...
    def at(self, scores: Vector) -> tuple[FamilyProblem, Vector]: ...
    @property
    def solves_in_batches(self) -> bool: ...
    def judged_by(self, task: ConvexTask, splits: Splits, scores: Vector) -> tuple[ConvexTask, HeldOutLoss]: ...
    def finish(self, fitted: Fitted) -> Fitted: ...


def family_problem(
    sample: Sample, encoder: TableEncoder, family: Family, *, standardize: bool, limits: bool = False
) -> FamilyProblem:
    """Check the target and bring the sample to the scale on which the family is fitted."""
    family.range.check(sample.target, f"the {family.name} family")
    measure = None
    if standardize and family.standardizes_target:
        measure = robust_center_and_scale if family.robust_scale else mean_and_deviation
    power = family.exposure_power
    prepared = prepare(sample, standardize=standardize, limits=limits, measure_target=measure, exposure_power=power)
    return FamilyProblem(prepared, family, encoder.term_columns, encoder.names, sample.present)


def check_shapes(shapes: Mapping[ColumnName, Shape], encoder: TableEncoder, problem: FitProblem) -> None:
    """Raise for a shape of a column that is absent, given twice, constant or no number, and of several classes."""
    seen, places = set[int](), column_places(encoder)
    varying = {*problem.prepared.names, *(name for twins in problem.prepared.twins.values() for name in twins)}
    for column, shape in shapes.items():
        index = column_index(encoder, column, "shapes", places)
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
            expected = "two classes, since several share no direction"
            raise InputError(
                describe(where, expected, f"{outputs} classes", "leave it out, or ask for 'linear' or 'steps'")
            )


def shaped_terms(shapes: Mapping[ColumnName, Shape], problem: FitProblem) -> dict[int, Shape]:
    """Return what is asked of the terms of a problem, by index: of the numbers of a column, not its missing cells."""
    names = problem.column_names
    wanted = {column if isinstance(column, str) else names[column]: shape for column, shape in shapes.items()}
    return {index: wanted[name] for index, name in enumerate(problem.prepared.names) if name in wanted}
