"""How stable a choice of columns is, as plain data: frequencies over half-samples, replacements, and a bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Bounds, Positive, Share, Size, unpack
from sparsenam.errors import InputError, RefusalError, check_number, describe
from sparsenam.selection.stability import low_columns_bound, low_columns_bound_if_unimodal, replacing_columns
from sparsenam.tables.text import listed
from sparsenam.text import FINDINGS_SHOWN, NOTHING, Finding, FindingTable, Found, count_text, number_text, share_text

THRESHOLD = 0.9  # share of the half-samples from which a column is called stable
THRESHOLDS = (1.0, 0.9, 0.75, 0.6)  # shown with their bounds
SELDOM = 0.1  # share of the half-samples below which a dropped column is not shown


@dataclass(frozen=True, slots=True)
class Replacement:
    """A column and another that may stand in its place.

    ``share`` is that of the half-samples without the column that keep the other, ``share_in_all`` that of all
    half-samples; None where there are none such. ``expressed`` is the share of the column's effect that some
    function of the other has, None below 0.9 and for dropped columns.
    """

    column: str
    other: str
    share: Share | None
    share_in_all: Share | None
    expressed: Annotated[float, Bounds(0.0, 2.0)] | None


@dataclass(frozen=True, slots=True)
class Stability(Found):
    """How often half of the rows would choose the same columns.

    ``frequencies`` are, for each column that could be dropped, the shares of 2 · ``n_pairs`` half-samples that keep it
    at the model's ``alpha``; ``kept_per_half`` of these columns are kept by a half-sample on average. ``kept`` are the
    columns of the model, ``always_kept`` those that nothing could drop, which have no frequency. ``asked_pairs`` is
    above ``n_pairs`` where the time ran out.
    """

    n_pairs: Positive
    asked_pairs: Positive
    alpha: Size
    kept_per_half: Size
    frequencies: dict[str, Share]
    kept: tuple[str, ...]
    always_kept: tuple[str, ...]
    replacements: tuple[Replacement, ...]

    @property
    def n_columns(self) -> int:
        """The number of columns that could be dropped."""
        return len(self.frequencies)

    def stable(self, threshold: float = THRESHOLD) -> tuple[str, ...]:
        """Return the columns that at least this share of the half-samples keeps, the most frequent first."""
        check_number("threshold", threshold, 0.0, highest=1.0)
        # a share of halves is a ratio of whole numbers: rounding must not decide
        return tuple(name for name, share in self._ranked() if share >= threshold - 1e-9)

    def bound(self, threshold: float = THRESHOLD) -> float:
        """Return the most columns of low probability among `stable`, on average: q²/(p(2τ - 1)).

        A column is of low probability when a half-sample keeps it with a chance of at most q/p, for q columns kept
        of p: that of a random choice of as many. Shah and Samworth (2013), theorem 1: no assumption but that rows are
        independent. ∞ for thresholds up to ½.
        """
        check_number("threshold", threshold, 0.0, highest=1.0)
        return low_columns_bound(self.kept_per_half, self.n_columns, threshold)

    def bound_if_unimodal(self, threshold: float = THRESHOLD) -> float | None:
        """Return the sharper bound of their theorem 2, None where it says nothing.

        It assumes that for every column of low probability the share of pairs with the column in both halves has a
        distribution with one peak.
        """
        check_number("threshold", threshold, 0.0, highest=1.0)
        return low_columns_bound_if_unimodal(self.kept_per_half, self.n_columns, threshold, self.n_pairs)

    def promise(self, threshold: float = THRESHOLD) -> str:
        """Return in a sentence what is known of the columns in this share of the half-samples."""
        count, bound = len(self.stable(threshold)), self.bound(threshold)
        chance = f"{number_text(self.kept_per_half, 3)} of {self.n_columns}"
        low = f"kept by a half-sample no more often than by a random choice of as many columns ({chance})"
        if not count:
            return f"No column is in {share_text(threshold)} of the half-samples."
        if bound >= count:
            return (
                f"Nothing is promised of the columns in {share_text(threshold)} of the half-samples: so many are kept."
            )
        found = f"Of the {count_text(count, 'column')} in at least {share_text(threshold)} of the half-samples"
        text = f"{found} at most {number_text(bound, 2)}, on average over tables like this one, are {low}"
        unimodal = self.bound_if_unimodal(threshold)
        if unimodal is not None and unimodal < bound:
            text += f"; at most {number_text(unimodal, 2)} if what the halves have in common has one peak"
        return f"{text} (Shah and Samworth 2013)."

    def finding(self) -> Finding:
        """Return the result in words and tables."""
        halves, steady = 2 * self.n_pairs, self.stable()
        inside = [name for name in self.kept if name in self.frequencies]
        both = [name for name in inside if name in set(steady)]
        sentence = (
            f"at least {share_text(THRESHOLD)} of {halves} half-samples keep {len(both)} of the "
            f"{count_text(len(inside), 'column')} that the model chose; a half-sample keeps "
            f"{number_text(self.kept_per_half, 3)} of {self.n_columns} on average."
        )
        others = [name for name in steady if name not in set(inside)]
        notes = [self.promise()]
        if others:
            notes.append(f"Kept as often, though not by the model: {listed(others)}.")
        if self.n_pairs < self.asked_pairs:
            notes.append(f"max_seconds ended this after {self.n_pairs} of {self.asked_pairs} pairs of halves.")
        tables = [self._columns_table(), self._thresholds_table()]
        return Finding("Stability of the choice", sentence, tuple([*tables, *self._replacements_table()]), tuple(notes))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the result that ``to_dict`` wrote; raise `InputError` for what it cannot have written."""
        try:
            return unpack(cls, data)
        except RefusalError as error:
            got, remedy = str(error), "measure it again"
            raise InputError(describe("stability", "what to_dict() returns", got, remedy)) from error

    def _ranked(self) -> list[tuple[str, float]]:
        return sorted(self.frequencies.items(), key=lambda item: (-item[1], item[0]))

    def _columns_table(self) -> FindingTable:
        inside = set(self.kept)
        ranked = [(name, share) for name, share in self._ranked() if name in inside or share >= SELDOM]
        left = len(ranked) - FINDINGS_SHOWN
        rows = [(name, share_text(share), "yes" if name in inside else "no") for name, share in ranked[:FINDINGS_SHOWN]]
        caption = "How often half of the rows keep a column" + (f" ({left} more columns not shown)" if left > 0 else "")
        return FindingTable(caption, ("column", "in half-samples", "in the model"), tuple(rows))

    def _thresholds_table(self) -> FindingTable:
        rows: list[tuple[str, ...]] = []
        for threshold in THRESHOLDS:
            count, bound, unimodal = (
                len(self.stable(threshold)),
                self.bound(threshold),
                self.bound_if_unimodal(threshold),
            )
            rows.append((share_text(threshold), str(count), number_text(bound, 2), number_text(unimodal, 2)))
        heads = ("in at least", "columns", "at most by chance", "if one peak")
        caption = "Columns by threshold, and how many of them, on average, may be no better than a random choice"
        return FindingTable(caption, heads, tuple(rows))

    def _replacements_table(self) -> list[FindingTable]:
        if not self.replacements:
            return []
        rows = [
            (
                pair.column,
                pair.other,
                NOTHING if pair.share is None else share_text(pair.share),
                NOTHING if pair.share_in_all is None else share_text(pair.share_in_all),
                NOTHING if pair.expressed is None else share_text(pair.expressed),
            )
            for pair in self.replacements[:FINDINGS_SHOWN]
        ]
        heads = ("column", "replaced by", "in halves without it", "in all halves", "of its effect expressed")
        return [FindingTable("Columns that replace one another", heads, tuple(rows))]


def stability_of(
    kept_in_halves: NDArray[np.bool_],
    candidates: NDArray[np.bool_],
    names: Sequence[str],
    *,
    kept: Sequence[str],
    always_kept: Sequence[str],
    substitutes: Mapping[str, Mapping[str, float]],
    alpha: float,
    asked_pairs: int,
) -> Stability:
    """Return the stability from what each half keeps (halves, columns) and what could be dropped (columns,)."""
    columns = np.flatnonzero(candidates)
    inside = kept_in_halves[:, columns]
    of = [names[int(column)] for column in columns]
    expressed = {(name, other): share for name, others in substitutes.items() for other, share in others.items()}
    found: dict[tuple[str, str], Replacement] = {}
    for pair in replacing_columns(inside):
        key = (of[pair.column], of[pair.other])
        found[key] = Replacement(*key, pair.share, pair.share_in_all, expressed.get(key))
    place = {name: index for index, name in enumerate(of)}
    for (name, other), share in expressed.items():
        without, all_halves = None, None
        if name in place and other in place:
            gone, there = ~inside[:, place[name]], inside[:, place[other]]
            all_halves = float(there.mean())
            without = float(there[gone].mean()) if gone.any() else None
        found.setdefault((name, other), Replacement(name, other, without, all_halves, share))
    return Stability(
        n_pairs=inside.shape[0] // 2,
        asked_pairs=asked_pairs,
        alpha=alpha,
        kept_per_half=float(inside.sum(axis=1).mean()),
        frequencies={name: float(share) for name, share in zip(of, inside.mean(axis=0), strict=True)},
        kept=tuple(kept),
        always_kept=tuple(always_kept),
        replacements=tuple(found[key] for key in sorted(found)),
    )
