"""Complementary halves of the rows: which columns each keeps, and what may be promised of them.

A half is solved at the model's alpha. Two other ways were measured on correlated and uncorrelated columns: alpha · √2,
as gradients of half of the rows are noisier by √2, loses effects beyond doubt, since the model's alpha is the largest
that keeps its columns; as many columns as the model has, those that enter first, lets near copies of one column push
others out. A gap of 1e-3 leaves near copies beside each other that one of 1e-4 tells apart.

The promise is that of R. D. Shah and R. J. Samworth, Variable selection with error control: another look at stability
selection, Journal of the Royal Statistical Society B 75 (2013) 55-80, theorems 1 and 2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import comb, sqrt

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.convex.path import alphas_down_to, convex_path
from sparsenam.errors import InputError, describe
from sparsenam.selection.task import ConvexTask, Vector
from sparsenam.tables import PreparedSample

Mask = NDArray[np.bool_]

PAIRS_AT_ONCE = 5  # solved in one batch: more need more memory and are no faster
HAZARDS = 2  # times that a half of censored times is solved, each with the hazard of the last; six keep the same
HALVING_ATTEMPTS = 100  # attempts to have every value of a rare class in both halves
OFTEN = 0.2  # share of the halves that must keep each of two columns which are said to replace one another
RARE = 0.01  # chance, shared among all pairs of such columns, of as few halves with both


def complementary_halves(
    target: Vector, n_pairs: int, generator: np.random.Generator, groups: NDArray[np.intp] | None = None
) -> Mask:
    """Return random halves of the rows, each followed by its complement, shape (2 · n_pairs, rows).

    Of an odd number of rows one is in neither. Halves are drawn again where an output of the target (rows, outputs)
    is constant in one. With ``groups`` (rows,) numbered from 0, halves are of groups, and no group is torn apart.
    """
    rows = target.shape[0]
    codes: NDArray[np.intp] = np.arange(rows, dtype=np.intp) if groups is None else groups
    count = int(codes.max(initial=-1)) + 1
    half = count // 2
    found: list[Mask] = []
    for _ in range(n_pairs):
        for _ in range(HALVING_ATTEMPTS):
            order = generator.permutation(count)
            pair = [np.isin(codes, order[:half]), np.isin(codes, order[half : 2 * half])]
            if all(part.any() and (np.ptp(target[part], axis=0) > 0).all() for part in pair):
                found += pair
                break
        else:
            expected = "a target that varies in both halves of the rows"
            got = f"{rows} rows with values too rare for that"
            raise InputError(describe("stability", expected, got, "give more rows"))
    return np.array(found)


def columns_in_halves(
    task: ConvexTask, halves: Mask, alpha: float, report: Callable[[int], None], context: Context
) -> Mask:
    """Return which columns each half (halves, rows) keeps at an alpha, shape (halves solved, columns).

    A few pairs at a time are batches of one path, with all rows as its first batch. Halves that the time does not
    suffice for are left out.
    """
    prepared, kept = task.prepared, list[Mask]()
    alphas = alphas_down_to(alpha, task.problem(), task.penalty)
    out_of_time = context.clock.laps()
    for start in range(0, len(halves), 2 * PAIRS_AT_ONCE):
        batches = np.vstack([prepared.weights[None], prepared.weights * halves[start : start + 2 * PAIRS_AT_ONCE]])
        (point,) = deque(convex_path(task.problem(batches), task.penalty, alphas=alphas), maxlen=1)
        kept += [columns_mask(task, support) for support in point.supports[1:]]
        report(len(kept))
        if out_of_time():
            break
    return np.array(kept)


def columns_mask(task: ConvexTask, groups: NDArray[np.intp]) -> Mask:
    """Return which columns have a term in some groups, shape (columns,)."""
    mask = np.zeros(len(task.column_names), dtype=np.bool_)
    mask[task.columns(groups)] = True
    return mask


def columns_with_hazard(
    task: ConvexTask, alpha: float, sample_at: Callable[[Vector], PreparedSample], rounds: int = HAZARDS
) -> Mask:
    """Return which columns a task keeps at an alpha whose sample depends on scores (rows, 1), shape (columns,).

    It is solved at the sample of no effects, and then at that of the scores found.
    """
    scores = np.zeros((task.prepared.weights.size, 1))
    kept = columns_mask(task, np.zeros(0, dtype=np.intp))
    for _ in range(rounds):
        problem = task.with_sample(sample_at(scores)).problem()
        alphas = alphas_down_to(alpha, problem, task.penalty)
        (point,) = deque(convex_path(problem, task.penalty, alphas=alphas), maxlen=1)
        kept, scores = columns_mask(task, point.supports[0]), point.scores(task.design)
    return kept


def low_columns_bound(kept_per_half: float, n_columns: int, threshold: float) -> float:
    """Return q²/(p(2τ - 1)): the most columns of low probability that are in a share τ of the halves, on average.

    A column is of low probability when a half keeps it with a chance of at most q/p, q being the mean number of columns
    that a half keeps of p. This holds for every way to choose (Shah and Samworth, theorem 1); ∞ for τ up to ½.
    """
    if threshold <= 0.5:
        return np.inf
    return kept_per_half**2 / (n_columns * (2.0 * threshold - 1.0)) if n_columns else 0.0


def low_columns_bound_if_unimodal(kept_per_half: float, n_columns: int, threshold: float, n_pairs: int) -> float | None:
    """Return the bound where the share of pairs with a column of low probability in both halves has one peak.

    With θ = q/p it is C q²/p; C is 1/(2(2τ - 1 - 1/(2B))) up to τ = ¾ and 4(1 - τ + 1/(2B))/(1 + 1/B) above, for B
    pairs (theorem 2). None outside of its conditions: θ ≤ 1/√3 and τ > min(½ + θ², ½ + 1/(2B) + ¾θ²).
    """
    share = kept_per_half / n_columns if n_columns else 0.0
    lowest = min(0.5 + share**2, 0.5 + 0.5 / n_pairs + 0.75 * share**2)
    slack = 2.0 * threshold - 1.0 - 0.5 / n_pairs
    if share > 1.0 / sqrt(3.0) or threshold <= lowest or slack <= 0.0:
        return None
    above = 4.0 * (1.0 - threshold + 0.5 / n_pairs) / (1.0 + 1.0 / n_pairs)
    factor = 0.5 / slack if threshold <= 0.75 else above
    return factor * share * kept_per_half


@dataclass(frozen=True, slots=True)
class Replacing:
    """Two columns, by index, of which halves keep one or the other.

    ``share`` is that of the halves without ``column`` that keep ``other``, ``share_in_all`` that of all halves: what
    would be expected if neither knew of the other.
    """

    column: int
    other: int
    share: float
    share_in_all: float


def replacing_columns(kept: Mask) -> list[Replacing]:
    """Return the pairs of columns that too few halves (halves, columns) keep together for chance, both ways round.

    Each must be in a fifth of the halves at least. If columns were kept without regard to each other, the number of
    halves with both would be hypergeometric; its lower tail must be below 0.01 over the number of such pairs. Halves
    share rows, so that this is a sign and no test.
    """
    halves, counts = kept.shape[0], kept.sum(axis=0)
    often = np.flatnonzero((counts >= OFTEN * halves) & (counts < halves))
    n_pairs = max(often.size * (often.size - 1) // 2, 1)
    found: list[Replacing] = []
    for place, one in enumerate(often):
        for other in often[place + 1 :]:
            together = int(np.count_nonzero(kept[:, one] & kept[:, other]))
            if _chance_of_few(together, halves, int(counts[one]), int(counts[other])) < RARE / n_pairs:
                for column, partner in ((int(one), int(other)), (int(other), int(one))):
                    without = halves - int(counts[column])
                    share = (int(counts[partner]) - together) / without
                    found.append(Replacing(column, partner, share, float(counts[partner]) / halves))
    return found


def _chance_of_few(together: int, halves: int, one: int, other: int) -> float:
    """Return the chance that at most so many of the halves have both of two independent columns, given their counts."""
    ways = sum(comb(one, both) * comb(halves - one, other - both) for both in range(together + 1) if other >= both)
    return ways / comb(halves, other)
