"""Which features matter, and at which alpha: the convex problem chooses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.certificate import Certificate, certify
from sparsenam.convex.design import GroupedDesign, orthonormal_design
from sparsenam.convex.path_solver import ConvexPoint, alpha_max, convex_path
from sparsenam.convex.ramps import place_ramps
from sparsenam.families import Family
from sparsenam.penalties import GroupLasso, NeedsFirstFit, Penalty, restrict
from sparsenam.selection.curve import CVCurve, Rule
from sparsenam.selection.folds import Splits
from sparsenam.selection.validate import validate_path
from sparsenam.tables import PreparedSample

RAMPS = 16  # a feature for choosing; the fit that follows takes as many as it needs
ROWS_PER_RAMP = 10
WIDE = 10_000_000  # numbers above which the design is kept in single precision
STEPS_DOWN = 12  # warm starts on the way from alpha_max to an alpha that the user gives

Columns = Callable[[int], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureChoice:
    """The convex solution at the chosen alpha.

    ``support`` are places among the prepared sample's features. ``curve`` and ``path`` are there when alpha was
    chosen by cross-validation.
    """

    alpha: float
    support: NDArray[np.intp]
    design: GroupedDesign
    point: ConvexPoint
    certificate: Certificate
    curve: CVCurve | None = None
    path: tuple[ConvexPoint, ...] = ()


def ramp_columns(prepared: PreparedSample, count: int = RAMPS) -> Columns:
    """Return a function that gives the ramps of a feature as columns, shape (rows, m)."""
    count = int(np.clip(prepared.weights.size // ROWS_PER_RAMP, 2, count))

    def columns(feature: int) -> NDArray[np.float64]:
        x = prepared.x[feature]
        return place_ramps(x, prepared.weights, count).columns(x)

    return columns


def linear_columns(prepared: PreparedSample) -> Columns:
    """Return a function that gives a feature itself as its one column."""
    return lambda feature: prepared.x[feature][:, None]


def choose_features(
    prepared: PreparedSample,
    family: Family,
    penalty: Penalty,
    columns: Columns,
    *,
    alpha: float | None = None,
    splits: Splits | None = None,
    rule: Rule = "one_se",
    n_alphas: int = 30,
    tol: float = 1e-4,
    verbose: bool | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
) -> FeatureChoice:
    """Solve at ``alpha``, or at the one that cross-validation on ``splits`` chooses by ``rule``."""
    n_features = prepared.features.size
    single = n_features * prepared.weights.size * RAMPS > WIDE
    design = orthonormal_design(
        columns, n_features, prepared.weights, dtype=np.float32 if single else np.float64
    )
    penalty = restrict(penalty, prepared.features, prepared.n_features_in)

    def solve(penalty: Penalty) -> FeatureChoice:
        if alpha is not None:
            return _solution(design, prepared, family, penalty, alpha, tol)
        assert splits is not None
        walked = validate_path(
            design,
            prepared.target,
            family,
            prepared.weights,
            splits,
            penalty,
            n_alphas=n_alphas,
            verbose=verbose,
            out_of_time=out_of_time,
        )
        chosen = walked.curve.choose(rule)
        best = walked.points[chosen].alpha
        return _solution(design, prepared, family, penalty, best, tol, walked.curve, walked.points)

    if isinstance(penalty, NeedsFirstFit):
        first = solve(GroupLasso())
        norms = np.zeros(n_features)
        norms[first.point.active] = np.sqrt((first.point.values[0] ** 2).sum(axis=(1, 2)))
        penalty = penalty.adapted_to(norms)
    return solve(penalty)


def _solution(
    design: GroupedDesign,
    prepared: PreparedSample,
    family: Family,
    penalty: Penalty,
    alpha: float,
    tol: float,
    curve: CVCurve | None = None,
    path: tuple[ConvexPoint, ...] = (),
) -> FeatureChoice:
    """Solve at one alpha to the tolerance, on the way down from alpha_max, and certify."""
    weights = prepared.weights[None]
    top = alpha_max(design, prepared.target, family, weights, penalty=penalty)
    alphas = np.geomspace(top, alpha, STEPS_DOWN) if 0 < alpha < top else np.array([alpha])
    walk = convex_path(design, prepared.target, family, weights, penalty=penalty, alphas=alphas, tol=0.5 * tol)
    (point,) = deque(walk, maxlen=1)
    certificate = certify(
        design, prepared.target, family, prepared.weights, point.theta[0], point.intercepts[0], alpha,
        penalty, prepared.names, tol,
    )  # fmt: skip
    return FeatureChoice(alpha, point.supports[0], design, point, certificate, curve, path)
