"""p-values of columns by halves of the rows: one half finds the curves, the other tests one coefficient for each.

The curves of a half are fixed functions for the rows of the other, so that the test has one degree of freedom a column
whatever its shape, and columns may be numbers, categories or have missing cells. Twice the median over several
halves is a p-value again, however the halves depend on each other (Meinshausen, Meier and Bühlmann 2009).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import t as student

from sparsenam.codec import Matrix
from sparsenam.context import Context
from sparsenam.convex.newton import refit_on
from sparsenam.convex.problem import ConvexPoint
from sparsenam.families import Family
from sparsenam.families.base import mean_bends
from sparsenam.selection.choose import FamilyLoss, HeldOutJudge
from sparsenam.selection.curve import TIE, Indices, Mask, Splits, Vector, balanced_splits
from sparsenam.selection.task import ConvexTask

Array = NDArray[np.float64]

REPEATS = 2  # times that the rows are halved; both halves find curves in turn
SPLIT_TEST_FOLDS = 4  # of the rows of a half, by which its point of the path is taken
SPLIT_POINTS = 20
SPLIT_RATIO, SPLIT_RATIO_WIDE = 0.03, 0.1  # lowest alpha over the largest; the second from MANY_GROUPS groups
MANY_GROUPS = 30
ROUGH_TOL = 3e-3  # duality gap of its path
HIGHER = 4  # points in a row with a higher loss than the best before the path ends
CURVE_RIDGE = 0.03  # of the curves, in coordinates in which rough functions cost more
SPLIT_TEST_STEPS, STEEPEST_END = 50, 1e-9  # of the fit that is tested, and its gradient's norm at the end
HESSIAN_JITTER = 1e-9  # of the mean diagonal of a Hessian
LARGEST_LEVERAGE = 0.95


def split_p_values(
    task_for: Callable[[Mask], ConvexTask],
    fold_target: Matrix,
    hypotheses: Sequence[Indices],
    generator: np.random.Generator,
    context: Context,
) -> Vector:
    """Return a p-value for each hypothesis, that none of its groups has an effect, shape (hypotheses,).

    ``task_for`` poses the convex problem with weights on some rows alone; what its design has of the target is of these
    rows. Halves are balanced by ``fold_target`` (rows, outputs). ``hypotheses`` are the groups of each; groups outside
    all of them are fitted beside them.
    """
    rows = len(fold_target)
    sample = task_for(np.ones(rows, dtype=np.bool_)).prepared
    found, halvings = list[Vector](), balanced_splits(fold_target, 2, generator, REPEATS)
    for number, (first, second) in enumerate(halvings, start=1):
        inside = np.zeros(rows, dtype=np.bool_)
        inside[first] = True
        task = task_for(inside)
        curves, owners = _curves(task, fold_target, hypotheses, first, generator)
        p_values = np.ones(len(hypotheses))
        if owners.size:
            tested = one_sided_p(curves[second], sample.target[second], sample.weights[second], task.family)
            p_values[owners[owners >= 0]] = tested[owners >= 0]
        found.append(p_values)
        context.progress.report("choose", number, len(halvings))
    return twice_the_median(np.array(found))


def twice_the_median(p_values: Matrix) -> Vector:
    """Return min(1, 2 Q½) of the p-values (halves, hypotheses) of each hypothesis, with the lower median Q½.

    A true hypothesis has P(2 Q½ ≤ u) ≤ u: half of the p-values are then up to u/2, which is so in half of all cases
    at most where each is so with chance u/2 (Markov's inequality).
    """
    middle = (len(p_values) + 1) // 2 - 1
    return np.minimum(1.0, 2.0 * np.sort(p_values, axis=0)[middle])


def _curves(
    task: ConvexTask, fold_target: Matrix, hypotheses: Sequence[Indices], rows: Indices, generator: np.random.Generator
) -> tuple[Array, Indices]:
    """Return the curves that some rows find, shape (all rows, curves, outputs), and the hypothesis of each.

    The groups of one hypothesis have one curve, their sum; groups of none have each a curve and the hypothesis -1.
    """
    prepared, design = task.prepared, task.design
    inner = balanced_splits(fold_target[rows], min(SPLIT_TEST_FOLDS, rows.size), generator)
    splits = [(rows[train], rows[test]) for train, test in inner]
    support = _best_point(task, splits).supports[0]
    theta, _ = refit_on(design, prepared.target, task.family, prepared.weights, support, CURVE_RIDGE)
    owner_of = np.full(design.n_groups, -1)
    for hypothesis, groups in enumerate(hypotheses):
        owner_of[groups] = hypothesis
    # a group of no hypothesis has a curve of its own
    keys = np.where(owner_of[support] >= 0, owner_of[support], len(hypotheses) + support)
    distinct, places = np.unique(keys, return_inverse=True)
    curves = np.zeros((design.n_rows, distinct.size, prepared.target.shape[1]))
    for group, part, place in zip(support, theta, places, strict=True):
        curves[:, place] += design.exact(np.array([group])).T @ part
    return curves, np.where(distinct < len(hypotheses), distinct, -1)


def _best_point(task: ConvexTask, splits: Splits) -> ConvexPoint:
    """Return the point of the penalised path with the lowest loss on the held-out rows of the splits."""
    judge = HeldOutJudge(task, splits, FamilyLoss.of(task, splits))
    ratio = SPLIT_RATIO if task.design.n_groups < MANY_GROUPS else SPLIT_RATIO_WIDE
    path, held_out = judge.path(task.penalty, SPLIT_POINTS, ratio, ROUGH_TOL), [test for _, test in splits]
    means, points = list[float](), list[ConvexPoint]()
    for point in path:
        scores = [point.scores(task.design, batch)[test] for batch, test in enumerate(held_out, start=1)]
        points.append(point)
        means.append(judge.mean_and_error(judge.loss.mean(scores, held_out))[0])
        if len(means) - int(np.argmin(means)) > HIGHER:
            break
    as_good = np.array(means) <= min(means) + TIE * abs(means[0])
    return points[int(np.argmax(as_good))]


def one_sided_p(curves: Array, target: Matrix, weights: Vector, family: Family) -> Vector:
    """Return the chances of coefficients as large where a curve (rows, curves, outputs) has no effect, shape (curves,).

    The scores are β + Σⱼ cⱼ fⱼ(x), fitted under the family's loss without penalty. A coefficient over its standard
    error is compared with Student's distribution; only positive ones speak for a curve. The error is that of the
    sandwich, with residuals enlarged by their leverage (HC3), so that the variance needs no model.
    """
    rows, count, outputs = curves.shape
    n_free = outputs - family.couples_outputs  # softmax does not see what all outputs share: its last intercept is 0
    ones = np.broadcast_to(np.eye(outputs)[:, :n_free], (rows, outputs, n_free))
    slopes = np.concatenate([curves.transpose(0, 2, 1), ones], axis=2)  # of scores in parameters
    shares = weights / weights.sum()

    def bent(scores: Matrix) -> Array:
        """Return hJ of each row, shape (rows, outputs, parameters): softmax has h = diag(p) - ppᵀ."""
        if not family.couples_outputs:
            return mean_bends(family, scores, target, weights)[:, :, None] * slopes
        chances = family.mean(scores)[:, :, None]
        return chances * (slopes - np.sum(chances * slopes, axis=1, keepdims=True))

    def pulls(scores: Matrix) -> Matrix:
        return shares[:, None] * np.einsum("ikj,ik->ij", slopes, family.gradient(scores, target))

    def cost(point: Vector) -> tuple[float, Vector]:
        scores = slopes @ point
        return float(shares @ family.loss(scores, target)), pulls(scores).sum(axis=0)

    def hessian(point: Vector) -> Matrix:
        found = np.tensordot(shares[:, None, None] * slopes, bent(slopes @ point), axes=((0, 1), (0, 1)))
        return found + HESSIAN_JITTER * max(float(np.trace(found)) / len(found), 1e-300) * np.eye(len(found))

    constant = family.best_constant(target, weights)
    start = np.append(np.ones(count), constant[:n_free] - (constant[-1] if family.couples_outputs else 0.0))
    found = minimize(
        cost,
        start,
        jac=True,
        hess=hessian,
        method="trust-exact",
        tol=STEEPEST_END,
        options={"maxiter": SPLIT_TEST_STEPS},
    )
    fitted = np.asarray(found.x, dtype=np.float64)
    scores, inverse = slopes @ fitted, np.asarray(np.linalg.inv(hessian(fitted)), dtype=np.float64)
    leverage = shares * np.einsum("ikj,ikj->i", bent(scores), slopes @ inverse) / n_free
    enlarged = pulls(scores) / (1.0 - np.clip(leverage, 0.0, LARGEST_LEVERAGE))[:, None]
    covariance = inverse @ (enlarged.T @ enlarged) @ inverse
    errors = np.sqrt(np.maximum(np.diag(covariance)[:count], np.finfo(float).tiny))
    return np.asarray(student.sf(fitted[:count] / errors, max(rows - count - outputs, 1)), dtype=np.float64)
