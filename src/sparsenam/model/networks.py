"""Trained sub-networks as effects: curves with exact kinks where they are piecewise linear, else as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Indices, Matrix, Vector, Via
from sparsenam.model.curve import FittedCurve
from sparsenam.networks.bank import PIECEWISE_LINEAR, MLPBank, SubnetBank, outputs_of
from sparsenam.tables.sample import Scaling

FAR = 1e12  # standard deviations; a kink beyond belongs to a unit that is constant for every real input
KINK_DISTANCE = 1e-12  # of the unit: kinks so close are one, unless the effect jumps between them
SAME_KINK_EFFECT = 1e-10  # of the effect's size: what may be lost by taking two kinks for one
DATA = 10.0  # standard deviations within which the size of an effect is measured


@dataclass(frozen=True, slots=True, eq=False)
class SubNetworks:
    """Sub-networks that no knots describe, since their activation is smooth or a custom bank computes them.

    ``theta`` (terms, size) are the parameters, in float64, and ``scaling`` is that of the terms. ``offsets`` (terms,
    outputs) are subtracted from each output, which is then in units of ``unit`` (outputs,), the unit of y. ``absent``
    (terms, outputs) is what a term adds where it is NaN, in these units.
    """

    bank: Annotated[SubnetBank, Via(MLPBank)]
    theta: Matrix
    scaling: Scaling
    offsets: Matrix
    unit: Vector
    absent: Matrix

    @classmethod
    def of(cls, bank: SubnetBank, theta: Matrix) -> Self:
        """Return the sub-networks as functions of scaled terms."""
        nothing = np.zeros((len(theta), bank.outputs))
        return cls(bank, theta, Scaling.none(len(theta)), nothing, np.ones(bank.outputs), nothing)

    @property
    def name(self) -> str:
        """The activation, or the class of a custom bank."""
        return str(getattr(self.bank, "activation", type(self.bank).__name__))

    def effects(self, x: Matrix) -> NDArray[np.float64]:
        """Return what the terms x (terms, rows) add, shape (terms, rows, outputs)."""
        outputs = outputs_of(self.bank, self.theta, self.scaling.apply(x.T).T) - self.offsets[:, None]
        missing = np.isnan(x)
        outputs[missing] = np.repeat(self.absent, missing.sum(axis=1), axis=0)
        return outputs * self.unit

    def take(self, indices: Indices) -> Self:
        """Return some of them."""
        return type(self)(
            self.bank.take(indices),
            self.theta[indices],
            self.scaling.take(indices),
            self.offsets[indices],
            self.unit,
            self.absent[indices],
        )


def network_functions(bank: SubnetBank, theta: Matrix) -> tuple[FittedCurve, ...] | SubNetworks:
    """Return sub-networks as functions of their scaled terms: as curves where they are piecewise linear.

    Each curve follows from its own parameters alone: it is the same beside any others.
    """
    if isinstance(bank, MLPBank) and all(activation in PIECEWISE_LINEAR for activation in bank.activations):
        rows = (np.array([term], dtype=np.intp) for term in range(len(theta)))
        return tuple(_curve(bank.take(row), theta[row]) for row in rows)
    return SubNetworks.of(bank, theta)


def n_weights(bank: SubnetBank, terms: Indices) -> Indices:
    """Return the numbers of parameters of some of a bank's sub-networks, shape (terms,)."""
    padding = bank.take(terms).padding()
    return np.full(terms.size, bank.size) - (0 if padding is None else np.asarray(padding).sum(axis=1))


def _curve(bank: MLPBank, theta: Matrix) -> FittedCurve:
    """Return the only sub-network of a bank, linear between its kinks and equal to the network at them."""
    points = np.unique(_probes(kinks_of(bank, theta)))
    values = outputs_of(bank, theta, points[None])[0]
    left, right = ((values[b] - values[a]) / (points[b] - points[a]) for a, b in ((0, 1), (-2, -1)))
    knots, values = points[2:-2], values[2:-2]
    away = np.abs(knots)
    sizes = np.abs(values[away <= DATA]).max(axis=0, initial=0.0)
    near = np.diff(knots) <= KINK_DISTANCE * (1.0 + away[1:])
    same = (np.abs(np.diff(values, axis=0)) <= SAME_KINK_EFFECT * sizes).all(axis=1)
    kept = np.concatenate([[True], ~(near & same)])
    return FittedCurve(knots[kept], values[kept], left, right, np.zeros(bank.outputs))


def kinks_of(bank: MLPBank, theta: Matrix) -> Vector:
    """Return where the only sub-network of a piecewise linear bank may change its slope, ascending, shape (m,).

    The units of the first layer have their kinks at -b/w, and clipped ones at (1 - b)/w too. Between kinks the
    argument of every unit of the next layer is a straight line, whose zero is a kink of that layer. ``theta`` has
    shape (1, size), and m is at least 1.
    """
    *hidden, _ = (tensor[0] for tensor in bank.tensors(theta))
    if not hidden:
        return np.zeros(1)
    weight, bias = hidden[0][0], hidden[1][0]
    with np.errstate(all="ignore"):
        if bank.exponential_units:
            kinks = np.concatenate([bias, bias + np.exp(-weight)])
        elif bank.activation == "clipped_relu":
            kinks = np.concatenate([-bias / weight, (1.0 - bias) / weight])
        else:
            kinks = -bias / weight
    points = _sorted(kinks)
    for layer in range(1, len(bank.hidden)):
        x = _probes(points)
        points = _sorted(np.concatenate([points, _crossings(x, bank.arguments(theta, x[None], layer)[0])]))
    return points


def _probes(points: Vector) -> Vector:
    """Return the points with two more beyond either end, from which the slope there follows."""
    step = 1.0 + max(abs(points[0]), abs(points[-1]))
    return np.concatenate([points[0] - step * np.array([2.0, 1.0]), points, points[-1] + step * np.array([1.0, 2.0])])


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
