"""Mini-batch training as a generator: one epoch at a time without end; others decide when to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sparsenam.context import Streams
from sparsenam.training.problem import Gradient, Problem, proximal_step
from sparsenam.training.solvers import Memory, Solver, UpdateRule
from sparsenam.training.state import Diverged, Epoch, Parameters, deactivated, require_finite, zero_groups

# an epoch's mean loss above this many times that of the empty model, or of the start, is divergence:
# raw columns of large numbers start far above the former and come down
HOPELESS = 1e4


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a fit moves: rows a step (None: all of them) and the rate as a function of epochs done."""

    batch_size: int | None
    rate: Callable[[float], float]


def train(
    problem: Problem,
    start: Epoch,
    solver: Solver,
    pace: Pace,
    streams: Streams,
    out_of_time: Callable[[], bool] = lambda: False,
) -> Iterator[Epoch]:
    """Yield the state after each epoch that follows ``start``.

    The batches of each epoch come from a separate random stream, so that going on from a stored epoch gives the
    same numbers as never having stopped. A group that becomes zero is dropped from the computation at once.
    """
    parameters, memories = start.parameters, start.memories
    problem = problem.restricted_to(parameters.active)
    number = start.number
    null_loss, first_loss = max(_null_loss(problem), 1e-6), None
    while True:
        shuffled = problem.on_rows(_order(problem, solver, streams, number))
        noise = _noise(problem, streams, number)
        losses: list[float] = []
        rate = pace.rate(float(number))
        batches = list(_batches(problem.n_rows, None if solver.full_batch else pace.batch_size))
        for batch, rows in enumerate(batches):
            rate = pace.rate(number + batch / len(batches))
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
                break
        number += 1
        if np.mean(losses) > HOPELESS * max(null_loss, first_loss or 0.0):
            largest = int(np.argmax(problem.norms(parameters.theta)))
            raise Diverged(number, rate, largest if parameters.active.size else None)
        penalty, whole = problem.penalty_value(parameters.theta), len(losses) == len(batches)
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
    return replace(parameters, theta=theta, intercept=intercept[0]), (memory, intercept_memory)


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


def _order(problem: Problem, solver: Solver, streams: Streams, number: int) -> Tensor:
    if solver.full_batch:
        return torch.arange(problem.n_rows)
    return torch.as_tensor(streams.generator(f"batches/{number}").permutation(problem.n_rows))


def _noise(problem: Problem, streams: Streams, number: int) -> torch.Generator | None:
    if not problem.regularizers.random:
        return None
    generator = torch.Generator(device=problem.x.device)
    generator.manual_seed(streams.integer(f"dropout/{number}"))
    return generator


def _batches(n_rows: int, size: int | None) -> Iterator[slice]:
    size = n_rows if size is None else min(size, n_rows)
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))
