"""Which features matter, and at which alpha: the convex problem chooses."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sparsenam.convex.certificate import Certificate, certify
from sparsenam.convex.design import GroupedDesign, orthonormal_design
from sparsenam.convex.grouped_features import GroupedFeatures
from sparsenam.convex.path_solver import ConvexPoint, alpha_max, convex_path
from sparsenam.convex.problem import convex_problem
from sparsenam.convex.random_features import RandomFeatures
from sparsenam.errors import CertificateError, InputError
from sparsenam.families import Family
from sparsenam.model import AdditiveModel
from sparsenam.penalties import GroupLasso, NeedsFirstFit, Penalty, WeightedLasso, priced, restrict
from sparsenam.selection.curve import CVCurve, Rule
from sparsenam.selection.folds import Splits
from sparsenam.selection.path import PathPoint, RegularizationPath
from sparsenam.selection.validate import validate_path
from sparsenam.tables import PreparedSample

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
