"""Which columns matter, and at which alpha: the convex problem proposes, held-out rows decide.

Points of the path are judged one after the other, until a rule has enough. Shrinkage misleads the losses of the
penalised fits, and fits without any penalty overfit in the folds. So a support is judged by smooth fits on what it
keeps, fold by fold (`SmoothJudge`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

import numpy as np

from sparsenam.codec import Bounds, MaybeNaN, Share, Size
from sparsenam.context import Context
from sparsenam.convex.design import GroupedDesign, GroupedFeatures
from sparsenam.convex.path import convex_path, long_path
from sparsenam.convex.problem import Certificate, ConvexPoint, convex_problem
from sparsenam.convex.squared import GramCache
from sparsenam.families import Family
from sparsenam.penalties import GroupLasso, NeedsFirstFit, Penalty
from sparsenam.selection.curve import (
    CLEAR,
    TIE,
    Best,
    CVCurve,
    Indices,
    Rule,
    Splits,
    Vector,
    batch_weights,
    held_out_counts,
    mean_and_error,
)
from sparsenam.selection.task import ConvexTask
from sparsenam.smooth.judge import SmoothJudge

PATH_TOL = 1e-3  # choosing a support needs no more; the chosen alpha is solved again to the user's tolerance
# make constants: FARTHER halved +0.47 %, doubled +0 % loss
FARTHER, MORE = 1.5, 6.0  # times and plus so many groups as the best point's folds keep: how far the walk looks
# make constants: WORSE halved +0.17 %, doubled +0 % loss
WORSE = 3  # points in a row that are clearly worse than the best before it stops
HALF = 0.5  # share of the folds below which a kept column is not their choice
MEAN_LOSS_ROUNDING = 1e-12  # of the largest mean loss
LARGEST_DESIGN = 1000  # columns of all groups up to which the fit on all of them is judged too


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """How alpha is chosen.

    ``least_shrinkage`` takes the lowest alpha of the path with the chosen support, for a model that keeps its penalty;
    ``share`` is the part of the time budget to use.
    """

    splits: Splits
    rule: Rule
    n_alphas: int = 30
    max_features: int | None = None
    least_shrinkage: bool = False
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What held-out rows know of a choice; losses are shares of the empty model's.

    Attributes
    ----------
    gain, gain_error
        How far the loss of the chosen model is below that of the empty one, and the standard error.
    behind_all, behind_all_error
        How far it is above that of all columns fitted smoothly, and the standard error; None where that fit was too
        large to be judged.
    kept_in
        For each kept column the share of the folds whose fits keep it too.
    best_gain
        The gain of the point with the lowest loss.
    """

    gain: MaybeNaN
    gain_error: Annotated[float, Bounds(0.0, nan=True)]
    behind_all: float | None
    behind_all_error: Size | None
    kept_in: dict[str, Share]
    best_gain: MaybeNaN

    @property
    def is_clear(self) -> bool:
        """Whether the model is better than none for certain, or no model on the path is better than none."""
        return self.gain > CLEAR * self.gain_error or self.best_gain <= 0.0

    @property
    def agreement(self) -> float:
        """Mean share of the folds that keep a kept column; 1 for the empty model."""
        return float(np.mean(list(self.kept_in.values()))) if self.kept_in else 1.0

    @property
    def all_is_better(self) -> bool:
        """Whether all columns predict better for certain."""
        return self.behind_all is not None and self.behind_all > CLEAR * (self.behind_all_error or 0.0)

    def doubts(self) -> list[str]:
        """Return in sentences why the choice may be chance; none where it is clear and the folds agree."""
        doubts: list[str] = []
        if not self.is_clear and not self.kept_in:
            doubts.append("No column is kept: held-out rows can tell no model from none; more rows would tell.")
        elif not self.is_clear:
            doubts.append(
                f"Held-out rows cannot tell the model from none: it explains {100 * self.gain:.1f} % of the loss, with "
                f"a standard error of {100 * self.gain_error:.1f} %; more rows would tell."
            )
        if self.agreement < HALF:
            doubts.append(
                f"The folds contradict each other: a kept column is kept in {100 * self.agreement:.0f} % of them on "
                "average, so other columns may do as well; more rows would tell."
            )
        return doubts

    def notes(self) -> list[str]:
        """Return in sentences what a user should know before trusting the choice: doubts, and what was given up."""
        behind = f"{100 * (self.behind_all or 0.0):.1f}"
        if not self.all_is_better or behind == "0.0":
            return self.doubts()
        advice = "rule='best' or alpha=0 may keep more."
        return [*self.doubts(), f"All columns together predict better: {behind} % of the empty model's loss; {advice}"]


@dataclass(frozen=True, slots=True, eq=False)
class ValidatedPath:
    """The points walked, the empty one first, their curve, and the index of the point that the rule took.

    ``optimism`` is the held-out loss of folds that choose anew over that of folds that keep what all rows chose, at
    least 1.
    """

    task: ConvexTask
    points: tuple[ConvexPoint, ...]
    curve: CVCurve
    taken: int
    evidence: Evidence
    in_time: bool = True
    optimism: float = 1.0

    @property
    def point(self) -> ConvexPoint:
        """The point taken."""
        return self.points[self.taken]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The convex solution at the chosen alpha, and ``support``, the kept terms as indices among the prepared ones.

    ``validated`` is there when alpha was chosen by cross-validation, ``certificate`` unless one was refused, with a
    warning. ``start`` are scores (rows,) from which a fit of the support may start.
    """

    task: ConvexTask
    alpha: float
    point: ConvexPoint
    certificate: Certificate | None
    support: Indices
    validated: ValidatedPath | None = None
    start: Vector | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the time sufficed for the walk and for the solution at its alpha."""
        return bool(np.isclose(self.point.alpha, self.alpha)) and (self.validated is None or self.validated.in_time)


@dataclass(frozen=True, eq=False)
class HeldOutLoss(ABC):
    """How held-out rows judge fits.

    ``weights`` (rows,) are what each row's loss counts for, 0 for rows that no fold holds out; ``counts`` (rows,) says
    how many folds hold a row out, and ``count`` how many observations all rows are.
    """

    weights: Vector
    counts: Indices
    count: float

    @abstractmethod
    def of_fold(self, fold: int, rows: Indices, scores: Vector) -> Vector:
        """Return the losses (rows,) of the rows that a fold holds out, under scores (rows, outputs)."""

    def mean(self, scores: Sequence[Vector], held_out: Sequence[Indices]) -> Vector:
        """Return each row's mean loss over the folds that hold it out, shape (rows,); NaN where none does."""
        total = np.zeros(self.counts.size)
        for fold, (found, rows) in enumerate(zip(scores, held_out, strict=True)):
            np.add.at(total, rows, self.of_fold(fold, rows, found))
        return np.divide(total, self.counts, out=np.full(total.size, np.nan), where=self.counts > 0)


@dataclass(frozen=True, eq=False)
class FamilyLoss(HeldOutLoss):
    """The loss of a family above that of a perfect prediction; a row counts as often as its weight says."""

    family: Family
    target: Vector

    @classmethod
    def of(cls, task: ConvexTask, splits: Splits) -> FamilyLoss:
        """Return the loss of a task."""
        weights = task.prepared.weights
        counts = held_out_counts(splits, weights.size)
        return cls(weights * (counts > 0), counts, float(weights.sum()), task.family, task.prepared.target)

    def of_fold(self, fold: int, rows: Indices, scores: Vector) -> Vector:
        target = self.target[rows]
        if self.family.is_quadratic:  # a row far from all others, held out, may not decide by an absurd score
            scores = np.clip(scores, self.target.min(axis=0), self.target.max(axis=0))
        return self.family.loss(scores, target) + self.family.conjugate(target, target)


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
        features: GroupedFeatures | None = None,
    ) -> None:
        batches = batch_weights(weights, splits)
        totals = batches.sum(axis=1)
        self.loss = loss
        self.problem = convex_problem(design, target, family, batches, np.sqrt(totals[0] / totals))
        self._gram = GramCache(design, target, batches) if family.is_quadratic else None
        held_out, ramps = [test for _, test in splits], features.ramps() if features else None
        self._fits = SmoothJudge(self.problem, loss.count * totals / totals[0], held_out, self._gram, ramps)

    @classmethod
    def of(cls, task: ConvexTask, splits: Splits, loss: HeldOutLoss) -> HeldOutJudge:
        """Return the judge of a task's groups."""
        prepared = task.prepared
        return cls(task.design, prepared.target, task.family, prepared.weights, splits, loss, task.features)

    def path(
        self, penalty: Penalty, n_alphas: int, ratio: float | None = None, tol: float = PATH_TOL
    ) -> Iterator[ConvexPoint]:
        """Return the path of all batches under a penalty."""
        return convex_path(self.problem, penalty, n_alphas=n_alphas, ratio=ratio, tol=tol, gram=self._gram)

    def losses(self, supports: Sequence[Indices]) -> Vector:
        """Return the loss of each row under the fits that did not see it, shape (rows,), for each batch's groups."""
        return self.loss.mean(self._fits.scores(supports[1:], range(1, len(supports))), self._fits.held_out[1:])

    def losses_of(self, groups: Indices) -> Vector:
        """Return the losses, shape (rows,), where every fold keeps the same groups."""
        return self.losses([groups] * self.problem.n_batches)

    def scores(self, groups: Indices) -> Vector:
        """Return the scores of the fit of all rows on some groups, shape (rows, outputs)."""
        return self._fits.scores([groups], [0])[0]

    def mean_and_error(self, losses: Vector) -> tuple[float, float]:
        """Return the mean of losses, or of differences of losses, (rows,) and its standard error."""
        return mean_and_error(losses, self.loss.weights)


def curve_of(
    points: Sequence[ConvexPoint],
    losses: Sequence[Vector],
    weights: Vector,
    n_columns: int,
    columns: Callable[[Indices], Indices] = lambda groups: groups,
    null_loss: float | None = None,
) -> CVCurve:
    """Return the curve of points with their held-out losses (rows,), under weights of the rows (rows,).

    ``columns`` returns the columns of some groups, out of ``n_columns``.
    """
    alphas = np.array([point.alpha for point in points])
    supports = tuple(columns(point.supports[0]) for point in points)
    kept = [[support.tobytes() for support in point.supports] for point in points]
    same_as = np.array([kept.index(each) for each in kept], dtype=np.intp)
    return CVCurve(alphas, supports, np.array(losses), weights, same_as, n_columns, null_loss)


def mean_size(point: ConvexPoint) -> float:
    """Return how many groups the batches of a point keep on average."""
    return float(np.mean([support.size for support in point.supports]))


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
        size = mean_size(point)
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


def choose_at(task: ConvexTask, alpha: float, context: Context, tol: float) -> Choice:
    """Return the certified solution at a given alpha."""

    def solved(penalised: ConvexTask) -> Choice:
        point, certificate = penalised.solve(alpha, tol, context.clock.passed)
        return Choice(penalised, alpha, point, certificate, penalised.terms(point.supports[0]))

    return with_first_fit(task, solved)


def choose_by_cross_validation(task: ConvexTask, plan: CrossValidation, context: Context, tol: float) -> Choice:
    """Return the certified solution at the alpha that cross-validation chooses."""
    validated = cross_validate(task, plan, lambda given: FamilyLoss.of(given, plan.splits), context)
    task, point, certificate = validated.task, validated.point, None
    alpha, support = point.alpha, task.terms(point.supports[0])
    if validated.in_time or not context.clock.passed():  # else what the walk has found must do
        point, certificate = task.solve(alpha, tol)
    return Choice(task, alpha, point, certificate, support, validated)


def cross_validate(
    task: ConvexTask, plan: CrossValidation, loss_for: Callable[[ConvexTask], HeldOutLoss], context: Context
) -> ValidatedPath:
    """Walk down the path and take the point that the rule chooses; it is solved to the path's tolerance only."""
    return with_first_fit(task, lambda penalised: _walk(penalised, plan, loss_for(penalised), context))


Chosen = TypeVar("Chosen", Choice, ValidatedPath)


def with_first_fit(task: ConvexTask, run: Callable[[ConvexTask], Chosen]) -> Chosen:
    """Return what ``run`` gives; for a penalty with weights from a first fit, run that with Group LASSO before."""
    penalty = task.penalty
    if not isinstance(penalty, NeedsFirstFit):
        return run(task)
    first = run(task.with_penalty(GroupLasso()))
    if not first.point.supports[0].size:
        return first
    leading = [members[0] for members in task.prepared.grouping.members]
    norms = first.task.norms(first.point)[task.prepared.terms[leading]]
    return run(replace(task.with_penalty(penalty.adapted_to(norms)), adapted=True))


def _walk(task: ConvexTask, plan: CrossValidation, loss: HeldOutLoss, context: Context) -> ValidatedPath:
    """Walk with all folds at once until the held-out loss has clearly turned, or the time is up.

    The walk is given at least as long as what came before it, and goes on until it keeps a group: on a large table the
    first point may take longer than a short budget, and those after it hardly any time.
    """
    turning, judge = Turning(loss.weights), HeldOutJudge.of(task, plan.splits, loss)
    # a weight that the user gives is to keep a group out, which a longer path would only bring in again
    n_alphas, ratio = long_path(task.design, task.penalty, plan.n_alphas) if task.adapted else (plan.n_alphas, None)
    out_of_time = context.clock.laps(plan.share, doubled=True)
    points, losses = list[ConvexPoint](), list[Vector]()
    in_time, seconds_a_pair = True, 0.0  # the fits of k groups take about k² times as long as those of one
    context.progress.report("choose", 0, n_alphas + 1)
    for point in with_empty(judge.path(task.penalty, n_alphas, ratio), task.free_groups):
        started = time.monotonic()
        points.append(point)
        losses.append(judge.losses(point.supports))
        seconds_a_pair = (time.monotonic() - started) / max(1.0, mean_size(point)) ** 2
        context.progress.report("choose", len(points), n_alphas + 1)  # and the empty model
        has_turned = turning.has_passed(point, losses[-1])
        if context.resume is not None:
            context.resume.reached = turning.alpha
        in_time = has_turned or not (out_of_time() and point.supports[0].size)
        if has_turned or not in_time:
            break
    curve = curve_of(points, losses, loss.weights, len(task.column_names), task.columns)
    # a walk that was cut short has not seen the best: what it found last is the nearest to it
    taken = curve.choose(plan.rule if in_time else Best(), plan.max_features)
    if plan.least_shrinkage:
        kept = points[taken].supports[0]
        taken = max(index for index, point in enumerate(points) if np.array_equal(point.supports[0], kept))
    affordable = in_time and context.clock.elapsed() + seconds_a_pair * task.design.n_groups**2 < context.clock.seconds
    evidence = evidence_of(task, judge, curve, taken, points[taken], against_all=affordable)
    optimism = optimism_of(judge, points[taken].supports[0], curve.losses[taken])
    return ValidatedPath(task, tuple(points), curve, taken, evidence, in_time, optimism)


def optimism_of(judge: HeldOutJudge, kept: Indices, losses: Vector) -> float:
    """Return how many times larger the held-out loss is where each fold chooses its groups anew, at least 1."""
    if not kept.size:
        return 1.0
    fixed, anew = (judge.mean_and_error(each)[0] for each in (judge.losses_of(kept), losses))
    return max(anew / fixed, 1.0) if fixed > 0.0 else 1.0


def evidence_of(
    task: ConvexTask, judge: HeldOutJudge, curve: CVCurve, taken: int, point: ConvexPoint, *, against_all: bool
) -> Evidence:
    """Return what the held-out rows know of a point; ``against_all`` compares it with the fit on all groups."""
    means, losses, design = curve.mean, curve.losses[taken], task.design
    # a mean that is 0 but for rounding, which losses below 0 can have, is no unit
    unit = max(abs(float(means[0])), MEAN_LOSS_ROUNDING * float(np.abs(means).max()), np.finfo(float).tiny)
    gain, gain_error = judge.mean_and_error(curve.losses[0] - losses)
    behind, behind_error = None, None
    counted = task.prepared.target[task.prepared.weights > 0.0]
    if np.all(counted == counted[:1]):
        behind, behind_error = 0.0, 0.0  # a constant is all there is to predict; a loss beyond it is rounding
    elif against_all and design.n_groups * design.width <= LARGEST_DESIGN:
        difference = judge.mean_and_error(losses - judge.losses_of(np.arange(design.n_groups)))
        behind, behind_error = difference[0] / unit, difference[1] / unit
    kept, *folds = (task.columns(support) for support in point.supports)
    kept_in = {task.column_names[int(each)]: float(np.mean([each in fold for fold in folds])) for each in kept}
    return Evidence(gain / unit, gain_error / unit, behind, behind_error, kept_in, float(means[0] - means.min()) / unit)
