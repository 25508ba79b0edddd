"""The plan of a fit: its settings, checked once; how rows are read, folds made, and terms chosen and fitted."""

from __future__ import annotations

import hashlib
import reprlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_consistent_length

from sparsenam.context import Context, thread_count
from sparsenam.convex.problem import ConvexPoint
from sparsenam.errors import InputError, check_number, check_whole, check_word, describe
from sparsenam.families import CustomLoss, Family, as_family
from sparsenam.fit.all_rows import LargeTable
from sparsenam.fit.cox import cox_problem
from sparsenam.fit.pairs import Heredity, Pairs, check_pairs
from sparsenam.fit.problem import (
    FamilyProblem,
    FeatureKind,
    Fitted,
    Strategy,
    Vector,
    chosen_network_strategy,
    convex_strategy,
    family_problem,
    penalised_network_strategy,
    smooth_fitter,
    smooth_strategy,
)
from sparsenam.penalties import Penalty, as_penalty
from sparsenam.selection import Rule, RuleName, as_rule
from sparsenam.selection.choose import Choice, CrossValidation
from sparsenam.selection.curve import FDR, CrossValidator, splits_of
from sparsenam.selection.task import ConvexTask, Norm
from sparsenam.smooth.constraints import read_shape
from sparsenam.tables.encoder import ColumnName, FeatureGroups, FeatureTypes, PenaltyWeights, TableEncoder, grouping_of
from sparsenam.tables.frame import check_target_not_inside, read_table
from sparsenam.tables.sample import PreparedSample, Sample
from sparsenam.training import Network

DEFAULT_FOLDS = 5
NEUTRAL = ("max_seconds", "n_jobs", "verbose", "random_state")  # they do not decide the numbers of a finished fit
NEUTRAL_OF_NETWORK = ("checkpoint", "device")
PATH_SETTINGS = ("cv", "rule", "n_alphas", "max_features")  # they act where cross-validation chooses alpha

Alpha = float | Literal["auto"]
WeightMeaning = Literal["relative", "counts"]
Resolved = tuple[Strategy, Penalty, Rule]
Splitter = Callable[[FamilyProblem], CrossValidation]
CHOOSING = 0.6  # share of max_seconds for the choice; the rest is for the fit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settings:
    """How columns and alpha are chosen, what the user says of the columns, and what is fitted; see `SNAMRegressor`."""

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
    pairs: Pairs = "auto"
    heredity: Heredity = "none"
    refit: bool | Literal["auto"] = "auto"
    network: Network | None = None
    shapes: Mapping[ColumnName, str] | None = None
    weights: WeightMeaning = "relative"

    @property
    def names_pairs(self) -> bool:
        """Whether pairs are named, rather than looked for."""
        return not isinstance(self.pairs, int | np.integer | str)

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Self:
        """Return the settings among an estimator's parameters."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in parameters.items() if name in known})

    @property
    def asks_for_pairs(self) -> bool:
        """Whether pairs are fitted."""
        pairs = self.pairs
        return not (isinstance(pairs, int) and not isinstance(pairs, bool) and pairs == 0)


def require_one_thread(n_jobs: int | None, whose: str) -> None:
    """Raise where more threads are asked for than could act."""
    if thread_count(n_jobs) > 1:
        require_default("n_jobs", n_jobs, None, f"{whose} has all its rows in one block")


def resolve_snam(settings: Settings) -> Resolved:
    """Check the settings and return the one strategy that they ask for, the penalty and the rule.

    Without a network the convex problem chooses; a smooth fit follows, or the penalised solution stands if ``refit``
    is False. With a network, a given alpha and a random start it is the paper's training; otherwise the convex problem
    chooses and the network is trained on what it keeps.
    """
    penalty, rule = _check_choosing(settings)
    alpha, network, refit = settings.alpha, settings.network, settings.refit
    if refit not in (True, False, "auto"):
        raise InputError(describe("refit", "True, False or 'auto'", repr(refit), "choose one"))
    if settings.asks_for_pairs or settings.heredity != "none":
        check_pairs(settings.pairs, settings.heredity)
    no_pairs = network is not None or refit is False  # of which "auto" finds none; others were asked for
    if no_pairs and settings.asks_for_pairs and (settings.pairs != "auto" or settings.heredity != "none"):
        got = f"{reprlib.repr(settings.pairs)} with " + ("a network" if network is not None else "refit=False")
        raise InputError(describe("pairs", "the smooth fit", got, "leave network and refit out, or set pairs=0"))
    if settings.shapes is not None and (network is not None or refit is False):
        other = "refit=False keeps" if network is None else "a network trains"
        require_default("shapes", settings.shapes, None, f"{other} functions of no such form")
    if network is not None or refit is False:
        reason = "only the smooth fit depends on how many rows there are"
        require_default("weights", settings.weights, "relative", reason)
    if isinstance(settings.rule, FDR) and refit is False:
        expected = "a fit of the discovered columns alone"
        raise InputError(describe("rule=FDR(…)", expected, "refit=False", "leave it out"))
    if network is None:
        shapes: Mapping[ColumnName, str] = {} if settings.shapes is None else settings.shapes
        if not isinstance(shapes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # the user's input
            remedy = 'write for example {"age": "increasing"}'
            raise InputError(describe("shapes", "a dictionary from column to shape", repr(shapes), remedy))
        asked = {column: read_shape(text, f"shapes of column {column!r}") for column, text in shapes.items()}
        return (convex_strategy() if refit is False else smooth_strategy(asked)), penalty, rule
    if not isinstance(network, Network):  # pyright: ignore[reportUnnecessaryIsInstance]
        remedy = "write for example Network(hidden=(100, 50))"
        raise InputError(describe("network", "None or a Network", repr(network), remedy))
    under_penalty = alpha != "auto" and network.init == "random"
    network.check(penalty, trains_under_penalty=under_penalty, thresholds=under_penalty and float(alpha) > 0.0)
    if under_penalty:
        return penalised_network_strategy(network, penalty, float(alpha), refit is True), penalty, rule
    return chosen_network_strategy(network, penalty, refit is not False), penalty, rule


def _resolve_random_features(
    settings: Settings, kind: FeatureKind, norm: Norm, width: int, hidden: tuple[int, ...], activation: str, tol: float
) -> Resolved:
    penalty, rule = _check_choosing(settings)
    if isinstance(settings.rule, FDR):
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
    return convex_strategy(kind, width, tuple(hidden), activation, norm, tol), penalty, rule


def _check_choosing(settings: Settings) -> tuple[Penalty, Rule]:
    """Return penalty and rule; raise for a value outside its range, or that could not act because alpha is given."""
    given: object = settings.rule
    if given is FDR or (isinstance(given, str) and given.lower() == "fdr"):
        expected, got = "a rate of false discoveries with it", "none"
        raise InputError(describe("rule", expected, got, "write rule=sparsenam.FDR(q=0.1)"))
    penalty, rule = as_penalty(settings.penalty), as_rule(settings.rule)
    check_whole("n_alphas", settings.n_alphas)
    check_word("weights", settings.weights, ("relative", "counts"))
    if settings.max_features is not None:
        check_whole("max_features", settings.max_features)
        if isinstance(settings.rule, FDR):
            got, remedy = f"{settings.max_features} with rule=FDR(…)", "leave it out, or choose a smaller q"
            raise InputError(describe("max_features", "a rule that takes a point of the path", got, remedy))
    if settings.alpha != "auto":
        check_number("alpha", settings.alpha, 0.0)
        require_no_path_settings(settings, "alpha is given, so nothing is cross-validated")
    return penalty, rule


def require_no_path_settings(settings: Settings, reason: str) -> None:
    """Raise for a setting of cross-validation where there is none."""
    defaults = {field.name: field.default for field in fields(Settings)}
    for name in PATH_SETTINGS:
        require_default(name, getattr(settings, name), defaults[name], reason)


def require_default(name: str, value: object, default: object, reason: str) -> None:
    """Raise for a value that is set where it could not act."""
    if not (value is default or value == default):
        got = f"{reprlib.repr(value)}, which could not act: {reason}"
        raise InputError(describe(name, f"its default {default!r}", " ".join(got.split()), "leave it out"))


def identity_of(prepared: PreparedSample, seed: int, settings: Mapping[str, object]) -> str:
    """Return a digest of the data, the seed and the settings that decide the numbers, to know a resume file by."""
    network = settings.get("network")
    deciding = {name: value for name, value in settings.items() if name not in (*NEUTRAL, "network")}
    if isinstance(network, Network):
        neutral = set[str](NEUTRAL_OF_NETWORK)
        if network.schedule == "constant":  # other schedules depend on where the last epoch is
            neutral.add("max_epochs")
        trained = network.get_params(deep=False)
        deciding |= {f"network__{name}": value for name, value in trained.items() if name not in neutral}
    digest = hashlib.sha256(f"{describe_setting(deciding)} {seed} {prepared.names}".encode())
    for array in (prepared.x, prepared.target, prepared.weights):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def describe_setting(value: object) -> str:
    """Return a text for a setting that holds no address of memory, so that another process gives the same."""
    if value is None or isinstance(value, str | bool | bytes | complex):
        return repr(value)
    if isinstance(value, np.generic):
        return describe_setting(cast(object, value.item()))
    if isinstance(value, int | float):
        return repr(float(value))
    if isinstance(value, np.ndarray):
        return hashlib.sha256(cast(NDArray[np.generic], value).tobytes()).hexdigest()
    if isinstance(value, Mapping):
        pairs = cast(Mapping[object, object], value).items()
        return "{" + ", ".join(f"{describe_setting(key)}: {describe_setting(item)}" for key, item in pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(describe_setting(item) for item in cast(Sequence[object], value)) + "]"
    if isinstance(value, frozenset | set):
        return describe_setting(sorted(describe_setting(item) for item in cast(Iterable[object], value)))
    return _describe_object(value)


def _describe_object(value: object) -> str:
    if isinstance(value, CodeType):
        return f"{value.co_code!r} {value.co_names!r} {describe_setting(value.co_consts)}"
    if isinstance(value, FunctionType):  # two lambdas have one name, but not one code or one surrounding
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell.cell_contents is not value]
        parts = [value.__code__, value.__defaults__, value.__kwdefaults__, cells]
        return f"{value.__module__}.{value.__qualname__} {describe_setting(parts)}"
    if isinstance(value, MethodType):
        return describe_setting([value.__func__, value.__self__])
    if isinstance(value, partial):
        return describe_setting([value.func, value.args, value.keywords])
    if isinstance(value, BaseEstimator):
        state: object = value.get_params(deep=False)
    elif is_dataclass(value):
        state = {field.name: getattr(value, field.name) for field in fields(value)}
    else:
        state = vars(value) if hasattr(value, "__dict__") else ""
    return f"{type(value).__qualname__} {getattr(value, '__name__', '')}{describe_setting(state)}"


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How to choose and how to fit.

    ``first_family`` is fitted first where the family has a number to estimate. ``estimator`` and ``parameters`` are the
    name of the estimator and all its parameters.
    """

    strategy: Strategy
    penalty: Penalty
    rule: Rule
    settings: Settings
    family: Family
    first_family: Family | None
    estimator: str
    parameters: dict[str, Any]

    @property
    def finds_pairs(self) -> bool:
        """Whether pairs are asked for or looked for."""
        return self.strategy.takes_pairs and self.settings.asks_for_pairs

    def read(
        self, X: object, y: object, target: Vector, weights: Vector, exposure: Vector | None = None, among: str = ""
    ) -> tuple[TableEncoder, Sample]:
        """Decide what each column of a table is, and return its rows in terms.

        ``y`` is as it was given, None where the table may hold it; ``target`` (rows, outputs), ``weights`` and
        ``exposure`` (rows,) are checked numbers. ``among`` says in messages which rows these are, where they are a
        sample.
        """
        types, split = self.settings.feature_types, self.strategy.splits_levels
        table = read_table(X, estimator_name=self.estimator, least_rows=2)
        encoder, terms = TableEncoder.fit(table, types, split_levels=split, estimator_name=self.estimator, among=among)
        check_consistent_length(terms, target)
        check_target_not_inside(table, y)
        return encoder, self.sample(encoder, terms, target, weights, exposure)

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

    def pose(self, sample: Sample, encoder: TableEncoder) -> FamilyProblem:
        """Return the problem of a sample: the target is checked, and everything brought to the scale of the fit."""
        standardize, limits, ties = self.strategy.standardize, self.strategy.limits, self.parameters.get("ties")
        if ties is not None:
            return cox_problem(sample, encoder, ties, standardize=standardize, limits=limits)
        return family_problem(sample, encoder, self.family, standardize=standardize, limits=limits)


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


def plan_of(
    estimator: str, parameters: Mapping[str, Any], family: str | Family | CustomLoss, allowed: tuple[str, ...] = ()
) -> Plan:
    """Check an estimator's parameters and return the plan that they ask for; a family's name must be allowed."""
    settings = Settings.of(parameters)
    if "features" in parameters:
        require_one_thread(parameters["n_jobs"], "a random-feature model")
        names = ("features", "norm", "width", "hidden", "activation", "tol")
        resolved = _resolve_random_features(settings, *(parameters[name] for name in names))
    else:
        resolved = resolve_snam(settings)
    loss = as_family(family, allowed)
    return Plan(*resolved, settings, loss, loss.first_family, estimator, dict(parameters))


def choose(problem: FamilyProblem, plan: Plan, splits: Splitter, context: Context) -> Choice | None:
    """Let the convex problem choose terms, and alpha where the plan leaves it open; None if it has no part."""
    prepared, strategy, most = problem.prepared, plan.strategy, plan.settings.max_features
    if not strategy.chooses or not prepared.terms.size:
        return None
    if prepared.grouping.weights.any():
        free = prepared.grouping.weights[prepared.grouping.group_of] == 0.0
        always = np.unique(problem.column_of[prepared.terms[free]]).size
        if most is not None and always > most:
            expected = f"at least the {always} columns that are always kept"
            raise InputError(describe("max_features", expected, f"{most}", "allow more"))
        how = plan.settings.alpha if plan.settings.alpha != "auto" else splits(problem)
    else:  # nothing is penalised: any alpha gives the same
        require_no_path_settings(plan.settings, "no column is penalised, so all are kept")
        how = 0.0
    task = convex_task(problem, plan, context)
    if how == 0.0 and not strategy.least_shrinkage:  # all terms are kept, and the fit that follows has no penalty
        return Choice(task, 0.0, ConvexPoint.whole(task.design), None, np.arange(prepared.terms.size))
    choice = problem.choose(task, how, strategy, context)
    if context.clock.elapsed() > CHOOSING * context.clock.seconds:
        outcome = "the fit of the chosen columns is cut short" if choice.is_complete else "the choice may be too sparse"
        message = f"max_seconds ran out while columns were chosen: {outcome}; allow more."
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    if context.resume is not None and not context.prefix:
        context.resume.reached, context.resume.chosen = choice.alpha, True
    return choice


def convex_task(problem: FamilyProblem, plan: Plan, context: Context) -> ConvexTask:
    """Return the convex problem that the plan makes of a prepared sample."""
    prepared, strategy = problem.prepared, plan.strategy
    features = strategy.features(prepared, context)
    column_of, names = problem.column_of, problem.column_names
    return ConvexTask.of(prepared, problem.family, features, plan.penalty, column_of, names, strategy.norm)


def fit_terms(problem: FamilyProblem, choice: Choice | None, plan: Plan, context: Context) -> Fitted:
    """Return the fit of the chosen terms, or of all where nothing was chosen."""
    if choice is None:
        every = np.arange(problem.prepared.terms.size)
        return problem.fit(plan.strategy.fitter(None) if every.size else smooth_fitter(), every, None, context)
    return problem.fit(plan.strategy.fitter(choice), choice.support, choice.start, context)


def splitter(plan: Plan, given_rows: FitInput, context: Context) -> Splitter:
    """Return the function from a problem to its cross-validation; folds are made where they are needed."""
    stratum, given, groups = given_rows.stratum, plan.settings.cv, given_rows.groups
    stratum = given_rows.sample.target[:, 0] if stratum is None else stratum
    if isinstance(given, Iterator):  # read once, for every pass of the fit
        given = list(cast("Iterator[Any]", given))

    def cross_validation(problem: FamilyProblem) -> CrossValidation:
        rows, generator = problem.fold_target.shape[0], context.streams.generator("folds")
        cv = min(given, rows) if isinstance(given, int) and given == DEFAULT_FOLDS else given
        return CrossValidation(
            splits_of(cv, problem.fold_target, problem.counted, groups, generator, stratum),
            plan.rule,
            plan.settings.n_alphas,
            plan.settings.max_features,
            plan.strategy.least_shrinkage,
            CHOOSING,
        )

    return cross_validation
