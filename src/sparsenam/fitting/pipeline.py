"""The pipeline of every fit: read → prepare → choose → fit → build, by a plan resolved once."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from sparsenam.context import Context
from sparsenam.convex.problem import Certificate
from sparsenam.errors import InputError, StrayRowsWarning, check_number, check_whole, check_word, describe
from sparsenam.fitting.all_rows import LargeTable, on_all_rows, trained_on
from sparsenam.fitting.bands import bands_of
from sparsenam.fitting.identity import choice_basis, identity_of
from sparsenam.fitting.pairs import Heredity, Pairs, PairsFound, add_pairs, asked_pairs, check_pairs
from sparsenam.fitting.problem import FamilyProblem, FitProblem, Fitted, Vector
from sparsenam.fitting.residuals import residuals_of
from sparsenam.fitting.shapes import check_shapes, read_shapes, shaped_terms
from sparsenam.fitting.strategies import (
    FeatureKind,
    SmoothFitter,
    Strategy,
    chosen_network_strategy,
    convex_strategy,
    penalised_network_strategy,
    smooth_strategy,
)
from sparsenam.model import AdditiveModel
from sparsenam.model.bands import Bands
from sparsenam.model.residuals import Residuals
from sparsenam.penalties import Penalty, as_penalty, spread
from sparsenam.selection import CVCurve, RegularizationPath, Rule, RuleName, as_rule
from sparsenam.selection.choose import Choice, CrossValidation
from sparsenam.selection.curve import CrossValidator, Evidence, repeats_for, splits_of
from sparsenam.selection.discovery import FDR, ColumnTests
from sparsenam.selection.stored_choice import pack_choice, unpack_choice
from sparsenam.selection.task import TOLERANCE, ConvexTask, Norm, Substitutes, by_column, substitutes_of, twins_of
from sparsenam.tables import Sample, TableEncoder
from sparsenam.tables.cells import FAR
from sparsenam.tables.encoder import ColumnName, FeatureGroups, FeatureTypes, PenaltyWeights, grouping_of
from sparsenam.tables.text import listed
from sparsenam.training import History, Network

DEFAULT_FOLDS = 5
PATH_SETTINGS = ("cv", "rule", "n_alphas", "max_features")  # they act where cross-validation chooses alpha

Alpha = float | Literal["auto"]
WeightMeaning = Literal["relative", "counts"]
Pose = Callable[[Sample, TableEncoder], FitProblem]


@dataclass(kw_only=True, eq=False, repr=False)
class ChoosingParameters:
    """Parameters of how columns and alpha are chosen, and of what the user says of the columns."""

    alpha: Alpha = "auto"
    penalty: str | Penalty = "group_lasso"
    cv: CrossValidator = DEFAULT_FOLDS
    rule: RuleName | Rule = "compact"
    n_alphas: int = 30
    max_features: int | None = None
    feature_types: FeatureTypes | None = None
    feature_groups: FeatureGroups | None = None
    penalty_weights: PenaltyWeights | None = None
    always_keep: Sequence[ColumnName] | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class PairParameters:
    """Parameters of pairs of columns, for estimators that may have them."""

    pairs: Pairs = 0
    heredity: Heredity = "none"

    @property
    def asked(self) -> bool:
        """Whether anything is asked for."""
        return not (isinstance(self.pairs, int) and not isinstance(self.pairs, bool) and self.pairs == 0) or (
            self.heredity != "none"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How to choose and how to fit.

    ``pose`` makes the problem of a sample: it checks the target and brings everything to the scale of the fit.
    ``settings`` are all parameters of the estimator.
    """

    strategy: Strategy
    pose: Pose
    penalty: Penalty
    rule: Rule
    parameters: ChoosingParameters
    settings: dict[str, Any]
    pairs: PairParameters = field(default_factory=PairParameters)

    @property
    def alpha(self) -> Alpha:
        """The weight of the penalty, or "auto"."""
        return self.parameters.alpha

    @property
    def max_features(self) -> int | None:
        """The most columns to keep."""
        return self.parameters.max_features

    def sample(
        self, encoder: TableEncoder, terms: Vector, target: Vector, weights: Vector, exposure: Vector | None = None
    ) -> Sample:
        """Return terms (rows, terms), target (rows, outputs) and weights (rows,) with what is said of the columns."""
        given = self.parameters
        return Sample(
            terms,
            target,
            weights,
            [term.name for term in encoder.terms],
            levels=np.array([term.kind == "levels" for term in encoder.terms], dtype=np.bool_),
            grouping=grouping_of(encoder, given.feature_groups, given.penalty_weights, given.always_keep),
            exposure=exposure,
            counted=self.settings.get("weights") == "counts",
        )


def resolve_snam(
    parameters: ChoosingParameters,
    network: Network | None,
    refit: bool | Literal["auto"],
    pairs: PairParameters | None = None,
    shapes: Mapping[ColumnName, str] | None = None,
) -> tuple[Strategy, Penalty]:
    """Check the parameters and return the one strategy that they ask for, and the penalty.

    Without a network the convex problem chooses; a smooth fit follows, or the penalised solution stands if ``refit``
    is False. With a network, a given alpha and a random start it is the paper's training; otherwise the convex problem
    chooses and the network is trained on what it keeps.
    """
    check_choosing(parameters)
    penalty, alpha = as_penalty(parameters.penalty), parameters.alpha
    if refit not in (True, False, "auto"):
        raise InputError(describe("refit", "True, False or 'auto'", repr(refit), "choose one"))
    pairs = PairParameters() if pairs is None else pairs
    if pairs.asked:
        check_pairs(pairs.pairs, pairs.heredity)
    if pairs.pairs != 0 and (network is not None or refit is False):
        got = f"{reprlib.repr(pairs.pairs)} with " + ("a network" if network is not None else "refit=False")
        raise InputError(describe("pairs", "the smooth fit", got, "leave network and refit out, or set pairs=0"))
    if shapes is not None and (network is not None or refit is False):
        other = "refit=False keeps" if network is None else "a network trains"
        require_default("shapes", shapes, None, f"{other} functions of no such form")
    if isinstance(parameters.rule, FDR) and (pairs.pairs != 0 or refit is False):
        got = "refit=False" if refit is False else f"pairs={reprlib.repr(pairs.pairs)}"
        raise InputError(describe("rule=FDR(…)", "a fit of the discovered columns alone", got, "leave it out"))
    if network is None:
        asked = {} if shapes is None else read_shapes(shapes)
        return (convex_strategy() if refit is False else smooth_strategy(asked)), penalty
    if not isinstance(network, Network):  # pyright: ignore[reportUnnecessaryIsInstance]
        remedy = "write for example Network(hidden=(100, 50))"
        raise InputError(describe("network", "None or a Network", repr(network), remedy))
    under_penalty = alpha != "auto" and network.init == "random"
    network.check(penalty, trains_under_penalty=under_penalty, thresholds=under_penalty and float(alpha) > 0.0)
    if under_penalty:
        return penalised_network_strategy(network, penalty, float(alpha), refit is True), penalty
    return chosen_network_strategy(network, penalty, refit is not False), penalty


def resolve_random_features(
    parameters: ChoosingParameters,
    kind: FeatureKind,
    norm: Norm,
    width: int,
    hidden: tuple[int, ...],
    activation: str,
    tol: float = TOLERANCE,
) -> tuple[Strategy, Penalty]:
    """Check the parameters of a random-feature model and return its strategy and penalty."""
    check_choosing(parameters)
    if isinstance(parameters.rule, FDR):
        got, remedy = "a random-feature model, which keeps its penalty", "use SNAMRegressor or SNAMClassifier"
        raise InputError(describe("rule=FDR(…)", "a fit of the discovered columns alone", got, remedy))
    check_number("tol", tol, 0.0, open_below=True)
    check_whole("width", width)
    check_word("features", kind, ("ramps", "hinges", "random"))
    check_word("norm", norm, ("function", "parameters"))
    if isinstance(hidden, str) or not isinstance(hidden, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(describe("hidden", "hidden widths", repr(hidden), "give a tuple such as (100, 50)"))
    if kind == "random":
        require_default("width", width, 32, "random hidden layers have the widths of hidden")
        if not hidden:
            require_default("activation", activation, "relu", "there is no hidden layer")
    else:
        require_default("hidden", tuple(hidden), (100, 50), f"features={kind!r} are placed by the data")
        require_default("activation", activation, "relu", f"features={kind!r} are placed by the data")
    strategy = convex_strategy(kind, width, tuple(hidden), activation, norm, tol)
    return strategy, as_penalty(parameters.penalty)


def check_choosing(parameters: ChoosingParameters) -> None:
    """Raise for a value outside its range, and for one that could not act because alpha is given."""
    given: object = parameters.rule
    if given is FDR or (isinstance(given, str) and given.lower() == "fdr"):
        expected, got = "a rate of false discoveries with it", "none"
        raise InputError(describe("rule", expected, got, "write rule=sparsenam.FDR(q=0.1)"))
    as_rule(parameters.rule)
    as_penalty(parameters.penalty)
    check_whole("n_alphas", parameters.n_alphas)
    if parameters.max_features is not None:
        check_whole("max_features", parameters.max_features)
        if isinstance(parameters.rule, FDR):
            got, remedy = f"{parameters.max_features} with rule=FDR(…)", "leave it out, or choose a smaller q"
            raise InputError(describe("max_features", "a rule that takes a point of the path", got, remedy))
    if parameters.alpha == "auto":
        return
    check_number("alpha", parameters.alpha, 0.0)
    require_no_path_settings(parameters, "alpha is given, so nothing is cross-validated")


def require_no_path_settings(parameters: ChoosingParameters, reason: str) -> None:
    """Raise for a setting of cross-validation where there is none."""
    defaults = {field.name: field.default for field in fields(ChoosingParameters)}
    for name in PATH_SETTINGS:
        require_default(name, getattr(parameters, name), defaults[name], reason)


def require_default(name: str, value: object, default: object, reason: str) -> None:
    """Raise for a value that is set where it could not act."""
    if not (value is default or value == default):
        got = f"{reprlib.repr(value)}, which could not act: {reason}"
        raise InputError(describe(name, f"its default {default!r}", " ".join(got.split()), "leave it out"))


CHOOSING = 0.6  # share of max_seconds for the choice; the rest is for the fit


@dataclass(frozen=True, slots=True, eq=False)
class FitResult:
    """A fitted model and how it came about, in columns of the table.

    ``norms`` (columns,) are the group norms, ``taken`` is the index of the point of ``curve`` that the rule took,
    ``readmitted`` are columns that the convex solution drops but held-out rows want back, ``evidence`` is what held-out
    rows know of the choice, ``tested`` what an `FDR` rule found. ``bands`` say how uncertain the effects are;
    ``residuals`` are the errors of rows left out, None where there is no closed form; ``strays`` says which rows the
    curves are fitted without.
    """

    model: AdditiveModel
    alpha: float
    norms: Vector
    history: History | None
    stationarity: float | None
    certificate: Certificate | None
    curve: CVCurve | None
    taken: int | None
    path: RegularizationPath | None
    readmitted: tuple[str, ...]
    evidence: Evidence | None
    substitutes: Substitutes
    problem: FitProblem
    pairs: PairsFound | None = None
    bands: Bands | None = None
    tested: ColumnTests | None = None
    residuals: Residuals | None = None
    strays: str | None = None


def read(
    X: object, strategy: Strategy, feature_types: FeatureTypes | None, estimator_name: str, among: str = ""
) -> tuple[TableEncoder, Vector]:
    """Decide what each column of a table is, and return it in terms, shape (rows, terms).

    ``among`` says in messages which rows these are, where they are a sample.
    """
    split = strategy.splits_levels
    return TableEncoder.fit(X, feature_types, split_levels=split, estimator_name=estimator_name, among=among)


def fit(
    encoder: TableEncoder,
    sample: Sample,
    plan: Plan,
    context: Context,
    groups: ArrayLike | None = None,
    answer: NDArray[np.generic] | None = None,
    table: LargeTable | None = None,
) -> FitResult:
    """Return the model that the plan gives for a sample.

    ``groups`` (rows,) are for splitters that need them, ``answer`` (rows,) for those that stratify. Of a large table
    the sample is a part, which chooses; all of its rows are fitted.
    """
    problem = plan.pose(sample, encoder)
    if plan.strategy.shapes:
        check_shapes(plan.strategy.shapes, encoder, problem)
    if plan.pairs.pairs != 0:
        asked_pairs(plan.pairs.pairs, encoder, problem.prepared)  # refuses what cannot be met before anything is fitted
    if context.resume is not None:
        context.resume.claim(identity_of(problem.prepared, context.streams.seed, plan.settings))
    splits = splitter(plan, sample, groups, answer, context)
    first_family = problem.family.first_family
    if first_family is not None:  # a first fit estimates a number of the family
        within = context.within("first")
        first = problem.with_family(first_family)
        fitted, scores = fit_terms(first, choose(first, plan, splits, within), plan, within)
        context.clock.end_part("the first fit")
        prepared = _counted(problem, fitted).prepared
        problem = problem.with_family(problem.family.estimated(scores, prepared.target, prepared.weights))
    if table is not None and isinstance(problem, FamilyProblem) and not plan.strategy.fits_all_rows:
        problem = replace(problem, all_rows=partial(trained_on, table, encoder, sample))
    choice = choose(problem, plan, splits, context)
    context.clock.end_part("the choice of columns")
    tested = None
    if isinstance(plan.rule, FDR):
        from sparsenam.fitting.discoveries import discover  # and what it needs, which no other fit does

        choice, tested = discover(plan.rule, problem, choice, plan.strategy, context)
    fitted, scores = fit_terms(problem, choice, plan, context)
    strays = {} if fitted.smooth is None or table is not None else fitted.smooth.strays()  # all rows are fitted again
    _warn_of_strays(encoder, strays)
    if table is not None:
        fitted = on_all_rows(table, encoder, sample, fitted, context)
    context.clock.end_part("the fit of the chosen columns")
    counted = _counted(problem, fitted)
    found = finer = None
    if choice is not None and plan.pairs.pairs != 0:
        asked, shaped = plan.pairs, shaped_terms(plan.strategy.shapes, problem)
        fitted, found = add_pairs(
            encoder, problem, choice, fitted, scores, asked.pairs, asked.heredity, shaped, splits, context
        )
        context.clock.end_part("the choice of pairs")
    elif table is None and tested is None and fitted.smooth is not None and fitted.smooth.fit.crowded:
        from sparsenam.fitting.detail import with_detail  # and what it needs, which few fits do

        detailed = with_detail(counted, choice, fitted, splits, context)
        choice, fitted, finer = detailed.choice, detailed.fitted, detailed.evidence
        context.clock.end_part("the search for finer curves")
    residuals = residuals_of(encoder, sample, counted, choice, fitted, context)
    bands = bands_of(fitted, context)
    result = build(encoder, problem, choice, problem.finish(fitted), plan)
    result = replace(
        result, pairs=found, bands=bands, residuals=residuals, strays=_stray_rows(strays) if strays else None
    )
    if tested is not None:  # point, evidence and columns that came back are those of the default rule's choice
        result = replace(result, taken=None, readmitted=(), evidence=None, tested=tested)
    if finer is not None:  # the model is no point of the curve
        result = replace(result, taken=None, evidence=finer)
    return result


def _counted(problem: FitProblem, fitted: Fitted) -> FitProblem:
    """Return the problem without the rows that the smooth fit left out."""
    if fitted.smooth is None or not isinstance(problem, FamilyProblem):
        return problem
    return problem.without(fitted.smooth.fit.left_out)


def _stray_rows(strays: Mapping[str, int]) -> str:
    """Return in a sentence in which columns rows lie far from the others that the curves are fitted without."""
    rows = sum(strays.values())
    which, them = ("1 row", "it") if rows == 1 else (f"{rows} rows", "them")
    return (
        f"{which} far from the others in {listed(list(strays))} would have turned the curve there: the curves are "
        f"fitted without {them} and level beyond; see whether these cells are right."
    )


def _warn_of_strays(encoder: TableEncoder, strays: Mapping[str, int]) -> None:
    """Name the columns with rows that the curves are fitted without, unless their cells are called far already."""
    noted = {column.name for column in encoder.columns if FAR in column.description}
    found = {name: rows for name, rows in strays.items() if name not in noted}
    if found:
        warnings.warn(_stray_rows(found), StrayRowsWarning, stacklevel=6)


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
        how = plan.alpha if plan.alpha != "auto" else splits(problem)
    else:  # nothing is penalised: any alpha gives the same
        require_no_path_settings(plan.parameters, "no column is penalised, so all are kept")
        how = 0.0
    basis, stored = "", None
    if context.resume is not None:  # what the choice rests on besides the settings: the family, and the folds
        basis, stored = choice_basis(problem.family, how), context.recall("choice")
    if stored is not None and stored.facts.get("basis") == basis:
        with context.reading("choice"):
            return unpack_choice(task, stored)
    choice = problem.choose(task, how, strategy.tol, strategy.quick, context)
    if context.clock.remaining() < (1.0 - CHOOSING) * context.clock.seconds:
        outcome = "the fit of the chosen columns is cut short" if choice.is_complete else "the choice may be too sparse"
        message = f"max_seconds ran out while columns were chosen: {outcome}; allow more."
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    if context.resume is not None and choice.is_complete:  # one cut short is made again when the fit goes on
        packed = pack_choice(choice)
        context.keep("choice", replace(packed, facts={**packed.facts, "basis": basis}))
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
    if plan.max_features is not None and len(columns) > plan.max_features:
        expected, got = f"at least the {len(columns)} columns that are always kept", f"{plan.max_features}"
        raise InputError(describe("max_features", expected, got, "allow more"))


def build(
    encoder: TableEncoder,
    problem: FitProblem,
    choice: Choice | None,
    fitted: Fitted,
    plan: Plan,
) -> FitResult:
    """Return the fit in columns of the table."""
    prepared, names = problem.prepared, encoder.names
    result = FitResult(
        model=fitted.model,
        alpha=0.0 if plan.alpha == "auto" else float(plan.alpha),
        norms=by_column(fitted.norms, problem.column_of, len(names)),
        history=fitted.history,
        stationarity=fitted.stationarity,
        certificate=None,
        curve=None,
        taken=None,
        path=None,
        readmitted=(),
        evidence=None,
        substitutes=twins_of(prepared, fitted.model, encoder),
        problem=problem,
    )
    if choice is None:
        return result
    task, validated = choice.task, choice.validated
    return replace(
        result,
        alpha=choice.alpha,
        certificate=_certificate_by_column(choice, names),
        curve=None if validated is None else validated.curve,
        taken=None if validated is None else validated.taken,
        path=None if validated is None else validated.task.path(validated.points, names),
        readmitted=tuple(names[int(column)] for column in choice.readmitted),
        evidence=None if validated is None else validated.evidence,
        substitutes=substitutes_of(task, fitted.model, encoder),
    )


def splitter(
    plan: Plan, sample: Sample, groups: ArrayLike | None, answer: NDArray[np.generic] | None, context: Context
) -> Callable[[FitProblem], CrossValidation]:
    """Return the function from a problem to its cross-validation; folds are made where they are needed."""
    stratum, given = sample.target[:, 0] if answer is None else answer, plan.parameters.cv
    if isinstance(given, Iterator):  # read once, for every pass of the fit
        given = list(cast("Iterator[Any]", given))

    def cross_validation(problem: FitProblem) -> CrossValidation:
        rows, generator = problem.fold_target.shape[0], context.streams.generator("folds")
        cv = min(given, rows) if isinstance(given, int) and given == DEFAULT_FOLDS else given
        repeats = repeats_for(rows, len(problem.column_names), cv if isinstance(cv, int) else 1)
        return CrossValidation(
            splits_of(cv, problem.fold_target, problem.counted, groups, generator, stratum, repeats),
            plan.rule,
            plan.parameters.n_alphas,
            plan.max_features,
            plan.strategy.least_shrinkage,
            plan.strategy.readmits,
            CHOOSING,
        )

    return cross_validation


def _certificate_by_column(choice: Choice, names: tuple[str, ...]) -> Certificate | None:
    """Return the certificate in columns: one is kept for any of its terms, else its nearest term speaks for it."""
    certificate, task = choice.certificate, choice.task
    if certificate is None:
        return None
    kept = tuple(names[int(column)] for column in task.columns(choice.point.supports[0]))
    prepared, inside, slack = task.prepared, set(kept), dict[str, float]()
    for members, group in zip(prepared.grouping.members, task.group_names, strict=True):
        for column in {names[int(task.column_of[term])] for term in prepared.terms[members]} - inside:
            if group in certificate.slack:
                slack[column] = max(certificate.slack[group], slack.get(column, 0.0))
    return replace(certificate, slack=slack, kept=kept)
