"""The objective of a fit (mean loss, NAM's regularisers and a group penalty) and its proximal steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.families import Family
from sparsenam.networks.bank import Dropout, SubnetBank
from sparsenam.networks.stacked import UnitFunctions
from sparsenam.penalties import Penalty, WeightedLasso
from sparsenam.training.network import Regularizers
from sparsenam.training.processes import ALONE, Processes
from sparsenam.training.rows import TrainingBlocks, TrainingRows

NO_REGULARIZERS = Regularizers()
PARAMETER_ROWS_AT_ONCE = 2**26  # parameters × rows that one evaluation may touch: about 1 GB of hidden layers


@dataclass(frozen=True, slots=True, eq=False)
class Gradient:
    """The smooth part of the objective at one point, and its derivatives."""

    loss: float
    theta: Tensor
    intercept: Tensor

    def times(self, factor: float) -> Gradient:
        return Gradient(factor * self.loss, factor * self.theta, factor * self.intercept)

    def plus(self, other: Gradient) -> Gradient:
        return Gradient(self.loss + other.loss, self.theta + other.theta, self.intercept + other.intercept)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """(1/n) Σᵢ wᵢ loss(yᵢ, β + Σⱼ hⱼ(xᵢⱼ)) + regularisers + α φ(group norms).

    ``x`` is (terms, rows), ``target`` (rows, outputs), ``weights`` (rows,) with mean 1. ``terms`` are the indices of
    this problem's terms among the ``n_terms`` that the penalty sees; ``group`` are the columns of θ whose norm is
    penalised; ``names`` are those of the terms, for errors. Where there is a ``source``, its rows are trained on, and
    those in memory are a sample of them. Several ``processes`` share the rows of every sum.
    """

    bank: SubnetBank
    family: Family
    penalty: Penalty
    alpha: float
    group: slice
    x: Tensor
    target: Tensor
    weights: Tensor
    terms: NDArray[np.intp]
    n_terms: int
    regularizers: Regularizers = NO_REGULARIZERS
    source: TrainingBlocks | None = None
    processes: Processes = ALONE
    names: Mapping[int, str] = field(default_factory=dict[int, str])

    @property
    def n_rows(self) -> int:
        return self.x.shape[1] if self.source is None else self.source.n_rows

    def restricted_to(self, indices: NDArray[np.intp]) -> Self:
        """Return the problem of some of its terms alone."""
        chosen = torch.as_tensor(indices)
        return replace(self, bank=self.bank.take(indices), x=self.x[chosen], terms=self.terms[indices])

    def on_rows(self, rows: Tensor) -> Self:
        return replace(self, x=self.x[:, rows], target=self.target[rows], weights=self.weights[rows])

    def parts(self) -> Iterator[Problem]:
        """Yield the problem on its rows, on some at a time where not all are in memory."""
        if self.source is None:
            yield self
            return
        for rows in self.source.in_order():
            yield self._of(rows)

    def shuffled(self, generator: np.random.Generator, multiple: int) -> Iterator[Problem]:
        """Yield the same with rows in random order, a multiple of so many each time but the last."""
        if self.source is None:
            yield self.on_rows(torch.as_tensor(generator.permutation(self.n_rows)))
            return
        for rows in self.source.shuffled(generator, multiple):
            yield self._of(rows)

    def _of(self, rows: TrainingRows) -> Problem:
        assert self.source is not None
        places = np.flatnonzero(np.isin(self.source.terms, self.terms))
        x, target, weights = (
            torch.as_tensor(array, dtype=self.x.dtype, device=self.x.device)
            for array in (rows.x[places], rows.target, rows.weights)
        )
        return replace(self, x=x, target=target, weights=weights, source=None)

    def norms(self, theta: Tensor) -> NDArray[np.float64]:
        """Return the group norms of all terms, 0 for those outside, shape (n_terms,)."""
        norms = np.zeros(self.n_terms)
        norms[self.terms] = theta[:, self.group].square().sum(1).sqrt().double().cpu().numpy()
        return norms

    def penalty_value(self, theta: Tensor) -> float:
        return self.penalty.value(self.norms(theta), self.alpha)

    def gradient(
        self, theta: Tensor, intercept: Tensor, rows: slice | None = None, noise: torch.Generator | None = None
    ) -> Gradient:
        """Return the smooth part and its gradient, on all rows or on a slice of those in memory."""
        if rows is None and self.source is not None:
            total, n_rows = Gradient(0.0, torch.zeros_like(theta), torch.zeros_like(intercept)), 0
            for part in self.parts():
                total = total.plus(part.gradient(theta, intercept).times(part.n_rows))
                n_rows += part.n_rows
            return total.times(1.0 / n_rows)
        rows = slice(0, self.n_rows) if rows is None else rows
        # other processes may have all the rows
        total = Gradient(0.0, torch.zeros_like(theta), torch.zeros_like(intercept))
        for number, chunk in enumerate(self._chunks(rows)):
            part = self._gradient_of(theta, intercept, chunk, noise, rows.stop - rows.start)
            total = part if number == 0 else total.plus(part)
        if not self.processes.alone:
            loss = torch.tensor([total.loss], dtype=theta.dtype, device=theta.device)
            by_theta, by_intercept, loss = self.processes.total(total.theta, total.intercept, loss)
            total = Gradient(float(loss), by_theta, by_intercept)
        decay = self.regularizers.weight_decay
        if decay == 0.0:
            return total
        ridge = 0.5 * decay * float(theta.square().sum())
        return Gradient(total.loss + ridge, total.theta + decay * theta, total.intercept)

    def value(self, theta: Tensor, intercept: Tensor) -> float:
        """Return the smooth part on all rows, without dropout."""
        total, n_rows = 0.0, 0
        with torch.no_grad():
            for part in self.parts():
                for chunk in part._chunks(slice(0, part.n_rows)):
                    effects = part._effects(theta, chunk, None)
                    total += float(part._loss(intercept + effects.sum(0), effects, chunk))
                n_rows += part.n_rows
        if not self.processes.alone:
            total = float(self.processes.total(torch.tensor([total], dtype=torch.float64, device=theta.device))[0])
        return total / n_rows + 0.5 * self.regularizers.weight_decay * float(theta.square().sum())

    def _loss(self, scores: Tensor, effects: Tensor, rows: slice) -> Tensor:
        """Return the weighted sum of the rows' losses, and of the squares of their effects where these cost."""
        losses, penalty = self.family.loss(scores, self.target[rows]), self.regularizers.output_penalty
        if penalty > 0:
            losses = losses + penalty / self.n_terms * effects.square().sum(2).sum(0)
        return (losses * self.weights[rows]).sum()

    def _gradient_of(
        self, theta: Tensor, intercept: Tensor, rows: slice, noise: torch.Generator | None, n_rows: int
    ) -> Gradient:
        """Return what some of ``n_rows`` rows add to their mean loss and its gradient."""
        target, weights, settings = self.target[rows], self.weights[rows], self.regularizers
        leaf = theta.detach().requires_grad_()
        dropout = Dropout(settings.dropout, noise) if noise is not None and settings.dropout > 0 else None
        effects = self._effects(leaf, rows, dropout)
        heard = effects.detach()
        mask = None
        if noise is not None and settings.feature_dropout > 0:
            mask = Dropout(settings.feature_dropout, noise).mask(heard[:, :, :1])
            heard = heard * mask
        scores = intercept + heard.sum(0)
        loss = float(self._loss(scores, effects.detach(), rows) / n_rows)
        by_score = self.family.gradient(scores, target) * (weights / n_rows)[:, None]
        by_effect = by_score.expand(effects.shape) if mask is None else by_score * mask
        if settings.output_penalty > 0:
            factor = settings.output_penalty / (n_rows * self.n_terms)
            by_effect = by_effect + 2.0 * factor * effects.detach() * weights[:, None]
        (by_theta,) = torch.autograd.grad(effects, leaf, by_effect)
        padding = self.bank.padding()
        if padding is not None:
            by_theta = by_theta.masked_fill(torch.as_tensor(padding, device=by_theta.device), 0.0)
        return Gradient(loss, by_theta, by_score.sum(0))

    def _effects(self, theta: Tensor, rows: slice, dropout: Dropout | None) -> Tensor:
        if isinstance(self.bank, UnitFunctions):
            return self.bank.effects(theta, self.x[:, rows], dropout, self.weights[rows])
        return self.bank.effects(theta, self.x[:, rows], dropout)

    def _chunks(self, rows: slice) -> Iterator[slice]:
        """Yield this process's share of some rows, as many at a time as memory holds."""
        # unit functions take their size from all the rows they are given, so these stay together
        together = isinstance(self.bank, UnitFunctions)
        rows = self.processes.share(rows, divides=not together)
        cells = max(1, self.x.shape[0] * self.bank.size // 10)
        size = max(1, rows.stop - rows.start if together else PARAMETER_ROWS_AT_ONCE // cells)
        for first in range(rows.start, rows.stop, size):
            yield slice(first, min(first + size, rows.stop))


TRAINING_ROOT_STEPS = 20
SAFETY = 0.1  # of a Newton step after which the error is below the rounding


def proximal_step(problem: Problem, theta: Tensor, step: Tensor | float) -> Tensor:
    """Return argmin over Θ of ½‖Θ - θ‖²/step + α φ(‖Θ₁‖, …), for step a number, one a row, or one an entry.

    Only the columns of the group move. With one step an entry the penalty must be a weighted LASSO.
    """
    columns = problem.group
    if isinstance(step, Tensor) and step.shape[1] > 1:
        shrunk = _shrink_in_metric(problem, theta[:, columns], step[:, columns])
    else:
        norms, steps = problem.norms(theta), np.ones(problem.n_terms)
        steps[problem.terms] = step[:, 0].double().cpu().numpy() if isinstance(step, Tensor) else step
        shrunk = with_norms(problem, theta, norms, problem.penalty.shrink(norms, problem.alpha, steps))
    if shrunk.shape == theta.shape:
        return shrunk
    result = theta.clone()
    result[:, columns] = shrunk
    return result


def with_norms(problem: Problem, theta: Tensor, norms: NDArray[np.float64], wanted: NDArray[np.float64]) -> Tensor:
    """Return the group's columns of θ, whose norms are ``norms``, with other norms; zero rows stay zero."""
    rows = theta[:, problem.group]
    factors = np.divide(wanted, norms, out=np.zeros_like(norms), where=norms > 0)[problem.terms]
    return rows * torch.as_tensor(factors, dtype=rows.dtype, device=rows.device)[:, None]


def _shrink_in_metric(problem: Problem, rows: Tensor, steps: Tensor) -> Tensor:
    """Solve each row's problem ½Σᵢ(Θᵢ - uᵢ)²/sᵢ + a‖Θ‖ + ½b‖Θ‖².

    The ridge joins the metric (s ← s/(1 + sb), u ← u/(1 + sb)). What is left has Θᵢ = uᵢ r/(r + a sᵢ) with
    r = ‖Θ‖ the root of F(r) = ‖u/(r + as)‖ = 1, and Θ = 0 when F(0) ≤ 1. As 1/F is concave, Newton's method
    on 1/F - 1 is at or below the root after one step from anywhere, and then climbs to it. It starts from
    ‖u‖ - a Σu²s/‖u‖², which is the root up to second order in as/‖u‖; the error of a step is of the order of the square
    of the step, so that a step below the root of the rounding is the last.
    """
    penalty = problem.penalty
    assert isinstance(penalty, WeightedLasso)
    lasso, ridge = penalty.lasso_and_ridge(problem.n_terms, problem.alpha)
    if rows.numel() == 0 or (not lasso.any() and ridge == 0.0):
        return rows
    thresholds = torch.as_tensor(lasso[problem.terms], dtype=rows.dtype, device=rows.device)[:, None]
    centers, pulls = rows, thresholds * steps
    if ridge > 0.0:
        damping = 1.0 + steps * ridge
        centers, pulls = rows / damping, thresholds * (steps / damping)
    # a group goes to zero when ‖u/(as)‖ ≤ 1; where a is zero the ratio is infinite and the group stays
    alive = (centers / pulls).nan_to_num_(nan=0.0).square_().sum(1, keepdim=True) > 1.0
    root = _root(centers, pulls, alive)
    shrunk = centers * (root / (root + pulls).clamp_min_(torch.finfo(rows.dtype).tiny))
    if not bool(alive.all()):
        shrunk = torch.where(alive, shrunk, 0.0)
    return shrunk if lasso.all() else torch.where(thresholds == 0, centers, shrunk)


def _root(centers: Tensor, pulls: Tensor, alive: Tensor) -> Tensor:
    """Return r with ‖u/(r + p)‖ = 1 for each row of centers u and pulls p, shape (rows, 1), where it is alive."""
    numbers = torch.finfo(centers.dtype)
    last_step = SAFETY * numbers.eps**0.5
    squares = centers.square()
    total = squares.sum(1, keepdim=True)
    mean_pull = squares.mul_(pulls).sum(1, keepdim=True) / total.clamp_min(numbers.tiny)
    # a lower bound where pulls are too large for the expansion, or not finite
    root = (total.sqrt() - mean_pull.nan_to_num_(nan=numbers.max, posinf=numbers.max)).clamp_min_(0.0)
    for _ in range(TRAINING_ROOT_STEPS):
        inverse = (pulls + root).clamp_min_(numbers.tiny).reciprocal_()
        squares = (centers * inverse).square_()
        size = squares.sum(1, keepdim=True).sqrt_()
        drop = squares.mul_(inverse).sum(1, keepdim=True)
        # Newton on 1/F - 1: (1/F)' = drop/F³
        change = torch.where(alive, (size - 1.0) * size.square() / drop.clamp_min(numbers.tiny), 0.0)
        change = change.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        root = (root + change).clamp_min_(0.0)
        if bool((change.abs() <= last_step * root).all()):
            break
    return root
