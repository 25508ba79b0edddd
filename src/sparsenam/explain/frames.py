"""Records as a pandas table, where pandas is there."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from sparsenam.errors import InputError, describe


class DataFrame(Protocol):
    """The little of a pandas table that is promised."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def to_csv(self, path: str, /) -> object: ...


def as_frame(records: Sequence[dict[str, Any]]) -> DataFrame:
    """Return the records as a pandas table; without pandas, an error that says what to do."""
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        remedy = "install pandas, or use to_records(), which needs nothing"
        raise InputError(describe("to_frame", "pandas", "no such package", remedy)) from error
    return cast(DataFrame, pandas.DataFrame.from_records(list(records)))
