"""What a user may set, checked and resolved once at the start of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np
import torch

from sparsenam.errors import InputError, check_number, check_whole, check_word, describe
from sparsenam.networks import Hidden
from sparsenam.penalties import Penalty, as_penalty
from sparsenam.selection import RULES, Rule
from sparsenam.training import Deadline, Regularizers, Solver, TrainingPlan, as_schedule, as_solver
from sparsenam.training.checkpoint import stable_words
from sparsenam.training.solvers import Schedule

Penalize = Literal["subnetwork", "output", "function"]
PAPER_HIDDEN = (100, 50)
MINI_BATCH_EPOCHS, FULL_BATCH_EPOCHS = 100, 10_000
MINI_BATCH_TOL, FULL_BATCH_TOL = 1e-4, 1e-8


@dataclass(frozen=True, slots=True)
class Settings:
    """The constructor's words of the estimators; see `SNAMRegressor` for their meaning."""

    alpha: float | Literal["auto"] = "auto"
    penalty: str | Penalty = "group_lasso"
    penalize: Penalize = "subnetwork"
    hidden: Hidden | Literal["auto"] = "auto"
    activation: str = "relu"
    solver: str = "auto"
    init: Literal["auto", "convex", "random"] = "auto"
    refit: bool | Literal["auto"] = "auto"
    rule: Rule = "compact"
    n_alphas: int = 30
    learning_rate: float | None = None
    schedule: str | Schedule = "constant"
    batch_size: int | None = 256
    max_epochs: int | None = None
    max_seconds: float | None = None
    tol: float | None = None
    patience: int = 10
    validation_fraction: float = 0.0
    dropout: float = 0.0
    feature_dropout: float = 0.0
    output_penalty: float = 0.0
    weight_decay: float = 0.0
    threshold: float = 0.01
    standardize: bool = True
    checkpoint: str | PathLike[str] | None = None
    device: str = "auto"
    verbose: bool | None = None
    random_state: int | np.random.RandomState | None = None

    @classmethod
    def of(cls, parameters: Mapping[str, object]) -> Self:
        """Take those of an estimator's parameters that are settings, and check them."""
        names = {field.name for field in fields(cls)}
        values: dict[str, Any] = {name: value for name, value in parameters.items() if name in names}
        settings = cls(**values)
        settings.check()
        return settings

    def check(self) -> None:
        """Raise for a value outside its range."""
        if self.alpha != "auto":
            check_number("alpha", self.alpha, 0.0)
        check_word("rule", self.rule, RULES)
        check_word("init", self.init, ("auto", "convex", "random"))
        if self.refit not in (True, False, "auto"):
            raise InputError(describe("refit", "True, False or 'auto'", repr(self.refit), "choose one"))
        check_number("weight_decay", self.weight_decay, 0.0)
        check_number("output_penalty", self.output_penalty, 0.0)
        check_number("threshold", self.threshold, 0.0)
        for name in ("dropout", "feature_dropout", "validation_fraction"):
            check_number(name, getattr(self, name), 0.0, 1.0, open_above=True)
        for name in ("learning_rate", "max_seconds", "tol"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 0.0, open_below=True)
        check_whole("patience", self.patience)
        check_whole("n_alphas", self.n_alphas)
        for name in ("batch_size", "max_epochs"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))
        check_word("penalize", self.penalize, ("subnetwork", "output", "function"))
        as_penalty(self.penalty)
        as_schedule(self.schedule)
        self._check_hidden()
        solver = self.chosen_solver()
        if solver.searches_step and self.regularizers().random:
            got = f"solver {solver.name!r}, which compares losses from step to step"
            raise InputError(describe("dropout", "a mini-batch solver", got, "use 'prox_adam' or no dropout"))
        self.chosen_device()
        self._check_checkpoint()

    def _check_hidden(self) -> None:
        if callable(self.hidden) or self.hidden == "auto":
            return
        given = cast(object, self.hidden)
        by_feature = cast(Mapping[object, object], given).values() if isinstance(given, Mapping) else [given]
        if any(isinstance(own, str) or not isinstance(own, Sequence) for own in by_feature):
            expected = "widths such as (100, 50), a mapping of names to widths, or a callable"
            raise InputError(describe("hidden", expected, repr(self.hidden), "choose one"))

    def _check_checkpoint(self) -> None:
        if self.checkpoint is None:
            return
        if not isinstance(self.checkpoint, str | PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(describe("checkpoint", "a path", repr(self.checkpoint), "name a file"))
        if not Path(self.checkpoint).parent.is_dir():
            got = "a folder that is not there"
            raise InputError(describe(f"checkpoint {self.checkpoint}", "a path in a folder", got, "make it first"))
        if self.random_state is None:
            expected = "a random_state, without which no other run is the same fit"
            raise InputError(describe("checkpoint", expected, "None", "set random_state"))

    @property
    def starts_convex(self) -> bool:
        """Whether the convex solution starts the network: by default when no architecture is asked for."""
        return self.hidden == "auto" if self.init == "auto" else self.init == "convex"

    @property
    def refits(self) -> bool:
        """Whether the kept features are fitted again without the penalty: by default after a convex choice."""
        return (self.starts_convex or self.alpha == "auto") if self.refit == "auto" else bool(self.refit)

    @property
    def architecture(self) -> Hidden:
        """The hidden layers; without a wish the paper's."""
        return PAPER_HIDDEN if isinstance(self.hidden, str) else self.hidden

    @property
    def is_linear(self) -> bool:
        """Whether there is no hidden layer."""
        if callable(self.hidden):
            return False
        widths = list(self.hidden.values()) if isinstance(self.hidden, Mapping) else [self.hidden]
        return all(len(own) == 0 for own in widths)

    def chosen_solver(self) -> Solver:
        """Return the solver: "auto" is full-batch without hidden layers, where the problem is convex."""
        name = ("fista" if self.is_linear else "prox_adam") if self.solver == "auto" else self.solver
        return as_solver(name).suited_to(as_penalty(self.penalty))

    def chosen_device(self) -> torch.device:
        """Return the device; ``"auto"`` takes CUDA where there is one."""
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

    def regularizers(self) -> Regularizers:
        """Return NAM's regularisers."""
        return Regularizers(self.dropout, self.feature_dropout, self.output_penalty, self.weight_decay)

    def words(self) -> str:
        """Return what decides the numbers of a fit, in words that stay the same from process to process."""
        passing = ["verbose", "checkpoint", "max_seconds", "device", "random_state"]
        if self.schedule == "constant":  # other schedules depend on where the last epoch is
            passing.append("max_epochs")
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in passing}
        return stable_words(own)

    def plan(self, clock: Deadline, stage: str = "") -> TrainingPlan:
        """Return how to run a training; ``stage`` keeps the checkpoints of several trainings apart."""
        solver = self.chosen_solver()
        searches = solver.searches_step
        path = None if self.checkpoint is None else Path(self.checkpoint)
        return TrainingPlan(
            solver=solver,
            schedule=as_schedule(self.schedule),
            learning_rate=float(self.learning_rate or solver.learning_rate),
            batch_size=self.batch_size,
            max_epochs=self.max_epochs or (FULL_BATCH_EPOCHS if searches else MINI_BATCH_EPOCHS),
            patience=self.patience,
            tol=self.tol or (FULL_BATCH_TOL if searches else MINI_BATCH_TOL),
            clock=clock,
            checkpoint=path.with_name(path.name + stage) if path is not None and stage else path,
            verbose=self.verbose,
            words=self.words(),
        )
