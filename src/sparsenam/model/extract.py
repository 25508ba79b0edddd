"""From a trained bank to the shapes of its effects."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sparsenam.model.kinks import probes
from sparsenam.model.shape import ShapeFunction

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NEAR = 1e-12  # of the unit: kinks so close are one, unless the effect jumps between them
SAME = 1e-10  # of the effect's size: what may be lost by taking two kinks for one
DATA = 10.0  # standard deviations within which the size of an effect is measured


def shape_through(
    kinks: Vector, center: float, scale: float, effect: Callable[[Vector], Matrix], absent: Vector
) -> ShapeFunction:
    """Return the function that is linear between the kinks and equals the effect at them.

    Parameters
    ----------
    kinks
        Ascending, in standard deviations from the mean of the term, shape (m,).
    center, scale
        Mean and standard deviation of the term.
    effect
        Gives the effect (rows, outputs) at values (rows,) of the term. It is asked at the knots as they are after
        rounding, so that the shape is right there to the bit.
    absent
        What is added where the term is NaN, shape (outputs,).
    """
    points = np.unique(center + scale * probes(kinks))
    values = effect(points)
    left, right = (_slope(points[place : place + 2], values[place : place + 2]) for place in (0, points.size - 2))
    knots, values = _merged(points[2:-2], values[2:-2], center, scale)
    return ShapeFunction(knots, values, left, right, absent)


def _slope(x: Vector, values: Matrix) -> Vector:
    return (values[1] - values[0]) / (x[1] - x[0])


def _merged(knots: Vector, values: Matrix, center: float, scale: float) -> tuple[Vector, Matrix]:
    """Return the knots without those that are the one before up to rounding, and their values."""
    away = np.abs(knots - center) / scale
    sizes = np.abs(values[away <= DATA]).max(axis=0, initial=0.0)
    near = np.diff(knots) <= NEAR * scale * (1.0 + away[1:])
    same = (np.abs(np.diff(values, axis=0)) <= SAME * sizes).all(axis=1)
    kept = np.concatenate([[True], ~(near & same)])
    return knots[kept], values[kept]
