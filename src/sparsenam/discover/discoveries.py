"""What an `FDR` rule found, in names of columns: the test, why it was taken, statistics, threshold and p-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Share, unpack
from sparsenam.errors import InputError, RefusalError, describe, require
from sparsenam.selection.discovery import FEWEST_DISCOVERY_ROWS, ColumnTests, Test, fewest
from sparsenam.text import FINDINGS_SHOWN, Finding, FindingTable, Found, count_text

HOW = {
    "knockoffs": "every column is compared with a copy that has no share in the target",
    "split": "half of the rows finds the curves, the other tests them, several times over",
}


@dataclass(frozen=True, slots=True)
class Discoveries(Found):
    """The columns that a test keeps, of which at most a share q, on average over tables, has no effect.

    Attributes
    ----------
    q
        The false discovery rate asked for.
    method, reason
        "knockoffs" or "split", and why that one.
    kept
        The discovered columns.
    always_kept
        Columns of ``always_keep``: they are in the model without a test, and q says nothing of them.
    statistics
        Of each tested column; it is a discovery where this is at least ``threshold``. For knockoffs it is the area
        under the path less that of the copy, for split -log₁₀ of the p-value. Columns that enter together share one.
    threshold
        None where nothing is found.
    p_values
        Of each tested column; None for knockoffs, which have none.
    construction
        How knockoffs were drawn, "gaussian copula", "elliptical copula" or "sequential"; None for split.
    reachable
        Whether there are enough tested columns (1/q for knockoffs) or rows (20 for split) for a discovery. Knockoffs
        need more: at least 1/q of the columns must act.
    """

    q: Share
    method: Test
    reason: str
    kept: tuple[str, ...]
    always_kept: tuple[str, ...]
    statistics: Mapping[str, float]
    threshold: float | None
    p_values: Mapping[str, Share] | None
    construction: str | None
    reachable: bool

    def sentence(self) -> str:
        """Return in one sentence what was found and how."""
        found = f"{len(self.kept)} of {count_text(len(self.statistics), 'tested column')}"
        what = "is a discovery" if len(self.kept) == 1 else "are discoveries"
        return (
            f"{found} {what}, of which at most a share of {self.q:g} is expected to be false, by "
            f"{self.method} ({self.reason})."
        )

    def notes(self) -> list[str]:
        """Return in sentences what the discoveries do not say."""
        notes: list[str] = []
        if not self.statistics:
            notes.append("No column was tested.")
        elif not self.reachable:
            needed = (
                f"{fewest(self.q)} tested columns" if self.method == "knockoffs" else f"{FEWEST_DISCOVERY_ROWS} rows"
            )
            notes.append(f"q = {self.q:g} is out of reach: {self.method} needs at least {needed}.")
        elif not self.kept:
            notes.append("Nothing found does not mean that nothing is there. " + self._what_helps())
        if self.always_kept:
            notes.append(f"Kept without a test: {', '.join(self.always_kept)}.")
        return notes

    def _what_helps(self) -> str:
        """Return in a sentence what could find more."""
        if self.method == "split":
            return "With more rows, weaker effects can be found."
        return (
            f"Knockoffs find nothing or at least {count_text(fewest(self.q), 'column')} at q = {self.q:g}: where fewer "
            "act, no number of rows helps, and method='split' can find them."
        )

    def finding(self) -> Finding:
        """Return the discoveries in words and a table, the largest statistics first."""
        inside = set(self.kept)
        order = sorted(self.statistics, key=lambda name: (-self.statistics[name], name))
        heads = ("column", "statistic", *(() if self.p_values is None else ("p-value",)), "kept")
        rows = tuple(
            (
                name,
                f"{self.statistics[name] + 0.0:.3g}",
                *(() if self.p_values is None else (f"{self.p_values[name]:.2g}",)),
                "yes" if name in inside else "no",
            )
            for name in order[:FINDINGS_SHOWN]
        )
        bar = "none is large enough" if self.threshold is None else f"kept from {self.threshold:.3g} on"
        more = f"; the first {FINDINGS_SHOWN} of {len(order)}" if len(order) > FINDINGS_SHOWN else ""
        tables = (FindingTable(f"Statistics, {bar}{more}", heads, rows),) if rows else ()
        drawn = "" if self.construction is None else f" (drawn by a {self.construction} model of the columns)"
        how = f"The test: {HOW[self.method]}{drawn}."
        return Finding("False discoveries", self.sentence(), tables, (how, *self.notes()))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the discoveries of `to_dict`; raise `InputError` for data that cannot be."""
        try:
            made = unpack(cls, data)
            made.check()
        except RefusalError as error:
            got, remedy = str(error), "fit the model again"
            raise InputError(describe("discoveries", "what to_dict() returns", got, remedy)) from error
        return made

    def check(self) -> None:
        """Raise `RefusalError` unless discoveries, statistics, threshold and p-values fit each other."""
        tested, threshold = set(self.statistics), self.threshold
        right = (
            0.0 < self.q < 1.0
            and set(self.kept) <= tested
            and (self.p_values is None or set(self.p_values) == tested)
            and all(threshold is not None and self.statistics[name] >= threshold for name in self.kept)
        )
        require(right, "discoveries that cannot be")


def discoveries_of(tested: ColumnTests, names: Sequence[str]) -> Discoveries:
    """Return tests in names of the table's columns."""
    tests, found = tested.tests, tested.tests.found

    def by_name(values: NDArray[np.float64]) -> dict[str, float]:
        pairs = zip(tested.columns, values, strict=True)
        return {names[int(column)]: float(value) for columns, value in pairs for column in columns}

    kept = sorted(
        {int(column) for columns, is_found in zip(tested.columns, found, strict=True) if is_found for column in columns}
    )
    return Discoveries(
        q=tests.q,
        method=tests.method,
        reason=tests.reason,
        kept=tuple(names[column] for column in kept),
        always_kept=tuple(names[int(column)] for column in tested.always_kept),
        statistics=by_name(tests.statistics),
        threshold=tests.threshold,
        p_values=None if tests.p_values is None else by_name(tests.p_values),
        construction=tests.construction,
        reachable=tests.reachable,
    )
