"""Which of the pairs that passed the screen are worth having: the group penalty's path, judged by cross-validation.

The loss is the second-order model of the family's about the mains' fit: squared error of the working response. A pair
is a group: a coarse grid of hats, less what the mains explain, in the smoothness coordinates of every group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.convex.design import GroupedDesign, grouped_design
from sparsenam.convex.path import solve_and_certify
from sparsenam.convex.problem import Certificate, ConvexPoint
from sparsenam.families import Gaussian
from sparsenam.penalties import GroupLasso
from sparsenam.selection.curve import Compact, CVCurve, Indices, Rule, Splits, held_out_counts
from sparsenam.selection.task import WIDE
from sparsenam.selection.walk import FamilyLoss, HeldOutJudge, Turning, walk, with_empty
from sparsenam.smooth.grid import GridAxis, hats
from sparsenam.tables.sample import Matrix, Vector

INTERVALS = 5  # along either axis of the grid that stands for a pair while it is chosen
PAIR_FREEDOM = 8.0  # degrees of freedom of a pair, as 3 are those of a column
MOST_PAIR_NODES = 80  # nodes of a pair with wide categories: those with the most rows
WORTH = 0.025  # of the loss, or of an angle: what pairs must be worth, see `FewPairs`
PAIR_POINTS = 50


@dataclass(frozen=True, slots=True, eq=False)
class WorkingResponse:
    """The mains' fit as a squared error: response (rows, outputs) under weights (rows,).

    ``null_loss`` is the mean loss of the empty model in these units, ``count`` the number of observations.
    """

    response: Matrix
    weights: Vector
    null_loss: float
    count: float


@dataclass(frozen=True, slots=True)
class FewPairs:
    """`Compact` for pairs: the fewest that give up next to nothing of what the whole model explains.

    A pair is a picture to be looked at, so that being there for certain is not enough. With L the best held-out loss
    and g what the best model explains, mains included, the margin is ``worth`` · √(L max(L, g)), at least what chance
    may do and at most ``share`` of g. For squared loss, R² = cos²φ between target and fit, φ may grow by worth/2.
    """

    share: float
    worth: float = WORTH

    def choose(self, curve: CVCurve, allowed: NDArray[np.bool_]) -> int:
        """Return the smallest point within the margin."""
        best = curve.lowest(allowed)
        loss = max(float(curve.mean[best]), 0.0)
        assert curve.null_loss is not None
        gain = max(curve.null_loss - loss, 0.0)
        worth = min(self.worth * np.sqrt(loss * max(loss, gain)), self.share * gain)
        return curve.smallest(allowed, np.maximum(worth, curve.luck * curve.noise(best)))


@dataclass(frozen=True, slots=True, eq=False)
class PairTask:
    """The candidates, and what they are chosen by.

    Attributes
    ----------
    x
        Scaled terms, shape (terms, rows), NaN where absent; ``levels`` marks codes of unordered levels.
    candidates
        The two terms of each candidate, shape (pairs, 2); ``names`` are what they are called.
    working
        What the mains leave.
    mains
        Columns (k, rows) of the mains of all terms in question, on which pairs are residualised.
    n_tested
        The number of pairs that the candidates come from.
    """

    x: Matrix
    levels: NDArray[np.bool_]
    candidates: Indices
    names: Sequence[str]
    working: WorkingResponse
    mains: Matrix
    n_tested: int


def choose_pairs(
    task: PairTask, splits: Splits, rule: Rule, most: int | None, context: Context
) -> tuple[Indices, Certificate | None]:
    """Walk down the path of pairs; return the candidates at the point that a rule takes, and the certificate there.

    ``most`` is the largest number of pairs to take: the rule's point where it has so few, else the best point of the
    path that has. Either is a point of the path, never a cut by gain.
    """
    working, family, penalty = task.working, Gaussian(), GroupLasso()
    design = _design(task)
    variance = float(np.average(working.response**2, axis=0, weights=working.weights).mean())
    target = working.response / np.sqrt(variance)
    counts = held_out_counts(splits, len(target))
    loss = FamilyLoss(family, target, working.weights, counts, working.count)
    judge, turning = HeldOutJudge(design, target, family, working.weights, splits, loss), Turning(loss.weights)
    done = 0

    def judged(point: ConvexPoint) -> Vector:
        nonlocal done
        losses, done = judge.losses(point.supports), done + 1
        context.progress.report("pairs", done, PAIR_POINTS + 1)
        return losses

    def is_enough(point: ConvexPoint, losses: Vector) -> bool:
        return turning.has_passed(point, losses) or context.clock.passed()

    free = np.zeros(0, dtype=np.intp)
    walked = walk(with_empty(judge.path(penalty, PAIR_POINTS), free), judged, is_enough)
    curve = walked.curve(loss.weights, task.n_tested, null_loss=working.null_loss / variance)
    taken = curve.choose(FewPairs(rule.share) if isinstance(rule, Compact) else rule)
    if most is not None and curve.n_features[taken] > most:  # of too few pairs, the best: a margin would leave fewer
        taken = curve.choose("best", most)
    point, certificate = walked.points[taken], None
    if taken:  # the proof that the pairs left out are 0 at this alpha, None where rounding forbids one
        certificate = solve_and_certify(judge.problem.first(), penalty, point.alpha, task.names).certificate
    return point.supports[0], certificate


def _design(task: PairTask) -> GroupedDesign:
    """Return the groups of the candidates: hats less their projection on the mains."""
    x, candidates, weights = task.x, task.candidates, task.working.weights
    used = np.unique(candidates)
    axes = {int(term): GridAxis.of(x[term], weights, INTERVALS, bool(task.levels[term])) for term in used}
    centred = task.mains - np.average(task.mains, axis=1, weights=weights)[:, None]
    gram = (centred * weights) @ centred.T
    gram[np.diag_indices(len(gram))] += 1e-8 * max(float(np.trace(gram)) / max(len(gram), 1), 1e-300)
    kept: dict[int, NDArray[np.intp]] = {}

    def columns(index: int) -> Matrix:
        first, second = (int(term) for term in candidates[index])
        grid = hats((axes[first], axes[second]), (x[first], x[second]))
        mass = np.asarray(grid.T @ weights)
        kept[index] = np.sort(np.argsort(-mass, kind="stable")[: min(MOST_PAIR_NODES, np.count_nonzero(mass > 0))])
        dense = cast(Matrix, grid[:, kept[index]].toarray())
        dense -= np.average(dense, axis=0, weights=weights)
        if len(centred):
            dense -= centred.T @ np.asarray(np.linalg.solve(gram, (centred * weights) @ dense), dtype=np.float64)
        return dense

    def roughness(index: int) -> Matrix:
        first, second = (axes[int(term)] for term in candidates[index])
        row, column = np.divmod(kept[index], second.size)  # of all nodes there may be far too many
        along = first.roughness()[np.ix_(row, row)] * (column[:, None] == column)
        return along + second.roughness()[np.ix_(column, column)] * (row[:, None] == row)

    single = len(candidates) * x.shape[1] * (INTERVALS + 2) ** 2 > WIDE
    return grouped_design(
        columns,
        len(candidates),
        weights,
        roughness_of=roughness,
        freedoms=PAIR_FREEDOM,
        dtype=np.float32 if single else np.float64,
    )
