"""The convex problem for all batches, the points of its path, duality gaps, and the certificate of a solution."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sparsenam.codec import Size, to_plain
from sparsenam.convex.design import CHUNK, Array, Floats, GroupedDesign
from sparsenam.convex.ramps import Indices
from sparsenam.errors import CertificateError, InputError, describe
from sparsenam.families import Family
from sparsenam.families.base import SMALLEST_FLOAT, best_intercept
from sparsenam.penalties import NeedsFirstFit, Penalty, SortedPenalty, WeightedLasso

LOSS_ROUNDING = 1e-15  # of a loss: what its difference from another may be wrong by
ORTHOGONAL_STEPS = 5
ORTHOGONAL = 1e-11  # of the product of two sizes: what rounding leaves of a sum of 0

ConvexPenalty: TypeAlias = WeightedLasso | SortedPenalty


def checked_convex(penalty: Penalty) -> ConvexPenalty:
    """Return the penalty; raise unless it is convex with a known dual."""
    if isinstance(penalty, NeedsFirstFit):
        remedy = "call its adapted_to(norms) with the norms of a first fit"
        raise InputError(describe("convex solver", "a penalty with known weights", repr(penalty), remedy))
    if not isinstance(penalty, WeightedLasso | SortedPenalty):
        remedy = "choose GroupLasso, GroupElasticNet, GroupSLOPE or KLevelSLOPE"
        raise InputError(describe("convex solver", "a convex penalty", repr(penalty), remedy))
    return penalty


@dataclass(frozen=True, slots=True, eq=False)
class ConvexProblem:
    """min over θ, β of Σᵢ wᵢ loss(yᵢ, β + Σⱼ Qⱼ,ᵢ θⱼ) + penalty(‖θ₁‖, …, ‖θₚ‖), one for each batch.

    ``target`` has shape (outputs, rows). ``weights`` (batches, rows) add up to 1 in each batch; batch 0 is the fit
    proper, the others leave rows out. A batch is solved at ``alpha_scales`` (batches,) times alpha: noise in a gradient
    falls like one over the root of the rows, so that a fold is as cautious as the fit on all rows at √(n/n_fold) times
    its alpha.
    """

    design: GroupedDesign
    target: Array
    family: Family
    weights: Array
    alpha_scales: Array

    @property
    def n_batches(self) -> int:
        """The number of weight vectors."""
        return self.weights.shape[0]

    def bars(self, thresholds: Array) -> Array:
        """Return the thresholds (groups,) of alpha for each batch, shape (batches, groups)."""
        return self.alpha_scales[:, None] * thresholds

    def first(self) -> ConvexProblem:
        """Return the problem of batch 0 alone."""
        return replace(self, weights=self.weights[:1], alpha_scales=self.alpha_scales[:1])

    @property
    def n_outputs(self) -> int:
        """The number of scores of a row."""
        return self.target.shape[0]

    def gradients(self, residuals: Array) -> Floats:
        """Return Qⱼᵀ W r, shape (groups, m, batches, outputs), for r of shape (batches, outputs, rows).

        One pass over the whole design, in the design's precision.
        """
        weighted = (self.weights[:, None, :] * residuals).reshape(-1, self.design.n_rows)
        shape = (self.design.n_groups, self.design.width, self.n_batches, self.n_outputs)
        return self.design.products(weighted).reshape(shape)

    def gradient_norms(self, residuals: Array) -> Array:
        """Return ‖Qⱼᵀ W r‖, shape (batches, groups)."""
        gradients = self.gradients(residuals)
        return np.sqrt(np.einsum("pmfo,pmfo->fp", gradients, gradients)).astype(np.float64)

    def exact_norms(self, residuals: Array, groups: Indices) -> Array:
        """Return batch 0's ‖Qⱼᵀ W r‖ of some groups in double precision, shape (groups,)."""
        weighted, norms = (self.weights[0] * residuals[0]).T, np.zeros(groups.size)
        step = max(1, CHUNK // max(self.design.width * self.design.n_rows, 1))
        for first in range(0, groups.size, step):
            part = slice(first, first + step)
            gradients = (self.design.exact(groups[part]) @ weighted).reshape(-1, self.design.width * self.n_outputs)
            norms[part] = np.sqrt(np.sum(gradients**2, axis=1))
        return norms

    def loss(self, scores: Array) -> Array:
        """Return Σᵢ wᵢ loss, shape (batches,), for scores of shape (batches, outputs, rows)."""
        return np.sum(self.weights * self.family.loss(np.moveaxis(scores, 1, 2), self.target.T), axis=1)

    def residuals(self, scores: Array) -> Array:
        """Return y - mean, minus the loss's gradient, shape (batches, outputs, rows)."""
        return -np.moveaxis(self.family.gradient(np.moveaxis(scores, 1, 2), self.target.T), 2, 1)

    def curvatures(self, scores: Array) -> Array:
        """Return the diagonal bound on the loss's Hessian, shape (batches, outputs, rows)."""
        bound = self.family.hessian_diagonal(np.moveaxis(scores, 1, 2), self.target.T)
        return np.moveaxis(bound, 2, 1)

    def dual(self, residuals: Array, scales: Array) -> Array:
        """Return -Σᵢ wᵢ loss*(-s r), shape (batches,): the dual objective without the penalty's part."""
        means = self.target - scales[:, None, None] * residuals
        conjugate = self.family.conjugate(np.moveaxis(means, 1, 2), self.target.T)
        return -np.sum(self.weights * conjugate, axis=1)

    def constants(self) -> Array:
        """Return the scores of the best models without groups, shape (batches, outputs)."""
        return np.stack([self.family.best_constant(self.target.T, w) for w in self.weights])

    def constant_scores(self, constants: Array) -> Array:
        """Return constants (batches, outputs) for every row, shape (batches, outputs, rows)."""
        return np.repeat(constants[:, :, None], self.design.n_rows, axis=2)

    def explainable_loss(self, scores: Array) -> Array:
        """Return how far the loss is above a perfect fit's, which need not be 0 (Poisson), shape (batches,)."""
        perfect, loss = self.dual(np.zeros_like(scores), np.zeros(self.n_batches)), self.loss(scores)
        return np.maximum(loss - perfect, np.maximum(SMALLEST_FLOAT, LOSS_ROUNDING * np.abs(loss)))

    def best_shifts(self, scores: Array) -> Array:
        """Return the shifts of the intercepts, shape (batches, outputs), after which Σᵢ wᵢ rᵢ = 0.

        That is the intercept's dual constraint, so a gap is valid only after this.
        """
        effects, start = np.moveaxis(scores, 1, 2), np.zeros(scores.shape[:2])
        return best_intercept(self.family, effects, self.target.T, self.weights, start)


def convex_problem(
    design: GroupedDesign, target: Array, family: Family, batch_weights: Array, alpha_scales: Array | None = None
) -> ConvexProblem:
    """Return the problem with weights that add up to 1 and the target laid out by output.

    ``target`` has shape (rows, outputs), ``batch_weights`` (batches, rows); every batch has the same alpha unless
    ``alpha_scales`` (batches,) are given.
    """
    weights = np.atleast_2d(np.asarray(batch_weights, dtype=np.float64))
    by_output = np.ascontiguousarray(np.asarray(target, dtype=np.float64).T)
    scales = np.ones(len(weights)) if alpha_scales is None else alpha_scales
    return ConvexProblem(design, by_output, family, weights / weights.sum(axis=1, keepdims=True), scales)


@dataclass(frozen=True, slots=True, eq=False)
class ConvexPoint:
    """The solutions of all batches at one alpha, stored for the active groups only.

    ``active`` (active,) are the groups that are active in some batch, ascending, ``supports`` those of each batch.
    ``values`` are their θ in the solver's coordinates, shape (batches, active, m, outputs), with ``intercepts``
    (batches, outputs). ``gaps`` (batches,) are duality gaps relative to the null loss. ``gradient_norms`` (groups,) are
    batch 0's ‖gradientⱼ‖ / wⱼ: divided by alpha, how far on the way to entering.
    """

    alpha: float
    n_groups: int
    active: Indices
    values: Array
    intercepts: Array
    supports: tuple[Indices, ...]
    gaps: Array
    gradient_norms: Array

    @classmethod
    def of(
        cls, alpha: float, solution: tuple[Indices, Array, Array], gaps: Array, gradient_norms: Array, tol: float
    ) -> Self:
        """Return the point of active groups, their values and intercepts; warn where a gap is above ``tol``."""
        if gaps.max() > tol:
            message = f"alpha {alpha:.3g}: relative duality gap {gaps.max():.2g} is above tol {tol:.2g}; raise tol"
            warnings.warn(message, ConvergenceWarning, stacklevel=4)
        active, values, _ = solution
        supports = tuple(active[batch.any(axis=(1, 2))] for batch in values)
        return cls(alpha, gradient_norms.size, *solution, supports, gaps, gradient_norms.copy())

    @classmethod
    def whole(cls, design: GroupedDesign) -> Self:
        """Return a point that keeps all groups, where nothing is penalised and nothing is to be solved."""
        groups, none = np.arange(design.n_groups), np.zeros(0)
        return cls(0.0, groups.size, groups[:0], np.zeros((1, 0, 0, 0)), none, (groups,), none, none)

    @property
    def theta(self) -> Array:
        """All of θ, shape (batches, groups, m, outputs), made anew at each call."""
        batches, _, width, outputs = self.values.shape
        theta = np.zeros((batches, self.n_groups, width, outputs))
        theta[:, self.active] = self.values
        return theta

    def scores(self, design: GroupedDesign, batch: int = 0) -> Array:
        """Return β + Qθ of one batch, shape (rows, outputs)."""
        flat = self.values[batch].reshape(-1, self.values.shape[-1])
        return self.intercepts[batch] + design.combined(self.active, flat.T).T


class BlockSolver(ABC):
    """State of a solver of all batches: θ (batches, outputs, groups, m), at first that of the model without groups.

    ``null_losses`` (batches,) are how far that model's losses are above those of a perfect fit.
    """

    null_losses: Array

    def __init__(self, problem: ConvexProblem) -> None:
        self.problem = problem
        self.theta = np.zeros((problem.n_batches, problem.n_outputs, problem.design.n_groups, problem.design.width))

    @abstractmethod
    def best_intercepts(self) -> Array:
        """Return the intercepts at θ, shape (batches, outputs)."""

    @abstractmethod
    def losses(self) -> tuple[Array, Callable[[Array], Array], Array]:
        """Return the loss (batches,), its dual at s times the residuals for s (batches,), and ‖gradientⱼ‖."""

    def measure(self, thresholds: Array, ridge: float) -> tuple[Array, Array]:
        """Return relative duality gaps (batches,) and ‖gradientⱼ‖ (batches, groups)."""
        losses, dual, norms = self.losses()
        lengths, bars = self.lengths(), self.problem.bars(thresholds)
        gaps = losses + lasso_values(lengths, bars, ridge) - lasso_duals(dual, norms, lengths, bars, ridge)
        return gaps / np.maximum(self.null_losses, SMALLEST_FLOAT), norms

    def lengths(self) -> Array:
        """Return ‖θⱼ‖, shape (batches, groups)."""
        return group_lengths(self.theta)

    def active(self) -> Indices:
        """Return the groups that are not zero in some batch, ascending."""
        return np.flatnonzero(self.theta.any(axis=(0, 1, 3)))

    def solution(self) -> tuple[Indices, Array, Array]:
        """Return active groups, their θ (batches, active, m, outputs) and intercepts (batches, outputs)."""
        active = self.active()
        return active, self.theta[:, :, active].transpose(0, 2, 3, 1).copy(), self.best_intercepts().copy()


def step_lengths(suffices: Callable[[Array], NDArray[np.bool_]], n_fits: int, tries: int) -> Array:
    """Return for each fit the first of 1, ½, ¼, … for which ``suffices`` (fits,) holds, or 0, shape (fits,)."""
    lengths, enough = np.ones(n_fits), np.zeros(n_fits, dtype=np.bool_)
    for _ in range(tries):
        enough = suffices(lengths)
        if enough.all():
            break
        lengths = np.where(enough, lengths, 0.5 * lengths)
    return np.where(enough, lengths, 0.0)


def group_lengths(theta: Array) -> Array:
    """Return ‖θⱼ‖, shape (batches, groups), for θ of shape (batches, outputs, groups, m)."""
    return np.sqrt(np.einsum("fopm,fopm->fp", theta, theta))


def lasso_values(lengths: Array, thresholds: Array, ridge: float) -> Array:
    """Return Σⱼ aⱼ‖θⱼ‖ + ½b‖θⱼ‖², shape (batches,), for ‖θⱼ‖ and a of shape (batches, groups)."""
    finite = np.where(np.isfinite(thresholds), thresholds, 0.0)  # an excluded group has norm 0: 0 · ∞ = 0
    return np.sum(lengths * finite, axis=1) + 0.5 * ridge * np.sum(lengths**2, axis=1)


def lasso_duals(dual: Callable[[Array], Array], norms: Array, lengths: Array, thresholds: Array, ridge: float) -> Array:
    """Return the best lower bound found on the optimum of loss + Σⱼ aⱼ‖θⱼ‖ + ½b‖θⱼ‖², shape (batches,).

    The dual point is s r with the largest s ≤ 1 for which s‖gⱼ‖ ≤ aⱼ in every penalised group, and with b > 0 also
    r itself, less the conjugate Σⱼ (‖gⱼ‖ - aⱼ)₊²/(2b). The constraint gⱼ = 0 of an unpenalised group is reached by
    no scaling; by convexity the bound falls by at most ‖gⱼ‖‖θⱼ - θⱼ*‖, taken as 2‖gⱼ‖(‖θⱼ‖ + ‖gⱼ‖): enough to know when
    to stop, and no proof unless gⱼ = 0, which `certify` sees to.

    ``dual`` returns the loss's part of the dual at s r for s of shape (batches,). ``norms`` ‖gⱼ‖, ``lengths`` ‖θⱼ‖ and
    ``thresholds`` a have shape (batches, groups); a is infinite for a group that must stay out.
    """
    bound = np.isfinite(thresholds[0]) & (thresholds[0] > 0)
    worst = np.max(norms[:, bound] / thresholds[:, bound], axis=1, initial=0.0)
    scales = 1.0 / np.maximum(worst, 1.0)
    if ridge == 0:
        free = thresholds[0] == 0.0
        return dual(scales) - 2.0 * np.sum(norms[:, free] * (lengths + norms)[:, free], axis=1)

    def conjugate(point: Array) -> Array:
        return np.sum(np.maximum(point - thresholds, 0.0) ** 2, axis=1) / (2.0 * ridge)

    scaled = dual(scales) - conjugate(scales[:, None] * norms)
    return np.maximum(scaled, dual(np.ones_like(scales)) - conjugate(norms))


def sorted_dual_norm(norms: Array, sequence: Array) -> float:
    """Return maxₖ Σᵢ≤ₖ ‖g‖₍ᵢ₎ / Σᵢ≤ₖ wᵢ, the dual of the sorted norm Σᵢ wᵢ r₍ᵢ₎, for norms of shape (groups,).

    It is α_max at the empty model; one over it, at most 1, scales a dual point into the unit ball.
    """
    sums = np.cumsum(np.sort(norms)[::-1])
    allowed = np.cumsum(sequence)
    return float(np.max(sums / allowed)) if allowed[0] > 0.0 else np.inf


def allowed_slack(tol: float) -> float:
    """Return the largest ‖gradientⱼ‖/aⱼ of a dropped group that a relative gap of ``tol`` excuses.

    At a violation of 1 + ε the dual point is scaled by 1/(1 + ε), which costs about ε² of the loss.
    """
    return 1.0 + float(np.sqrt(tol))


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is proved about a solution.

    No other can be better by more than ``gap``, a share of the null loss, where ``tol`` was asked for. ``slack`` is for
    each dropped group its gradient's norm over the one at which it would enter, from 0 to 1; ``kept`` are the others.
    """

    gap: float
    tol: Size
    alpha: Size
    slack: dict[str, Size]
    kept: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"alpha {self.alpha:.4g}: optimal to {self.gap:.1e} of the null loss (asked for: {self.tol:.1e})"]
        lines += [f"{name} kept" for name in self.kept]
        nearest = sorted(self.slack.items(), key=lambda item: -item[1])
        lines += [f"{name} dropped: {share:.2f} of the way to entering" for name, share in nearest]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        """Return plain data that JSON can hold."""
        return to_plain(self)


def certify(
    problem: ConvexProblem,
    theta: Array,
    intercept: Array,
    alpha: float,
    penalty: Penalty,
    names: Sequence[str],
    tol: float,
) -> Certificate:
    """Recompute primal, dual, gap and optimality conditions in double precision; raise unless they hold.

    The problem is of one batch; ``theta`` (groups, m, outputs) and ``intercept`` (outputs,) are the solution in the
    solver's coordinates. `CertificateError` is raised when the relative gap exceeds ``tol``, a dropped group's gradient
    is too large to stay out, or no dual point was found at which the gradients of all unpenalised groups vanish: the
    gap would prove nothing.
    """
    convex, scores = checked_convex(penalty), problem.constant_scores(intercept[None])
    for group in np.flatnonzero(theta.any(axis=(1, 2))):
        scores[0] += theta[group].T @ problem.design.exact(np.array([group]))
    lengths = np.sqrt(np.sum(theta**2, axis=(1, 2)))
    # The dual point comes from the best intercept; the primal value from the one that was given.
    shifted = scores + problem.best_shifts(scores)[:, :, None]
    penalised, dual, slack = _bounds(problem, shifted, lengths, alpha, convex)
    null_loss = problem.explainable_loss(problem.constant_scores(problem.constants()))
    gap = (float(problem.loss(scores)[0]) + penalised - dual) / float(null_loss[0])
    if not gap <= tol:
        expected = f"a relative duality gap up to {tol:.2g}"
        raise CertificateError(describe("certificate", expected, f"{gap:.3g}", "solve to a smaller tol"))
    dropped = np.flatnonzero(lengths == 0.0)
    wrong = dropped[slack[dropped] > allowed_slack(tol)]
    if wrong.size:
        worst = int(wrong[np.argmax(slack[wrong])])
        got = f"{slack[worst]:.3g} times that of entering for {names[worst]!r} ({wrong.size} such groups)"
        expected = "dropped groups with gradients too small to enter"
        raise CertificateError(describe("certificate", expected, got, "solve again"))
    return Certificate(
        gap=gap,
        tol=tol,
        alpha=float(alpha),
        slack={names[int(group)]: float(min(slack[group], 1.0)) for group in dropped},
        kept=tuple(names[int(group)] for group in np.flatnonzero(lengths > 0.0)),
    )


def _bounds(
    problem: ConvexProblem, scores: Array, lengths: Array, alpha: float, penalty: ConvexPenalty
) -> tuple[float, float, Array]:
    """Return the penalty, the best dual value found near scores, and ‖gradientⱼ‖ relative to its bound (groups,)."""
    residuals, every = problem.residuals(scores), np.arange(lengths.size)
    if isinstance(penalty, SortedPenalty):
        norms, sequence = problem.exact_norms(residuals, every), alpha * penalty.sequence(every.size)
        dual = problem.dual(residuals, np.array([1.0 / max(sorted_dual_norm(norms, sequence), 1.0)]))
        return penalty.value(lengths, alpha), float(dual[0]), _sorted_slack(norms, lengths == 0.0, sequence)
    bars, ridge = penalty.lasso_and_ridge(every.size, alpha)
    free = np.flatnonzero((bars == 0.0) & (ridge == 0.0))
    if free.size:
        residuals = _orthogonal(problem, residuals, scores, free)
    norms = problem.exact_norms(residuals, every)
    slack = np.divide(norms, bars, out=np.zeros_like(norms), where=np.isfinite(bars) & (bars > 0))
    norms[free] = 0.0  # but for rounding
    given = lengths[None], bars[None], ridge
    dual = lasso_duals(lambda scales: problem.dual(residuals, scales), norms[None], *given)
    return float(lasso_values(*given)[0]), float(dual[0]), slack


def _orthogonal(problem: ConvexProblem, residuals: Array, scores: Array, free: Indices) -> Array:
    """Return residuals near the given ones, (1, outputs, rows), at which the gradients of free groups vanish.

    With A the free groups' columns and a constant, r - D A (AᵀWDA)⁻¹ AᵀW r; with D the curvature of the loss this is a
    Newton step of their fit, which hardly leaves the range of the means. D is the same for all outputs of a row, so
    that residuals that add up to 0 over the classes still do.
    """
    columns = np.vstack([np.ones(problem.design.n_rows), problem.design.exact(free)])
    weights = problem.weights[0]
    bends = np.maximum(problem.curvatures(scores)[0].mean(axis=0), SMALLEST_FLOAT)
    sizes = np.sqrt(columns**2 @ weights)[:, None] * np.sqrt(residuals[0] ** 2 @ weights)
    system = (columns * (weights * bends)) @ columns.T
    for _ in range(ORTHOGONAL_STEPS):
        sums: Array = columns @ (weights * residuals[0]).T
        if np.all(np.abs(sums) <= ORTHOGONAL * sizes):
            return residuals
        steps = np.asarray(np.linalg.lstsq(system, sums, rcond=None)[0], dtype=np.float64)
        moved: Array = bends * (steps.T @ columns)
        residuals = residuals - moved[None]
    expected, got = "a dual point for the unpenalised groups", "none"
    raise CertificateError(describe("certificate", expected, got, "solve to a smaller tol"))


def _sorted_slack(norms: Array, dropped: NDArray[np.bool_], sequence: Array) -> Array:
    """Return how far each dropped group is on the way to entering, shape (groups,), 0 for kept ones.

    With k groups kept, those dropped are optimal when the sum of their l largest gradient norms stays below
    w₍ₖ₊₁₎ + … + w₍ₖ₊ₗ₎ for every l; the l-th of them gets the ratio of the two sums.
    """
    slack = np.zeros_like(norms)
    groups = np.flatnonzero(dropped)
    order = groups[np.argsort(-norms[groups], kind="stable")]
    allowed = np.cumsum(sequence[norms.size - groups.size :])
    sums = np.cumsum(norms[order])
    slack[order] = np.divide(sums, allowed, out=np.where(sums > 0, np.inf, 0.0), where=allowed > 0)
    return slack
