"""Sentences about the columns of a table, written from the facts that the fit and a prediction hold of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparsenam.errors import ConstantColumnWarning, IdentifierWarning
from sparsenam.tables.columns import OTHER_LEVELS, Column, FarValues
from sparsenam.tables.frame import MOST_NAMED, shown_value
from sparsenam.tables.text import (
    OTHERS,
    SAID,
    SHAPES,
    DoubtfulCellWarning,
    UnseenColumnWarning,
    UnseenLevelWarning,
    UnseenMissingWarning,
    listed,
)

SOURCES = {
    "number": "numbers",
    "truth": "truth values",
    "date": "dates, as days since 1970-01-01 in universal time",
    "duration": "durations or times of day, in seconds",
    "text": "text",
    "levels": "a category",
    "ordered": "a category in order, as the rank of its level",
}
MOST_SHARING = 5  # columns named that miss the same rows
ASKED = {
    "date": "dates, as days since 1970-01-01 (as asked)",
    "category": "a category, as asked",
    "ordered": "levels in order, as asked",
}


@dataclass(frozen=True, slots=True)
class News:
    """What rows hold that the fit never saw: the levels of each column, and whether it now misses cells.

    ``strange`` and ``known`` count the cells of each column that have such a level, and all others that have a value.
    """

    unseen: tuple[frozenset[str], ...] = ()
    missing: tuple[bool, ...] = ()
    strange: tuple[int, ...] = ()
    known: tuple[int, ...] = ()

    def __add__(self, other: News) -> News:
        if not self.unseen or not other.unseen:
            return self if self.unseen else other
        return News(
            tuple(one | two for one, two in zip(self.unseen, other.unseen, strict=True)),
            tuple(one or two for one, two in zip(self.missing, other.missing, strict=True)),
            tuple(one + two for one, two in zip(self.strange, other.strange, strict=True)),
            tuple(one + two for one, two in zip(self.known, other.known, strict=True)),
        )


def descriptions(columns: Sequence[Column]) -> list[str]:
    """Return for each column what it is, why, and what became of it."""
    sharing: dict[str, list[str]] = {}
    for column in sorted(columns, key=lambda column: column.name):
        sharing.setdefault(column.missing_term, []).append(column.name)
    return [_description(column, sharing[column.missing_term]) for column in columns]


def _description(column: Column, sharing: Sequence[str]) -> str:
    """Return the description of a column; ``sharing`` are the columns whose missing cells are the same term."""
    if column.is_empty:
        return "no value: left out"
    parts = [_source(column) + _levels(column)]
    if not column.varies:
        outcome = "only where it is missing counts" if column.n_missing else "left out"
        what = f"one single value ({column.levels[0]})"
        if column.different is not None:
            n_levels, n_cells = column.different
            what = f"{n_levels} levels in {n_cells} cells, which looks like an identifier"
        parts.append(f"{what}: {outcome}")
    if column.markers:
        parts.append(f"{listed(list(column.markers))} taken as missing")
    if column.missing_term:
        others = [name for name in sharing[: MOST_SHARING + 2] if name != column.name]
        shared = f", shared with {listed(others, MOST_SHARING)} (missing in the same rows)" if others else ""
        counted = "1 missing cell is" if column.n_missing == 1 else f"{column.n_missing} missing cells are"
        parts.append(f"{counted} the term {column.missing_term!r}{shared}")
    if column.far is not None:
        parts.append(f"far from all other values: {_far_values(column, column.far)}")
    return "; ".join(parts)


def _source(column: Column) -> str:
    """Return what the cells of a column are and why they are read so."""
    if column.asked in SAID:
        return f"text read as {SHAPES[column.writing]}, as asked"
    if column.asked is not None:
        return ASKED.get(column.asked, f"{SOURCES[column.stored]} (a number, as asked)")
    if column.stored != "text":
        return SOURCES[column.stored]
    if column.reads == "category":
        return "text, a category" + (f" (as a number, {column.zero!r} would lose its zero)" if column.zero else "")
    how = "" if column.writing == "plain" else f", {SHAPES[column.writing]}"
    days = ": days since 1970-01-01" if column.reads == "date" else ""
    return f"text, every cell of which reads as a {column.reads}{how}{days}"


def _levels(column: Column) -> str:
    if not column.varies or not column.levels:
        return ""
    if column.reads == "ordered":
        few, last = list(column.levels), column.levels[-1]
        return f": {', '.join(few)}" if len(few) <= 8 else f": {', '.join(few[:4])} … {last}"
    if not column.pooled:
        return f": {len(column.levels)} levels"
    n_levels = len(column.levels) - 1 + len(column.pooled)
    return f": {n_levels} levels, of which the {len(column.pooled)} rarest are pooled as {OTHER_LEVELS!r}"


def _far_values(column: Column, far: FarValues) -> str:
    is_date = column.unit == "days"
    shown = [
        f"{shown_value(value, is_date)} in {count} cell{'s' if count > 1 else ''}"
        for value, count in zip(far.values, far.counts, strict=True)
    ]
    return ", ".join(shown) + (" …" if far.n_values > len(shown) else "")


def far_values_note(columns: Iterable[Column]) -> list[str]:
    """Return a sentence that names the values far from all others, none without any."""
    found = [f"{column.name!r} has {_far_values(column, column.far)}" for column in columns if column.far is not None]
    if not found:
        return []
    more = f"; so have {len(found) - MOST_NAMED} more columns" if len(found) > MOST_NAMED else ""
    remedy = "where they stand for missing cells, leave these empty"
    return [f"Values far from all others of their column: {'; '.join(found[:MOST_NAMED])}{more}; {remedy}."]


def column_warnings(columns: Sequence[Column], among: str) -> list[Warning]:
    """Return warnings of columns whose cells read in two ways, one for all, and of columns that are left out.

    ``among`` says which rows show that a column is left out, where they are a sample.
    """
    doubtful = [column for column in columns if column.doubt and column.varies]
    found: list[Warning] = [_doubt_warning(doubtful)] if doubtful else []
    left_out = [column for column in columns if not column.varies]
    different = [column.name for column in left_out if column.is_identifier]
    if different:
        it = "it" if len(different) == 1 else "the first"
        message = (
            f"{len(different)} column(s) of text that is different in nearly every row{among}, as identifiers are, "
            f"left out of the model: {listed(different)}; "
            f'feature_types={{{different[0]!r}: "category"}} would keep {it}.'
        )
        found.append(IdentifierWarning(message))
    constant = [column.name for column in left_out if not column.n_missing and not column.is_identifier]
    empty = [column.name for column in left_out if column.is_empty]
    which = f"column(s) constant{among}" if among else "constant column(s)"
    for names, what in ((constant, which), (empty, f"column(s) without any value{among}")):
        if names:
            message = f"{len(names)} {what} left out of the model: {listed(names)}."
            found.append(ConstantColumnWarning(message))
    return found


def _doubt_warning(columns: Sequence[Column]) -> DoubtfulCellWarning:
    first, others = columns[0], [column.name for column in columns[1:]]
    so = f" (and so {listed(others)})" if others else ""
    remedy = next(words for words, ways in SAID.items() if OTHERS[first.writing] in ways)
    return DoubtfulCellWarning(
        f"column {first.name!r}{so}: cells such as {first.doubt!r} read in two ways; taken as {SHAPES[first.writing]}: "
        f"where that is wrong, set feature_types={{{first.name!r}: {json.dumps(remedy)}}}."
    )


def news_warnings(columns: Sequence[Column], news: News, seen: str, now: str) -> list[Warning]:
    """Return a warning for the unseen levels of each column, and one for all columns that miss cells only now."""
    found, missing = list[Warning](), list[str]()
    for column, unseen, strange, known in zip(columns, news.unseen, news.strange, news.known, strict=bool(news.unseen)):
        levels = f"level(s) never seen {seen} contribute nothing: {listed(sorted(unseen))}"
        if unseen and (known or strange == 1):  # one row alone may well be the first of its level
            cells = f", in {strange} of {strange + known} cells" if strange else ""
            found.append(UnseenLevelWarning(f"column {column.name!r}: {len(unseen)} {levels}{cells}."))
        elif unseen:
            fitted = f"those of the fit were {listed(list(column.levels), 3)}"
            message = f"column {column.name!r}: all {strange} cells hold {levels}; {fitted}."
            found.append(UnseenColumnWarning(message, column.name))
    for column, misses in zip(columns, news.missing, strict=bool(news.missing)):
        if misses and column.varies and not column.n_missing:
            missing.append(column.name)
    if missing:
        what = f"column(s) without missing cells {seen} miss some {now}, which contribute nothing"
        found.append(UnseenMissingWarning(f"{len(missing)} {what}: {listed(missing)}."))
    return found
