"""Text: numbers, dates and counts made short to read, names made short to fit, units, findings and their tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self
from unicodedata import east_asian_width

from sparsenam.codec import to_plain
from sparsenam.tables.text import EPOCH, number_in

if TYPE_CHECKING:
    from sparsenam.families import Response

Task = Literal["regression", "classification", "survival"]
FeatureKind = Literal["number", "category", "ordered", "date"]

MINUS, NOTHING, ELLIPSIS = "\u2212", "\u2013", "\u2026"
THIN_SPACE = "\u202f"
MISSING = "missing"
SURVIVAL_UNITS = "log hazard ratio"
TIMES = " × "  # between the two columns of a pair
MOST_DAYS = 700_000  # either side of 1970; Python's dates end soon after
WIDEST_CELL = 40  # characters of a printed cell
FINDINGS_SHOWN = 30  # columns in the table of a finding
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet may take for the start of a formula
_WIDE = frozenset("MWmw@%")


def number_text(value: float | None, digits: int = 4) -> str:
    """Return the number to some significant digits, with a true minus; a dash where there is none.

    Thousands are set apart from five digits on, so that years read as years.
    """
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    size = abs(value)
    whole = size < 1e12 and (size >= 10**digits - 0.5 or value == round(value))
    text = f"{value:,.0f}" if whole else f"{value:.{digits}g}"
    return text.replace(",", THIN_SPACE if size >= 9999.5 else "").replace("-", MINUS)


def signed_text(value: float) -> str:
    """Return the number with its sign to three digits; zero has no sign."""
    text = number_text(value, 3)
    return f"+{text}" if value > 0 else text


def ratio_text(effect: float) -> str:
    """Return the hazard ratio of an effect on the log hazard."""
    return number_text(math.exp(min(effect, 700.0)), 3)


def whole_text(count: float) -> str:
    """Return a whole number with all its digits."""
    return number_text(float(count), 12)


def share_text(share: float) -> str:
    """Return a share as whole per cent."""
    return f"{100 * share:.0f} %"


def no_formula(text: str) -> str:
    """Return a cell with an apostrophe before it where a spreadsheet would run it; a number is none that it runs."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) and number_in(text) is None else text


def count_text(count: int, noun: str) -> str:
    """Return "1 row" or "12 rows"."""
    return f"{whole_text(count)} {noun}{'' if count == 1 else 's'}"


def pair_text(one: str, other: str) -> str:
    """Return what belongs to two columns, their names or values, as one text."""
    return f"{one}{TIMES}{other}"


def date_text(days: float) -> str:
    """Return the ISO date of days since 1970-01-01."""
    if not abs(days) < MOST_DAYS:
        return f"day {number_text(days)}"
    return (EPOCH + timedelta(days=days)).date().isoformat()


def value_text(value: float, kind: str, digits: int = 5) -> str:
    """Return a value of a column of some kind: the date of a day, else a number."""
    return date_text(value) if kind == "date" else number_text(value, digits)


def shorten(name: str, length: int = 26) -> str:
    """Return a name no wider than ``length`` small letters, its middle replaced by an ellipsis if it is wider.

    Both ends stay, since long names of one table often share the beginning.
    """
    name = " ".join("".join(letter if letter.isprintable() else " " for letter in name).split()) or "(no name)"
    if sum(map(_width, name)) <= length:
        return name
    tail = (length - 1) // 3
    head = _first(name, length - 1 - tail)
    return f"{head.rstrip()}{ELLIPSIS}{_first(reversed(name), tail)[::-1].lstrip()}"


def abbreviations(names: Sequence[str], length: int = 26) -> list[str]:
    """Return the names no wider than ``length`` small letters, different ones with different abbreviations.

    Names that `shorten` would make the same lose what they have in common instead; where their differences do not fit
    either, they are numbered.
    """
    found = [shorten(name, length) for name in names]
    for same in _alike(names, found):
        start = _to_word(_shared([names[index] for index in same]))
        end = _to_word(_shared([names[index][start:][::-1] for index in same]))
        for index in same:
            name = names[index]
            middle = name[start : len(name) - end]
            room = length - sum(map(_width, middle)) - 2
            head = _first(name[:start], max(room, 0.0))
            after = ELLIPSIS if end else ""
            cut = head if head == name[:start] else f"{head.rstrip()}{ELLIPSIS}"
            found[index] = f"{cut}{middle}{after}" if room >= 0 else shorten(f"{ELLIPSIS}{middle}{after}", length)
    for same in _alike(names, found):
        numbered = {name: place for place, name in enumerate(dict.fromkeys(names[index] for index in same), start=1)}
        for index in same:
            text = f" ({numbered[names[index]]})"
            found[index] = f"{shorten(names[index], length - len(text))}{text}"
    return found


def _shared(names: Sequence[str]) -> str:
    """Return the letters with which all names begin."""
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in same)


def _to_word(shared: str) -> int:
    """Return how much of a shared beginning may go so that the word after it stays whole; all where it is one word."""
    breaks = [place for place, letter in enumerate(shared, start=1) if not letter.isalnum()]
    return breaks[-1] if breaks else len(shared)


def _alike(names: Sequence[str], texts: Sequence[str]) -> list[list[int]]:
    """Return the indices of different names that have the same text, one list for each such text."""
    groups: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        groups.setdefault(text, []).append(index)
    return [same for same in groups.values() if len({names[index] for index in same}) > 1]


def output_names(task: Task, response: Response, classes: Sequence[object], outputs: int) -> tuple[str, ...]:
    """Return the name of each output: the class whose score it is, or y."""
    if task == "classification":
        return tuple(str(name) for name in (classes[1:] if response == "binary" else classes))
    return ("y",) if outputs == 1 else tuple(f"y{index}" for index in range(outputs))


LOG_ODDS = "log odds of "


def score_units(task: Task, response: Response, link: str, outputs: Sequence[str], target: str | None = None) -> str:
    """Return the units of scores and effects, with the name of the target where it has one."""
    if task == "survival":
        return SURVIVAL_UNITS
    if task == "classification":
        if response == "binary":
            return LOG_ODDS + _class_text(outputs[0], target)
        if response == "labels":
            return "log odds of each label"
        return "log odds of each class against the average of all classes"
    if link == "identity":
        return f"units of {target or 'y'}"
    return f"{link} of the expected {target or 'y'}"


def response_units(task: Task, link: str, outputs: Sequence[str], target: str | None = None) -> str:
    """Return the units of predictions, which are scores through the inverse link."""
    if task == "survival":
        return "hazard ratio"
    if task == "classification":
        return f"probability of {_class_text(outputs[0], target)}" if len(outputs) == 1 else "probability of each class"
    return f"units of {target or 'y'}" if link == "identity" else f"expected {target or 'y'}"


def prediction_label(units: str, outputs: Sequence[str]) -> str:
    """Return what a row's prediction is called: the probability of its class, where effects are log odds of one."""
    of_one = len(outputs) == 1 and units.startswith(LOG_ODDS)
    return f"probability of {units.removeprefix(LOG_ODDS)}" if of_one else "prediction"


def _class_text(name: str, target: str | None) -> str:
    return f"{target} = {name!r}" if target else repr(name)


def _first(letters: Iterable[str], room: float) -> str:
    """Return the first letters that fit into the room."""
    taken = ""
    for letter in letters:
        room -= _width(letter)
        if room < 0:
            break
        taken += letter
    return taken


def _width(letter: str) -> float:
    """Return about how many small letters one letter is wide."""
    if letter in _WIDE or east_asian_width(letter) in "WF":
        return 1.7
    return 1.2 if letter.isupper() else 1.0


@dataclass(frozen=True, slots=True)
class FindingTable:
    """A table of text: its caption, its heads (columns,) and its rows (rows, columns); the first column is a name."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, caption: str, columns: Mapping[str, Sequence[str]]) -> Self:
        """Return the table of columns by their heads."""
        return cls(caption, tuple(columns), tuple(zip(*columns.values(), strict=True)))

    def __str__(self) -> str:
        """Return the table in lines, names to the left and all else to the right."""
        cells = [
            [cell if len(cell) <= WIDEST_CELL else cell[: WIDEST_CELL - 1] + "…" for cell in row] for row in self.rows
        ]
        widths = [max(len(row[column]) for row in (self.heads, *cells)) for column in range(len(self.heads))]
        lines = [
            "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(placed))
            for placed in (list(zip(row, widths, strict=True)) for row in (self.heads, *cells))
        ]
        return "\n".join([self.caption, *(f"  {line.rstrip()}" for line in lines)])


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found out: a title, one sentence in plain words, what to know besides, and tables."""

    title: str
    sentence: str
    tables: tuple[FindingTable, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the finding as text."""
        return "\n\n".join([f"{self.title}: {self.sentence}", *map(str, self.tables), *self.notes])


class Found(Protocol):
    """A result that can be shown beside an explanation: an audit, a comparison, a list of other models."""

    __slots__ = ()

    def finding(self) -> Finding:
        """Return the result in words and tables."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return to_plain(self)

    def __str__(self) -> str:
        """Return the finding as text."""
        return str(self.finding())
