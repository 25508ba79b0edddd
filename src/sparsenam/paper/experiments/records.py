"""Records of cells: how they are found again, and the seed that a cell has for itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]  # JSON-able: numbers, strings, None, and lists and dicts of them
MOST_REPEATS = 1000


def cell_seed(cell: Record) -> int:
    """Return 1000 n + repeat, which no other n and repeat below 1000 have: cells share no data."""
    return MOST_REPEATS * int(cell["n"]) + int(cell["repeat"])


def picked(settings: Record, *names: str) -> Record:
    """Return the settings of these names."""
    return {name: settings[name] for name in names}


def values_by(records: Sequence[Record], name: str, **wanted: object) -> list[Any]:
    """Return one value of every record whose cell has the wanted entries, in the order of the cells' repeats."""
    chosen = [record for record in records if wanted.items() <= record["cell"].items()]
    return [record[name] for record in sorted(chosen, key=lambda record: record["cell"].get("repeat", 0))]


def sizes_done(records: Sequence[Record], sizes: Sequence[int], **wanted: object) -> list[int]:
    """Return the n for which some record with the wanted entries is there."""
    return [n for n in sizes if values_by(records, "cell", n=n, **wanted)]
