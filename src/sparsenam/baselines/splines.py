"""Cubic splines of one column: which knots, how they are evaluated, and how rough they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.linalg import qr
from scipy.sparse import csr_array, diags_array

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

MOST_KNOTS = 80  # inner knots: 40 cost the synthetic regression 0.3 in test error, 120 gain nothing there
SPREAD_KNOTS = 40  # of them spread evenly over x: none raises that error from 1.05 to 1.15
FENCE = 0.5  # share of the middle's width; without a fence one of four splits of California goes from 0.31 to 0.39
CLOSE = 1e-6  # share of the range: knots much closer make second derivatives lose all digits
REACH = 0.1  # share of the knots' range over which a curve runs on as a line beyond them


@dataclass(frozen=True, slots=True, eq=False)
class SplineBasis:
    """B-splines of a column; ``knots`` has shape (size + degree + 1,), rising, the ends repeated."""

    knots: Vector
    degree: int

    @classmethod
    def of(cls, x: Vector) -> Self:
        """Return the basis of a column, shape (rows,), with at least two distinct values.

        Up to 84 distinct values get one basis function each, so that every function of them can be fitted; more
        get 80 inner knots and a fence against far outliers.
        """
        x = _fenced(x)
        distinct = _apart(x)
        degree = min(3, distinct.size - 1)
        if distinct.size <= MOST_KNOTS + 4:
            inner = distinct[2:-2] if degree == 3 else distinct[:0]
        else:
            inner = _inner_knots(x, distinct)
        ends = np.repeat(distinct[[0, -1]], degree + 1)
        return cls(np.sort(np.concatenate([ends, inner])), degree)

    @property
    def size(self) -> int:
        """Number of basis functions."""
        return self.knots.size - self.degree - 1

    def design(self, x: Vector) -> csr_array:
        """Return every basis function at every value, shape (rows, size), at most degree + 1 of them not zero.

        Outside the knots a function goes on as a straight line for a tenth of their range and is constant after
        that: the edge of a shape is followed, but a far outlier does no harm.
        """
        low, high = float(self.knots[0]), float(self.knots[-1])
        inside = np.clip(x, low, high)
        design = csr_array(BSpline.design_matrix(inside, self.knots, self.degree))
        reach = REACH * (high - low)
        beyond = np.clip(x, low - reach, high + reach) - inside
        if not beyond.any():
            return design
        slopes = self._derivative(1, np.array([low, high]))
        sides = np.stack([np.minimum(beyond, 0), np.maximum(beyond, 0)], axis=1)
        return csr_array(design + csr_array(sides) @ csr_array(slopes))

    def roughness(self) -> Matrix:
        """Return D, shape (size, size) or flatter, with ‖D c‖² = ∫ f″² for the function of coefficients c."""
        breaks = np.unique(self.knots)
        width = np.diff(breaks)
        if self.degree < 2:
            return np.zeros((1, self.size))
        # f″ is linear between knots, so two Gauss points an interval integrate its square exactly
        middle, half = (breaks[1:] + breaks[:-1]) / 2, width / 2
        points = np.concatenate([middle - half / np.sqrt(3), middle + half / np.sqrt(3)])
        rows = np.sqrt(np.concatenate([half, half]))[:, None] * self._derivative(2, points)
        return np.asarray(qr(rows, mode="r", check_finite=False)[0], dtype=np.float64)[: self.size]

    def _derivative(self, order: int, points: Vector) -> Matrix:
        return np.asarray(BSpline(self.knots, np.eye(self.size), self.degree).derivative(order)(points))


@dataclass(frozen=True, slots=True, eq=False)
class SplineCurve:
    """A fitted curve; ``coefficients`` has shape (size,)."""

    basis: SplineBasis
    coefficients: Vector

    def __call__(self, x: Vector) -> Vector:
        """Return the curve at each value, shape (rows,)."""
        return np.asarray(self.basis.design(x) @ self.coefficients)


def _fenced(x: Vector) -> Vector:
    """Return the column with far outliers moved to a fence, half a width outside the middle 99 % of the rows.

    Between two lonely far values a cubic does what it likes at no cost in roughness.
    """
    low, high = np.quantile(x, [0.005, 0.995])
    width = FENCE * (high - low)
    # with 99 % of the rows at one value the others are what the column has to say
    return np.clip(x, low - width, high + width) if width > 0 else x


def _apart(x: Vector) -> Vector:
    """Return the distinct values in rising order; those closer than a millionth of the range count as one."""
    values = np.unique(x)
    low, high = float(values[0]), float(values[-1])
    steps = np.round((values - low) / (high - low) / CLOSE)
    distinct = values[np.unique(steps, return_index=True)[1]]
    distinct[-1] = high
    return distinct


def _inner_knots(x: Vector, distinct: Vector) -> Vector:
    """Return values at even steps of rank and, as tails have few rows but much shape, at even steps of x."""
    by_rank = np.quantile(x, np.linspace(0, 1, MOST_KNOTS - SPREAD_KNOTS + 2))
    even = np.linspace(float(distinct[0]), float(distinct[-1]), SPREAD_KNOTS + 2)
    places = np.unique(np.searchsorted(distinct, np.concatenate([by_rank, even])))
    return distinct[places[(places > 0) & (places < distinct.size - 1)]]


def weighted_gram(design: csr_array, shares: Vector) -> Matrix:
    """Return Bᵀ diag(shares) B, shape (size, size)."""
    return np.asarray((design.T @ (diags_array(shares) @ design)).toarray())
