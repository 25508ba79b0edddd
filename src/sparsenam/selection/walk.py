"""The walk down a path of supports: points are judged by held-out rows one after the other, until a rule has enough.

Shrinkage misleads the losses of the penalised fits, and fits without any penalty overfit in the folds. So a support is
judged by smooth fits on what it keeps, fold by fold (`SmoothJudge`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.design import GroupedDesign
from sparsenam.convex.path import convex_path
from sparsenam.convex.problem import ConvexPoint, convex_problem
from sparsenam.convex.squared import GramCache
from sparsenam.families import Family
from sparsenam.penalties import Penalty
from sparsenam.selection.curve import (
    CLEAR,
    TIE,
    CVCurve,
    Indices,
    Splits,
    Vector,
    batch_weights,
    held_out_counts,
    mean_and_error,
)
from sparsenam.selection.task import ConvexTask
from sparsenam.smooth.judge import PriorForms, SmoothJudge

# chosen without a measurement
PATH_TOL = 1e-3  # choosing a support needs no more; the chosen alpha is solved again to the user's tolerance
# chosen without a measurement
FARTHER, MORE = 1.5, 6.0  # times and plus so many groups as the best point's folds keep: how far the walk looks
WORSE = 3  # points in a row that are clearly worse than the best before it stops; chosen without a measurement


class HeldOutLoss(Protocol):
    """How held-out rows judge fits."""

    @property
    def weights(self) -> Vector:
        """What each row's loss counts for, shape (rows,); 0 for rows that no fold holds out."""
        ...

    @property
    def count(self) -> float:
        """The number of observations in all rows."""
        ...

    def losses(self, fits: SmoothJudge, supports: Sequence[Indices]) -> Vector:
        """Return the loss of each row under the fits that did not see it, shape (rows,).

        ``supports`` are the groups that each batch keeps, the one with all rows first.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FamilyLoss:
    """Each row's mean loss over the folds that hold it out, less that of y itself; NaN where none does.

    ``counts`` (rows,) says how many folds hold a row out, ``count`` how many observations all rows are.
    """

    family: Family
    target: Vector
    row_weights: Vector
    counts: NDArray[np.intp]
    count: float

    @classmethod
    def of(cls, task: ConvexTask, splits: Splits) -> FamilyLoss:
        """Return the loss of a task; a row counts as often as its weight says."""
        weights = task.prepared.weights
        counts = held_out_counts(splits, weights.size)
        return cls(task.family, task.prepared.target, weights, counts, float(weights.sum()))

    @property
    def weights(self) -> Vector:
        """The weights of the rows that some fold holds out."""
        return self.row_weights * (self.counts > 0)

    def losses(self, fits: SmoothJudge, supports: Sequence[Indices]) -> Vector:
        """Return the mean held-out losses, shape (rows,)."""
        return self.mean(fits.scores(supports[1:], range(1, len(supports))), fits.held_out[1:])

    def mean(self, scores: Sequence[Vector], held_out: Sequence[Indices]) -> Vector:
        """Return the mean losses, shape (rows,), for the scores (rows held out, outputs) of each fold."""
        family, target = self.family, self.target
        least = -family.conjugate(target, target)
        total = np.zeros(target.shape[0])
        for found, rows in zip(scores, held_out, strict=True):
            if family.is_quadratic:  # a row far from all others, held out, may not decide by an absurd score
                found = np.clip(found, target.min(axis=0), target.max(axis=0))
            np.add.at(total, rows, family.loss(found, target[rows]) - least[rows])
        return np.divide(total, self.counts, out=np.full(total.size, np.nan), where=self.counts > 0)


class HeldOutJudge:
    """Held-out losses of smooth fits on given groups, and the path whose folds they judge.

    The first batch of ``problem`` has all rows, each other one the training rows of a fold, at √(n/n_fold) times alpha.
    """

    def __init__(
        self,
        design: GroupedDesign,
        target: Vector,
        family: Family,
        weights: Vector,
        splits: Splits,
        loss: HeldOutLoss,
        forms: PriorForms | None = None,
    ) -> None:
        batches = batch_weights(weights, splits)
        totals = batches.sum(axis=1)
        self.loss = loss
        self.problem = convex_problem(design, target, family, batches, np.sqrt(totals[0] / totals))
        self._gram = GramCache(design, target, batches) if family.is_quadratic else None
        held_out = [test for _, test in splits]
        given = (design, target, family, batches)
        self._fits = SmoothJudge(*given, count=loss.count, gram=self._gram, held_out=held_out, forms=forms)

    @classmethod
    def of(cls, task: ConvexTask, splits: Splits, loss: HeldOutLoss) -> HeldOutJudge:
        """Return the judge of a task's groups."""
        prepared = task.prepared
        return cls(task.design, prepared.target, task.family, prepared.weights, splits, loss, prior_forms(task))

    def path(self, penalty: Penalty, n_alphas: int, ratio: float | None = None) -> Iterator[ConvexPoint]:
        """Return the path of all batches under a penalty."""
        return convex_path(self.problem, penalty, n_alphas=n_alphas, ratio=ratio, tol=PATH_TOL, gram=self._gram)

    def losses(self, supports: Sequence[Indices]) -> Vector:
        """Return the loss of each row under the fits that did not see it, shape (rows,), for each batch's groups."""
        return self.loss.losses(self._fits, supports)

    def losses_of(self, groups: Indices) -> Vector:
        """Return the losses, shape (rows,), where every fold keeps the same groups."""
        return self.losses([groups] * self.problem.n_batches)

    def scores(self, groups: Indices) -> Vector:
        """Return the scores of the fit of all rows on some groups, shape (rows, outputs)."""
        return self._fits.scores([groups], [0])[0]

    def mean_and_error(self, losses: Vector) -> tuple[float, float]:
        """Return the mean of losses, or of differences of losses, (rows,) and its standard error."""
        return mean_and_error(losses, self.loss.weights)


def prior_forms(task: ConvexTask) -> PriorForms | None:
    """Return the priors of the smooth fit that follows, in the columns of the design; None where these are no ramps."""
    ramps = [task.features.ramps(group) for group in range(task.design.n_groups)]
    known = [each for each in ramps if each is not None]
    return PriorForms.of_ramps(task.design, known) if known and len(known) == len(ramps) else None


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """The points of a walk and their held-out losses (points, rows)."""

    points: tuple[ConvexPoint, ...]
    losses: Vector

    def curve(
        self,
        weights: Vector,
        n_columns: int,
        columns: Callable[[Indices], Indices] = lambda groups: groups,
        null_loss: float | None = None,
    ) -> CVCurve:
        """Return the curve under weights of the rows (rows,); ``columns`` are those of groups, out of ``n_columns``."""
        alphas = np.array([point.alpha for point in self.points])
        supports = tuple(columns(point.supports[0]) for point in self.points)
        return CVCurve(alphas, supports, self.losses, weights, same_points(self.points), n_columns, null_loss)


def walk(
    path: Iterable[ConvexPoint],
    judge: Callable[[ConvexPoint], Vector],
    is_enough: Callable[[ConvexPoint, Vector], bool],
) -> Walked:
    """Judge the points of a path one after the other, until a rule has seen enough.

    ``judge`` returns the held-out losses of a point, shape (rows,); ``is_enough`` takes both in.
    """
    points, losses = list[ConvexPoint](), list[Vector]()
    for point in path:
        points.append(point)
        losses.append(judge(point))
        if is_enough(point, losses[-1]):
            break
    return Walked(tuple(points), np.array(losses))


def same_points(points: Sequence[ConvexPoint]) -> Indices:
    """Return for each point the first one that keeps the same groups in every batch, shape (points,)."""
    first: dict[tuple[bytes, ...], int] = {}
    keys = [tuple(support.tobytes() for support in point.supports) for point in points]
    for index, key in enumerate(keys):
        first.setdefault(key, index)
    return np.array([first[key] for key in keys], dtype=np.intp)


class Turning:
    """Says when the held-out loss has turned, so that walking further down the path cannot pay.

    ``alpha`` is that of the best point so far, None while no point is better than the first.
    """

    def __init__(self, weights: Vector) -> None:
        self.alpha: float | None = None
        self._weights = weights
        self._best: Vector | None = None
        self._null = self._size = 0.0
        self._worse = 0

    def has_passed(self, point: ConvexPoint, losses: Vector) -> bool:
        """Take a point and its losses (rows,) in; return whether to stop."""
        size = float(np.mean([support.size for support in point.supports]))
        if self._best is None:
            self._best, self._null = losses, abs(mean_and_error(losses, self._weights)[0])
        mean, error = mean_and_error(losses - self._best, self._weights)
        if mean < -TIE * self._null:
            self._best, self._size, self._worse, self.alpha = losses, size, 0, point.alpha
        else:
            self._worse = self._worse + 1 if mean > CLEAR * error + TIE * self._null else 0
        full = all(support.size == point.n_groups for support in point.supports)
        return full or self._worse >= WORSE or size > FARTHER * self._size + MORE


def with_empty(path: Iterator[ConvexPoint], free: Indices) -> Iterator[ConvexPoint]:
    """Put the model of the groups that are never penalised first, by default the empty one.

    At alpha_max only the fit on all rows is that model, its folds need not be.
    """
    first = next(path)
    inside = np.isin(first.active, free)
    yield replace(
        first,
        active=first.active[inside],
        values=first.values[:, inside],
        supports=tuple(np.intersect1d(support, free) for support in first.supports),
        gaps=np.zeros_like(first.gaps),
    )
    yield first
    yield from path
