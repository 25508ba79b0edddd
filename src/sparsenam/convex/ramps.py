"""The functions of one term, ramps between knots or columns of levels, and exact sums over rows placed among knots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Indices
from sparsenam.errors import InputError, describe
from sparsenam.model import FittedCurve
from sparsenam.tables.sample import Matrix, Vector

# numbers are mean test MSE of the synthetic regression, ten seeds, floor 1.0
# at 0 real tables gain 2.1 ± 1.8 % and the synthetic regression loses 18 % (make ablate)
# make constants: EVEN_SHARE halved -0.16 %, doubled +1.3 % loss
EVEN_SHARE = 0.4  # of the scale by length, not rows: 1.095; 1.232 at 0, 1.100 at 1
# at 0 real tables gain 2.6 ± 1.7 % and the synthetic regression loses 14 % (make ablate)
# make constants: MARGIN halved +0.23 %, doubled -0.03 % loss
MARGIN = 0.1  # share of the bulk by which the end ramps pass the data: 1.095; 1.133 at 0, 1.116 at 0.3
# without it real tables gain 1.3 ± 0.9 %, remifentanil_in_blood loses 13 % (make ablate)
# make constants: REACH halved -0.22 %, doubled -0.4 % loss
REACH = 3.0  # interquartile ranges from the quartiles to the ends of the bulk; outliers get few knots
WEIGHT_ROUNDING = 1e-9  # far above that of a sum of weights
# without it real tables gain 1.7 ± 1.4 % (make ablate)
# make constants: SPACING halved +0.71 %, doubled +0.04 % loss
SPACING = 8.0  # times the median at which widths are clipped: an outlier must not make its ramp free
NEAREST_KNOTS = 1e-10  # knots closer than this share of the range are one: a steeper ramp would be rounding alone
PARTS = 5  # into which rows are split: a rare level's mean leaves out the part it serves
SHARED = 2  # most columns of rare levels, one for each output
PRIOR = 5.0  # rows of the overall mean that a rare level's mean starts with
# terms² · rows up to which numpy adds the products, in 10 ms at most; to load numba takes 0.65 s of a first fit
FEW_PRODUCTS = 1_000_000
# make constants: GHOSTS halved fails, doubled +0 % loss
GHOSTS = 2  # knots after the last one, where cells lie that are absent

Places = NDArray[np.unsignedinteger]


@dataclass(frozen=True, slots=True, eq=False)
class Ramps:
    """Clipped ReLU units clip((x - tₖ)/hₖ, 0, 1) between neighbouring knots t₀ < … < tₘ of one term.

    hₖ = tₖ₊₁ - tₖ, and ``knots`` has shape (m + 1,). Σₖ cₖ rampₖ(x) is piecewise linear with these knots,
    0 left of t₀, level right of tₘ, and rises by cₖ between tₖ and tₖ₊₁. ``jump`` is the ramp, the first or the last,
    that leads from a value of many rows to all others, if there is such a value: no smoothness is asked of it.
    """

    knots: Vector
    jump: int | None = None

    @property
    def size(self) -> int:
        """Number of ramps, m."""
        return self.knots.size - 1

    @property
    def roughness(self) -> Matrix:
        """The roughness of a sum of ramps as a quadratic form of its coefficients, shape (m, m).

        It is the sum of squared second differences over knots whose widths are tempered, √clip(w/median, ⅛, 8): with
        the widths themselves the few rows of long tails would get a curve of their own, with equal ones the curve
        would be too stiff where rows are dense.
        """
        if self.size < 2:
            return np.zeros((self.size, self.size))
        widths = np.diff(self.knots)
        widths = np.sqrt(np.clip(widths / np.median(widths), 1.0 / SPACING, SPACING))
        widths /= widths.mean()
        bends = np.diff(np.diag(1.0 / widths), axis=0) / np.sqrt(0.5 * (widths[:-1] + widths[1:]))[:, None]
        return bends.T @ bends

    def columns(self, x: Vector) -> Matrix:
        """Return the ramps at x of shape (rows,), shape (rows, m)."""
        columns = x - self.knots[:-1, None]  # a ramp at a time: rows are many, ramps few
        columns /= np.diff(self.knots)[:, None]
        return np.clip(columns, 0.0, 1.0, out=columns).T

    def at_knots(self, x: Vector) -> tuple[PlacedRows, Matrix]:
        """Return x of shape (rows,) among the knots, and the ramps at each knot, shape (m + 1, m)."""
        return PlacedRows.of([self], x[None]), self.columns(self.knots)

    def curve(self, rises: Matrix) -> FittedCurve:
        """Return Σₖ cₖ rampₖ for coefficients c of shape (m, outputs): 0 at the first knot, level beyond the ends."""
        values = np.concatenate([np.zeros((1, rises.shape[1])), np.cumsum(rises, axis=0)])
        return FittedCurve.level_beyond(self.knots, values)


@dataclass(frozen=True, slots=True, eq=False)
class Hinges(Ramps):
    """ReLU units with the knots and slopes of ramps: beyond the last knot they run on in a straight line."""

    def columns(self, x: Vector) -> Matrix:
        return np.maximum((x[:, None] - self.knots[:-1]) / np.diff(self.knots), 0.0)

    def curve(self, rises: Matrix) -> FittedCurve:
        widths = np.diff(self.knots)[:, None]
        slopes = np.cumsum(rises / widths, axis=0)
        summed = Ramps(self.knots).curve(slopes * widths)
        return replace(summed, knots=self.knots[:-1], values=summed.values[:-1], right_slope=slopes[-1])


def place_ramps(x: Vector, weights: Vector, count: int) -> Ramps:
    """Return about ``count`` ramps for one term, dense where rows are many and even elsewhere.

    The knots are equally spaced on the scale 0.6 F + 0.4 L, where F is the share of rows below (a tied value
    counts for at most one ramp) and L the position between the ends of the bulk. A term with at most
    ``count + 1`` values gets its knots at the values, so that any function of them is a sum of ramps. ``weights``
    (rows,) are the number of times that each row counts; 2 is the row twice.
    """
    values, counts = distinct(x, weights)
    if values.size < 2:
        got = f"{values.size} value(s) in rows of weight above 0"
        raise InputError(describe("place_ramps", "a column that varies", got, "leave the column out"))
    if values.size <= count + 1:
        return Ramps(_apart(values))
    low, high = bulk_of(values, counts)
    low, high = max(values[0], low), min(values[-1], high)
    counts = np.minimum(counts, counts.sum() / count)
    middles = np.cumsum(counts) - 0.5 * counts
    middles = (middles - middles[0]) / (middles[-1] - middles[0])
    positions = np.minimum(np.maximum((values - low) / (high - low), 0.0), 1.0)
    scale = (1.0 - EVEN_SHARE) * middles + EVEN_SHARE * (positions - positions[0])
    steps = np.arange(count + 1, dtype=np.float64) / count * scale[-1]
    knots = _apart(np.asarray(np.interp(steps, scale, values), dtype=np.float64))
    knots[0] -= MARGIN * (high - low)
    knots[-1] += MARGIN * (high - low)
    return Ramps(knots)


def bulk_of(values: Vector, counts: Vector) -> tuple[float, float]:
    """Return the ends of the bulk, by sorted values and their counts: beyond them cells are far, if there are any."""
    cumulated = np.cumsum(counts)
    quarter = 0.25 * counts.sum() * (1.0 - WEIGHT_ROUNDING)  # a quartile that falls between two values is the lower one
    first, third = values[np.searchsorted(cumulated, (quarter, 3.0 * quarter))]
    spread = third - first if third > first else (values[-1] - values[0]) / 6.0
    return first - REACH * spread, third + REACH * spread


def distinct(x: Vector, weights: Vector) -> tuple[Vector, Vector]:
    """Return the distinct values of the rows that count, sorted, and the weight of each."""
    if not weights.all():
        x, weights = x[weights > 0], weights[weights > 0]
    if x.size == 0:
        return x, weights
    even = bool((weights == weights[0]).all())
    # ties in the order of the rows give the same sums of weights on every CPU; equal weights need no order at all
    order = None if even else np.argsort(x, kind="stable")
    ordered = np.sort(x) if order is None else x[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if order is None:
        return ordered[starts], weights[0] * np.diff(starts, append=x.size)
    return ordered[starts], np.add.reduceat(weights[order], starts)


def _apart(knots: Vector) -> Vector:
    """Return the knots without those that all but coincide with the one before; both ends stay."""
    kept = np.diff(knots) > NEAREST_KNOTS * (knots[-1] - knots[0])
    result = knots[np.concatenate([[True], kept])]
    result[-1] = knots[-1]
    return result


@dataclass(frozen=True, slots=True, eq=False)
class LevelColumns:
    """One column for each frequent level; rare ones share columns that hold their mean targets.

    A rare level's mean leaves out the rows of the part that it is read in (as target encoding does), so that a
    category without effect looks like one. ``levels`` are the sorted codes (L,), ``column`` (L,) the index of each
    frequent level's column, -1 for rare ones; ``means`` (parts, L, shared) are the rare levels' and ``overall``
    (L, shared) those of all rows.
    """

    levels: Vector
    column: Indices
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

    @property
    def size(self) -> int:
        """Number of columns, m."""
        return self.n_frequent + self.overall.shape[1]

    @property
    def roughness(self) -> Matrix:
        """The sum of squares, shape (m, m): levels have no order."""
        return np.eye(self.size)

    def columns(self, x: Vector) -> Matrix:
        """Return the columns of the training rows, shape (rows, m); absent cells are 0."""
        placed, values = self.at_knots(x)
        return np.vstack([values, np.zeros(self.size)])[placed.places[0]]

    def at_knots(self, x: Vector) -> tuple[PlacedRows, Matrix]:
        """Return x among the levels, and the columns at each, shape (knots, m).

        Where rare levels share columns, each level is a knot for each part of the rows. No row has a share of the next.
        """
        present = ~np.isnan(x)
        codes = np.minimum(np.searchsorted(self.levels, np.where(present, x, self.levels[0])), self.levels.size - 1)
        parts = PARTS if self.overall.shape[1] else 1
        values = np.zeros((parts, self.levels.size, self.size))
        frequent, rare = np.flatnonzero(self.column >= 0), np.flatnonzero(self.column < 0)
        values[:, frequent, self.column[frequent]] = 1.0
        values[:, rare, self.n_frequent :] = self.means[:parts, rare]
        places, knots = codes + self.levels.size * (np.arange(x.size) % parts), parts * self.levels.size
        placed = np.where(present, places, knots).astype(_integer(knots))[None]
        return PlacedRows(placed, np.zeros((1, x.size)), slots([knots])), values.reshape(knots, self.size)

    def curve(self, coefficients: Matrix) -> FittedCurve:
        """Return the curve from level to level, for coefficients (m, outputs)."""
        values = self.overall @ coefficients[self.n_frequent :]
        frequent = self.column >= 0
        values[frequent] = coefficients[self.column[frequent]]
        return FittedCurve.level_beyond(self.levels, values)


def _leading(target: Matrix, weights: Vector) -> Indices:
    """Return the outputs, those of classes from frequent to rare and as they turn up: their names must not decide."""
    outputs: Indices = np.arange(target.shape[1], dtype=np.intp)
    if target.shape[1] == 1 or not np.isin(target, (0.0, 1.0)).all():
        return outputs
    counts = np.rint(weights @ target / (WEIGHT_ROUNDING * weights.sum()))
    return outputs[np.lexsort((target.argmax(axis=0), -counts))]


def _means_without_a_part(
    codes: Indices, n_levels: int, target: Matrix, weights: Vector
) -> tuple[NDArray[np.float64], Matrix]:
    """Return shrunken level means without each part's rows (parts, levels, k), and of all rows (levels, k)."""
    k = target.shape[1]
    present = codes >= 0
    parts = np.arange(codes.size) % PARTS
    centre = np.average(target, axis=0, weights=weights)
    sums, totals = np.zeros((PARTS, n_levels, k)), np.zeros((PARTS, n_levels))
    np.add.at(totals, (parts[present], codes[present]), weights[present])
    np.add.at(sums, (parts[present], codes[present]), weights[present, None] * (target[present] - centre))
    others, others_total = sums.sum(axis=0) - sums, totals.sum(axis=0) - totals
    all_means = sums.sum(axis=0) / (totals.sum(axis=0) + PRIOR)[:, None]
    return others / (others_total + PRIOR)[:, :, None], all_means


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRows:
    """H (rows, knots), the shares that rows have of the two knots about them, for all terms.

    A sum of ramps, or any function that is linear between knots, is H f with f its values at the knots; all sums over
    rows that a fit needs are sums of entries of H. ``places`` (terms, rows) holds the left knot among those of all
    terms, ``shares`` (terms, rows) the share of the next one: ten bytes a cell. Where a term is absent, H is 0.
    ``knots`` has the slice of each term's knots.
    """

    places: Places
    shares: Matrix
    knots: tuple[slice[int, int, None], ...]

    @classmethod
    def of(cls, ramps: Sequence[Ramps], x: Matrix) -> PlacedRows:
        """Place x (terms, rows) among the knots of each term's ramps."""
        knots = slots([each.size + 1 for each in ramps])
        total = knots[-1].stop if knots else 0
        places, shares, place = np.empty(x.shape, dtype=_integer(total)), np.empty(x.shape), _loops(x).place
        for term, each in enumerate(ramps):
            place(x[term], each.knots, knots[term].start, total, places[term], shares[term])
        return cls(places, shares, knots)

    @classmethod
    def joined(cls, terms: Sequence[PlacedRows]) -> PlacedRows:
        """Return the rows of some single terms, placed among the knots of all."""
        knots = slots([term.size for term in terms])
        places = np.empty((len(terms), terms[0].n_rows), dtype=_integer(knots[-1].stop))
        for into, term, slot in zip(places, terms, knots, strict=True):  # all at once would be eight bytes a cell
            into[:] = np.where(term.places[0] < term.size, term.places[0] + into.dtype.type(slot.start), knots[-1].stop)
        return cls(places, np.concatenate([term.shares for term in terms]), knots)

    def at(self, rows: Indices) -> PlacedRows:
        """Return some of the rows."""
        return PlacedRows(self.places[:, rows], self.shares[:, rows], self.knots)

    @property
    def size(self) -> int:
        """The number of all knots."""
        return self.knots[-1].stop if self.knots else 0

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.places.shape[1]

    def dense(self) -> Matrix:
        """Return Hᵀ as one array, shape (knots, rows)."""
        found, rows = np.zeros((self.size + GHOSTS, self.n_rows)), np.arange(self.n_rows)
        found[self.places + self.places.dtype.type(1), rows] += self.shares
        found[self.places, rows] += 1.0 - self.shares
        return found[: self.size]

    def gram(self, weights: Vector) -> Matrix:
        """Return HᵀWH, shape (knots, knots), for weights (rows,)."""
        room, add_crossed = self.size + GHOSTS, _loops(self.places).add_crossed
        gram, weights = np.zeros((room, room)), np.ascontiguousarray(weights)
        for term in range(len(self.knots)):
            later = np.arange(term, len(self.knots))
            add_crossed(self.places[term], self.shares[term], self.places, self.shares, later, weights, gram)
        gram = gram[: self.size, : self.size]
        for knot in range(1, self.size):  # in place: of many knots, copies would be the largest part of a fit
            gram[knot, :knot] = gram[:knot, knot]
        return gram

    def crossed(self, term: int, others: Indices, weights: Vector) -> Matrix:
        """Return the rows of HᵀWH that belong to one term, shape (its knots, knots), 0 but in those of ``others``."""
        knots = self.knots[term]
        size = knots.stop - knots.start
        absent = self.places[term] >= self.size
        local = np.where(absent, size, self.places[term].astype(np.int64) - knots.start).astype(np.uint16)
        gram = np.zeros((size + GHOSTS, self.size + GHOSTS))
        weights = np.ascontiguousarray(weights)
        _loops(self.places).add_crossed(local, self.shares[term], self.places, self.shares, others, weights, gram)
        return gram[:size, : self.size]

    def sums(self, values: Matrix, terms: Indices | None = None) -> Matrix:
        """Return Hᵀv, shape (knots, r), for v of shape (rows, r), with 0 at the knots of all but some terms."""
        terms = np.arange(len(self.knots)) if terms is None else terms
        sums = np.zeros((self.size + GHOSTS, values.shape[1]))
        given = np.ascontiguousarray(values, dtype=np.float64)
        _loops(self.places).add_sums(self.places, self.shares, terms, given, sums)
        return sums[: self.size]

    def times(self, values: Matrix, terms: Indices | None = None) -> Matrix:
        """Return Hf of all terms or of some, shape (rows, r), for values f at the knots, shape (knots, r)."""
        terms = np.arange(len(self.knots)) if terms is None else terms
        at = np.concatenate([values, np.zeros((GHOSTS, values.shape[1]))])
        effects = np.zeros((self.n_rows, values.shape[1]))
        _loops(self.places).add_effects(self.places, self.shares, terms, at, effects)
        return effects


def slots(sizes: Sequence[int]) -> tuple[slice[int, int, None], ...]:
    """Return slices of these sizes, one after the other."""
    return tuple(slice(int(end) - size, int(end)) for size, end in zip(sizes, np.cumsum(sizes), strict=True))


def _integer(knots: int) -> type[np.uint16 | np.uint32]:
    """Return the smallest type that holds the places among so many knots."""
    return np.uint16 if knots + GHOSTS < 2**16 else np.uint32


def _loops(cells: NDArray[np.generic]) -> ModuleType | type[FewRows]:
    """Return the loops over cells (terms, rows): compiled ones where they save more than to load them takes."""
    terms, rows = cells.shape
    if terms * terms * rows <= FEW_PRODUCTS:
        return FewRows
    from sparsenam.convex import kernels  # numba is imported with the first fit that needs it, not with the library

    return kernels


class FewRows:
    """The loops of `kernels.py` over few rows, by numpy: the same sums without compiled code to load."""

    @staticmethod
    def add_crossed(
        one: Places, part: Vector, places: Places, shares: Matrix, terms: Indices, weights: Vector, gram: Matrix
    ) -> None:
        room, flat = gram.shape[1], gram.reshape(-1)
        high = weights * part
        low = weights - high
        for term in terms:
            cells = one.astype(np.intp) * room + places[term].astype(np.intp)
            low_right, high_right = low * shares[term], high * shares[term]
            np.add.at(flat, cells, low - low_right)
            np.add.at(flat, cells + 1, low_right)
            np.add.at(flat, cells + room, high - high_right)
            np.add.at(flat, cells + room + 1, high_right)

    @staticmethod
    def add_sums(places: Places, shares: Matrix, terms: Indices, values: Matrix, sums: Matrix) -> None:
        size = len(sums)
        for term, part in zip(places[terms].astype(np.intp), shares[terms], strict=True):
            for added, into in zip(values.T, sums.T, strict=True):
                right = added * part
                into += np.bincount(term, added - right, size) + np.bincount(term + 1, right, size)

    @staticmethod
    def add_effects(places: Places, shares: Matrix, terms: Indices, values: Matrix, effects: Matrix) -> None:
        for term, part in zip(places[terms].astype(np.intp), shares[terms], strict=True):
            left = values[term]
            effects += left + part[:, None] * (values[term + 1] - left)

    @staticmethod
    def place(cells: Vector, knots: Vector, start: int, absent: int, places: Places, shares: Vector) -> None:
        present = ~np.isnan(cells)
        x = cells[present]
        left = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, knots.size - 2)
        places[...], shares[...] = absent, 0.0
        places[present] = start + left
        shares[present] = np.clip((x - knots[left]) / (knots[left + 1] - knots[left]), 0.0, 1.0)
