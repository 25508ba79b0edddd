"""A penalty on some of the groups alone, or with a weight for each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.penalties.base import Penalty, Vector
from sparsenam.penalties.lasso import GroupLasso
from sparsenam.penalties.slope import GroupSLOPE


def restrict(penalty: Penalty, features: NDArray[np.intp], n_features: int) -> Penalty:
    """Return the penalty that sees only ``features`` of ``n_features``, the norms of the others being zero."""
    if isinstance(penalty, GroupLasso) and np.ndim(penalty.weights):
        weights, _ = penalty.lasso_and_ridge(n_features, 1.0)
        return GroupLasso(weights[features])
    if isinstance(penalty, GroupSLOPE):
        return replace(penalty, weights=penalty.sequence(n_features)[: features.size])
    return penalty


def weighted(penalty: Penalty, weights: Vector) -> Penalty:
    """Return the penalty with each norm's weight multiplied by a price, shape (groups,); 0 is free."""
    if np.all(weights == 1.0):
        return penalty
    if not isinstance(penalty, GroupLasso):
        got = f"{type(penalty).__name__}, whose weights are not of single features"
        raise InputError(
            describe("penalty_weights and keep", "the penalty 'group_lasso'", got, "choose that penalty")
        )
    return replace(penalty, weights=np.asarray(penalty.weights) * weights)
