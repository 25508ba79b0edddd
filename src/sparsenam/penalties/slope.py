"""Group SLOPE: the largest norm meets the largest weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sparsenam.errors import InputError, describe

Vector: TypeAlias = NDArray[np.float64]


def benjamini_hochberg_weights(n_groups: int, rate: float = 0.1) -> Vector:
    """Return Φ⁻¹(1 - i·rate/(2p)), i = 1…p, divided by its first element (Bogdan et al., 2015)."""
    ranks = np.arange(1, n_groups + 1)
    quantiles = ndtri(1.0 - ranks * rate / (2.0 * n_groups))
    return quantiles / quantiles[0]


def linear_weights(n_groups: int) -> Vector:
    """Return (p - i + 1)/p, i = 1…p: weights that fall in equal steps from 1 (OSCAR's, up to scale)."""
    return np.arange(n_groups, 0, -1) / n_groups


class _Sorted:
    """Value, proximal step and slope of α Σᵢ wᵢ r₍ᵢ₎, from w."""

    __slots__ = ()

    def sequence(self, n_groups: int) -> Vector:
        """Return the weights for so many groups, non-increasing, shape (groups,)."""
        raise NotImplementedError

    def value(self, norms: Vector, alpha: float) -> float:
        """Return α Σᵢ wᵢ r₍ᵢ₎."""
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
class GroupSLOPE(_Sorted):
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
        """Return the weights for so many groups, non-increasing, shape (groups,)."""
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
class KLevelSLOPE(_Sorted):
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
        """Return the weights for so many groups, shape (groups,)."""
        ends = np.round(np.cumsum(self.shares) * n_groups).astype(int)
        return np.repeat(self.levels, np.diff(ends, prepend=0))
