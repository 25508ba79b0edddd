"""How rows become a problem and a choice: the plan of a fit, its folds, its convex problem, its chosen terms."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from sparsenam.context import Context
from sparsenam.errors import InputError, describe
from sparsenam.families import Family
from sparsenam.fitting.all_rows import LargeTable
from sparsenam.fitting.cox import cox_problem
from sparsenam.fitting.problem import FitProblem, Fitted, Vector, family_problem
from sparsenam.fitting.settings import DEFAULT_FOLDS, Settings, require_no_path_settings, resolve
from sparsenam.fitting.strategies import SmoothFitter, Strategy
from sparsenam.penalties import Penalty, spread
from sparsenam.selection import Rule, as_rule
from sparsenam.selection.choose import Choice, CrossValidation
from sparsenam.selection.curve import repeats_for, splits_of
from sparsenam.selection.task import ConvexTask
from sparsenam.tables import Sample, TableEncoder
from sparsenam.tables.encoder import grouping_of

Pose = Callable[[Sample, TableEncoder], FitProblem]
CHOOSING = 0.6  # share of max_seconds for the choice; the rest is for the fit; chosen without a measurement


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How to choose and how to fit.

    ``pose`` makes the problem of a sample: it checks the target and brings everything to the scale of the fit.
    ``estimator`` and ``parameters`` are the name of the estimator and all its parameters.
    """

    strategy: Strategy
    pose: Pose
    penalty: Penalty
    rule: Rule
    settings: Settings
    estimator: str
    parameters: dict[str, Any]

    def read(self, X: object, among: str = "") -> tuple[TableEncoder, Vector]:
        """Decide what each column of a table is, and return it in terms, shape (rows, terms).

        ``among`` says in messages which rows these are, where they are a sample.
        """
        types, split = self.settings.feature_types, self.strategy.splits_levels
        return TableEncoder.fit(X, types, split_levels=split, estimator_name=self.estimator, among=among)

    def sample(
        self, encoder: TableEncoder, terms: Vector, target: Vector, weights: Vector, exposure: Vector | None = None
    ) -> Sample:
        """Return terms (rows, terms), target (rows, outputs) and weights (rows,) with what is said of the columns."""
        given = self.settings
        return Sample(
            terms,
            target,
            weights,
            [term.name for term in encoder.terms],
            levels=np.array([term.kind == "levels" for term in encoder.terms], dtype=np.bool_),
            grouping=grouping_of(encoder, given.feature_groups, given.penalty_weights, given.always_keep),
            exposure=exposure,
            counted=given.weights == "counts",
        )


@dataclass(frozen=True, slots=True, eq=False)
class FitInput:
    """What a fit is given: a sample as encoded, and what is known of its rows.

    ``target`` is the name of y. ``groups`` (rows,) are for splitters that need them, ``stratum`` (rows,) for those that
    stratify. Of a large ``table`` the sample is a part, which chooses; all of its rows are fitted.
    """

    encoder: TableEncoder
    sample: Sample
    target: str | None = None
    groups: ArrayLike | None = None
    stratum: NDArray[np.generic] | None = None
    table: LargeTable | None = None


def plan_of(estimator: str, parameters: Mapping[str, Any], family: Family | None) -> Plan:
    """Check an estimator's parameters and return the plan that they ask for; without a family, Cox's model."""
    settings, strategy, penalty = resolve(parameters)
    pose: Pose
    if family is None:
        ties = parameters["ties"]
        pose = partial(cox_problem, ties=ties, standardize=strategy.standardize, limits=strategy.limits)
    else:
        pose = partial(family_problem, family=family, standardize=strategy.standardize, limits=strategy.limits)
    return Plan(strategy, pose, penalty, as_rule(settings.rule), settings, estimator, dict(parameters))


def choose(
    problem: FitProblem, plan: Plan, splits: Callable[[FitProblem], CrossValidation], context: Context
) -> Choice | None:
    """Let the convex problem choose terms, and alpha where the plan leaves it open; None if it has no part."""
    prepared, strategy = problem.prepared, plan.strategy
    if not strategy.chooses or not prepared.terms.size:
        return None
    task = convex_task(problem, plan, context)
    if prepared.grouping.weights.any():
        _check_free_columns(problem, plan)
        how = plan.settings.alpha if plan.settings.alpha != "auto" else splits(problem)
    else:  # nothing is penalised: any alpha gives the same
        require_no_path_settings(plan.settings, "no column is penalised, so all are kept")
        how = 0.0
    choice = problem.choose(task, how, strategy.tol, strategy.quick, context)
    if context.clock.remaining() < (1.0 - CHOOSING) * context.clock.seconds:
        outcome = "the fit of the chosen columns is cut short" if choice.is_complete else "the choice may be too sparse"
        message = f"max_seconds ran out while columns were chosen: {outcome}; allow more."
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    if context.resume is not None and not context.prefix:
        context.resume.reached, context.resume.chosen = choice.alpha, True
    return choice


def convex_task(problem: FitProblem, plan: Plan, context: Context) -> ConvexTask:
    """Return the convex problem that the plan makes of a prepared sample."""
    prepared, strategy = problem.prepared, plan.strategy
    features = strategy.features(prepared, context)
    column_of, names = problem.column_of, problem.column_names
    penalty = spread(plan.penalty, column_of, len(names))
    return ConvexTask.of(prepared, problem.family, features, penalty, column_of, names, strategy.norm)


def fit_terms(problem: FitProblem, choice: Choice | None, plan: Plan, context: Context) -> tuple[Fitted, Vector]:
    """Fit the chosen terms; return the fit and its scores on the training rows."""
    if choice is None:
        every = np.arange(problem.prepared.terms.size)
        return problem.fit(plan.strategy.fitter(None) if every.size else SmoothFitter(), every, None, context)
    return problem.fit(plan.strategy.fitter(choice), choice.support, choice.start, context)


def _check_free_columns(problem: FitProblem, plan: Plan) -> None:
    """Raise where more columns are never penalised than may be kept."""
    prepared, grouping = problem.prepared, problem.prepared.grouping
    free = [members for members, weight in zip(grouping.members, grouping.weights, strict=True) if weight == 0.0]
    columns = {int(problem.column_of[prepared.terms[index]]) for members in free for index in members}
    if plan.settings.max_features is not None and len(columns) > plan.settings.max_features:
        expected, got = f"at least the {len(columns)} columns that are always kept", f"{plan.settings.max_features}"
        raise InputError(describe("max_features", expected, got, "allow more"))


def splitter(plan: Plan, given_rows: FitInput, context: Context) -> Callable[[FitProblem], CrossValidation]:
    """Return the function from a problem to its cross-validation; folds are made where they are needed."""
    stratum, given, groups = given_rows.stratum, plan.settings.cv, given_rows.groups
    stratum = given_rows.sample.target[:, 0] if stratum is None else stratum
    if isinstance(given, Iterator):  # read once, for every pass of the fit
        given = list(cast("Iterator[Any]", given))

    def cross_validation(problem: FitProblem) -> CrossValidation:
        rows, generator = problem.fold_target.shape[0], context.streams.generator("folds")
        cv = min(given, rows) if isinstance(given, int) and given == DEFAULT_FOLDS else given
        repeats = repeats_for(rows, len(problem.column_names), cv if isinstance(cv, int) else 1)
        return CrossValidation(
            splits_of(cv, problem.fold_target, problem.counted, groups, generator, stratum, repeats),
            plan.rule,
            plan.settings.n_alphas,
            plan.settings.max_features,
            plan.strategy.least_shrinkage,
            CHOOSING,
        )

    return cross_validation
