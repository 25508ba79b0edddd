"""What decides a fit besides the data: the settings, checked and resolved once into a plan with one strategy."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, check_number, check_whole, check_word, describe
from sparsenam.fitting.identity import describe_setting
from sparsenam.fitting.problem import FitProblem
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
from sparsenam.selection.convex_task import TOLERANCE, Norm
from sparsenam.selection.folds import CrossValidator
from sparsenam.tables import Sample, TableEncoder
from sparsenam.tables.groups import ColumnName, FeatureGroups, FeatureTypes, PenaltyWeights, grouping_of
from sparsenam.training import Network

DEFAULT_FOLDS = 5
PATH_SETTINGS = ("cv", "rule", "n_alphas", "max_features")  # they act where cross-validation chooses alpha
NEUTRAL = ("max_seconds", "n_jobs", "verbose", "random_state")  # they do not decide the numbers of a finished fit
NEUTRAL_OF_NETWORK = ("checkpoint", "device")

Alpha = float | Literal["auto"]
Vector = NDArray[np.float64]
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


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How to choose and how to fit.

    ``pose`` makes the problem of a sample: it checks the target and brings everything to the scale of the fit.
    ``description`` is a text of all settings that decide the numbers, the same in every process.
    """

    strategy: Strategy
    pose: Pose
    penalty: Penalty
    rule: Rule
    parameters: ChoosingParameters
    description: str = ""

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
        )


def resolve_snam(
    parameters: ChoosingParameters, network: Network | None, refit: bool | Literal["auto"]
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
    if network is None:
        return (convex_strategy() if refit is False else smooth_strategy()), penalty
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
    as_rule(parameters.rule)
    as_penalty(parameters.penalty)
    check_whole("n_alphas", parameters.n_alphas)
    if parameters.max_features is not None:
        check_whole("max_features", parameters.max_features)
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


def describe_parameters(parameters: dict[str, object]) -> str:
    """Return a text of the parameters that decide the numbers of a fit."""
    network = parameters.get("network")
    deciding = {name: value for name, value in parameters.items() if name not in (*NEUTRAL, "network")}
    if isinstance(network, Network):
        neutral = set[str](NEUTRAL_OF_NETWORK)
        if network.schedule == "constant":  # other schedules depend on where the last epoch is
            neutral.add("max_epochs")
        trained = network.get_params(deep=False)
        deciding |= {f"network__{name}": value for name, value in trained.items() if name not in neutral}
    return describe_setting(deciding)
