"""Training as a generator of epochs, by mini-batches or by full-batch descent; others decide when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from sparsenam.context import Streams
from sparsenam.training.network import TrainingPlan
from sparsenam.training.problem import Gradient, Problem, proximal_step, with_norms
from sparsenam.training.solvers import Memory, Solver
from sparsenam.training.state import Epoch, diverged, require_finite, zero_groups

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
    parameters, memories, number, solver = start.parameters, start.memories, start.number, plan.solver
    theta, intercept = parameters.of_active, parameters.intercept
    problem = problem.restricted_to(parameters.active)
    target, weights = (each.double().cpu().numpy() for each in (problem.target, problem.weights))
    constant = np.broadcast_to(problem.family.best_constant(target, weights), target.shape)
    null_loss = max(float(np.average(problem.family.loss(constant, target), weights=weights)), 1e-6)
    first_loss = None
    while True:
        noise = _noise(problem, streams, number)
        losses, shuffled, latest = list[float](), problem, None
        rate, whole = plan.rate(number), True
        # of rows that are not in memory, those of weight 0 are counted in
        expected = math.ceil(problem.n_rows / plan.rows_of_step(problem.n_rows))
        for batch, (part, rows) in enumerate(_batches(problem, plan, streams, number)):
            if part is not latest:  # groups may have become zero since the epoch began
                shuffled, latest = part, part
                if part.terms.size > problem.terms.size:
                    shuffled = part.restricted_to(np.flatnonzero(np.isin(part.terms, problem.terms)))
            rate = plan.rate(number + min(1.0, batch / expected))
            smooth = shuffled.gradient(theta, intercept, rows, noise)
            theta, intercept, memories = _step(shuffled, solver, theta, intercept, memories, smooth, rate, number + 1)
            losses.append(smooth.loss)
            first_loss = smooth.loss if first_loss is None else first_loss
            zero = zero_groups(problem, theta) if solver.proximal else None
            if zero is not None and zero.any():
                parameters, alive = parameters.moved(theta, intercept, zero), np.flatnonzero(~zero)
                theta = parameters.of_active
                memories = memories[0].take(torch.as_tensor(alive)), memories[1]
                problem, shuffled = problem.restricted_to(alive), shuffled.restricted_to(alive)
            if out_of_time():
                whole = batch + 1 >= expected
                break
        number += 1
        if np.mean(losses) > HOPELESS * max(null_loss, first_loss or 0.0):
            largest = int(np.argmax(problem.norms(theta)))
            raise diverged(problem, number, rate, largest if problem.terms.size else None)
        parameters, penalty = parameters.moved(theta, intercept), problem.penalty_value(theta)
        yield Epoch(number, float(np.mean(losses)), penalty, parameters, memories, rate, whole=whole)


def _step(
    problem: Problem,
    solver: Solver,
    theta: Tensor,
    intercept: Tensor,
    memories: tuple[Memory, Memory],
    smooth: Gradient,
    rate: float,
    epoch: int,
) -> tuple[Tensor, Tensor, tuple[Memory, Memory]]:
    gradient = smooth.theta
    if not solver.proximal:  # the subgradient slopeⱼ Θⱼ/‖Θⱼ‖ on the group's columns; that of a zero group is zero
        norms, penalised = problem.norms(theta), torch.zeros_like(theta)
        penalised[:, problem.group] = with_norms(problem, theta, norms, problem.penalty.slope(norms, problem.alpha))
        gradient = gradient + penalised
    move = solver.rule(gradient, memories[0])
    step = rate * move.metric
    theta = theta - step * move.direction
    require_finite(problem, smooth.loss, theta, epoch, rate)
    if solver.proximal:
        theta = proximal_step(problem, theta, step)
    of_intercept = solver.rule(smooth.intercept[None], memories[1])
    intercept = intercept - (rate * of_intercept.metric * of_intercept.direction)[0]
    # another kind of processor rounds differently, and a group that is zero must be so for all
    theta, intercept = problem.processes.agreed(theta, intercept)
    return theta, intercept, (move.memory, of_intercept.memory)


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


def descend(problem: Problem, start: Epoch, accelerated: bool) -> Iterator[Epoch]:
    """Yield one iterate after another, for ever.

    Each iteration takes a proximal gradient step whose length is found by backtracking on the quadratic upper
    bound. Accelerated, steps start from Nesterov's extrapolated point (Beck and Teboulle, 2009), with a
    restart whenever the extrapolation points uphill (O'Donoghue and Candès, 2015). ``stationarity`` is the
    largest entry of (point - proximal step from the point)/step, which is zero exactly at a stationary point.
    A point is θ, row after row, and the intercept.
    """
    parameters = start.parameters
    problem = problem.restricted_to(parameters.active)
    current = _point(parameters.of_active, parameters.intercept)
    ahead, momentum, step, number = current, 1.0, 1.0, start.number
    moved, rest = start.memories
    if moved.tensors:
        ahead = moved.tensors[0][0]
        momentum, step = (float(number) for number in rest.tensors[0][0])
    while True:
        smooth = problem.gradient(*_parts(problem, ahead))
        require_finite(problem, smooth.loss, smooth.theta, number + 1, step)
        reached, after, step, sure = _search(problem, ahead, smooth, step)
        number += 1
        stationarity = float((reached - ahead).abs().max()) / step
        restart = not accelerated or float((ahead - reached) @ (reached - current)) > 0
        following = 1.0 if restart else 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
        ahead = reached if restart else reached + (momentum - 1.0) / following * (reached - current)
        momentum, current = following, reached
        theta, intercept = _parts(problem, current)
        penalty, zero = problem.penalty_value(theta), zero_groups(problem, theta)
        parameters = parameters.moved(theta, intercept, zero)
        if zero.any():
            kept = torch.as_tensor(np.append(np.repeat(~zero, theta.shape[1]), np.ones(intercept.numel(), np.bool_)))
            problem = problem.restricted_to(np.flatnonzero(~zero))
            current, ahead = current[kept], ahead[kept]
        step *= STEP_GROWTH if sure else 1.0
        scalars = torch.tensor([[momentum, step]], dtype=ahead.dtype)
        memories = Memory(1, (ahead[None],)), Memory(1, (scalars,))
        yield Epoch(number, after, penalty, parameters, memories, step, stationarity)


def _point(theta: Tensor, intercept: Tensor) -> Tensor:
    return torch.cat([theta.flatten(), intercept])


def _parts(problem: Problem, point: Tensor) -> tuple[Tensor, Tensor]:
    """Return θ and intercept of a point."""
    rows, columns = problem.terms.size, problem.bank.size
    return point[: rows * columns].view(rows, columns), point[rows * columns :]


def _search(problem: Problem, ahead: Tensor, smooth: Gradient, step: float) -> tuple[Tensor, float, float, bool]:
    """Return the point reached, the smooth part there, and the step, cut until the quadratic bound holds.

    Close to the end the bound is below the rounding of the loss; then the step is taken as it is, and the
    last answer says that it was not tested.
    """
    slope = _point(smooth.theta, smooth.intercept)
    while True:
        theta, intercept = _parts(problem, ahead - step * slope)
        theta = proximal_step(problem, theta, step)
        reached = _point(theta, intercept)
        change = reached - ahead
        curvature = float(change @ change) / (2.0 * step)
        after = problem.value(theta, intercept)
        sure = curvature > LOSS_CHANGE_ROUNDING * abs(smooth.loss)
        if not sure or after <= smooth.loss + float(slope @ change) + curvature or step < SMALLEST_STEP:
            return reached, after, step, sure
        step *= STEP_CUT
