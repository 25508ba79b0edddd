"""A fit from table to files: fit, measure, write; and what is left behind when it is stopped."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

import sparsenam
from sparsenam.cli.display import FitProgress
from sparsenam.cli.files import Folder, write_json, write_report
from sparsenam.cli.measures import Measured, measure
from sparsenam.cli.problem import Part, Problem, Wishes, split
from sparsenam.cli.stage import StageFile
from sparsenam.cli.task import Task
from sparsenam.cli.watcher import KeepingWatcher
from sparsenam.estimators.fitting import RAMPS
from sparsenam.estimators.watching import watched_by

Left = Literal["nothing", "older", "preliminary", "complete"]
SHOWN_ROWS = 5  # held-out rows explained one by one in the report


@dataclass(frozen=True, slots=True)
class Plan:
    """How to fit; everything but ``max_seconds`` decides the numbers of the model."""

    wishes: Wishes
    test: float = 0.2
    seed: int = 0
    alpha: float | None = None
    keep: tuple[str, ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    max_seconds: float | None = None

    def fingerprint(self, content: bytes) -> str:
        """Return a digest of the table's file and of what decides the numbers."""
        words = asdict(self)
        del words["max_seconds"]
        digest = hashlib.sha256(json.dumps([sparsenam.__version__, words], sort_keys=True).encode())
        digest.update(content)
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A finished fit: its facts as metrics.json has them, and its explanation."""

    metrics: Mapping[str, Any]
    explanation: Any


class Stopped(Exception):  # noqa: N818  # it is no error
    """The user stopped the fit; ``left`` says which model is there all the same."""

    def __init__(self, left: Left) -> None:
        super().__init__("stopped")
        self.left: Left = left


def run_fit(problem: Problem, plan: Plan, folder: Folder, fingerprint: str, *, resume: bool) -> Outcome:
    """Fit, measure and write; raise `Stopped` when the user stops it."""
    fitted, held = split(problem, plan.test, plan.seed)
    stage = StageFile(folder.stage, fingerprint)
    stored = stage.read() if resume else None
    folder.make()
    if not resume:
        folder.stage.unlink(missing_ok=True)
    estimator = make_estimator(problem.task, plan)
    started = time.perf_counter()
    with FitProgress() as progress:
        watcher = KeepingWatcher(stage, stored, progress)
        try:
            with watched_by(watcher):
                fit_part(estimator, fitted)
            seconds = time.perf_counter() - started
            _save(estimator, folder)
            measured = None if held is None else measure(estimator, problem.task, fitted, held)
            metrics = _metrics(problem, plan, fingerprint, estimator, fitted, held, measured, seconds)
            explanation = told(estimator.explain(), problem.target, metrics)
            shown = fitted if held is None else held
            local = estimator.explain_local(shown.take(np.arange(min(SHOWN_ROWS, shown.rows))).table.native)
            if held is not None:
                local = replace(local, rows=tuple(replace(own, row=f"{own.row} held out") for own in local.rows))
            write_report(explanation, folder.report, local)
            write_json(folder.metrics, metrics)
        except KeyboardInterrupt as interrupt:
            left: Left = "nothing"
            if hasattr(estimator, "model_"):
                _save(estimator, folder)
                left = "complete"
            elif folder.is_finished:
                left = "older"  # a finished model is worth more than a preliminary one
            elif watcher.alpha is not None and problem.task.kind != "survival":
                _write_preliminary(problem, plan, folder, fingerprint, fitted, watcher.alpha)
                left = "preliminary"
            raise Stopped(left) from interrupt
    folder.stage.unlink(missing_ok=True)
    return Outcome(metrics, explanation)


def _save(estimator: Any, folder: Folder) -> None:
    """Write the model; figures of an older one go first, so that none stand beside a model that is not theirs."""
    folder.metrics.unlink(missing_ok=True)
    estimator.save(folder.model)


def make_estimator(task: Task, plan: Plan) -> Any:
    """Return the unfitted estimator for a task."""
    shared: dict[str, Any] = {
        "alpha": "auto" if plan.alpha is None else plan.alpha,
        "keep": list(plan.keep) or None,
        "feature_types": dict(plan.types) or None,
        "max_seconds": plan.max_seconds,
        "random_state": plan.seed,
        "verbose": False,
    }
    if task.kind == "survival":
        return sparsenam.SNAMSurvival(**shared)
    if task.kind == "classification":
        return sparsenam.SNAMClassifier(family=task.family or "auto", **shared)
    return sparsenam.SNAMRegressor(family=task.family or "gaussian", **shared)


def fit_part(estimator: Any, part: Part) -> None:
    """Fit an estimator on some rows."""
    exposure = {} if part.exposure is None else {"exposure": part.exposure}
    estimator.fit(part.table.native, part.y, **exposure)


def told(explanation: Any, target: str | None, metrics: Mapping[str, Any]) -> Any:
    """Return an explanation that knows the target's name and the errors on held-out rows."""
    scores = metrics["test"]
    card = explanation.card if scores is None else {**explanation.card, "scores": _numbers_of(scores)}
    return replace(explanation, target=target, card=card)


def _numbers_of(scores: Mapping[str, Any]) -> dict[str, float]:
    name, baseline = scores["measure"], scores["baseline_is"]
    main = {f"{name} on held-out rows": scores["model"], f"{name} of the baseline ({baseline})": scores["baseline"]}
    known = {"measure", "model", "baseline", "baseline_is", "higher_is_better", name.replace(" ", "_")}
    return main | {name.replace("_", " "): value for name, value in scores.items() if name not in known}


def _write_preliminary(
    problem: Problem, plan: Plan, folder: Folder, fingerprint: str, fitted: Part, alpha: float
) -> None:
    """Write the penalised convex solution of the choice as the model: it is there at once, only shrunken."""
    kind = sparsenam.RandomFeatureSNAMRegressor
    if problem.task.kind == "classification":
        kind = sparsenam.RandomFeatureSNAMClassifier
    quick: Any = kind(
        alpha=alpha,
        family=problem.task.family or "gaussian",
        width=RAMPS,
        keep=list(plan.keep) or None,
        feature_types=dict(plan.types) or None,
        random_state=plan.seed,
        verbose=False,
    )
    fit_part(quick, fitted)
    metrics = _metrics(problem, plan, fingerprint, quick, fitted, None, None, None)
    _save(quick, folder)
    write_json(folder.metrics, {**metrics, "preliminary": True})


def _metrics(
    problem: Problem,
    plan: Plan,
    fingerprint: str,
    estimator: Any,
    fitted: Part,
    held: Part | None,
    measured: Measured | None,
    seconds: float | None,
) -> dict[str, Any]:
    support = np.asarray(estimator.get_support())
    names = np.array(fitted.table.names, dtype=object)
    return {
        "schema": 1,
        "sparsenam": sparsenam.__version__,
        "preliminary": False,
        "task": problem.task.kind,
        "family": estimator.model_.family.name,
        "why": problem.task.why,
        "target": problem.target,
        "rows": {"fit": fitted.rows, "test": 0 if held is None else held.rows},
        "columns": len(names),
        "kept": names[support].tolist(),
        "dropped": names[~support].tolist(),
        "alpha": float(estimator.alpha_),
        "test": None if measured is None else _finite(measured.to_dict()),
        "seconds": None if seconds is None else round(seconds, 3),
        "seed": plan.seed,
        "fingerprint": fingerprint,
    }


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with None for numbers that JSON cannot hold."""
    bad = {name for name, value in values.items() if isinstance(value, float) and not math.isfinite(value)}
    return {name: None if name in bad else value for name, value in values.items()}
