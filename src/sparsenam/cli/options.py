"""Options that hold lists, read from one word."""

from __future__ import annotations

from sparsenam.errors import InputError, describe


def as_list(text: str | None) -> list[str]:
    """Return the parts between commas, blanks aside."""
    return [] if text is None else [part.strip() for part in text.split(",") if part.strip()]


def as_types(text: str | None) -> dict[str, str]:
    """Return kinds by column from ``zip=category,size=number``."""
    types: dict[str, str] = {}
    for part in as_list(text):
        name, equals, kind = part.rpartition("=")
        if not equals or not name.strip() or not kind.strip():
            expected = "column=kind, with commas between"
            raise InputError(describe("--types", expected, repr(part), "write for example zip=category"))
        types[name.strip()] = kind.strip()
    return types


def as_rows(text: str, rows: int) -> list[int]:
    """Return the numbers of rows, from 0, of a table with so many."""
    places: list[int] = []
    for part in as_list(text):
        if not part.isdigit() or int(part) >= rows:
            expected = f"numbers from 0 to {rows - 1}, with commas between"
            raise InputError(describe("--rows", expected, repr(part), "correct the number"))
        places.append(int(part))
    if not places:
        raise InputError(describe("--rows", "at least one number", repr(text), "write for example 0,5"))
    return places


def as_alpha(text: str) -> float | None:
    """Return the weight of the penalty, None for ``auto``."""
    if text == "auto":
        return None
    try:
        alpha = float(text)
    except ValueError:
        alpha = -1.0
    if not 0 <= alpha < float("inf"):
        raise InputError(describe("--alpha", "auto or a number of at least 0", repr(text), "choose another"))
    return alpha
