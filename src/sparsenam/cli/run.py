"""A fit from a table to files: fit, measure, write; and what is left behind when it is stopped."""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

import sparsenam
from sparsenam.cli.large import LargeProblem
from sparsenam.cli.measure import advise, measure, performance
from sparsenam.cli.problem import LabelledRows, TableProblem, TargetKind, TargetRequest, dropping, pose, settled_types
from sparsenam.cli.tables import read_file
from sparsenam.codec import Plain
from sparsenam.context import ResumeFile
from sparsenam.errors import ChoiceWarning, InputError, describe
from sparsenam.estimators import AdditiveEstimator
from sparsenam.explain import Explanation, LocalExplanation
from sparsenam.explain.report import render_report
from sparsenam.export import ModelFileError
from sparsenam.families import Family, Quantile
from sparsenam.files import check_folder, remove, remove_leftovers, write_together
from sparsenam.fit.problem import CHOICE_RAMPS
from sparsenam.text import Found

Left = Literal["nothing", "older", "stages", "early", "preliminary", "complete"]
Posed = TableProblem | LargeProblem

ADVICE_SECONDS = 5.0  # for advice on the family, where the fit took less: enough on a slow machine, where it takes 1
SHOWN_ROWS = 5  # held-out rows explained one by one in the report


class ModelFolder:
    """The files of a fit, each written whole or not at all; ``stage`` has what a stopped fit had reached."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.model, self.report = path / "model.snam", path / "report.html"
        self.metrics, self.stage = path / "metrics.json", path / "stage.safetensors"

    @property
    def is_preliminary(self) -> bool:
        return bool(self._read_metrics().get("preliminary", False))

    def finished_fit(self) -> Plain | None:
        """Return the metrics of a fit that came to its end, None when there is none."""
        metrics = self._read_metrics()
        is_finished = self.model.exists() and self.report.exists() and not metrics.get("preliminary", False)
        return metrics if metrics and is_finished else None

    @contextmanager
    def made(self) -> Generator[None]:
        """Make the folder, unless nothing can be written into it; take an empty one away where the work fails."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(describe("--out", "a folder", f"the file {self.path}", "name another"))
        was_there = self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.path)
        check_folder(self.path)
        try:
            yield
        except Exception:
            if not was_there:
                with suppress(OSError):  # something is in it
                    self.path.rmdir()
            raise

    def write(self, estimator: AdditiveEstimator, metrics: Plain | None = None, report: str | None = None) -> None:
        """Write a model with what there is about it; report and figures of an older one never stand beside it.

        All files are written beside their places first, so that a full disk leaves the older fit as it was.
        """
        contents: dict[Path, bytes | Callable[[Path], object]] = {self.model: partial(_save, estimator)}
        if report is not None:
            contents[self.report] = report.encode()
        if metrics is not None:
            contents[self.metrics] = (json.dumps(metrics, indent=2, ensure_ascii=False) + "\n").encode()
        write_together(contents, replaced=(self.metrics, self.report))

    def _read_metrics(self) -> Plain:
        """Return the metrics, empty where there are none that read: they only help, the model is what counts."""
        try:
            metrics: Plain | list[object] | str | float | None = json.loads(self.metrics.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return metrics if isinstance(metrics, dict) else {}


def _save(estimator: AdditiveEstimator, path: Path) -> None:
    """Save a model at a path that is not the one to name where it cannot be written."""
    try:
        estimator.save(path)
    except ModelFileError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        raise OSError(error.__cause__.errno, error.__cause__.strerror) from error


def findings_of(estimator: AdditiveEstimator) -> list[Found]:
    """Return what the report shows beside the effects: what tests found, and how far off predictions are."""
    found: list[Found] = [] if estimator.fdr_ is None else [estimator.fdr_]
    known = estimator.residuals_
    return [*found, estimator.uncertainty()] if known is not None and known.edits == len(estimator.edits_) else found


@dataclass(frozen=True, slots=True)
class FitRequest:
    """What to fit and how; all but the setting ``max_seconds`` decides the numbers of the model."""

    target: TargetRequest
    settings: Plain  # parameters of the estimator
    test: float = 0.0
    drop: Sequence[str] = ()

    @property
    def seed(self) -> int:
        return self.settings["random_state"]

    def fingerprint(self, content: bytes) -> str:
        """Return a digest of what stands for the table's content, and of what decides the numbers."""
        decisive = replace(self, settings={**self.settings, "max_seconds": None})
        return hashlib.sha256(repr((sparsenam.__version__, decisive)).encode() + content).hexdigest()

    @property
    def needs_memory(self) -> bool:
        """Whether the fit needs all rows at once."""
        survival = self.target.event is not None or self.target.task == "survival"
        return self.settings["shapes"] is not None or survival

    def read(self, table: Path, max_bytes: int) -> TableProblem:
        """Return the problem that the request makes of a table in a file."""
        used = [name for _, name in self.target.used]
        inputs = dropping(read_file(table, max_bytes, used), self.drop, (*used, *(self.settings["always_keep"] or ())))
        return pose(inputs, self.target)

    def settled(self, problem: Posed) -> FitRequest:
        """Return the same with the kinds of columns that the whole table shows, not only the rows to fit."""
        if isinstance(problem, LargeProblem):
            return self
        types = settled_types(problem, self.settings["feature_types"])
        return replace(self, settings={**self.settings, "feature_types": types or None})

    def estimator(self, kind: TargetKind) -> AdditiveEstimator:
        """Return the unfitted estimator for a kind of target."""
        if kind.task == "survival":
            return sparsenam.SNAMSurvival(**self.settings, verbose=False)
        model = sparsenam.SNAMClassifier if kind.task == "classification" else sparsenam.SNAMRegressor
        return model(family=_family_of(kind), **self.settings, verbose=False)

    def convex_estimator(self, kind: TargetKind, alpha: float | Literal["auto"]) -> AdditiveEstimator:
        """Return the unfitted convex model that chooses the columns of such a fit, with nothing after it."""
        shared = {name: self.settings[name] for name in ("always_keep", "feature_types", "random_state")}
        of_classes = kind.task == "classification"
        model = sparsenam.RandomFeatureSNAMClassifier if of_classes else sparsenam.RandomFeatureSNAMRegressor
        return model(family=_family_of(kind), alpha=alpha, width=CHOICE_RAMPS, **shared, verbose=False)


def _family_of(kind: TargetKind) -> str | Family:
    return Quantile(kind.quantile) if kind.quantile is not None else kind.family or "auto"


class FitStopped(Exception):  # noqa: N818  # it is no error
    """The user stopped the fit; ``left`` says which model is there all the same."""

    def __init__(self, left: Left) -> None:
        super().__init__("stopped")
        self.left: Left = left


def run_fit(problem: Posed, request: FitRequest, folder: ModelFolder, fingerprint: str, *, resume: bool) -> Plain:
    """Fit, measure and write; return the metrics, or raise `FitStopped` when the user stops it."""
    if not resume:
        remove(folder.stage)
    stage = ResumeFile(folder.stage)
    estimator = request.estimator(problem.kind)
    metrics: Plain = {"fingerprint": fingerprint, "seed": request.seed, "seconds": None}
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ChoiceWarning)  # the notes say the same
            problem.fit(estimator, stage)
        metrics["seconds"] = round(time.perf_counter() - started, 3)
        held = problem.held()
        metrics["rows"] = _counts(problem, held)
        metrics["test"] = None if held is None else _finite(measure(estimator, problem.kind, problem.seen, held))
        _remember(estimator, problem, request.target, metrics)
        explanation = estimator.explain()
        metrics |= _facts(problem, estimator, explanation)
        metrics["advice"] = _advice(problem, request, metrics)
        shown = problem.some(SHOWN_ROWS) if held is None else held
        local = _shown_rows(estimator, shown, held_out=held is not None)
        if held is not None:
            card = explanation.card | performance(estimator, problem.kind, held)
            explanation = replace(explanation, card=card)
        folder.write(estimator, metrics, render_report(explanation, local, findings_of(estimator)))
    except KeyboardInterrupt as interrupt:
        if not hasattr(estimator, "model_"):
            raise FitStopped(_leave_preliminary(problem, request, folder, stage, metrics)) from interrupt
        if folder.finished_fit() != json.loads(json.dumps(metrics)):  # else all was written when it came
            folder.write(estimator)
        raise FitStopped("complete") from interrupt
    if metrics["cut_short"] is None:  # else --resume with more time goes on from what is complete
        remove(folder.stage)
    return metrics


def _advice(problem: Posed, request: FitRequest, metrics: Plain) -> str | None:
    """Return the advice to take another family, in about as much time as the fit took; None where there is none."""
    seconds = metrics["seconds"]
    allowed = request.settings["max_seconds"]
    left = min(math.inf if allowed is None else allowed - seconds, max(seconds, ADVICE_SECONDS))
    given = request.target.family is not None or problem.kind.task != "regression"
    if given or metrics["cut_short"] is not None or isinstance(problem, LargeProblem):
        return None
    return advise(problem.seen, metrics["kept"], request.settings["feature_types"] or {}, request.seed, left)


def _leave_preliminary(
    problem: Posed, request: FitRequest, folder: ModelFolder, stage: ResumeFile, metrics: Plain
) -> Left:
    """Write the model of the columns chosen so far, where there are any, and say what a stopped fit leaves.

    The penalised convex solution is there at once, only shrunken.
    """
    if folder.finished_fit() is not None:
        return "older"  # a finished model is worth more than a preliminary one
    if isinstance(problem, LargeProblem):  # a preliminary model would need one more pass
        return "stages" if stage.has_stages else "nothing"
    if stage.reached is None or problem.kind.task == "survival":
        return "nothing"
    quick = request.convex_estimator(problem.kind, stage.reached)
    problem.fit(quick)
    told = {**metrics, "rows": _counts(problem, None), "test": None}
    _remember(quick, problem, request.target, told, preliminary="after" if stage.chosen else "while")
    folder.write(quick, told | _facts(problem, quick, quick.explain()) | {"preliminary": True})
    return "preliminary" if stage.chosen else "early"


def _remember(estimator: AdditiveEstimator, problem: Posed, asked: TargetRequest, metrics: Plain, **more: str) -> None:
    """Let a model know its target, its scores on held-out rows and where its rows came from, as its file will."""
    counts = metrics["rows"]
    rows = {"rows fitted": f"{counts['fit']}", "rows held out": f"{counts['test']}"}
    named = {"exposure": asked.exposure, "weights": asked.weights}
    columns = {what: name for what, name in named.items() if name is not None}
    scores = None if metrics["test"] is None else _named_scores(metrics["test"])
    facts = {"target": problem.target, "scores": scores, "source": problem.source | rows | columns}
    summary = replace(estimator.summary_, **facts, **more)
    estimator.fit_ = replace(estimator.fit_, summary=summary)


def _named_scores(errors: Plain) -> dict[str, float | None]:
    name, baseline = errors["measure"], errors["baseline_is"]
    scores = {f"{name} on held-out rows": errors["model"], f"{name} of the baseline ({baseline})": errors["baseline"]}
    known = {"measure", "model", "baseline", "baseline_is", "higher_is_better", name.replace(" ", "_")}
    return scores | {key.replace("_", " "): value for key, value in errors.items() if key not in known}


def _facts(problem: Posed, estimator: AdditiveEstimator, explanation: Explanation) -> Plain:
    support, names = np.asarray(estimator.get_support()), np.array(problem.names, dtype=object)
    return {
        "schema": 2,
        "sparsenam": sparsenam.__version__,
        "preliminary": False,
        "cut_short": explanation.card["cut_short"],
        "task": problem.kind.task,
        "reason": problem.kind.reason,
        "family": estimator.model_.family.name,
        "target": problem.target,
        "columns": len(names),
        "kept": names[support].tolist(),
        "dropped": names[~support].tolist(),
        "pairs": [list(pair) for pair in estimator.interactions_],
        "alpha": float(estimator.alpha_),
        "explained": explanation.card["explained"],
        "notes": list(explanation.notes),
        "fdr": None if estimator.fdr_ is None else estimator.fdr_.to_dict(),
    }


def _counts(problem: Posed, held: LabelledRows | None) -> dict[str, int]:
    """Return how many rows were fitted and held out, and how many of these measured the error where not all did."""
    counts = problem.counts if held is not None else problem.counts | {"test": 0}
    measured = 0 if held is None else len(held.y)
    return counts if measured == counts["test"] else counts | {"measured": measured}


def _finite(values: Plain) -> Plain:
    bad = {name for name, value in values.items() if isinstance(value, float) and not math.isfinite(value)}
    return {name: None if name in bad else value for name, value in values.items()}


def _shown_rows(estimator: AdditiveEstimator, shown: LabelledRows, *, held_out: bool) -> LocalExplanation:
    """Return the explanation of a few rows by their numbers in the file, which say whether they were held out."""
    few = shown.take(np.arange(min(SHOWN_ROWS, len(shown.y))))
    with few.named():
        local = estimator.explain_local(few.table.native)
    beside = " of the file, held out" if held_out else " of the file"
    named = (replace(row, row=f"{number}{beside}") for row, number in zip(local.rows, few.numbers, strict=True))
    return replace(local, rows=tuple(named))
