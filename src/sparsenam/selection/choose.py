"""Which columns matter, and at which alpha: the convex problem chooses, judged by cross-validation."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from sparsenam.convex.certificate import Certificate, certify
from sparsenam.convex.descent import GramCache
from sparsenam.convex.design import GroupedDesign, orthonormal_design
from sparsenam.convex.features import GroupedFeatures, RandomFeatures
from sparsenam.convex.path import alpha_max, convex_path
from sparsenam.convex.problem import ConvexPoint, convex_problem
from sparsenam.convex.relaxed import RelaxedFits
from sparsenam.errors import CertificateError, InputError
from sparsenam.families import Family
from sparsenam.model import AdditiveModel
from sparsenam.penalties import GroupLasso, NeedsFirstFit, Penalty, WeightedLasso, priced, restrict
from sparsenam.selection.curve import CVCurve, Rule
from sparsenam.selection.folds import Splits, batch_weights, held_out_counts
from sparsenam.selection.path import PathPoint, RegularizationPath
from sparsenam.tables import PreparedSample

PATH_TOL = 1e-3  # choosing a support needs no more; the chosen alpha is solved again to the user's tolerance
TIRED, LOST = (
    6,
    3,
)  # new supports without a better loss, and points clearly worse than the best, before stopping


@dataclass(frozen=True, slots=True, eq=False)
class ValidatedPath:
    """The points walked, the empty one first, and their cross-validation curve."""

    points: tuple[ConvexPoint, ...]
    curve: CVCurve
    in_time: bool = True


def validate_path(
    design: GroupedDesign,
    target: NDArray[np.float64],
    family: Family,
    weights: NDArray[np.float64],
    splits: Splits,
    penalty: Penalty,
    *,
    n_alphas: int = 30,
    verbose: bool | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
) -> ValidatedPath:
    """Walk down the path with all folds at once until the held-out loss has clearly turned.

    ``target`` is (rows, outputs), ``weights`` (rows,).
    """
    counts = held_out_counts(splits, weights.size)
    batches = batch_weights(weights, splits)
    gram = GramCache(design, target, batches) if family.is_quadratic else None
    fits = RelaxedFits(design, target, family, batches, gram=gram, held_out=[test for _, test in splits])
    walk = convex_path(design, target, family, batches, penalty=penalty, n_alphas=n_alphas, tol=PATH_TOL, gram=gram)
    hidden = None if verbose is None else not verbose
    points: list[ConvexPoint] = []
    losses: list[NDArray[np.float64]] = []
    judge, in_time = Judge(weights * (counts > 0)), True
    for point in tqdm(with_empty(walk), "choose", n_alphas, delay=2.0, disable=hidden, leave=False, unit="alpha"):
        held_out = _losses(family, fits, point, target, counts)
        points.append(point)
        losses.append(held_out)
        if judge.has_seen_enough(point, held_out):
            break
        if out_of_time():
            in_time = False
            break
    curve = CVCurve(
        np.array([point.alpha for point in points]),
        tuple(point.supports[0] for point in points),
        np.array(losses),
        judge.weights,
        np.array([_mean_size(point) for point in points]),
    )
    return ValidatedPath(tuple(points), curve, in_time)


class Judge:
    """Decides when walking further down the path cannot pay."""

    def __init__(self, weights: NDArray[np.float64]) -> None:
        self.weights = weights
        self._best: NDArray[np.float64] | None = None
        self._last: tuple[NDArray[np.intp], ...] = ()
        self._stale = self._lost = 0

    def has_seen_enough(self, point: ConvexPoint, losses: NDArray[np.float64]) -> bool:
        """Take a point in; return whether to stop."""
        seen = self.weights > 0
        share = self.weights[seen] / self.weights[seen].sum()
        worse = np.zeros(share.size) if self._best is None else (losses - self._best)[seen]
        mean = float(share @ worse)
        error = float(np.sqrt(share**2 @ (worse - mean) ** 2))
        changed = not all(np.array_equal(a, b) for a, b in zip(point.supports, self._last, strict=False))
        self._last = point.supports
        if self._best is None or mean < 0:
            self._best, self._stale, self._lost = losses, 0, 0
        else:
            self._stale += changed
            self._lost = self._lost + 1 if mean > 2 * error else 0
        full = all(support.size == point.n_groups for support in point.supports)
        return full or self._stale >= TIRED or self._lost >= LOST


def _mean_size(point: ConvexPoint) -> float:
    sizes = [support.size for support in point.supports[1:]]
    return sum(sizes) / len(sizes)


def with_empty(walk: Iterator[ConvexPoint]) -> Iterator[ConvexPoint]:
    """Put the empty model first: at alpha_max only the fit on all rows is empty, its folds need not be."""
    first = next(walk)
    none = np.zeros(0, dtype=np.intp)
    yield ConvexPoint(
        alpha=first.alpha,
        n_groups=first.n_groups,
        active=none,
        values=np.zeros((first.values.shape[0], 0, *first.values.shape[2:])),
        intercepts=first.intercepts,
        supports=tuple(none for _ in first.supports),
        gaps=np.zeros_like(first.gaps),
        gradient_norms=first.gradient_norms,
    )
    yield first
    yield from walk


def _losses(
    family: Family,
    fits: RelaxedFits,
    point: ConvexPoint,
    target: NDArray[np.float64],
    counts: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Return each row's mean loss over the folds that test on it, less that of y itself; NaN where none does."""
    least = -family.conjugate(target, target)
    total = np.zeros(target.shape[0])
    for batch, rows in enumerate(fits.held_out[1:], start=1):
        scores = fits.scores(batch, point.supports[batch], point)
        np.add.at(total, rows, family.loss(scores, target[rows]) - least[rows])
    return np.divide(total, counts, out=np.full(total.size, np.nan), where=counts > 0)


WIDE = 10_000_000  # numbers above which the design is kept in single precision
STEPS_DOWN = 12  # warm starts on the way from alpha_max to an alpha that the user gives
Norm = Literal["function", "parameters"]


@dataclass(frozen=True, slots=True, eq=False)
class ConvexTask:
    """A prepared sample in random features: the convex problem of the paper's section 3.3.

    Its blocks are the groups of ``prepared.grouping``, by default one a feature.
    """

    prepared: PreparedSample
    family: Family
    features: GroupedFeatures
    design: GroupedDesign
    penalty: Penalty

    @classmethod
    def of(
        cls,
        prepared: PreparedSample,
        family: Family,
        features: RandomFeatures,
        penalty: Penalty,
        norm: Norm = "function",
    ) -> ConvexTask:
        """Build the design; the penalty is the one on all input features."""
        grouping = prepared.grouping
        grouped = GroupedFeatures.of(features, grouping)
        n_groups = len(grouping.members)
        width = grouped.columns(0).shape[1] if n_groups else 1
        single = n_groups * prepared.weights.size * width > WIDE
        design = orthonormal_design(
            grouped.columns,
            n_groups,
            prepared.weights,
            norm=norm,
            is_ordered=grouped.is_ordered,
            dtype=np.float32 if single else np.float64,
        )
        leading = np.array([own[0] for own in grouping.members], dtype=np.intp)
        own = restrict(penalty, prepared.features[leading], prepared.n_features_in)
        return cls(prepared, family, grouped, design, priced(own, grouping.prices))

    def terms(self, groups: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the places of the features in some groups."""
        return self.prepared.grouping.terms_of(groups)

    def model(self, point: ConvexPoint) -> AdditiveModel:
        """Return the penalised fit of a path point as a model."""
        groups = point.supports[0]
        coefficients = self.design.original(point.theta[0])[groups]
        bank, theta, base = self.features.network(groups, coefficients)
        kept, unit = self.prepared.take(self.terms(groups)), self.prepared.target_scaling.scale
        means = self.features.split(groups, self.design.means[groups][:, :, None])[:, :, 0]
        by_term = self.features.split(groups, coefficients)
        return AdditiveModel(
            family=self.family,
            bank=bank,
            theta=theta,
            features=kept.features,
            n_features_in=kept.n_features_in,
            scaling=kept.scaling,
            offsets=np.einsum("jm,jmk->jk", means, by_term) - base,
            intercept=self.prepared.target_scaling.center
            + unit * point.intercepts[0]
            + np.log(self.prepared.exposure_unit),
            target_scale=unit,
            absent=np.zeros_like(base),
        )

    def norms(self, point: ConvexPoint) -> NDArray[np.float64]:
        """Return the penalised norm of every input feature, its group's, shape (features_in,)."""
        lengths = np.zeros(len(self.prepared.grouping.members))
        lengths[point.active] = np.sqrt((point.values[0] ** 2).sum(axis=(1, 2)))
        norms = np.zeros(self.prepared.n_features_in)
        norms[self.prepared.features] = self.prepared.grouping.spread(lengths)
        return norms

    def path(self, points: tuple[ConvexPoint, ...], names: tuple[str, ...]) -> RegularizationPath:
        """Return the points as a path of models; ``names`` are those of all input features."""
        return RegularizationPath(
            tuple(
                PathPoint(
                    point.alpha,
                    self.prepared.features[self.terms(point.supports[0])],
                    self.norms(point),
                    self.model(point),
                    float(point.gaps[0]),
                )
                for point in points
            ),
            names,
        )


@dataclass(frozen=True, slots=True, eq=False)
class FeatureChoice:
    """The convex solution at the chosen alpha.

    ``support`` are places among the prepared sample's features; the curve and the points speak of its groups.
    ``curve`` and ``points`` are there when alpha was
    chosen by cross-validation. ``certificate`` is None for a solution that was refused one, with a warning.
    """

    task: ConvexTask
    alpha: float
    point: ConvexPoint
    certificate: Certificate | None
    curve: CVCurve | None = None
    points: tuple[ConvexPoint, ...] = ()

    @property
    def support(self) -> NDArray[np.intp]:
        """The kept features."""
        return self.task.terms(self.point.supports[0])

    def slack_at(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each feature's ‖gradientⱼ‖ over the one at which it enters, for other scores (rows, outputs).

        A feature left out of any fit is re-examined by this condition: above 1 it would enter. The gradient of a
        group is that of its features.
        """
        task = self.task
        problem = convex_problem(task.design, task.prepared.target, task.family, task.prepared.weights[None])
        norms = problem.gradient_norms(problem.residuals(scores.T[None]))[0]
        if not isinstance(task.penalty, WeightedLasso):  # sorted weights bind features together, none alone
            return np.zeros(task.prepared.features.size)
        bars, _ = task.penalty.lasso_and_ridge(norms.size, self.alpha)
        slack = np.divide(norms, bars, out=np.zeros_like(norms), where=np.isfinite(bars) & (bars > 0))
        return task.prepared.grouping.spread(slack)


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """How alpha is chosen.

    The curve judges supports by fits without penalty. ``least_shrinkage`` takes the lowest alpha of the path with
    the chosen support, for a model that keeps its penalty.
    """

    splits: Splits
    rule: Rule = "compact"
    n_alphas: int = 30
    verbose: bool | None = None
    out_of_time: Callable[[], bool] = lambda: False
    least_shrinkage: bool = False


def choose_features(task: ConvexTask, alpha: float | CrossValidation, tol: float = 1e-4) -> FeatureChoice:
    """Solve at an alpha, or at the one that cross-validation chooses."""
    penalty = task.penalty
    if not isinstance(penalty, NeedsFirstFit):
        return _choose(task, alpha, tol)
    first = _choose(_with(task, GroupLasso()), alpha, tol)
    if not first.support.size:
        return first
    leading = [own[0] for own in task.prepared.grouping.members]
    norms = first.task.norms(first.point)[task.prepared.features[leading]]
    return _choose(_with(task, penalty.adapted_to(norms)), alpha, tol)


def walk_path(task: ConvexTask, alphas: NDArray[np.float64] | None, n_alphas: int, tol: float) -> list[ConvexPoint]:
    """Return the points of a path, by default from alpha_max down."""
    weights = task.prepared.weights[None]
    return list(
        convex_path(
            task.design,
            task.prepared.target,
            task.family,
            weights,
            penalty=task.penalty,
            alphas=alphas,
            n_alphas=n_alphas,
            tol=tol,
        )
    )


def _choose(task: ConvexTask, alpha: float | CrossValidation, tol: float) -> FeatureChoice:
    if not isinstance(alpha, CrossValidation):
        return _solve(task, alpha, tol)
    prepared = task.prepared
    walked = validate_path(
        task.design,
        prepared.target,
        task.family,
        prepared.weights,
        alpha.splits,
        task.penalty,
        n_alphas=alpha.n_alphas,
        verbose=alpha.verbose,
        out_of_time=alpha.out_of_time,
    )
    # a walk that was cut short has not seen the best: what it found last is the nearest to it
    place = walked.curve.choose(alpha.rule if walked.in_time else "best")
    if alpha.least_shrinkage:
        kept = walked.points[place].supports[0]
        same = [np.array_equal(point.supports[0], kept) for point in walked.points]
        place = max(number for number, equal in enumerate(same) if equal)
    chosen = walked.points[place]
    return _solve(task, chosen.alpha, tol, walked.curve, walked.points)


def _solve(
    task: ConvexTask,
    alpha: float,
    tol: float,
    curve: CVCurve | None = None,
    points: tuple[ConvexPoint, ...] = (),
) -> FeatureChoice:
    """Solve at one alpha to the tolerance, on the way down from alpha_max, and certify."""
    design, target, weights = task.design, task.prepared.target, task.prepared.weights
    try:
        top = alpha_max(design, target, task.family, weights[None], penalty=task.penalty)
    except InputError:  # a penalty that no alpha makes empty: solve at the alpha itself
        top = 0.0
    alphas = np.geomspace(top, alpha, STEPS_DOWN) if 0 < alpha < top else np.array([alpha])
    certificate = None
    for inner in (0.5 * tol, 0.01 * tol):
        (point,) = deque(walk_path(task, alphas, alphas.size, inner), maxlen=1)
        theta, intercept = point.theta[0], point.intercepts[0]
        names = [
            " + ".join(task.prepared.names[int(place)] for place in own) for own in task.prepared.grouping.members
        ]
        try:
            certificate = certify(
                design, target, task.family, weights, theta, intercept, alpha, task.penalty, names, tol
            )
            break
        except CertificateError as error:
            refusal = error
    else:
        warnings.warn(f"The convex solution has no certificate. {refusal}", ConvergenceWarning, stacklevel=2)
    return FeatureChoice(task, alpha, point, certificate, curve, points)


def _with(task: ConvexTask, penalty: Penalty) -> ConvexTask:
    return ConvexTask(task.prepared, task.family, task.features, task.design, penalty)
