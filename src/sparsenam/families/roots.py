"""Zeros of increasing functions, many at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

STEPS = 200
EXACT = 1e-14  # relative size of a step that only answers to rounding
FARTHEST = 1e6  # from the start, in units of it or of 1: beyond, a function without zero keeps its sign
FASTER = 4.0  # growth of the longest step while no sign has changed
SEARCH = 12  # steps without a change of sign after which the longest step is taken
PATIENCE = 3  # steps in which the bracket must halve


def increasing_root(value: Callable[[Vector], Vector], bend: Callable[[Vector], Vector], start: Vector) -> Vector:
    """Return s with value(s) = 0 for each entry, shape as ``start``.

    Steps have the slope ``bend``, the derivative or a bound on it, or that of the secant through the last two
    points where it is smaller; a bracket is halved whenever they are slow. Where ``value`` keeps
    one sign, the entry ends `FARTHEST` away on the side of the zero that is missing.
    """
    point = np.array(start, dtype=np.float64)
    room = FARTHEST * np.maximum(1.0, np.abs(point))
    first, last = point - room, point + room
    low, high = np.full_like(point, -np.inf), np.full_like(point, np.inf)
    reach, width = np.ones_like(point), np.full_like(point, np.inf)
    height, slope = value(point), bend(point)
    for number in range(1, STEPS + 1):
        low, high = np.where(height < 0, point, low), np.where(height > 0, point, high)
        found = np.isfinite(low) & np.isfinite(high)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            wanted = -height / slope
            small = np.abs(wanted) <= EXACT * (1.0 + np.abs(point))
            strides = np.isnan(wanted) | (~found & ~small & (number > SEARCH))
            step = np.where(strides, -np.sign(height) * reach, np.clip(wanted, -reach, reach))
            middle, now = 0.5 * (low + high), high - low
            moved = np.clip(point + step, first, last)
            lost = found & ~((moved > low) & (moved < high))
            if number % PATIENCE == 0:
                lost |= found & (now > 0.5 * width)
                width = now
        moved = np.where(height == 0, point, np.where(lost & ~small, middle, moved))
        reach = np.where(found, np.inf, FASTER * reach)
        change = moved - point
        if np.all(np.abs(change) <= EXACT * (1.0 + np.abs(point))):
            return moved
        before, height, point = height, value(moved), moved
        with np.errstate(divide="ignore", invalid="ignore"):
            secant = (height - before) / change
        slope = bend(point)
        slope = np.where(secant > 0, np.minimum(secant, slope), slope)
    return point
