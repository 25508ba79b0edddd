"""Full-batch proximal gradient descent with backtracking, plain or accelerated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sparsenam.training.problem import Gradient, Problem, proximal_step
from sparsenam.training.solvers import Memory
from sparsenam.training.state import Epoch, deactivated, require_finite, zero_groups

GROWTH, CUT = 1.1, 0.7  # the step tries to grow after each success and is cut after each failure
SMALLEST_STEP = 1e-30
ROUNDING = 1e-11  # changes of the loss below this share of it drown in rounding


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """θ and intercept together."""

    theta: Tensor
    intercept: Tensor

    def beyond(self, other: Point, share: float) -> Point:
        """Return this point pushed on by a share of its distance from ``other``."""
        return Point(
            self.theta + share * (self.theta - other.theta),
            self.intercept + share * (self.intercept - other.intercept),
        )

    def product(self, other: Point) -> float:
        """Return the inner product."""
        return float((self.theta * other.theta).sum() + (self.intercept * other.intercept).sum())

    def minus(self, other: Point) -> Point:
        """Return the difference."""
        return Point(self.theta - other.theta, self.intercept - other.intercept)

    def largest(self) -> float:
        """Return the largest absolute entry."""
        sizes = [float(tensor.abs().max()) for tensor in (self.theta, self.intercept) if tensor.numel()]
        return max(sizes, default=0.0)

    def rows(self, chosen: Tensor) -> Point:
        """Return the point with some rows of θ alone."""
        return Point(self.theta[chosen], self.intercept)


def descend(problem: Problem, start: Epoch, accelerated: bool) -> Iterator[Epoch]:
    """Yield one iterate after another, for ever.

    Each iteration takes a proximal gradient step whose length is found by backtracking on the quadratic upper
    bound. Accelerated, steps start from Nesterov's extrapolated point (Beck and Teboulle, 2009), with a
    restart whenever the extrapolation points uphill (O'Donoghue and Candès, 2015). ``stationarity`` is the
    largest entry of (point - proximal step from the point)/step, which is zero exactly at a stationary point.
    """
    parameters = start.parameters
    problem = problem.restricted_to(parameters.active)
    current = Point(parameters.theta, parameters.intercept)
    ahead, momentum, step = _recall(start, current)
    number = start.number
    while True:
        smooth = problem.gradient(ahead.theta, ahead.intercept)
        require_finite(problem, smooth.loss, smooth.theta, number + 1, step)
        reached, after, step, sure = _search(problem, ahead, smooth, step)
        number += 1
        stationarity = reached.minus(ahead).largest() / step
        restart = not accelerated or ahead.minus(reached).product(reached.minus(current)) > 0
        following = 1.0 if restart else 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = reached if restart else reached.beyond(current, (momentum - 1.0) / following)
        momentum, current = following, reached
        parameters = replace(parameters, theta=current.theta, intercept=current.intercept)
        zero = zero_groups(problem, parameters)
        if zero.any():
            active = torch.as_tensor(~zero)
            parameters = deactivated(parameters, zero)
            problem = problem.restricted_to(np.flatnonzero(~zero))
            current, ahead = current.rows(active), ahead.rows(active)
        penalty = problem.penalty_value(current.theta)
        step *= GROWTH if sure else 1.0
        memories = _remember(ahead, momentum, step)
        yield Epoch(number, after, penalty, parameters, memories, step, stationarity)


def _search(problem: Problem, ahead: Point, smooth: Gradient, step: float) -> tuple[Point, float, float, bool]:
    """Return the point reached, the smooth part there, and the step, cut until the quadratic bound holds.

    Close to the end the bound is below the rounding of the loss; then the step is taken as it is, and the
    last answer says that it was not tested.
    """
    slope = Point(smooth.theta, smooth.intercept)
    while True:
        reached = Point(
            proximal_step(problem, ahead.theta - step * slope.theta, step),
            ahead.intercept - step * slope.intercept,
        )
        change = reached.minus(ahead)
        curvature = change.product(change) / (2.0 * step)
        after = problem.value(reached.theta, reached.intercept)
        sure = curvature > ROUNDING * abs(smooth.loss)
        if not sure or after <= smooth.loss + slope.product(change) + curvature or step < SMALLEST_STEP:
            return reached, after, step, sure
        step *= CUT


def _remember(ahead: Point, momentum: float, step: float) -> tuple[Memory, Memory]:
    scalars = torch.tensor([momentum, step], dtype=ahead.theta.dtype)
    return Memory(1, (ahead.theta,)), Memory(1, (ahead.intercept, scalars))


def _recall(start: Epoch, current: Point) -> tuple[Point, float, float]:
    moved, rest = start.memories
    if not moved.tensors:
        return current, 1.0, 1.0
    momentum, step = (float(number) for number in rest.tensors[1])
    return Point(moved.tensors[0], rest.tensors[0]), momentum, step
