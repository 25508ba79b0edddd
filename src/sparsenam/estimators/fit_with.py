"""A temporary form of `fit_with`, on the watcher of fits, until the fit takes a context itself."""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeVar

import numpy as np

from sparsenam.context import Progress, ProgressBar, ResumeFile
from sparsenam.estimators.watching import Step, watched_by
from sparsenam.selection.choose import ConvexTask, FeatureChoice

Estimator = TypeVar("Estimator")


def fit_with(
    estimator: Estimator,
    X: Any,
    y: Any,
    *,
    progress: Progress | None = None,
    resume: ResumeFile | None = None,
    **fit_params: Any,
) -> Estimator:
    """Fit as ``estimator.fit``, with progress and a resume file of the caller's; return the estimator."""
    fitted: Any = estimator
    shown = ProgressBar(verbose=False) if progress is None else progress
    if resume is not None:
        resume.claim(_identity(fitted, X, y))
    try:
        with watched_by(_ContextWatcher(shown, resume)):
            fitted.fit(X, y, **fit_params)
    finally:
        shown.close()
    return estimator


class _ContextWatcher:
    def __init__(self, progress: Progress, resume: ResumeFile | None) -> None:
        from sparsenam.cli.stage import Stored

        self._progress, self._resume = progress, resume
        self._choices: list[FeatureChoice] = []
        kept = None if resume is None else resume.recall("choice")
        self._stored = None if kept is None else Stored(kept.arrays, kept.facts["certificates"])

    def recall(self, task: ConvexTask) -> FeatureChoice | None:
        choice = None if self._stored is None else self._stored.choice(len(self._choices), task)
        if choice is None:
            self._stored = None
        return choice

    def keep(self, choice: FeatureChoice) -> None:
        from sparsenam.cli.stage import pack_choice

        self._choices.append(choice)
        if self._stored is not None or self._resume is None:
            return
        arrays: dict[str, Any] = {}
        for index, each in enumerate(self._choices):
            arrays |= pack_choice(each, f"{index}/")
        certificates = [None if each.certificate is None else each.certificate.to_dict() for each in self._choices]
        self._resume.keep("choice", arrays, {"alpha": choice.alpha, "certificates": certificates})

    def step(self, step: Step, done: int, most: int) -> None:
        self._progress.report("train" if step == "polish" else step, done, most or None)


def _identity(estimator: Any, X: Any, y: Any) -> str:
    settings = {k: v for k, v in estimator.get_params().items() if k not in ("max_seconds", "verbose", "n_jobs")}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode())
    digest.update(np.ascontiguousarray(y).tobytes() if np.asarray(y).dtype.kind != "O" else repr(y).encode())
    digest.update(repr(X).encode())
    return digest.hexdigest()
