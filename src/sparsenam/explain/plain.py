"""Plain data: what JSON can hold, and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

SCHEMA = 1
Numbers = tuple[float, ...]


def plain(value: object) -> Any:
    """Return numbers, texts, truth values, None, lists and dictionaries; what is no finite number is None.

    Other objects, such as a penalty among the settings, become their text.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return plain(cast("object", value.tolist()))
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(own) for key, own in cast("Mapping[object, object]", value).items()}
    if isinstance(value, Sequence):
        return [plain(own) for own in cast("Sequence[object]", value)]
    return repr(value)


def to_json(data: Mapping[str, Any], indent: int | None = None) -> str:
    """Return plain data as JSON text, the same text for the same data."""
    return json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False)


def numbers(values: Iterable[float]) -> Numbers:
    """Return values as Python's own numbers."""
    return tuple(float(value) for value in values)


def rows_of_numbers(rows: Iterable[Iterable[float]]) -> tuple[Numbers, ...]:
    """Return a matrix as Python's own numbers, row by row."""
    return tuple(numbers(row) for row in rows)
