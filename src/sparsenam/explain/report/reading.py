"""Reading plain data of unknown worth: each function returns one type or says what was wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from sparsenam.errors import InputError, describe

REMEDY = "pass what Explanation.to_dict() or LocalExplanation.to_dict() returns"


def mapping_of(value: object, where: str) -> Mapping[str, object]:
    """Return the value as a mapping with text keys."""
    if not isinstance(value, Mapping):
        raise _wrong(where, "a mapping", value)
    return {str(key): item for key, item in cast("Mapping[object, object]", value).items()}


def items_of(value: object, where: str) -> Sequence[object]:
    """Return the value as a sequence, which text is not."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise _wrong(where, "a list", value)
    return cast("Sequence[object]", value)


def number_of(value: object, where: str) -> float:
    """Return the value as a float; None, JSON's word for not a number, is NaN."""
    if value is None:
        return math.nan
    try:
        return float(cast("float", value))
    except (TypeError, ValueError):
        raise _wrong(where, "a number", value) from None


def numbers_of(value: object, where: str) -> tuple[float, ...]:
    """Return the value as a tuple of floats; one bare number is a tuple of one."""
    if isinstance(value, int | float):
        return (float(value),)
    return tuple(number_of(item, where) for item in items_of(value, where))


def effects_of(value: object, outputs: int, where: str) -> tuple[float, ...]:
    """Return the value as one float for each output."""
    numbers = numbers_of(value, where)
    if len(numbers) != outputs:
        raise InputError(describe(where, f"{outputs} numbers, one for each output", f"{len(numbers)}", REMEDY))
    return numbers


def entry(source: Mapping[str, object], key: str, where: str) -> object:
    """Return the value under a key that must be there."""
    if key not in source:
        raise InputError(describe(where, f"the key '{key}'", f"the keys {sorted(source)}", REMEDY))
    return source[key]


def text_or_none(value: object) -> str | None:
    """Return the value as text, None kept."""
    return None if value is None else str(value)


def _wrong(where: str, expected: str, value: object) -> InputError:
    return InputError(describe(where, expected, type(value).__name__, REMEDY))
