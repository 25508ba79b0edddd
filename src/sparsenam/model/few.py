"""The model for a few rows, as plain lists: there a NumPy call takes longer than the sum that it is for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sparsenam.model.pairs import PairFunction
from sparsenam.model.shapes import ShapeFunction

Numbers = list[float]


@dataclass(frozen=True, slots=True, eq=False)
class PlainShape:
    """A term's shape as lists: on piece k the effect is bases[k] + slopes[k] (x - anchors[k]), for each output."""

    term: int
    knots: Numbers
    anchors: Numbers
    lines: list[tuple[Numbers, Numbers]]  # bases and slopes of each output

    @classmethod
    def of(cls, shape: ShapeFunction, term: int) -> Self:
        """Return the lists of a shape."""
        pieces = shape.pieces
        lines = list(zip(pieces.bases.tolist(), pieces.slopes.tolist(), strict=True))
        return cls(term, shape.knots.tolist(), pieces.anchors.tolist(), lines)


@dataclass(frozen=True, slots=True, eq=False)
class PlainPair:
    """A pair as lists: values[i][j] are the outputs at the nodes i and j."""

    terms: tuple[int, int]
    knots: tuple[Numbers, Numbers]
    values: list[list[Numbers]]

    @classmethod
    def of(cls, pair: PairFunction) -> Self:
        """Return the lists of a pair."""
        return cls(pair.terms, (pair.knots[0].tolist(), pair.knots[1].tolist()), pair.values.tolist())

    def add_to(self, total: Numbers, row: Sequence[float]) -> None:
        """Add the effect at a row of terms to the outputs."""
        (i, u), (j, v) = (_place(knots, row[term]) for knots, term in zip(self.knots, self.terms, strict=True))
        low, high = self.values[i], self.values[i + 1]
        for output in range(len(total)):
            left = (1.0 - v) * low[j][output] + v * low[j + 1][output]
            right = (1.0 - v) * high[j][output] + v * high[j + 1][output]
            total[output] += (1.0 - u) * left + u * right


def _place(knots: Numbers, x: float) -> tuple[int, float]:
    """Return the node before x, and the share of the way from it to the next one."""
    inside = min(max(x, knots[0]), knots[-1])
    node = min(bisect_right(knots, inside) - 1, len(knots) - 2)
    return node, (inside - knots[node]) / (knots[node + 1] - knots[node])


@dataclass(frozen=True, slots=True, eq=False)
class PlainModel:
    """An additive model with exact shapes as lists of numbers.

    The sums are those of the arrays in the same order, so that the answers are the same to the bit: both round every
    product and every sum to the nearest double.
    """

    shapes: tuple[PlainShape, ...]
    pairs: tuple[PlainPair, ...]
    intercept: Numbers

    @classmethod
    def of(
        cls,
        shapes: Sequence[ShapeFunction],
        terms: NDArray[np.intp],
        pairs: Sequence[PairFunction],
        intercept: NDArray[np.float64],
    ) -> Self:
        """Return the lists of shapes of these terms, pairs, and an intercept (outputs,)."""
        plain = tuple(PlainShape.of(shape, int(term)) for shape, term in zip(shapes, terms, strict=True))
        return cls(plain, tuple(PlainPair.of(pair) for pair in pairs), intercept.tolist())

    def scores(self, rows: Sequence[Sequence[float]]) -> NDArray[np.float64]:
        """Return the linear predictor, shape (rows, outputs), of finite terms."""
        return np.array([self._score(row) for row in rows])

    def _score(self, row: Sequence[float]) -> Numbers:
        total = [0.0] * len(self.intercept)
        for shape in self.shapes:
            x = row[shape.term]
            piece = bisect_right(shape.knots, x)
            across = x - shape.anchors[piece]
            for output, (bases, slopes) in enumerate(shape.lines):
                total[output] += slopes[piece] * across + bases[piece]
        for pair in self.pairs:
            pair.add_to(total, row)
        return [score + intercept for score, intercept in zip(total, self.intercept, strict=True)]
