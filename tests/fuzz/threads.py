"""Fits and predictions in eight threads at once: bit for bit what each gives alone, and all thread counts as before.

A case is a fit with all that is asked of it after, or an attempt that fails; they run in random order.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from functools import partial
from threading import Thread
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from sparsenam import (
    Network,
    RandomFeatureSNAMClassifier,
    RandomFeatureSNAMRegressor,
    SNAMClassifier,
    SNAMRegressor,
    SNAMSurvival,
    survival_target,
)

AT_ONCE = 8
ROWS = 12_000  # of the table that is predicted: products of so many rows are shared among the threads of BLAS
Case = Callable[[], str]


def numbers(rows: int = 240, columns: int = 5, seed: int = 0) -> tuple[Any, Any]:
    """Return X (rows, columns) and a target (rows,) with two effects."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, columns))
    return X, 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * generator.normal(size=rows)


def digest(model: Any) -> str:
    """Return a digest of every number that a fitted model gives for new rows."""
    X, found = numbers(ROWS, model.n_features_in_, seed=9)[0], hashlib.sha256()
    asked = ("predict", "predict_proba", "decision_function", "effects")
    few = ("effect_bands", "predict_interval")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, rows in [(name, X) for name in asked] + [(name, X[:500]) for name in few]:
            try:
                answer = getattr(model, name)(rows)
            except (AttributeError, ValueError):  # what this fit cannot say: bands of a network, intervals of classes
                continue
            parts = [getattr(answer, field.name) for field in fields(answer)] if is_dataclass(answer) else [answer]
            for part in parts:
                found.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
        explanation = model.explain().to_dict()
    found.update(json.dumps([explanation[name] for name in ("features", "dropped", "pairs", "curve")]).encode())
    return found.hexdigest()


def fitted(estimator: Any, X: Any, y: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return digest(estimator.fit(X, y))


def failing(error: type[BaseException], n_jobs: int | None) -> str:
    """Fit with a cross-validation that fails on its way."""

    class Failing:
        def split(self, *given: Any) -> Any:
            raise error("on purpose")

        def get_n_splits(self, *given: Any) -> int:
            return 2

    X, y = numbers()
    try:
        SNAMRegressor(cv=Failing(), n_jobs=n_jobs, random_state=0).fit(X, y)
    except error:
        return "failed"
    return "did not fail"


def cases() -> dict[str, Case]:
    """Return fits by name: every estimator, family and kind of network, with one thread, two, and all cores."""
    X, y = numbers()
    wide, of_wide = numbers(150, 40, seed=1)
    counts, classes = np.round(np.exp(y / 2.0)), np.digitize(y, [-1.0, 1.0])
    positive = np.exp(y / 2.0)
    net = Network((8,), max_epochs=4)
    found: dict[str, tuple[Any, Any, Any]] = {
        "regression": (SNAMRegressor(), X, y),
        "wide": (SNAMRegressor(), wide, of_wide),
        "wide classes": (SNAMClassifier(), wide, of_wide > 0),
        "pairs": (SNAMRegressor(pairs=2, n_jobs=2), X, y + X[:, 2] * X[:, 3]),
        "two targets": (SNAMRegressor(), X, np.stack([y, X[:, 2]], axis=1)),
        "classes": (SNAMClassifier(n_jobs=2), X, y > 0),
        "three classes": (SNAMClassifier(), X, classes),
        "random features": (RandomFeatureSNAMRegressor(), X, y),
        "random feature classes": (RandomFeatureSNAMClassifier(), X, y > 0),
        "survival": (SNAMSurvival(), X, survival_target(y > -1.0, positive)),
        "network": (SNAMRegressor(alpha=0.02, network=net), X, y),
        "network of classes": (SNAMClassifier(alpha=0.02, network=net, n_jobs=2), X, y > 0),
        "chosen network": (SNAMRegressor(network=Network((8,), solver="prox_adam", max_epochs=4)), X, y),
        "fista": (SNAMRegressor(alpha=0.05, network=Network((4,), solver="fista", max_epochs=4), n_jobs=2), X, y),
    }
    targets = {"poisson": counts, "gamma": positive, "tweedie": counts, "huber": y, "quantile": y}
    for number, (family, target) in enumerate({**targets, "negative_binomial": counts}.items()):
        found[family] = (SNAMRegressor(family=family, n_jobs=(None, 2)[number % 2]), X, target)
    for estimator, *_ in found.values():
        estimator.set_params(random_state=0)
    fits = {name: partial(fitted, *given) for name, given in found.items()}
    ready = SNAMRegressor(pairs=1, random_state=0).fit(X, y + X[:, 2] * X[:, 3])
    others = {"predictions": partial(digest, ready)}
    others |= {f"failure {jobs}": partial(failing, RuntimeError, jobs) for jobs in (None, 2)}
    return {**fits, **others}


def counts_here() -> tuple[int, list[tuple[str, int]]]:
    """Return the thread counts that this Python thread sees: of torch, and of each library."""
    return torch.get_num_threads(), sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info())


def counts_in_a_new_thread() -> Any:
    found: list[Any] = []
    thread = Thread(target=lambda: found.append(counts_here()))
    thread.start()
    thread.join()
    return found[0]


def attack(seed: int, count: int, say: Callable[[str], None], among: dict[str, Case] | None = None) -> list[str]:
    """Run ``count`` cases in eight threads; return what differed from the same alone, and counts that changed."""
    before_torch, known, findings = torch.get_num_threads(), cases() if among is None else among, list[str]()
    names = np.random.default_rng(seed).permutation(np.resize(list(known), count)).tolist()
    torch.set_num_threads(2)
    try:
        with threadpool_limits(limits=2):  # two before the fits, so that a limit left behind would show
            alone = {name: known[name]() for name in dict.fromkeys(names)}
            before, before_new = counts_here(), counts_in_a_new_thread()
            with ThreadPoolExecutor(AT_ONCE) as executor:
                # before the first fit begins, whose limit of BLAS all threads would see
                of_threads = [each.result() for each in [executor.submit(counts_here) for _ in range(AT_ONCE)]]
                say(f"{len(alone)} kinds of cases alone; now {count} in {AT_ONCE} threads")
                answers = list(executor.map(lambda name: known[name](), names))
                after_threads = [executor.submit(counts_here) for _ in range(AT_ONCE)]
                seen = {repr(each) for each in (*of_threads, *(each.result() for each in after_threads))}
            for name, answer in zip(names, answers, strict=True):
                if answer != alone[name]:
                    findings.append(f"{name}: other bits than alone")
            if counts_here() != before:
                findings.append(f"thread counts of the main thread: {before} before, {counts_here()} after")
            if counts_in_a_new_thread() != before_new:
                findings.append(f"of a new thread: {before_new} before, {counts_in_a_new_thread()} after")
            if len(seen) > 1:
                findings.append(f"of the threads that fitted: {sorted(seen)}")
    finally:
        torch.set_num_threads(before_torch)
    return findings
