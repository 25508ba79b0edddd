"""Effects as curves: a model's share of each feature on a grid of its values, as plain numbers for JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
DIGITS = 6
FEW = 20  # a column with no more distinct values is drawn at these values
EDGES = (0.005, 0.995)  # quantiles between which a curve is drawn: outliers would squeeze the rest


class Curve(TypedDict):
    """One feature's effect: x and effect (points,), truth where it is known.

    ``kept`` says whether the effect differs from a constant over the data, ``variation`` is its max - min there.
    """

    feature: str
    x: list[float]
    effect: list[float]
    kept: bool
    variation: float
    truth: NotRequired[list[float]]


class Density(TypedDict):
    """A histogram of one feature's values: edges (bins + 1,), counts (bins,)."""

    edges: list[float]
    counts: list[int]


def effect_curves(
    effects_of: Callable[[Matrix], Matrix],
    X: Matrix,
    names: Sequence[str],
    truth_of: Callable[[Matrix], Matrix] | None = None,
    points: int = 200,
    features: Sequence[int] | None = None,
) -> list[Curve]:
    """Return hⱼ(x) - meanᵢ hⱼ(Xᵢⱼ) on a grid of x, one curve a feature.

    The grid runs over the middle 99 % of the column, or is the column's values where these are few. The other
    columns stay at their medians: in an additive model they do not matter.

    Parameters
    ----------
    effects_of
        Takes a matrix (rows, features) and gives each feature's share, of the same shape.
    X
        The data, shape (rows, features): it sets the grids and the means.
    names
        Names of the columns.
    truth_of
        The true effects in the same form; the curves get a ``truth`` if it is given.
    points
        Length of a grid.
    features
        Places of the columns to draw; all of them if left out.
    """
    if len(names) != X.shape[1]:
        raise InputError(
            describe("effect_curves", f"{X.shape[1]} names", str(len(names)), "give one name for each column of X")
        )
    at_data = _evaluated(effects_of, X)
    true_at_data = None if truth_of is None else _evaluated(truth_of, X)
    medians = np.median(X, axis=0)
    curves: list[Curve] = []
    for place in range(X.shape[1]) if features is None else features:
        grid = _grid(X[:, place], points)
        probe = np.tile(medians, (len(grid), 1))
        probe[:, place] = grid
        effect = _evaluated(effects_of, probe)[:, place] - at_data[:, place].mean()
        variation = float(np.ptp(at_data[:, place]))
        curve = Curve(
            feature=names[place],
            x=_rounded(grid, _digits(grid)),
            effect=_rounded(effect),
            kept=variation > 0,
            variation=_rounded([variation])[0],
        )
        if truth_of is not None and true_at_data is not None:
            curve["truth"] = _rounded(_evaluated(truth_of, probe)[:, place] - true_at_data[:, place].mean())
        curves.append(curve)
    return curves


def densities(curves: Iterable[Curve], X: Matrix, names: Sequence[str], bins: int = 40) -> dict[str, Density]:
    """Return a histogram of each curve's feature over the range of the curve, by name.

    A feature with few values has one bin a value.
    """
    place = {name: number for number, name in enumerate(names)}
    result: dict[str, Density] = {}
    for curve in curves:
        column = X[:, place[curve["feature"]]]
        x = np.asarray(curve["x"], dtype=np.float64)
        if len(x) > 1:  # a column of one value has no density to show
            edges = _edges_between(x) if len(x) <= FEW else np.linspace(float(x[0]), float(x[-1]), bins + 1)
            counts = np.histogram(column, edges)[0]
            result[curve["feature"]] = Density(
                edges=_rounded(edges, _digits(edges)), counts=[int(count) for count in counts]
            )
    return result


def largest(curves: Sequence[Curve], count: int) -> list[Curve]:
    """Return the ``count`` curves of the largest max - min on their grids, the largest first.

    The grids leave out the outermost values: a single row far away does not make an effect large.
    """
    return sorted(curves, key=lambda curve: min(curve["effect"]) - max(curve["effect"]))[:count]


def _evaluated(effects_of: Callable[[Matrix], Matrix], X: Matrix) -> Matrix:
    effects = np.asarray(effects_of(X), dtype=np.float64)
    if effects.shape != X.shape:
        raise InputError(
            describe(
                "effect_curves",
                f"effects of shape {X.shape}",
                str(effects.shape),
                "give a model of one output whose effects have one column a feature",
            )
        )
    if not np.isfinite(effects).all():
        raise InputError(
            describe("effect_curves", "finite effects", "nan or infinity", "look at the fit before drawing it")
        )
    return effects


def _grid(column: Vector, points: int) -> Vector:
    values = np.unique(column)
    if len(values) <= FEW:
        return values
    low, high = np.quantile(column, EDGES)
    if low == high:  # more than 99 % of the rows hold one value
        low, high = values[0], values[-1]
    return np.linspace(float(low), float(high), points)


def _edges_between(values: Vector) -> Vector:
    """Return bins that hold one value each, (values + 1,)."""
    middles = (values[:-1] + values[1:]) / 2
    return np.concatenate([[2 * values[0] - middles[0]], middles, [2 * values[-1] - middles[-1]]])


def _digits(grid: Vector) -> int:
    """Return how many digits keep six of them in the differences: dates and coordinates lie far from zero."""
    span = float(grid[-1] - grid[0])
    size = float(np.abs(grid).max())
    return DIGITS + (max(0, math.ceil(math.log10(size / span))) if span > 0 else 0)


def _rounded(values: Iterable[float], digits: int = DIGITS) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]
