"""All-parameter training of a one-hidden-layer network that starts as a smooth additive fit.

The hidden units start as ramps, so the network starts as exactly the function that the convex half found, and
training may then move slopes and kinks as well. Measured, mean test error before and after:
Superconductivity 120.5 to 118.6, California and the synthetic tasks unchanged; without the convex start the
synthetic regression has 1.57 to 10 instead of 1.10.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize
from torch import Tensor

from sparsenam.convex.ramps import ramp_bank
from sparsenam.families import Family
from sparsenam.networks import MLPBank
from sparsenam.smooth.fit import SmoothFit
from sparsenam.streams import Streams
from sparsenam.training.ramp_network import PRECISION, Data, Matrix, RampNetwork
from sparsenam.training.run import Deadline

FEW_CELLS = 2_000_000  # rows × units up to which L-BFGS is faster than Adam, about 3 times at 0.7 million
FEW_ROWS = 10_000  # beyond them Adam needs fewer passes over the rows
RATE = 1e-3  # of the output layer in units of each feature's root mean square
FASTER = 10.0  # the first layer's rate, in units of ramp widths, over the output layer's
STEPS, FEWEST_EPOCHS, MOST_EPOCHS, BATCH = 400, 4, 50, 256  # of Adam
ITERATIONS = 30  # of L-BFGS


@dataclass(frozen=True, slots=True, eq=False)
class Polished:
    """A trained network, θ (features, size) and intercept (outputs,), and its objective."""

    bank: MLPBank
    theta: Tensor
    intercept: NDArray[np.float64]
    objective_before: float
    objective_after: float


def polish(
    fit: SmoothFit,
    x: Matrix,
    target: Matrix,
    weights: NDArray[np.float64],
    family: Family,
    streams: Streams,
    clock: Deadline,
) -> Polished:
    """Return the network trained from ``fit``, or the fit itself as a network where training did not help.

    Parameters
    ----------
    fit
        The start, which also gives the prior.
    x, target, weights
        As `smooth_fit` had them: (features, rows), (rows, outputs) and (rows,).
    streams
        The stream ``"polish"`` gives the order of the rows.
    clock
        Training ends when it has passed.
    """
    if not fit.ramps:
        return unpolished(fit)
    data = Data.of(x, target, weights)
    start, network = RampNetwork(fit, family), RampNetwork(fit, family)
    before = start.objective(data)
    if not clock.passed():
        if x.shape[1] * len(network.knots) <= FEW_CELLS and x.shape[1] <= FEW_ROWS:
            train_quasi_newton(network, data, clock)
        else:
            train_stochastic(network, data, torch.Generator().manual_seed(streams.integer("polish")), clock)
    after = network.objective(data)
    finite = all(bool(torch.isfinite(each).all()) for each in network.parameters)
    if not (finite and after < before):
        network, after = start, before
    bank, theta, intercept = network.as_bank()
    return Polished(bank, theta, intercept, before, after)


def unpolished(fit: SmoothFit) -> Polished:
    """Return the fit itself as a network."""
    bank, theta = ramp_bank(fit.ramps, fit.coefficients, fit.intercept.size)
    return Polished(bank, theta, fit.intercept.copy(), math.nan, math.nan)


def train_quasi_newton(network: RampNetwork, data: Data, clock: Deadline) -> None:
    """Train with full-batch L-BFGS until it stalls, `ITERATIONS` are done or the clock has passed."""
    rows, parameters = data.x.shape[0], network.parameters
    parts = [(part, network.places(part.x)) for part in data.chunks()]

    def place(point: Matrix) -> None:
        values = torch.as_tensor(point).to(PRECISION)
        with torch.no_grad():
            start = 0
            for each in parameters:
                each.copy_(values[start : start + each.numel()].view_as(each))
                start += each.numel()

    def value_and_gradient(point: Matrix) -> tuple[float, Matrix]:
        place(point)
        value, by_prior = network.prior_gradient(data.count)
        gradient = _flat(by_prior)
        for part, places in parts:
            share = len(places) / rows
            loss, by_loss = network.gradient(part, places)
            value += share * loss
            gradient += share * _flat(by_loss)
        return value, gradient.double().numpy()

    def stop_in_time(intermediate_result: OptimizeResult) -> None:
        if clock.passed():
            raise StopIteration

    # scipy's, because the first use of torch.optim imports a compiler for more than a second
    start = _flat([each.detach() for each in parameters]).double().numpy()
    found = minimize(
        value_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=stop_in_time,
        options={"maxiter": ITERATIONS, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-8},
    )
    place(found.x)


def train_stochastic(network: RampNetwork, data: Data, generator: torch.Generator, clock: Deadline) -> None:
    """Train with Adam, a warm-up of 20 steps and a cosine schedule, for about `STEPS` steps."""
    rows = data.x.shape[0]
    size = min(BATCH, max(16, rows // 4))
    in_epoch = math.ceil(rows / size)
    epochs = min(MOST_EPOCHS, max(FEWEST_EPOCHS, math.ceil(STEPS / in_epoch)))
    adam = Adam(network.parameters, [RATE, RATE, FASTER * RATE, FASTER * RATE])
    for _ in range(epochs):
        for batch in data.chunks(torch.randperm(rows, generator=generator), size):
            done = adam.steps / (epochs * in_epoch)
            factor = 0.5 * (1.0 + math.cos(math.pi * done)) * min(1.0, (adam.steps + 1) / 20)
            _, by_loss = network.gradient(batch)
            _, by_prior = network.prior_gradient(data.count)
            adam.step([loss + prior for loss, prior in zip(by_loss, by_prior, strict=True)], factor)
            if clock.passed():
                return


class Adam:
    """Adam (Kingma and Ba, 2015) with decays 0.9 and 0.99, each tensor with its own rate."""

    def __init__(self, parameters: Sequence[Tensor], rates: Sequence[float]) -> None:
        self.parameters, self.rates, self.steps = parameters, rates, 0
        self.means = [torch.zeros_like(each) for each in parameters]
        self.squares = [torch.zeros_like(each) for each in parameters]

    def step(self, gradients: Sequence[Tensor], factor: float) -> None:
        """Move the parameters against their gradients, with all rates multiplied by ``factor``."""
        self.steps += 1
        root = math.sqrt(1.0 - 0.99**self.steps)
        with torch.no_grad():
            each = zip(self.parameters, gradients, self.means, self.squares, self.rates, strict=True)
            for parameter, gradient, mean, square, rate in each:
                mean.lerp_(gradient, 0.1)
                square.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
                size = -rate * factor / (1.0 - 0.9**self.steps)
                parameter.addcdiv_(mean, (square.sqrt() / root).add_(1e-8), value=size)


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([each.reshape(-1) for each in tensors])
