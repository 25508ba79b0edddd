"""A one-hidden-layer network that starts as a smooth additive fit, and its objective."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.convex.ramps import unit_bank
from sparsenam.families import Family
from sparsenam.networks import ACTIVATIONS, MLPBank
from sparsenam.smooth.fit import SmoothFit

Matrix = NDArray[np.float64]

CLIPPED = ACTIVATIONS["clipped_relu"]
ROWS_AT_ONCE = 4096
PRECISION = torch.float32  # double takes about three times as long
STIFFNESS = 3.0  # prior precision of each unit's change of slope and shift, in ramp widths, and …
STIFFNESS_BY_EFFECT = 10.0  # … more of it where the unit is large: without, synthetic MSE rises 0.01 to 0.06


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
        scaled = weights[present] * (int(present.sum()) / count)
        return cls(_tensor(x.T[present]), _tensor(target[present]), _tensor(scaled), count)

    def chunks(self, rows: Tensor | None = None, size: int = ROWS_AT_ONCE) -> Iterator[Data]:
        """Yield the rows, in order or in the given one, ``size`` at a time."""
        for start in range(0, self.x.shape[0], size):
            part = slice(start, start + size) if rows is None else rows[start : start + size]
            yield Data(self.x[part], self.target[part], self.weights[part], self.count)


class RampNetwork:
    """β + Σₖ cₖ clip(aₖ (x - tₖ)/hₖ + bₖ, 0, 1) over the units of all features, with its objective.

    a = 1 and b = 0 is the fit that it starts from. The objective is mean loss + σ²/(2n) (Σ cᵀPc + a prior of
    a and b). c is kept in units of its feature's root mean square, so that one rate suits all features.
    """

    def __init__(self, fit: SmoothFit, family: Family) -> None:
        sizes = [own.size for own in fit.ramps]
        coefficients = np.concatenate(fit.coefficients)
        typical = np.array([np.sqrt(np.mean(own**2)) for own in fit.coefficients])
        typical = np.maximum(typical, max(1e-4 * float(typical.max()), 1e-12))
        unit = np.repeat(typical, sizes)[:, None]
        diagonals = _diagonals(fit)
        effect = diagonals[0] * np.sum(coefficients**2, axis=1)
        self.fit, self.family = fit, family
        self.feature = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        self.knots = _tensor(np.concatenate([own.knots[:-1] for own in fit.ramps]))
        self.steepness = _tensor(np.concatenate([1.0 / np.diff(own.knots) for own in fit.ramps]))
        self.unit, self.diagonals = _tensor(unit), [_tensor(each) for each in diagonals]
        self.stiffness = _tensor(STIFFNESS + STIFFNESS_BY_EFFECT * effect)
        self.output = _tensor(coefficients / unit).requires_grad_()
        self.intercept = _tensor(fit.intercept).requires_grad_()
        self.slope = torch.ones(len(self.knots), dtype=PRECISION, requires_grad=True)
        self.shift = torch.zeros(len(self.knots), dtype=PRECISION, requires_grad=True)

    @property
    def parameters(self) -> list[Tensor]:
        """The tensors to train: output layer and intercept, then slopes and shifts."""
        return [self.output, self.intercept, self.slope, self.shift]

    def places(self, x: Tensor) -> Tensor:
        """Return (x - t)/h for every unit, shape (rows, units): what training leaves alone."""
        return (x[:, self.feature] - self.knots) * self.steepness

    def loss(self, data: Data) -> float:
        """Return the mean loss of some rows."""
        with torch.no_grad():
            argument = torch.addcmul(self.shift, self.places(data.x), self.slope)
            scores = self.intercept + argument.clamp_(0.0, 1.0) @ (self.output * self.unit)
            return float((self.family.loss(scores, data.target) * data.weights).mean())

    def gradient(self, data: Data, places: Tensor | None = None) -> tuple[float, list[Tensor]]:
        """Return the mean loss of some rows, whose ``places`` may be known, and its derivatives.

        In the order of `parameters`, and written out: the tape of autograd takes longer.
        """
        with torch.no_grad():
            ramps = self.places(data.x) if places is None else places
            argument = torch.addcmul(self.shift, ramps, self.slope)
            hidden, weight = CLIPPED.forward(argument), self.output * self.unit
            scores = self.intercept + hidden @ weight
            loss = float((self.family.loss(scores, data.target) * data.weights).mean())
            by_score = self.family.gradient(scores, data.target) * (data.weights / len(ramps))[:, None]
            by_hidden = CLIPPED.backward(by_score @ weight.T, hidden)
            by_shift = by_hidden.sum(0)
            by_slope = by_hidden.mul_(ramps).sum(0)
            return loss, [(hidden.T @ by_score) * self.unit, by_score.sum(0), by_slope, by_shift]

    def prior_gradient(self, count: float) -> tuple[float, Sequence[Tensor]]:
        """Return the prior's part of the objective and its derivatives, in the order of `parameters`."""
        prior = self.prior(count)
        return prior.item(), torch.autograd.grad(prior, self.parameters, materialize_grads=True)

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
            total = sum(self.loss(part) * part.x.shape[0] for part in data.chunks())
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


def _diagonals(fit: SmoothFit) -> list[Matrix]:
    """Return the diagonals of P, the prior precision of all features, which is a band of width 2.

    Diagonal r has Pₖ,ₖ₊ᵣ at place k, and 0 where k + r is another feature's.
    """
    lags = range(min(3, sum(own.size for own in fit.ramps)))
    return [
        np.concatenate([np.append(np.diag(own, lag), np.zeros(min(lag, own.shape[0]))) for own in fit.precision])
        for lag in lags
    ]


def _tensor(values: Matrix) -> Tensor:
    return torch.tensor(values, dtype=PRECISION)
