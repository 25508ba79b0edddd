"""Cells of a table in words."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from sparsenam.tables import TableEncoder
from sparsenam.tables.cells import Cells
from sparsenam.tables.columns import Column, as_levels, as_numbers
from sparsenam.tables.frame import matched, read_table
from sparsenam.tables.text import date_key

MISSING = "missing"
EXACT_DIGITS = 1e6  # whole numbers below this are written out


@dataclass(frozen=True, slots=True, eq=False)
class CellTexts:
    """The cells of one column as texts, ``codes`` (rows,) into ``values``; which are missing (rows,).

    ``quotes`` says whether the values are names, ``known`` which of them the fit has seen.
    """

    name: str
    values: tuple[str, ...]
    codes: NDArray[np.intp]
    missing: NDArray[np.bool_]
    quotes: bool
    known: frozenset[str] | None

    def value(self, row: int) -> str:
        """Return the text of a cell."""
        return MISSING if self.missing[row] else self.values[int(self.codes[row])]

    def quoted(self, row: int) -> str:
        """Return the text of a cell as a sentence has it: names in quotation marks, new ones said to be new."""
        value = self.value(row)
        if self.missing[row] or not self.quotes:
            return value
        return f"'{value}'" if self.known is None or value in self.known else f"'{value}' (never seen)"


def read_cells(table: TableEncoder, X: object) -> tuple[Cells, ...]:
    """Return the cells of a table like that of the fit, column by column."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever encodes the table has warned already
        frame = read_table(X, estimator_name=table.estimator_name, least_rows=1)
        return matched(frame, table.names, table.named, table.estimator_name).columns


def cell_texts(column: Column, cells: Cells) -> CellTexts:
    """Return the cells of one column in words."""
    missing = cells.missing
    if column.kind in ("number", "date"):
        numbers = as_numbers(cells, column.unit)
        distinct, codes = np.unique(numbers, return_inverse=True)
        unit = " s" if column.unit == "seconds" else ""
        write = date_key if column.kind == "date" else number_text
        values = tuple("" if np.isnan(value) else f"{write(float(value))}{unit}" for value in distinct)
        return CellTexts(column.name, values, codes.astype(np.intp), missing, False, None)
    codes, keys = as_levels(cells)
    known = frozenset(column.levels) | frozenset(column.pooled)
    if known == frozenset(("False", "True")) and cells.stored == "number":
        keys = [{"0": "False", "1": "True"}.get(key, key) for key in keys]  # truth values kept as numbers
    seen = None if column.kind == "constant" else known
    return CellTexts(column.name, tuple(keys), codes, missing, True, seen)


def row_labels(X: object, rows: int) -> list[int | str]:
    """Return the labels of a pandas table's index, or 0, 1, … for other tables."""
    index: object = getattr(X, "index", None)
    if index is None or callable(index):  # a list has a method of that name
        return list(range(rows))
    return [_label(label) for label in cast("Iterable[object]", index)]


def _label(label: object) -> int | str:
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        return int(cast("int", label))
    return str(label)


def number_text(value: float) -> str:
    """Return a number with four digits, whole ones with up to six."""
    return f"{value:.0f}" if value == int(value) and abs(value) < EXACT_DIGITS else f"{value:.4g}"
