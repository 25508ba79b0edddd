"""Where rows lie among the knots of terms, and exact sums over rows from that alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.design import Ramps
from sparsenam.tables.sample import Matrix, Vector

# terms² · rows up to which numpy adds the products, in 10 ms at most; to load numba takes 0.65 s of a first fit
FEW_PRODUCTS = 1_000_000
Places = NDArray[np.unsignedinteger]
Indices = NDArray[np.intp]
GHOSTS = 2  # knots after the last one, where cells lie that are absent


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRows:
    """H (rows, knots), the shares that rows have of the two knots about them, for all terms.

    A sum of ramps, or any function that is linear between knots, is H f with f its values at the knots; all sums over
    rows that a fit needs are sums of entries of H. ``places`` (terms, rows) holds the left knot among those of all
    terms, ``shares`` (terms, rows) the share of the next one: ten bytes a cell. Where a term is absent, H is 0.
    ``knots`` has the slice of each term's knots.
    """

    places: NDArray[np.unsignedinteger]
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
    def at_places(
        cls, places: Sequence[NDArray[np.signedinteger]], shares: Sequence[Vector], sizes: Sequence[int]
    ) -> PlacedRows:
        """Return rows placed by hand: places (rows,) among the ``sizes`` knots of each term, -1 where it is absent."""
        knots = slots(sizes)
        total = knots[-1].stop
        everywhere = np.empty((len(places), len(places[0])), dtype=_integer(total))
        # term by term: all would be eight bytes a cell
        for into, each, slot in zip(everywhere, places, knots, strict=True):
            into[:] = np.where(each < 0, total, each + slot.start)
        return cls(everywhere, np.stack(list(shares)), knots)

    def at(self, rows: NDArray[np.intp]) -> PlacedRows:
        """Return some of the rows."""
        return PlacedRows(self.places[:, rows], self.shares[:, rows], self.knots)

    def take(self, terms: Sequence[int] | NDArray[np.intp]) -> PlacedRows:
        """Return some of the terms."""
        knots = slots([self.knots[term].stop - self.knots[term].start for term in terms])
        total = knots[-1].stop
        places = np.empty((len(knots), self.n_rows), dtype=_integer(total))
        for into, term, slot in zip(places, terms, knots, strict=True):
            moved = self.places[term].astype(np.int64) + (slot.start - self.knots[term].start)
            into[:] = np.where(self.places[term] >= self.size, total, moved)
        return PlacedRows(places, self.shares[terms], knots)

    @property
    def size(self) -> int:
        """The number of all knots."""
        return self.knots[-1].stop if self.knots else 0

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.places.shape[1]

    def gram(self, weights: Vector) -> Matrix:
        """Return HᵀWH, shape (knots, knots), for weights (rows,)."""
        room = self.size + GHOSTS
        gram = np.zeros((room, room))
        _loops(self.places).add_products(self.places, self.shares, np.ascontiguousarray(weights), gram)
        gram = gram[: self.size, : self.size]
        for knot in range(1, self.size):  # in place: of many knots, copies would be the largest part of a fit
            gram[knot, :knot] = gram[:knot, knot]
        return gram

    def sums(self, values: Matrix) -> Matrix:
        """Return Hᵀv, shape (knots, r), for v of shape (rows, r)."""
        sums = np.zeros((values.shape[1], self.size + GHOSTS))
        _loops(self.places).add_sums(
            self.places, self.shares, np.arange(len(self.knots)), np.ascontiguousarray(values.T), sums
        )
        return np.ascontiguousarray(sums[:, : self.size].T)

    def times(self, values: Matrix) -> Matrix:
        """Return Hf, shape (rows, r), for values f at the knots, shape (knots, r)."""
        at = np.zeros((values.shape[1], self.size + GHOSTS))
        at[:, : self.size] = values.T
        effects = np.zeros((values.shape[1], self.n_rows))
        _loops(self.places).add_effects(self.places, self.shares, np.arange(len(self.knots)), at, effects)
        return effects.T


def slots(sizes: Sequence[int]) -> tuple[slice[int, int, None], ...]:
    """Return slices of these sizes, one after the other."""
    return tuple(slice(int(end) - size, int(end)) for size, end in zip(sizes, np.cumsum(sizes), strict=True))


def _loops(cells: NDArray[Any]) -> Any:
    """Return the loops over cells (terms, rows): compiled ones where they save more than to load them takes."""
    terms, rows = cells.shape
    return kernels_module() if terms * terms * rows > FEW_PRODUCTS else FewRows


class FewRows:
    """The loops of `kernels.py` over few rows, by numpy: the same sums without compiled code to load."""

    @staticmethod
    def add_products(places: Places, shares: Matrix, weights: Vector, gram: Matrix) -> None:
        room, flat, left = len(gram), gram.reshape(-1), places.astype(np.intp)
        for one in range(len(left)):
            high = weights * shares[one]
            low = weights - high
            for two in range(one, len(left)):
                cells = left[one] * room + left[two]
                low_right, high_right = low * shares[two], high * shares[two]
                np.add.at(flat, cells, low - low_right)
                np.add.at(flat, cells + 1, low_right)
                np.add.at(flat, cells + room, high - high_right)
                np.add.at(flat, cells + room + 1, high_right)

    @staticmethod
    def add_sums(places: Places, shares: Matrix, terms: Indices, values: Matrix, sums: Matrix) -> None:
        size = sums.shape[1]
        for term, part in zip(places[terms].astype(np.intp), shares[terms], strict=True):
            for added, into in zip(values, sums, strict=True):
                right = added * part
                into += np.bincount(term, added - right, size) + np.bincount(term + 1, right, size)

    @staticmethod
    def add_effects(places: Places, shares: Matrix, terms: Indices, values: Matrix, effects: Matrix) -> None:
        for term, part in zip(places[terms].astype(np.intp), shares[terms], strict=True):
            left = values[:, term]
            effects += left + part * (values[:, term + 1] - left)

    @staticmethod
    def place(cells: Vector, knots: Vector, start: int, absent: int, places: Places, shares: Vector) -> None:
        present = ~np.isnan(cells)
        x = cells[present]
        left = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, knots.size - 2)
        places[...], shares[...] = absent, 0.0
        places[present] = start + left
        shares[present] = np.clip((x - knots[left]) / (knots[left + 1] - knots[left]), 0.0, 1.0)


def kernels_module() -> Any:
    """Return the compiled loops; numba is imported with the first fit that needs it, not with the library."""
    from sparsenam.convex import kernels

    return kernels


def _integer(knots: int) -> type[np.uint16 | np.uint32]:
    """Return the smallest type that holds the places among so many knots."""
    return np.uint16 if knots + GHOSTS < 2**16 else np.uint32
