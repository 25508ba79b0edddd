"""The shape of one effect: a piecewise linear function, known by its knots."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.errors import InputError, describe
from sparsenam.model.pieces import Pieces

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ShapeFunction:
    """The effect of one term: linear between knots, with a slope of its own beyond either end.

    Parameters
    ----------
    knots
        Places of the kinks, rising, shape (m,) with m ≥ 1, in the units of the encoded term.
    values
        The effect at the knots, shape (m, outputs), on the scale of the link.
    left_slope, right_slope
        Slopes below the first and above the last knot, shape (outputs,).
    absent
        What is added where the term is NaN, shape (outputs,).
    """

    knots: Vector
    values: Matrix
    left_slope: Vector
    right_slope: Vector
    absent: Vector
    _pieces: list[Pieces] = field(default_factory=list[Pieces], init=False, repr=False)

    def __post_init__(self) -> None:
        outputs = self.values.shape[1] if self.values.ndim == 2 else -1
        ends = (self.left_slope, self.right_slope, self.absent)
        if self.values.shape != (self.knots.size, outputs) or any(own.shape != (outputs,) for own in ends):
            shapes = [own.shape for own in (self.knots, self.values, *ends)]
            got, remedy = f"shapes {shapes}", "give (m,), (m, outputs) and three times (outputs,)"
            raise InputError(describe("ShapeFunction", "arrays that fit together", got, remedy))
        if not self.knots.size or not (np.diff(self.knots) > 0).all():
            raise InputError(describe("ShapeFunction", "one or more rising knots", "others", "sort them"))
        if not all(np.isfinite(own).all() for own in (self.knots, self.values, *ends)):
            raise InputError(describe("ShapeFunction", "finite numbers", "others", "correct them"))

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.values.shape[1]

    @property
    def pieces(self) -> Pieces:
        """The straight pieces, prepared at the first use."""
        if not self._pieces:
            self._pieces.append(Pieces.between(self.knots, self.values, self.left_slope, self.right_slope))
        return self._pieces[0]

    def __call__(self, x: ArrayLike) -> Matrix:
        """Return the effect at x of shape (rows,), shape (rows, outputs)."""
        column = np.ascontiguousarray(x, dtype=np.float64)
        effects = np.zeros((column.size, self.outputs))
        self.add_to(effects, column)
        return effects

    def add_to(self, total: Matrix, x: Vector) -> None:
        """Add the effect at x of shape (rows,) to ``total``, shape (rows, outputs)."""
        missing = np.flatnonzero(np.isnan(x))
        before = total[missing]
        for rows, output, values in self.pieces.values(x):
            total[rows, output] += values
        if missing.size:
            total[missing] = before + self.absent
