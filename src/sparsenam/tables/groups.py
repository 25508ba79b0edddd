"""Which terms enter or leave a model together, and with what penalty weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, check_number, describe
from sparsenam.tables.encoder import TableEncoder
from sparsenam.tables.scaling import Vector
from sparsenam.tables.text import listed

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The groups of terms, and the penalty weight of each.

    ``members`` has the indices of each group's terms; ``weights`` (groups,) multiply the penalty, 0 is free.
    """

    members: tuple[Indices, ...]
    weights: Vector

    @classmethod
    def separate(cls, n_terms: int) -> Grouping:
        """Return one group of weight 1 for each term."""
        return cls(tuple(np.array([term], dtype=np.intp) for term in range(n_terms)), np.ones(n_terms))

    @property
    def is_trivial(self) -> bool:
        """Whether group j is term j alone."""
        return all(terms.size == 1 and terms[0] == group for group, terms in enumerate(self.members))

    def size_of(self, term: int) -> int:
        """Return the number of terms in a term's group."""
        if term < len(self.members) and self.members[term].size == 1 and self.members[term][0] == term:
            return 1  # the common case, without a search
        return next(terms.size for terms in self.members if term in terms)

    def terms_of(self, groups: Indices) -> Indices:
        """Return the terms of some groups, in rising order."""
        if self.is_trivial:
            return groups
        chosen = [self.members[int(group)] for group in groups]
        return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, dtype=np.intp)

    def spread(self, values: Vector) -> Vector:
        """Return each term's value from those of the groups, shape (terms,)."""
        result = np.zeros(sum(terms.size for terms in self.members))
        for terms, value in zip(self.members, values, strict=True):
            result[terms] = value
        return result

    def take(self, terms: Indices) -> Grouping:
        """Return the groups of some terms, numbered anew in the order given; groups without a term vanish."""
        new = {int(term): number for number, term in enumerate(terms)}
        kept: list[tuple[Indices, float]] = []
        for members, weight in zip(self.members, self.weights, strict=True):
            inside = sorted(new[int(term)] for term in members if int(term) in new)
            if inside:
                kept.append((np.array(inside, dtype=np.intp), float(weight)))
        kept.sort(key=lambda group: int(group[0][0]))
        return Grouping(tuple(members for members, _ in kept), np.array([weight for _, weight in kept]))


ColumnName = str | int
FeatureTypes = Mapping[str, str] | Mapping[int, str]
FeatureGroups = Sequence[Sequence[ColumnName]]
PenaltyWeights = Mapping[ColumnName, float]
T = TypeVar("T")


def by_term(encoder: TableEncoder, weights: Vector) -> Vector:
    """Return the weight of each term's column, shape (terms,), from those of the columns, shape (columns,)."""
    if weights.shape != (len(encoder.columns),):
        expected = f"one weight for each of the {len(encoder.columns)} columns"
        raise InputError(describe("weights", expected, f"shape {weights.shape}", "correct the weights"))
    return weights[encoder.term_columns]


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
    if not isinstance(cast(object, penalty_weights), Mapping | None):
        got, remedy = repr(penalty_weights), "give {name: weight}"
        raise InputError(describe("penalty_weights", "a mapping of columns to numbers", got, remedy))
    for column, weight in (penalty_weights or {}).items():
        check_number(f"penalty_weights[{column!r}]", weight, 0.0)
        weights[_index(encoder, column, "penalty_weights")] = float(weight)
    for column in _sequence("always_keep", always_keep):
        weights[_index(encoder, column, "always_keep")] = 0.0
    return weights


def _groups(encoder: TableEncoder, feature_groups: FeatureGroups | None) -> dict[int, int]:
    """Return the group of each grouped column, both by index."""
    group_of: dict[int, int] = {}
    for group, columns in enumerate(_sequence("feature_groups", feature_groups)):
        for column in _sequence("feature_groups", columns):
            index = _index(encoder, column, "feature_groups")
            if index in group_of:
                expected = "each column in one group"
                raise InputError(describe("feature_groups", expected, f"{column!r} twice", "take one out"))
            group_of[index] = group
    return group_of


def _index(encoder: TableEncoder, column: ColumnName, where: str) -> int:
    names = list(encoder.names)
    if isinstance(column, str) and column in names:
        return names.index(column)
    if isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < len(names):
        return int(column)
    raise InputError(describe(where, f"names of columns ({listed(names)})", repr(column), "correct the name"))


def _sequence(where: str, values: Iterable[T] | None) -> list[T]:
    if values is None:
        return []
    if isinstance(values, str) or not isinstance(cast(object, values), Iterable):
        raise InputError(describe(where, "a list of columns", repr(values), "put it in brackets"))
    return list(values)
