"""All-parameter training of a one-hidden-layer network that starts as a smooth additive fit.

The hidden units start as ramps, so the network starts as exactly the function that the convex half found, and
training may then move slopes and kinks as well. Measured, mean test error before and after: Superconductivity
120.5 to 118.6, California and the synthetic tasks unchanged; without the convex start 1.57 to 10 instead of 1.10
on the synthetic regression.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.convex.bank import unit_bank
from sparsenam.convex.smoothing import SmoothFit
from sparsenam.families import Family
from sparsenam.networks import MLPBank
from sparsenam.streams import Streams
from sparsenam.training.stopping import Deadline

Matrix = NDArray[np.float64]

FEW_CELLS = 2_000_000  # rows × units up to which L-BFGS is faster than Adam (0.4 against 2.4 s at 0.7 million)
FEW_ROWS = 10_000  # beyond them Adam needs fewer passes over the rows
ROWS_AT_ONCE = 4096
PRECISION = torch.float32  # double takes seven times as long
RATE = 1e-3  # of the output layer in units of each feature's root mean square; 1e-2 overfits California
FASTER = 10.0  # the first layer's rate, in units of ramp widths, over the output layer's
STEPS, FEWEST_EPOCHS, MOST_EPOCHS, BATCH = 400, 4, 50, 256  # twice the steps gained nothing on any table
STIFFNESS = 3.0  # prior precision of each unit's change of slope and shift, in ramp widths, and …
STIFFNESS_BY_EFFECT = 10.0  # … more of it where the unit is large for its prior: without it smooth tasks lose 1 to 6 %
ITERATIONS = 30  # of L-BFGS


@dataclass(frozen=True, slots=True, eq=False)
class Polished:
    """A trained network, θ (features, size) and intercept (outputs,), and what training did to its objective."""

    bank: MLPBank
    theta: Tensor
    intercept: NDArray[np.float64]
    objective_before: float
    objective_after: float


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """x (rows, features), target (rows, outputs) and weights (rows,) of mean 1, and the count of rows."""

    x: Tensor
    target: Tensor
    weights: Tensor
    count: float

    @classmethod
    def of(cls, x: Matrix, target: Matrix, weights: Matrix) -> Data:
        """Take x of shape (features, rows) and weights that count rows."""
        present = weights > 0
        count = float(weights.sum())
        tensors = (x.T[present], target[present], weights[present] * (int(present.sum()) / count))
        return cls(*(torch.tensor(each, dtype=PRECISION) for each in tensors), count)

    def chunks(self, rows: Tensor | None = None, size: int = ROWS_AT_ONCE) -> Iterator[Data]:
        """Yield the rows, in order or in the given one, ``size`` at a time."""
        for start in range(0, self.x.shape[0], size):
            part = slice(start, start + size) if rows is None else rows[start : start + size]
            yield Data(self.x[part], self.target[part], self.weights[part], self.count)


class RampNetwork:
    """β + Σₖ cₖ clip(aₖ (x - tₖ)/hₖ + bₖ, 0, 1) over the units of all features, with its objective.

    a = 1 and b = 0 is the fit that it starts from. The objective is mean loss + σ²/(2n) (Σ cᵀPc + prior of a and
    b). c is kept in units of its feature's root mean square, so that one learning rate suits all features.
    """

    def __init__(self, fit: SmoothFit, family: Family) -> None:
        def tensor(values: Matrix) -> Tensor:
            return torch.tensor(values, dtype=PRECISION)

        sizes = [own.size for own in fit.ramps]
        coefficients = np.concatenate(fit.coefficients)
        sizes_of = np.array([np.sqrt(np.mean(own**2)) for own in fit.coefficients])
        sizes_of = np.maximum(sizes_of, max(1e-4 * float(sizes_of.max()), 1e-12))
        unit = np.repeat(sizes_of, sizes)[:, None]
        diagonals = _diagonals(fit)
        effect = diagonals[0] * np.sum(coefficients**2, axis=1)
        self.fit, self.family = fit, family
        self.feature = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        self.knots = tensor(np.concatenate([own.knots[:-1] for own in fit.ramps]))
        self.steepness = tensor(np.concatenate([1.0 / np.diff(own.knots) for own in fit.ramps]))
        self.unit, self.diagonals = tensor(unit), [tensor(each) for each in diagonals]
        self.stiffness = tensor(STIFFNESS + STIFFNESS_BY_EFFECT * effect)
        self.output = tensor(coefficients / unit).requires_grad_()
        self.intercept = tensor(fit.intercept).requires_grad_()
        self.slope = torch.ones(len(self.knots), dtype=PRECISION, requires_grad=True)
        self.shift = torch.zeros(len(self.knots), dtype=PRECISION, requires_grad=True)

    @property
    def parameters(self) -> list[Tensor]:
        """The tensors to train: output layer and intercept, then slopes and shifts."""
        return [self.output, self.intercept, self.slope, self.shift]

    def places(self, x: Tensor) -> Tensor:
        """Return (x - t)/h for every unit, shape (rows, units): what training leaves alone."""
        return (x[:, self.feature] - self.knots) * self.steepness

    def loss(self, data: Data, places: Tensor | None = None) -> Tensor:
        """Return the mean loss of some rows, whose ``places`` may be known."""
        ramps = self.places(data.x) if places is None else places
        hidden = torch.addcmul(self.shift, ramps, self.slope).clamp(0.0, 1.0)
        scores = self.intercept + hidden @ (self.output * self.unit)
        return (self.family.loss(scores, data.target) * data.weights).mean()

    def prior(self, count: float) -> Tensor:
        """Return σ²/(2n) (Σ cᵀPc + Σ stiffness ((a - 1)² + b²)) for n = ``count`` rows."""
        c = self.output * self.unit
        roughness = (self.diagonals[0][:, None] * c * c).sum()
        for lag, diagonal in enumerate(self.diagonals[1:], start=1):
            roughness = roughness + 2.0 * (diagonal[:-lag, None] * c[:-lag] * c[lag:]).sum()
        moved = (self.stiffness * ((self.slope - 1.0) ** 2 + self.shift**2)).sum()
        return 0.5 * self.fit.noise / count * (roughness + moved)

    def objective(self, data: Data) -> float:
        """Return the objective on all rows."""
        with torch.no_grad():
            total = sum(float(self.loss(part)) * part.x.shape[0] for part in data.chunks())
            return total / data.x.shape[0] + float(self.prior(data.count))

    def as_bank(self) -> tuple[MLPBank, Tensor, NDArray[np.float64]]:
        """Return the bank, its θ and the intercept, in double precision."""
        with torch.no_grad():
            slope, shift = self.slope.double().numpy(), self.shift.double().numpy()
            output = (self.output.double() * self.unit.double()).numpy()
            intercept = self.intercept.double().numpy().copy()
        ends = np.cumsum([own.size for own in self.fit.ramps])[:-1]
        slopes, shifts = np.split(slope, ends), np.split(shift, ends)
        for own, steep, shifted in zip(self.fit.ramps, slopes, shifts, strict=True):
            steep /= np.diff(own.knots)
            shifted -= own.knots[:-1] * steep
        return *unit_bank(slopes, shifts, np.split(output, ends), output.shape[1]), intercept


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
        bank, theta = unit_bank([], [], [], fit.intercept.size)
        return Polished(bank, theta, fit.intercept.copy(), math.nan, math.nan)
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


def train_quasi_newton(network: RampNetwork, data: Data, clock: Deadline) -> None:
    """Train with full-batch L-BFGS until it stalls, `ITERATIONS` are done or the clock has passed."""
    optimizer = torch.optim.LBFGS(
        network.parameters, max_iter=ITERATIONS // 3, history_size=20, line_search_fn="strong_wolfe"
    )
    rows = data.x.shape[0]
    parts = [(part, network.places(part.x)) for part in data.chunks()]

    def closure() -> float:
        optimizer.zero_grad()
        total = 0.0
        for part, places in parts:
            share = network.loss(part, places) * (part.x.shape[0] / rows)
            share.backward()
            total += share.item()
        prior = network.prior(data.count)
        prior.backward()
        return total + prior.item()

    for _ in range(3):  # each call evaluates its start anew, so the clock is asked only three times
        optimizer.step(closure)
        if clock.passed():
            return


def train_stochastic(network: RampNetwork, data: Data, generator: torch.Generator, clock: Deadline) -> None:
    """Train with Adam, a warm-up of 20 steps and a cosine schedule, for about `STEPS` steps."""
    rows = data.x.shape[0]
    size = min(BATCH, max(16, rows // 4))
    in_epoch = math.ceil(rows / size)
    epochs = min(MOST_EPOCHS, max(FEWEST_EPOCHS, math.ceil(STEPS / in_epoch)))
    rates = [RATE, FASTER * RATE]
    groups = [network.parameters[:2], network.parameters[2:]]
    optimizer = torch.optim.Adam([{"params": each} for each in groups], lr=RATE, betas=(0.9, 0.99))
    done = 0
    for _ in range(epochs):
        for batch in data.chunks(torch.randperm(rows, generator=generator), size):
            factor = 0.5 * (1.0 + math.cos(math.pi * done / (epochs * in_epoch))) * min(1.0, (done + 1) / 20)
            done += 1
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            optimizer.zero_grad()
            (network.loss(batch) + network.prior(data.count)).backward()
            optimizer.step()
        if clock.passed():
            return


def _diagonals(fit: SmoothFit) -> list[Matrix]:
    """Return the diagonals of P, the prior precision of all features, which is a band of width 2.

    Diagonal r has Pₖ,ₖ₊ᵣ at place k, and 0 where k + r is another feature's.
    """
    lags = range(min(3, sum(own.size for own in fit.ramps)))
    return [
        np.concatenate(
            [np.append(np.diag(own, lag), np.zeros(min(lag, own.shape[0]))) for own in fit.precision]
        )
        for lag in lags
    ]
