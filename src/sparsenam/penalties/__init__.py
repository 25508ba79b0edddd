"""Penalties: functions of the p sub-network sizes; no tensors in here."""

from __future__ import annotations

from collections.abc import Callable

from sparsenam.errors import InputError, describe
from sparsenam.penalties.adjust import restrict, weighted
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
            wanted = "a name or an object with value, shrink and slope"
            raise InputError(
                describe("penalty", wanted, f"{penalty!r} without {missing}", "see sparsenam.penalties")
            )
        return penalty
    if penalty not in PENALTIES:
        raise InputError(
            describe("penalty", f"one of {sorted(PENALTIES)}", repr(penalty), "choose a name or an object")
        )
    return PENALTIES[penalty]()


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
    "weighted",
]
