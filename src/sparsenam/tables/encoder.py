"""The encoder of a table: decides during the fit what each column is, then turns tables into terms and groups."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Count
from sparsenam.errors import InputError, check_number, describe, nearest, renamed
from sparsenam.tables.columns import (
    Cells,
    Codes,
    Column,
    Reading,
    check_feature_types,
    fit_column,
    read_column,
    require_mapping,
)
from sparsenam.tables.frame import Frame, find_far_cells, read_table
from sparsenam.tables.notes import News, column_warnings, descriptions, news_warnings
from sparsenam.tables.sample import Grouping, Matrix
from sparsenam.tables.text import listed, prefers_comma

LEVELS, SPLIT_LEVELS = 512, 128  # most of a category; split ones are a sub-network each; chosen without a measurement


@dataclass(frozen=True, slots=True)
class Term:
    """One column of the encoded matrix: a number, a code (0, 1), a code (0 … L-1), or whether a cell is missing."""

    name: str
    column: Count
    kind: Literal["number", "binary", "levels", "missing"]
    levels: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableEncoder:
    """What each column of a table is, and the terms it becomes; printing it says what was done.

    ``names`` are the input columns, x0, x1, … where the table had none (``named`` is False then); ``columns``
    has one entry for each of them, in the same order; ``estimator_name`` is the estimator that messages speak of.
    ``needed`` are the indices of the columns that are read; None reads all. See `reading`.
    """

    names: tuple[str, ...]
    named: bool
    columns: tuple[Column, ...]
    terms: tuple[Term, ...]
    estimator_name: str = "TableEncoder"
    needed: frozenset[int] | None = field(default=None, metadata={"stored": False})

    @classmethod
    def fit(
        cls,
        X: object,
        feature_types: Mapping[str, str] | Mapping[int, str] | None = None,
        max_levels: int | None = None,
        *,
        split_levels: bool = False,
        estimator_name: str = "TableEncoder",
        among: str = "",
    ) -> tuple[Self, Matrix]:
        """Return the encoder of a table, and the table's terms, shape (rows, terms).

        NaN: the term contributes nothing in this row. Beyond ``max_levels`` the rarest levels of a category are pooled
        into one. With ``split_levels`` a category of several levels becomes a 0/1 term for each of them, as a given
        architecture needs. ``among`` are the words that say in messages that the rows are a sample of a larger table.
        """
        if max_levels is None:
            max_levels = SPLIT_LEVELS if split_levels else LEVELS
        frame = read_table(X, estimator_name=estimator_name, least_rows=2)
        wanted = check_feature_types(feature_types, frame.names, named=frame.named)
        texts = [cells.values for cells in frame.columns if cells.stored == "text"]
        has_commas = bool(texts) and prefers_comma(texts)
        fitted = [fit_column(cells, wanted.get(cells.name), max_levels, has_commas) for cells in frame.columns]
        columns = _with_missing_terms(fitted, frame)
        encoder = cls(frame.names, frame.named, tuple(columns), tuple(_terms(columns, split_levels)), estimator_name)
        if any(column.doubt or not column.varies for column in columns):
            for warning in column_warnings(columns, among):
                warnings.warn(warning, stacklevel=2)
        readings = encoder.readings(frame)
        return encoder._with_far_cells(readings, among), encoder._assembled(readings, frame)

    @cached_property
    def places(self) -> dict[str, int]:
        """The index of each column by its name."""
        return {name: index for index, name in enumerate(self.names)}

    def reading(self, columns: Iterable[int]) -> Self:
        """Return the encoder that reads these columns alone, given by their indices.

        A table with names may lack all others, which are neither checked nor warned of; their terms are NaN, or of no
        meaning.
        """
        return replace(self, needed=frozenset(columns))

    def columns_of(self, X: object) -> Frame:
        """Return the columns of a table in the order of the fit; raise when some that are needed are not there.

        Others of the fit that are not there have missing cells only; columns that the fit did not see are left out. A
        table without names must have as many columns as the fit.
        """
        frame = read_table(X, estimator_name=self.estimator_name, least_rows=1)
        if frame.named and self.named:
            needed = self.names if self.needed is None else [self.names[index] for index in sorted(self.needed)]
            if not frozenset(frame.names).issuperset(needed):
                raise InputError(_difference(frame.names, self.names, needed))
        elif len(frame.names) != len(self.names):
            expected = f"{self.estimator_name} is expecting {len(self.names)} features as input"
            raise InputError(f"X has {len(frame.names)} features, but {expected}.")
        elif self.named or frame.named:
            given, fitted = ("does not have valid", "with") if self.named else ("has", "without")
            message = f"X {given} feature names, but {self.estimator_name} was fitted {fitted} feature names"
            warnings.warn(message, UserWarning, stacklevel=3)
        return self.arranged(frame)

    def arranged(self, frame: Frame) -> Frame:
        """Return a table whose columns are known to match in the order of the fit, under its names."""
        if not (frame.named and self.named):
            columns = tuple(replace(cells, name=name) for cells, name in zip(frame.columns, self.names, strict=True))
            return replace(frame, names=self.names, columns=columns)
        if frame.names == self.names:
            return frame
        cells_of = {cells.name: cells for cells in frame.columns}  # the block has them in another order
        gone = np.full(frame.rows, np.nan)
        columns = tuple(cells_of.get(name) or Cells(name, "number", numbers=gone) for name in self.names)
        return replace(frame, names=self.names, columns=columns, block=None)

    def encode(self, X: object) -> Matrix:
        """Return the terms of another table, shape (rows, terms); its columns are matched by name, in any order.

        Columns that the fit did not see are left out. A column that is needed and not there raises.
        Warns of levels never seen and of missing cells in columns that missed none: both contribute nothing.
        """
        terms, news = self.encode_columns(self.columns_of(X))
        self.warn_of(news)
        return terms

    def encode_columns(self, frame: Frame) -> tuple[Matrix, News]:
        """Return the terms of columns that are matched with those of the fit, and what is new about them."""
        readings = self.readings(frame)
        unseen = tuple(frozenset(reading.unseen) for reading in readings)
        given = [int(reading.missing.size - np.count_nonzero(reading.missing)) for reading in readings]
        known = [
            int(np.count_nonzero(~np.isnan(reading.values))) if reading.unseen else count
            for reading, count in zip(readings, given, strict=True)
        ]
        strange = tuple(count - seen for count, seen in zip(given, known, strict=True))
        missing = tuple(bool(reading.missing.any()) for reading in readings)
        return self._assembled(readings, frame), News(unseen, missing, strange, tuple(known))

    @property
    def term_columns(self) -> NDArray[np.intp]:
        """Index of each term's column, shape (terms,)."""
        return np.array([term.column for term in self.terms], dtype=np.intp)

    def __str__(self) -> str:
        kinds = ["identifier" if column.is_identifier else column.kind for column in self.columns]
        width, of_kind = (max(map(len, texts), default=0) for texts in (self.names, kinds))
        lines = [
            f"{name:<{width}}  {kind:<{of_kind}}  {description}"
            for name, kind, description in zip(self.names, kinds, descriptions(self.columns), strict=True)
        ]
        return "\n".join([f"{len(self.columns)} column(s) became {len(self.terms)} term(s)", *lines])

    def readings(self, frame: Frame) -> list[Reading]:
        """Return the columns of a table, matched with those of the fit, in numbers; NaN for those that are not read."""
        needed = range(len(self.columns)) if self.needed is None else self.needed
        unread = Reading(np.full(frame.rows, np.nan), np.zeros(frame.rows, dtype=np.bool_))
        return [
            read_column(column, cells) if index in needed else unread
            for index, (column, cells) in enumerate(zip(self.columns, frame.columns, strict=True))
        ]

    def _assembled(self, readings: Sequence[Reading], frame: Frame) -> Matrix:
        one_each = [term.column for term in self.terms] == list(range(len(self.names)))
        if frame.block is not None and one_each and all(term.kind == "number" for term in self.terms):
            return frame.block.T  # a large array is not copied again
        across = np.empty((len(self.terms), frame.rows))
        for values, term in zip(across, self.terms, strict=True):
            reading = readings[term.column]
            values[:] = reading.missing if term.kind == "missing" else reading.values
            if term.kind == "binary" and len(term.levels) == 1:  # one level of several
                code = self.columns[term.column].levels.index(term.levels[0])
                values[:] = np.where(np.isnan(reading.values), np.nan, reading.values == code)
        return across.T

    def _with_far_cells(self, readings: Sequence[Reading], among: str) -> Self:
        """Return the encoder whose columns name their values far from all others."""
        measured = {
            column.name: (reading.values, column.unit == "days")
            for column, reading in zip(self.columns, readings, strict=True)
            if column.kind in ("number", "date")
        }
        found = find_far_cells(measured, among)
        columns = tuple(replace(column, far=found.get(column.name)) for column in self.columns)
        return replace(self, columns=columns) if found else self

    def warn_of(self, news: News, seen: str = "during the fit", now: str = "now") -> None:
        """Warn of news, in one warning for the levels of each column and one for missing cells."""
        for warning in news_warnings(self.columns, news, seen, now):
            warnings.warn(warning, stacklevel=3)


def _with_missing_terms(columns: list[Column], frame: Frame) -> list[Column]:
    """Return the columns with the terms of their missing cells, one for all that miss the same rows."""
    # where no cell has a value, that it is missing says nothing
    some = [bool(cells.missing.any()) and not cells.missing.all() for cells in frame.columns]
    patterns = [cells.missing.tobytes() if gaps else b"" for cells, gaps in zip(frame.columns, some, strict=True)]
    sharing: dict[bytes, list[str]] = {}
    for column, pattern in zip(columns, patterns, strict=True):
        sharing.setdefault(pattern, []).append(column.name)
    mark = "missing"
    while any(name.endswith(f"({mark})") for name in frame.names):  # a column's own name
        mark = f"cell {mark}"
    # the first by name, so that the order of the columns does not matter
    term_of = {pattern: f"{min(names)} ({mark})" if pattern else "" for pattern, names in sharing.items()}
    return [replace(column, missing_term=term_of[pattern]) for column, pattern in zip(columns, patterns, strict=True)]


def _terms(columns: list[Column], split_levels: bool) -> list[Term]:
    terms: list[Term] = []
    for index, column in enumerate(columns):
        if column.kind in ("number", "date", "ordered"):
            terms.append(Term(column.name, index, "number", column.levels))
        elif column.kind == "category" and split_levels and len(column.levels) > 2:
            terms += [Term(f"{column.name} = {level}", index, "binary", (level,)) for level in column.levels]
        elif column.kind == "category":
            terms.append(Term(column.name, index, "binary" if len(column.levels) == 2 else "levels", column.levels))
        if column.missing_term.rpartition(" (")[0] == column.name and column.missing_term:  # not that of another column
            terms.append(Term(column.missing_term, index, "missing"))
    return terms


MOST_NAMES_IN_MESSAGE = 5


def _difference(given: tuple[str, ...], fitted: tuple[str, ...], needed: Iterable[str]) -> str:
    message = "The feature names should match those that were passed during fit.\n"
    for title, names in (
        ("Feature names unseen at fit time:", sorted(set(given) - set(fitted))),
        ("Feature names seen at fit time, yet now missing:", sorted(set(needed) - set(given))),
    ):
        if names:
            more = ["- ..."] if len(names) > MOST_NAMES_IN_MESSAGE else []
            message += "\n".join([title, *(f"- {name}" for name in names[:MOST_NAMES_IN_MESSAGE]), *more]) + "\n"
    meant = renamed(sorted(set(needed) - set(given)), sorted(set(given) - set(fitted)), "")
    return f"{message}{meant[:1].upper()}{meant[1:]}"


ColumnName = str | int
FeatureTypes = Mapping[str, str] | Mapping[int, str]
FeatureGroups = Sequence[Sequence[ColumnName]]
PenaltyWeights = Mapping[ColumnName, float]
T = TypeVar("T")


def grouping_of(
    encoder: TableEncoder,
    feature_groups: FeatureGroups | None,
    penalty_weights: PenaltyWeights | None,
    always_keep: Sequence[ColumnName] | None,
) -> Grouping | None:
    """Return the groups of the table's terms; None when each term is a group of weight 1.

    The levels of a category that is split into 0/1 terms belong together. The terms of a grouped column, its
    missing cells among them, belong to its group, whose weight is the largest of its columns', or 0 if one of them
    is always kept. The terms of a column outside any group are groups of the column's weight.
    """
    split = {term.column for term in encoder.terms if term.kind == "binary" and len(term.levels) == 1}
    if not (feature_groups or penalty_weights or always_keep or split):
        return None
    weights = _column_weights(encoder, penalty_weights, always_keep)
    group_of = _groups(encoder, feature_groups)
    members: dict[tuple[str, int], list[int]] = {}
    for index, term in enumerate(encoder.terms):
        key = ("term", index)
        if term.column in group_of:
            key = ("group", group_of[term.column])
        elif term.column in split and term.kind == "binary":
            key = ("column", term.column)
        members.setdefault(key, []).append(index)
    totals: list[float] = []
    for terms in members.values():
        inside = [weights[encoder.terms[term].column] for term in terms]
        totals.append(0.0 if always_keep and 0.0 in inside else max(inside))
    return Grouping(tuple(np.array(terms, dtype=np.intp) for terms in members.values()), np.array(totals))


def _column_weights(
    encoder: TableEncoder, penalty_weights: PenaltyWeights | None, always_keep: Sequence[ColumnName] | None
) -> list[float]:
    weights = [1.0] * len(encoder.columns)
    if penalty_weights is not None:
        expected = "a mapping of columns to numbers"
        require_mapping("penalty_weights", penalty_weights, expected, "give {name: weight}")
    for column, weight in (penalty_weights or {}).items():
        check_number(f"penalty_weights[{column!r}]", weight, 0.0)
        weights[column_index(encoder, column, "penalty_weights")] = float(weight)
    for column in _sequence("always_keep", always_keep):
        index = column_index(encoder, column, "always_keep")
        kept = encoder.columns[index]
        if kept.is_identifier:
            got = f"{kept.name!r}, of which nearly every cell is different"
            remedy = f'take it out, or fit with feature_types={{{kept.name!r}: "category"}}'
            raise InputError(describe("always_keep", "columns that a model can use", got, remedy))
        if kept.is_empty or (kept.kind == "constant" and not kept.n_missing):
            got = f"{kept.name!r}, which has {'no value' if kept.is_empty else f'one single value ({kept.levels[0]})'}"
            raise InputError(describe("always_keep", "columns that vary", got, "take it out"))
        weights[index] = 0.0
    return weights


def _groups(encoder: TableEncoder, feature_groups: FeatureGroups | None) -> dict[int, int]:
    group_of: dict[int, int] = {}
    for group, columns in enumerate(_sequence("feature_groups", feature_groups)):
        for column in _sequence("feature_groups", columns):
            index = column_index(encoder, column, "feature_groups")
            if index in group_of:
                expected = "each column in one group"
                raise InputError(describe("feature_groups", expected, f"{column!r} twice", "take one out"))
            group_of[index] = group
    return group_of


def column_index(encoder: TableEncoder, column: ColumnName, where: str) -> int:
    """Return the index of a column given by name or index; raise, naming the setting, for one that there is not."""
    names = encoder.names
    if isinstance(column, str) and column in encoder.places:
        return encoder.places[column]
    if isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < len(names):
        return int(column)
    got = repr(int(column) if isinstance(column, np.integer) else column)  # 7, not np.int64(7)
    remedy = nearest(column, names, "correct the name")
    raise InputError(describe(where, f"names of columns ({listed(list(names))})", got, remedy))


def _sequence(where: str, values: Iterable[T] | None) -> list[T]:
    if values is None:
        return []
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise InputError(describe(where, "a list of columns", repr(values), "put it in brackets"))
    return list(values)


def bin_codes(x: Matrix, levels: NDArray[np.bool_], bins: int) -> Codes:
    """Return the bins of x (terms, rows): quantiles of numbers, the frequent levels where ``levels`` (terms,).

    Of so many ``bins`` all rare levels share the last; absent cells have the code after it.
    """
    codes = np.full(x.shape, bins, dtype=np.intp)
    for column, (cells, is_levels) in enumerate(zip(x, levels, strict=True)):
        present = ~np.isnan(cells)
        values = cells[present]
        if is_levels:
            _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
            rank = np.argsort(np.argsort(-counts, kind="stable"))
            codes[column, present] = np.minimum(rank, bins - 1)[inverse]
        elif values.size:
            cuts = np.unique(np.quantile(values, np.arange(1, bins) / bins))
            codes[column, present] = np.searchsorted(cuts, values, side="left")
    return codes
