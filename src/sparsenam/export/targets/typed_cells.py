"""Cells of targets whose inputs have types (ONNX, PMML): which type a column has, its name, and rows as such cells."""

from __future__ import annotations

import math

import numpy as np

from sparsenam.container import Tensors
from sparsenam.export.exporting import Rows
from sparsenam.export.portable import Cell, PortableColumn, PortableModel, is_missing
from sparsenam.tables.text import number_key

OUTPUTS = ("score", "prediction", "probabilities", "contributions")
NO_LEVEL = math.inf  # a category's number that is never a level, and not missing


def feeds(model: PortableModel, rows: Rows, precision: str = "double") -> Tensors:
    """Return the inputs of a graph for rows of cells, each (rows, 1)."""
    real = np.float64 if precision == "double" else np.float32
    found: Tensors = {}
    for column, name in zip(model.columns, input_names(model), strict=True):
        if column.takes_texts:
            found[name] = np.array([_text(row[column.name]) for row in rows], dtype=object).reshape(-1, 1)
        else:
            with np.errstate(over="ignore"):  # single precision has fewer numbers
                numbers = np.array([_number(column, row[column.name]) for row in rows], dtype=np.float64)
                found[name] = numbers.astype(real).reshape(-1, 1)
    return found or {"rows": np.zeros((len(rows), 1), real)}


def input_names(model: PortableModel) -> list[str]:
    """Return the inputs' names: those of the columns, with _ at the end where an output has the name."""
    names: list[str] = []
    for column in model.columns:
        name = column.name or "_"
        while (
            name in OUTPUTS
            or name in names
            or (name != column.name and any(other.name == name for other in model.columns))
        ):
            name += "_"
        names.append(name)
    return names


def cell_of(column: PortableColumn, cell: Cell) -> str | float | None:
    """Return a cell as the input of its column has it: text or a number; None where it is missing."""
    if column.takes_texts:
        return None if cell is None else _text(cell)
    number = _number(column, cell)
    return None if math.isnan(number) else number


def _text(cell: Cell) -> str:
    """Return a category's cell as the text of its level; an empty one where it is missing."""
    if isinstance(cell, str | bool):
        return str(cell)
    return "" if cell is None or math.isnan(cell) else number_key(cell)


def _number(column: PortableColumn, cell: Cell) -> float:
    """Return a cell as a number, NaN where it is missing."""
    if cell is None or is_missing(cell):
        return math.nan
    if column.kind != "category" or not isinstance(cell, str | bool):
        return float(cell)
    code = column.code(cell)
    numbers = (level.number for level in column.levels if level.code == code and level.number is not None)
    return next(numbers, NO_LEVEL)
