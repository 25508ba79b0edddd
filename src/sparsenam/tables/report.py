"""What was done with each column of a table, as records and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparsenam.tables.columns import Column


def tabulate(columns: Sequence[Column], terms: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Return one record for each column: its kind, missing cells, levels, terms, and what was done in words."""
    return [
        {
            "column": column.name,
            "kind": column.kind,
            "missing": column.n_missing,
            "levels": list(column.levels),
            "pooled": list(column.pooled),
            "terms": list(own),
            "words": column.words,
        }
        for column, own in zip(columns, terms, strict=True)
    ]


def describe_columns(table: Sequence[dict[str, Any]], n_terms: int) -> str:
    """Return the records as lines of text, names and kinds aligned."""
    width = max((len(row["column"]) for row in table), default=0)
    kinds = max((len(row["kind"]) for row in table), default=0)
    lines = [f"{row['column']:<{width}}  {row['kind']:<{kinds}}  {row['words']}" for row in table]
    return "\n".join([f"{len(table)} column(s) became {n_terms} term(s)", *lines])
