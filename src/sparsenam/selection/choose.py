"""Which columns matter, and at which alpha: the convex problem chooses, judged by cross-validation.

Shrinkage misleads the curve of the penalised fits, and fits without any penalty overfit in the folds. So every point is
judged by smooth fits on what it keeps, fold by fold (`SmoothJudge`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.convex.path import convex_path, long_path
from sparsenam.convex.problem import Certificate, ConvexPoint
from sparsenam.convex.squared import GramCache
from sparsenam.families import Family
from sparsenam.penalties import GroupLasso, NeedsFirstFit
from sparsenam.selection.curve import (
    CLEAR,
    TIE,
    Best,
    CVCurve,
    Evidence,
    Rule,
    Splits,
    batch_weights,
    held_out_counts,
    mean_and_error,
)
from sparsenam.selection.task import TOLERANCE, ConvexTask, Indices, Vector
from sparsenam.smooth.judge import PriorForms, SmoothJudge

Result = TypeVar("Result")

ROUNDING = 1e-12  # of the largest mean loss
PATH_TOL = 1e-3  # choosing a support needs no more; the chosen alpha is solved again to the user's tolerance
FARTHER, MORE = 1.5, 6.0  # times and plus so many groups as the best point's folds keep: how far the walk looks
WORSE = 3  # points in a row that are clearly worse than the best before it stops
TOUCHING = 0.01  # a group this near to its condition is on it
FEW = 3  # groups that may come back after the choice, and the candidates that are tried
LARGEST = 1000  # columns of all groups up to which the fit on all of them is judged too


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
    def of(cls, task: ConvexTask, counts: NDArray[np.intp]) -> FamilyLoss:
        """Return the loss of a task; a row counts as often as its weight says."""
        weights = task.prepared.weights
        return cls(task.family, task.prepared.target, weights, counts, float(weights.sum()))

    @property
    def weights(self) -> Vector:
        """The weights of the rows that some fold holds out."""
        return self.row_weights * (self.counts > 0)

    def losses(self, fits: SmoothJudge, supports: Sequence[Indices]) -> Vector:
        """Return the mean held-out losses, shape (rows,)."""
        family, target = self.family, self.target
        least = -family.conjugate(target, target)
        total = np.zeros(target.shape[0])
        found = fits.scores(supports[1:], range(1, len(supports)))
        for scores, rows in zip(found, fits.held_out[1:], strict=True):
            np.add.at(total, rows, family.loss(scores, target[rows]) - least[rows])
        return np.divide(total, self.counts, out=np.full(total.size, np.nan), where=self.counts > 0)


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """How alpha is chosen.

    ``least_shrinkage`` takes the lowest alpha of the path with the chosen support, for a model that keeps its penalty;
    ``readmits`` lets dropped groups come back; ``share`` is the part of the time budget to use.
    """

    splits: Splits
    rule: Rule
    n_alphas: int = 30
    max_features: int | None = None
    least_shrinkage: bool = False
    readmits: bool = True
    share: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class ValidatedPath:
    """The points walked, the empty one first, their curve, and the index of the point that the rule took.

    ``readmitted`` are groups that the point drops and held-out rows want back; ``optimism`` is the held-out loss of
    folds that choose anew over that of folds that keep what all rows chose, at least 1.
    """

    task: ConvexTask
    points: tuple[ConvexPoint, ...]
    curve: CVCurve
    taken: int
    readmitted: Indices
    evidence: Evidence
    in_time: bool = True
    optimism: float = 1.0

    @property
    def point(self) -> ConvexPoint:
        """The point taken."""
        return self.points[self.taken]

    @property
    def groups(self) -> Indices:
        """The groups of the point and those that came back, ascending."""
        return np.union1d(self.point.supports[0], self.readmitted)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The convex solution at the chosen alpha, and the groups to fit.

    ``groups`` are those of the solution and those that came back. ``validated`` is there when alpha was chosen by
    cross-validation, ``certificate`` unless one was refused, with a warning. ``start`` are scores (rows,) from which a
    fit of the support may start.
    """

    task: ConvexTask
    alpha: float
    point: ConvexPoint
    certificate: Certificate | None
    groups: Indices
    validated: ValidatedPath | None = None
    start: Vector | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the time sufficed for the walk and for the solution at its alpha."""
        return bool(np.isclose(self.point.alpha, self.alpha)) and (self.validated is None or self.validated.in_time)

    @property
    def support(self) -> Indices:
        """The kept terms, as indices among the prepared ones."""
        return self.task.terms(self.groups)

    @property
    def readmitted(self) -> Indices:
        """The columns that came back."""
        return np.setdiff1d(self.task.columns(self.groups), self.task.columns(self.point.supports[0]))


def choose_at(task: ConvexTask, alpha: float, context: Context, tol: float = TOLERANCE) -> Choice:
    """Return the certified solution at a given alpha."""

    def solved(penalised: ConvexTask) -> Choice:
        point, certificate = penalised.solve(alpha, tol, context.clock.passed)
        return Choice(penalised, alpha, point, certificate, point.supports[0])

    return with_first_fit(task, solved, lambda choice: (choice.task, choice.point))


def choose_by_cross_validation(
    task: ConvexTask, plan: CrossValidation, context: Context, tol: float = TOLERANCE
) -> Choice:
    """Return the certified solution at the alpha that cross-validation chooses."""
    counts = held_out_counts(plan.splits, task.prepared.weights.size)
    validated = cross_validate(task, plan, lambda given: FamilyLoss.of(given, counts), context)
    alpha = validated.point.alpha
    if not validated.in_time and context.clock.passed():  # what the walk has found must do
        return Choice(validated.task, alpha, validated.point, None, validated.groups, validated)
    point, certificate = validated.task.solve(alpha, tol)
    return Choice(validated.task, alpha, point, certificate, validated.groups, validated)


def cross_validate(
    task: ConvexTask, plan: CrossValidation, loss_for: Callable[[ConvexTask], HeldOutLoss], context: Context
) -> ValidatedPath:
    """Walk down the path and take the point that the rule chooses; it is solved to the path's tolerance only."""

    def walked(penalised: ConvexTask) -> ValidatedPath:
        return _walk(penalised, plan, loss_for(penalised), context)

    return with_first_fit(task, walked, lambda validated: (validated.task, validated.point))


def with_first_fit(
    task: ConvexTask,
    run: Callable[[ConvexTask], Result],
    solution: Callable[[Result], tuple[ConvexTask, ConvexPoint]],
) -> Result:
    """Return what ``run`` gives; for a penalty with weights from a first fit, run that with Group LASSO before."""
    penalty = task.penalty
    if not isinstance(penalty, NeedsFirstFit):
        return run(task)
    first = run(task.with_penalty(GroupLasso()))
    fitted, point = solution(first)
    if not point.supports[0].size:
        return first
    leading = [members[0] for members in task.prepared.grouping.members]
    norms = fitted.norms(point)[task.prepared.terms[leading]]
    return run(replace(task.with_penalty(penalty.adapted_to(norms)), adapted=True))


def _walk(task: ConvexTask, plan: CrossValidation, loss: HeldOutLoss, context: Context) -> ValidatedPath:
    """Walk with all folds at once until the held-out loss has clearly turned, or the time is up.

    The walk is given at least as long as what came before it, and goes on until it keeps a group: on a large table the
    first point may take longer than a short budget, and those after it hardly any time.
    """
    prepared, family = task.prepared, task.family
    batches = batch_weights(prepared.weights, plan.splits)
    gram = GramCache(task.design, prepared.target, batches) if family.is_quadratic else None
    given = (task.design, prepared.target, family, batches)
    held_out, totals = [test for _, test in plan.splits], batches.sum(axis=1)
    fits = SmoothJudge(*given, count=loss.count, gram=gram, held_out=held_out, forms=prior_forms(task))
    # a weight that the user gives is to keep a group out, which a longer path would only bring in again
    n_alphas, ratio = long_path(task.design, task.penalty, plan.n_alphas) if task.adapted else (plan.n_alphas, None)
    walk = convex_path(
        *given,
        penalty=task.penalty,
        n_alphas=n_alphas,
        ratio=ratio,
        tol=PATH_TOL,
        gram=gram,
        alpha_scales=np.sqrt(totals[0] / totals),
    )
    points, losses = list[ConvexPoint](), list[Vector]()
    turning, in_time = Turning(loss.weights), True
    out_of_time = context.clock.laps(plan.share, least=context.clock.elapsed())
    total = n_alphas + 1  # and the empty model
    context.progress.report("choose", 0, total)
    judging = 0.0  # seconds that the fits of one group took at the last point, which the fits of all groups multiply
    for point in with_empty(walk, task.free_groups):
        started = time.monotonic()
        points.append(point)
        losses.append(loss.losses(fits, point.supports))
        judging = (time.monotonic() - started) / max(1.0, float(np.mean([each.size for each in point.supports]))) ** 2
        context.progress.report("choose", len(points), total)
        has_turned = turning.has_passed(point, losses[-1])
        if context.resume is not None:
            context.resume.reached = turning.alpha
        if has_turned:
            break
        if out_of_time() and point.supports[0].size:
            in_time = False
            break
    curve = _curve(task, points, np.array(losses), loss.weights)
    losses.clear()  # the curve has a copy
    # a walk that was cut short has not seen the best: what it found last is the nearest to it
    taken = curve.choose(plan.rule if in_time else Best(), plan.max_features)
    if plan.least_shrinkage:
        kept = points[taken].supports[0]
        taken = max(index for index, point in enumerate(points) if np.array_equal(point.supports[0], kept))
    judged = JudgedPoint(task, loss, fits, points[taken], curve.losses[taken])
    if in_time and plan.readmits:
        judged = judged.with_readmitted(plan.max_features)
    affordable = in_time and context.clock.remaining() > judging * task.design.n_groups**2
    evidence, optimism = judged.evidence(curve, against_all=affordable), judged.optimism()
    return ValidatedPath(task, tuple(points), curve, taken, judged.readmitted, evidence, in_time, optimism)


def prior_forms(task: ConvexTask) -> PriorForms | None:
    """Return the priors of the smooth fit that follows, in the columns of the design; None where these are no ramps."""
    ramps = [task.features.ramps(group) for group in range(task.design.n_groups)]
    known = [each for each in ramps if each is not None]
    return PriorForms.of_ramps(task.design, known) if known and len(known) == len(ramps) else None


@dataclass(frozen=True, slots=True, eq=False)
class JudgedPoint:
    """A point of the path with the held-out losses (rows,) of its fits, and groups that came back."""

    task: ConvexTask
    loss: HeldOutLoss
    fits: SmoothJudge
    point: ConvexPoint
    losses: Vector
    readmitted: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    @property
    def supports(self) -> list[Indices]:
        """The groups that each batch keeps."""
        return [np.union1d(support, self.readmitted) for support in self.point.supports]

    def with_readmitted(self, max_features: int | None) -> JudgedPoint:
        """Take dropped groups back, the nearest to entering first, that lower the held-out loss for certain.

        Shrinkage may hide a group behind others; at the residuals of the smooth fit it would enter. That alone is no
        reason, as a smooth fit leaves a structure of its own in the residuals: the folds decide. Few are tried.
        """
        judged = self
        slack = self.task.slack_at(self.point.alpha, self.fits.scores(self.supports[:1], [0])[0])
        slack[self.supports[0]] = 0.0
        for group in np.argsort(-slack, kind="stable")[:FEW]:
            wider = replace(judged, readmitted=np.union1d(judged.readmitted, [group]).astype(np.intp))
            if slack[group] <= 1.0 + TOUCHING:
                break
            if max_features is not None and self.task.columns(wider.supports[0]).size > max_features:
                continue
            wider = replace(wider, losses=self.loss.losses(self.fits, wider.supports))
            gain, error = mean_and_error(judged.losses - wider.losses, self.loss.weights)
            if gain > CLEAR * error:
                judged = wider
        return judged

    def optimism(self) -> float:
        """Return how many times larger the held-out loss is where each fold chooses its groups anew, at least 1."""
        kept, weights = self.supports[0], self.loss.weights
        if not kept.size:
            return 1.0
        fixed = mean_and_error(self.loss.losses(self.fits, [kept] * len(self.point.supports)), weights)[0]
        anew = mean_and_error(self.losses, weights)[0]
        return max(anew / fixed, 1.0) if fixed > 0.0 else 1.0

    def evidence(self, curve: CVCurve, *, against_all: bool = True) -> Evidence:
        """Return what the held-out rows know of the point; ``against_all`` compares it with the fit on all groups."""
        task, weights = self.task, self.loss.weights
        # a mean that is 0 but for rounding, which losses below 0 can have, is no unit
        unit = max(abs(float(curve.mean[0])), ROUNDING * float(np.abs(curve.mean).max()), np.finfo(float).tiny)
        gain, gain_error = mean_and_error(curve.losses[0] - self.losses, weights)
        behind, behind_error = None, None
        design = task.design
        counted = task.prepared.target[task.prepared.weights > 0.0]
        if np.all(counted == counted[:1]):
            behind, behind_error = 0.0, 0.0  # a constant is all there is to predict; a loss beyond it is rounding
        elif against_all and design.n_groups * design.width <= LARGEST:
            everything = [np.arange(design.n_groups)] * len(self.point.supports)
            difference = mean_and_error(self.losses - self.loss.losses(self.fits, everything), weights)
            behind, behind_error = difference[0] / unit, difference[1] / unit
        folds = [set[int](task.columns(support).tolist()) for support in self.supports[1:]]
        names = task.column_names
        kept = task.columns(self.supports[0])
        shares = [float(np.mean([int(column) in fold for fold in folds])) for column in kept]
        kept_in = {names[int(column)]: share for column, share in zip(kept, shares, strict=True)}
        best_gain = float(curve.mean[0] - curve.mean.min())
        return Evidence(gain / unit, gain_error / unit, behind, behind_error, kept_in, best_gain / unit)


def _curve(task: ConvexTask, points: list[ConvexPoint], losses: Vector, weights: Vector) -> CVCurve:
    return CVCurve(
        alphas=np.array([point.alpha for point in points]),
        supports=tuple(task.columns(point.supports[0]) for point in points),
        losses=losses,
        weights=weights,
        same_as=same_points(points),
        n_columns=len(task.column_names),
    )


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


def with_empty(walk: Iterator[ConvexPoint], free: Indices) -> Iterator[ConvexPoint]:
    """Put the model of the groups that are never penalised first, by default the empty one.

    At alpha_max only the fit on all rows is that model, its folds need not be.
    """
    first = next(walk)
    inside = np.isin(first.active, free)
    yield replace(
        first,
        active=first.active[inside],
        values=first.values[:, inside],
        supports=tuple(np.intersect1d(support, free) for support in first.supports),
        gaps=np.zeros_like(first.gaps),
    )
    yield first
    yield from walk
