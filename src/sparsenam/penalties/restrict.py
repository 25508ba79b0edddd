"""A penalty on some of the features alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.penalties.base import Penalty
from sparsenam.penalties.group_lasso import GroupLasso
from sparsenam.penalties.slope import GroupSLOPE


def restrict(penalty: Penalty, features: NDArray[np.intp], n_features: int) -> Penalty:
    """Return the penalty that sees only ``features`` of ``n_features``, the norms of the others being zero."""
    if isinstance(penalty, GroupLasso) and np.ndim(penalty.weights):
        weights, _ = penalty.lasso_and_ridge(n_features, 1.0)
        return GroupLasso(weights[features])
    if isinstance(penalty, GroupSLOPE):
        return replace(penalty, weights=penalty.sequence(n_features)[: features.size])
    return penalty
