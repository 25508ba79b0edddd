"""Text that stands for something else (a missing cell, a number, a date), and names listed in messages."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta

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
        """Return the message."""
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
