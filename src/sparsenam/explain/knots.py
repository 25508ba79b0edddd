"""The kinks of piecewise linear effects."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsenam.model import AdditiveModel

Vector = NDArray[np.float64]


def knots_of(model: AdditiveModel) -> dict[int, Vector]:
    """Return the kinks of each kept term's effect by its place; nothing where effects are not piecewise linear."""
    if not model.exact_shapes:
        return {}
    return {place: shape.knots for place, shape in enumerate(model.shapes())}
