"""The fitted model: pruned, immutable, and exactly additive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.families import Family
from sparsenam.networks import MLPBank, SubnetBank
from sparsenam.tables import Scaling

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# Rows evaluated at once. The number is the same for every model: products of another size round differently, and
# leaving out a feature must not change the others by a bit.
ROWS_AT_ONCE = 256


def outputs_of(bank: SubnetBank, theta: Tensor, x: Matrix) -> NDArray[np.float64]:
    """Return every sub-network's output, shape (features, rows, outputs), some rows at a time.

    Where x (features, rows) is NaN the output is that at 0, the mean of a standardised column.
    """
    features, rows = x.shape
    outputs = np.zeros((features, rows, bank.outputs))
    absent = np.isnan(x)
    columns = torch.as_tensor(np.ascontiguousarray(np.where(absent, 0.0, x) if absent.any() else x))
    with torch.no_grad():
        for start in range(0, rows if features else 0, ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            outputs[:, part] = bank.effects(theta, columns[:, part]).numpy()
    return outputs


def fill_absent(outputs: NDArray[np.float64], x: Matrix, values: Matrix) -> None:
    """Put values (features, outputs) into outputs (features, rows, outputs) where x (features, rows) is NaN."""
    for own, column, value in zip(outputs, x, values, strict=True):
        own[np.isnan(column)] = value


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveModel:
    """h(x) = β + Σⱼ hⱼ(xⱼ) over the kept features; where xⱼ is NaN, feature j adds ``absent``.

    Parameters
    ----------
    family
        The family whose scores this model gives.
    bank, theta
        Sub-networks of the kept features and their parameters, shape (kept, size), float64.
    features
        Column of the input that each kept feature reads, shape (kept,).
    n_features_in
        Number of columns of the input.
    scaling
        Scaling of the kept columns.
    offsets
        Mean output of each sub-network over the training rows in which its feature is present, shape
        (kept, outputs); taken off, so that effects are centred.
    intercept, target_scale
        β and the unit of y, shape (outputs,).
    absent
        What a feature adds where it is absent, shape (kept, outputs), in units of ``target_scale``: 0 unless the
        training filled such cells.
    """

    family: Family
    bank: SubnetBank
    theta: Tensor
    features: NDArray[np.intp]
    n_features_in: int
    scaling: Scaling
    offsets: Matrix
    intercept: Vector
    target_scale: Vector
    absent: Matrix

    @property
    def n_parameters(self) -> int:
        """Parameters of the kept sub-networks and the intercept.

        A sub-network of a single ramp leads from one value to another: its place is no choice, so it counts as one.
        """
        padding = self.bank.padding()
        total = self.theta.numel() - (0 if padding is None else int(padding.sum())) + self.intercept.size
        if (
            isinstance(self.bank, MLPBank)
            and self.bank.activation == "clipped_relu"
            and self.bank.widths is not None
        ):
            total -= 2 * int(np.sum(self.bank.widths.sum(axis=1) == 1))
        return total

    def kept_effects(self, columns: Matrix) -> NDArray[np.float64]:
        """Return the centred effects of the kept features, shape (rows, kept, outputs)."""
        x = self.scaling.apply(columns[:, self.features]).T
        outputs = outputs_of(self.bank, self.theta, x)
        outputs -= self.offsets[:, None]
        fill_absent(outputs, x, self.absent)
        return outputs.swapaxes(0, 1) * self.target_scale

    def effects(self, columns: Matrix) -> NDArray[np.float64]:
        """Return every feature's effect, 0 for dropped ones, shape (rows, features_in, outputs)."""
        effects = np.zeros((columns.shape[0], self.n_features_in, self.intercept.size))
        effects[:, self.features] = self.kept_effects(columns)
        return effects

    def scores(self, columns: Matrix) -> Matrix:
        """Return the linear predictor β + Σⱼ hⱼ(xⱼ), shape (rows, outputs).

        Effects are added one after the other, so that a feature whose effect is zero changes no bit.
        """
        total = np.zeros((columns.shape[0], self.intercept.size))
        for effect in self.kept_effects(columns).swapaxes(0, 1):
            total += effect
        return total + self.intercept
