"""Penalties: functions of the group norms; no tensors in here."""

from sparsenam.penalties.base import NeedsFirstFit, Penalty, Vector, WeightedLasso
from sparsenam.penalties.lasso import (
    PENALTIES,
    AdaptiveGroupLasso,
    GroupBridge,
    GroupElasticNet,
    GroupLasso,
    JointGroupLasso,
    as_penalty,
    restrict,
    spread,
    weighted,
)
from sparsenam.penalties.slope import GroupSLOPE, KLevelSLOPE, benjamini_hochberg_weights, linear_weights

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
