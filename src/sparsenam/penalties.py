"""Penalties on group norms: Group LASSO and its relatives, Group SLOPE; by name, spread over terms or weighted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sparsenam.codec import Vector
from sparsenam.errors import InputError, describe, nearest

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


class Penalty(Protocol):
    """α φ(r) for the vector r of group norms, shape (groups,).

    Every penalty of the paper depends on the parameters only through r, and its proximal step keeps each
    group's direction, so the step on all the parameters reduces to these p numbers.
    """

    def value(self, norms: Vector, alpha: float) -> float:
        """Return α φ(r)."""
        ...

    def shrink(self, norms: Vector, alpha: float, step: Vector | float) -> Vector:
        """Return argmin over r ≥ 0 of Σⱼ (rⱼ - normsⱼ)² / (2 stepⱼ) + α φ(r)."""
        ...

    def slope(self, norms: Vector, alpha: float) -> Vector:
        """Return α ∂φ/∂rⱼ, with 0 where rⱼ = 0 (the paper's choice of subgradient)."""
        ...


@runtime_checkable
class NeedsFirstFit(Protocol):
    """A penalty whose weights come from the norms of a first fit."""

    def first_alpha(self, alpha: float) -> float:
        """Return the alpha of the first fit."""
        ...

    def adapted_to(self, norms: Vector) -> Penalty:
        """Return the penalty of the second fit."""
        ...


@runtime_checkable
class WeightedLasso(Penalty, Protocol):
    """A penalty of the form Σⱼ aⱼ rⱼ + ½ b Σⱼ rⱼ², for which the step is exact in any diagonal metric."""

    def lasso_and_ridge(self, n_groups: int, alpha: float) -> tuple[Vector, float]:
        """Return a, shape (groups,), and b."""
        ...

    def value(self, norms: Vector, alpha: float) -> float:
        lasso, ridge = self.lasso_and_ridge(norms.size, alpha)
        positive = norms > 0  # 0 · ∞ would be NaN
        return float(np.sum(lasso[positive] * norms[positive]) + 0.5 * ridge * np.sum(norms**2))

    def shrink(self, norms: Vector, alpha: float, step: Vector | float) -> Vector:
        """Return max(rⱼ - step aⱼ, 0) / (1 + step b)."""
        lasso, ridge = self.lasso_and_ridge(norms.size, alpha)
        return np.maximum(norms - step * lasso, 0.0) / (1.0 + step * ridge)

    def slope(self, norms: Vector, alpha: float) -> Vector:
        """Return aⱼ + b rⱼ where rⱼ > 0."""
        lasso, ridge = self.lasso_and_ridge(norms.size, alpha)
        if np.isinf(lasso[norms > 0]).any():
            expected = "finite weights for a subgradient solver"
            raise InputError(describe(type(self).__name__, expected, "an infinite one", "use a proximal solver"))
        return np.where(norms > 0, lasso + ridge * norms, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class GroupLasso(WeightedLasso):
    """α Σⱼ wⱼ‖Θⱼ‖ (the paper's eq. for Group LASSO); unequal weights give the adaptive kind.

    An infinite weight keeps its column out. Weights given by a user are of columns, see `spread`.
    """

    weights: Vector | float = 1.0

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        if np.isnan(weights).any() or (weights < 0).any():
            expected = "weights of at least 0 (infinity keeps a column out)"
            raise InputError(describe("GroupLasso", expected, f"{self.weights!r}", "correct the weights"))

    def lasso_and_ridge(self, n_groups: int, alpha: float) -> tuple[Vector, float]:
        return self.thresholds(n_groups, alpha), 0.0

    def thresholds(self, n_groups: int, alpha: float) -> Vector:
        """Return (α wⱼ)ⱼ, shape (groups,); raise unless there is one weight, or one for each group."""
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.ndim and weights.shape != (n_groups,):
            expected = f"one weight for each of the {n_groups} columns"
            raise InputError(describe("GroupLasso", expected, f"shape {weights.shape}", "correct the weights"))
        if alpha == 0.0:  # 0 · ∞ would be NaN
            return np.zeros(n_groups)
        return alpha * weights * np.ones(n_groups)


@dataclass(frozen=True, slots=True)
class AdaptiveGroupLasso(WeightedLasso):
    """α Σⱼ wⱼ‖Θⱼ‖ with wⱼ = (max‖Θ⁰‖ / ‖Θ⁰ⱼ‖)^power from a first fit Θ⁰; before that fit all weights are 1.

    ``first="nam"`` fits Θ⁰ without a penalty, ``"snam"`` with the same α. The paper's wⱼ = 1/‖Θ⁰ⱼ‖ differs
    by a constant factor, chosen here so that the strongest group keeps weight 1 and α its meaning.
    The convex half takes its first fit at the alpha that it chooses.
    """

    power: float = 1.0
    first: Literal["nam", "snam"] = "snam"

    def first_alpha(self, alpha: float) -> float:
        """Return 0 for a first fit by NAM, α for one by SNAM."""
        return 0.0 if self.first == "nam" else alpha

    def adapted_to(self, norms: Vector) -> GroupLasso:
        """Return the weighted Group LASSO of the second fit; a zero norm keeps its group out."""
        largest = norms.max(initial=0.0)
        ratios = np.divide(largest, norms, out=np.full(norms.shape, np.inf), where=norms > 0)
        return GroupLasso(ratios**self.power)

    def lasso_and_ridge(self, n_groups: int, alpha: float) -> tuple[Vector, float]:
        return np.full(n_groups, float(alpha)), 0.0


@dataclass(frozen=True, slots=True)
class GroupElasticNet(WeightedLasso):
    """α Σⱼ (ρ‖Θⱼ‖ + ½(1 - ρ)‖Θⱼ‖²), ρ = ``l1_ratio``; scikit-learn's convention for the elastic net.

    The paper's λ₁ is αρ, its λ₂ is ½α(1 - ρ).
    """

    l1_ratio: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.l1_ratio <= 1.0:
            got = f"{self.l1_ratio}"
            raise InputError(describe("GroupElasticNet", "l1_ratio from 0 to 1", got, "choose one between"))

    def lasso_and_ridge(self, n_groups: int, alpha: float) -> tuple[Vector, float]:
        return np.full(n_groups, alpha * self.l1_ratio), alpha * (1.0 - self.l1_ratio)


@dataclass(frozen=True, slots=True)
class GroupBridge:
    """α Σⱼ ‖Θⱼ‖^½: not convex; it shrinks strong groups less and drops weak ones sooner."""

    def value(self, norms: Vector, alpha: float) -> float:
        return float(alpha * np.sum(np.sqrt(norms)))

    def shrink(self, norms: Vector, alpha: float, step: Vector | float) -> Vector:
        """Return the global minimiser by half-thresholding (Xu et al., 2012).

        A stationary r = u² solves u³ - norms·u + ½ step α = 0; its largest root is the minimiser exactly when
        norms exceeds 1.5 (step α)^⅔, below which zero is better.
        """
        strength = np.broadcast_to(np.asarray(step * alpha, dtype=np.float64), norms.shape)
        threshold = 1.5 * strength ** (2.0 / 3.0)
        beyond = norms > threshold
        safe = np.where(beyond, norms, 1.0)
        cosine = np.clip(np.where(beyond, strength, 0.0) * 0.25 * (3.0 / safe) ** 1.5, -1.0, 1.0)
        root = 2.0 * np.sqrt(safe / 3.0) * np.cos((np.pi - np.arccos(cosine)) / 3.0)
        return np.where(beyond, root**2, 0.0)

    def slope(self, norms: Vector, alpha: float) -> Vector:
        """Return α / (2√rⱼ) where rⱼ > 0."""
        return np.where(norms > 0, 0.5 * alpha / np.sqrt(np.where(norms > 0, norms, 1.0)), 0.0)


ROOT_HALVINGS = 100  # of an interval that holds a root: far below rounding


@dataclass(frozen=True, slots=True, eq=False)
class JointGroupLasso:
    """α Σ_g w_g √(Σ_{j in g} rⱼ²) for groups of the norms r; a norm in no group is free.

    ``members`` are the indices of each group's norms, ``weights`` (groups,) its w_g.
    """

    members: tuple[NDArray[np.intp], ...]
    weights: Vector

    def value(self, norms: Vector, alpha: float) -> float:
        return float(alpha * self.weights @ self._lengths(norms))

    def shrink(self, norms: Vector, alpha: float, step: Vector | float) -> Vector:
        """Return rⱼ = nⱼ ρ/(ρ + stepⱼ α w_g), where ρ = ‖r_g‖ solves Σ (nⱼ/(ρ + stepⱼ α w_g))² = 1.

        A group whose equation has no root is 0.
        """
        shrunk, steps = norms.copy(), np.broadcast_to(step, norms.shape)
        for group, weight in zip(self.members, self.weights, strict=True):
            shrunk[group] = norms[group] * _share(norms[group], steps[group] * alpha * weight)
        return shrunk

    def slope(self, norms: Vector, alpha: float) -> Vector:
        """Return α w_g rⱼ/‖r_g‖, with 0 where the group is 0."""
        slopes = np.zeros_like(norms)
        for group, weight, length in zip(self.members, self.weights, self._lengths(norms), strict=True):
            if length > 0:
                slopes[group] = alpha * weight * norms[group] / length
        return slopes

    def _lengths(self, norms: Vector) -> Vector:
        return np.array([np.sqrt(np.sum(norms[group] ** 2)) for group in self.members])


def _share(norms: Vector, pull: Vector) -> Vector:
    """Return ρ/(ρ + pullⱼ) for the root ρ, by halving the interval that holds it."""
    if not pull.any():
        return np.ones_like(norms)
    with np.errstate(divide="ignore", invalid="ignore"):
        stays = np.sum(np.where(norms > 0, (norms / pull) ** 2, 0.0)) > 1.0
    if not stays:
        return np.zeros_like(norms)
    low, high = 0.0, float(np.linalg.norm(norms))
    for _ in range(ROOT_HALVINGS):
        middle = 0.5 * (low + high)
        if np.sum((norms / (middle + pull)) ** 2) > 1.0:
            low = middle
        else:
            high = middle
    return high / (high + pull)


def benjamini_hochberg_weights(n_groups: int, rate: float = 0.1) -> Vector:
    """Return Φ⁻¹(1 - i·rate/(2p)), i = 1…p, divided by its first element (Bogdan et al., 2015)."""
    ranks = np.arange(1, n_groups + 1)
    quantiles = ndtri(1.0 - ranks * rate / (2.0 * n_groups))
    return quantiles / quantiles[0]


def linear_weights(n_groups: int) -> Vector:
    """Return (p - i + 1)/p, i = 1…p: weights that fall in equal steps from 1 (OSCAR's, up to scale)."""
    return np.arange(n_groups, 0, -1) / n_groups


@runtime_checkable
class SortedPenalty(Penalty, Protocol):
    """A penalty α Σᵢ wᵢ r₍ᵢ₎ on the sorted norms: the largest norm meets the largest weight."""

    def sequence(self, n_groups: int, /) -> Vector:
        """Return the weights w for so many groups, never rising, shape (groups,)."""
        ...

    def value(self, norms: Vector, alpha: float) -> float:
        return float(alpha * np.sum(self.sequence(norms.size) * np.sort(norms)[::-1]))

    def shrink(self, norms: Vector, alpha: float, step: Vector | float) -> Vector:
        """Return the proximal point, exact for steps that differ by group too."""
        return shrink_sorted(norms, alpha * self.sequence(norms.size), step)

    def slope(self, norms: Vector, alpha: float) -> Vector:
        """Return α w of each norm's rank; tied norms share the mean of their weights."""
        levels, level = np.unique(-norms, return_inverse=True)
        sums = np.zeros(levels.size)
        np.add.at(sums, np.sort(level), self.sequence(norms.size))
        shared = sums / np.bincount(level, minlength=levels.size)
        return np.where(norms > 0, alpha * shared[level], 0.0)


def _check_falling(where: str, weights: Vector) -> None:
    if weights.ndim != 1 or np.any(np.diff(weights) > 0) or np.any(weights < 0):
        expected = "non-negative weights that never rise"
        raise InputError(describe(where, expected, f"{weights!r}", "sort them downwards"))


@dataclass(frozen=True, slots=True, eq=False)
class GroupSLOPE(SortedPenalty):
    """α Σᵢ wᵢ r₍ᵢ₎ with r₍₁₎ ≥ r₍₂₎ ≥ … the sorted norms and w non-increasing.

    ``weights`` is a sequence of one weight for each rank, or the name of one: ``"bh"`` (with false
    discovery ``rate``) or ``"linear"``.
    """

    weights: Vector | Literal["bh", "linear"] = "bh"
    rate: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.rate < 1.0:
            raise InputError(describe("GroupSLOPE", "a rate between 0 and 1", f"{self.rate}", "try 0.1"))
        if isinstance(self.weights, str):
            if self.weights not in ("bh", "linear"):
                got = repr(self.weights)
                raise InputError(describe("GroupSLOPE", "weights 'bh', 'linear' or numbers", got, "choose one"))
            return
        weights = np.asarray(self.weights, dtype=np.float64)
        _check_falling("GroupSLOPE", weights)
        object.__setattr__(self, "weights", weights)

    def sequence(self, n_groups: int) -> Vector:
        if isinstance(self.weights, str):
            is_linear = self.weights == "linear"
            return linear_weights(n_groups) if is_linear else benjamini_hochberg_weights(n_groups, self.rate)
        if self.weights.size != n_groups:
            expected, got = f"one weight for each of the {n_groups} columns", f"{self.weights.size} weights"
            raise InputError(describe("GroupSLOPE", expected, got, "give as many weights as there are columns"))
        return self.weights


def shrink_sorted(norms: Vector, weights: Vector, step: Vector | float) -> Vector:
    """Return argmin over r ≥ 0 of Σⱼ (rⱼ - normsⱼ)²/(2 stepⱼ) + Σᵢ wᵢ r₍ᵢ₎, shape (groups,).

    In the dual this is a separable quadratic over the base polytope of F(A) = w₁ + … + w₍|A|₎, solved by
    Groenevelt's decomposition: give a block one common value; if some part of it then asks for more than F
    allows, split that part off and solve both; groups that end in one block are tied. With equal steps
    this is the isotonic regression of the usual algorithm.
    """
    steps = np.broadcast_to(np.asarray(step, dtype=np.float64), norms.shape)
    shrunk = np.zeros_like(norms)
    pending = [(np.arange(norms.size), 0)]  # (groups, how many larger ones stand before them)
    while pending:
        block, before = pending.pop()
        if block.size == 0:
            continue
        allowed = weights[before : before + block.size]
        pulls = norms[block]
        level = (np.sum(pulls / steps[block]) - allowed.sum()) / np.sum(1.0 / steps[block])
        shares = (pulls - level) / steps[block]
        order = np.argsort(-shares, kind="stable")
        excess = np.cumsum(shares[order]) - np.cumsum(allowed)
        worst = int(np.argmax(excess))
        scale = np.abs(shares).sum() + allowed.sum()
        if worst == block.size - 1 or excess[worst] <= 1e-12 * scale:
            shrunk[block] = max(level, 0.0)
            continue
        pending.append((block[order[: worst + 1]], before))
        pending.append((block[order[worst + 1 :]], before + worst + 1))
    return shrunk


@dataclass(frozen=True, slots=True)
class KLevelSLOPE(SortedPenalty):
    """SLOPE whose weight is ``levels[k]`` for the k-th part of the ranks.

    ``shares`` are the fractions of the groups in each part, adding up to 1; the default is the paper's
    two-level SLOPE with the larger weight on a quarter of the ranks.
    """

    levels: tuple[float, ...] = (1.0, 0.5)
    shares: tuple[float, ...] = (0.25, 0.75)

    def __post_init__(self) -> None:
        if len(self.levels) != len(self.shares) or not np.isclose(sum(self.shares), 1.0) or min(self.shares) < 0:
            expected = "as many shares as levels, none negative, adding up to 1"
            got = f"levels {self.levels} and shares {self.shares}"
            raise InputError(describe("KLevelSLOPE", expected, got, "correct the shares"))
        _check_falling("KLevelSLOPE", np.asarray(self.levels, dtype=np.float64))

    def sequence(self, n_groups: int) -> Vector:
        ends = np.round(np.cumsum(self.shares) * n_groups).astype(int)
        return np.repeat(self.levels, np.diff(ends, prepend=0))


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
        remedy = nearest(penalty, PENALTIES, "choose a name or an object")
        raise InputError(describe("penalty", f"one of {sorted(PENALTIES)}", repr(penalty), remedy))
    return PENALTIES[penalty]()


def spread(penalty: Penalty, columns: NDArray[np.intp], n_columns: int) -> Penalty:
    """Return the penalty on terms of one on columns; ``columns`` (terms,) are the columns of the terms.

    With one weight for each of ``n_columns``, each term has the weight of its column. Sorted weights are repeated from
    the last one where terms outnumber columns. Penalties without such weights stay as they are.
    """
    if isinstance(penalty, GroupLasso) and np.ndim(penalty.weights):
        return GroupLasso(penalty.thresholds(n_columns, 1.0)[columns])
    if isinstance(penalty, GroupSLOPE) and not isinstance(penalty.weights, str):
        return replace(penalty, weights=penalty.sequence(n_columns)[np.minimum(np.arange(columns.size), n_columns - 1)])
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
        where, got = "penalty_weights and always_keep", f"{type(penalty).__name__}, whose weights are not of columns"
        raise InputError(describe(where, "the penalty 'group_lasso'", got, "choose that penalty"))
    return replace(penalty, weights=np.asarray(penalty.weights) * weights)
