"""Which penalties the convex solver can prove anything about, and in which form it needs them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from sparsenam.convex.design import Array
from sparsenam.errors import InputError, describe
from sparsenam.penalties import NeedsFirstFit, Penalty, WeightedLasso


@runtime_checkable
class SortedPenalty(Protocol):
    """A penalty α Σᵢ wᵢ r₍ᵢ₎ on the sorted norms."""

    def sequence(self, n_features: int) -> Array:
        """Return w, shape (features,), never rising."""
        ...


def check_convex(penalty: Penalty) -> None:
    """Raise unless the penalty is convex with a known dual."""
    if isinstance(penalty, NeedsFirstFit):
        remedy = "call its adapted_to(norms) with the norms of a first fit"
        raise InputError(describe("convex solver", "a penalty with known weights", repr(penalty), remedy))
    if not isinstance(penalty, WeightedLasso | SortedPenalty):
        remedy = "choose GroupLasso, GroupElasticNet, GroupSLOPE or KLevelSLOPE"
        raise InputError(describe("convex solver", "a convex penalty", repr(penalty), remedy))


def weights_and_ridge(penalty: WeightedLasso, n_features: int) -> tuple[Array, float]:
    """Return wⱼ and ρ of the penalty α Σⱼ (wⱼ‖θⱼ‖ + ½ρ‖θⱼ‖²)."""
    return penalty.lasso_and_ridge(n_features, 1.0)
