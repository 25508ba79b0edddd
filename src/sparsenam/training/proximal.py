"""Proximal steps on the rows of θ, in the metric of the optimizer."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sparsenam.penalties import WeightedLasso
from sparsenam.training.problem import Problem

ROOT_STEPS = 20


def proximal_step(problem: Problem, theta: Tensor, step: Tensor | float) -> Tensor:
    """Return argmin over Θ of ½‖Θ - θ‖²/step + α φ(‖Θ₁‖, …), for step a number, one a row, or one an entry.

    Only the columns of the group move. With one step an entry the penalty must be a weighted LASSO.
    """
    columns = problem.group
    if isinstance(step, Tensor) and step.shape[1] > 1:
        shrunk = _shrink_in_metric(problem, theta[:, columns], step[:, columns])
    else:
        shrunk = _shrink_rows(problem, theta, step)
    result = theta.clone()
    result[:, columns] = shrunk
    return result


def _shrink_rows(problem: Problem, theta: Tensor, step: Tensor | float) -> Tensor:
    rows = theta[:, problem.group]
    norms = problem.norms(theta)
    steps = np.ones(problem.n_features)
    steps[problem.features] = step[:, 0].double().cpu().numpy() if isinstance(step, Tensor) else step
    shrunk = problem.penalty.shrink(norms, problem.alpha, steps)
    factors = np.divide(shrunk, norms, out=np.zeros_like(norms), where=norms > 0)[problem.features]
    return rows * torch.as_tensor(factors, dtype=rows.dtype, device=rows.device)[:, None]


def _shrink_in_metric(problem: Problem, rows: Tensor, steps: Tensor) -> Tensor:
    """Solve each row's problem ½Σᵢ(Θᵢ - uᵢ)²/sᵢ + a‖Θ‖ + ½b‖Θ‖².

    The ridge joins the metric (s ← s/(1 + sb), u ← u/(1 + sb)). What is left has Θᵢ = uᵢ r/(r + a sᵢ) with
    r = ‖Θ‖ the root of F(r) = ‖u/(r + as)‖ = 1, and Θ = 0 when F(0) ≤ 1. As 1/F is concave, Newton's method
    on 1/F - 1 climbs to the root from any lower bound, such as ‖u‖ - a max s, without overshooting.
    """
    penalty = problem.penalty
    assert isinstance(penalty, WeightedLasso)
    lasso, ridge = penalty.lasso_and_ridge(problem.n_features, problem.alpha)
    if rows.numel() == 0 or (not lasso.any() and ridge == 0.0):
        return rows
    thresholds = torch.as_tensor(lasso[problem.features], dtype=rows.dtype, device=rows.device)[:, None]
    damping = 1.0 + steps * ridge
    centers = rows / damping
    pulls = thresholds * (steps / damping)
    # a group goes to zero when ‖u/(as)‖ ≤ 1; where a is zero the ratio is infinite and the group stays
    alive = (centers / pulls).nan_to_num_(nan=0.0).square_().sum(1, keepdim=True) > 1.0
    tiny = torch.finfo(rows.dtype).tiny
    farthest = pulls.amax(1, keepdim=True).clamp_max(torch.finfo(rows.dtype).max)
    root = (centers.square().sum(1, keepdim=True).sqrt() - farthest).clamp_min_(0.0)
    for _ in range(ROOT_STEPS):
        inverse = (pulls + root).clamp_min_(tiny).reciprocal_()
        squares = (centers * inverse).square_()
        size = squares.sum(1, keepdim=True).sqrt_()
        drop = squares.mul_(inverse).sum(1, keepdim=True)
        # Newton on 1/F - 1: (1/F)' = drop/F³
        change = torch.where(alive, (size - 1.0) * size.square() / drop.clamp_min(tiny), 0.0)
        change = change.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        root = (root + change).clamp_min_(0.0)
        if bool((change.abs() <= 8 * torch.finfo(rows.dtype).eps * root).all()):
            break
    shrunk = centers * (root / (root + pulls).clamp_min_(tiny))
    shrunk = torch.where(alive, shrunk, 0.0)
    return torch.where(thresholds == 0, centers, shrunk)
