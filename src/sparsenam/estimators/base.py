"""What the estimators share: their parameters, the rows that they are given, and the fit by the pipeline."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags

from sparsenam.codec import Vector
from sparsenam.context import ProgressBar, ResumeFile, Streams, running, thread_count
from sparsenam.convex.path import TOLERANCE
from sparsenam.errors import ChoiceWarning, InputError, describe, rows_named_by
from sparsenam.estimators.fitted import FittedModel
from sparsenam.families import CustomLoss, Family
from sparsenam.fit.pairs import Heredity, Pairs
from sparsenam.fit.pipeline import Fit, Respond, fit
from sparsenam.fit.plan import DEFAULT_FOLDS, Alpha, FitInput, Plan, WeightMeaning, plan_of
from sparsenam.fit.problem import FeatureKind
from sparsenam.fit.response import check_counts
from sparsenam.penalties import Penalty
from sparsenam.selection import Rule, RuleName
from sparsenam.selection.curve import CrossValidator
from sparsenam.selection.task import Norm
from sparsenam.tables.blocks import (
    SAMPLE_ROWS,
    Blocks,
    MemoryBlocks,
    TargetColumns,
    VisitedBlocks,
    blocks_of,
    require_named_columns,
    sample_of,
    source_of,
)
from sparsenam.tables.encoder import ColumnName, FeatureGroups, FeatureTypes, PenaltyWeights
from sparsenam.training import Network

RandomState = int | np.random.RandomState | None


@dataclass(kw_only=True, eq=False, repr=False)
class AdditiveEstimator(FittedModel, ABC):
    """An estimator whose fitted state is an additive model; the parameters say how columns are chosen."""

    alpha: Alpha = field(default="auto", kw_only=False)
    penalty: str | Penalty = "group_lasso"
    cv: CrossValidator = DEFAULT_FOLDS
    rule: RuleName | Rule = "compact"
    n_alphas: int = 30
    max_features: int | None = None
    feature_types: FeatureTypes | None = None
    feature_groups: FeatureGroups | None = None
    penalty_weights: PenaltyWeights | None = None
    always_keep: Sequence[ColumnName] | None = None

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : table of shape (rows, features)
            As for `SNAMRegressor.fit`.
        y : array-like of shape (rows,) or (rows, labels), or str
            For a classifier, classes of any type or a 0/1 matrix of labels; for survival, a structured array with one
            boolean field, whether the row ended with the event, and one of numbers above 0, when it ended, as
            `survival_target` makes one. A table that is not in memory holds its target: y is then the name of its
            column, and so are the weights. Survival needs a table in memory.
        sample_weight : array-like of shape (rows,) or str, optional
            Weight of each row; a row of weight 0 counts as absent. Weights are relative unless the parameter
            ``weights`` says otherwise.
        groups : array-like of shape (rows,), optional
            Groups of rows for a splitter ``cv`` that needs them.
        """
        return self._fit_rows(FitData(X, y, sample_weight, groups=groups))

    @abstractmethod
    def _fit_rows(self, data: FitData) -> Self:
        """Read the rows and fit them."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        return tags

    def _refit(self, X: ArrayLike, y: ArrayLike, **given: ArrayLike) -> Fit:
        return clone(self).fit(X, y, **given).fit_

    def _plan(self, family: str | Family | CustomLoss, allowed: tuple[str, ...] = ()) -> Plan:
        """Check the parameters and return the plan that they ask for; a family's name must be allowed."""
        return plan_of(type(self).__name__, self.get_params(deep=False), family, allowed)

    def _fit_by(self, plan: Plan, rows: FitInput, respond: Respond, data: FitData) -> Self:
        """Run the pipeline on some rows; nothing of the estimator changes before it has come to its end."""
        if rows.groups is not None and plan.settings.alpha != "auto":
            got, remedy = f"{plan.settings.alpha}", "leave groups out"
            raise InputError(describe("groups", "alpha='auto', which cross-validates", got, remedy))
        resume = data.resume_file(plan.parameters)
        thread_count(plan.parameters.get("n_jobs"))  # raises for what is no number, also where all rows are at hand
        with running(plan.parameters, data.progress, resume) as context:
            found = fit(rows, plan, respond, context)
        self.fit_ = found
        vars(self).pop("_session", None)  # of an editable copy that is fitted anew
        evidence = found.evidence
        doubts = [] if evidence is None else evidence.doubts()
        if doubts:  # the level is that of whoever calls fit
            warnings.warn(" ".join([*doubts, "evidence_ has the figures."]), ChoiceWarning, stacklevel=4)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class SNAMParameters(AdditiveEstimator):
    """The constructor of the SNAM estimators; see `SNAMRegressor` for the meaning."""

    pairs: Pairs = "auto"
    heredity: Heredity = "none"
    refit: bool | Literal["auto"] = "auto"
    network: Network | None = None
    shapes: Mapping[ColumnName, str] | None = None
    weights: WeightMeaning = "relative"
    max_seconds: float | None = None
    n_jobs: int | None = None
    verbose: bool | None = None
    random_state: RandomState = None


@dataclass(kw_only=True, eq=False, repr=False)
class RandomFeatureParameters(AdditiveEstimator):
    """The constructor of the random-feature estimators; see `RandomFeatureSNAMRegressor` for the meaning."""

    features: FeatureKind = "ramps"
    norm: Norm = "function"
    width: int = 32
    hidden: tuple[int, ...] = (100, 50)
    activation: str = "relu"
    tol: float = TOLERANCE
    max_seconds: float | None = None
    n_jobs: int | None = None
    verbose: bool | None = None
    random_state: RandomState = None


@dataclass(frozen=True, slots=True, eq=False)
class FitData:
    """The data that ``fit`` was called with, and the progress display and resume file of its caller, if there are any.

    Of a large table the rows are a sample, which chooses: ``blocks`` has all rows, and ``places`` (rows,) are the
    numbers of the sample's rows among them.
    """

    X: object
    y: ArrayLike
    sample_weight: ArrayLike | None = None
    exposure: ArrayLike | None = None
    groups: ArrayLike | None = None
    progress: ProgressBar | None = None
    resume: ResumeFile | None = None
    blocks: Blocks | None = None
    places: NDArray[np.intp] | None = None

    @property
    def among(self) -> str:
        """Where the rows are a sample, the words that say so."""
        drawn, blocks = _length(self.y), self.blocks
        return "" if blocks is None or drawn >= blocks.n_rows else f" in the sample of {drawn:,} rows"

    def resume_file(self, parameters: Mapping[str, Any]) -> ResumeFile | None:
        """Return the caller's resume file, or that of the network's checkpoint."""
        network: object = parameters.get("network")
        if not isinstance(network, Network) or network.checkpoint is None:
            return self.resume
        if parameters.get("random_state") is None:
            expected = "a random_state, without which no other run is the same fit"
            raise InputError(describe("checkpoint", expected, "None", "set random_state"))
        return self.resume or ResumeFile(Path(network.checkpoint))

    def sampled(self, plan: Plan, at_once: bool = False) -> FitData:
        """Return the table as it is, or for one of more than 200,000 rows a sample of them and all in blocks.

        A table that is not in memory has its target, weights and exposure among its columns, named by y and the
        others; so may a table in memory. ``at_once`` says that all rows are needed at once.
        """
        blocks = self._outside()
        needs = _needs_all_rows(plan, blocks, at_once or self.groups is not None)
        if blocks is not None:
            if needs is not None:
                raise _not_in_memory(needs)
            return self._drawn_from(blocks, plan)
        given = self._with_columns_inside()
        rows = _length(given.y)
        if needs is not None or not plan.strategy.fits_all_rows or rows <= SAMPLE_ROWS or _length(given.X) != rows:
            return given
        weights = _of_rows(given.sample_weight, "sample_weight", rows)
        exposure = _of_rows(given.exposure, "exposure", rows)
        return given._drawn_from(MemoryBlocks(given.X, np.asarray(given.y), weights, exposure), plan)

    def _outside(self) -> Blocks | None:
        """Return the blocks of a table that is not in memory, None for one that is."""
        if isinstance(self.X, np.ndarray):
            return None
        if isinstance(self.y, str):
            return blocks_of(self.X, self._target_columns(self.y))
        if source_of(self.X) is None:
            return None
        expected = "the name of the target's column, for a table that is not in memory"
        raise InputError(describe("y", expected, type(self.y).__name__, "write for example fit(table, 'price')"))

    def _with_columns_inside(self) -> FitData:
        """Return a table in memory with its target, weights and exposure taken out where they are named."""
        if not isinstance(self.y, str):
            return self
        require_named_columns(self.X)
        inside = self._target_columns(self.y).block(self.X, 0)
        return replace(self, X=inside.X, y=inside.y, sample_weight=inside.weights, exposure=inside.exposure)

    def _target_columns(self, target: str) -> TargetColumns:
        names = list[str | None]()
        for column in (self.sample_weight, self.exposure):
            if not (column is None or isinstance(column, str)):
                expected, got = "the name of a column, as y is one", type(column).__name__
                raise InputError(describe("sample_weight or exposure", expected, got, "name a column of the table"))
            names.append(column)
        return TargetColumns(target, *names)

    def _drawn_from(self, blocks: Blocks, plan: Plan) -> FitData:
        """Return a sample of the rows in blocks."""
        parameters, rows = plan.parameters, blocks.n_rows
        progress = self.progress or ProgressBar(parameters.get("verbose"))
        seed = Streams.from_random_state(parameters.get("random_state")).integer("sample of rows")
        blocks = blocks.with_jobs(thread_count(parameters.get("n_jobs")))
        try:
            drawn = sample_of(blocks, seed, report=lambda done: progress.report("sample", done, rows))
        finally:
            progress.close()
        places = np.asarray(drawn.in_table, dtype=np.intp)
        table = {"X": drawn.X, "y": drawn.y, "sample_weight": drawn.weights, "exposure": drawn.exposure}
        sample = replace(self, **table, blocks=blocks, places=places)
        for values, name in ((drawn.weights, "sample_weight"), (drawn.exposure, "exposure")):
            with rows_named_by(places):
                empty = values is not None and not check_counts(values, name).any()
            if empty:
                remedy = "leave out the rows where it is 0"
                raise InputError(describe(name, f"some number above 0{sample.among}", "none", remedy))
        return sample


def _needs_all_rows(plan: Plan, blocks: Blocks | None, at_once: bool) -> str | None:
    """Return what needs all rows of a table in memory at once, None where nothing does."""
    strategy, settings = plan.strategy, plan.settings
    if at_once:
        return "groups, or several labels"
    if strategy.at_once:
        return strategy.at_once
    if not strategy.fits_all_rows and blocks is not None and not isinstance(blocks, VisitedBlocks):
        return "a network, which is trained on files of Parquet only"
    return None if isinstance(settings.cv, int) else "folds that are given"


def require_in_memory(X: object, needs: str) -> None:
    """Raise where a table is not in memory, for a fit that needs all its rows at once."""
    if not isinstance(X, np.ndarray) and source_of(X) is not None:
        raise _not_in_memory(needs)


def _not_in_memory(needs: str) -> InputError:
    expected, remedy = "a fit that reads its rows block by block", "read a table of some rows into memory"
    return InputError(describe("a table that is not in memory", expected, needs, f"leave that out, or {remedy}"))


def _of_rows(values: ArrayLike | None, name: str, rows: int) -> Vector | None:
    """Return one number for each row, where they are given."""
    if values is None:
        return None
    given = np.asarray(values)
    if given.shape != (rows,):
        raise InputError(describe(name, f"{rows} numbers", f"shape {given.shape}", "give one for each row"))
    return check_counts(given, name)


def _length(values: object) -> int:
    """Return the number of rows of anything that has one, 0 of others, which checks will refuse."""
    try:
        return len(values) if isinstance(values, Sized) else 0
    except TypeError:  # a single number of NumPy, or a sparse matrix
        return 0


def name_of(y: object, columns: Collection[str]) -> str | None:
    """Return the name of a target that has one: a column's, or that of a series or a table of one column.

    A target with the name of a column of X is something made of that column, which took its name along.
    """
    names: list[object] = list(getattr(y, "columns", ()))
    name: object = y if isinstance(y, str) else names[0] if len(names) == 1 else getattr(y, "name", None)
    return name if isinstance(name, str) and name and name not in columns else None


Estimator = TypeVar("Estimator", bound=AdditiveEstimator)


def fit_with(
    estimator: Estimator,
    X: object,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    exposure: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    progress: ProgressBar | None = None,
    resume: ResumeFile | None = None,
) -> Estimator:
    """Fit an estimator as its ``fit`` does, with the caller's own progress display and resume file.

    A fit that was stopped and is started again with the same file, data and settings goes on where it was.
    """
    data = FitData(X, y, sample_weight, exposure, groups, progress, resume)
    return estimator._fit_rows(data)  # pyright: ignore[reportPrivateUsage]


def require_target(estimator: BaseEstimator, y: ArrayLike | None) -> ArrayLike:
    """Return y; raise when it is None."""
    if y is None:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    return y
