"""The model for a few rows, as plain lists: there a NumPy call takes longer than the sum that it is for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sparsenam.model.curve import FittedCurve
from sparsenam.model.pairs import PairFunction

Numbers = list[float]
Lines = list[tuple[Numbers, Numbers]]  # bases and slopes of each output
PlainPair = tuple[tuple[int, int], tuple[Numbers, Numbers], list[list[Numbers]]]  # terms, knots, values


@dataclass(frozen=True, slots=True, eq=False)
class PlainModel:
    """An additive model of curves as lists of numbers: of each its term, knots, anchors and lines.

    The sums are those of the arrays in the same order, so that the answers are the same to the bit: both round every
    product and every sum to the nearest double.
    """

    curves: list[tuple[int, Numbers, Numbers, Lines]]
    pairs: list[PlainPair]
    intercept: Numbers

    @classmethod
    def of(
        cls,
        curves: Sequence[FittedCurve],
        terms: NDArray[np.intp],
        pairs: Sequence[PairFunction],
        intercept: NDArray[np.float64],
    ) -> Self:
        """Return the lists of curves of these terms, pairs, and an intercept (outputs,)."""
        plain = list[tuple[int, Numbers, Numbers, Lines]]()
        for curve, term in zip(curves, terms.tolist(), strict=True):
            anchors, bases, slopes = (part.tolist() for part in curve.lines)
            plain.append((term, curve.knots.tolist(), anchors, list(zip(bases, slopes, strict=True))))
        grids = [(pair.terms, (pair.knots[0].tolist(), pair.knots[1].tolist()), pair.values.tolist()) for pair in pairs]
        return cls(plain, grids, intercept.tolist())

    def scores(self, rows: Sequence[Sequence[float]]) -> NDArray[np.float64]:
        """Return the linear predictor, shape (rows, outputs), of finite terms."""
        return np.array([self._score(row) for row in rows])

    def _score(self, row: Sequence[float]) -> Numbers:
        total = [0.0] * len(self.intercept)
        for term, knots, anchors, lines in self.curves:
            x = row[term]
            piece = bisect_right(knots, x)
            across = x - anchors[piece]
            for output, (bases, slopes) in enumerate(lines):
                total[output] += slopes[piece] * across + bases[piece]
        for pair in self.pairs:
            _add_pair(total, pair, row)
        return [score + intercept for score, intercept in zip(total, self.intercept, strict=True)]


def _add_pair(total: Numbers, pair: PlainPair, row: Sequence[float]) -> None:
    """Add the joint effect of two terms of a row to the outputs."""
    terms, axes, values = pair
    (i, u), (j, v) = (_place(knots, row[term]) for knots, term in zip(axes, terms, strict=True))
    low, high = values[i], values[i + 1]
    for output in range(len(total)):
        left = (1.0 - v) * low[j][output] + v * low[j + 1][output]
        right = (1.0 - v) * high[j][output] + v * high[j + 1][output]
        total[output] += (1.0 - u) * left + u * right


def _place(knots: Numbers, x: float) -> tuple[int, float]:
    """Return the node before x, and the share of the way from it to the next one."""
    inside = min(max(x, knots[0]), knots[-1])
    node = min(bisect_right(knots, inside) - 1, len(knots) - 2)
    return node, (inside - knots[node]) / (knots[node + 1] - knots[node])
