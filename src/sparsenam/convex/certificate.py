"""The certificate: proof, checked from scratch, that a solution is optimal to a tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sparsenam.convex.design import Array, GroupedDesign
from sparsenam.convex.newton import settle_intercepts
from sparsenam.convex.path import SortedPenalty, check_convex
from sparsenam.convex.problem import (
    ConvexProblem,
    allowed_slack,
    convex_problem,
    dual_scales,
    free_slack,
    ridge_conjugate,
    sorted_scale,
    sorted_slack,
)
from sparsenam.errors import CertificateError, describe
from sparsenam.families import Family
from sparsenam.penalties import Penalty, WeightedLasso

CHUNK = 4_000_000  # numbers of the design held in double precision at once


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
        For each dropped feature its gradient's norm over the one at which it would enter, from 0 to 1.
    kept
        Names of the features in the model.
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
        return {
            "gap": self.gap,
            "tol": self.tol,
            "alpha": self.alpha,
            "slack": dict(self.slack),
            "kept": list(self.kept),
        }

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
        The solution in the solver's coordinates, shapes (features, m, outputs) and (outputs,).

    Raises
    ------
    CertificateError
        When the relative gap exceeds ``tol`` or a dropped feature's gradient is too large to stay out.
    """
    check_convex(penalty)
    problem = convex_problem(design, target, family, weights[None])
    effects = _effects(design, theta)[None]
    scores = effects + intercept[None, :, None]
    lengths = np.sqrt(np.sum(theta**2, axis=(1, 2)))
    # The dual point comes from the best intercept; the primal value from the one that was given.
    shifts = settle_intercepts(problem, scores)
    residuals = problem.residuals(scores + shifts[:, :, None])
    norms = _norms(problem, residuals[0])
    primal = float(problem.loss(scores)[0]) + penalty.value(lengths, alpha)
    dual, slack = _dual_and_slack(problem, residuals, norms, lengths, alpha, penalty)
    gap = (primal - dual) / _null_loss(problem)
    _check_gap(gap, tol)
    dropped = [j for j, length in enumerate(lengths) if length == 0.0]
    _check_slack(slack, dropped, names, tol)
    return Certificate(
        gap=gap,
        tol=tol,
        alpha=float(alpha),
        slack={names[j]: float(min(slack[j], 1.0)) for j in dropped},
        kept=tuple(names[j] for j, length in enumerate(lengths) if length > 0.0),
    )


def _dual_and_slack(
    problem: ConvexProblem, residuals: Array, norms: Array, lengths: Array, alpha: float, penalty: Penalty
) -> tuple[float, Array]:
    """Return the best dual value found and ‖gradientⱼ‖ relative to its bound, shape (features,)."""
    rows = norms[None]
    if isinstance(penalty, SortedPenalty):
        sequence = alpha * penalty.sequence(norms.size)
        dual = problem.dual(residuals, np.array([sorted_scale(norms, sequence)]))
        return float(dual[0]), sorted_slack(norms, lengths == 0.0, sequence)
    assert isinstance(penalty, WeightedLasso)
    bars, ridge = penalty.lasso_and_ridge(norms.size, alpha)
    scales = dual_scales(rows, bars)
    dual = problem.dual(residuals, scales)
    if ridge > 0:
        dual = dual - ridge_conjugate(scales[:, None] * rows, bars, ridge)
        plain = problem.dual(residuals, np.ones(1)) - ridge_conjugate(rows, bars, ridge)
        dual = np.maximum(dual, plain)
    else:
        dual = dual - free_slack(rows, lengths[None], bars)
    bound = np.isfinite(bars) & (bars > 0)
    return float(dual[0]), np.where(bound, norms / np.where(bound, bars, 1.0), 0.0)


def _effects(design: GroupedDesign, theta: Array) -> Array:
    """Return Qθ, shape (outputs, rows), in double precision."""
    total = np.zeros((theta.shape[2], design.n_rows))
    for j in np.flatnonzero(theta.any(axis=(1, 2))):
        total += theta[j].T @ design.blocks[j].astype(np.float64)
    return total


def _norms(problem: ConvexProblem, residuals: Array) -> Array:
    """Return ‖Qⱼᵀ W r‖, shape (features,), in double precision, a chunk of features at a time."""
    design = problem.design
    weighted = (problem.weights[0] * residuals).T
    step = max(1, CHUNK // (design.width * design.n_rows))
    chunks = [design.blocks[first : first + step] for first in range(0, design.n_features, step)]
    gradients = [np.matmul(chunk.astype(np.float64), weighted) for chunk in chunks]
    return np.concatenate([np.sqrt(np.sum(gradient**2, axis=(1, 2))) for gradient in gradients])


def _null_loss(problem: ConvexProblem) -> float:
    """Return what the features could explain at most: the null model's loss above a perfect fit's."""
    constant = np.repeat(problem.constants()[:, :, None], problem.design.n_rows, axis=2)
    perfect = problem.dual(np.zeros_like(constant), np.zeros(1))
    return max(float((problem.loss(constant) - perfect)[0]), float(np.finfo(float).tiny))


def _check_gap(gap: float, tol: float) -> None:
    if not gap <= tol:
        raise CertificateError(
            describe(
                "certificate",
                f"a relative duality gap up to {tol:.2g}",
                f"{gap:.3g}",
                "solve to a smaller tol",
            )
        )


def _check_slack(slack: Array, dropped: Sequence[int], names: Sequence[str], tol: float) -> None:
    wrong = [j for j in dropped if slack[j] > allowed_slack(tol)]
    if wrong:
        worst = max(wrong, key=lambda j: slack[j])
        got = f"{slack[worst]:.3g} times that of entering for {names[worst]!r} ({len(wrong)} such features)"
        raise CertificateError(
            describe("certificate", "dropped features with gradients too small to enter", got, "solve again")
        )
