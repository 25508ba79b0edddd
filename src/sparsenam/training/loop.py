"""Training as a generator of epochs, by mini-batches or by full-batch descent; others decide when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.context import Streams
from sparsenam.training.network import TrainingPlan
from sparsenam.training.problem import Gradient, Problem, proximal_step
from sparsenam.training.solvers import Memory, Solver, UpdateRule
from sparsenam.training.state import Diverged, Epoch, Parameters, deactivated, require_finite, zero_groups

# an epoch's mean loss above this many times that of the empty model, or of the start, is divergence:
# raw columns of large numbers start far above the former and come down
HOPELESS = 1e4


def train(
    problem: Problem,
    start: Epoch,
    plan: TrainingPlan,
    streams: Streams,
    out_of_time: Callable[[], bool] = lambda: False,
) -> Iterator[Epoch]:
    """Yield the state after each epoch that follows ``start``.

    The batches of each epoch come from a separate random stream, so that going on from a stored epoch gives the
    same numbers as never having stopped. A group that becomes zero is dropped from the computation at once.
    """
    parameters, memories, solver = start.parameters, start.memories, plan.solver
    problem = problem.restricted_to(parameters.active)
    number = start.number
    null_loss, first_loss = max(_null_loss(problem), 1e-6), None
    while True:
        noise = _noise(problem, streams, number)
        losses, shuffled, latest = list[float](), problem, None
        rate, whole = plan.rate(number), True
        # of rows that are not in memory, those of weight 0 are counted in
        expected = math.ceil(problem.n_rows / plan.rows_of_step(problem.n_rows))
        for batch, (part, rows) in enumerate(_batches(problem, plan, streams, number)):
            if part is not latest:  # groups may have become zero since the epoch began
                shuffled, latest = _of_terms(part, problem.terms), part
            rate = plan.rate(number + min(1.0, batch / expected))
            smooth = shuffled.gradient(parameters.theta, parameters.intercept, rows, noise)
            parameters, memories = _step(shuffled, solver, parameters, memories, smooth, rate, number + 1)
            losses.append(smooth.loss)
            first_loss = smooth.loss if first_loss is None else first_loss
            zero = zero_groups(problem, parameters) if solver.proximal else None
            if zero is not None and zero.any():
                active = np.flatnonzero(~zero)
                parameters = deactivated(parameters, zero)
                memories = (memories[0].take(torch.as_tensor(active)), memories[1])
                problem, shuffled = problem.restricted_to(active), shuffled.restricted_to(active)
            if out_of_time():
                whole = batch + 1 >= expected
                break
        number += 1
        if np.mean(losses) > HOPELESS * max(null_loss, first_loss or 0.0):
            largest = int(np.argmax(problem.norms(parameters.theta)))
            raise Diverged(number, rate, largest if parameters.active.size else None)
        penalty = problem.penalty_value(parameters.theta)
        yield Epoch(number, float(np.mean(losses)), penalty, parameters, memories, rate, whole=whole)


def _null_loss(problem: Problem) -> float:
    target, weights = problem.target.double().cpu().numpy(), problem.weights.double().cpu().numpy()
    constant = np.broadcast_to(problem.family.best_constant(target, weights), target.shape)
    return float(np.average(problem.family.loss(constant, target), weights=weights))


def _step(
    problem: Problem,
    solver: Solver,
    parameters: Parameters,
    memories: tuple[Memory, Memory],
    smooth: Gradient,
    rate: float,
    epoch: int,
) -> tuple[Parameters, tuple[Memory, Memory]]:
    gradient = smooth.theta if solver.proximal else smooth.theta + _subgradient(problem, parameters.theta)
    theta, step, memory = _moved(solver.rule, parameters.theta, gradient, memories[0], rate)
    require_finite(problem, smooth.loss, theta, epoch, rate)
    if solver.proximal:
        theta = proximal_step(problem, theta, step)
    intercept, _, intercept_memory = _moved(
        solver.rule, parameters.intercept[None], smooth.intercept[None], memories[1], rate
    )
    # another kind of processor rounds differently, and a group that is zero must be so for all
    theta, intercept = problem.processes.agreed(theta, intercept[0])
    return replace(parameters, theta=theta, intercept=intercept), (memory, intercept_memory)


def _moved(
    rule: UpdateRule, point: Tensor, gradient: Tensor, memory: Memory, rate: float
) -> tuple[Tensor, Tensor | float, Memory]:
    move = rule.move(gradient, memory)
    if move.metric is None:
        return point - rate * move.direction, rate, move.memory
    step = rate * move.metric
    return point - step * move.direction, step, move.memory


def _subgradient(problem: Problem, theta: Tensor) -> Tensor:
    """Return slopeⱼ Θⱼ/‖Θⱼ‖ on the group's columns; the subgradient of a zero group is zero."""
    norms = problem.norms(theta)
    slopes = problem.penalty.slope(norms, problem.alpha)
    factors = np.divide(slopes, norms, out=np.zeros_like(norms), where=norms > 0)[problem.terms]
    result = torch.zeros_like(theta)
    columns = problem.group
    result[:, columns] = theta[:, columns] * torch.as_tensor(factors, dtype=theta.dtype, device=theta.device)[:, None]
    return result


def _of_terms(part: Problem, terms: NDArray[np.intp]) -> Problem:
    """Return a part of the rows for some of its terms, given as the problem has them."""
    if part.terms.size == terms.size:
        return part
    return part.restricted_to(np.flatnonzero(np.isin(part.terms, terms)))


def _noise(problem: Problem, streams: Streams, number: int) -> torch.Generator | None:
    if not problem.regularizers.random:
        return None
    generator = torch.Generator(device=problem.x.device)
    place = problem.processes.place  # each has other rows, which are not to lose the same units
    generator.manual_seed(streams.integer(f"dropout/{number}" + (f"/{place}" if place else "")))
    return generator


def _batches(problem: Problem, plan: TrainingPlan, streams: Streams, number: int) -> Iterator[tuple[Problem, slice]]:
    """Yield the batches of an epoch: rows in memory, and which of them."""
    size = plan.rows_of_step(problem.n_rows)
    generator = streams.generator(f"batches/{number}")
    for part in problem.parts() if plan.solver.full_batch else problem.shuffled(generator, size):
        for start in range(0, part.n_rows, size):
            yield part, slice(start, min(start + size, part.n_rows))


STEP_GROWTH, STEP_CUT = 1.1, 0.7  # the step tries to grow after each success and is cut after each failure
SMALLEST_STEP = 1e-30
LOSS_CHANGE_ROUNDING = 1e-11  # changes of the loss below this share of it drown in rounding


@dataclass(frozen=True, slots=True, eq=False)
class Iterate:
    """θ and intercept together."""

    theta: Tensor
    intercept: Tensor

    def beyond(self, other: Iterate, share: float) -> Iterate:
        """Return this point pushed on by a share of its distance from ``other``."""
        return Iterate(
            self.theta + share * (self.theta - other.theta),
            self.intercept + share * (self.intercept - other.intercept),
        )

    def product(self, other: Iterate) -> float:
        return float((self.theta * other.theta).sum() + (self.intercept * other.intercept).sum())

    def minus(self, other: Iterate) -> Iterate:
        return Iterate(self.theta - other.theta, self.intercept - other.intercept)

    def largest(self) -> float:
        sizes = [float(tensor.abs().max()) for tensor in (self.theta, self.intercept) if tensor.numel()]
        return max(sizes, default=0.0)

    def rows(self, chosen: Tensor) -> Iterate:
        """Return the point with some rows of θ alone."""
        return Iterate(self.theta[chosen], self.intercept)


def descend(problem: Problem, start: Epoch, accelerated: bool) -> Iterator[Epoch]:
    """Yield one iterate after another, for ever.

    Each iteration takes a proximal gradient step whose length is found by backtracking on the quadratic upper
    bound. Accelerated, steps start from Nesterov's extrapolated point (Beck and Teboulle, 2009), with a
    restart whenever the extrapolation points uphill (O'Donoghue and Candès, 2015). ``stationarity`` is the
    largest entry of (point - proximal step from the point)/step, which is zero exactly at a stationary point.
    """
    parameters = start.parameters
    problem = problem.restricted_to(parameters.active)
    current = Iterate(parameters.theta, parameters.intercept)
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
        step *= STEP_GROWTH if sure else 1.0
        memories = _remember(ahead, momentum, step)
        yield Epoch(number, after, penalty, parameters, memories, step, stationarity)


def _search(problem: Problem, ahead: Iterate, smooth: Gradient, step: float) -> tuple[Iterate, float, float, bool]:
    """Return the point reached, the smooth part there, and the step, cut until the quadratic bound holds.

    Close to the end the bound is below the rounding of the loss; then the step is taken as it is, and the
    last answer says that it was not tested.
    """
    slope = Iterate(smooth.theta, smooth.intercept)
    while True:
        reached = Iterate(
            proximal_step(problem, ahead.theta - step * slope.theta, step),
            ahead.intercept - step * slope.intercept,
        )
        change = reached.minus(ahead)
        curvature = change.product(change) / (2.0 * step)
        after = problem.value(reached.theta, reached.intercept)
        sure = curvature > LOSS_CHANGE_ROUNDING * abs(smooth.loss)
        if not sure or after <= smooth.loss + slope.product(change) + curvature or step < SMALLEST_STEP:
            return reached, after, step, sure
        step *= STEP_CUT


def _remember(ahead: Iterate, momentum: float, step: float) -> tuple[Memory, Memory]:
    scalars = torch.tensor([momentum, step], dtype=ahead.theta.dtype)
    return Memory(1, (ahead.theta,)), Memory(1, (ahead.intercept, scalars))


def _recall(start: Epoch, current: Iterate) -> tuple[Iterate, float, float]:
    moved, rest = start.memories
    if not moved.tensors:
        return current, 1.0, 1.0
    momentum, step = (float(number) for number in rest.tensors[1])
    return Iterate(moved.tensors[0], rest.tensors[0]), momentum, step
