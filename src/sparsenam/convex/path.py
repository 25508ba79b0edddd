"""The regularisation path of the convex problem, and its certified solution at one alpha.

Points are solved from the largest alpha down by warm starts and screening; the duality gap is the stopping rule.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sparsenam.convex.design import Array, DenseDesign, GroupedDesign, Indices
from sparsenam.convex.newton import NewtonSolver
from sparsenam.convex.problem import (
    SMALLEST_FLOAT,
    Certificate,
    ConvexPoint,
    ConvexProblem,
    SortedPenalty,
    allowed_slack,
    certify,
    check_convex,
    sorted_dual_norm,
)
from sparsenam.convex.sorted import SortedSolver
from sparsenam.convex.squared import GramCache, SquaredSolver
from sparsenam.errors import CertificateError, InputError, describe
from sparsenam.penalties import GroupLasso, Penalty, WeightedLasso

TOLERANCE = 1e-4  # duality gap of a solution, relative to the loss of the empty model
WARM_STARTS = (
    12  # from alpha_max to a given alpha; with six, three classes at alpha 1e-4 got no certificate (test_shapes.py)
)
SMALL_DESIGN = 512  # so few columns are all put into the Gram at once
SMALL_AT_KNOTS = 2500  # the same where sums are taken at knots, which costs less than reading the rows for gradients
SOLVER_ROUNDS = 60
STALL = 10  # rounds in which the gap must halve, twice as many before the first point that does not
NULL_ROUNDS = 30
FIRST_STEP = 8  # groups that may enter the working set at once, before any is active
ENTERING = 1.0 + 1e-6
TIED_GRADIENTS = 1e-5  # of the largest gradient norm: a difference that single precision may make or miss
NOTHING = 1e-14  # an alpha_max below this is what rounding leaves of a target that no group explains
LONGEST_PATH = 1e4  # times lower than with equal weights: as far as unequal ones may take a path
EXACT_GRADIENTS = 64  # groups whose gradient is recomputed in double precision for alpha_max


PathSolver: TypeAlias = SquaredSolver | NewtonSolver


def convex_path(
    problem: ConvexProblem,
    penalty: Penalty | None = None,
    *,
    alphas: Sequence[float] | NDArray[np.float64] | None = None,
    n_alphas: int = 30,
    ratio: float | None = None,
    tol: float = TOLERANCE,
    gram: GramCache | None = None,
) -> Iterator[ConvexPoint]:
    """Walk down the path and yield the solutions of all batches at each alpha.

    The penalty is by default `GroupLasso`, ``alphas`` a falling grid of ``n_alphas`` values from alpha_max down to
    ``ratio`` times it. ``tol`` is the largest duality gap allowed, relative to the null loss, ``gram`` a cache to share
    with ``SmoothJudge`` (squared loss only).
    """
    penalty = GroupLasso() if penalty is None else penalty
    solver, norms = _null_solver(problem, penalty, gram)
    if alphas is None:
        top = _alpha_max(problem, solver, penalty, norms)
        ratio = lowest_ratio(problem.design) if ratio is None else ratio
        steps = np.geomspace(1.0, ratio, n_alphas, dtype=np.float64)
        grid: Array = top * steps if top > NOTHING else np.zeros(1)
    else:
        grid = np.asarray(alphas, dtype=np.float64)
    if not isinstance(solver, SortedSolver):
        yield from _screened_walk(solver, penalty, norms, grid, tol)
        return
    for alpha in grid:
        gaps, norms = solver.solve(float(alpha), tol)
        yield _point(solver, float(alpha), gaps, norms[0], tol)


def lowest_ratio(design: GroupedDesign) -> float:
    """Return the last alpha of a path over its first, by default."""
    return 1e-2 if design.n_rows > design.n_groups * design.width else 5e-2


def long_path(design: GroupedDesign, penalty: Penalty, n_alphas: int) -> tuple[int, float]:
    """Return number of alphas and ratio of a path that goes on, in the same steps, until it has reached every group.

    A group of weight w enters at its gradient's norm over w: what equal weights reach at the lowest alpha, unequal ones
    reach at that alpha over the ratio of the largest weight to the smallest, as far as `LONGEST_PATH`.
    """
    ratio = lowest_ratio(design)
    if not isinstance(penalty, WeightedLasso) or n_alphas < 2:
        return n_alphas, ratio
    weights, _ = penalty.lasso_and_ridge(design.n_groups, 1.0)
    usable = weights[(weights > 0) & np.isfinite(weights)]
    spread = min(float(usable.max() / usable.min()), LONGEST_PATH) if usable.size else 1.0
    more = int(np.ceil(np.log(spread) / -np.log(ratio) * (n_alphas - 1)))
    return n_alphas + more, float(ratio ** (1.0 + more / (n_alphas - 1)))


def alpha_max(problem: ConvexProblem, penalty: Penalty | None = None, gram: GramCache | None = None) -> float:
    """Return the smallest alpha at which batch 0 has no penalised group; ``gram`` is a cache of that batch alone."""
    penalty, alone = GroupLasso() if penalty is None else penalty, problem.first()
    solver, norms = _null_solver(alone, penalty, gram)
    return _alpha_max(alone, solver, penalty, norms)


def alphas_down_to(
    alpha: float, problem: ConvexProblem, penalty: Penalty, gram: GramCache | None = None
) -> NDArray[np.float64]:
    """Return alphas from alpha_max down to a given one, whose solutions are warm starts of each other."""
    try:
        top = alpha_max(problem, penalty, gram)
    except InputError:  # a penalty that no alpha makes empty: solve at the alpha itself
        top = 0.0
    return np.geomspace(top, alpha, WARM_STARTS) if 0 < alpha < top else np.array([alpha])


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The solution at one alpha; without a certificate, ``failure`` says why there is none."""

    point: ConvexPoint
    certificate: Certificate | None
    failure: str = ""


def solve_and_certify(
    problem: ConvexProblem,
    penalty: Penalty,
    alpha: float,
    names: Sequence[str],
    tol: float = TOLERANCE,
    out_of_time: Callable[[], bool] = lambda: False,
) -> Solution:
    """Solve at one alpha, on the way down from alpha_max, and certify; ``names`` are those of the groups.

    Without time the point reached on the way is returned: a sparser one.
    """
    gram = GramCache(problem.design, problem.target.T, problem.weights) if problem.family.is_quadratic else None
    alphas = alphas_down_to(alpha, problem, penalty, gram)

    def attempt(inner: float) -> Solution:
        path = convex_path(problem, penalty, alphas=alphas, tol=inner, gram=gram)
        (point,) = deque(until(path, out_of_time), maxlen=1)
        if point.alpha != alphas[-1]:
            reached = f"max_seconds ran out on the way to alpha {alpha:.3g}: the model is that of {point.alpha:.3g}."
            return Solution(point, None, reached)
        try:
            certificate = certify(problem, point.theta[0], point.intercepts[0], alpha, penalty, names, tol)
        except CertificateError as error:
            return Solution(point, None, f"The convex solution has no certificate. {error}")
        return Solution(point, certificate)

    first = attempt(0.5 * tol)
    # a walk that came to rest before comes no further with a lower aim
    is_last = first.certificate is not None or first.point.alpha != alphas[-1] or first.point.gaps[0] > tol
    return first if is_last else attempt(0.01 * tol)


def until(path: Iterator[ConvexPoint], is_enough: Callable[[], bool]) -> Iterator[ConvexPoint]:
    """Yield the points of a path, the one after which it is enough included."""
    for point in path:
        yield point
        if is_enough():
            return


def _null_solver(
    problem: ConvexProblem, penalty: Penalty, gram: GramCache | None
) -> tuple[PathSolver | SortedSolver, Array]:
    """Return a solver at the model without penalised groups, and its gradient norms (batches, groups)."""
    check_convex(penalty)
    design = problem.design
    if isinstance(penalty, SortedPenalty):
        solver = SortedSolver(problem, penalty)
        return solver, problem.gradient_norms(solver.residuals())
    assert isinstance(penalty, WeightedLasso)
    if problem.family.is_quadratic:
        gram = GramCache(design, problem.target.T, problem.weights) if gram is None else gram
        most = SMALL_DESIGN if isinstance(design, DenseDesign) else SMALL_AT_KNOTS
        if design.n_groups * design.width <= most:
            gram.add(np.arange(design.n_groups))
        chosen: PathSolver = SquaredSolver(problem, gram)
    else:
        chosen = NewtonSolver(problem)
    weights, ridge = penalty.lasso_and_ridge(design.n_groups, 1.0)
    shut = np.where(weights == 0.0, 0.0, np.inf)
    free = np.flatnonzero(weights == 0.0)
    if free.size == 0 or ridge > 0:
        return chosen, chosen.measure(shut, 0.0)[1]
    for tol in np.geomspace(1e-9, 1e-15, NULL_ROUNDS):
        chosen.improve(shut, 0.0, free, float(tol))
        if chosen.measure(shut, 0.0)[0].max() < 1e-8:
            break
    return chosen, chosen.measure(shut, 0.0)[1]


def _alpha_max(problem: ConvexProblem, solver: PathSolver | SortedSolver, penalty: Penalty, norms: Array) -> float:
    """Return alpha_max with the decisive gradients recomputed in double precision."""
    if isinstance(penalty, SortedPenalty):
        exact = problem.exact_norms(solver.residuals(), np.arange(problem.design.n_groups))
        top = sorted_dual_norm(exact, penalty.sequence(norms.shape[1]))
    else:
        assert isinstance(penalty, WeightedLasso)
        weights, _ = penalty.lasso_and_ridge(norms.shape[1], 1.0)
        entering = _relative(norms, weights)[0]
        order: Indices = np.argsort(-entering, kind="stable")
        first = order[:EXACT_GRADIENTS][entering[order[:EXACT_GRADIENTS]] > 0]
        exact = problem.exact_norms(solver.residuals(), first) / weights[first]
        top = float(exact.max(initial=0.0)) if np.any(weights > 0.0) else np.inf
    if not np.isfinite(top):
        remedy = "give the alphas yourself, or a penalty with some weight on the norms"
        raise InputError(describe("alpha_max", "a penalty that can empty the model", repr(penalty), remedy))
    return top * (1.0 + 1e-9)  # rounding must not let a group in


def _relative(norms: Array, weights: Array) -> Array:
    """Return ‖gradientⱼ‖ / wⱼ with 0 for groups that are always in (w = 0) or always out (w = ∞)."""
    usable = (weights > 0) & np.isfinite(weights)
    return np.where(usable, norms / np.where(usable, weights, 1.0), 0.0)


def _screened_walk(
    solver: PathSolver, penalty: Penalty, norms: Array, alphas: Array, tol: float
) -> Iterator[ConvexPoint]:
    """Solve at each alpha on a working set chosen by the strong rule, checked on all groups after."""
    assert isinstance(penalty, WeightedLasso)
    weights, ridge_share = penalty.lasso_and_ridge(norms.shape[1], 1.0)
    scales = solver.problem.alpha_scales[:, None]
    entering = _relative(norms, weights) / scales
    previous = max(float(entering[0].max(initial=0.0)), float(alphas[0]))
    free, shut = weights == 0.0, np.isinf(weights)
    finite = np.where(shut, 0.0, weights)  # 0 · ∞ would be NaN
    working, patience = free.copy(), 2 * STALL
    for alpha in alphas:
        thresholds, ridge = np.where(shut, np.inf, alpha * finite), alpha * ridge_share
        active = np.asarray(solver.lengths().any(axis=0))
        if solver.forgets:
            working = free | active
        working |= _strongest((entering >= 2 * alpha - previous).any(axis=0) & ~working, entering, active)
        inner = 1e-2 * tol
        gaps, reached = np.full(norms.shape[0], np.inf), list[float]()
        for number in range(SOLVER_ROUNDS):
            solver.improve(thresholds, ridge, np.flatnonzero(working), inner)
            gaps, norms = solver.measure(thresholds, ridge)
            entering = _relative(norms, weights) / scales
            moving = solver.lengths() > 0
            if gaps.max() <= tol and np.all(moving | (entering <= alpha * allowed_slack(tol))):
                break
            active = np.asarray(moving.any(axis=0))
            fresh = (entering > alpha * ENTERING).any(axis=0) & ~working
            if solver.forgets:
                working = free | active
                inner *= 0.1
            elif not fresh.any():
                inner *= 0.1
            reached.append(float(gaps.max()))
            if number >= patience and not fresh.any() and reached[-1] > 0.5 * reached[-1 - STALL]:
                patience = STALL  # points farther down are no easier
                break
            working |= _strongest(fresh, entering, active)
        previous = float(alpha)
        yield _point(solver, float(alpha), gaps, entering[0], tol)


def _strongest(wanted: NDArray[np.bool_], entering: Array, active: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return at most as many of the wanted groups as are active: a wide table needs few Gram blocks.

    Groups whose gradients differ by rounding, such as those of equal columns, are taken in the order of the table.
    """
    most = max(FIRST_STEP, int(np.count_nonzero(active)))
    groups = np.flatnonzero(wanted)
    if groups.size > most:
        strengths: Array = entering[:, groups].max(axis=0)
        tied: Array = np.rint(strengths / max(TIED_GRADIENTS * float(strengths.max()), SMALLEST_FLOAT))
        groups = groups[np.argsort(-tied, kind="stable")[:most]]
    chosen = np.zeros_like(wanted)
    chosen[groups] = True
    return chosen


def _point(solver: PathSolver | SortedSolver, alpha: float, gaps: Array, entering: Array, tol: float) -> ConvexPoint:
    if gaps.max() > tol:
        message = f"alpha {alpha:.3g}: relative duality gap {gaps.max():.2g} is above tol {tol:.2g}; raise tol"
        warnings.warn(message, ConvergenceWarning, stacklevel=3)
    active, values, intercepts = solver.solution()
    supports = tuple(active[batch.any(axis=(1, 2))] for batch in values)
    return ConvexPoint(alpha, entering.size, active, values, intercepts, supports, gaps, entering.copy())
