"""Which columns matter, and at which alpha: the convex problem proposes, held-out rows decide."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

import numpy as np

from sparsenam.codec import Bounds, MaybeNaN, Share, Size
from sparsenam.context import Context
from sparsenam.convex.path import TOLERANCE, long_path
from sparsenam.convex.problem import Certificate, ConvexPoint
from sparsenam.penalties import GroupLasso, NeedsFirstFit
from sparsenam.selection.curve import CLEAR, Best, CVCurve, Indices, Rule, Splits, Vector
from sparsenam.selection.task import ConvexTask
from sparsenam.selection.walk import FamilyLoss, HeldOutJudge, HeldOutLoss, Turning, walk, with_empty

Result = TypeVar("Result")

HALF = 0.5  # share of the folds below which a kept column is not their choice; chosen without a measurement
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
        return (
            self.behind_all is not None
            and self.behind_all_error is not None
            and self.behind_all > CLEAR * self.behind_all_error
        )

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
        notes = self.doubts()
        behind = f"{100 * (self.behind_all or 0.0):.1f}"
        if self.all_is_better and behind != "0.0":
            notes.append(
                f"All columns together predict better: {behind} % of the empty model's loss; "
                "rule='best' or alpha=0 may keep more."
            )
        return notes


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

    @property
    def groups(self) -> Indices:
        """The groups that the point keeps, ascending."""
        return self.point.supports[0]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The convex solution at the chosen alpha, and the groups to fit.

    ``validated`` is there when alpha was chosen by cross-validation, ``certificate`` unless one was refused, with a
    warning. ``start`` are scores (rows,) from which a fit of the support may start.
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
    validated = cross_validate(task, plan, lambda given: FamilyLoss.of(given, plan.splits), context)
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
    judge, turning = HeldOutJudge.of(task, plan.splits, loss), Turning(loss.weights)
    # a weight that the user gives is to keep a group out, which a longer path would only bring in again
    n_alphas, ratio = long_path(task.design, task.penalty, plan.n_alphas) if task.adapted else (plan.n_alphas, None)
    out_of_time = context.clock.laps(plan.share, least=context.clock.elapsed())
    in_time, done, seconds_a_pair = True, 0, 0.0  # the fits of k groups take about k² times as long as those of one

    def judged(point: ConvexPoint) -> Vector:
        nonlocal done, seconds_a_pair
        started = time.monotonic()
        losses = judge.losses(point.supports)
        size = max(1.0, float(np.mean([each.size for each in point.supports])))
        done, seconds_a_pair = done + 1, (time.monotonic() - started) / size**2
        context.progress.report("choose", done, n_alphas + 1)  # and the empty model
        return losses

    def is_enough(point: ConvexPoint, losses: Vector) -> bool:
        nonlocal in_time
        has_turned = turning.has_passed(point, losses)
        if context.resume is not None:
            context.resume.reached = turning.alpha
        in_time = has_turned or not (out_of_time() and point.supports[0].size)
        return has_turned or not in_time

    context.progress.report("choose", 0, n_alphas + 1)
    walked = walk(with_empty(judge.path(task.penalty, n_alphas, ratio), task.free_groups), judged, is_enough)
    curve = walked.curve(loss.weights, len(task.column_names), task.columns)
    # a walk that was cut short has not seen the best: what it found last is the nearest to it
    taken = curve.choose(plan.rule if in_time else Best(), plan.max_features)
    if plan.least_shrinkage:
        kept = walked.points[taken].supports[0]
        taken = max(index for index, point in enumerate(walked.points) if np.array_equal(point.supports[0], kept))
    chosen = JudgedPoint(task, judge, walked.points[taken], curve.losses[taken])
    affordable = in_time and context.clock.remaining() > seconds_a_pair * task.design.n_groups**2
    evidence, optimism = chosen.evidence(curve, against_all=affordable), chosen.optimism()
    return ValidatedPath(task, walked.points, curve, taken, evidence, in_time, optimism)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedPoint:
    """A point of the path with the held-out losses (rows,) of its fits."""

    task: ConvexTask
    judge: HeldOutJudge
    point: ConvexPoint
    losses: Vector

    def optimism(self) -> float:
        """Return how many times larger the held-out loss is where each fold chooses its groups anew, at least 1."""
        kept, judge = self.point.supports[0], self.judge
        if not kept.size:
            return 1.0
        fixed, anew = (judge.mean_and_error(losses)[0] for losses in (judge.losses_of(kept), self.losses))
        return max(anew / fixed, 1.0) if fixed > 0.0 else 1.0

    def evidence(self, curve: CVCurve, *, against_all: bool = True) -> Evidence:
        """Return what the held-out rows know of the point; ``against_all`` compares it with the fit on all groups."""
        task, judge = self.task, self.judge
        # a mean that is 0 but for rounding, which losses below 0 can have, is no unit
        unit = max(
            abs(float(curve.mean[0])), MEAN_LOSS_ROUNDING * float(np.abs(curve.mean).max()), np.finfo(float).tiny
        )
        gain, gain_error = judge.mean_and_error(curve.losses[0] - self.losses)
        behind, behind_error = None, None
        design = task.design
        counted = task.prepared.target[task.prepared.weights > 0.0]
        if np.all(counted == counted[:1]):
            behind, behind_error = 0.0, 0.0  # a constant is all there is to predict; a loss beyond it is rounding
        elif against_all and design.n_groups * design.width <= LARGEST_DESIGN:
            difference = judge.mean_and_error(self.losses - judge.losses_of(np.arange(design.n_groups)))
            behind, behind_error = difference[0] / unit, difference[1] / unit
        folds = [set[int](task.columns(support).tolist()) for support in self.point.supports[1:]]
        names = task.column_names
        kept = task.columns(self.point.supports[0])
        shares = [float(np.mean([int(column) in fold for fold in folds])) for column in kept]
        kept_in = {names[int(column)]: share for column, share in zip(kept, shares, strict=True)}
        best_gain = float(curve.mean[0] - curve.mean.min())
        return Evidence(gain / unit, gain_error / unit, behind, behind_error, kept_in, best_gain / unit)
