"""Penalties: functions of the group norms; no tensors in here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.penalties.base import NeedsFirstFit, Penalty, Vector, WeightedLasso
from sparsenam.penalties.lasso import AdaptiveGroupLasso, GroupBridge, GroupElasticNet, GroupLasso, JointGroupLasso
from sparsenam.penalties.slope import GroupSLOPE, KLevelSLOPE, benjamini_hochberg_weights, linear_weights

PENALTIES: dict[str, Callable[[], Penalty]] = {
    "group_lasso": GroupLasso,
    "adaptive": AdaptiveGroupLasso,
    "elastic_net": GroupElasticNet,
    "group_slope": GroupSLOPE,
    "two_level_slope": KLevelSLOPE,
    "group_bridge": GroupBridge,
}


def as_penalty(penalty: str | Penalty) -> Penalty:
    """Return the penalty of a name, or the object itself."""
    if isinstance(penalty, type):
        got = f"the class {penalty.__name__}"
        raise InputError(describe("penalty", "a name or an object", got, f"write {penalty.__name__}()"))
    if not isinstance(penalty, str):
        missing = [name for name in ("value", "shrink", "slope") if not callable(getattr(penalty, name, None))]
        if missing:
            expected, got = "a name or an object with value, shrink and slope", f"{penalty!r} without {missing}"
            raise InputError(describe("penalty", expected, got, "see sparsenam.penalties"))
        return penalty
    if penalty not in PENALTIES:
        remedy = "choose a name or an object"
        raise InputError(describe("penalty", f"one of {sorted(PENALTIES)}", repr(penalty), remedy))
    return PENALTIES[penalty]()


def spread(penalty: Penalty, columns: NDArray[np.intp], n_columns: int) -> Penalty:
    """Return the penalty on terms of one on columns; ``columns`` (terms,) are the columns of the terms.

    A `GroupLasso` with one weight for each of ``n_columns`` gives each term the weight of its column; other
    penalties stay as they are.
    """
    if isinstance(penalty, GroupLasso) and np.ndim(penalty.weights):
        return GroupLasso(penalty.thresholds(n_columns, 1.0)[columns])
    return penalty


def restrict(penalty: Penalty, groups: NDArray[np.intp], n_groups: int) -> Penalty:
    """Return the penalty that sees only some of ``n_groups`` norms, the others being zero."""
    if isinstance(penalty, GroupSLOPE):
        return replace(penalty, weights=penalty.sequence(n_groups)[: groups.size])
    return spread(penalty, groups, n_groups)


def weighted(penalty: Penalty, weights: Vector) -> Penalty:
    """Return the penalty with each norm's weight multiplied by another, shape (groups,); 0 is free."""
    if np.all(weights == 1.0):
        return penalty
    if not isinstance(penalty, GroupLasso):
        where, got = (
            "penalty_weights and always_keep",
            f"{type(penalty).__name__}, whose weights are not of columns",
        )
        raise InputError(describe(where, "the penalty 'group_lasso'", got, "choose that penalty"))
    return replace(penalty, weights=np.asarray(penalty.weights) * weights)


__all__ = [
    "PENALTIES",
    "AdaptiveGroupLasso",
    "GroupBridge",
    "GroupElasticNet",
    "GroupLasso",
    "GroupSLOPE",
    "JointGroupLasso",
    "KLevelSLOPE",
    "NeedsFirstFit",
    "Penalty",
    "Vector",
    "WeightedLasso",
    "as_penalty",
    "benjamini_hochberg_weights",
    "linear_weights",
    "restrict",
    "spread",
    "weighted",
]
