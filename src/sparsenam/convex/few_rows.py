"""The loops of `kernels.py` over few rows, by numpy: the same sums without compiled code, which takes time to load."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsenam.tables.sample import Matrix, Vector

Places = NDArray[np.unsignedinteger]
Indices = NDArray[np.intp]


def add_products(places: Places, shares: Matrix, weights: Vector, gram: Matrix) -> None:
    """Add HᵀWH to ``gram`` (knots, knots): the blocks of a term with itself and with later ones, above the diagonal."""
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


def add_sums(places: Places, shares: Matrix, terms: Indices, values: Matrix, sums: Matrix) -> None:
    """Add Hᵀv of some terms to ``sums`` (r, knots) for values v (r, rows)."""
    size = sums.shape[1]
    for term, part in zip(places[terms].astype(np.intp), shares[terms], strict=True):
        for added, into in zip(values, sums, strict=True):
            right = added * part
            into += np.bincount(term, added - right, size) + np.bincount(term + 1, right, size)


def add_effects(places: Places, shares: Matrix, terms: Indices, values: Matrix, effects: Matrix) -> None:
    """Add Hf of some terms to ``effects`` (r, rows) for values f at the knots (r, knots)."""
    for term, part in zip(places[terms].astype(np.intp), shares[terms], strict=True):
        left = values[:, term]
        effects += left + part * (values[:, term + 1] - left)


def place(cells: Vector, knots: Vector, start: int, absent: int, places: Places, shares: Vector) -> None:
    """Find the knot left of each cell (rows,), counted from ``start``, and the share of the next one.

    Cells beyond the knots lie at the ends; a cell that is NaN lies at ``absent``, with share 0.
    """
    present = ~np.isnan(cells)
    x = cells[present]
    left = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, knots.size - 2)
    places[...], shares[...] = absent, 0.0
    places[present] = start + left
    shares[present] = np.clip((x - knots[left]) / (knots[left + 1] - knots[left]), 0.0, 1.0)
