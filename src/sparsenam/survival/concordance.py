"""Harrell's concordance: how often the riskier of two rows has its event first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe

Vector = NDArray[np.float64]


def concordance(event: NDArray[np.bool_], time: Vector, risk: Vector, weights: Vector | None = None) -> float:
    """Return Σ wᵢwⱼ(1{riskᵢ > riskⱼ} + ½ 1{riskᵢ = riskⱼ}) / Σ wᵢwⱼ over the pairs in which i has its event first.

    i must end with the event, before j ends or when j is censored. All arguments have shape (rows,); 0.5 is what a
    constant risk gets. Takes O(n log² n).
    """
    weights = np.ones(time.size) if weights is None else np.asarray(weights, dtype=np.float64)
    rank = np.unique(risk, return_inverse=True)[1]
    moment = np.unique(np.column_stack([time, ~event]), axis=0, return_inverse=True)[1].ravel()
    # events at one moment are no pair: in the order of their risk none of them counts as concordant
    order = np.lexsort([rank, moment])
    event, rank, moment, weights = event[order], rank[order], moment[order], weights[order]
    firsts = np.where(event, weights, 0.0)
    everything = np.zeros_like(moment)
    pairs = _later_pairs(everything, moment, firsts, weights)
    if pairs <= 0:
        raise InputError(describe("y", "a row with the event before another ends", "none", "give more rows"))
    tied = _later_pairs(rank, moment, firsts, weights)
    return float((_inversions(rank, firsts, weights) + 0.5 * tied) / pairs)


def _later_pairs(group: NDArray[np.intp], moment: NDArray[np.intp], firsts: Vector, weights: Vector) -> float:
    """Return Σ firstsᵢ wⱼ over the pairs of one group with momentᵢ < momentⱼ."""
    order = np.lexsort([-moment, group])
    key = group[order] * (moment.max() + 1) - moment[order]
    before = np.concatenate([[0.0], np.cumsum(weights[order])])
    return float(firsts[order] @ (before[_first_of_its_kind(key)] - before[_first_of_its_kind(group[order])]))


def _first_of_its_kind(ascending: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return for each index the first one that holds the same number."""
    return np.asarray(np.searchsorted(ascending, ascending, side="left"), dtype=np.intp)


def _inversions(rank: NDArray[np.intp], firsts: Vector, weights: Vector) -> float:
    """Return Σ firstsᵢ wⱼ over i < j with rankᵢ > rankⱼ: a merge sort whose merges of one size are done at once."""
    index, total, width = np.arange(rank.size), 0.0, 1
    while width < rank.size:
        is_right = (index // width) % 2
        block = index // (2 * width)
        order = np.lexsort([is_right, rank, block])  # at equal ranks left first: a tie is no inversion
        rights = np.where(is_right == 1, weights, 0.0)[order]
        before = np.cumsum(rights) - rights
        lefts = np.where(is_right == 0, firsts, 0.0)[order]
        begins = before[block * 2 * width]  # sorting moves nothing from block to block
        total += float(lefts @ (before - begins))
        width *= 2
    return total
