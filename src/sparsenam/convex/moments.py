"""Where rows lie among the knots of terms, and exact sums over rows from that alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.design import Ramps
from sparsenam.tables.sample import Matrix, Vector

if TYPE_CHECKING:
    from sparsenam.convex import kernels

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
    knots: tuple[slice, ...]

    @classmethod
    def of(cls, ramps: Sequence[Ramps], x: Matrix) -> PlacedRows:
        """Place x (terms, rows) among the knots of each term's ramps."""
        ends = np.cumsum([each.size + 1 for each in ramps])
        knots = tuple(slice(int(end) - each.size - 1, int(end)) for each, end in zip(ramps, ends, strict=True))
        total = int(ends[-1]) if ends.size else 0
        places = np.empty(x.shape, dtype=np.uint16 if total + GHOSTS < 2**16 else np.uint32)
        shares, kernel = np.empty(x.shape), _kernels()
        for term, each in enumerate(ramps):
            kernel.place(x[term], each.knots, knots[term].start, total, places[term], shares[term])
        return cls(places, shares, knots)

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
        _kernels().add_products(self.places, self.shares, np.ascontiguousarray(weights), gram)
        gram = gram[: self.size, : self.size]
        upper = np.triu(gram, 1)
        return np.triu(gram) + upper.T

    def sums(self, values: Matrix) -> Matrix:
        """Return Hᵀv, shape (knots, r), for v of shape (rows, r)."""
        sums = np.zeros((values.shape[1], self.size + GHOSTS))
        _kernels().add_sums(self.places, self.shares, np.ascontiguousarray(values.T), sums)
        return np.ascontiguousarray(sums[:, : self.size].T)

    def times(self, values: Matrix) -> Matrix:
        """Return Hf, shape (rows, r), for values f at the knots, shape (knots, r)."""
        at = np.zeros((values.shape[1], self.size + GHOSTS))
        at[:, : self.size] = values.T
        effects = np.zeros((values.shape[1], self.n_rows))
        _kernels().add_effects(self.places, self.shares, at, effects)
        return effects.T


def _kernels() -> type[kernels]:
    """Return the compiled loops; numba is imported with the first fit, not with the library."""
    from sparsenam.convex import kernels

    return kernels
