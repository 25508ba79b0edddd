"""Which terms enter or leave a model together, and with what penalty weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, check_number, describe
from sparsenam.tables.encoder import TableEncoder


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """``members`` has the places of each group's terms; ``weights`` (groups,) multiplies its penalty, 0 is free."""

    members: tuple[NDArray[np.intp], ...]
    weights: NDArray[np.float64]

    @classmethod
    def separate(cls, n_terms: int) -> Grouping:
        """Return every term in a group of its own, at price 1."""
        return cls(tuple(np.array([place], dtype=np.intp) for place in range(n_terms)), np.ones(n_terms))

    @property
    def is_trivial(self) -> bool:
        """Whether group j is term j alone."""
        return all(own.size == 1 and own[0] == place for place, own in enumerate(self.members))

    def size_of(self, term: int) -> int:
        """Return the number of terms in a term's group."""
        if term < len(self.members) and self.members[term].size == 1 and self.members[term][0] == term:
            return 1  # the common case, without a search
        return next(own.size for own in self.members if term in own)

    def terms_of(self, groups: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the terms of some groups, in rising order."""
        if self.is_trivial:
            return groups
        chosen = [self.members[int(group)] for group in groups]
        return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, dtype=np.intp)

    def spread(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each term's value from those of the groups, shape (terms,)."""
        result = np.zeros(sum(own.size for own in self.members))
        for own, value in zip(self.members, values, strict=True):
            result[own] = value
        return result

    def take(self, places: NDArray[np.intp]) -> Grouping:
        """Return the groups of some terms, numbered anew in the order given; groups without a term vanish."""
        new = {int(place): number for number, place in enumerate(places)}
        kept: list[tuple[NDArray[np.intp], float]] = []
        for own, price in zip(self.members, self.weights, strict=True):
            inside = sorted(new[int(place)] for place in own if int(place) in new)
            if inside:
                kept.append((np.array(inside, dtype=np.intp), float(price)))
        kept.sort(key=lambda group: int(group[0][0]))
        return Grouping(tuple(own for own, _ in kept), np.array([price for _, price in kept]))


ColumnName = str | int
FeatureTypes = Mapping[str, str] | Mapping[int, str]
FeatureGroups = Sequence[Sequence[ColumnName]]
PenaltyWeights = Mapping[ColumnName, float]
T = TypeVar("T")


def grouping_of(
    table: TableEncoder,
    groups: FeatureGroups | None,
    weights: PenaltyWeights | None,
    keep: Sequence[ColumnName] | None,
) -> Grouping | None:
    """Return the groups of the table's terms; None when each term stands alone at price 1.

    The levels of a category that is split into 0/1 terms belong together. The terms of a grouped column, its
    missing cells among them, belong to its group, whose price is the largest of its columns'. The terms of a column
    outside any group stand alone, each at the column's price.
    """
    split = {term.column for term in table.terms if term.kind == "binary" and len(term.levels) == 1}
    if not (groups or weights or keep or split):
        return None
    prices = _prices(table, weights, keep)
    group_of = _groups(table, groups)
    members: dict[tuple[str, int], list[int]] = {}
    for place, term in enumerate(table.terms):
        group = group_of.get(term.column)
        if group is not None:
            key = ("group", group)
        else:
            key = ("column", term.column) if term.column in split and term.kind == "binary" else ("term", place)
        members.setdefault(key, []).append(place)
    own = list(members.values())
    costs = [max(prices[table.terms[place].column] for place in places) for places in own]
    if keep:
        free = {column for column, price in enumerate(prices) if price == 0.0}
        held = [any(table.terms[place].column in free for place in places) for places in own]
        costs = [0.0 if holds else cost for cost, holds in zip(costs, held, strict=True)]
    return Grouping(tuple(np.array(places, dtype=np.intp) for places in own), np.array(costs))


def _prices(table: TableEncoder, weights: PenaltyWeights | None, keep: Sequence[ColumnName] | None) -> list[float]:
    prices = [1.0] * len(table.columns)
    for column, weight in _mapping("penalty_weights", weights).items():
        check_number(f"penalty_weights[{column!r}]", weight, 0.0)
        prices[_place(table, column, "penalty_weights")] = float(weight)
    for column in _sequence("keep", keep):
        prices[_place(table, column, "keep")] = 0.0
    return prices


def _groups(table: TableEncoder, groups: FeatureGroups | None) -> dict[int, int]:
    group_of: dict[int, int] = {}
    for number, columns in enumerate(_sequence("feature_groups", groups)):
        for column in _sequence("feature_groups", columns):
            place = _place(table, column, "feature_groups")
            if place in group_of:
                expected = "each column in one group"
                raise InputError(describe("feature_groups", expected, f"{column!r} twice", "take one out"))
            group_of[place] = number
    return group_of


def _place(table: TableEncoder, column: ColumnName, where: str) -> int:
    names = list(table.names)
    if isinstance(column, str) and column in names:
        return names.index(column)
    if isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < len(names):
        return int(column)
    shown = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
    raise InputError(describe(where, f"names of columns ({shown})", repr(column), "correct the name"))


def _sequence(where: str, values: Iterable[T] | None) -> list[T]:
    if values is None:
        return []
    if isinstance(values, str) or not isinstance(cast(object, values), Iterable):
        raise InputError(describe(where, "a list of columns", repr(values), "put it in brackets"))
    return list(values)


def _mapping(where: str, values: PenaltyWeights | None) -> PenaltyWeights:
    if values is None:
        return {}
    if not isinstance(cast(object, values), Mapping):
        raise InputError(describe(where, "a mapping of columns to numbers", repr(values), "give {name: weight}"))
    return values
