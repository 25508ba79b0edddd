"""The joint effect of two terms: bilinear between the knots of a grid, and what of it belongs to either term alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Array, Count, Matrix, Vector
from sparsenam.model.curve import ROWS_IN_CACHE, FittedCurve, interpolated

Grid = Annotated[NDArray[np.float64], Array(3)]

SINGULAR = 1e-12  # share of the largest singular value below which margins are not determined by the data


@dataclass(frozen=True, slots=True, eq=False)
class GridCells:
    """Where rows lie along one axis: between two nodes, with a share of the second; at one node where a cell is NaN."""

    left: NDArray[np.intp]
    right: NDArray[np.intp]
    share: Vector

    @classmethod
    def of(cls, knots: Vector, x: Vector) -> Self:
        """Return the places of x (rows,) among knots (m,), m ≥ 2; x beyond an end is at it, NaN is at node m."""
        absent = np.isnan(x)
        inside = np.clip(np.where(absent, knots[0], x), knots[0], knots[-1])
        left = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, knots.size - 2)
        share = (inside - knots[left]) / (knots[left + 1] - knots[left])
        left = np.where(absent, knots.size, left)
        return cls(left, np.where(absent, left, left + 1), np.where(absent, 0.0, share))


@dataclass(frozen=True, slots=True, eq=False)
class PairFunction:
    """The joint effect of two terms: bilinear within the cells of a grid, constant beyond its edges.

    ``terms`` are indices among those of the encoder, ``knots`` (a,) and (b,) the rising nodes along either axis, in the
    units of these terms. ``values`` (a + 1, b + 1, outputs) are the effect at the nodes, on the scale of the link; the
    last row and the last column are where a term is NaN. ``weights`` (a + 1, b + 1) are how many training rows are at
    each node, each row shared among the four about it. This is the reference under which the effect has mean 0 along
    each row and each column; the product of its margins is where the effect of a term must rise or fall.
    """

    terms: tuple[Count, Count]
    knots: tuple[Vector, Vector]
    values: Grid
    weights: Annotated[Matrix, Array(2, 0.0)]

    def effect(self, terms: Matrix) -> Matrix:
        """Return the effect, shape (rows, outputs), for encoded terms (rows, n_terms)."""
        effect = np.zeros((terms.shape[0], self.values.shape[2]))
        self.add_to(effect, terms)
        return effect

    def add_to(self, total: Matrix, terms: Matrix) -> None:
        """Add the effect to ``total`` (rows, outputs), some rows at a time."""
        first, second = self.terms
        for start in range(0, terms.shape[0], ROWS_IN_CACHE):
            part = slice(start, start + ROWS_IN_CACHE)
            total[part] += self.at(terms[part, first], terms[part, second])

    def at(self, x: Vector, z: Vector) -> Matrix:
        """Return the effect at x and z, both (rows,), shape (rows, outputs)."""
        one, other = GridCells.of(self.knots[0], x), GridCells.of(self.knots[1], z)
        u, v, values = one.share[:, None], other.share[:, None], self.values
        low = (1.0 - v) * values[one.left, other.left] + v * values[one.left, other.right]
        high = (1.0 - v) * values[one.right, other.left] + v * values[one.right, other.right]
        return (1.0 - u) * low + u * high

    @property
    def n_parameters(self) -> int:
        """The numbers at nodes that hold data."""
        return int(np.count_nonzero(self.weights > 0)) * self.values.shape[2]


@dataclass(frozen=True, slots=True, eq=False)
class Purified:
    """A pair without what either term explains alone, those two functions at the nodes, and a constant (outputs,)."""

    pair: PairFunction
    rows: Matrix
    columns: Matrix
    constant: Vector


def purified(pair: PairFunction, weights: Matrix) -> Purified:
    """Split a pair into a constant, two functions of one term each, and the rest.

    The functions are the least squares fit of the values by row + column, with weights of the nodes. The rest then has
    mean 0 in every row and column that has a weight.
    """
    shape = pair.values.shape
    rows, columns = np.zeros((shape[0], shape[2])), np.zeros((shape[1], shape[2]))
    used, crossed = weights.sum(axis=1) > 0, weights.sum(axis=0) > 0
    mass = weights[np.ix_(used, crossed)]
    sums = pair.values[np.ix_(used, crossed)]
    sums *= mass[:, :, None]
    of_rows, of_columns = mass.sum(axis=1), mass.sum(axis=0)
    shares = mass.T / of_rows
    system = np.diag(of_columns) - shares @ mass
    right = sums.sum(axis=0) - shares @ sums.sum(axis=1)
    found = np.asarray(np.linalg.lstsq(system, right, rcond=SINGULAR)[0], dtype=np.float64)
    across = (sums.sum(axis=1) - mass @ found) / of_rows[:, None]
    constant = np.zeros(shape[2])
    for part, of in ((across, of_rows), (found, of_columns)):
        mean = of @ part / of.sum()
        part -= mean
        constant += mean
    rows[used], columns[crossed] = across, found
    _fill(rows, used, pair.knots[0])
    _fill(columns, crossed, pair.knots[1])
    rest = pair.values - rows[:, None, :]
    rest -= columns
    rest -= constant
    if not used[-1]:  # cells that were never absent in training add nothing where they are
        rest[-1] = 0.0
    if not crossed[-1]:
        rest[:, -1] = 0.0
    return Purified(replace(pair, values=rest), rows, columns, constant)


def _fill(values: Matrix, used: NDArray[np.bool_], knots: Vector) -> None:
    """Put values between those of nodes with data into nodes without; the last node, of absent cells, keeps 0."""
    inside = used[:-1]
    if inside.all() or not inside.any():
        return
    values[:-1] = interpolated(knots, knots[inside], values[:-1][inside])


def with_margin(curve: FittedCurve, knots: Vector, margin: Matrix) -> FittedCurve:
    """Return a curve plus a function that is linear between knots (m,) and constant beyond, on the union of knots.

    ``margin`` is (m + 1, outputs): its values at the knots and, last, where the term is NaN.
    """
    union = np.union1d(curve.knots, knots)
    values = curve(union) + interpolated(union, knots, margin[:-1])
    return FittedCurve(union, values, curve.left_slope, curve.right_slope, curve.absent + margin[-1])
