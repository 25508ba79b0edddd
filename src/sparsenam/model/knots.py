"""The knots of a piecewise linear sub-network, found exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.model.shapes import ShapeFunction
from sparsenam.networks import MLPBank

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

FAR = 1e12  # standard deviations; a kink beyond belongs to a unit that is constant for every real input


def kinks_of(bank: MLPBank, theta: Tensor) -> Vector:
    """Return where the only sub-network of a piecewise linear bank may change its slope, ascending, shape (m,).

    The units of the first layer have their kinks at -b/w, and clipped ones at (1 - b)/w too. Between kinks the
    argument of every unit of the next layer is a straight line, whose zero is a kink of that layer. ``theta`` has
    shape (1, size), and m is at least 1.
    """
    *hidden, _ = (tensor[0].numpy() for tensor in bank.tensors(theta.detach().double().cpu()))
    if not hidden:
        return np.zeros(1)
    clipped = bank.activation in ("exu", "clipped_relu")
    weight, bias = hidden[0][0], hidden[1][0]
    with np.errstate(all="ignore"):
        if bank.exponential_units:
            kinks = np.concatenate([bias, bias + np.exp(-weight)])
        else:
            kinks = np.concatenate([-bias / weight, (1.0 - bias) / weight] if clipped else [-bias / weight])
    points = _sorted(kinks)
    for layer in range(1, len(bank.hidden)):
        points = _sorted(np.concatenate([points, _crossings(*_lines(bank, theta, points, layer))]))
    return points


def probes(points: Vector) -> Vector:
    """Return the points with two more beyond either end, from which the slope there follows."""
    step = 1.0 + max(abs(points[0]), abs(points[-1]))
    return np.concatenate(
        [points[0] - step * np.array([2.0, 1.0]), points, points[-1] + step * np.array([1.0, 2.0])]
    )


def _lines(bank: MLPBank, theta: Tensor, points: Vector, layer: int) -> tuple[Vector, Matrix]:
    """Return the points with probes beyond the ends, and the arguments of a hidden layer there (points, units)."""
    x = probes(points)
    # the network up to this layer, with the arguments of its units as outputs
    start = MLPBank(bank.hidden[:layer], bank.hidden[layer], bank.activation)
    with torch.no_grad():
        arguments = start.effects(theta[:, : start.size], torch.as_tensor(x)[None])[0].numpy()
    return x, arguments + bank.tensors(theta)[2 * layer + 1][0].numpy()


def _crossings(x: Vector, lines: Matrix) -> Vector:
    """Return where lines (points, units) through the points x are zero: between them, or beyond the ends."""
    before, after = lines[:-1], lines[1:]
    lengths = np.diff(x)[:, None]
    with np.errstate(all="ignore"):
        shares = before / (before - after)
        between = (x[:-1, None] + shares * lengths)[(before < 0) != (after < 0)]
        left = x[0] + shares[0] * lengths[0]
        right = x[-2] + shares[-1] * lengths[-1]
    return np.concatenate([between, left[left < x[0]], right[right > x[-1]]])


def _sorted(kinks: Vector) -> Vector:
    """Return the distinct kinks that a real input can reach, 0 when there are none."""
    reachable = np.unique(kinks[np.abs(kinks) <= FAR])  # NaN and infinity, of units that are constant, are not
    return reachable if reachable.size else np.zeros(1)


NEAR = 1e-12  # of the unit: kinks so close are one, unless the effect jumps between them
SAME = 1e-10  # of the effect's size: what may be lost by taking two kinks for one
DATA = 10.0  # standard deviations within which the size of an effect is measured


def shape_through(
    kinks: Vector, center: float, scale: float, effect: Callable[[Vector], Matrix], absent: Vector
) -> ShapeFunction:
    """Return the function that is linear between the kinks and equals the effect at them.

    ``kinks`` (m,) ascend, in units of ``scale`` from ``center``, the standard deviation and mean of the term.
    ``effect`` gives the effect (rows, outputs) at values (rows,) of the term, here at the knots as they are after
    rounding, so that the shape is right there to the bit. ``absent`` (outputs,) is added where the term is NaN.
    """
    points = np.unique(center + scale * probes(kinks))
    values = effect(points)
    left, right = (_slope(points[ends], values[ends]) for ends in (slice(0, 2), slice(-2, None)))
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
