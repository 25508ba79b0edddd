"""The regularisation path of the convex problem, and its certified solution at one alpha.

Points are solved from the largest alpha down by warm starts and screening; the duality gap is the stopping rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.design import Array, DenseDesign, GroupedDesign
from sparsenam.convex.newton import NewtonSolver, ScoreSolver
from sparsenam.convex.problem import (
    Certificate,
    ConvexPoint,
    ConvexProblem,
    allowed_slack,
    certify,
    checked_convex,
    group_lengths,
    sorted_dual_norm,
)
from sparsenam.convex.ramps import Indices
from sparsenam.convex.squared import GramCache, SquaredSolver
from sparsenam.errors import CertificateError, InputError, describe
from sparsenam.families.base import SMALLEST_FLOAT
from sparsenam.penalties import GroupLasso, Penalty, SortedPenalty, WeightedLasso

TOLERANCE = 1e-4  # duality gap of a solution, relative to the loss of the empty model
# from alpha_max to a given alpha; with six, three classes at alpha 1e-4 got no certificate (test_shapes.py)
WARM_STARTS = 12
SMALL_DESIGN = 512  # so few columns are all put into the Gram at once
SMALL_AT_KNOTS = 2500  # the same where sums are taken at knots, which costs less than reading the rows for gradients
SOLVER_ROUNDS = 60
# steps at one alpha after which longer ones are tried: a loss that is flat far from y, as that of a quantile, has
# curvatures whose steps are safe and too short
STEPS_BEFORE_LONGER = 8
STALL = 10  # rounds in which the gap must halve, twice as many before the first point that does not
NULL_ROUNDS = 30
FIRST_STEP = 8  # groups that may enter the working set at once, before any is active
ENTERING = 1.0 + 1e-6
TIED_GRADIENTS = 1e-5  # of the largest gradient norm: a difference that single precision may make or miss
NOTHING = 1e-14  # an alpha_max below this is what rounding leaves of a target that no group explains
LONGEST_PATH = 1e4  # times lower than with equal weights: as far as unequal ones may take a path
EXACT_GRADIENTS = 64  # groups whose gradient is recomputed in double precision for alpha_max
MAX_STEPS = 5000
CHECK_EVERY = 10
# steps from which the gap must halve while they double, before and after a first stall
GAP_PATIENCE, GAP_IMPATIENCE = 300, 100
EXPLAINED_ROUNDING, SORTED_LOSS_ROUNDING = 1e-12, 1e-14  # of what can be explained, and of a loss that is far larger


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
    walk = _walk(problem, penalty, gram)
    if alphas is None:
        top = walk.alpha_max()
        ratio = lowest_ratio(problem.design) if ratio is None else ratio
        steps = np.geomspace(1.0, ratio, n_alphas, dtype=np.float64)
        grid: Array = top * steps if top > NOTHING else np.zeros(1)
    else:
        grid = np.asarray(alphas, dtype=np.float64)
    yield from walk.points(grid, tol)


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
    return _walk(problem.first(), penalty, gram).alpha_max()


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
        *_, point = until(convex_path(problem, penalty, alphas=alphas, tol=inner, gram=gram), out_of_time)
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


def _raised_top(top: float, penalty: Penalty) -> float:
    """Return alpha_max a little above what was found, so that rounding lets no group in; raise if there is none."""
    if not np.isfinite(top):
        remedy = "give the alphas yourself, or a penalty with some weight on the norms"
        raise InputError(describe("alpha_max", "a penalty that can empty the model", repr(penalty), remedy))
    return top * (1.0 + 1e-9)


def _walk(problem: ConvexProblem, penalty: Penalty | None, gram: GramCache | None) -> LassoWalk | SortedSolver:
    convex = checked_convex(GroupLasso() if penalty is None else penalty)
    return SortedSolver(problem, convex) if isinstance(convex, SortedPenalty) else LassoWalk(problem, convex, gram)


class LassoWalk:
    """The walk down the path of a penalty Σⱼ aⱼ‖θⱼ‖ + ½b‖θⱼ‖², from the model without penalised groups.

    ``weights`` (groups,) are a and ``ridge_share`` is b at alpha 1; ``norms`` (batches, groups) are ‖gradientⱼ‖ where
    the walk stands.
    """

    def __init__(self, problem: ConvexProblem, penalty: WeightedLasso, gram: GramCache | None) -> None:
        self.problem, self.penalty, design = problem, penalty, problem.design
        self.weights, self.ridge_share = penalty.lasso_and_ridge(design.n_groups, 1.0)
        if problem.family.is_quadratic:
            gram = GramCache(design, problem.target.T, problem.weights) if gram is None else gram
            most = SMALL_DESIGN if isinstance(design, DenseDesign) else SMALL_AT_KNOTS
            if design.n_groups * design.width <= most:
                gram.add(np.arange(design.n_groups))
            self.solver: SquaredSolver | NewtonSolver = SquaredSolver(problem, gram)
        else:
            self.solver = NewtonSolver(problem)
        shut = np.where(self.weights == 0.0, 0.0, np.inf)
        free = np.flatnonzero(self.weights == 0.0)
        gaps, self.norms = self.solver.measure(shut, 0.0)
        for tol in np.geomspace(1e-9, 1e-15, NULL_ROUNDS) if free.size and self.ridge_share == 0 else ():
            self.solver.improve(shut, 0.0, free, float(tol))
            gaps, self.norms = self.solver.measure(shut, 0.0)
            if gaps.max() < 1e-8:
                break

    def alpha_max(self) -> float:
        """Return the alpha of the empty model, with the decisive gradients recomputed in double precision."""
        entering = self._relative(self.norms)[0]
        order: Indices = np.argsort(-entering, kind="stable")
        first = order[:EXACT_GRADIENTS][entering[order[:EXACT_GRADIENTS]] > 0]
        exact = self.problem.exact_norms(self.solver.residuals(), first) / self.weights[first]
        return _raised_top(float(exact.max(initial=0.0)) if np.any(self.weights > 0.0) else np.inf, self.penalty)

    def points(self, alphas: Array, tol: float) -> Iterator[ConvexPoint]:
        """Solve at each alpha on a working set chosen by the strong rule, checked on all groups after."""
        solver, weights, scales = self.solver, self.weights, self.problem.alpha_scales[:, None]
        entering = self._relative(self.norms) / scales
        previous = max(float(entering[0].max(initial=0.0)), float(alphas[0]))
        free, shut = weights == 0.0, np.isinf(weights)
        finite = np.where(shut, 0.0, weights)  # 0 · ∞ would be NaN
        working, patience = free.copy(), 2 * STALL
        for alpha in alphas:
            thresholds, ridge = np.where(shut, np.inf, alpha * finite), alpha * self.ridge_share
            if isinstance(solver, NewtonSolver):
                solver.go_on(thresholds, ridge)
            active = np.asarray(solver.lengths().any(axis=0))
            if solver.forgets:
                working = free | active
            working |= _strongest((entering >= 2 * alpha - previous).any(axis=0) & ~working, entering, active)
            inner = 1e-3 * tol
            gaps, reached = np.full(self.problem.n_batches, np.inf), list[float]()
            for number in range(SOLVER_ROUNDS):
                if isinstance(solver, NewtonSolver) and number >= STEPS_BEFORE_LONGER:
                    solver.go_on(thresholds, ridge)
                solver.improve(thresholds, ridge, np.flatnonzero(working), inner)
                gaps, self.norms = solver.measure(thresholds, ridge)
                entering = self._relative(self.norms) / scales
                moving = solver.lengths() > 0
                if gaps.max() <= tol and np.all(moving | (entering <= alpha * allowed_slack(tol))):
                    break
                active = np.asarray(moving.any(axis=0))
                fresh = (entering > alpha * ENTERING).any(axis=0) & ~working
                if solver.forgets:
                    working = free | active
                if solver.forgets or not fresh.any():
                    inner *= 0.1
                reached.append(float(gaps.max()))
                if number >= patience and not fresh.any() and reached[-1] > 0.5 * reached[-1 - STALL]:
                    patience = STALL  # points farther down are no easier
                    break
                working |= _strongest(fresh, entering, active)
            previous = float(alpha)
            yield ConvexPoint.of(float(alpha), solver.solution(), gaps, entering[0], tol)

    def _relative(self, norms: Array) -> Array:
        """Return ‖gradientⱼ‖ / wⱼ with 0 for groups that are always in (w = 0) or always out (w = ∞)."""
        usable = (self.weights > 0) & np.isfinite(self.weights)
        return np.where(usable, norms / np.where(usable, self.weights, 1.0), 0.0)


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


class SortedSolver(ScoreSolver):
    """The walk of Group SLOPE and its kin, whose penalty mixes the groups, so that all of them move at once.

    It is the state of loss(y, β + Qθ) + α Σᵢ wᵢ‖θ‖₍ᵢ₎ for all batches; θ is (batches, outputs, groups, m).
    """

    def __init__(self, problem: ConvexProblem, penalty: SortedPenalty) -> None:
        super().__init__(problem)
        self.penalty = penalty
        self._inverse_steps = np.full(problem.n_batches, 0.1 * min(problem.family.curvature, 1.0))
        self._patience = GAP_PATIENCE

    def alpha_max(self) -> float:
        """Return the alpha of the empty model, at which the solver starts."""
        norms = self.problem.exact_norms(self.residuals(), np.arange(self.problem.design.n_groups))
        return _raised_top(sorted_dual_norm(norms, self.penalty.sequence(norms.size)), self.penalty)

    def points(self, alphas: Array, tol: float) -> Iterator[ConvexPoint]:
        """Solve at each alpha, starting from the solution before."""
        for alpha in alphas.tolist():
            gaps, norms = self.solve(alpha, tol)
            yield ConvexPoint.of(alpha, self.solution(), gaps, norms[0], tol)

    def solve(self, alpha: float, tol: float) -> tuple[Array, Array]:
        """Iterate until the relative gaps are below ``tol``; return gaps (batches,) and gradient norms.

        Accelerated proximal gradient with restarts (O'Donoghue & Candès 2015); the step is found by
        backtracking, since Poisson's curvature has no bound. Where the gap stalls, as far from y a loss whose slope
        is bounded lets it, the solution is as near as these steps come.
        """
        previous, ahead = self.theta, self.theta
        momentum = np.ones(self.problem.n_batches)
        gaps, norms = self.gaps_at(alpha)
        reached = [float(gaps.max())]
        for step in range(1, MAX_STEPS + 1):
            point, intercepts = self._proximal_step(ahead, alpha)
            turned = np.einsum("fopm,fopm->f", ahead - point, point - previous) > 0
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            pace = np.where(turned, 0.0, (momentum - 1.0) / following)
            momentum = np.where(turned, 1.0, following)
            ahead = point + pace[:, None, None, None] * (point - previous)
            previous, self.theta, self.intercepts = point, point, intercepts
            if step % CHECK_EVERY == 0:
                gaps, norms = self.gaps_at(alpha)
                reached.append(float(gaps.max()))
                if reached[-1] <= tol:
                    break
                if step >= self._patience and not reached[-1] <= 0.5 * min(reached[: 1 + len(reached) // 2]):
                    self._patience = GAP_IMPATIENCE  # points farther down are no easier
                    break
        return gaps, norms

    def gaps_at(self, alpha: float) -> tuple[Array, Array]:
        """Return relative duality gaps (batches,) and ‖gradientⱼ‖ (batches, groups)."""
        self._move_to(self.theta)
        losses, dual, norms = self.losses()
        sequence, alphas = self.penalty.sequence(norms.shape[1]), alpha * self.problem.alpha_scales
        tops = [sorted_dual_norm(row, one * sequence) for row, one in zip(norms, alphas, strict=True)]
        penalties = [self.penalty.value(row, float(one)) for row, one in zip(self.lengths(), alphas, strict=True)]
        return (losses + penalties - dual(1.0 / np.maximum(tops, 1.0))) / self.null_losses, norms

    def _proximal_step(self, ahead: Array, alpha: float) -> tuple[Array, Array]:
        """Return the next θ, and the best intercepts at ``ahead``.

        With the intercept always at its best, the loss is a function of θ alone, convex and with the
        same gradient.
        """
        self._move_to(ahead)
        intercepts, before = self.intercepts, self.problem.loss(self.scores)
        gradients = self.problem.gradients(self.residuals())
        pull = gradients.transpose(2, 3, 0, 1).astype(np.float64)
        rounding = np.maximum(EXPLAINED_ROUNDING * self.null_losses, SORTED_LOSS_ROUNDING * np.abs(before))
        while True:
            point = self._shrunk(ahead + pull / self._inverse_steps[:, None, None, None], alpha)
            step = point - ahead
            model = before - np.einsum("fopm,fopm->f", pull, step)
            model += 0.5 * self._inverse_steps * np.einsum("fopm,fopm->f", step, step)
            after = self.problem.loss(self._scores(point) + intercepts[:, :, None])
            worse = ~(after <= model + rounding)
            if not worse.any():
                return point, intercepts
            self._inverse_steps = np.where(worse, 2.0 * self._inverse_steps, self._inverse_steps)

    def _shrunk(self, theta: Array, alpha: float) -> Array:
        lengths = group_lengths(theta)
        shrunk = np.stack(
            [
                self.penalty.shrink(row, alpha * scale, 1.0 / inverse)
                for row, inverse, scale in zip(lengths, self._inverse_steps, self.problem.alpha_scales, strict=True)
            ]
        )
        factors = np.divide(shrunk, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return theta * factors[:, None, :, None]

    def _move_to(self, theta: Array) -> None:
        """Take the scores of θ, with the intercepts at their best."""
        self.scores = self._scores(theta) + self.intercepts[:, :, None]
        self.move_intercepts()

    def _scores(self, theta: Array) -> Array:
        """Return Qθ, shape (batches, outputs, rows), from the groups that are not zero."""
        active = np.flatnonzero(theta.any(axis=(0, 1, 3)))
        return self.problem.design.combined(active, theta[:, :, active].reshape(*theta.shape[:2], -1))
