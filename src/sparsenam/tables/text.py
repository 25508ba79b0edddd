"""Text that stands for something else: missing cells, numbers and dates in their ways of writing; lists of names.

A column of text has one way of writing, found from all its cells: 1,234.5 or 1.234,50 €, 12 %, 12/31/2024 or
31.12.2024. It is one that no cell contradicts. Where two ways are left that give different numbers ("1,234" alone is
1234 or 1.234), the column is in doubt, and the fit says which was taken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import takewhile
from typing import Literal, get_args

from sparsenam.errors import RowError

MARKERS = frozenset(("", "?", "NA", "N/A", "na", "n/a", "NaN", "nan", "null", "NULL", "None", "-"))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ONE_DAY = timedelta(days=1)
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
LEADING_ZERO = re.compile(r"[+-]?0\d")


def is_marker(text: str) -> bool:
    """Return whether the text says that the cell is missing, blanks aside."""
    return text.strip() in MARKERS


def number_in(text: str) -> float | None:
    """Return the number that the text writes, or None."""
    if "_" in text:  # Python reads 1_000 as a number, tables do not write it
        return None
    try:
        return float(text)
    except ValueError:
        return None


def date_in(text: str) -> float | None:
    """Return the days since 1970-01-01 of an ISO 8601 date, with or without a time; or None."""
    if ISO_DATE.match(text.strip()) is None:
        return None
    try:
        return days_since_epoch(datetime.fromisoformat(text.strip()))
    except ValueError:
        return None


def days_since_epoch(moment: date) -> float:
    """Return days since 1970-01-01 in universal time; a moment without a zone is taken to be in it."""
    if not isinstance(moment, datetime):
        return float(moment.toordinal() - EPOCH.toordinal())
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (zoned - EPOCH) / ONE_DAY


def has_leading_zero(text: str) -> bool:
    """Return whether reading the text as a number would lose a zero in front, as in a postal code."""
    return LEADING_ZERO.match(text.strip()) is not None


def number_key(value: float) -> str:
    """Return the level's name of a number: 1 and 1.0 are both "1"."""
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(float(value))


def date_key(days: float) -> str:
    """Return the level's name of a moment, its date alone at midnight."""
    moment = (EPOCH + timedelta(days=days)).replace(tzinfo=None)
    return moment.isoformat() if moment.time() != datetime.min.time() else moment.date().isoformat()


class UnseenLevelWarning(UserWarning):
    """A category holds levels that the fit never saw; they contribute nothing."""


class UnseenMissingWarning(UserWarning):
    """A column misses cells now and missed none during the fit; they contribute nothing."""


class UnseenColumnWarning(UnseenLevelWarning):
    """A category holds no level at all that the fit saw, so that the ``column`` contributes nothing."""

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message, column)
        self.column = column

    def __str__(self) -> str:
        return str(self.args[0])


class DoubtfulCellWarning(UserWarning):
    """Cells of text columns read as different numbers or dates in two ways of writing, and one was taken."""


class CellTypeError(RowError, TypeError):
    """A column holds cells that no single kind describes."""


def listed(names: list[str], most: int = 5) -> str:
    """Return the first few names, quoted, with … for the rest."""
    return ", ".join(repr(name) for name in names[:most]) + (" …" if len(names) > most else "")


def numbered(names: list[str]) -> list[str]:
    """Return the names, each once: of equal ones the later have a number, as in "a × b (2)"."""
    given, result, last = set(names), dict[str, None](), dict[str, int]()
    for name in names:
        candidate, number = name, last.get(name, 1)  # an equal name before this one took all numbers up to here
        while candidate in result or (number > 1 and candidate in given):
            number += 1
            candidate = f"{name} ({number})"
        result[candidate], last[name] = None, number
    return list(result)


Writing = Literal["plain", "point", "comma", "point %", "comma %", "month first", "day first"]
WRITINGS: tuple[Writing, ...] = get_args(Writing)
Said = Literal["decimal comma", "decimal point", "day first", "month first"]
# what a user may say of a column whose cells leave a doubt
SAID: dict[Said, tuple[Writing, ...]] = {
    "decimal comma": ("comma", "comma %"),
    "decimal point": ("point", "point %"),
    "day first": ("day first",),
    "month first": ("month first",),
}
SHAPES: dict[Writing, str] = {
    "plain": "numbers",
    "point": "numbers written as 1,234.5",
    "comma": "numbers written as 1.234,5",
    "point %": "percentages written as 12.5 %",
    "comma %": "percentages written as 12,5 %",
    "month first": "dates written as 12/31/2024",
    "day first": "dates written as 31/12/2024",
}
MONEY = r"(?:US\$|R\$|[$€£¥₹₽₩₺₴]|\b(?:USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN|CZK|BRL|MXN|ZAR)\b)"
BLANK = "[ \u00a0\u202f]"  # also those that do not break a line


def _pattern(thousands: str, decimal: str) -> re.Pattern[str]:
    whole = rf"[1-9][0-9]{{0,2}}(?P<mark>{thousands}|['’]|{BLANK})[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*|0|[1-9][0-9]*"
    number = rf"(?P<whole>{whole})?(?:{decimal}(?P<part>[0-9]*))?(?P<power>[eE][+-]?[0-9]{{1,3}})?"
    sign = rf"(?P<minus>[+\-−])?{BLANK}*"
    rest = rf"{BLANK}*{MONEY}?{BLANK}*(?P<percent>%)?{BLANK}*(?P<after>\))?"
    return re.compile(rf"(?P<before>\()?{BLANK}*{sign}{MONEY}?{BLANK}*(?P<inner>[+\-−])?{number}{rest}")


PATTERNS = {"point": _pattern(",", r"\."), "comma": _pattern(r"\.", ",")}
DATE = re.compile(r"([0-9]{1,2})([/.\-])([0-9]{1,2})\2([0-9]{4}|[0-9]{2})(?:,?[ T]+(.+))?")
YEAR_FIRST = re.compile(r"([0-9]{4})([/.])([0-9]{1,2})\2([0-9]{1,2})(?:,?[ T]+(.+))?")
TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(\.[0-9]{1,6})?)? ?([AaPp][Mm])?")
PIVOT = 69  # 68 is 2068 and 69 is 1969, as POSIX has it


def number_written(text: str, decimal: Literal["point", "comma"], is_percent: bool) -> float | None:
    """Return the number that a text writes in one way, with a currency and brackets for a minus aside; or None."""
    found = PATTERNS[decimal].fullmatch(text.strip())
    if found is None or bool(found["percent"]) != is_percent or bool(found["before"]) != bool(found["after"]):
        return None
    minus, part = [mark for mark in (found["minus"], found["inner"], found["before"]) if mark], found["part"] or ""
    if not (found["whole"] or part) or len(minus) > 1:
        return None
    whole = re.sub("[^0-9]", "", found["whole"] or "0")
    number = float(f"{whole}.{part or '0'}{found['power'] or ''}")
    return number if not minus or minus[0] == "+" else -number


def date_written(text: str, month_first: bool) -> float | None:
    """Return the days since 1970-01-01 of a date written with the year last, or first, or in ISO 8601; or None."""
    text = text.strip()
    year_first = YEAR_FIRST.fullmatch(text)
    found = year_first or DATE.fullmatch(text)
    if found is None:
        return date_in(text)
    if year_first is not None:
        year, _, month, day, clock = year_first.groups()
    else:
        day, mark, month, year, clock = found.groups()
        if (mark == "." and month_first) or (len(year) == 2 and mark != "/"):
            return None
        day, month = (month, day) if month_first else (day, month)
    century = 0 if len(year) == 4 else 2000 if int(year) < PIVOT else 1900
    time = TIME.fullmatch((clock or "0:00").strip())
    if time is None:
        return None
    hour, minute, second, fraction, half = (part or "" for part in time.groups())
    if half and not 1 <= int(hour) <= 12:
        return None
    hours = int(hour) % 12 + 12 * (half.lower() == "pm") if half else int(hour)
    parts = (int(month), int(day), hours, int(minute), int(second or 0), int(fraction[1:].ljust(6, "0")))
    try:
        return days_since_epoch(datetime(century + int(year), *parts, tzinfo=UTC))
    except ValueError:
        return None


Parser = Callable[[str], float | None]
READERS: tuple[tuple[Literal["number", "date"], Writing, Parser], ...] = (
    ("number", "plain", number_in),
    ("number", "point", partial(number_written, decimal="point", is_percent=False)),
    ("number", "comma", partial(number_written, decimal="comma", is_percent=False)),
    ("number", "point %", partial(number_written, decimal="point", is_percent=True)),
    ("number", "comma %", partial(number_written, decimal="comma", is_percent=True)),
    ("date", "plain", date_in),
    ("date", "month first", partial(date_written, month_first=True)),
    ("date", "day first", partial(date_written, month_first=False)),
)
ALIKE: tuple[tuple[Writing, Writing], ...] = (("point", "comma"), ("point %", "comma %"), ("month first", "day first"))
OTHERS: dict[Writing, Writing] = {one: other for both in ALIKE for one, other in (both, both[::-1])}


@dataclass(frozen=True, slots=True)
class WritingFound:
    """What all cells of a column are and how they are written; ``doubt`` is one that reads differently otherwise."""

    kind: Literal["number", "date"]
    writing: Writing
    doubt: str = ""


def find_writing(values: Iterable[str], prefers_comma: bool = False) -> WritingFound | None:
    """Return how different texts (k,) write numbers or dates, None where some text is neither in any one way.

    Where cells leave it open, numbers have a decimal point unless the rest of the table ``prefers_comma``, and dates
    begin with the month.
    """
    texts = list(values)
    if not texts:
        return None
    for kind in ("number", "date"):
        read: dict[Writing, list[float | None]] = {}
        for each, way, parse in READERS:
            numbers = list(takewhile(lambda number: number is not None, map(parse, texts))) if each == kind else []
            if len(numbers) == len(texts):
                read[way] = numbers
        if not read:
            continue
        way = next(iter(read))
        if way != "plain" and prefers_comma and OTHERS[way] in read and OTHERS[way].startswith("comma"):
            way = OTHERS[way]
        other = read.get(OTHERS.get(way, way), read[way])
        differs = (text for text, one, two in zip(texts, read[way], other, strict=True) if one != two)
        return WritingFound(kind, way, "" if way == "plain" else next(differs, ""))
    return None


def prefers_comma(columns: Iterable[Iterable[str]]) -> bool:
    """Return whether some columns, each of different texts, have decimal commas beyond doubt, and none a point."""
    marks = {way.writing.removesuffix(" %") for way in map(find_writing, columns) if way is not None and not way.doubt}
    return "comma" in marks and "point" not in marks


def likely(values: Iterable[str], among: Iterable[Writing] = WRITINGS) -> tuple[WritingFound | None, list[str]]:
    """Return the way of writing in which most of different texts (k,) read, and those that do not; None for none."""
    texts, best, rest, allowed = list(values), None, list(values), set(among)
    for kind, way, parse in READERS:
        odd = [text for text in texts if parse(text) is None or (kind == "number" and has_leading_zero(text))]
        if way in allowed and len(odd) < len(rest):
            best, rest = WritingFound(kind, way), odd
    return best, rest


def parser_of(writing: Writing, *, is_date: bool) -> Parser:
    """Return what reads the cells of a column that is written so."""
    parsers = {way: parse for kind, way, parse in READERS if (kind == "date") == is_date}
    return parsers.get(writing, parsers["plain"])
