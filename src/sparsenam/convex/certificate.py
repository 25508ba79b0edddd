"""The certificate: proof, checked from scratch, that a solution is optimal to a tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.design import Array, GroupedDesign, Indices
from sparsenam.convex.problem import (
    ConvexProblem,
    SortedPenalty,
    allowed_slack,
    check_convex,
    convex_problem,
    lasso_duals,
    sorted_dual_norm,
)
from sparsenam.errors import CertificateError, describe
from sparsenam.families import Family
from sparsenam.penalties import Penalty, WeightedLasso


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is proved about a solution.

    Attributes
    ----------
    gap
        Duality gap relative to the null loss: no other solution can be better by more.
    tol
        The gap that was asked for.
    slack
        For each dropped group its gradient's norm over the one at which it would enter, from 0 to 1.
    kept
        Names of the groups in the model.
    """

    gap: float
    tol: float
    alpha: float
    slack: dict[str, float]
    kept: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"alpha {self.alpha:.4g}: optimal to {self.gap:.1e} of the null loss (asked for: {self.tol:.1e})"]
        lines += [f"{name} kept" for name in self.kept]
        nearest = sorted(self.slack.items(), key=lambda item: -item[1])
        lines += [f"{name} dropped: {share:.2f} of the way to entering" for name, share in nearest]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that JSON can hold."""
        return {**asdict(self), "kept": list(self.kept)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the certificate that ``to_dict`` wrote down."""
        slack = {str(name): float(share) for name, share in data["slack"].items()}
        kept = tuple(str(name) for name in data["kept"])
        return cls(float(data["gap"]), float(data["tol"]), float(data["alpha"]), slack, kept)


def certify(
    design: GroupedDesign,
    target: Array,
    family: Family,
    weights: Array,
    theta: Array,
    intercept: Array,
    alpha: float,
    penalty: Penalty,
    names: Sequence[str],
    tol: float,
) -> Certificate:
    """Recompute primal, dual, gap and optimality conditions in double precision; raise unless they hold.

    Parameters
    ----------
    target, weights
        Shapes (rows, outputs) and (rows,).
    theta, intercept
        The solution in the solver's coordinates, shapes (groups, m, outputs) and (outputs,).

    Raises
    ------
    CertificateError
        When the relative gap exceeds ``tol`` or a dropped group's gradient is too large to stay out.
    """
    check_convex(penalty)
    problem = convex_problem(design, target, family, weights[None])
    scores = _effects(design, theta)[None] + intercept[None, :, None]
    lengths = np.sqrt(np.sum(theta**2, axis=(1, 2)))
    # The dual point comes from the best intercept; the primal value from the one that was given.
    residuals = problem.residuals(scores + problem.best_shifts(scores)[:, :, None])
    norms = problem.exact_norms(residuals, np.arange(design.n_groups))
    primal = float(problem.loss(scores)[0]) + penalty.value(lengths, alpha)
    dual, slack = _dual_and_slack(problem, residuals, norms, lengths, alpha, penalty)
    gap = (primal - dual) / float(problem.explainable_loss(problem.constant_scores(problem.constants()))[0])
    if not gap <= tol:
        expected = f"a relative duality gap up to {tol:.2g}"
        raise CertificateError(describe("certificate", expected, f"{gap:.3g}", "solve to a smaller tol"))
    dropped = np.flatnonzero(lengths == 0.0)
    _check_slack(slack, dropped, names, tol)
    return Certificate(
        gap=gap,
        tol=tol,
        alpha=float(alpha),
        slack={names[int(group)]: float(min(slack[group], 1.0)) for group in dropped},
        kept=tuple(names[int(group)] for group in np.flatnonzero(lengths > 0.0)),
    )


def _dual_and_slack(
    problem: ConvexProblem, residuals: Array, norms: Array, lengths: Array, alpha: float, penalty: Penalty
) -> tuple[float, Array]:
    """Return the best dual value found and ‖gradientⱼ‖ relative to its bound, shape (groups,)."""
    if isinstance(penalty, SortedPenalty):
        sequence = alpha * penalty.sequence(norms.size)
        dual = problem.dual(residuals, np.array([1.0 / max(sorted_dual_norm(norms, sequence), 1.0)]))
        return float(dual[0]), _sorted_slack(norms, lengths == 0.0, sequence)
    assert isinstance(penalty, WeightedLasso)
    bars, ridge = penalty.lasso_and_ridge(norms.size, alpha)
    dual = lasso_duals(lambda scales: problem.dual(residuals, scales), norms[None], lengths[None], bars, ridge)
    bound = np.isfinite(bars) & (bars > 0)
    return float(dual[0]), np.where(bound, norms / np.where(bound, bars, 1.0), 0.0)


def _effects(design: GroupedDesign, theta: Array) -> Array:
    """Return Qθ, shape (outputs, rows), in double precision."""
    total = np.zeros((theta.shape[2], design.n_rows))
    for group in np.flatnonzero(theta.any(axis=(1, 2))):
        total += theta[group].T @ design.blocks[group].astype(np.float64)
    return total


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


def _check_slack(slack: Array, dropped: Indices, names: Sequence[str], tol: float) -> None:
    wrong = dropped[slack[dropped] > allowed_slack(tol)]
    if wrong.size:
        worst = int(wrong[np.argmax(slack[wrong])])
        got = f"{slack[worst]:.3g} times that of entering for {names[worst]!r} ({wrong.size} such groups)"
        expected = "dropped groups with gradients too small to enter"
        raise CertificateError(describe("certificate", expected, got, "solve again"))
