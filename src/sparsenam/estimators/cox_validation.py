"""Cross-validation along the convex path by the partial likelihood of the held-out rows.

It depends on no hazard, and grows like the score where the Poisson loss of a held-out row grows like e^score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sparsenam.convex.path import convex_path
from sparsenam.convex.problem import ConvexPoint
from sparsenam.convex.relaxed import RelaxedFits, relaxed_scores
from sparsenam.penalties import GroupLasso, NeedsFirstFit
from sparsenam.selection import CVCurve
from sparsenam.selection.choose import PATH_TOL, ConvexTask, CrossValidation, FeatureChoice, Judge, with_empty
from sparsenam.selection.folds import batch_weights
from sparsenam.survival.cox import RiskSets

Vector = NDArray[np.float64]

# Of the fits on each fold, where a well-observed direction has information 1. Held-out loss of the true
# features, mean of six simulated samples: 0.629 at 0.001, 0.609 at 0.01, 0.599 at 0.03, 0.598 at 0.1. At 0.001 fits
# run away at the edges of a normal column: 400 rows with two effects lost the weaker one.
RIDGE = 0.03


def choose_by_partial_likelihood(task: ConvexTask, plan: CrossValidation, risk_sets: RiskSets) -> FeatureChoice:
    """Return the point of the path that the plan's rule takes; it is solved to the path's tolerance only."""
    penalty = task.penalty
    if not isinstance(penalty, NeedsFirstFit):
        return _choose(task, plan, risk_sets)
    first = _choose(replace(task, penalty=GroupLasso()), plan, risk_sets)
    if not first.support.size:
        return first
    leading = [own[0] for own in task.prepared.grouping.members]
    norms = first.task.norms(first.point)[task.prepared.features[leading]]
    return _choose(replace(task, penalty=penalty.adapted_to(norms)), plan, risk_sets)


def _choose(task: ConvexTask, plan: CrossValidation, risk_sets: RiskSets) -> FeatureChoice:
    prepared, hidden = task.prepared, None if plan.verbose is None else not plan.verbose
    batches = batch_weights(prepared.weights, plan.splits)
    given = (task.design, prepared.target, task.family, batches)
    fits = RelaxedFits(*given, ridge=RIDGE, held_out=[test for _, test in plan.splits])
    walk = convex_path(*given, penalty=task.penalty, n_alphas=plan.n_alphas, tol=PATH_TOL)
    loss_of = held_out_losses(risk_sets, [test for _, test in plan.splits])
    points, losses = list[ConvexPoint](), list[Vector]()
    judge = Judge(risk_sets.weights * risk_sets.event)
    bar = tqdm(with_empty(walk), "choose", plan.n_alphas, delay=2.0, disable=hidden, leave=False, unit="alpha")
    for point in bar:
        points.append(point)
        losses.append(loss_of(relaxed_scores(fits, point)[:, 0]))
        if judge.has_seen_enough(point, losses[-1]) or plan.out_of_time():
            break
    sizes = [sum(own.size for own in point.supports[1:]) / len(plan.splits) for point in points]
    alphas = np.array([point.alpha for point in points])
    supports = tuple(point.supports[0] for point in points)
    curve = CVCurve(alphas, supports, np.array(losses), judge.weights, np.array(sizes, dtype=np.float64))
    chosen = points[curve.choose(plan.rule)]
    return FeatureChoice(task, chosen.alpha, chosen, None, curve, tuple(points))


def held_out_losses(risk_sets: RiskSets, folds: list[NDArray[np.intp]]) -> Callable[[Vector], Vector]:
    """Return the function from held-out scores to each event's loss, both of shape (rows,).

    The loss of an event in fold F is log(Σ wⱼ e^{sⱼ}/Σ wⱼ) - sᵢ - log Λᵢ, summed over the rows j of F at risk, with
    Λ the hazard without features: for equal scores it is the Poisson deviance, from there on the partial likelihood
    counts. Rows without the event have 0.
    """
    own = [risk_sets.take(fold) for fold in folds]
    hazard = risk_sets.hazard(np.zeros(risk_sets.event.size), "breslow").rows
    base = np.zeros(hazard.size)
    base[risk_sets.event] = -np.log(hazard[risk_sets.event])
    for fold, part in zip(folds, own, strict=True):
        base[fold] -= part.event_losses(np.zeros(fold.size))

    def losses(scores: Vector) -> Vector:
        total = base.copy()
        for fold, part in zip(folds, own, strict=True):
            total[fold] += part.event_losses(scores[fold])
        return total

    return losses
