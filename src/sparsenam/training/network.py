"""The parameters of training an architecture, checked and resolved into a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from sklearn.base import BaseEstimator

from sparsenam.codec import Bounds, Count, Positive, Size
from sparsenam.errors import InputError, MissingTorchError, check_number, check_whole, check_word, describe
from sparsenam.networks.bank import Hidden, check_hidden
from sparsenam.penalties import Penalty, WeightedLasso
from sparsenam.training.solvers import SOLVERS, Schedule, Solver, adam, as_schedule

if TYPE_CHECKING:
    import torch

Loss = Annotated[float, Bounds(-1e308, math.inf)]  # before the first epoch it is infinite
Penalize = Literal["subnetwork", "output", "function"]

MINI_BATCH_EPOCHS, FULL_BATCH_EPOCHS = 100, 10_000
MINI_BATCH_TOL, FULL_BATCH_TOL = 1e-4, 1e-8


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """The numbers of one epoch."""

    epoch: Positive
    loss: float
    penalty: Size
    validation: Loss | None
    terms: Count
    rate: Size
    seconds: Size

    @property
    def observed(self) -> float:
        """What early stopping observes: the held-out loss where there is one, else the objective."""
        return self.loss + self.penalty if self.validation is None else self.validation


History = list[HistoryEntry]


@dataclass(frozen=True, slots=True)
class Regularizers:
    """What NAM uses against overfitting (Agarwal et al., 2021).

    ``dropout`` sets hidden units to zero, ``feature_dropout`` whole terms; ``output_penalty`` is the weight of
    the mean squared effect, ``weight_decay`` that of ½‖Θ‖².
    """

    dropout: float = 0.0
    feature_dropout: float = 0.0
    output_penalty: float = 0.0
    weight_decay: float = 0.0

    @property
    def random(self) -> bool:
        """Whether the objective changes from step to step."""
        return self.dropout > 0 or self.feature_dropout > 0


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How to train: the solver, its rate and batches, and when to stop."""

    solver: Solver
    schedule: Schedule
    learning_rate: float
    batch_size: int | None
    max_epochs: int
    patience: int
    tol: float

    def rows_of_step(self, n_rows: int) -> int:
        """Return how many of the rows a step sees."""
        return n_rows if self.solver.full_batch or self.batch_size is None else self.batch_size

    def rate(self, epochs: float) -> float:
        """Return the learning rate after so many epochs."""
        return self.learning_rate * self.schedule(epochs / self.max_epochs)


@dataclass(repr=False, eq=False)
class Network(BaseEstimator):
    """Sub-networks and how they are trained, for the parameter ``network`` of an estimator.

    ``SNAMRegressor(alpha=0.1, network=Network())`` is the paper's model. It holds parameters only, so that ``clone``,
    ``get_params`` and a grid over ``network__dropout`` work as for any scikit-learn object.

    Parameters
    ----------
    hidden : tuple, mapping or callable, default (100, 50)
        Hidden widths; ``()`` is a linear model; a mapping gives widths by the name of the term; a callable
        ``(names, outputs) -> SubnetBank`` returns custom sub-networks.
    activation : {"relu", "clipped_relu", "exu", "gelu", "silu", "tanh"}, default "relu"
        Activation of the hidden layers.
    penalize : {"subnetwork", "output", "function"}, default "subnetwork"
        What forms a group when all columns are trained under the penalty: all parameters of a sub-network (the paper),
        its output layer, or the function itself, ‖hⱼ‖ₙ, the root mean square of the effect.
    solver : str, default "auto"
        Proximal, with exact zeros: "prox_gd", "fista" (full batch), "prox_sgd" (with momentum), "prox_adam".
        Subgradient, with zeros by ``threshold``: "gd" (full batch), "sgd", "momentum", "adagrad", "adam".
        "auto" is "prox_adam", or "fista" without hidden layers.
    learning_rate : float, optional
        Step size, by default that of the solver; "prox_gd" and "fista" find theirs by backtracking.
    schedule : {"constant", "cosine", "exponential"} or callable, default "constant"
        Factor of the learning rate as a function of the share of epochs done.
    batch_size : int or None, default 256
        Rows a step; None takes all.
    max_epochs : int, optional
        Most passes over the rows; by default 100, or 10,000 iterations for "prox_gd" and "fista".
    tol : float, optional
        Relative fall of the objective that counts as progress (default 1e-4); for "prox_gd" and "fista" the
        stationarity to reach (default 1e-8).
    patience : int, default 10
        Epochs without progress before training stops.
    validation_fraction : float, default 0
        Share of the rows held out; the epoch with the lowest held-out loss is returned.
    dropout, feature_dropout, output_penalty, weight_decay : float, default 0
        NAM's regularisers.
    threshold : float, default 0.01
        For subgradient solvers, which never reach zero: a term is dropped when its mean absolute effect on the
        training rows is at most this, in standard deviations of y (scores for classification).
    init : {"random", "convex"}, default "random"
        Where training starts: at random as in the paper, or with the columns that the convex problem chooses and the
        output layers that are best for random hidden layers.
    standardize : bool, default True
        False keeps the raw scale of columns and target, as the paper does.
    checkpoint : path, optional
        File in which a long fit stores its state every few seconds; if it is there at the start, the fit goes on
        from it. It needs a ``random_state`` of the estimator.
    device : str, default "auto"
        Where to train; "auto" takes CUDA where there is one.
    """

    _doc_link_module = "sparsenam"  # whose page scikit-learn's HTML view links to
    _doc_link_template = "https://sparsenam.readthedocs.io/en/stable/api/estimators.html#sparsenam.{estimator_name}"
    hidden: Hidden = (100, 50)
    activation: str = "relu"
    penalize: Penalize = "subnetwork"
    solver: str = "auto"
    learning_rate: float | None = None
    schedule: str | Schedule = "constant"
    batch_size: int | None = 256
    max_epochs: int | None = None
    tol: float | None = None
    patience: int = 10
    validation_fraction: float = 0.0
    dropout: float = 0.0
    feature_dropout: float = 0.0
    output_penalty: float = 0.0
    weight_decay: float = 0.0
    threshold: float = 0.01
    init: Literal["random", "convex"] = "random"
    standardize: bool = True
    checkpoint: str | PathLike[str] | None = None
    device: str = "auto"

    @property
    def is_linear(self) -> bool:
        if callable(self.hidden):
            return False
        widths = list(self.hidden.values()) if isinstance(self.hidden, Mapping) else [self.hidden]
        return all(len(layers) == 0 for layers in widths)

    @property
    def regularizers(self) -> Regularizers:
        return Regularizers(self.dropout, self.feature_dropout, self.output_penalty, self.weight_decay)

    def solver_for(self, penalty: Penalty) -> Solver:
        """Return the solver: "auto" is full-batch without hidden layers, where the problem is convex."""
        name = ("fista" if self.is_linear else "prox_adam") if self.solver == "auto" else self.solver
        check_word("solver", name, tuple(SOLVERS))
        solver = SOLVERS[name]
        if solver.proximal and solver.rule is adam and not isinstance(penalty, WeightedLasso):
            return replace(solver, rule=partial(adam, by_row=True))  # a metric for each entry would have no exact step
        return solver

    def plan(self, penalty: Penalty) -> TrainingPlan:
        """Return how to train under a penalty, with every default resolved."""
        solver = self.solver_for(penalty)
        searches = solver.searches_step
        return TrainingPlan(
            solver=solver,
            schedule=as_schedule(self.schedule),
            learning_rate=float(self.learning_rate or solver.learning_rate),
            batch_size=self.batch_size,
            max_epochs=self.max_epochs or (FULL_BATCH_EPOCHS if searches else MINI_BATCH_EPOCHS),
            patience=self.patience,
            tol=self.tol or (FULL_BATCH_TOL if searches else MINI_BATCH_TOL),
        )

    def chosen_device(self) -> torch.device:
        try:
            import torch
        except ImportError as error:
            got, remedy = "an environment without it", 'pip install "sparsenam[networks]"'
            raise MissingTorchError(describe("a network", "PyTorch, which trains it", got, remedy)) from error
        if not isinstance(self.device, str | torch.device):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(describe("device", "a name such as 'cpu'", repr(self.device), "use 'auto'"))
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            device = torch.device(self.device)
            torch.zeros(1, device=device).cpu()
        except (NotImplementedError, RuntimeError, AssertionError) as error:
            got = f"{self.device!r} ({str(error).splitlines()[0]})"
            raise InputError(describe("device", "a device of this machine", got, "use 'auto' or 'cpu'")) from error
        return device

    def check(self, penalty: Penalty, *, trains_under_penalty: bool, thresholds: bool = False) -> None:
        """Raise for a value outside its range, and for one that could not act.

        ``trains_under_penalty`` says whether all columns are trained under the penalty from random parameters, as in
        the paper; otherwise the convex problem chooses and ``penalize`` has no part. ``thresholds`` says whether a
        subgradient solver would drop columns by ``threshold``.
        """
        self._check_ranges()
        solver = self.solver_for(penalty)
        for name in ("dropout", "feature_dropout"):
            if solver.searches_step and getattr(self, name) > 0:
                got = f"solver {solver.name!r}, which compares losses from step to step"
                raise InputError(describe(name, "a mini-batch solver", got, f"use 'prox_adam' or no {name}"))
        if solver.searches_step:
            for name in ("learning_rate", "schedule", "patience"):
                self._require_default(name, f"the solver {solver.name!r} finds its step and its end itself")
        if solver.full_batch:
            self._require_default("batch_size", f"the solver {solver.name!r} takes all rows in every step")
        if self.is_linear or callable(self.hidden):
            self._require_default("activation", "these sub-networks are linear or bring their own hidden layers")
        if self.is_linear:
            self._require_default("dropout", "there is no hidden layer")
        if not trains_under_penalty:
            self._require_default("penalize", "the convex problem chooses, which penalises functions")
        if solver.proximal or not thresholds:
            self._require_default("threshold", "columns are dropped by exact zeros, or not at all at alpha=0")
        if self.init == "convex" and callable(self.hidden):
            got = "custom sub-networks"
            raise InputError(describe("init='convex'", "hidden widths", got, "give widths or init='random'"))
        self.chosen_device()

    def _check_ranges(self) -> None:
        check_word("init", self.init, ("random", "convex"))
        check_word("penalize", self.penalize, ("subnetwork", "output", "function"))
        for name in ("weight_decay", "output_penalty", "threshold"):
            check_number(name, getattr(self, name), 0.0)
        for name in ("dropout", "feature_dropout", "validation_fraction"):
            check_number(name, getattr(self, name), 0.0, 1.0, open_above=True)
        for name in ("learning_rate", "tol"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 0.0, open_below=True)
        check_whole("patience", self.patience)
        for name in ("batch_size", "max_epochs"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))
        if self.standardize not in (True, False):
            raise InputError(describe("standardize", "True or False", repr(self.standardize), "choose one"))
        as_schedule(self.schedule)
        check_hidden(self.hidden, self.activation)
        if self.checkpoint is None:
            return
        if not isinstance(self.checkpoint, str | PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(describe("checkpoint", "a path", repr(self.checkpoint), "name a file"))
        if not Path(self.checkpoint).parent.is_dir():
            got = "a folder that is not there"
            raise InputError(describe(f"checkpoint {self.checkpoint}", "a path in a folder", got, "make it first"))

    def _require_default(self, name: str, reason: str) -> None:
        value, default = getattr(self, name), getattr(Network, name)
        if value != default:
            got = f"{value!r}, which could not act: {reason}"
            raise InputError(describe(f"{name} of Network", f"its default {default!r}", got, "leave it out"))
