"""Plain data: what JSON can hold, from arrays and dataclasses and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

Numbers = tuple[float, ...]


def plain_data(value: object) -> Any:
    """Return numbers, texts, truth values, None, lists and dictionaries; what is no finite number is None.

    Other objects, such as a penalty among the settings, become their text.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return plain_data(cast("object", value.tolist()))
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain_data(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, Sequence):
        return [plain_data(item) for item in cast("Sequence[object]", value)]
    return repr(value)


def read_plain(kind: Any, data: Any) -> Any:
    """Return the object of an annotated type that ``plain_data(asdict(...))`` wrote, or raise."""
    if is_dataclass(kind):
        later = {each.name for each in fields(kind) if each.default is not MISSING} - set(data)  # of an older file
        hints = {name: hint for name, hint in _hints(kind).items() if name not in later}
        return cast("Any", kind)(**{name: read_plain(hint, data[name]) for name, hint in hints.items()})
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (UnionType, Union):
        if type(None) not in parts:
            return read_plain(next((part for part in parts if isinstance(data, part)), parts[0]), data)
        return None if data is None else read_plain(parts[0], data)
    if origin is Literal:
        if data not in parts:
            raise ValueError(f"{data!r} for one of {parts}")
        return data
    if kind is float:  # JSON has no NaN
        return math.nan if data is None else float(data)
    if not isinstance(data, (list, tuple) if origin is tuple else origin or kind):
        raise TypeError(f"{type(data).__name__} for {kind}")
    if origin is dict and parts[1] is not Any:
        return {str(key): read_plain(parts[1], item) for key, item in data.items()}
    return tuple(read_plain(parts[0], item) for item in data) if origin is tuple else data


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def numbers(values: Iterable[float]) -> Numbers:
    """Return values as Python floats."""
    return tuple(float(value) for value in values)


def rows_of_numbers(rows: Iterable[Iterable[float]]) -> tuple[Numbers, ...]:
    """Return a matrix as Python floats, row by row."""
    return tuple(numbers(row) for row in rows)
