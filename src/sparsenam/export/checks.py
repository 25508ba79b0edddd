"""Checks of what a file says, before it is believed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from sparsenam.export.problems import RefusalError


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


def as_texts(value: Any, got: str) -> list[str]:
    """Return the value once it is a list of texts."""
    texts = as_list(value, got)
    require(all(isinstance(text, str) for text in texts), got)
    return cast("list[str]", texts)


def as_whole_numbers(value: Any, got: str, lowest: int = 0) -> list[int]:
    """Return the value once it is a list of whole numbers, none below the lowest."""
    numbers = as_list(value, got)
    require(all(type(number) is int and number >= lowest for number in numbers), got)
    return cast("list[int]", numbers)
