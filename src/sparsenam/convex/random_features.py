"""Random features: columns of frozen hidden units, and the way back from coefficients to sub-networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.convex.bank import hidden_columns, ramp_bank, with_output
from sparsenam.convex.levels import LevelColumns
from sparsenam.convex.ramps import Ramps, place_ramps
from sparsenam.networks import MLPBank
from sparsenam.tables import PreparedSample

Matrix = NDArray[np.float64]
ROWS_PER_RAMP = 10
FEWEST = 4  # columns of a feature in a large group


class RandomFeatures(Protocol):
    """What the hidden layers compute, frozen."""

    def columns(self, feature: int) -> Matrix:
        """Return the hidden units of one feature on the training rows, shape (rows, m)."""
        ...

    def network(self, features: NDArray[np.intp], coefficients: Matrix) -> tuple[MLPBank, Tensor, Matrix]:
        """Return the bank of some features with these output layers, shape (features, m, outputs), and its θ.

        Last comes what the columns' sum is above the bank's output, shape (features, outputs).
        """
        ...

    def is_ordered(self, feature: int) -> bool:
        """Return whether neighbouring columns of a feature are neighbours in its values."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RampFeatures:
    """Data-aware units: clipped ReLU between neighbouring knots, at most ``count`` a feature.

    Few rows have few ramps. Columns that hold few values get a knot at each. ``hinges`` takes ReLU units with the
    same knots and slopes instead: between the knots they span the same functions, beyond them they run on in a
    straight line and feel outliers. Codes of unordered levels have a column for each level (`LevelColumns`).
    """

    prepared: PreparedSample
    count: int
    hinges: bool = False

    def columns(self, feature: int) -> Matrix:
        """Return the ramps, hinges or levels of one feature; an absent cell has the column's mean."""
        x = self.prepared.x[feature]
        absent = np.isnan(x)
        if self.prepared.levels[feature]:
            columns = self._levels(feature).columns(x)
        else:
            ramps = self._ramps(feature)
            columns = (
                np.maximum((x[:, None] - ramps.knots[:-1]) / np.diff(ramps.knots), 0.0)
                if self.hinges
                else ramps.columns(x)
            )
        if absent.any():
            columns[absent] = np.average(columns[~absent], axis=0, weights=self.prepared.weights[~absent])
        return columns

    def network(self, features: NDArray[np.intp], coefficients: Matrix) -> tuple[MLPBank, Tensor, Matrix]:
        """Return the bank of ramps; a category's ramps lead from level to level."""
        ramps, own = list[Ramps](), list[Matrix]()
        base = np.zeros((features.size, coefficients.shape[2]))
        for place, feature in enumerate(features):
            if self.prepared.levels[feature]:
                levels = self._levels(int(feature))
                values = levels.values(coefficients[place])
                base[place] = values[0]
                ramps.append(levels.ramps)
                own.append(levels.hinges(values) if self.hinges else np.diff(values, axis=0))
            else:
                ramps.append(self._ramps(int(feature)))
                own.append(coefficients[place, : ramps[-1].size])
        bank, theta = ramp_bank(ramps, own, coefficients.shape[2], "relu" if self.hinges else "clipped_relu")
        return bank, theta, base

    def is_ordered(self, feature: int) -> bool:
        """Return False for unordered levels."""
        return not self.prepared.levels[feature]

    def _levels(self, feature: int) -> LevelColumns:
        prepared = self.prepared
        return LevelColumns.of(prepared.x[feature], prepared.target, prepared.weights, self._share(feature))

    def _share(self, feature: int) -> int:
        """Return how many columns a feature may have: those of a group share them."""
        return max(FEWEST, self.count // self.prepared.grouping.size_of(feature))

    def _ramps(self, feature: int) -> Ramps:
        most = max(2, self.prepared.weights.size // ROWS_PER_RAMP)
        x, weights = self.prepared.x[feature], self.prepared.weights
        present = ~np.isnan(x)
        if not present.all():
            x, weights = x[present], weights[present]
        return place_ramps(x, weights, min(self._share(feature), most))


@dataclass(frozen=True, slots=True, eq=False)
class FrozenFeatures:
    """The last hidden layer of any perceptron bank, frozen: the paper's random features.

    Without hidden layers the one column is the feature itself.
    """

    x: Matrix
    bank: MLPBank
    theta: Tensor

    def columns(self, feature: int) -> Matrix:
        """Return the hidden units of one feature; an absent cell has the column's mean."""
        x = self.x[feature]
        absent = np.isnan(x)
        columns = hidden_columns(self.bank, self.theta, np.where(absent, 0.0, x), feature)
        if absent.any():
            columns[absent] = columns[~absent].mean(axis=0)
        return columns

    def network(self, features: NDArray[np.intp], coefficients: Matrix) -> tuple[MLPBank, Tensor, Matrix]:
        """Return the bank with these output layers."""
        bank, theta = self.bank.take(features), self.theta[torch.as_tensor(features)]
        width = bank.shapes[-1][0]
        padded = np.zeros((features.size, width, coefficients.shape[2]))
        padded[:, : coefficients.shape[1]] = coefficients
        return bank, with_output(bank, theta, padded), np.zeros((features.size, coefficients.shape[2]))

    def is_ordered(self, feature: int) -> bool:
        """Return False: hidden units have no order."""
        return False
