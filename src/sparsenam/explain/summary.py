"""What a fit remembers of its data and of its course, so that it can be explained without the table."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from typing import Any, Self

import numpy as np
import scipy
import sklearn
import torch
from numpy.typing import NDArray

from sparsenam.explain.explanation import Density
from sparsenam.explain.histogram import density_of
from sparsenam.explain.plain import Numbers, numbers, plain, rows_of_numbers
from sparsenam.model import AdditiveModel
from sparsenam.selection.choose import FeatureChoice
from sparsenam.tables import TableEncoder

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]
ROWS_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """One kept column over some rows: histogram of its numbers or rows of each level, missing cells, importance."""

    name: str
    density: Density | None
    counts: tuple[int, ...]
    present: int
    missing: int
    mean_absolute: float
    variation: float


@dataclass(frozen=True, slots=True)
class DataSummary:
    """The number of rows that count, and the kept columns."""

    rows: int
    columns: tuple[ColumnSummary, ...]


@dataclass(frozen=True, slots=True)
class PathSummary:
    """Norms along the convex path, ``norms`` (points, names) at ``alphas`` (points,).

    ``names`` are the terms that entered, in the order of their entry.
    """

    alphas: Numbers
    names: tuple[str, ...]
    norms: tuple[Numbers, ...]


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """The training data in brief, and the course of the fit.

    ``twins`` names, for a term left out, the term that equals it in every row; ``constant`` the terms that do not
    vary over the rows that count.
    """

    data: DataSummary
    path: PathSummary | None
    twins: dict[str, str]
    constant: tuple[str, ...]
    seconds: float
    created: str
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return plain(asdict(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the summary that ``to_dict`` wrote, before or after a passage through JSON."""
        columns = tuple(_column_from(own) for own in data["data"]["columns"])
        path = data["path"]
        return cls(
            data=DataSummary(int(data["data"]["rows"]), columns),
            path=None
            if path is None
            else PathSummary(numbers(path["alphas"]), tuple(path["names"]), rows_of_numbers(path["norms"])),
            twins=dict(data["twins"]),
            constant=tuple(data["constant"]),
            seconds=float(data["seconds"]),
            created=data["created"],
            versions=dict(data["versions"]),
        )


def summarize_data(
    table: TableEncoder,
    model: AdditiveModel,
    encoded: Matrix,
    weights: Vector | None = None,
    missing: Sequence[Mask] | None = None,
) -> DataSummary:
    """Return the summary of encoded rows (rows, terms) for the columns that the model keeps.

    ``weights`` (rows,) weigh the importances; rows of weight 0 do not count at all. ``missing`` says for each
    column of the table which cells are missing; without it, NaN says so, which is true of training data.
    """
    if weights is not None and not (weights > 0).all():
        there = weights > 0
        encoded, weights = encoded[there], weights[there]
        missing = None if missing is None else [own[there] for own in missing]
    kept = kept_columns(table, model)
    sizes = _importances(table, model, encoded, weights, kept)
    columns = tuple(
        replace(
            _column_summary(table, column, encoded, None if missing is None else missing[column]),
            mean_absolute=float(mean),
            variation=float(variation),
        )
        for column, (mean, variation) in zip(kept, sizes, strict=True)
    )
    return DataSummary(len(encoded), columns)


def kept_columns(table: TableEncoder, model: AdditiveModel) -> list[int]:
    """Return the columns of which the model keeps a term, in the order of the table."""
    return sorted({table.terms[int(place)].column for place in model.terms})


def summarize_path(choice: FeatureChoice | None) -> PathSummary | None:
    """Return the norms along the path that a choice by cross-validation walked."""
    if choice is None or not choice.points:
        return None
    task = choice.task
    norms = np.stack([task.norms(point)[task.prepared.terms] for point in choice.points])
    entered = np.flatnonzero(norms.any(axis=0))
    first = (norms[:, entered] > 0).argmax(axis=0)
    order = np.lexsort((-norms[first, entered], first))  # the stronger first among those that enter together
    entered = entered[order]
    alphas = numbers(point.alpha for point in choice.points)
    names = tuple(task.prepared.names[int(place)] for place in entered)
    return PathSummary(alphas, names, rows_of_numbers(norms[:, entered]))


def versions_now() -> dict[str, str]:
    """Return the versions of what a fit depends on."""
    return dict(_versions())


@cache  # looking them up takes longer than all the rest
def _versions() -> tuple[tuple[str, str], ...]:
    modules = {"torch": torch, "numpy": np, "scipy": scipy, "scikit-learn": sklearn}
    found = {name: str(module.__version__) for name, module in modules.items()}
    return tuple({"python": platform.python_version(), "sparsenam": version("sparsenam"), **found}.items())


def _column_summary(table: TableEncoder, column: int, encoded: Matrix, missing: Mask | None) -> ColumnSummary:
    told = table.columns[column]
    place = next(
        (p for p, term in enumerate(table.terms) if term.column == column and term.kind != "missing"), None
    )
    values = None if place is None else encoded[:, place]
    if missing is not None:
        gone = missing
    elif values is not None:
        gone = np.isnan(values)
    else:  # a constant column: only its missing cells are a term
        gone = encoded[:, [term.name for term in table.terms].index(told.missing_term)] == 1.0
    n_missing = int(np.count_nonzero(gone))
    density, counts = None, ()
    if values is not None:
        there = values[~np.isnan(values)]
        if told.levels:
            counts = tuple(np.bincount(there.astype(np.intp), minlength=len(told.levels)).tolist())
        else:
            density = density_of(there)
    return ColumnSummary(told.name, density, counts, len(encoded) - n_missing, n_missing, 0.0, 0.0)


def _importances(
    table: TableEncoder, model: AdditiveModel, encoded: Matrix, weights: Vector | None, kept: list[int]
) -> list[tuple[float, float]]:
    """Return for each kept column the mean over rows and outputs of |effect|, and max - min of the effect."""
    if not kept:
        return []
    place_of = {column: place for place, column in enumerate(kept)}
    owners = [place_of[table.terms[int(term)].column] for term in model.terms]
    shape = (len(kept), model.intercept.size)
    total, low, high = np.zeros(shape), np.full(shape, np.inf), np.full(shape, -np.inf)
    for start in range(0, len(encoded), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        effects = model.kept_effects(encoded[part])
        if len(owners) > len(kept):  # a column of two terms: its values and its missing cells
            by_column = np.zeros((len(effects), *shape))
            for term, owner in enumerate(owners):
                by_column[:, owner] += effects[:, term]
        else:
            by_column = np.empty_like(effects)
            by_column[:, owners] = effects
        low, high = np.minimum(low, by_column.min(axis=0)), np.maximum(high, by_column.max(axis=0))
        np.abs(by_column, out=by_column)
        total += by_column.sum(axis=0) if weights is None else np.tensordot(weights[part], by_column, 1)
    means = total / (len(encoded) if weights is None else weights.sum())
    return list(zip(means.mean(axis=1).tolist(), (high - low).max(axis=1).tolist(), strict=True))


def _column_from(data: Mapping[str, Any]) -> ColumnSummary:
    density = data["density"]
    return ColumnSummary(
        name=data["name"],
        density=None if density is None else Density(numbers(density["edges"]), tuple(density["counts"])),
        counts=tuple(data["counts"]),
        present=int(data["present"]),
        missing=int(data["missing"]),
        mean_absolute=float(data["mean_absolute"]),
        variation=float(data["variation"]),
    )
