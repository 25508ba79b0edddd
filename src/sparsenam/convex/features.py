"""Columns of frozen hidden units, by term and by group, and the way back from coefficients to sub-networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.convex.ramps import Ramps, distinct, hidden_columns, place_ramps, ramp_bank, with_output
from sparsenam.networks import MLPBank
from sparsenam.tables import PreparedSample
from sparsenam.tables.groups import Grouping
from sparsenam.tables.scaling import Matrix, Vector

PARTS = 5  # into which rows are dealt: a rare level's mean leaves out the part it serves
SHARED = 2  # most columns of rare levels, one for each output
PRIOR = 5.0  # rows of the overall mean that a rare level's mean starts with


@dataclass(frozen=True, slots=True, eq=False)
class LevelColumns:
    """One column for each frequent level; rare ones share columns that hold their mean targets.

    A rare level's mean leaves out the rows of the part that it is read in (as target encoding does), so that a
    category without effect looks like one. ``levels`` are the sorted codes (L,), ``place`` (L,) the column of a
    level's own, -1 for rare ones; ``means`` (parts, L, shared) are the rare levels' and ``overall`` (L, shared)
    those of all rows.
    """

    levels: Vector
    place: NDArray[np.intp]
    means: NDArray[np.float64]
    overall: Matrix

    @classmethod
    def of(cls, x: Vector, target: Matrix, weights: Vector, count: int) -> LevelColumns:
        """Return at most ``count`` columns for codes x (rows,), NaN where absent."""
        present = ~np.isnan(x)
        levels, counts = distinct(x[present], weights[present])
        place = np.arange(levels.size, dtype=np.intp)
        shared = 0 if levels.size <= count else min(SHARED, target.shape[1])
        if shared:
            # of levels as frequent as the first that is left out none gets a column: their names must not decide
            bar = np.sort(counts)[::-1][count - shared]
            own = np.flatnonzero(counts > bar)
            place[:] = -1
            place[own] = np.arange(own.size)
        codes = np.where(present, np.searchsorted(levels, x), -1)
        means = _means_without_a_part(codes, levels.size, target[:, :shared], weights)
        return cls(levels, place, *means)

    @property
    def ramps(self) -> Ramps:
        """Ramps from each level to the next."""
        return Ramps(self.levels)

    def hinges(self, values: Matrix) -> Matrix:
        """Return the weights (L - 1, outputs) of ReLU units at the levels that lead through values (L, outputs).

        A ramp is level beyond its end, a hinge runs on: its weight is the change of slope.
        """
        widths = np.diff(self.levels)[:, None]
        slopes = np.diff(values, axis=0) / widths
        return widths * np.diff(slopes, axis=0, prepend=0.0)

    def columns(self, x: Vector) -> Matrix:
        """Return the columns of the training rows, shape (rows, m); absent cells are 0."""
        codes = np.searchsorted(self.levels, x)
        present = ~np.isnan(x)
        codes = np.where(present, np.minimum(codes, self.levels.size - 1), 0)
        single = int(self.place.max(initial=-1)) + 1
        columns = np.zeros((x.size, single + self.overall.shape[1]))
        rows = np.flatnonzero(present & (self.place[codes] >= 0))
        columns[rows, self.place[codes[rows]]] = 1.0
        rare = np.flatnonzero(present & (self.place[codes] < 0))
        columns[rare, single:] = self.means[rare % PARTS, codes[rare]]
        return columns

    def values(self, coefficients: Matrix) -> Matrix:
        """Return the value of each level, shape (L, outputs), for coefficients (≥ m, outputs)."""
        single = int(self.place.max(initial=-1)) + 1
        shared = coefficients[single : single + self.overall.shape[1]]
        values = self.overall @ shared if shared.size else np.zeros((self.levels.size, coefficients.shape[1]))
        own = self.place >= 0
        values[own] = coefficients[self.place[own]]
        return values


def _means_without_a_part(
    codes: NDArray[np.intp], n_levels: int, target: Matrix, weights: Vector
) -> tuple[NDArray[np.float64], Matrix]:
    """Return shrunken level means without each part's rows (parts, levels, k), and of all rows (levels, k)."""
    k = target.shape[1]
    if k == 0:
        return np.zeros((PARTS, n_levels, 0)), np.zeros((n_levels, 0))
    present = codes >= 0
    parts = np.arange(codes.size) % PARTS
    centre = np.average(target, axis=0, weights=weights)
    sums, totals = np.zeros((PARTS, n_levels, k)), np.zeros((PARTS, n_levels))
    np.add.at(totals, (parts[present], codes[present]), weights[present])
    np.add.at(sums, (parts[present], codes[present]), weights[present, None] * (target[present] - centre))
    others, others_total = sums.sum(axis=0) - sums, totals.sum(axis=0) - totals
    all_means = sums.sum(axis=0) / (totals.sum(axis=0) + PRIOR)[:, None]
    return others / (others_total + PRIOR)[:, :, None], all_means


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


@dataclass(frozen=True, slots=True, eq=False)
class GroupedFeatures:
    """The random features of each group's terms, side by side; ``widths`` (terms,) are their numbers of columns."""

    features: RandomFeatures
    grouping: Grouping
    widths: NDArray[np.intp]

    @classmethod
    def of(cls, features: RandomFeatures, grouping: Grouping) -> GroupedFeatures:
        """Measure the widths, which groups of several terms need."""
        n_terms = sum(own.size for own in grouping.members)
        if grouping.is_trivial:
            return cls(features, grouping, np.zeros(n_terms, dtype=np.intp))
        return cls(features, grouping, np.array([features.columns(term).shape[1] for term in range(n_terms)]))

    def columns(self, group: int) -> Matrix:
        """Return the columns of a group's terms, shape (rows, Σ m)."""
        members = self.grouping.members[group]
        if members.size == 1:
            return self.features.columns(int(members[0]))
        return np.hstack([self.features.columns(int(term)) for term in members])

    def is_ordered(self, group: int) -> bool:
        """Return whether the block is one ordered term."""
        members = self.grouping.members[group]
        return members.size == 1 and self.features.is_ordered(int(members[0]))

    def split(self, groups: NDArray[np.intp], values: Matrix) -> Matrix:
        """Return values (groups, m, …) of blocks by their terms in rising order, shape (terms, m, …)."""
        if self.grouping.is_trivial:
            return values
        terms = self.grouping.terms_of(groups)
        place = {int(term): row for row, term in enumerate(terms)}
        result = np.zeros((terms.size, *values.shape[1:]))
        for own, group in zip(values, groups, strict=True):
            start = 0
            for term in self.grouping.members[int(group)]:
                stop = start + int(self.widths[term])
                result[place[int(term)], : stop - start] = own[start:stop]
                start = stop
        return result

    def network(self, groups: NDArray[np.intp], coefficients: Matrix) -> tuple[MLPBank, Tensor, Matrix]:
        """Return bank, θ and base of the groups' terms, from coefficients (groups, m, outputs)."""
        return self.features.network(self.grouping.terms_of(groups), self.split(groups, coefficients))
