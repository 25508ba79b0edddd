"""What was found out about a model, as a sentence and tables: printed, or a section of the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

WIDEST_CELL = 40  # characters of a cell that are printed
FINDINGS_SHOWN = 30  # columns in the table of a finding


@dataclass(frozen=True, slots=True)
class FindingTable:
    """A table of text: its caption, its heads (columns,) and its rows (rows, columns); the first column is a name."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        """Return the table in lines, names to the left and all else to the right."""
        cells = [
            [cell if len(cell) <= WIDEST_CELL else cell[: WIDEST_CELL - 1] + "…" for cell in row] for row in self.rows
        ]
        widths = [max(len(row[column]) for row in (self.heads, *cells)) for column in range(len(self.heads))]
        lines = [
            "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(placed))
            for placed in (list(zip(row, widths, strict=True)) for row in (self.heads, *cells))
        ]
        return "\n".join([self.caption, *(f"  {line.rstrip()}" for line in lines)])


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found out: a title, one sentence in plain words, what to know besides, and tables."""

    title: str
    sentence: str
    tables: tuple[FindingTable, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the finding as text."""
        return "\n\n".join([f"{self.title}: {self.sentence}", *map(str, self.tables), *self.notes])


class Found(Protocol):
    """A result that can be shown beside an explanation: an audit, a comparison, a list of other models."""

    def finding(self) -> Finding:
        """Return the result in words and tables."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data for JSON."""
        ...
