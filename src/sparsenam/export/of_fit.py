"""A fit as a portable model, and how far its exported files are from it."""

from __future__ import annotations

from importlib.metadata import version
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sparsenam.export.exporting import Cell, Rows, largest_difference
from sparsenam.export.portable import PortableModel, Target, portable_model
from sparsenam.fit import ClassResponse, Fit, Response, SurvivalResponse
from sparsenam.fit.summary import read_cells
from sparsenam.model import AdditiveModel
from sparsenam.tables import TableEncoder
from sparsenam.tables.columns import as_numbers
from sparsenam.tables.text import date_key


def portable(fit: Fit) -> PortableModel:
    """Return the model as plain data, from which every export is written."""
    return portable_model(fit.model, fit.encoder, _target(fit.response, fit.model), f"sparsenam {version('sparsenam')}")


def export_difference(
    fit: Fit, path: str | PathLike[str], X: ArrayLike, to: str | None, options: dict[str, Any]
) -> float:
    """Return the largest difference between the scores of exported files and those of the model, over their scale."""
    model, reader = portable(fit), fit.reader()
    scores = fit.model.scores(reader.encode(X))
    return largest_difference(model, path, to, options, cells_of(reader, model, X), scores)


def _target(response: Response, model: AdditiveModel) -> Target:
    if isinstance(response, ClassResponse):
        return Target("labels" if model.family.response == "labels" else "classes", response.classes)
    if isinstance(response, SurvivalResponse):
        return Target("survival", baseline=(response.baseline.times, response.baseline.cumulative_hazard))
    return Target()


def cells_of(encoder: TableEncoder, model: PortableModel, X: ArrayLike) -> Rows:
    """Return the cells of the columns that a model reads, row by row, as other programs would give them."""
    wanted = {column.name: column for column in model.columns}
    described = {column.name: column for column in encoder.columns}
    columns: dict[str, list[Cell]] = {}
    table = read_cells(encoder, X)
    for cells in table:
        if cells.name not in wanted:
            continue
        if wanted[cells.name].kind != "category":  # texts of numbers and dates, too
            described_as = described[cells.name]
            numbers = as_numbers(cells, described_as.unit, described_as.writing)
            columns[cells.name] = [None if np.isnan(value) else float(value) for value in numbers]
        elif cells.stored == "truth":
            columns[cells.name] = [None if np.isnan(value) else bool(value) for value in cells.numbers]
        elif cells.stored == "date":  # the level of a date is its text
            columns[cells.name] = [None if np.isnan(value) else date_key(float(value)) for value in cells.numbers]
        elif cells.numbers.size:
            columns[cells.name] = [None if np.isnan(value) else float(value) for value in cells.numbers]
        else:
            columns[cells.name] = [None if code < 0 else cells.values[code] for code in cells.codes]
    if not columns:  # a model that kept none still has a score for each row
        return [{} for _ in table[0].missing]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
