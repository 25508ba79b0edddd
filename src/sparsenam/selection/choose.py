"""Which columns matter, and at which alpha: the convex problem proposes, held-out rows decide.

Points of the path are judged one after the other, until a rule has enough. Shrinkage misleads the losses of the
penalised fits, and fits without any penalty overfit in the folds. So a support is judged by smooth fits on what it
keeps, fold by fold (`SmoothJudge`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

import numpy as np

from sparsenam.codec import Bounds, MaybeNaN, Share, Size
from sparsenam.context import Context
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
# make constants: MOST_CELLS halved +1.6 %, doubled -0 % loss
MOST_CELLS = 15_000  # rows times groups up to which finalists are fitted in the folds
MOST_WIDE = 1000  # groups up to which they are where groups outnumber rows
# make constants: BETWEEN halved +0.05 %, doubled +0.05 % loss
BETWEEN = 4  # finalists between the support that the path proposes and all groups, where all are better
# share of loss and gain that a dropped column may cost, and rows below which that is noise (growth_of_countries +25 %)
# make constants: ENOUGH_ROWS halved -6.8 %, doubled +0 % bands
NEEDLESS, ENOUGH_ROWS = 0.003, 1000
# make constants: EXPRESSED halved -6.2 %, doubled +0.54 % bands
MOST_DROPPED, EXPRESSED = 20, 2.0  # groups of a support that are tried without, and the least variance inflation


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
    lines
        Whether straight lines predicted better than curves, so that the model has lines.
    """

    gain: MaybeNaN
    gain_error: Annotated[float, Bounds(0.0, nan=True)]
    behind_all: float | None
    behind_all_error: Size | None
    kept_in: dict[str, Share]
    best_gain: MaybeNaN
    lines: bool = False

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
        notes, behind = self.doubts(), f"{100 * (self.behind_all or 0.0):.1f}"
        if self.lines:
            advice = "shapes={column: 'smooth'} asks for a curve."
            notes.append(
                f"Straight lines predict held-out rows better than curves, so each numeric column has a line; {advice}"
            )
        if self.all_is_better and behind != "0.0":
            advice = "rule='best' or alpha=0 may keep more."
            notes.append(f"All columns together predict better: {behind} % of the empty model's loss; {advice}")
        return notes


@dataclass(frozen=True, slots=True, eq=False)
class ValidatedPath:
    """The points walked, the empty one first, their curve, and the groups and the alpha that were chosen.

    The groups are those of the point at ``place``, unless groups were dropped from them or all groups were taken, with
    an alpha of 0. ``optimism`` is the held-out loss of folds that choose anew over that of folds that keep what all
    rows chose, at least 1. ``lines`` says that straight lines were chosen.
    """

    task: ConvexTask
    points: tuple[ConvexPoint, ...]
    curve: CVCurve
    place: int
    kept: Indices
    alpha: float
    evidence: Evidence
    in_time: bool = True
    optimism: float = 1.0
    lines: bool = False

    @property
    def point(self) -> ConvexPoint:
        """The point at ``place``."""
        return self.points[self.place]

    @property
    def taken(self) -> int | None:
        """The index of the point that keeps the chosen groups; None where none does."""
        return self.place if np.array_equal(self.kept, self.point.supports[0]) else None


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The convex solution at the chosen alpha, and ``support``, the kept terms as indices among the prepared ones.

    ``validated`` is there when alpha was chosen by cross-validation, ``certificate`` unless one was refused, with a
    warning. ``start`` are scores (rows,) from which a fit of the support may start. ``lines`` says that the terms are
    to be straight.
    """

    task: ConvexTask
    alpha: float
    point: ConvexPoint
    certificate: Certificate | None
    support: Indices
    validated: ValidatedPath | None = None
    start: Vector | None = None
    lines: bool = False

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

    def __init__(self, task: ConvexTask, splits: Splits, loss: HeldOutLoss) -> None:
        target, family, batches = task.prepared.target, task.family, batch_weights(task.prepared.weights, splits)
        totals = batches.sum(axis=1)
        self.loss = loss
        self.problem = convex_problem(task.design, target, family, batches, np.sqrt(totals[0] / totals))
        self._gram = GramCache(task.design, target, batches) if family.is_quadratic else None
        held_out, counts = [test for _, test in splits], loss.count * totals / totals[0]
        self._fits = SmoothJudge(self.problem, counts, held_out, self._gram, task.features.ramps())

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
        size = float(np.mean([support.size for support in point.supports]))  # that the batches keep on average
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


def choose_by_cross_validation(
    task: ConvexTask, plan: CrossValidation, refits: Refits, context: Context, tol: float
) -> Choice:
    """Return the certified solution at the alpha that cross-validation chooses."""
    validated = cross_validate(task, plan, lambda given: FamilyLoss.of(given, plan.splits), refits, context)
    task, alpha, certificate = validated.task, validated.alpha, None
    point = replace(validated.point, alpha=alpha)
    # where all columns are kept nothing is left to prove; and without time what the walk has found must do
    if alpha > 0.0 and (validated.in_time or not context.clock.passed()):
        point, certificate = task.solve(alpha, tol)
    return Choice(task, alpha, point, certificate, task.terms(validated.kept), validated, lines=validated.lines)


def cross_validate(
    task: ConvexTask,
    plan: CrossValidation,
    loss_for: Callable[[ConvexTask], HeldOutLoss],
    refits: Refits | None,
    context: Context,
) -> ValidatedPath:
    """Walk down the path and compare the fits of a few supports; points are solved to the path's tolerance only."""
    return with_first_fit(task, lambda penalised: _walk(penalised, plan, loss_for(penalised), refits, context))


Chosen = TypeVar("Chosen", Choice, ValidatedPath)
Refit = Callable[[Vector, Indices], Vector]  # weights (rows,) and terms to the scores (rows, outputs) of their fit
Refits = tuple[Refit, Refit | None]  # by curves, and by straight lines where these can be compared


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


def _walk(
    task: ConvexTask, plan: CrossValidation, loss: HeldOutLoss, refits: Refits | None, context: Context
) -> ValidatedPath:
    """Walk with all folds at once until the held-out loss has clearly turned, and compare the fits of a few supports.

    The walk is given at least as long as what came before it, and goes on until it keeps a group: on a large table the
    first point may take longer than a short budget, and those after it hardly any time.
    """
    judge = HeldOutJudge(task, plan.splits, loss)
    # a weight that the user gives is to keep a group out, which a longer path would only bring in again
    n_alphas, ratio = long_path(task.design, task.penalty, plan.n_alphas) if task.adapted else (plan.n_alphas, None)
    walk = Walk(task, judge, with_empty(judge.path(task.penalty, n_alphas, ratio), task.free_groups))
    out_of_time = context.clock.laps(plan.share, doubled=True)
    context.progress.report("choose", 0, n_alphas + 1)

    def goes_on() -> bool:
        context.progress.report("choose", len(walk.points), n_alphas + 1)  # and the empty model
        if context.resume is not None:
            context.resume.reached = walk.turning.alpha
        return not (out_of_time() and walk.points[-1].supports[0].size)

    in_time = walk.until_turned(goes_on)
    # a walk that was cut short has not seen the best: what it found last is the nearest to it
    place = walk.curve.choose(plan.rule if in_time else Best(), plan.max_features)
    if plan.least_shrinkage:
        kept = walk.points[place].supports[0]
        place = max(index for index, point in enumerate(walk.points) if np.array_equal(point.supports[0], kept))
    finals = Finals(walk, plan, refits)
    chosen = finals.add_point(place)
    if in_time and not plan.least_shrinkage:
        chosen = finals.chosen_after(chosen, goes_on)
    optimism = optimism_of(judge, walk.points[chosen.place].supports[0], walk.losses[chosen.place])
    found = chosen.supports[0], chosen.alpha, finals.evidence(chosen), in_time, optimism, chosen.lines
    return ValidatedPath(task, tuple(walk.points), walk.curve, chosen.place, *found)


class Walk:
    """The points of a path so far and their held-out losses (rows,) by the judge."""

    def __init__(self, task: ConvexTask, judge: HeldOutJudge, path: Iterator[ConvexPoint]) -> None:
        self.task, self.judge, self.turning, self._path = task, judge, Turning(judge.loss.weights), path
        self.points, self.losses = list[ConvexPoint](), list[Vector]()

    def until_turned(self, goes_on: Callable[[], bool], *, to_end: bool = False) -> bool:
        """Walk until the losses have turned, or ``to_end`` of the path, while ``goes_on``; return whether it did."""
        for point in self._path:
            self.points.append(point)
            self.losses.append(self.judge.losses(point.supports))
            has_turned = self.turning.has_passed(point, self.losses[-1])
            if not goes_on() and not has_turned:
                return False
            if has_turned and not to_end:
                return True
        return True

    @property
    def curve(self) -> CVCurve:
        """The curve of the points."""
        alphas = np.array([point.alpha for point in self.points])
        supports = tuple(self.task.columns(point.supports[0]) for point in self.points)
        kept = [[support.tobytes() for support in point.supports] for point in self.points]
        same_as = np.array([kept.index(each) for each in kept], dtype=np.intp)
        weights, n_columns = self.judge.loss.weights, len(self.task.column_names)
        return CVCurve(alphas, supports, np.array(self.losses), weights, same_as, n_columns)


@dataclass(frozen=True, slots=True, eq=False)
class Finalist:
    """A support in all rows and in each fold, the point of the path it comes from, and its held-out losses (rows,).

    ``lines`` says that its terms are straight.
    """

    place: int
    supports: tuple[Indices, ...]
    alpha: float
    losses: Vector
    lines: bool = False


class Finals:
    """The comparison of a few supports by the very fits that would follow, made anew in the folds.

    Where these fits would take long, the judge of the path stands for them. ``all`` is the fit of all groups.
    """

    def __init__(self, walk: Walk, plan: CrossValidation, refits: Refits | None) -> None:
        self.walk, self.plan = walk, plan
        self.task, self.judge, design = walk.task, walk.judge, walk.task.design
        rows, groups = design.n_rows, design.n_groups
        is_small = rows * groups <= MOST_CELLS or rows < groups <= MOST_WIDE
        self._refits = refits if is_small and not plan.least_shrinkage else None
        self._takes_all = (self._refits is not None or groups * design.width <= rows) and not self.task.adapted
        self._scores = dict[tuple[int, bytes, bool], Vector]()
        self.found, self.all = list[Finalist](), None
        self.empty = self.add_point(0)

    def add_point(self, place: int) -> Finalist:
        """Return a point of the path as a finalist."""
        point = self.walk.points[place]
        return self.add(place, point.supports, point.alpha, self.walk.losses[place])

    def add(
        self,
        place: int,
        supports: tuple[Indices, ...],
        alpha: float,
        judged: Vector | None = None,
        *,
        lines: bool = False,
    ) -> Finalist:
        """Return a support as a finalist; ``judged`` are its losses by the judge, if they are known."""
        if self._refits is not None and any(each.size for each in supports):
            scores = [self._fitted(fold, groups, lines) for fold, groups in enumerate(supports[1:])]
            losses = self.judge.loss.mean(scores, [test for _, test in self.plan.splits])
        else:
            losses = self.judge.losses(supports) if judged is None else judged
        self.found.append(Finalist(place, supports, alpha, losses, lines))
        return self.found[-1]

    def _fitted(self, fold: int, groups: Indices, lines: bool) -> Vector:
        """Return the scores of a fold's test rows under the fit of its training rows."""
        assert self._refits is not None
        key, (train, test), refit = (fold, groups.tobytes(), lines), self.plan.splits[fold], self._refits[lines]
        if key not in self._scores:
            assert refit is not None
            weights = np.zeros(self.task.design.n_rows)
            weights[train] = self.task.prepared.weights[train]
            self._scores[key] = refit(weights, self.task.terms(groups))[test]
        return self._scores[key]

    def best(self, among: Sequence[Finalist] | None = None) -> Finalist:
        """Return the finalist that the rule takes, among some or all."""
        found = sorted(self.found if among is None else among, key=lambda each: each.supports[0].size)
        places, losses = np.arange(len(found)), np.array([each.losses for each in found])
        supports = tuple(self.task.columns(each.supports[0]) for each in found)
        n_columns, weights = len(self.task.column_names), self.judge.loss.weights
        curve = CVCurve(-places.astype(np.float64), supports, losses, weights, places, n_columns)
        return found[curve.choose(self.plan.rule, self.plan.max_features)]

    def chosen_after(self, proposed: Finalist, goes_on: Callable[[], bool]) -> Finalist:
        """Return what is taken where the path proposes a support: it, another one, or all groups, or fewer.

        While all groups are better than the rule allows, the walk goes on.
        """
        walk, design = self.walk, self.task.design
        best = walk.curve.choose("best")
        if best != proposed.place:
            self.add_point(best)
        if self._takes_all:
            self._add_all(proposed)
        chosen = self.best()
        if chosen is self.all and chosen.supports[0].size > proposed.supports[0].size:
            walk.until_turned(goes_on, to_end=True)
            later = np.unique(walk.curve.same_as)
            later = later[later > max(proposed.place, best)]
            for place in np.unique(np.rint(np.linspace(0, later.size - 1, min(BETWEEN, later.size))).astype(np.intp)):
                self.add_point(int(later[place]))
            chosen = self.best()
        return self._straightened(self._without_needless(chosen) if design.n_rows >= ENOUGH_ROWS else chosen)

    def _add_all(self, proposed: Finalist) -> None:
        """Add all groups; of a wide table, which is given to be selected from, where they are better for certain."""
        design = self.task.design
        every = (np.arange(design.n_groups),) * self.judge.problem.n_batches
        self.all = self.add(len(self.walk.points) - 1, every, 0.0)
        better, error = self._mean(proposed.losses - self.all.losses)
        if design.n_rows < design.n_groups and better <= CLEAR * error:
            self.found.remove(self.all)

    def _straightened(self, chosen: Finalist) -> Finalist:
        """Return straight lines where they predict better by a standard error: curves may follow single rows."""
        if self._refits is None or self._refits[1] is None:
            return chosen
        lines = [
            self.add(each.place, each.supports, each.alpha, lines=True)
            for each in dict.fromkeys((chosen, self.all))
            if each in self.found and each is not self.empty
        ]
        straight, null = self.best([self.empty, *lines]), self._mean(self.empty.losses)[0]
        better, error = self._mean(chosen.losses - straight.losses)
        return straight if better > max(error, TIE * abs(null)) else chosen

    def _without_needless(self, chosen: Finalist) -> Finalist:
        """Drop groups that others express, one by one, while held-out rows cannot tell the fit from what was chosen.

        Where the path finds a sum of true columns before these, it keeps the sum for good (Zhao and Yu, 2006).
        """
        last, loss = chosen, self._mean(chosen.losses)[0]
        most = NEEDLESS * min(loss, self._mean(self.empty.losses - chosen.losses)[0])
        while True:
            droppable = np.setdiff1d(self._expressed(last.supports[0]), self.task.free_groups).tolist()
            if not droppable:
                return last
            fewer = [tuple(each[each != group] for each in last.supports) for group in droppable]
            means = [self._mean(self.judge.losses(each))[0] for each in fewer]
            tried = self.add(last.place, fewer[int(np.argmin(means))], last.alpha)
            above, error = self._mean(tried.losses - chosen.losses)
            if above > min(error, most):
                return last
            last = tried

    def _expressed(self, groups: Indices) -> Indices:
        """Return the groups of which the others express at least half of the first, nearly linear function."""
        width, rows = self.task.design.width, self.task.prepared.weights > 0.0
        if not 2 <= groups.size <= MOST_DROPPED:
            return groups[:0]
        first = self.task.design.columns(groups)[::width, rows].astype(np.float64)
        inflation = np.diag(np.linalg.pinv(np.corrcoef(first), rcond=1e-8, hermitian=True))
        return groups[inflation >= EXPRESSED]

    def _mean(self, losses: Vector) -> tuple[float, float]:
        return self.judge.mean_and_error(losses)

    def evidence(self, chosen: Finalist) -> Evidence:
        """Return what the held-out rows know of a finalist."""
        task, null, means = self.task, self._mean(self.empty.losses)[0], [self._mean(e.losses)[0] for e in self.found]
        # a mean that is 0 but for rounding, which losses below 0 can have, is no unit
        unit = max(abs(null), MEAN_LOSS_ROUNDING * max(map(abs, means)), np.finfo(float).tiny)
        gain, gain_error = self._mean(self.empty.losses - chosen.losses)
        behind, behind_error = None, None
        counted = task.prepared.target[task.prepared.weights > 0.0]
        if np.all(counted == counted[:1]):
            behind, behind_error = 0.0, 0.0  # a constant is all there is to predict; a loss beyond it is rounding
        elif self.all is not None:
            behind, behind_error = (each / unit for each in self._mean(chosen.losses - self.all.losses))
        kept, *folds = (task.columns(support) for support in chosen.supports)
        kept_in = {task.column_names[int(each)]: float(np.mean([each in fold for fold in folds])) for each in kept}
        best_gain = (null - min(means)) / unit
        return Evidence(gain / unit, gain_error / unit, behind, behind_error, kept_in, best_gain, chosen.lines)


def optimism_of(judge: HeldOutJudge, kept: Indices, losses: Vector) -> float:
    """Return how many times larger the held-out loss is where each fold chooses its groups anew, at least 1."""
    if not kept.size:
        return 1.0
    fixed, anew = (judge.mean_and_error(each)[0] for each in (judge.losses_of(kept), losses))
    return max(anew / fixed, 1.0) if fixed > 0.0 else 1.0
