"""Penalties: functions of the group norms; no tensors in here."""

from sparsenam.penalties.lasso import (
    PENALTIES,
    AdaptiveGroupLasso,
    GroupBridge,
    GroupElasticNet,
    GroupLasso,
    JointGroupLasso,
    NeedsFirstFit,
    Penalty,
    WeightedLasso,
    as_penalty,
    restrict,
    spread,
    weighted,
)
from sparsenam.penalties.slope import GroupSLOPE, KLevelSLOPE, Vector, benjamini_hochberg_weights, linear_weights

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
