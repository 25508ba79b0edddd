"""From a fit to files for other places: its portable form, the targets, and whether what is written agrees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.errors import nearest
from sparsenam.export.portable import Cell, PortableModel, Target, portable_model, refusal
from sparsenam.files import write_together
from sparsenam.fit.pipeline import Fit
from sparsenam.fit.response import ClassResponse, Response, SurvivalResponse
from sparsenam.fit.summary import read_cells
from sparsenam.model import AdditiveModel
from sparsenam.tables.columns import as_numbers
from sparsenam.tables.encoder import TableEncoder
from sparsenam.tables.text import date_key

Rows = Sequence[Mapping[str, Cell]]
Matrix = NDArray[np.float64]
Options = Mapping[str, Any]  # of a target, which checks them


# what a category's cell is that is stored as a number; the level of a date is its text
WRITTEN: Mapping[str, Callable[[float], Cell]] = {"truth": bool, "date": date_key}


class TargetModule(Protocol):
    """A module of `sparsenam.export.targets`: it writes the files of a target, and runs them on rows."""

    def files(self, model: PortableModel, path: Path, options: Options) -> dict[Path, bytes]:
        """Return what to write where; raise `ExportError` for what the target cannot carry."""
        ...

    def require_engine(self, path: Path, options: Options) -> None:
        """Raise `ExportError` where nothing here can run what would be written; no file is read."""
        ...

    def scores(self, model: PortableModel, path: Path, rows: Rows, options: Options) -> Matrix:
        """Return the scores (rows, outputs) that the written files give; `ExportError` where nothing can run them."""
        ...


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """A place where models run: its name, the suffixes of its files, its module, its options, the extra that it needs.

    ``shared`` are suffixes of files that many programs write: for these the target has to be named.
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    options: tuple[str, ...] = ()
    extra: str = ""
    shared: tuple[str, ...] = ()

    def load(self, options: Options) -> TargetModule:
        """Return the module, imported with the first export that needs it; raise for options that it does not know."""
        if unknown := sorted(set(options) - set(self.options)):
            expected = f"options among {list(self.options)}" if self.options else "no options"
            raise refusal(f"export to {self.name}", expected, f"the option(s) {unknown}", "leave them out")
        try:
            return cast(TargetModule, import_module(f"sparsenam.export.targets.{self.module}"))
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("sparsenam"):
                raise
            got, remedy = f"an environment without {error.name}", f'pip install "sparsenam[{self.extra}]"'
            raise refusal(f"export to {self.name}", "its libraries", got, remedy) from error


SCORECARD_OPTIONS = ("pdo", "base_score", "base_odds", "good", "digits", "max_error")
TARGETS: tuple[ExportTarget, ...] = (
    ExportTarget("json", (".json",), "json_file"),
    ExportTarget("python", (".py",), "python_code"),
    ExportTarget("javascript", (".mjs", ".js"), "javascript_code"),
    ExportTarget("c", (".h",), "c_code", ("prefix",)),
    ExportTarget("sql", (".sql",), "sql_query", ("dialect", "table", "key", "effects"), "sql"),
    ExportTarget("onnx", (".onnx",), "onnx_graph", ("precision", "contributions"), "onnx"),
    ExportTarget("pmml", (".pmml",), "pmml_document"),
    ExportTarget("scorecard", (".xlsx",), "scorecard", SCORECARD_OPTIONS, "scorecard", shared=(".csv",)),
)


def target_for(path: str | PathLike[str], to: str | None) -> ExportTarget:
    """Return the target of a name, or of a path's suffix."""
    suffix, names = Path(path).suffix.lower(), [target.name for target in TARGETS]
    for target in TARGETS:
        if target.name == to or (to is None and suffix in target.suffixes):
            return target
    if to is not None:
        remedy = nearest(to, names, "choose one, or leave it to the path's suffix")
        raise refusal("to", f"one of {names}", repr(to), remedy)
    known = sorted(suffix for target in TARGETS for suffix in target.suffixes)
    shared = [f'say to="{target.name}"' for target in TARGETS if suffix in target.shared]
    raise refusal(f"path {path}", f"a suffix of {known}", repr(suffix), " or ".join(shared) or "rename it, or say to=")


def write_export(model: PortableModel, path: str | PathLike[str], to: str | None, options: Options) -> list[Path]:
    """Write a model for a target; return the files, each whole, and none where one cannot be made or written."""
    files = target_for(path, to).load(options).files(model, Path(path), options)
    for file in files:
        _refuse_place(file)
    try:
        write_together(files)
    except OSError as error:
        expected, got = "a place that can be written to", error.strerror or str(error)
        raise refusal(f"path {path}", expected, got, "name another, or make room") from error
    return list(files)


def _refuse_place(file: Path) -> None:
    """Raise where a file cannot be written because of what is there."""
    if file.is_dir():
        raise refusal(f"path {file}", "a file to write", "a folder", "name a file in it")
    for parent in file.parents:
        if parent.is_file():
            raise refusal(f"path {file}", "a file in a folder", f"{parent}, which is a file", "name another")
    if not file.parent.is_dir():
        got = f"{file.parent}, which is not there"
        raise refusal(f"path {file}", "a file in a folder", got, "make the folder or name another")


def largest_difference(
    model: PortableModel, path: str | PathLike[str], to: str | None, options: Options, rows: Rows, scores: Matrix
) -> float:
    """Return how far the scores of the written files are from given ones (rows, outputs), in units of their scale."""
    target, file = target_for(path, to).load(options), Path(path)
    target.require_engine(file, options)
    if not file.is_file():
        got = "a folder" if file.is_dir() else "nothing there"
        raise refusal(f"check of {path}", "a file that export wrote", got, "export the model first")
    found = target.scores(model, file, rows, options).reshape(scores.shape)  # too few would compare equal
    both = np.isnan(found) & np.isnan(scores)
    apart = np.where(both, 0.0, np.abs(found - scores))
    scale = max(1.0, float(np.nanmax(np.abs(scores), initial=0.0)))
    return float(np.max(apart, initial=0.0)) / scale


def portable(fit: Fit) -> PortableModel:
    """Return the model as plain data, from which every export is written."""
    return portable_model(fit.model, fit.encoder, _target(fit.response, fit.model), f"sparsenam {version('sparsenam')}")


def export_difference(fit: Fit, path: str | PathLike[str], X: ArrayLike, to: str | None, options: Options) -> float:
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
        if wanted[cells.name].kind == "category" and not cells.numbers.size:
            columns[cells.name] = [None if code < 0 else cells.values[code] for code in cells.codes]
            continue
        as_cell, numbers = WRITTEN.get(cells.stored, float), cells.numbers
        if wanted[cells.name].kind != "category":  # texts of numbers and dates, too
            column = described[cells.name]
            as_cell, numbers = float, as_numbers(cells, column.unit, column.writing)
        columns[cells.name] = [None if np.isnan(number) else as_cell(float(number)) for number in numbers]
    if not columns:  # a model that kept none still has a score for each row
        return [{} for _ in table[0].missing]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
