"""Exporting: a fitted estimator as a portable model, and as files for the places where predictions run."""

from __future__ import annotations

from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sparsenam.explain.local import read_cells
from sparsenam.fit.summary import reader_of
from sparsenam.export.exporting import Cell, Rows, largest_difference, write_export
from sparsenam.export.portable import PortableModel, Target, portable_model
from sparsenam.model import AdditiveModel
from sparsenam.survival.cox import Baseline
from sparsenam.tables import TableEncoder
from sparsenam.tables.columns import as_numbers
from sparsenam.tables.text import date_key

Matrix = NDArray[np.float64]


class ExportMixin:
    """The portable form of a fitted estimator, and files written from it."""

    model_: AdditiveModel
    encoder_: TableEncoder

    def portable(self) -> PortableModel:
        """Return the model as plain data, from which every export is written; `to_json` makes strict JSON of it."""
        check_is_fitted(self)
        return portable_model(self.model_, self.encoder_, self._target(), f"sparsenam {version('sparsenam')}")

    def export(self, path: str | PathLike[str], *, to: str | None = None, **options: Any) -> list[Path]:
        """Write the model for a place where predictions run; return the files.

        Parameters
        ----------
        path : path
            Its suffix says the target: ``.json`` (the portable form), ``.py``, ``.mjs``, ``.h`` (C), ``.sql``,
            ``.onnx``, ``.pmml``, ``.xlsx`` (a scorecard).
        to : str, optional
            The target's name, where the suffix does not say it.
        **options
            Of the target, such as ``dialect="duckdb"``; see the page on exporting.
        """
        return write_export(self.portable(), path, to, options)

    def export_difference(
        self, path: str | PathLike[str], X: ArrayLike, *, to: str | None = None, **options: Any
    ) -> float:
        """Return the largest difference between the scores of exported files and those of the model, over their scale.

        Parameters
        ----------
        path, to, options
            As they were exported.
        X : table of shape (rows, features)
            The rows to compare on.
        """
        model = self.portable()
        reader = reader_of(self.encoder_, self.model_)
        scores = self.model_.scores(reader.encode(X))
        return largest_difference(model, path, to, options, cells_of(reader, model, X), scores)

    def _target(self) -> Target:
        classes = getattr(self, "classes_", None)
        if classes is not None:
            return Target("labels" if self.model_.family.response == "labels" else "classes", classes)
        baseline = getattr(self, "baseline_", None)
        if isinstance(baseline, Baseline):
            return Target("survival", baseline=(baseline.times, baseline.cumulative_hazard))
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
