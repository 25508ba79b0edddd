"""False discoveries under control: the rule `FDR`, what it decides from statistics or p-values, and how it says so."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import check_number, check_word
from sparsenam.selection.curve import Compact, CVCurve, Mask, Vector

Method = Literal["auto", "knockoffs", "split"]
Test = Literal["knockoffs", "split"]

# times 1/q: columns that the default choice keeps from which knockoffs are taken. At least 1/q must be found, and the
# default choice may hold a few false ones
ENOUGH_FOR_KNOCKOFFS = 1.2
LEAST_P = 1e-300  # a smaller p-value is as good as 0
FEWEST_DISCOVERY_ROWS = 20  # of a table to be halved


@dataclass(frozen=True, slots=True)
class FDR:
    """Keep columns of which, on average over tables, at most a share q has no effect given the others.

    Parameters
    ----------
    q
        The false discovery rate, above 0 and below 1.
    method
        "knockoffs" compares every column with a copy that cannot matter; at least 1/q columns must be found for any to
        be. "split" finds curves on half of the rows and tests them on the other; it finds few columns too, and takes
        categories and missing cells. "auto" takes what can reach q.
    """

    q: float = 0.1
    method: Method = "auto"

    def __post_init__(self) -> None:
        check_number("q of FDR", self.q, 0.0, 1.0, open_below=True, open_above=True)
        check_word("method of FDR", self.method, ("auto", "knockoffs", "split"))

    def choose(self, curve: CVCurve, allowed: Mask) -> int:
        """Return the point of the default rule, whose curve and certificate stand beside the tests."""
        return Compact().choose(curve, allowed)


@dataclass(frozen=True, slots=True, eq=False)
class GroupTests:
    """What was tested, and what was found.

    Attributes
    ----------
    method, reason
        The test, and in words why it was taken.
    statistics
        Of each hypothesis, shape (hypotheses,); it is a discovery from ``threshold`` on. For knockoffs the area under
        the path of the column less that of its copy, for split -log₁₀ of the p-value.
    threshold
        None where no statistic is large enough.
    p_values
        Shape (hypotheses,); None for knockoffs, which have none.
    construction
        How knockoffs were drawn.
    reachable
        Whether there are enough hypotheses (1/q for knockoffs) or rows (for split) for a discovery. Knockoffs need
        more: at least 1/q of the hypotheses must be false.
    """

    q: float
    method: Test
    reason: str
    statistics: Vector
    threshold: float | None
    p_values: Vector | None
    construction: str | None
    reachable: bool

    @property
    def found(self) -> Mask:
        """The discoveries, shape (hypotheses,)."""
        if self.threshold is None:
            return np.zeros(self.statistics.size, dtype=np.bool_)
        return self.statistics >= self.threshold


@dataclass(frozen=True, slots=True, eq=False)
class ColumnTests:
    """Tests, the columns of each hypothesis, as indices of the table, and the columns that are kept without a test."""

    tests: GroupTests
    columns: tuple[NDArray[np.intp], ...]
    always_kept: NDArray[np.intp]


def knockoff_tests(statistics: Vector, q: float, reason: str, construction: str) -> GroupTests:
    """Return what the statistics of knockoffs say."""
    threshold = knockoff_threshold(statistics, q)
    reachable = statistics.size >= fewest(q)
    return GroupTests(q, "knockoffs", reason, statistics, threshold, None, construction, reachable)


def split_tests(p_values: Vector, q: float, reason: str, rows: int) -> GroupTests:
    """Return what p-values of so many rows say."""
    statistics = -np.log10(np.maximum(p_values, LEAST_P)) + 0.0  # no negative zero
    found = benjamini_hochberg(p_values, q)
    threshold = float(statistics[found].min()) if found.any() else None
    return GroupTests(q, "split", reason, statistics, threshold, p_values, None, rows >= FEWEST_DISCOVERY_ROWS)


def fewest(q: float) -> int:
    """Return the fewest discoveries that knockoffs can make at q: (1 + 0)/k ≤ q."""
    return ceil(1.0 / q - 1e-9)


def knockoff_threshold(statistics: Vector, q: float) -> float | None:
    """Return the smallest t > 0 with (1 + #{W ≤ -t})/#{W ≥ t} ≤ q, or None (Barber and Candès 2015, knockoff+)."""
    for t in np.unique(np.abs(statistics[statistics != 0.0])):
        if 1 + np.count_nonzero(statistics <= -t) <= q * np.count_nonzero(statistics >= t) * (1.0 + 1e-12):
            return float(t)
    return None


def benjamini_hochberg(p_values: Vector, q: float) -> NDArray[np.bool_]:
    """Return which hypotheses are rejected: those with the k smallest p-values, k the largest with p₍ₖ₎ ≤ qk/m."""
    count = p_values.size
    ranked = np.sort(p_values)
    below = np.flatnonzero(ranked <= q * np.arange(1, count + 1) / max(count, 1) * (1.0 + 1e-12))
    return p_values <= ranked[below[-1]] if below.size else np.zeros(count, dtype=np.bool_)


def decide(rule: FDR, n_hypotheses: int, n_kept: int, obstacle: str | None) -> tuple[Test, str]:
    """Return the test that a rule takes, and why.

    ``n_kept`` is the number of columns that the default choice keeps, ``obstacle`` what stands against knockoffs.
    """
    if rule.method != "auto":
        return rule.method, "it was asked for"
    least = fewest(rule.q)
    if obstacle is not None:
        return "split", f"{obstacle}, for which no knockoffs are drawn"
    if n_hypotheses < least:
        return "split", f"knockoffs find nothing or at least {least} columns at q = {rule.q:g}, and there are fewer"
    columns = "1 column" if n_kept == 1 else f"{n_kept} columns"
    if n_kept < ENOUGH_FOR_KNOCKOFFS * least:
        why = f"the default choice keeps {columns}, and knockoffs find nothing or at least {least} at q = {rule.q:g}"
        return "split", why
    return (
        "knockoffs",
        f"the default choice keeps {columns}, more than the {least} that knockoffs need at q = {rule.q:g}",
    )
