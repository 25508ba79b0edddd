"""What a field may hold beyond its type: ranges, axes of arrays, other ways to store an object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import RefusalError

LARGEST_INTEGER = 2**53  # of a whole number in a file
LARGEST_NUMBER = 1e300  # of a number that the library computes with: sums and squares of differences stay finite below


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a number may be, or how many characters or items there may be; NaN and ∞ only where they are allowed."""

    lowest: float = -LARGEST_NUMBER
    highest: float = LARGEST_NUMBER
    nan: bool = False


@dataclass(frozen=True, slots=True)
class Array:
    """What an array may be: its number of axes, its range, and whether NaN and ∞ may be in it."""

    ndim: int
    lowest: float = -LARGEST_NUMBER
    highest: float = LARGEST_NUMBER
    finite: bool = True


@dataclass(frozen=True, slots=True)
class Via:
    """How an object of another class is stored: as a value of a hint, from which it is made again."""

    hint: Any
    write: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True, slots=True)
class Tags:
    """The names by which a union of dataclasses is told apart, in the field "type"."""

    names: tuple[str, ...]


Count = Annotated[int, Bounds(0, LARGEST_INTEGER)]
Positive = Annotated[int, Bounds(1, LARGEST_INTEGER)]
Size = Annotated[float, Bounds(0.0)]
Share = Annotated[float, Bounds(0.0, 1.0)]
MaybeNaN = Annotated[float, Bounds(nan=True)]  # NaN where it is not known, which is null in a document
Numbers = tuple[MaybeNaN, ...]  # of an array, in dataclasses that are compared
Vector = Annotated[NDArray[np.float64], Array(1)]
Matrix = Annotated[NDArray[np.float64], Array(2)]
Indices = Annotated[NDArray[np.intp], Array(1, 0, LARGEST_INTEGER)]


class DamageError(RefusalError):
    """A part of a document is not what its hint says."""

    def __init__(self, expected: str, value: object, got: str | None = None) -> None:
        shown = repr(value)[:200] if got is None else got
        super().__init__(expected, shown)
        self.expected, self.got = expected, shown if len(shown) <= 60 else f"{shown[:57]}…"
        self.way: list[str | int] = []

    @property
    def where(self) -> str:
        """The way to the part, as in ``columns[3].name``."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step[:40]}" for step in reversed(self.way))
        return "".join(steps).lstrip(".")

    def __str__(self) -> str:
        """Return where, what was expected, and what was got."""
        return f"a damaged record ({self.where[-120:]}: {self.expected} expected, got {self.got})"
