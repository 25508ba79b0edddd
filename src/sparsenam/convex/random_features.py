"""Random features: columns of frozen hidden units, and the way back from coefficients to sub-networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.convex.bank import hidden_columns, ramp_bank, with_output
from sparsenam.convex.ramps import Ramps, place_ramps
from sparsenam.networks import MLPBank
from sparsenam.tables import PreparedSample

Matrix = NDArray[np.float64]
ROWS_PER_RAMP = 10


class RandomFeatures(Protocol):
    """What the hidden layers compute, frozen."""

    def columns(self, feature: int) -> Matrix:
        """Return the hidden units of one feature on the training rows, shape (rows, m)."""
        ...

    def network(self, features: NDArray[np.intp], coefficients: Matrix) -> tuple[MLPBank, Tensor]:
        """Return the bank of some features with these output layers, shape (features, m, outputs), and its θ."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RampFeatures:
    """Data-aware units: clipped ReLU between neighbouring knots, at most ``count`` a feature.

    Few rows have few ramps. Columns that hold few values get a knot at each. ``hinges`` takes ReLU units with the
    same knots and slopes instead: between the knots they span the same functions, beyond them they run on in a
    straight line and feel outliers.
    """

    prepared: PreparedSample
    count: int
    hinges: bool = False

    def columns(self, feature: int) -> Matrix:
        """Return the ramps or hinges of one feature."""
        ramps, x = self._ramps(feature), self.prepared.x[feature]
        if self.hinges:
            return np.maximum((x[:, None] - ramps.knots[:-1]) / np.diff(ramps.knots), 0.0)
        return ramps.columns(x)

    def network(self, features: NDArray[np.intp], coefficients: Matrix) -> tuple[MLPBank, Tensor]:
        """Return the bank of ramps."""
        ramps = [self._ramps(int(feature)) for feature in features]
        own = [coefficients[place, : unit.size] for place, unit in enumerate(ramps)]
        return ramp_bank(ramps, own, coefficients.shape[2], "relu" if self.hinges else "clipped_relu")

    def _ramps(self, feature: int) -> Ramps:
        most = max(2, self.prepared.weights.size // ROWS_PER_RAMP)
        return place_ramps(self.prepared.x[feature], self.prepared.weights, min(self.count, most))


@dataclass(frozen=True, slots=True, eq=False)
class FrozenFeatures:
    """The last hidden layer of any perceptron bank, frozen: the paper's random features.

    Without hidden layers the one column is the feature itself.
    """

    x: Matrix
    bank: MLPBank
    theta: Tensor

    def columns(self, feature: int) -> Matrix:
        """Return the hidden units of one feature."""
        return hidden_columns(self.bank, self.theta, self.x[feature], feature)

    def network(self, features: NDArray[np.intp], coefficients: Matrix) -> tuple[MLPBank, Tensor]:
        """Return the bank with these output layers."""
        bank, theta = self.bank.take(features), self.theta[torch.as_tensor(features)]
        width = bank.shapes[-1][0]
        padded = np.zeros((features.size, width, coefficients.shape[2]))
        padded[:, : coefficients.shape[1]] = coefficients
        return bank, with_output(bank, theta, padded)
