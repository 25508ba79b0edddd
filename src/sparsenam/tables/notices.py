"""Warnings and errors that only a table can cause."""

from __future__ import annotations

from sparsenam.errors import InputError


class UnseenLevelWarning(UserWarning):
    """A category holds levels that the fit never saw; they contribute nothing."""


class UnseenMissingWarning(UserWarning):
    """A column misses cells now and missed none during the fit; they contribute nothing."""


class OddCellWarning(UserWarning):
    """Nearly all cells of a text column read as numbers or dates, and a few do not."""


class CellTypeError(InputError, TypeError):
    """A column holds cells that no single kind describes."""


def listed(names: list[str], most: int = 5) -> str:
    """Return the first few names, quoted, with … for the rest."""
    return ", ".join(repr(name) for name in names[:most]) + (" …" if len(names) > most else "")
