"""Compiled loops over rows: sums of products of hat functions, exact, in one pass.

A row lies between two knots of each term, with share 1 - u of the left one and u of the right one. The products of two
terms are four numbers a row, added to four neighbouring cells of a matrix that stays in the cache: a fiftieth of what
a dense product with m columns a term costs. ``np.bincount`` is slower than BLAS here; hence compiled code, which is
compiled once and kept on disk.

Indices are unsigned: signed ones are tested for being negative, in every row, which takes three times as long.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.unsignedinteger]
Indices = NDArray[np.intp]
ONE = np.uint64(1)
BLOCK = 256  # rows that all terms read before the next ones: they stay in the cache


@njit(cache=True, nogil=True, error_model="numpy")
def _cross(left: Places, low: Floats, high: Floats, right: Places, shares: Floats, gram: Floats) -> None:
    """Add the products of two terms: ``low`` and ``high`` (rows,) are the weighted shares of the first one's knots."""
    for row in range(left.size):
        across, down = np.uint64(right[row]), np.uint64(left[row])
        a, b = low[row], high[row]
        av, bv = a * shares[row], b * shares[row]
        gram[down, across] += a - av
        gram[down, across + ONE] += av
        gram[down + ONE, across] += b - bv
        gram[down + ONE, across + ONE] += bv


@njit(cache=True, nogil=True, error_model="numpy")
def add_crossed(
    one: Places, part: Floats, places: Places, shares: Floats, terms: Indices, weights: Floats, gram: Floats
) -> None:
    """Add H₁ᵀWH to ``gram`` (knots of one term, knots): the products of one term with some, itself among them or not.

    ``one`` and ``part`` (rows,) are that term's places, as rows of ``gram``, and shares.
    """
    rows = one.size
    low, high = np.empty(rows), np.empty(rows)
    for row in range(rows):
        high[row] = weights[row] * part[row]
        low[row] = weights[row] - high[row]
    for term in terms:
        _cross(one, low, high, places[term], shares[term], gram)


@njit(cache=True, nogil=True, error_model="numpy")
def add_sums(places: Places, shares: Floats, terms: Indices, values: Floats, sums: Floats) -> None:
    """Add Hᵀv of some terms to ``sums`` (knots, r) for values v (rows, r)."""
    rows, count = values.shape
    for first in range(0, rows, BLOCK):
        for term in terms:
            for row in range(first, min(first + BLOCK, rows)):
                place, share, added = np.uint64(places[term, row]), shares[term, row], values[row]
                left, right = sums[place], sums[place + ONE]
                for column in range(count):
                    part = added[column] * share
                    left[column] += added[column] - part
                    right[column] += part


@njit(cache=True, nogil=True, error_model="numpy")
def add_effects(places: Places, shares: Floats, terms: Indices, values: Floats, effects: Floats) -> None:
    """Add Hf of some terms to ``effects`` (rows, r) for values f at the knots (knots, r)."""
    rows, count = effects.shape
    for first in range(0, rows, BLOCK):
        for term in terms:
            for row in range(first, min(first + BLOCK, rows)):
                place, share, into = np.uint64(places[term, row]), shares[term, row], effects[row]
                left, right = values[place], values[place + ONE]
                for column in range(count):
                    into[column] += left[column] + share * (right[column] - left[column])
