"""Plain data: what JSON can hold, and nothing else; records of it as a pandas table, where pandas is installed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np

from sparsenam.errors import InputError, describe

SCHEMA = 2  # of the JSON of explanations
Numbers = tuple[float, ...]


class DataFrame(Protocol):
    """The little of a pandas table that is promised."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def to_csv(self, path: str, /) -> object: ...


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


def to_json(data: Mapping[str, Any], indent: int | None = None) -> str:
    """Return plain data as JSON text, the same text for the same data."""
    return json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False)


def numbers(values: Iterable[float | None]) -> Numbers:
    """Return values as Python floats; None, JSON's way to write what is no number, is NaN."""
    return tuple(math.nan if value is None else float(value) for value in values)


def rows_of_numbers(rows: Iterable[Iterable[float | None]]) -> tuple[Numbers, ...]:
    """Return a matrix as Python floats, row by row."""
    return tuple(numbers(row) for row in rows)


def check_schema(data: Mapping[str, Any], remedy: str) -> None:
    """Raise unless the data were written in the format that is read here."""
    if data.get("schema") != SCHEMA:
        got = repr(data.get("schema"))
        raise InputError(describe("schema of the explanation", f"schema {SCHEMA}", got, remedy))


def not_written_by(name: str, error: Exception) -> InputError:
    """Return the error about data that ``to_dict`` of a class cannot have written."""
    got, remedy = f"data that say {type(error).__name__}: {error}", "explain the model again"
    return InputError(describe("explanation", f"what {name}.to_dict() returns", got, remedy))


def as_frame(records: Sequence[dict[str, Any]]) -> DataFrame:
    """Return the records as a pandas table; without pandas, an error that says what to do."""
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        remedy = "install pandas, or use to_records(), which needs nothing"
        raise InputError(describe("to_frame", "pandas", "no such package", remedy)) from error
    return cast(DataFrame, pandas.DataFrame.from_records(list(records)))
