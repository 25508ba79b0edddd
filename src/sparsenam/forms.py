"""What the plain data and arrays of a file must be: declared as forms, checked in one place.

A form is a function of a value and of where the value is; it raises `RefusalError` for anything else than it declares.
Sizes are never believed: a form looks at what was read, and makes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Form = Callable[[Any, str], None]

LARGEST = 2**53  # of a whole number that a file may hold
LONGEST = 1_000_000  # characters of a text, such as the words of a long list of columns
FARTHEST = 1e300  # of a number that the library computes with: sums and squares of differences stay finite below


class RefusalError(Exception):
    """What was found in a file instead of what should be there; whoever knows the path makes a sentence of it."""


def require(condition: bool, got: str) -> None:
    """Raise unless a condition on the content of a file holds."""
    if not condition:
        raise RefusalError(got)


def as_record(value: Any, keys: Iterable[str], got: str) -> dict[str, Any]:
    """Return the value once it is a record with exactly these keys."""
    require(isinstance(value, dict), got)
    record = cast("dict[str, Any]", value)
    require(set(record) == set(keys), got)
    return record


def as_list(value: Any, got: str) -> list[Any]:
    """Return the value once it is a list."""
    require(isinstance(value, list), got)
    return cast("list[Any]", value)


def as_whole_numbers(value: Any, got: str, lowest: int = 0) -> list[int]:
    """Return the value once it is a list of whole numbers, none below the lowest."""
    numbers = as_list(value, got)
    require(all(type(number) is int and number >= lowest for number in numbers), got)
    return cast("list[int]", numbers)


def damaged(where: str) -> RefusalError:
    """Return the refusal of what stands in one place of a document."""
    return RefusalError(f"a damaged record ({where[:80]})")


def anything(value: Any, where: str) -> None:
    """Take any value; who reads it checks it."""


def truth(value: Any, where: str) -> None:
    """Take true and false."""
    if type(value) is not bool:
        raise damaged(where)


def number(lowest: float = -math.inf, highest: float = math.inf, *, fraction: bool = False) -> Form:
    """Return the form of a finite number within bounds; ``fraction`` asks for one that was written as a fraction."""

    def check(value: Any, where: str) -> None:
        kind = cast("type[object]", type(value))
        right = kind is float or (kind is int and not fraction and abs(value) <= LARGEST)
        if not (right and math.isfinite(value) and lowest <= value <= highest):
            raise damaged(where)

    return check


def infinite(value: Any, where: str) -> None:
    """Take +∞."""
    if type(value) is not float or value != math.inf:
        raise damaged(where)


def either(*forms: Form) -> Form:
    """Return the form of what is of one of some forms."""

    def check(value: Any, where: str) -> None:
        for form in forms:
            try:
                return form(value, where)
            except RefusalError:
                continue
        raise damaged(where)

    return check


def whole(lowest: int = 0, highest: int = LARGEST) -> Form:
    """Return the form of a whole number within bounds."""

    def check(value: Any, where: str) -> None:
        if type(value) is not int or not lowest <= value <= highest:
            raise damaged(where)

    return check


def text(longest: int = LONGEST) -> Form:
    """Return the form of a text."""

    def check(value: Any, where: str) -> None:
        if type(value) is not str or len(value) > longest:
            raise damaged(where)

    return check


def word(*words: str) -> Form:
    """Return the form of one of some words."""

    def check(value: Any, where: str) -> None:
        if type(value) is not str or value not in words:
            raise damaged(where)

    return check


def maybe(form: Form) -> Form:
    """Return the form of what may be absent."""

    def check(value: Any, where: str) -> None:
        if value is not None:
            form(value, where)

    return check


def many(form: Form, least: int = 0, most: int | None = None) -> Form:
    """Return the form of a list."""

    def check(value: Any, where: str) -> None:
        if type(value) is not list:
            raise damaged(where)
        items = cast("list[Any]", value)
        if len(items) < least or (most is not None and len(items) > most):
            raise damaged(where)
        for item in items:
            form(item, where)

    return check


def each(*forms: Form) -> Form:
    """Return the form of a list whose items have these forms, one after the other."""

    def check(value: Any, where: str) -> None:
        if type(value) is not list or len(cast("list[Any]", value)) != len(forms):
            raise damaged(where)
        for form, item in zip(forms, cast("list[Any]", value), strict=True):
            form(item, where)

    return check


def by_name(form: Form) -> Form:
    """Return the form of a mapping from texts."""

    def check(value: Any, where: str) -> None:
        if type(value) is not dict:
            raise damaged(where)
        for name, item in cast("dict[str, Any]", value).items():
            form(item, f"{where}, {name[:40]!r}")

    return check


def record(fields: Mapping[str, Form], optional: Iterable[str] = ()) -> Form:
    """Return the form of a record with these fields and no others."""
    needed = set(fields) - set(optional)

    def check(value: Any, where: str) -> None:
        if type(value) is not dict:
            raise damaged(where)
        entries = cast("dict[str, Any]", value)
        if not needed <= set(entries) <= set(fields):
            raise damaged(where)
        for name, item in entries.items():
            fields[name](item, f"{where} {name}" if where else name)

    return check


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """What an array must be: its type, its shape (None for any length), its bounds, and whether NaN may be in it."""

    shape: tuple[int | None, ...] | None = None
    kinds: tuple[str, ...] = ("float64",)
    lowest: float = -math.inf
    highest: float = math.inf
    finite: bool = True

    def check(self, array: NDArray[Any], where: str) -> None:
        """Raise for another array."""
        fits = self.shape is None or (
            array.ndim == len(self.shape)
            and all(want is None or want == got for want, got in zip(self.shape, array.shape, strict=True))
        )
        if not fits or array.dtype.name not in self.kinds:
            raise RefusalError(f"an array {where[:80]!r} of another shape or type")
        if array.dtype.kind == "f" and self.finite and not bool(np.isfinite(array).all()):
            raise RefusalError(f"numbers that are not finite in the array {where[:80]!r}")
        if array.size and (float(np.nanmin(array)) < self.lowest or float(np.nanmax(array)) > self.highest):
            raise RefusalError(f"numbers out of range in the array {where[:80]!r}")
