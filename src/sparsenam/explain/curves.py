"""Effects as functions of one column."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.explain.explanation import Curve
from sparsenam.explain.plain import numbers, rows_of_numbers
from sparsenam.model import AdditiveModel, keep_terms

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
POINTS = 129
BEYOND = 0.1  # of the outermost bin by which a curve goes on: farther out an effect means nothing


def effect_at(model: AdditiveModel, place: int, x: Vector) -> Matrix:
    """Return the effect of the kept term at a place of the model for values x (points,), shape (points, outputs).

    NaN gives what the term adds where it is absent.
    """
    alone = np.zeros(model.terms.size, dtype=np.bool_)
    alone[place] = True
    single = replace(keep_terms(model, alone), terms=np.zeros(1, dtype=np.intp), n_terms=1)
    return single.kept_effects(x[:, None])[:, 0]


def curve_of(model: AdditiveModel, place: int, edges: Vector, knots: Vector | None, shift: Vector) -> Curve:
    """Return the effect of a kept term over the range of its data and a little beyond.

    Parameters
    ----------
    edges
        Bins of the data (bins + 1,): the range, and where the data are dense.
    knots
        The kinks of a piecewise linear effect (kinks,), between which straight lines are exact; None for others,
        which are evaluated on a grid that is finer where the data are.
    shift
        What the column's other term adds meanwhile, shape (outputs,).
    """
    first, last = float(edges[0]), float(edges[-1])
    most = BEYOND * (last - first) / (edges.size - 1)
    low = first - min(most, BEYOND * float(edges[1] - edges[0]))
    high = last + min(most, BEYOND * float(edges[-1] - edges[-2]))
    inner = np.concatenate([np.linspace(low, high, POINTS), edges]) if knots is None else knots
    x = np.unique(np.concatenate([[low, high], inner[(inner > low) & (inner < high)]]))
    return Curve(numbers(x), rows_of_numbers(effect_at(model, place, x) + shift))
