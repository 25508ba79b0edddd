"""Do probabilities mean what they say? Left-out ones beside what came true, and the correction that helps, if any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from scipy.optimize import brentq, isotonic_regression, minimize

from sparsenam.codec import Array, Matrix, Size, Vector
from sparsenam.families import Family

Kind = Literal["none", "platt", "isotonic"]
Correction = tuple[tuple[Vector, ...], tuple[Vector, ...]]  # knots and values of each output

RELIABILITY_BINS = 10  # of equally many cases
RELIABILITY_FOLDS = 5  # in which corrections are tried
CLEAR = 2.0  # standard errors by which a correction must lower the loss
STEEPEST = 4.0  # slope of a line that corrects scores, and one over it
LEAST_PROBABILITY = 1e-12  # of a probability in a logarithm
MOST_STEP_KNOTS = 100  # of a step function that is kept


@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """Left-out probabilities beside what came true, and the correction that helps, if any does.

    In bins of probabilities, ``predicted``, ``observed`` and ``counts`` (bins,) are mean probability, share that
    came true and the number of cases: a case is a row and a class, the second class alone where there are two. ``kind``
    is "none" where no correction lowers the loss of held-out folds by more than two standard errors; else "platt",
    scores a + b s, with a as ``knots`` and b as ``values`` of each output, or "isotonic", a rising function of each
    class's probability with these knots and values. ``loss`` is the mean log loss of the left-out probabilities,
    ``corrected`` that with the better correction in held-out folds, and ``gain_error`` the standard error of the
    difference.
    """

    predicted: Annotated[Vector, Array(1, 0.0, 1.0)]
    observed: Annotated[Vector, Array(1, 0.0, 1.0)]
    counts: Annotated[Vector, Array(1, 0.0)]
    kind: Kind
    knots: tuple[Vector, ...]
    values: tuple[Vector, ...]
    loss: Size
    corrected: Size
    gain_error: Size

    def apply(self, family: Family, scores: Matrix) -> Matrix:
        """Return corrected probabilities (rows, outputs), those of the model itself where no correction helps."""
        return corrected(family, scores, self.kind, (self.knots, self.values))


def corrected(family: Family, scores: Matrix, kind: Kind, correction: Correction) -> Matrix:
    """Return probabilities (rows, outputs) after a correction."""
    knots, values = correction
    if kind == "platt":
        return family.mean(np.concatenate(knots) + np.concatenate(values) * scores)
    found = family.mean(scores)
    if kind == "none":
        return found
    for output, (x, y) in enumerate(zip(knots, values, strict=True)):
        found[:, output] = np.interp(found[:, output], x, y)
    if family.couples_outputs:
        found = np.maximum(found, LEAST_PROBABILITY)
        found /= found.sum(axis=1, keepdims=True)
    return found


def _fitted_correction(family: Family, scores: Matrix, target: Matrix, kind: Kind) -> Correction:
    """Return knots and values of a correction of scores (rows, outputs)."""
    if kind == "platt":
        return _platt(family, scores, target)
    knots, values = list[Vector](), list[Vector]()
    for chances, truth in zip(family.mean(scores).T, target.T, strict=True):
        x, y = _rising(chances, truth)
        # a level of all or nothing claims more than its rows can know: Laplace's rule for the mean level's rows
        share = 1.0 / (len(chances) / max(x.size / 2.0, 1.0) + 2.0)
        y = np.clip(y, share, 1.0 - share)
        if x.size > MOST_STEP_KNOTS:
            taken = np.linspace(0, x.size - 1, MOST_STEP_KNOTS).round().astype(np.intp)
            x, y = x[taken], y[taken]
        knots.append(x)
        values.append(y)
    return tuple(knots), tuple(values)


def _rising(chances: Vector, truth: Vector) -> tuple[Vector, Vector]:
    """Return the ends of the levels of the rising function nearest to truth (rows,), and the levels."""
    points, place, mass = np.unique(chances, return_inverse=True, return_counts=True)
    found = isotonic_regression(np.bincount(place, truth) / mass, weights=mass.astype(np.float64))
    level = np.asarray(found.x, dtype=np.float64)
    ends = np.ones(points.size, dtype=np.bool_)
    ends[1:-1] = (level[1:-1] != level[:-2]) | (level[1:-1] != level[2:])
    return points[ends], level[ends]


def _platt(family: Family, scores: Matrix, target: Matrix) -> Correction:
    """Return a and b of the best a + b s: one of each for every output, b shared where outputs are classes."""
    outputs = scores.shape[1]
    shared = family.couples_outputs and outputs > 1

    def cost(point: Vector) -> tuple[float, Vector]:
        moved = point[:outputs] + point[outputs:] * scores
        pull = family.gradient(moved, target) / len(scores)
        slopes = np.sum(pull * scores, axis=0)
        slopes = slopes.sum(keepdims=True) if shared else slopes
        return float(np.mean(family.loss(moved, target))), np.concatenate([pull.sum(axis=0), slopes])

    start = np.concatenate([np.zeros(outputs), np.ones(1 if shared else outputs)])
    found = np.asarray(minimize(cost, start, jac=True, method="L-BFGS-B").x, dtype=np.float64)
    return tuple(found[:outputs, None]), tuple(np.broadcast_to(found[outputs:], outputs)[:, None])


def class_errors(family: Family, scores: Matrix, target: Matrix, inflation: float) -> tuple[Matrix, Reliability]:
    """Return 1 less the probability of the true class, of each row (rows, outputs), and the reliability.

    Where the columns were chosen with the rows, left-out scores claim too much: they are drawn to those of no model
    until their loss has grown by the square of ``inflation``, as squared errors would. Labels have an error for each,
    other classes one.
    """
    scores = tempered(family, scores, target, inflation**2)
    means = family.mean(scores)
    wrong = 1.0 - np.where(target > 0.5, means, 1.0 - means)
    if family.couples_outputs:
        wrong = 1.0 - np.sum(target * means, axis=1, keepdims=True)
    return wrong, reliability_of(family, scores, target)


def reliability_of(family: Family, scores: Matrix, target: Matrix) -> Reliability:
    """Return the reliability of left-out scores (rows, outputs) against the target (rows, outputs) of 0 and 1.

    The straight line is tried first; the rising function must be better than it for certain.
    """
    means, error = family.mean(scores), 0.0
    kind, losses = "none", _losses(means, target, family)
    loss = lowest = float(losses.mean())
    tried: tuple[Kind, ...] = ("platt", "isotonic") if len(scores) >= 10 * RELIABILITY_FOLDS else ()
    for each in tried:
        slopes = _platt(family, scores, target)[1] if each == "platt" else ()
        # left-out scores of a model that says nothing lean away from y: a line through them would turn them round
        if not all(1.0 / STEEPEST <= float(slope[0]) <= STEEPEST for slope in slopes):
            continue
        after = _held_out_losses(family, scores, target, each)
        gains = losses - after
        spread = float(gains.std() / np.sqrt(gains.size))
        if each == "platt" or float(after.mean()) < lowest:
            lowest, error = float(after.mean()), spread
        if float(gains.mean()) > CLEAR * spread:
            kind, losses = each, after
    found: Correction = ((), ()) if kind == "none" else _fitted_correction(family, scores, target, kind)
    parts = np.array_split(np.argsort(means.ravel(), kind="stable"), min(RELIABILITY_BINS, means.size))
    counts = np.array([float(part.size) for part in parts])
    predicted, observed = (np.array([values.ravel()[part].mean() for part in parts]) for values in (means, target))
    return Reliability(predicted, observed, counts, kind, *found, loss, lowest, error)


def _held_out_losses(family: Family, scores: Matrix, target: Matrix, kind: Kind) -> Vector:
    """Return the log loss of each row under a correction that did not see it, shape (rows,)."""
    folds = np.argsort(np.argsort(scores[:, 0], kind="stable")) % RELIABILITY_FOLDS  # every fold sees the whole range
    losses = np.zeros(len(scores))
    for fold in range(RELIABILITY_FOLDS):
        rest, held = folds != fold, folds == fold
        found = _fitted_correction(family, scores[rest], target[rest], kind)
        losses[held] = _losses(corrected(family, scores[held], kind, found), target[held], family)
    return losses


def _losses(means: Matrix, target: Matrix, family: Family) -> Vector:
    """Return the log loss of each row, shape (rows,)."""
    found = -np.sum(target * np.log(np.maximum(means, LEAST_PROBABILITY)), axis=1)
    if not family.couples_outputs or means.shape[1] == 1:
        found -= np.sum((1.0 - target) * np.log(np.maximum(1.0 - means, LEAST_PROBABILITY)), axis=1)
    return found


def tempered(family: Family, scores: Matrix, target: Matrix, growth: float) -> Matrix:
    """Return scores (rows, outputs) drawn to those of no model until their mean loss is ``growth`` times as large.

    Where that is more than the loss of no model, they become its scores.
    """
    if growth <= 1.0:
        return scores
    none = family.best_constant(target, np.ones(len(scores)))
    wanted = growth * float(np.mean(family.loss(scores, target)))

    def excess(share: float) -> float:
        return float(np.mean(family.loss(none + share * (scores - none), target))) - wanted

    share = float(brentq(excess, 0.0, 1.0)) if excess(0.0) > 0.0 else 0.0
    return none + share * (scores - none)
