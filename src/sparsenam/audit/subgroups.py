"""Subgroups of the rows of a table, and coarse bins of its columns: what an audit and a comparison look at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.dependencies import is_into_dataframe, is_into_series

from sparsenam.codec import Vector
from sparsenam.errors import InputError, describe
from sparsenam.tables.cells import from_array, read_series
from sparsenam.tables.columns import Cells, Codes, Column, Reading, fit_column, read_column
from sparsenam.tables.encoder import LEVELS, TableEncoder, column_index
from sparsenam.tables.frame import read_table
from sparsenam.tables.text import date_key, listed
from sparsenam.text import number_text

Groups = str | Sequence[object] | Mapping[object, object] | None  # or a table or a series of any library
Place = tuple[str | None, str, int]  # of a subgroup: what divides the rows, its label, and how many rows it has
FIFTHS, TENTHS = 5, 10
DIGITS = (4, 6, 9, 17)  # of the ends of a part
NOWHERE = -1  # code of a row that is in no subgroup
MISSING = "(missing)"
STANDARD_ERROR_ROUNDING = 1e-9  # of a standard error


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Disjoint subgroups of the rows: ``codes`` (rows,) into ``labels``, -1 for rows that are in none of them.

    ``column`` is the index of the column that it is made of, None for labels that were given; ``name`` is None where
    all rows are one subgroup.
    """

    name: str | None
    column: int | None
    labels: tuple[str, ...]
    codes: Codes

    @classmethod
    def everyone(cls, rows: int) -> Partition:
        """Return the partition of which all rows are the only subgroup."""
        return cls(None, None, ("",), np.zeros(rows, dtype=np.intp))

    def members(self, weights: Vector) -> Codes:
        """Return the indices of the rows that are in a subgroup, rows of weight 0 aside."""
        return np.flatnonzero((self.codes != NOWHERE) & (weights > 0))

    def counts(self, weights: Vector) -> Codes:
        """Return how many rows each subgroup has, shape (groups,), rows of weight 0 aside."""
        return np.bincount(self.codes[self.members(weights)], minlength=len(self.labels))


class OfSubgroup:
    """A result of one subgroup: ``label`` among those that ``groups`` makes, a column or given labels; None of all."""

    __slots__ = ()
    groups: str | None
    label: str

    @property
    def subgroup(self) -> str:
        """The subgroup in words."""
        return subgroup_text(self.groups, self.label)


def subgroup_means(
    partitions: Sequence[Partition], weights: Vector, values: Vector
) -> Iterator[tuple[Place, Vector, Vector]]:
    """Yield the weighted means of values (rows, measures) and their standard errors, each of shape (measures,).

    All rows come first, then each subgroup that has any. NaN is a measure that a row does not have.
    """
    for partition in (Partition.everyone(weights.size), *partitions):
        inside, counts = partition.members(weights), partition.counts(weights)
        found = list[tuple[Vector, Vector]]()
        for column in values.T:
            known = inside[~np.isnan(column[inside])]
            found.append(mean_and_error(column[known], weights[known], partition.codes[known], counts.size))
        means, errors = np.moveaxis(np.array(found), 0, 2)
        for group in np.flatnonzero(counts).tolist():
            yield (partition.name, partition.labels[group], int(counts[group])), means[group], errors[group]


def subgroup_text(groups: str | None, label: str) -> str:
    """Return a subgroup in words."""
    return "all rows" if groups is None else f"{groups} = {label}"


@dataclass(frozen=True, slots=True, eq=False)
class BinnedColumn:
    """A column in coarse bins: ``codes`` (rows,) in 0 … ``bins`` - 1.

    Of a number the bins are tenths of the rows, in order, or its values where it has few. Missing cells, and levels
    that the fit never saw, are the last bin where ``has_missing``.
    """

    column: int
    codes: Codes
    bins: int
    ordered: bool
    has_missing: bool


def binned(index: int, column: Column, reading: Reading) -> BinnedColumn:
    """Return a column of the table in at most ten bins, and one for missing cells."""
    values, unknown = reading.values, np.isnan(reading.values)
    ordered = column.kind != "category"
    if ordered:
        codes = np.searchsorted(_edges(values[~unknown], TENTHS), values)
    else:  # the codes of levels are ranks by frequency, so the last ones are the rarest
        codes = np.minimum(np.where(unknown, 0.0, values), TENTHS - 1).astype(np.intp)
    used = np.unique(codes[~unknown])
    codes = np.where(unknown, used.size, np.searchsorted(used, codes)).astype(np.intp)
    return BinnedColumn(index, codes, int(used.size + unknown.any()), ordered, bool(unknown.any() and used.size))


def partition_of(name: str, index: int | None, column: Column, reading: Reading) -> Partition:
    """Return the subgroups of a column: its levels, or fifths of its numbers, and its missing cells."""
    values, unknown = reading.values, np.isnan(reading.values)
    codes = np.full(values.size, NOWHERE, dtype=np.intp)
    labels: list[str] = []
    if column.kind in ("category", "ordered"):
        codes[~unknown] = values[~unknown].astype(np.intp)
        labels = list(column.levels)
    elif not unknown.all():
        edges = _edges(values[~unknown], FIFTHS)
        codes[~unknown] = np.searchsorted(edges, values[~unknown])
        labels = _interval_texts(values[~unknown], codes[~unknown], edges.size + 1, column.kind == "date")
    if reading.missing.any():
        codes[reading.missing] = len(labels)
        labels.append(MISSING)
    return Partition(name, index, tuple(labels), codes)


def read_partitions(
    encoder: TableEncoder, readings: Sequence[Reading], groups: Groups, columns: Sequence[int], where: str
) -> list[Partition]:
    """Return the partitions that ``groups`` asks for: names of columns, or labels; those of ``columns`` for None."""
    rows = readings[0].values.size

    def of_column(index: int) -> Partition:
        return partition_of(encoder.names[index], index, encoder.columns[index], readings[index])

    if groups is None:
        return [of_column(index) for index in columns if encoder.columns[index].kind != "constant"]
    names = names_in(groups, encoder.names, rows)
    if names is not None:
        return [of_column(column_index(encoder, name, f"groups of {where}")) for name in names]
    partitions: list[Partition] = []
    for cells in _label_columns(groups):
        if cells.missing.size != rows:
            got = f"{cells.missing.size} labels"
            raise InputError(describe(f"groups of {where}", f"one label for each of {rows} rows", got, "align them"))
        if cells.missing.all():
            got = f"{cells.name!r} without any"
            raise InputError(describe(f"groups of {where}", "labels", got, "leave it out"))
        column = fit_column(cells, None, LEVELS)
        if column.kind == "constant":  # one group of all the rows that have the label
            column = Column(cells.name, "category", cells.stored, n_missing=column.n_missing, levels=column.levels)
        partitions.append(partition_of(cells.name, None, column, read_column(column, cells)))
    return partitions


def names_in(groups: Groups, known: Collection[str], rows: int) -> list[str] | None:
    """Return the names of columns that were given; None for labels, of which a list has one text for each row."""
    if isinstance(groups, str):
        return [groups]
    names = [name for name in groups if isinstance(name, str)] if isinstance(groups, list | tuple) else []
    if not names or len(names) < len(groups or ()) or (len(names) == rows and not any(name in known for name in names)):
        return None
    return names


def _label_columns(groups: Groups) -> list[Cells]:
    """Return given labels, column by column."""
    if isinstance(groups, Mapping):
        return [_one_column(str(name), values) for name, values in groups.items()]
    if is_into_series(groups) or (not is_into_dataframe(groups) and np.asarray(groups).ndim == 1):
        return [_one_column("group", groups)]
    frame = read_table(groups, estimator_name="groups", least_rows=1)
    if frame.named:
        return list(frame.columns)
    return [replace(cells, name=f"group {index}") for index, cells in enumerate(frame.columns)]


def _one_column(name: str, values: object) -> Cells:
    if is_into_series(values):
        found = nw.from_native(values, series_only=True)
        return read_series(str(found.name) if found.name and name == "group" else name, found)
    array = np.asarray(values)
    if array.ndim != 1:
        got = f"an array of shape {array.shape}"
        raise InputError(describe(f"groups {listed([name])}", "one label for each row", got, "give one for each row"))
    return from_array(name, array)


def _edges(values: Vector, parts: int) -> Vector:
    """Return the values after which a new part begins, shape (parts - 1,) or less where values repeat."""
    distinct = np.unique(values)
    if distinct.size <= parts:
        return distinct[:-1]
    # an observed value ends each part, so that no edge depends on rounding
    edges = np.quantile(values, np.arange(1, parts) / parts, method="lower")
    return np.unique(edges[edges < distinct[-1]])


def _interval_texts(values: Vector, codes: Codes, parts: int, is_date: bool) -> list[str]:
    """Return the least and the largest value of each part as text, with as many digits as tell the parts apart."""
    ends = [(float(values[codes == part].min()), float(values[codes == part].max())) for part in range(parts)]
    writers: list[Callable[[float], str]] = [date_key] if is_date else [f"{{:.{digits}g}}".format for digits in DIGITS]
    labels: list[str] = []
    for text in writers:
        written = [(text(low), text(high)) for low, high in ends]
        labels = [low if low == high else f"{low} to {high}" for low, high in written]
        if len({end for pair in written for end in set(pair)}) == sum(len(set(pair)) for pair in written):
            break
    return labels


def mean_and_error(values: Vector, weights: Vector, codes: Codes, groups: int) -> tuple[Vector, Vector]:
    """Return the weighted mean of the rows of each group and its standard error, each (groups,); NaN without rows."""
    total = np.bincount(codes, weights, minlength=groups)
    count = np.bincount(codes, weights > 0, minlength=groups)
    nothing = np.full(groups, np.nan)
    mean = np.divide(np.bincount(codes, weights * values, minlength=groups), total, out=nothing.copy(), where=total > 0)
    squares = np.bincount(codes, (weights * (values - mean[codes])) ** 2, minlength=groups)
    scale = np.divide(count, count - 1.0, out=nothing.copy(), where=count > 1)
    return mean, np.sqrt(squares * scale) / np.where(total > 0, total, 1.0)


def with_error(value: float | None, error: float | None) -> str:
    """Return a number and its standard error as text; a number that is nothing but rounding is 0."""
    is_rounding = abs(value or 0.0) <= STANDARD_ERROR_ROUNDING * (error or 0.0)
    return f"{number_text(0.0 if is_rounding else value, 3)} ± {number_text(error, 2)}"
