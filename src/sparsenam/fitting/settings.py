"""Settings of a fit, checked once: which strategy they ask for, which could not act, and the identity of a fit."""

from __future__ import annotations

import hashlib
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sparsenam.convex.path import TOLERANCE
from sparsenam.errors import InputError, check_number, check_whole, check_word, describe
from sparsenam.fitting.pairs import Heredity, Pairs, check_pairs
from sparsenam.fitting.strategies import (
    FeatureKind,
    Strategy,
    chosen_network_strategy,
    convex_strategy,
    penalised_network_strategy,
    smooth_strategy,
)
from sparsenam.penalties import Penalty, as_penalty
from sparsenam.selection import Rule, RuleName, as_rule
from sparsenam.selection.curve import FDR, CrossValidator
from sparsenam.selection.task import Norm
from sparsenam.smooth.constraints import Shape, read_shape
from sparsenam.tables import PreparedSample
from sparsenam.tables.encoder import ColumnName, FeatureGroups, FeatureTypes, PenaltyWeights
from sparsenam.threads import thread_count
from sparsenam.training import Network

DEFAULT_FOLDS = 5  # chosen without a measurement
NEUTRAL = ("max_seconds", "n_jobs", "verbose", "random_state")  # they do not decide the numbers of a finished fit
NEUTRAL_OF_NETWORK = ("checkpoint", "device")
PATH_SETTINGS = ("cv", "rule", "n_alphas", "max_features")  # they act where cross-validation chooses alpha

Alpha = float | Literal["auto"]
WeightMeaning = Literal["relative", "counts"]


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
    pairs: Pairs = 0
    heredity: Heredity = "none"
    refit: bool | Literal["auto"] = "auto"
    network: Network | None = None
    shapes: Mapping[ColumnName, str] | None = None
    weights: WeightMeaning = "relative"

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


def resolve(parameters: Mapping[str, Any]) -> tuple[Settings, Strategy, Penalty]:
    """Check an estimator's parameters and return the settings, the strategy that they ask for, and the penalty."""
    settings = Settings.of(parameters)
    if "features" not in parameters:
        return settings, *resolve_snam(settings)
    require_one_thread(parameters["n_jobs"], "a random-feature model")
    names = ("features", "norm", "width", "hidden", "activation", "tol")
    return settings, *resolve_random_features(settings, *(parameters[name] for name in names))


def require_one_thread(n_jobs: int | None, whose: str) -> None:
    """Raise where more threads are asked for than could act."""
    if thread_count(n_jobs) > 1:
        require_default("n_jobs", n_jobs, None, f"{whose} has all its rows in one block")


def resolve_snam(settings: Settings) -> tuple[Strategy, Penalty]:
    """Check the settings and return the one strategy that they ask for, and the penalty.

    Without a network the convex problem chooses; a smooth fit follows, or the penalised solution stands if ``refit``
    is False. With a network, a given alpha and a random start it is the paper's training; otherwise the convex problem
    chooses and the network is trained on what it keeps.
    """
    check_choosing(settings)
    penalty, alpha, network, refit = as_penalty(settings.penalty), settings.alpha, settings.network, settings.refit
    if refit not in (True, False, "auto"):
        raise InputError(describe("refit", "True, False or 'auto'", repr(refit), "choose one"))
    if settings.asks_for_pairs or settings.heredity != "none":
        check_pairs(settings.pairs, settings.heredity)
    if settings.asks_for_pairs and (network is not None or refit is False):
        got = f"{reprlib.repr(settings.pairs)} with " + ("a network" if network is not None else "refit=False")
        raise InputError(describe("pairs", "the smooth fit", got, "leave network and refit out, or set pairs=0"))
    if settings.shapes is not None and (network is not None or refit is False):
        other = "refit=False keeps" if network is None else "a network trains"
        require_default("shapes", settings.shapes, None, f"{other} functions of no such form")
    check_word("weights", settings.weights, ("relative", "counts"))
    if network is not None or refit is False:
        reason = "only the smooth fit depends on how many rows there are"
        require_default("weights", settings.weights, "relative", reason)
    if isinstance(settings.rule, FDR) and (settings.asks_for_pairs or refit is False):
        got = "refit=False" if refit is False else f"pairs={reprlib.repr(settings.pairs)}"
        raise InputError(describe("rule=FDR(…)", "a fit of the discovered columns alone", got, "leave it out"))
    if network is None:
        asked = {} if settings.shapes is None else read_shapes(settings.shapes)
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
    settings: Settings,
    kind: FeatureKind,
    norm: Norm,
    width: int,
    hidden: tuple[int, ...],
    activation: str,
    tol: float = TOLERANCE,
) -> tuple[Strategy, Penalty]:
    """Check the parameters of a random-feature model and return its strategy and penalty."""
    check_choosing(settings)
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
    strategy = convex_strategy(kind, width, tuple(hidden), activation, norm, tol)
    return strategy, as_penalty(settings.penalty)


def check_choosing(settings: Settings) -> None:
    """Raise for a value outside its range, and for one that could not act because alpha is given."""
    given: object = settings.rule
    if given is FDR or (isinstance(given, str) and given.lower() == "fdr"):
        expected, got = "a rate of false discoveries with it", "none"
        raise InputError(describe("rule", expected, got, "write rule=sparsenam.FDR(q=0.1)"))
    as_rule(settings.rule)
    as_penalty(settings.penalty)
    check_whole("n_alphas", settings.n_alphas)
    if settings.max_features is not None:
        check_whole("max_features", settings.max_features)
        if isinstance(settings.rule, FDR):
            got, remedy = f"{settings.max_features} with rule=FDR(…)", "leave it out, or choose a smaller q"
            raise InputError(describe("max_features", "a rule that takes a point of the path", got, remedy))
    if settings.alpha == "auto":
        return
    check_number("alpha", settings.alpha, 0.0)
    require_no_path_settings(settings, "alpha is given, so nothing is cross-validated")


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


def read_shapes(shapes: Mapping[ColumnName, str]) -> dict[ColumnName, Shape]:
    """Return what is asked of each column."""
    if not isinstance(shapes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # the user's input
        remedy = 'write for example {"age": "increasing"}'
        raise InputError(describe("shapes", "a dictionary from column to shape", repr(shapes), remedy))
    return {column: read_shape(text, f"shapes of column {column!r}") for column, text in shapes.items()}


def identity_of(prepared: PreparedSample, seed: int, settings: Mapping[str, object]) -> str:
    """Return a digest of the data, the seed and the settings that decide the numbers, to know a resume file by."""
    digest = hashlib.sha256(f"{_describe_settings(settings)} {seed} {prepared.names}".encode())
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


def _describe_settings(settings: Mapping[str, object]) -> str:
    """Return a text of the settings that decide the numbers of a fit."""
    network = settings.get("network")
    deciding = {name: value for name, value in settings.items() if name not in (*NEUTRAL, "network")}
    if isinstance(network, Network):
        neutral = set[str](NEUTRAL_OF_NETWORK)
        if network.schedule == "constant":  # other schedules depend on where the last epoch is
            neutral.add("max_epochs")
        trained = network.get_params(deep=False)
        deciding |= {f"network__{name}": value for name, value in trained.items() if name not in neutral}
    return describe_setting(deciding)
