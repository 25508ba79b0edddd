"""Ramps: the clipped ReLU units of one term, one between each two neighbouring knots, and banks of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from sparsenam.errors import InputError, describe
from sparsenam.networks import MLPBank
from sparsenam.tables.scaling import Matrix, Vector

# numbers are mean test MSE of the synthetic regression, ten seeds, floor 1.0
EVEN_SHARE = 0.4  # of the scale by length, not rows: 1.095; 1.232 at 0, 1.100 at 1
MARGIN = 0.1  # share of the bulk by which the end ramps pass the data: 1.095; 1.133 at 0, 1.116 at 0.3
REACH = 3.0  # interquartile ranges from the quartiles to the ends of the bulk; outliers get few knots
ROUNDING = 1e-9  # far above that of a sum of weights
NEAR = 1e-10  # knots closer than this share of the range are one: a steeper ramp would be rounding alone


@dataclass(frozen=True, slots=True, eq=False)
class Ramps:
    """Clipped ReLU units clip((x - tₖ)/hₖ, 0, 1) between neighbouring knots t₀ < … < tₘ of one term.

    hₖ = tₖ₊₁ - tₖ, and ``knots`` has shape (m + 1,). Σₖ cₖ rampₖ(x) is piecewise linear with these knots,
    0 left of t₀, level right of tₘ, and rises by cₖ between tₖ and tₖ₊₁.
    """

    knots: Vector

    @property
    def size(self) -> int:
        """Number of ramps, m."""
        return self.knots.size - 1

    def columns(self, x: Vector) -> Matrix:
        """Return the ramps at x of shape (rows,), shape (rows, m)."""
        columns = x - self.knots[:-1, None]  # a ramp at a time: rows are many, ramps few
        columns /= np.diff(self.knots)[:, None]
        return np.clip(columns, 0.0, 1.0, out=columns).T

    def means(self, x: Vector, weights: Vector) -> Vector:
        """Return the weighted means of the ramps at x of shape (rows,), shape (m,).

        A row between tₖ and tₖ₊₁ has ramps 1, …, 1, u, 0, …, 0, so that sums of w and wu for each k are enough.
        """
        interval = np.clip(np.searchsorted(self.knots, x, side="right") - 1, 0, self.size - 1)
        u = np.clip((x - self.knots[interval]) / np.diff(self.knots)[interval], 0.0, 1.0)
        inside = np.bincount(interval, weights, minlength=self.size)
        partly = np.bincount(interval, weights * u, minlength=self.size)
        beyond = np.cumsum(inside[::-1])[::-1] - inside
        return (beyond + partly) / weights.sum()


def place_ramps(x: Vector, weights: Vector, count: int) -> Ramps:
    """Return about ``count`` ramps for one term, dense where rows are many and even elsewhere.

    The knots are equally spaced on the scale 0.6 F + 0.4 L, where F is the share of rows below (a tied value
    counts for at most one ramp) and L the position between the ends of the bulk. A term with at most
    ``count + 1`` values gets its knots at the values, so that any function of them is a sum of ramps.

    Parameters
    ----------
    x
        Values, shape (rows,).
    weights
        Number of times that each row counts, shape (rows,); 2 is the row twice.
    """
    values, counts = distinct(x, weights)
    if values.size < 2:
        got = f"{values.size} value(s) in rows of weight above 0"
        raise InputError(describe("place_ramps", "a column that varies", got, "leave the column out"))
    if values.size <= count + 1:
        return Ramps(_apart(values))
    total = counts.sum()
    cumulated = np.cumsum(counts)
    quarter = 0.25 * total * (1.0 - ROUNDING)  # a quartile that falls between two values is the lower one
    first, third = values[np.searchsorted(cumulated, (quarter, 3.0 * quarter))]
    spread = third - first if third > first else (values[-1] - values[0]) / 6.0
    low, high = max(values[0], first - REACH * spread), min(values[-1], third + REACH * spread)
    counts = np.minimum(counts, total / count)
    middles = np.cumsum(counts) - 0.5 * counts
    middles = (middles - middles[0]) / (middles[-1] - middles[0])
    positions = np.minimum(np.maximum((values - low) / (high - low), 0.0), 1.0)
    scale = (1.0 - EVEN_SHARE) * middles + EVEN_SHARE * (positions - positions[0])
    steps = np.arange(count + 1, dtype=np.float64) / count * scale[-1]
    knots = _apart(cast(Vector, np.interp(steps, scale, values)))
    knots[0] -= MARGIN * (high - low)
    knots[-1] += MARGIN * (high - low)
    return Ramps(knots)


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
    gaps = knots[1:] - knots[:-1]
    kept = np.empty(knots.size, dtype=np.bool_)
    kept[0] = True
    np.greater(gaps, NEAR * (knots[-1] - knots[0]), out=kept[1:])
    result = knots[kept]
    result[-1] = knots[-1]
    return result


def ramp_bank(
    ramps: Sequence[Ramps], coefficients: Sequence[Matrix], outputs: int, activation: str = "clipped_relu"
) -> tuple[MLPBank, Tensor]:
    """Return the bank whose sub-network j is Σₖ cₖ clip((x - tₖ)/hₖ, 0, 1), and its θ in double precision.

    With ``activation="relu"`` the units are hinges, max((x - tₖ)/hₖ, 0).

    Parameters
    ----------
    ramps
        The ramps of each term.
    coefficients
        c of each term, shape (m_j, outputs).
    """
    slopes = [1.0 / np.diff(each.knots) for each in ramps]
    shifts = [-each.knots[:-1] * slope for each, slope in zip(ramps, slopes, strict=True)]
    return unit_bank(slopes, shifts, coefficients, outputs, activation)


def unit_bank(
    slopes: Sequence[Vector],
    shifts: Sequence[Vector],
    coefficients: Sequence[Matrix],
    outputs: int,
    activation: str = "clipped_relu",
) -> tuple[MLPBank, Tensor]:
    """Return the bank whose sub-network j is Σₖ cₖ activation(aₖ x + bₖ), and its θ.

    ``slopes`` a and ``shifts`` b have shape (m_j,), ``coefficients`` c shape (m_j, outputs). The bank is as
    wide as its widest sub-network; narrower ones are padded with zeros. θ has shape (terms, size).
    """
    sizes = [slope.size for slope in slopes]
    width = max(sizes, default=1)
    bank = MLPBank((width,), outputs, activation, np.array(sizes, dtype=np.intp).reshape(-1, 1))
    theta = torch.zeros(len(sizes), bank.size, dtype=torch.float64)
    weight, bias, output = bank.tensors(theta)  # views of θ
    for term, size in enumerate(sizes):
        weight[term, 0, :size] = torch.as_tensor(slopes[term])
        bias[term, 0, :size] = torch.as_tensor(shifts[term])
        output[term, :size] = torch.as_tensor(coefficients[term])
    return bank, theta
