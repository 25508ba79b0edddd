"""Words on figures: names as they are, made short, never read as formulas."""

from __future__ import annotations

from collections.abc import Iterable
from unicodedata import east_asian_width

_WIDE = frozenset("MWmw@%")


def shorten(name: str, length: int = 26) -> str:
    """Return a name no wider than ``length`` small letters, its middle replaced by an ellipsis if it is wider.

    Both ends stay, since long names of one table often share the beginning.
    """
    name = " ".join("".join(letter if letter.isprintable() else " " for letter in name).split()) or "(no name)"
    if sum(map(_width, name)) <= length:
        return name
    tail = (length - 1) // 3
    head = _first(name, length - 1 - tail)
    return f"{head.rstrip()}…{_first(reversed(name), tail)[::-1].lstrip()}"


def plain(name: str, length: int = 26) -> str:
    """Return a short name that matplotlib draws as it stands.

    A dollar sign would begin a formula, and an underscore at the beginning would hide the name from a legend.
    """
    words = shorten(name, length).replace("$", r"\$")
    return f" {words}" if words.startswith("_") else words


def wrapped(name: str, length: int, lines: int = 2) -> str:
    """Return a name on up to so many lines of ``length`` small letters, its middle cut out if that is too short."""
    rest = shorten(name, lines * length - lines)
    found: list[str] = []
    while rest and len(found) < lines - 1 and sum(map(_width, rest)) > length:
        line = _first(rest, length)
        cut = line.rfind(" ") + 1
        line = line[:cut] if cut > length // 2 else line  # between words where that leaves no short line
        found.append(line)
        rest = rest[len(line) :]
    return "\n".join(plain(line, length + 2) for line in (*found, rest))


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
