"""Numbers of arrays as tuples, which dataclasses hold and compare."""

from __future__ import annotations

from collections.abc import Iterable

from sparsenam.codec import MaybeNaN

Numbers = tuple[MaybeNaN, ...]


def numbers(values: Iterable[float]) -> Numbers:
    """Return values as Python floats."""
    return tuple(float(value) for value in values)


def rows_of_numbers(rows: Iterable[Iterable[float]]) -> tuple[Numbers, ...]:
    """Return a matrix as Python floats, row by row."""
    return tuple(numbers(row) for row in rows)
