"""One column as it was read, before anyone decides what it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparsenam.tables.text import is_marker

Vector = NDArray[np.float64]
Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]
Stored = Literal["number", "truth", "date", "duration", "text", "levels", "ordered"]
AS_NUMBERS = ("number", "truth", "date", "duration")


def _no_numbers() -> Vector:
    return np.empty(0)


def _no_codes() -> Codes:
    return np.empty(0, dtype=np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of one column.

    ``numbers`` (rows,), NaN where missing, for numbers, truth values (0, 1), dates (days) and durations
    (seconds); ``codes`` (rows,) into ``values``, -1 where missing, for text, for levels declared by the table
    and for levels declared in order. ``markers`` are the texts that were taken as missing.
    """

    name: str
    stored: Stored
    numbers: Vector = field(default_factory=_no_numbers)
    codes: Codes = field(default_factory=_no_codes)
    values: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()

    @property
    def missing(self) -> Mask:
        """Return which cells are missing (rows,)."""
        return np.isnan(self.numbers) if self.stored in AS_NUMBERS else self.codes < 0


def coded(name: str, stored: Literal["text", "levels"], texts: list[str | None]) -> Cells:
    """Return text as codes into its distinct values; None and the markers of missing cells are -1."""
    distinct = list(dict.fromkeys(texts))
    places = {text: place for place, text in enumerate(distinct)}
    found = np.fromiter(map(places.__getitem__, texts), dtype=np.intp, count=len(texts))
    markers = [text for text in distinct if text is not None and is_marker(text)]
    values = tuple(text for text in distinct if text is not None and not is_marker(text))
    renumbered = {text: code for code, text in enumerate(values)}
    new_codes = np.array([renumbered.get(text or "", -1) for text in distinct], dtype=np.intp)
    return Cells(name, stored, codes=new_codes[found], values=values, markers=tuple(sorted(markers)))


def in_order(name: str, texts: list[str | None], levels: list[str]) -> Cells:
    """Return text as ranks among the levels that the table declares."""
    ranks: dict[str | None, int] = {level: rank for rank, level in enumerate(levels)}
    codes = np.fromiter((ranks.get(text, -1) for text in texts), dtype=np.intp, count=len(texts))
    return Cells(name, "ordered", codes=codes, values=tuple(levels))
