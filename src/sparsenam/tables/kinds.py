"""What a column is: a number, a category, levels in order, or a date; found from its cells or told by the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from sparsenam.errors import InputError, describe
from sparsenam.tables.cells import Cells
from sparsenam.tables.notices import listed
from sparsenam.tables.text import date_in, has_leading_zero, number_in

Wanted = Literal["number", "category", "ordered", "date"]
Kind = Literal["number", "category", "ordered", "date", "constant"]
Unit = Literal["", "days", "seconds"]
WORDS = get_args(Wanted)


@dataclass(frozen=True, slots=True)
class Decision:
    """The kind of a column, the unit of its numbers, and why, in words."""

    kind: Wanted
    unit: Unit
    words: str


def decide(cells: Cells, wanted: Wanted | None) -> Decision:
    """Return what the column is: what the user said, else what its cells say."""
    found = _found(cells)
    if wanted is None or wanted == found.kind:
        return found
    if wanted == "number":
        return Decision("number", found.unit, f"{found.words} (a number, as told)")
    if wanted == "date":
        return Decision("date", "days", "dates, as days since 1970-01-01 (as told)")
    return Decision(wanted, "", "a category, as told" if wanted == "category" else "levels in order, as told")


def _found(cells: Cells) -> Decision:
    match cells.stored:
        case "number":
            return Decision("number", "", "numbers")
        case "truth":
            return Decision("category", "", "truth values")
        case "date":
            return Decision("date", "days", "dates, as days since 1970-01-01 in universal time")
        case "duration":
            return Decision("number", "seconds", "durations or times of day, in seconds")
        case "levels":
            return Decision("category", "", "a category")
        case "ordered":
            return Decision("ordered", "", "a category in order, as the rank of its level")
        case "text":
            return _found_in_text(cells.values)


def _found_in_text(values: tuple[str, ...]) -> Decision:
    if values and all(number_in(value) is not None for value in values):
        coded = next((value for value in values if has_leading_zero(value)), None)
        if coded is None:
            return Decision("number", "", "text, every cell of which reads as a number")
        return Decision("category", "", f"text, a category (as a number, {coded!r} would lose its zero)")
    if values and all(date_in(value) is not None for value in values):
        return Decision("date", "days", "text, every cell of which reads as a date: days since 1970-01-01")
    return Decision("category", "", "text, a category")


def check_feature_types(
    feature_types: Mapping[str, str] | Mapping[int, str] | None, names: tuple[str, ...], *, named: bool
) -> dict[str, Wanted]:
    """Return the user's word for each column named; keys are names, or positions where the table has no names."""
    told: dict[str, Wanted] = {}
    if feature_types is None:
        return told
    if not isinstance(feature_types, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # the user's input
        got, remedy = repr(feature_types), 'write for example {"zip": "category"}'
        raise InputError(describe("feature_types", "a dictionary from column to kind", got, remedy))
    places = {} if named else dict(enumerate(names))
    for key, word in cast("Mapping[object, str]", feature_types).items():
        name = places.get(cast("int", key), key)
        if name not in names:
            expected = f"names of columns ({listed(list(names))})" if named else f"positions below {len(names)}"
            raise InputError(describe("feature_types", expected, repr(key), "correct or drop this key"))
        if word not in WORDS:
            remedy = f"write one of {listed(list(WORDS))}"
            raise InputError(describe(f"feature_types of column {name!r}", "a kind", repr(word), remedy))
        told[str(name)] = cast("Wanted", word)
    return told
