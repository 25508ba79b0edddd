"""Columns of frozen hidden units, by term and by group, and the way back from coefficients to sub-networks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from sparsenam.convex.design import FREEDOM, WEIGHT_ROUNDING, Ramps, bend_roughness, distinct, place_ramps
from sparsenam.convex.knots import KnotDesign, TermAtKnots, knot_design
from sparsenam.convex.moments import PlacedRows
from sparsenam.model import FittedCurve
from sparsenam.model.additive import Functions, network_functions
from sparsenam.networks import MLPBank
from sparsenam.tables import PreparedSample
from sparsenam.tables.sample import Grouping, Matrix, Vector

PARTS = 5  # into which rows are split: a rare level's mean leaves out the part it serves; chosen without a measurement
SHARED = 2  # most columns of rare levels, one for each output; chosen without a measurement
PRIOR = 5.0  # rows of the overall mean that a rare level's mean starts with; chosen without a measurement
VALUES_PER_RAMP = 5  # at least, where rows are few; chosen without a measurement
MANY_ROWS = 10_000  # chosen without a measurement
FEWEST = 4  # columns of a term in a large group; chosen without a measurement
# chosen without a measurement
MOST_LEVEL_COLUMNS = 8  # columns of a category: as many as a shape's smooth directions, so that blocks stay narrow


@dataclass(frozen=True, slots=True, eq=False)
class LevelColumns:
    """One column for each frequent level; rare ones share columns that hold their mean targets.

    A rare level's mean leaves out the rows of the part that it is read in (as target encoding does), so that a
    category without effect looks like one. ``levels`` are the sorted codes (L,), ``column`` (L,) the index of each
    frequent level's column, -1 for rare ones; ``means`` (parts, L, shared) are the rare levels' and ``overall``
    (L, shared) those of all rows.
    """

    levels: Vector
    column: NDArray[np.intp]
    means: NDArray[np.float64]
    overall: Matrix

    @classmethod
    def of(cls, x: Vector, target: Matrix, weights: Vector, count: int) -> LevelColumns:
        """Return at most ``count`` columns for codes x (rows,), NaN where absent."""
        present = ~np.isnan(x)
        levels, counts = distinct(x[present], weights[present])
        column = np.arange(levels.size, dtype=np.intp)
        shared = 0 if levels.size <= count else min(SHARED, target.shape[1])
        if shared:
            # of levels as frequent as the first that is left out none gets a column: their names must not decide
            bar = np.sort(counts)[::-1][count - shared]
            frequent = np.flatnonzero(counts > bar * (1.0 + WEIGHT_ROUNDING))
            column[:] = -1
            column[frequent] = np.arange(frequent.size)
        codes = np.where(present, np.searchsorted(levels, x), -1)
        means = _means_without_a_part(codes, levels.size, target[:, _leading(target, weights)[:shared]], weights)
        return cls(levels, column, *means)

    @property
    def n_frequent(self) -> int:
        """Number of levels with a column each."""
        return int(self.column.max(initial=-1)) + 1

    def columns(self, x: Vector) -> Matrix:
        """Return the columns of the training rows, shape (rows, m); absent cells are 0."""
        found = self.at_knots(x)
        columns = found.values[found.places]
        columns[found.places < 0] = 0.0
        return columns

    def at_knots(self, x: Vector) -> TermAtKnots:
        """Return the columns as functions of the level, and of the part of the rows where rare levels share columns."""
        present = ~np.isnan(x)
        codes = np.minimum(np.searchsorted(self.levels, np.where(present, x, self.levels[0])), self.levels.size - 1)
        parts = PARTS if self.overall.shape[1] else 1
        values = np.zeros((parts, self.levels.size, self.n_frequent + self.overall.shape[1]))
        frequent = np.flatnonzero(self.column >= 0)
        values[:, frequent, self.column[frequent]] = 1.0
        rare = np.flatnonzero(self.column < 0)
        values[:, rare, self.n_frequent :] = self.means[:parts, rare]
        places = codes + self.levels.size * (np.arange(x.size) % parts)
        return TermAtKnots(np.where(present, places, -1), np.zeros(x.size), values.reshape(-1, values.shape[2]))

    def values(self, coefficients: Matrix) -> Matrix:
        """Return the value of each level, shape (L, outputs), for coefficients (≥ m, outputs)."""
        shared = coefficients[self.n_frequent : self.n_frequent + self.overall.shape[1]]
        values = self.overall @ shared if shared.size else np.zeros((self.levels.size, coefficients.shape[1]))
        frequent = self.column >= 0
        values[frequent] = coefficients[self.column[frequent]]
        return values


def _leading(target: Matrix, weights: Vector) -> NDArray[np.intp]:
    """Return the outputs, those of classes from frequent to rare and as they turn up: their names must not decide."""
    outputs: NDArray[np.intp] = np.arange(target.shape[1], dtype=np.intp)
    if target.shape[1] == 1 or not np.isin(target, (0.0, 1.0)).all():
        return outputs
    counts = np.rint(weights @ target / (WEIGHT_ROUNDING * weights.sum()))
    return outputs[np.lexsort((target.argmax(axis=0), -counts))]


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


class RandomFeatures(Protocol):
    """What the hidden layers of all terms compute, frozen."""

    def columns(self, term: int) -> Matrix:
        """Return the hidden units of one term on the training rows, shape (rows, m)."""
        ...

    def functions(self, terms: NDArray[np.intp], coefficients: Matrix) -> Functions:
        """Return the functions of some terms with these output layers, shape (terms, m, outputs)."""
        ...

    def roughness(self, term: int) -> Matrix:
        """Return the roughness of a term's function as a quadratic form of its coefficients, shape (m, m)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RampFeatures:
    """Data-aware units: clipped ReLU between neighbouring knots, at most ``count`` a term.

    Few rows have few ramps. Terms that hold few values get a knot at each. ``hinges`` takes ReLU units with the
    same knots and slopes instead: between the knots they span the same functions, beyond them they run on in a
    straight line and feel outliers. Codes of unordered levels have a column for each level (`LevelColumns`).
    """

    prepared: PreparedSample
    count: int
    hinges: bool = False
    _placed: dict[int, Ramps] = field(default_factory=dict[int, Ramps], init=False, repr=False)

    def columns(self, term: int) -> Matrix:
        """Return the ramps, hinges or levels of one term; an absent cell has the column's mean."""
        x = self.prepared.x[term]
        absent = np.isnan(x)
        if self.prepared.levels[term]:
            columns = self._levels(term).columns(x)
        elif self.hinges:
            knots = self._ramps(term).knots
            columns = np.maximum((x[:, None] - knots[:-1]) / np.diff(knots), 0.0)
        else:
            columns = self._ramps(term).columns(x)
        if absent.any():
            columns[absent] = np.average(columns[~absent], axis=0, weights=self.prepared.weights[~absent])
        return columns

    def at_knots(self, term: int) -> TermAtKnots:
        """Return the same columns as functions of the place among the knots of a term, or of its levels."""
        x = self.prepared.x[term]
        if self.prepared.levels[term]:
            return self._levels(term).at_knots(x)
        ramps = self._ramps(term)
        placed = PlacedRows.of([ramps], x[None])
        places = placed.places[0].astype(np.int32)  # half the bytes of an index, once for every cell
        places[np.isnan(x)] = -1
        return TermAtKnots(places, placed.shares[0], ramps.columns(ramps.knots))

    def functions(self, terms: NDArray[np.intp], coefficients: Matrix) -> Functions:
        """Return the curves; that of a category leads from level to level."""
        return tuple(self._curve(int(term), part) for term, part in zip(terms, coefficients, strict=True))

    def _curve(self, term: int, coefficients: Matrix) -> FittedCurve:
        """Return the sum of a term's units with these coefficients (≥ m, outputs)."""
        if self.prepared.levels[term]:
            levels = self._levels(term)
            return FittedCurve.level_beyond(levels.levels, levels.values(coefficients))
        ramps = self._ramps(term)
        rises = coefficients[: ramps.size]
        if self.hinges:  # each runs on beyond its knot, so that the slopes add up
            widths = np.diff(ramps.knots)[:, None]
            slopes = np.cumsum(rises / widths, axis=0)
            summed = ramps.curve(slopes * widths)
            return replace(summed, knots=ramps.knots[:-1], values=summed.values[:-1], right_slope=slopes[-1])
        return ramps.curve(rises)

    def roughness(self, term: int) -> Matrix:
        """Return the bends of a shape; the sum of squares where levels have no order."""
        if self.prepared.levels[term]:
            levels = self._levels(term)
            return np.eye(levels.n_frequent + levels.overall.shape[1])
        return bend_roughness(self._ramps(term))

    def ramps(self, term: int) -> Ramps | int:
        """Return the ramps of a term, or the number of columns of its levels."""
        return self.roughness(term).shape[0] if self.prepared.levels[term] else self._ramps(term)

    def _levels(self, term: int) -> LevelColumns:
        prepared = self.prepared
        count = min(self._share(term), MOST_LEVEL_COLUMNS)
        return LevelColumns.of(prepared.x[term], prepared.target, prepared.weights, count)

    def _share(self, term: int) -> int:
        """Return how many columns a term may have: those of a group share them."""
        return max(FEWEST, self.count // self.prepared.grouping.size_of(term))

    def _ramps(self, term: int) -> Ramps:
        if term not in self._placed:
            self._placed[term] = self._place(term)
        return self._placed[term]

    def _place(self, term: int) -> Ramps:
        x, weights = self.prepared.x[term], self.prepared.weights
        present = ~np.isnan(x)
        if not present.all():
            x, weights = x[present], weights[present]
        # values, not rows: a row twice is a row of weight 2
        most = max(2, np.unique(x).size // VALUES_PER_RAMP) if x.size < MANY_ROWS else self.count
        return place_ramps(x, weights, min(self._share(term), most))


@dataclass(frozen=True, slots=True, eq=False)
class FrozenFeatures:
    """The last hidden layer of any perceptron bank, frozen: the random features of the paper's section 3.3.

    ``x`` has shape (terms, rows), ``theta`` (terms, size). Without hidden layers the one column is the term itself.
    """

    x: Matrix
    bank: MLPBank
    theta: Matrix

    def columns(self, term: int) -> Matrix:
        """Return the hidden units of one term without padding; an absent cell has the column's mean."""
        absent = np.isnan(self.x[term])
        units = self.bank.units(self.theta[term : term + 1], np.where(absent, 0.0, self.x[term])[None])[0]
        widths = self.bank.widths
        columns = units if widths is None else units[:, : int(widths[term, -1]) if self.bank.hidden else 1]
        if absent.any():
            columns[absent] = columns[~absent].mean(axis=0)
        return columns

    def functions(self, terms: NDArray[np.intp], coefficients: Matrix) -> Functions:
        return network_functions(self.bank.take(terms), self.with_output(terms, coefficients))

    def with_output(self, terms: NDArray[np.intp], coefficients: Matrix) -> Matrix:
        """Return θ of some terms (terms, size) with these output layers (terms, m, outputs)."""
        theta = self.theta[terms]
        output = self.bank.tensors(theta)[-1]  # a view of θ
        output[:] = 0.0
        output[:, : coefficients.shape[1]] = coefficients
        return theta

    def roughness(self, term: int) -> Matrix:
        """Return the sum of squares: hidden units have no order. One column alone has no roughness."""
        units = self.columns(term).shape[1]
        return np.eye(units) if units > 1 else np.zeros((1, 1))


@dataclass(frozen=True, slots=True, eq=False)
class GroupedFeatures:
    """The random features of each group's terms, side by side; ``widths`` (terms,) are their numbers of columns."""

    features: RandomFeatures
    grouping: Grouping
    widths: NDArray[np.intp]

    @classmethod
    def of(cls, features: RandomFeatures, grouping: Grouping) -> GroupedFeatures:
        """Measure the widths, which groups of several terms need."""
        n_terms = sum(members.size for members in grouping.members)
        if grouping.is_trivial:
            return cls(features, grouping, np.zeros(n_terms, dtype=np.intp))
        return cls(features, grouping, np.array([features.columns(term).shape[1] for term in range(n_terms)]))

    def columns(self, group: int) -> Matrix:
        """Return the columns of a group's terms, shape (rows, Σ m)."""
        members = self.grouping.members[group]
        if members.size == 1:
            return self.features.columns(int(members[0]))
        return np.hstack([self.features.columns(int(term)) for term in members])

    def knot_design(self, features: RampFeatures, weights: Vector, freedoms: Vector) -> KnotDesign:
        """Return the design of ramps, the columns of a group being functions of places among knots."""
        members = [[features.at_knots(int(term)) for term in terms] for terms in self.grouping.members]
        return knot_design(members, [self.roughness(group) for group in range(len(members))], weights, freedoms)

    def ramps(self, group: int) -> list[Ramps | int] | None:
        """Return the ramps of a group's terms, the number of columns for levels; None where columns are no ramps."""
        features = self.features
        if not isinstance(features, RampFeatures) or features.hinges:
            return None
        return [features.ramps(int(term)) for term in self.grouping.members[group]]

    def freedom(self, group: int) -> float:
        """Return the degrees of freedom of a group: those of its terms, which for one of few columns are these."""
        members = self.grouping.members[group]
        return FREEDOM if members.size == 1 else float(np.minimum(self.widths[members], FREEDOM).sum())

    def roughness(self, group: int) -> Matrix:
        """Return the roughness of a group's functions, shape (Σ m, Σ m): those of its terms add up."""
        return block_diag(*(self.features.roughness(int(term)) for term in self.grouping.members[group]))

    def split(self, groups: NDArray[np.intp], values: Matrix) -> Matrix:
        """Return values (groups, m, …) of blocks by their terms in rising order, shape (terms, widest term, …)."""
        if self.grouping.is_trivial:
            return values
        terms = self.grouping.terms_of(groups)
        result = np.zeros((terms.size, int(self.widths.max()), *values.shape[2:]))
        for group, block in zip(groups, values, strict=True):
            start = 0
            for term in self.grouping.members[int(group)]:
                width = int(self.widths[term])
                result[np.searchsorted(terms, term), :width] = block[start : start + width]
                start += width
        return result

    def functions(self, groups: NDArray[np.intp], coefficients: Matrix) -> Functions:
        """Return the functions of the groups' terms, from coefficients (groups, m, outputs)."""
        return self.features.functions(self.grouping.terms_of(groups), self.split(groups, coefficients))
