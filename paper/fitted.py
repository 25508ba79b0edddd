"""What every method returns after a fit, how it is judged, and how its settings are chosen by validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from paper import measures as formulas
from paper.tasks import Kind, Rows, Split

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Candidate = TypeVar("Candidate")
FOLDS = 5
ALL_KEPT = "the method has no zeros: every feature counts as kept"
EXACT_ZEROS = "kept: not exactly zero"
BY_THRESHOLD = "kept: mean absolute effect on the training rows above 0.01 (subgradient steps reach no zeros)"


@dataclass(frozen=True, slots=True, eq=False)
class FittedMethod:
    """A fitted method.

    ``predict`` takes X (rows, columns) and gives, of shape (rows,), the expected y for regression and the
    probability of class 1 for classification. ``effects`` gives each column's share of the score, shape
    (rows, columns): of y for regression, of the log odds for classification. ``support`` has the indices of the
    kept columns by ``support_rule``; ``n_parameters`` is None where the method has none to count; ``chosen`` has
    the settings that were found by validation.
    """

    predict: Callable[[Matrix], Vector]
    effects: Callable[[Matrix], Matrix]
    support: tuple[int, ...]
    n_parameters: int | None
    support_rule: str = EXACT_ZEROS
    chosen: Mapping[str, float] = field(default_factory=dict[str, float])

    def after(self, prepare: Callable[[Matrix], Matrix]) -> FittedMethod:
        """Return the method for rows that ``prepare`` has yet to transform."""

        def predict(X: Matrix) -> Vector:
            return self.predict(prepare(X))

        def effects(X: Matrix) -> Matrix:
            return self.effects(prepare(X))

        return replace(self, predict=predict, effects=effects)

    def having_chosen(self, **chosen: float) -> FittedMethod:
        """Return the method with more chosen settings on record."""
        return replace(self, chosen={**self.chosen, **chosen})


def indices_of(mask: Sequence[bool] | NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the indices where a mask is true."""
    return tuple(int(index) for index in np.flatnonzero(mask))


def measure(fitted: FittedMethod, split: Split) -> dict[str, float]:
    """Return all measures that the task and the method allow, on the test rows."""
    X, y = split.test.X, split.test.y
    measures: dict[str, float] = {"features": float(len(fitted.support))}
    if fitted.n_parameters is not None:
        measures["parameters"] = float(fitted.n_parameters)
    predicted = fitted.predict(X)
    if split.kind == "regression":
        measures |= {
            "mse": formulas.mean_squared_error(y, predicted),
            "mae": formulas.mean_absolute_error(y, predicted),
            "r2": formulas.explained_share(y, predicted),
        }
    else:
        measures |= {
            "cross_entropy": formulas.cross_entropy(y, predicted),
            "accuracy": formulas.accuracy(y, predicted),
            "auc": formulas.area_under_curve(y, predicted),
            "auc_of_labels": formulas.area_under_curve(y, (predicted > 0.5).astype(np.float64)),
        }
    if split.true_support is not None:
        measures["precision"] = formulas.precision(fitted.support, split.true_support)
        measures["recall"] = formulas.recall(fitted.support, split.true_support)
    if split.truth_of is not None:
        measures["identification"] = formulas.identification_error(fitted.effects(X), split.truth_of(X))
    return measures


def validation_loss(fitted: FittedMethod, rows: Rows, kind: Kind) -> float:
    """Return the mean squared error or the cross-entropy on the rows; infinite for predictions not finite."""
    predicted = fitted.predict(rows.X)
    if not np.isfinite(predicted).all():
        return float("inf")
    loss = formulas.mean_squared_error if kind == "regression" else formulas.cross_entropy
    return loss(rows.y, predicted)


def choose(
    candidates: Sequence[Candidate],
    fit: Callable[[Candidate, Rows], FittedMethod],
    rows: Rows,
    kind: Kind,
    seed: int,
    folds: int = 1,
) -> Candidate:
    """Return the candidate with the lowest mean loss over ``folds`` of five folds, each held out in turn."""
    if len(candidates) == 1:
        return candidates[0]
    order = np.random.default_rng(seed).permutation(rows.y.size)
    parts = [(np.setdiff1d(order, held), held) for held in np.array_split(order, FOLDS)[:folds]]
    losses = [
        np.mean([validation_loss(fit(candidate, rows.take(rest)), rows.take(held), kind) for rest, held in parts])
        for candidate in candidates
    ]
    return candidates[int(np.argmin(losses))]
