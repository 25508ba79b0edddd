"""Curves of very many knots, without a matrix of their products: conjugate gradients, sums over rows alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded

from sparsenam.convex.design import Ramps
from sparsenam.convex.moments import PlacedRows
from sparsenam.model import Curve
from sparsenam.smooth.design import ramps_of
from sparsenam.tables.sample import Matrix, Vector

KNOTS = 1000  # of a term; Superconductivity, the columns first chosen: MSE 121.8 with 256, 119.7, 119.0 with 4000
LEVEL = 1e-3  # precision of a value itself beside that of differences: it settles the constants, which rows do not see
STEPS = 200  # of conjugate gradients at most; 12 reach the third digit of the error on Superconductivity


@dataclass(frozen=True, slots=True, eq=False)
class DetailRows:
    """Terms at many knots: where rows lie among them, and what differences of values cost.

    A priori a term is a Brownian path in the ranks of its cells, and the values of unordered levels are independent.
    ``costs`` (knots,) is 1/d for the step from a knot to the next one of its term, d being the share of rows between
    them, and 0 for the last. ``levels`` (knots,) is the precision of the value itself.
    """

    ramps: tuple[Ramps, ...]
    placed: PlacedRows
    costs: Vector
    levels: Vector

    @classmethod
    def of(cls, x: Matrix, weights: Vector, unordered: NDArray[np.bool_]) -> DetailRows:
        """Return the knots of terms x (terms, rows); ``unordered`` (terms,) marks codes of levels."""
        ramps = tuple(ramps_of(cells, weights, KNOTS) for cells in x)
        placed = PlacedRows.of(ramps, x)
        at_knots = placed.sums(weights[:, None])[:, 0]
        costs, levels = np.zeros(placed.size), np.full(placed.size, LEVEL)
        for slot, is_unordered in zip(placed.knots, unordered, strict=True):
            mass = at_knots[slot]
            total = max(float(mass.sum()), 1.0)
            if is_unordered:
                levels[slot] = 1.0
            else:
                costs[slot][:-1] = 1.0 / np.maximum(0.5 * (mass[1:] + mass[:-1]) / total, 1.0 / total)
        return cls(ramps, placed, costs, levels)

    def take(self, terms: NDArray[np.intp]) -> DetailRows:
        """Return some of the terms."""
        if terms.size == len(self.ramps):
            return self
        slots = [self.placed.knots[int(term)] for term in terms]
        at = np.concatenate([np.arange(slot.start, slot.stop) for slot in slots])
        ramps = tuple(self.ramps[int(term)] for term in terms)
        return DetailRows(ramps, self.placed.take(terms), self.costs[at], self.levels[at])


class DetailProblem:
    """Half the weighted squared error of terms less their means, plus λ/2 times the cost of their values."""

    def __init__(self, rows: DetailRows, weights: Vector) -> None:
        self.rows, self.weights = rows, weights
        placed = rows.placed
        self.starts = np.array([slot.start for slot in placed.knots])
        self.sizes = np.diff(self.starts, append=placed.size)
        at_knots = placed.sums(weights[:, None])[:, 0]
        totals = np.add.reduceat(at_knots, self.starts)
        self.shares = at_knots / np.repeat(np.maximum(totals, np.finfo(float).tiny), self.sizes)
        self._band = self._products_of_neighbours()

    def effects(self, values: Matrix) -> Matrix:
        """Return the sum of the terms in all rows, shape (rows, r), for their values at the knots (knots, r)."""
        return self.rows.placed.times(values - self._spread(self.shares[:, None] * values))

    def solve(self, target: Matrix, strength: float, start: Matrix | None, tol: float) -> Matrix:
        """Return the best values at the knots (knots, r) for targets of mean 0 (rows, r), to a relative residual."""
        diagonal, beside = self._band
        costs = self.rows.costs
        band = np.zeros((2, diagonal.size))
        band[1] = diagonal + strength * (self.rows.levels + costs + np.concatenate([[0.0], costs[:-1]]))
        band[0, 1:] = beside[:-1] - strength * costs[:-1]
        factor = cholesky_banded(band)

        def product(values: Matrix) -> Matrix:
            return self._transposed(self.weights[:, None] * self.effects(values)) + strength * self._priced(values)

        pull = self._transposed(self.weights[:, None] * target)
        values = np.zeros_like(pull) if start is None else start
        rest = pull - product(values)
        enough = tol * np.linalg.norm(pull, axis=0)
        direction, square = np.zeros_like(pull), np.ones(pull.shape[1])
        for step in range(STEPS):
            if (np.linalg.norm(rest, axis=0) <= enough).all():
                break
            near = cho_solve_banded((factor, False), rest)
            before, square = square, np.einsum("kr,kr->r", rest, near)
            direction = near + (square / before if step else 0.0) * direction
            turned = product(direction)
            length = square / np.maximum(np.einsum("kr,kr->r", direction, turned), np.finfo(float).tiny)
            values, rest = values + length * direction, rest - length * turned
        return values

    def functions(self, values: Matrix) -> list[Curve]:
        """Return the terms as functions, level beyond their ends."""
        parts = zip(self.rows.ramps, self.rows.placed.knots, strict=True)
        return [Curve.level_beyond(ramps.knots, values[slot]) for ramps, slot in parts]

    def sizes_of_effects(self, values: Matrix) -> Vector:
        """Return the variance of each term's effect over the rows, summed over outputs, shape (terms,)."""
        centred = values - self._spread(self.shares[:, None] * values)
        return np.add.reduceat(self.shares * np.sum(centred**2, axis=1), self.starts)

    def _spread(self, values: Matrix) -> Matrix:
        """Return each term's sum of values (knots, r), at all of its knots."""
        return np.repeat(np.add.reduceat(values, self.starts, axis=0), self.sizes, axis=0)

    def _transposed(self, values: Matrix) -> Matrix:
        """Return the products of the terms' hat functions, less their means, with values (rows, r): (knots, r)."""
        sums = self.rows.placed.sums(values)
        return sums - self.shares[:, None] * self._spread(sums)

    def _priced(self, values: Matrix) -> Matrix:
        """Return P times values (knots, r)."""
        flows = self.rows.costs[:-1, None] * np.diff(values, axis=0)
        priced = self.rows.levels[:, None] * values
        priced[1:] += flows
        priced[:-1] -= flows
        return priced

    def _products_of_neighbours(self) -> tuple[Vector, Vector]:
        """Return the weighted products of each hat function with itself and with the next one, (knots,) each."""
        placed, room = self.rows.placed, self.rows.placed.size + 2
        diagonal, beside = np.zeros(room), np.zeros(room)
        for cells, shares in zip(placed.places, placed.shares, strict=True):
            places = cells.astype(np.intp)
            right = self.weights * shares
            left = self.weights - right
            diagonal += np.bincount(places, left * (1.0 - shares), room) + np.bincount(places + 1, right * shares, room)
            beside += np.bincount(places, left * shares, room)
        return diagonal[:-2], beside[:-2]
