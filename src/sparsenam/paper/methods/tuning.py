"""Choosing a setting by validation: parts of the training rows are held out, the lowest loss wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from sparsenam.paper.measures import cross_entropy, mean_squared_error
from sparsenam.paper.methods.fitted import FittedMethod
from sparsenam.paper.tasks import Kind, Rows

Candidate = TypeVar("Candidate")
FOLDS = 5


def validation_loss(fitted: FittedMethod, rows: Rows, kind: Kind) -> float:
    """Return the mean squared error or the cross-entropy on the rows; infinite for answers that are not finite."""
    answers = fitted.predict(rows.X)
    if not np.isfinite(answers).all():
        return float("inf")
    return mean_squared_error(rows.y, answers) if kind == "regression" else cross_entropy(rows.y, answers)


def choose(
    candidates: Sequence[Candidate],
    fit: Callable[[Candidate, Rows], FittedMethod],
    rows: Rows,
    kind: Kind,
    seed: int,
    folds: int = 1,
) -> Candidate:
    """Return the candidate with the lowest mean loss over ``folds`` out of five fifths held out in turn."""
    if len(candidates) == 1:
        return candidates[0]
    order = np.random.default_rng(seed).permutation(rows.y.size)
    parts = [(np.setdiff1d(order, held), held) for held in np.array_split(order, FOLDS)[:folds]]
    losses = [
        np.mean([validation_loss(fit(candidate, rows.take(own)), rows.take(held), kind) for own, held in parts])
        for candidate in candidates
    ]
    return candidates[int(np.argmin(losses))]
