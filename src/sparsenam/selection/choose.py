"""Which columns matter, and at which alpha: the convex problem chooses, judged by cross-validation.

Shrinkage misleads the curve of the penalised fits: on the synthetic classification none of its rules found the true
columns in any of 8 seeds. So every point is judged by the fit without penalty on its support, fold by fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context, StageResult
from sparsenam.convex.path import convex_path
from sparsenam.convex.problem import Certificate, ConvexPoint
from sparsenam.convex.squared import GramCache
from sparsenam.penalties import GroupLasso, NeedsFirstFit
from sparsenam.selection.curve import TIE, Best, CVCurve, Rule, Splits, batch_weights, held_out_counts
from sparsenam.selection.task import TOLERANCE, ConvexTask, Indices, Vector
from sparsenam.smooth.judge import SmoothJudge

Arrays = dict[str, NDArray[Any]]
Result = TypeVar("Result")

PATH_TOL = 1e-3  # choosing a support needs no more; the chosen alpha is solved again to the user's tolerance
STALE = 6  # new supports without a better loss before the walk stops
WORSE = 3  # points in a row that are clearly worse than the best before it stops


class HeldOutLoss(Protocol):
    """How held-out rows judge a support."""

    @property
    def weights(self) -> Vector:
        """What each row's loss counts for, shape (rows,); 0 for rows that no fold holds out."""
        ...

    @property
    def count(self) -> float:
        """The number of observations in all rows."""
        ...

    def losses(self, fits: SmoothJudge, point: ConvexPoint) -> Vector:
        """Return the loss of each row under the fits that did not see it, shape (rows,)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FamilyLoss:
    """Each row's mean loss over the folds that hold it out, less that of y itself; NaN where none does."""

    task: ConvexTask
    counts: NDArray[np.intp]

    @property
    def count(self) -> float:
        """The number of rows, each as often as its weight says."""
        return float(self.task.prepared.weights.sum())

    @property
    def weights(self) -> Vector:
        """The weights of the rows that some fold holds out."""
        return self.task.prepared.weights * (self.counts > 0)

    def losses(self, fits: SmoothJudge, point: ConvexPoint) -> Vector:
        """Return the mean held-out losses, shape (rows,)."""
        family, target = self.task.family, self.task.prepared.target
        least = -family.conjugate(target, target)
        total = np.zeros(target.shape[0])
        for batch, rows in enumerate(fits.held_out[1:], start=1):
            scores = fits.scores(batch, point.supports[batch])
            np.add.at(total, rows, family.loss(scores, target[rows]) - least[rows])
        return np.divide(total, self.counts, out=np.full(total.size, np.nan), where=self.counts > 0)


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """How alpha is chosen.

    The curve judges supports by fits without penalty. ``least_shrinkage`` takes the lowest alpha of the path with
    the chosen support, for a model that keeps its penalty. ``share`` is the part of the time budget to use.
    """

    splits: Splits
    rule: Rule
    n_alphas: int = 30
    max_features: int | None = None
    least_shrinkage: bool = False
    share: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class ValidatedPath:
    """The points walked, the empty one first, their curve, and the index of the point that the rule took."""

    task: ConvexTask
    points: tuple[ConvexPoint, ...]
    curve: CVCurve
    taken: int
    in_time: bool = True

    @property
    def point(self) -> ConvexPoint:
        """The point taken."""
        return self.points[self.taken]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The convex solution at the chosen alpha.

    ``validated`` is there when alpha was chosen by cross-validation, ``certificate`` unless one was refused, with a
    warning. ``start`` are scores (rows,) from which a fit of the support may start.
    """

    task: ConvexTask
    alpha: float
    point: ConvexPoint
    certificate: Certificate | None
    validated: ValidatedPath | None = None
    start: Vector | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the time sufficed for the walk and for the solution at its alpha."""
        return bool(np.isclose(self.point.alpha, self.alpha)) and (self.validated is None or self.validated.in_time)

    @property
    def support(self) -> Indices:
        """The kept terms, as indices among the prepared ones."""
        return self.task.terms(self.point.supports[0])


def choose_at(task: ConvexTask, alpha: float, context: Context, tol: float = TOLERANCE) -> Choice:
    """Return the certified solution at a given alpha."""

    def solved(penalised: ConvexTask) -> Choice:
        return Choice(penalised, alpha, *penalised.solve(alpha, tol, context.clock.passed))

    return with_first_fit(task, solved, lambda choice: (choice.task, choice.point))


def choose_by_cross_validation(
    task: ConvexTask, plan: CrossValidation, context: Context, tol: float = TOLERANCE
) -> Choice:
    """Return the certified solution at the alpha that cross-validation chooses."""
    counts = held_out_counts(plan.splits, task.prepared.weights.size)
    validated = cross_validate(task, plan, lambda given: FamilyLoss(given, counts), context)
    alpha = validated.point.alpha
    return Choice(validated.task, alpha, *validated.task.solve(alpha, tol), validated)


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
    return run(task.with_penalty(penalty.adapted_to(norms)))


def _walk(task: ConvexTask, plan: CrossValidation, loss: HeldOutLoss, context: Context) -> ValidatedPath:
    """Walk with all folds at once until the held-out loss has clearly turned, or the time is up."""
    prepared, family = task.prepared, task.family
    batches = batch_weights(prepared.weights, plan.splits)
    gram = GramCache(task.design, prepared.target, batches) if family.is_quadratic else None
    given = (task.design, prepared.target, family, batches)
    held_out = [test for _, test in plan.splits]
    fits = SmoothJudge(*given, count=loss.count, gram=gram, held_out=held_out)
    totals = batches.sum(axis=1)
    walk = convex_path(
        *given,
        penalty=task.penalty,
        n_alphas=plan.n_alphas,
        tol=PATH_TOL,
        gram=gram,
        alpha_scales=np.sqrt(totals[0] / totals),
    )
    points, losses = list[ConvexPoint](), list[Vector]()
    turning, in_time = Turning(loss.weights), True
    out_of_time = context.clock.laps(plan.share)
    total = plan.n_alphas + 1  # and the empty model
    context.progress.report("choose", 0, total)
    for point in with_empty(walk):
        points.append(point)
        losses.append(loss.losses(fits, point))
        context.progress.report("choose", len(points), total)
        if turning.has_passed(point, losses[-1]):
            break
        if out_of_time():
            in_time = False
            break
    curve = _curve(task, points, np.array(losses), loss.weights)
    # a walk that was cut short has not seen the best: what it found last is the nearest to it
    taken = curve.choose(plan.rule if in_time else Best(), plan.max_features)
    if plan.least_shrinkage:
        kept = points[taken].supports[0]
        taken = max(index for index, point in enumerate(points) if np.array_equal(point.supports[0], kept))
    return ValidatedPath(task, tuple(points), curve, taken, in_time)


def _curve(task: ConvexTask, points: list[ConvexPoint], losses: Vector, weights: Vector) -> CVCurve:
    first: dict[tuple[bytes, ...], int] = {}
    keys = [tuple(support.tobytes() for support in point.supports) for point in points]
    for index, key in enumerate(keys):
        first.setdefault(key, index)
    sizes = [np.mean([task.columns(support).size for support in point.supports[1:]]) for point in points]
    return CVCurve(
        alphas=np.array([point.alpha for point in points]),
        supports=tuple(task.columns(point.supports[0]) for point in points),
        losses=losses,
        weights=weights,
        fold_sizes=np.array(sizes, dtype=np.float64),
        same_as=np.array([first[key] for key in keys], dtype=np.intp),
    )


class Turning:
    """Says when the held-out loss has turned, so that walking further down the path cannot pay."""

    def __init__(self, weights: Vector) -> None:
        self._seen = weights > 0
        self._shares = weights[self._seen] / weights[self._seen].sum()
        self._best: Vector | None = None
        self._null = 0.0
        self._last: tuple[Indices, ...] = ()
        self._stale = self._worse = 0

    def has_passed(self, point: ConvexPoint, losses: Vector) -> bool:
        """Take a point and its losses (rows,) in; return whether to stop."""
        seen = losses[self._seen]
        if self._best is None:
            self._best, self._null = seen, abs(float(self._shares @ seen))
        difference = seen - self._best
        mean = float(self._shares @ difference)
        error = float(np.sqrt(self._shares**2 @ (difference - mean) ** 2))
        changed = not all(np.array_equal(a, b) for a, b in zip(point.supports, self._last, strict=False))
        self._last = point.supports
        if mean < -TIE * self._null:
            self._best, self._stale, self._worse = seen, 0, 0
        else:
            self._stale += changed
            self._worse = self._worse + 1 if mean > 2 * error + TIE * self._null else 0
        full = all(support.size == point.n_groups for support in point.supports)
        return full or self._stale >= STALE or self._worse >= WORSE


def with_empty(walk: Iterator[ConvexPoint]) -> Iterator[ConvexPoint]:
    """Put the empty model first: at alpha_max only the fit on all rows is empty, its folds need not be."""
    first = next(walk)
    none = np.zeros(0, dtype=np.intp)
    yield replace(
        first,
        active=none,
        values=np.zeros((first.values.shape[0], 0, *first.values.shape[2:])),
        supports=tuple(none for _ in first.supports),
        gaps=np.zeros_like(first.gaps),
    )
    yield first
    yield from walk


def pack_choice(choice: Choice) -> StageResult:
    """Return a choice as arrays and plain data, from which `unpack_choice` makes it again to the bit."""
    certificate, validated = choice.certificate, choice.validated
    arrays = _point_arrays(choice.point, "point/")
    facts: dict[str, Any] = {
        "alpha": choice.alpha,
        "certificate": None if certificate is None else certificate.to_dict(),
        "taken": None if validated is None else validated.taken,
        "points": 0 if validated is None else len(validated.points),
    }
    if choice.start is not None:
        arrays["start"] = choice.start
    if isinstance(choice.task.penalty, GroupLasso):  # its weights may come from a first fit
        arrays["penalty_weights"] = np.asarray(choice.task.penalty.weights, dtype=np.float64)
    if validated is not None:
        curve = validated.curve
        for index, point in enumerate(validated.points):
            arrays |= _point_arrays(point, f"points/{index}/")
        arrays |= {
            "curve/losses": curve.losses,
            "curve/weights": curve.weights,
            "curve/fold_sizes": curve.fold_sizes,
            "curve/same_as": curve.same_as,
        }
    return StageResult(arrays, facts)


def unpack_choice(task: ConvexTask, stored: StageResult) -> Choice:
    """Return the stored choice as one for this task."""
    arrays, facts = stored.arrays, stored.facts
    if "penalty_weights" in arrays:
        weights = arrays["penalty_weights"]
        task = task.with_penalty(GroupLasso(weights if weights.ndim else float(weights)))
    validated = None
    if facts["taken"] is not None:
        points = tuple(_point(arrays, f"points/{index}/") for index in range(facts["points"]))
        curve = CVCurve(
            alphas=np.array([point.alpha for point in points]),
            supports=tuple(task.columns(point.supports[0]) for point in points),
            losses=arrays["curve/losses"],
            weights=arrays["curve/weights"],
            fold_sizes=arrays["curve/fold_sizes"],
            same_as=arrays["curve/same_as"],
        )
        validated = ValidatedPath(task, points, curve, int(facts["taken"]))
    certificate = None if facts["certificate"] is None else Certificate.from_dict(facts["certificate"])
    point = _point(arrays, "point/")
    return Choice(task, float(facts["alpha"]), point, certificate, validated, arrays.get("start"))


def _point_arrays(point: ConvexPoint, prefix: str) -> Arrays:
    """Return the fit on all rows, batch 0; the fits of the folds have given their losses and are not needed again."""
    arrays: Arrays = {
        "alpha": np.array([point.alpha]),
        "n_groups": np.array([point.n_groups]),
        "active": point.active,
        "values": point.values[:1],
        "intercepts": point.intercepts[:1],
        "support": point.supports[0],
        "gaps": point.gaps[:1],
        "gradient_norms": point.gradient_norms,
    }
    return {prefix + name: array for name, array in arrays.items()}


def _point(arrays: Arrays, prefix: str) -> ConvexPoint:
    return ConvexPoint(
        alpha=float(arrays[prefix + "alpha"][0]),
        n_groups=int(arrays[prefix + "n_groups"][0]),
        active=arrays[prefix + "active"],
        values=arrays[prefix + "values"],
        intercepts=arrays[prefix + "intercepts"],
        supports=(arrays[prefix + "support"],),
        gaps=arrays[prefix + "gaps"],
        gradient_norms=arrays[prefix + "gradient_norms"],
    )
