"""The rows that the paper prints."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import cast


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A method's row in the paper, the row of ours that means the same, and the numbers as printed."""

    method: str
    beside: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Published:
    """A table of the paper with notes on how to read it."""

    rows: tuple[PublishedRow, ...] = ()
    notes: tuple[str, ...] = ()


def published(name: str) -> Published:
    """Return the paper's table of a name; it has none for some."""
    text = files("sparsenam.paper").joinpath("published.toml").read_text(encoding="utf-8")
    words = tomllib.loads(text).get(name)
    if words is None:
        return Published()
    rows = [
        PublishedRow(
            str(row["method"]),
            str(row["beside"]),
            {key: float(cast(float, value)) for key, value in row.items() if key not in ("method", "beside")},
        )
        for row in cast("list[dict[str, object]]", words["rows"])
    ]
    return Published(tuple(rows), tuple(cast("list[str]", words["notes"])))
