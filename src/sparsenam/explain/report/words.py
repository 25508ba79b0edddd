"""Numbers, dates and names in words that are short enough to read."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

MINUS, NOTHING, ELLIPSIS = "\u2212", "\u2013", "\u2026"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOST_DAYS = 700_000  # either side of 1970; Python's dates end soon after


def number_words(value: float | None, digits: int = 4) -> str:
    """Return the number to some significant digits, with a true minus; a dash where there is none."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    size = abs(value)
    whole = size < 1e12 and (size >= 10**digits or value == round(value))
    text = f"{value:,.0f}" if whole else f"{value:.{digits}g}"
    return text.replace(",", "\u202f").replace("-", MINUS)


def signed_words(value: float) -> str:
    """Return the number with its sign to three digits; what rounds to nothing has no sign."""
    text = number_words(value, 3)
    return f"+{text}" if value > 0 else text


def count_words(count: int, noun: str) -> str:
    """Return "1 row" or "12 rows"."""
    return f"{number_words(float(count), 7)} {noun}{'' if count == 1 else 's'}"


def date_words(days: float) -> str:
    """Return the ISO date of days since 1970-01-01."""
    if not abs(days) < MOST_DAYS:
        return f"day {number_words(days)}"
    return (EPOCH + timedelta(days=days)).date().isoformat()


def value_words(value: float, kind: str, digits: int = 5) -> str:
    """Return a cell's value as the reader wrote it: a date for dates, else a number."""
    return date_words(value) if kind == "date" else number_words(value, digits)


def shortened(text: str, most: int) -> str:
    """Return the text, its middle left out when longer than ``most`` characters: ends of names tell them apart."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 3
    return f"{text[: most - 1 - tail]}{ELLIPSIS}{text[-tail:]}"
