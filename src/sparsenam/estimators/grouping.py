"""From the user's words about columns to groups of terms with prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, cast

import numpy as np

from sparsenam.errors import InputError, describe
from sparsenam.estimators.settings import check_number
from sparsenam.tables import TableEncoder
from sparsenam.tables.groups import Grouping

Column = str | int
FeatureTypes = Mapping[str, str] | Mapping[int, str]
FeatureGroups = Sequence[Sequence[Column]]
PenaltyWeights = Mapping[Column, float]
T = TypeVar("T")


def grouping_of(
    table: TableEncoder,
    groups: FeatureGroups | None,
    weights: PenaltyWeights | None,
    keep: Sequence[Column] | None,
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


def _prices(table: TableEncoder, weights: PenaltyWeights | None, keep: Sequence[Column] | None) -> list[float]:
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


def _place(table: TableEncoder, column: Column, where: str) -> int:
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
