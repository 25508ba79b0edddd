"""A fit from a table to files: fit, measure, write; and what is left behind when it is stopped."""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from scipy.stats import rankdata

import sparsenam
from sparsenam.cli.large import LargeProblem
from sparsenam.cli.problem import LabelledRows, SplitProblem, TargetKind, TargetRequest, fit_rows
from sparsenam.context import ResumeFile
from sparsenam.errors import ChoiceWarning, InputError, describe
from sparsenam.explain.report import render_report
from sparsenam.export import ModelFileError
from sparsenam.files import check_folder, remove, remove_if_empty, remove_leftovers, write_together
from sparsenam.fitting.strategies import RAMPS
from sparsenam.selection import FDR

Vector = NDArray[np.float64]
Left = Literal["nothing", "older", "stages", "preliminary", "complete"]
Posed = SplitProblem | LargeProblem

SHOWN_ROWS = 5  # held-out rows explained one by one in the report


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The files of a fit, each written whole or not at all."""

    path: Path

    @property
    def model(self) -> Path:
        """The model."""
        return self.path / "model.snam"

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / "report.html"

    @property
    def metrics(self) -> Path:
        """What was measured."""
        return self.path / "metrics.json"

    @property
    def stage(self) -> Path:
        """What a stopped fit had reached."""
        return self.path / "stage.safetensors"

    @property
    def is_preliminary(self) -> bool:
        """Whether the model is that of a stopped fit."""
        return bool(self._read_metrics().get("preliminary", False))

    def finished_fit(self) -> Mapping[str, Any] | None:
        """Return the metrics of a fit that came to its end, None when there is none."""
        metrics = self._read_metrics()
        is_finished = self.model.exists() and self.report.exists() and not metrics.get("preliminary", False)
        return metrics if metrics and is_finished else None

    def make(self) -> None:
        """Make the folder; raise before the work where nothing can be written into it."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(describe("--out", "a folder", f"the file {self.path}", "name another"))
        self.path.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.path)
        check_folder(self.path)

    def write(self, estimator: Any, metrics: Mapping[str, Any] | None = None, report: str | None = None) -> None:
        """Write a model with what there is about it; report and figures of an older one never stand beside it.

        All files are written beside their places first, so that a full disk leaves the older fit as it was.
        """
        contents: dict[Path, bytes | Callable[[Path], object]] = {self.model: partial(_save, estimator)}
        if report is not None:
            contents[self.report] = report.encode()
        if metrics is not None:
            contents[self.metrics] = (json.dumps(metrics, indent=2, ensure_ascii=False) + "\n").encode()
        write_together(contents, replaced=(self.metrics, self.report))

    def _read_metrics(self) -> Mapping[str, Any]:
        """Return the metrics, empty where there are none that read: they only help, the model is what counts."""
        try:
            metrics = json.loads(self.metrics.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return cast("Mapping[str, Any]", metrics) if isinstance(metrics, dict) else {}


def _save(estimator: Any, path: Path) -> None:
    """Save a model at a path that is not the one to name where it cannot be written."""
    try:
        estimator.save(path)
    except ModelFileError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        raise OSError(error.__cause__.errno, error.__cause__.strerror) from error


def findings_of(estimator: Any) -> list[Any]:
    """Return what the report shows beside the effects: what tests found, and how far off predictions are."""
    known = getattr(estimator, "residuals_", None)
    found = [] if estimator.fdr_ is None else [estimator.fdr_]
    return [*found, estimator.uncertainty()] if known is not None and known.edits == len(estimator.edits_) else found


@dataclass(frozen=True, slots=True)
class FitRequest:
    """How to fit; everything but ``max_seconds`` decides the numbers of the model."""

    target: TargetRequest
    test: float = 0.2
    seed: int = 0
    alpha: float | Literal["auto"] = "auto"
    rule: str = "compact"
    max_features: int | None = None
    keep: tuple[str, ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    max_seconds: float | None = None
    pairs: int | str | tuple[tuple[str, str], ...] | None = None  # None for the estimators' default
    heredity: str = "none"
    shapes: tuple[tuple[str, str], ...] = ()
    fdr: float | None = None
    drop: tuple[str, ...] = ()

    def fingerprint(self, content: bytes) -> str:
        """Return a digest of what stands for the table's content, and of what decides the numbers."""
        settings = asdict(replace(self, max_seconds=None))
        digest = hashlib.sha256(json.dumps([sparsenam.__version__, settings], sort_keys=True).encode())
        digest.update(content)
        return digest.hexdigest()

    @property
    def needs_memory(self) -> bool:
        """Whether the fit needs all rows at once."""
        survival = self.target.event is not None or self.target.task == "survival"
        return self.pairs not in (None, 0) or bool(self.shapes) or survival

    def estimator(self, kind: TargetKind) -> Any:
        """Return the unfitted estimator for a kind of target."""
        settings = self._settings(
            alpha=self.alpha,
            rule=self.rule if self.fdr is None else FDR(self.fdr),
            max_features=self.max_features,
            max_seconds=self.max_seconds,
            shapes=dict(self.shapes) or None,
        )
        if self.pairs is not None:
            settings["pairs"] = list(self.pairs) if isinstance(self.pairs, tuple) else self.pairs
        settings["heredity"] = self.heredity
        if kind.task == "survival":
            return sparsenam.SNAMSurvival(**settings)
        if kind.task == "classification":
            return sparsenam.SNAMClassifier(family=kind.family or "auto", **settings)
        return sparsenam.SNAMRegressor(family=kind.family or "gaussian", **settings)

    def convex_estimator(self, kind: TargetKind, alpha: float | Literal["auto"]) -> Any:
        """Return the unfitted convex model that chooses the columns of such a fit, with nothing after it."""
        settings = self._settings(alpha=alpha, width=RAMPS)
        if kind.task == "classification":
            return sparsenam.RandomFeatureSNAMClassifier(family=kind.family or "auto", **settings)
        return sparsenam.RandomFeatureSNAMRegressor(family=kind.family or "gaussian", **settings)

    def _settings(self, **more: Any) -> dict[str, Any]:
        return more | {
            "always_keep": list(self.keep) or None,
            "feature_types": dict(self.types) or None,
            "random_state": self.seed,
            "verbose": False,
        }


class FitStopped(Exception):  # noqa: N818  # it is no error
    """The user stopped the fit; ``left`` says which model is there all the same."""

    def __init__(self, left: Left) -> None:
        super().__init__("stopped")
        self.left: Left = left


def run_fit(
    problem: Posed, request: FitRequest, folder: ModelFolder, fingerprint: str, *, resume: bool
) -> Mapping[str, Any]:
    """Fit, measure and write; return the metrics, or raise `FitStopped` when the user stops it."""
    was_there = folder.path.exists()
    folder.make()
    try:
        return _run(problem, request, folder, fingerprint, resume=resume)
    except Exception:
        if not was_there:
            remove_if_empty(folder.path)
        raise


def _run(
    problem: Posed, request: FitRequest, folder: ModelFolder, fingerprint: str, *, resume: bool
) -> Mapping[str, Any]:
    if not resume:
        remove(folder.stage)
    stage = ResumeFile(folder.stage)
    estimator = request.estimator(problem.kind)
    metrics: dict[str, Any] = {"fingerprint": fingerprint, "seed": request.seed, "seconds": None}
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ChoiceWarning)  # the notes say the same
            problem.fit(estimator, stage)
        metrics["seconds"] = round(time.perf_counter() - started, 3)
        held = problem.held()
        metrics |= _facts(problem, estimator, held)
        shown = problem.some(SHOWN_ROWS) if held is None else held
        explanation, local = _explained(problem, estimator, shown, metrics)
        folder.write(estimator, metrics, render_report(explanation, local, findings_of(estimator)))
    except KeyboardInterrupt as interrupt:
        choice = stage.recall("choice")
        left: Left = "nothing"
        if hasattr(estimator, "model_"):
            if folder.finished_fit() != json.loads(json.dumps(metrics)):  # else all was written when it came
                folder.write(estimator)
            left = "complete"
        elif folder.finished_fit() is not None:
            left = "older"  # a finished model is worth more than a preliminary one
        elif choice is not None and isinstance(problem, LargeProblem):
            left = "stages"  # a preliminary model would need one more pass
        elif choice is not None and isinstance(problem, SplitProblem) and problem.kind.task != "survival":
            # the penalised convex solution of the choice is there at once, only shrunken
            quick = request.convex_estimator(problem.kind, float(choice.facts["alpha"]))
            fit_rows(quick, problem.fitted)
            folder.write(quick, {**metrics, **_facts(problem, quick, None), "preliminary": True})
            left = "preliminary"
        raise FitStopped(left) from interrupt
    remove(folder.stage)
    return metrics


def _facts(problem: Posed, estimator: Any, held: LabelledRows | None) -> dict[str, Any]:
    """Return what metrics.json says about a fitted model, measured on rows held out, if there are any."""
    support = np.asarray(estimator.get_support())
    names = np.array(problem.names, dtype=object)
    evidence, found = estimator.evidence_, estimator.fdr_
    told = [] if found is None else [found.sentence(), *found.notes()]
    return {
        "schema": 2,
        "sparsenam": sparsenam.__version__,
        "preliminary": False,
        "task": problem.kind.task,
        "reason": problem.kind.reason,
        "family": estimator.model_.family.name,
        "target": problem.target,
        "rows": _counts(problem, held),
        "columns": len(names),
        "kept": names[support].tolist(),
        "dropped": names[~support].tolist(),
        "pairs": [list(pair) for pair in estimator.interactions_],
        "alpha": float(estimator.alpha_),
        "explained": None if evidence is None else {"share": evidence.gain, "error": evidence.gain_error},
        "notes": [*told, *([] if evidence is None else evidence.notes())],
        "fdr": None if found is None else found.to_dict(),
        "test": None if held is None else _finite(measure(estimator, problem.kind, problem.seen, held)),
    }


def _counts(problem: Posed, held: LabelledRows | None) -> dict[str, int]:
    """Return how many rows were fitted and held out, and how many of these measured the error where not all did."""
    counts = problem.counts if held is not None else problem.counts | {"test": 0}
    measured = 0 if held is None else len(held.y)
    return counts if measured == counts["test"] else counts | {"measured": measured}


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with None for numbers that JSON cannot hold."""
    bad = {name for name, value in values.items() if isinstance(value, float) and not math.isfinite(value)}
    return {name: None if name in bad else value for name, value in values.items()}


def _explained(problem: Posed, estimator: Any, shown: LabelledRows, metrics: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the explanation, with the target's name and the errors on held-out rows, and that of a few rows."""
    explanation, errors = estimator.explain(), metrics["test"]
    few = shown.take(np.arange(min(SHOWN_ROWS, len(shown.y))))
    with few.named():
        local = estimator.explain_local(few.table.native)
    card = explanation.card
    if errors is not None:
        local = replace(local, rows=tuple(replace(row, row=f"{row.row} held out") for row in local.rows))
        name, baseline = errors["measure"], errors["baseline_is"]
        scores = {
            f"{name} on held-out rows": errors["model"],
            f"{name} of the baseline ({baseline})": errors["baseline"],
        }
        known = {"measure", "model", "baseline", "baseline_is", "higher_is_better", name.replace(" ", "_")}
        scores |= {key.replace("_", " "): value for key, value in errors.items() if key not in known}
        card = {**card, "scores": scores}
    return replace(explanation, target=problem.target, card=card), local


def measure(estimator: Any, kind: TargetKind, fitted: LabelledRows, held: LabelledRows) -> dict[str, Any]:
    """Return the errors on held-out rows, of the model and of a prediction that looks at no column."""
    errors: dict[str, Any] = {"higher_is_better": kind.task == "survival"}
    with held.named():
        if kind.task == "survival":
            concordance = float(estimator.score(held.table.native, held.y))
            main = {"measure": "concordance", "model": concordance, "baseline": 0.5, "baseline_is": "a random order"}
            return main | errors
        if kind.task == "classification":
            return _class_errors(estimator, fitted, held) | errors
        return _number_errors(estimator, kind, fitted, held) | errors


def _class_errors(estimator: Any, fitted: LabelledRows, held: LabelledRows) -> dict[str, Any]:
    probabilities = np.asarray(estimator.predict_proba(held.table.native))
    classes = np.asarray(estimator.classes_)
    names, counts = np.unique(fitted.y, return_counts=True)
    majority: object = names.tolist()[int(counts.argmax())]
    known = np.isin(held.y, classes)
    codes: NDArray[np.intp] = np.searchsorted(classes, held.y[known]).astype(np.intp)
    # no probability is below the rounding of a float
    chances = np.maximum(probabilities[known, codes], np.finfo(np.float64).eps)
    wrong = np.asarray(classes[probabilities.argmax(axis=1)] != held.y)
    errors = {
        "measure": "share of wrong classes",
        "model": float(wrong.mean()),
        "baseline": float(np.mean([label != majority for label in held.y.tolist()])),
        "baseline_is": f"always {str(majority)!r}",
        "log_loss": float(-np.mean(np.log(chances))) if chances.size else math.nan,
    }
    if classes.size == 2 and np.unique(codes).size == 2:
        errors["auc"] = _area_under_curve(codes == 1, probabilities[known, 1])
    return errors


def _number_errors(estimator: Any, kind: TargetKind, fitted: LabelledRows, held: LabelledRows) -> dict[str, Any]:
    y = held.y.astype(np.float64)
    constant: Vector = np.full(y.size, float(np.mean(fitted.y)))
    if held.exposure is None or fitted.exposure is None:
        predicted, baseline = np.asarray(estimator.predict(held.table.native)), "the mean"
    else:
        predicted = np.asarray(estimator.predict(held.table.native, exposure=held.exposure))
        constant, baseline = held.exposure * float(fitted.y.sum() / fitted.exposure.sum()), "the mean rate"
    name, error = "root mean squared error", _root_mean_square
    if kind.task == "count":
        name, error = "Poisson deviance", _poisson_deviance
    elif kind.family == "gamma":
        name, error = "gamma deviance", _gamma_deviance
    elif kind.family in ("quantile", "huber"):
        name, error = "mean absolute error", _mean_absolute
        constant, baseline = np.full(y.size, float(np.median(fitted.y))), "the median"
    spread = float(np.sum((y - y.mean()) ** 2))
    return {
        "measure": name,
        "model": error(y, predicted),
        "baseline": error(y, constant),
        "baseline_is": baseline,
        "root_mean_squared_error": _root_mean_square(y, predicted),
        "mean_absolute_error": _mean_absolute(y, predicted),
        "r2": 1.0 - float(np.sum((y - predicted) ** 2)) / spread if spread > 0 else math.nan,
    }


def _root_mean_square(y: Vector, predicted: Vector) -> float:
    return float(np.sqrt(np.mean((y - predicted) ** 2)))


def _mean_absolute(y: Vector, predicted: Vector) -> float:
    return float(np.mean(np.abs(y - predicted)))


def _poisson_deviance(y: Vector, predicted: Vector) -> float:
    """Return the mean of 2(y log(y/ŷ) - y + ŷ); rows of exposure 0, which predict 0, have none."""
    if not predicted.any():  # the mean of counts that are all 0
        return math.inf if y.any() else 0.0
    y, predicted = y[predicted > 0], predicted[predicted > 0]
    return float(np.mean(2.0 * (xlogy(y, y / predicted) - y + predicted)))


def _gamma_deviance(y: Vector, predicted: Vector) -> float:
    """Return the mean of 2(y/ŷ - 1 - log(y/ŷ))."""
    return float(np.mean(2.0 * (y / predicted - 1.0 - np.log(y / predicted))))


def _area_under_curve(positive: NDArray[np.bool_], scores: Vector) -> float:
    """Return the share of pairs, one of each class, that the scores put in order; ties count a half."""
    ranks, count = rankdata(scores), int(positive.sum())
    return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * (positive.size - count)))
