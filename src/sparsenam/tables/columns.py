"""One column: its cells as read, what was decided about it during the fit, and its cells as numbers from then on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Bounds, Count, Mask, Positive, Vector
from sparsenam.errors import InputError, RowError, describe, nearest
from sparsenam.tables.text import (
    SAID,
    SHAPES,
    Writing,
    date_key,
    find_writing,
    has_leading_zero,
    likely,
    listed,
    number_in,
    number_key,
    parser_of,
)

Array = NDArray[np.generic]
Codes = NDArray[np.intp]
Stored = Literal["number", "truth", "date", "duration", "text", "levels", "ordered"]
AS_NUMBERS = ("number", "truth", "date", "duration")


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of one column.

    ``numbers`` (rows,), NaN where missing, for numbers, truth values (0, 1), dates (days) and durations
    (seconds); ``codes`` (rows,) into ``values``, -1 where missing, for text, for levels declared by the table
    and for levels declared in order. ``markers`` are the texts that were taken as missing.
    """

    name: str
    stored: Stored
    numbers: Vector = field(default_factory=lambda: np.empty(0))
    codes: Codes = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    values: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()

    @property
    def missing(self) -> Mask:
        return np.isnan(self.numbers) if self.stored in AS_NUMBERS else self.codes < 0


@dataclass(frozen=True, slots=True)
class FarValues:
    """The first few values of a column that are far from all others, the cells of each, and how many there are."""

    values: Annotated[tuple[float, ...], Bounds(1)]
    counts: Annotated[tuple[Positive, ...], Bounds(1)]
    n_values: Positive


Wanted = Literal["number", "category", "ordered", "date", "decimal comma", "decimal point", "day first", "month first"]
Reads = Literal["number", "category", "ordered", "date"]
Kind = Literal["number", "category", "ordered", "date", "constant"]
Unit = Literal["", "days", "seconds"]
WANTED: tuple[Wanted, ...] = get_args(Wanted)
OTHER_LEVELS = "(other levels)"
ALL_DIFFERENT = "(all different)"


@dataclass(frozen=True, slots=True)
class Column:
    """One input column as decided during the fit: facts, from which `sparsenam.tables.notes` writes sentences.

    ``stored`` is how the table stored its cells, ``reads`` what they are read as, ``asked`` what the user asked for
    where the cells show something else, ``writing`` how texts write its numbers; ``doubt`` is a cell that reads
    differently in another way of writing, and ``zero`` one that would lose its leading zero as a number. ``markers``
    are texts taken as missing. ``levels`` are in the order of their codes (most frequent first) or of their ranks;
    ``pooled`` are the rare levels that share the code of "(other levels)". ``missing_term`` is the term that says where
    the column is missing, which may be that of another column that misses the same rows. A column that does not
    ``vary`` is left out: its one level is its value; an identifier, of which nearly every cell is different, has the
    level "(all different)" and the numbers of its levels and cells; a column without any value has no level. ``far``
    are values far from all others.
    """

    name: str
    reads: Reads
    stored: Stored = "number"
    asked: Wanted | None = None
    unit: Unit = ""
    writing: Writing = "plain"
    doubt: str = ""
    zero: str = ""
    n_missing: Count = 0
    markers: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    pooled: tuple[str, ...] = ()
    varies: bool = True
    different: tuple[Positive, Positive] | None = None
    missing_term: str = ""
    far: FarValues | None = None

    @property
    def kind(self) -> Kind:
        return self.reads if self.varies else "constant"

    @property
    def is_identifier(self) -> bool:
        return self.different is not None

    @property
    def is_empty(self) -> bool:
        return not self.varies and not self.levels


def decide(cells: Cells, wanted: Wanted | None, prefers_comma: bool = False) -> Column:
    """Return what the column is: what the user asked for, else what its cells show.

    A table that ``prefers_comma`` has decimal commas in other columns, and no decimal point.
    """
    found = _found(cells, prefers_comma)
    if wanted is None or wanted == found.reads:
        return found
    if wanted in SAID and cells.stored != "text":
        return found
    if wanted in ("category", "ordered"):
        return Column(cells.name, wanted, cells.stored, wanted)
    ways = WAYS[wanted]
    best, _ = likely(cells.values, ways) if cells.stored == "text" else (None, [])
    is_date = wanted == "date" or wanted.endswith("first")
    unit: Unit = "days" if is_date else found.unit if wanted == "number" else ""
    writing = ways[0] if best is None else best.writing
    return Column(cells.name, "date" if is_date else "number", cells.stored, wanted, unit, writing)


def _found(cells: Cells, prefers_comma: bool) -> Column:
    reads, unit = FOUND[cells.stored]
    column = Column(cells.name, reads, cells.stored, unit=unit)
    found = find_writing(cells.values, prefers_comma) if cells.stored == "text" else None
    if found is None:
        return column
    if found.kind == "number" and found.writing == "plain":
        zero = next((value for value in cells.values if has_leading_zero(value)), None)
        if zero is not None:
            return replace(column, zero=zero)
    unit = "days" if found.kind == "date" else ""
    return replace(column, reads=found.kind, unit=unit, writing=found.writing, doubt=found.doubt)


FOUND: dict[Stored, tuple[Reads, Unit]] = {
    "number": ("number", ""),
    "truth": ("category", ""),
    "date": ("date", "days"),
    "duration": ("number", "seconds"),
    "text": ("category", ""),
    "levels": ("category", ""),
    "ordered": ("ordered", ""),
}
NUMBER_WAYS: tuple[Writing, ...] = ("plain", "point", "comma", "point %", "comma %")
WAYS: dict[str, tuple[Writing, ...]] = {"number": NUMBER_WAYS, "date": ("plain", "month first", "day first"), **SAID}


def check_feature_types(
    feature_types: Mapping[str, str] | Mapping[int, str] | None, names: tuple[str, ...], *, named: bool
) -> dict[str, Wanted]:
    """Return the kind that the user gives each column; keys are names, or indices where the table has no names."""
    if feature_types is None:
        return {}
    remedy = 'write for example {"zip": "category"}'
    require_mapping("feature_types", feature_types, "a dictionary from column to kind", remedy)
    wanted: dict[str, Wanted] = {}
    by_index: dict[object, str] = {} if named else dict(enumerate(names))
    known = frozenset(names)
    for key, kind in feature_types.items():
        name = by_index.get(key, key)
        if name not in known:
            expected = f"names of columns ({listed(list(names))})" if named else f"positions below {len(names)}"
            remedy = nearest(key, names, "correct or drop this key")
            raise InputError(describe("feature_types", expected, repr(key), remedy))
        if kind not in WANTED:
            remedy = nearest(kind, WANTED, f"write one of {listed(list(WANTED))}")
            raise InputError(describe(f"feature_types of column {name!r}", "a kind", repr(kind), remedy))
        wanted[str(name)] = kind
    return wanted


def require_mapping(where: str, given: object, expected: str, remedy: str) -> None:
    """Raise unless what the user gives is a mapping."""
    if not isinstance(given, Mapping):
        raise InputError(describe(where, expected, repr(given), remedy))


LARGEST_EXACT_INTEGER = 2.0**53  # up to here float64 holds every whole number
TRUTHS = {"False", "True"}
AS_TRUTHS = {"0": "False", "1": "True"}  # truth values kept as numbers, or as texts that write them
UNIT_NAMES = {"": "numbers", "days": "dates", "seconds": "durations"}


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A column in numbers (rows,), NaN where nothing is known; which cells are missing; levels never seen."""

    values: Vector
    missing: Mask
    unseen: tuple[str, ...] = ()


def read_column(column: Column, cells: Cells) -> Reading:
    """Return the cells of a table in the numbers of the fitted column."""
    if column.kind in ("number", "date"):
        return Reading(as_numbers(cells, column.unit, column.writing), cells.missing)
    if column.kind == "constant":
        return Reading(np.full(cells.missing.size, np.nan), cells.missing)
    codes, keys = levels_of(column, cells)
    code_of = dict.fromkeys(column.pooled, float(len(column.levels) - 1))
    code_of |= {level: float(code) for code, level in enumerate(column.levels)}
    looked_up = np.array([code_of.get(key, np.nan) for key in keys] + [np.nan])  # a missing cell's code is -1
    used = np.bincount(codes[codes >= 0], minlength=len(keys)) > 0
    unseen = tuple(key for key, present in zip(keys, used, strict=True) if present and key not in code_of)
    return Reading(looked_up[codes], cells.missing, unseen)


def as_numbers(cells: Cells, unit: Unit, writing: Writing = "plain") -> Vector:
    """Return the cells as finite numbers of this unit, texts by their way of writing, NaN where missing (rows,)."""
    if cells.missing.all():
        return np.full(cells.missing.size, np.nan)
    _, stored_unit = FOUND[cells.stored]
    if cells.stored in AS_NUMBERS and stored_unit != unit:
        got = UNIT_NAMES[stored_unit]
        raise InputError(describe(f"column {cells.name!r}", UNIT_NAMES[unit], got, "convert the column"))
    numbers = cells.numbers if cells.stored in AS_NUMBERS else _parsed(cells, unit, writing)
    _require_finite(cells.name, numbers)
    return numbers


def read_numbers(cells: Cells, prefers_comma: bool = False) -> Vector:
    """Return the cells of a column of numbers (rows,), texts in the way of writing that they show."""
    return as_numbers(cells, "", decide(cells, None, prefers_comma).writing)


def levels_of(column: Column, cells: Cells) -> tuple[Codes, list[str]]:
    """Return what `as_levels` does, with 0 and 1 as False and True, or the reverse, where the column has those."""
    codes, keys = as_levels(cells)
    if set(column.levels) == TRUTHS:
        return _merged(codes, [AS_TRUTHS.get(key, key) for key in keys])
    if set(column.levels) == {"0", "1"} and cells.stored == "truth":
        keys = [{"False": "0", "True": "1"}[key] for key in keys]
    return codes, keys


def as_levels(cells: Cells) -> tuple[Codes, list[str]]:
    """Return codes (rows,), -1 where missing, and the names of the levels, the same whatever the dtype."""
    if cells.stored not in AS_NUMBERS:
        return _merged(cells.codes, [level_key(value) for value in cells.values])
    _require_finite(cells.name, cells.numbers)
    present = ~cells.missing
    if (np.abs(cells.numbers[present]) > LARGEST_EXACT_INTEGER).any():
        got, remedy = "larger ones, of which some may be rounded to the same", "convert the column to text"
        raise InputError(describe(f"column {cells.name!r}", f"levels up to {LARGEST_EXACT_INTEGER:.0f}", got, remedy))
    distinct, inverse = np.unique(cells.numbers[present], return_inverse=True)
    codes = np.full(present.size, -1, dtype=np.intp)
    codes[present] = inverse
    if cells.stored == "truth":
        return codes, [str(bool(value)) for value in distinct]
    return codes, [(date_key if cells.stored == "date" else number_key)(float(value)) for value in distinct]


def level_key(text: str) -> str:
    """Return the level's name of a text: that of the number it writes, so that "1.0" and 1 are one."""
    number = None if has_leading_zero(text) else number_in(text)
    return text if number is None or not np.isfinite(number) else number_key(number)


def _merged(codes: Codes, keys: list[str]) -> tuple[Codes, list[str]]:
    distinct = list(dict.fromkeys(keys))
    if len(distinct) == len(keys):
        return codes, keys
    code_of = {key: code for code, key in enumerate(distinct)}
    lookup = np.array([*(code_of[key] for key in keys), -1], dtype=np.intp)  # a missing cell's code is -1
    return lookup[codes], distinct


def _parsed(cells: Cells, unit: Unit, writing: Writing) -> Vector:
    if unit == "seconds":
        got = f"the text {cells.values[0]!r}"
        raise InputError(describe(f"column {cells.name!r}", "durations", got, "convert the column"))
    parse = parser_of(writing, is_date=unit == "days")
    parsed = [parse(value) for value in cells.values]
    odd = np.array([*(number is None for number in parsed), False])[cells.codes]  # a missing cell's code is -1
    if odd.any():
        raise _odd_cells(cells, odd, "dates written as 2024-01-31" if unit and writing == "plain" else SHAPES[writing])
    table = [np.nan if number is None else number for number in parsed]
    return np.array([*table, np.nan])[cells.codes]


def cell_error(name: str, refused: Mask, expected: str, got: str, remedy: str) -> RowError:
    """Return the error about some cells (rows,) of a column; ``got`` is the first of them."""
    count = int(refused.sum())
    more = f" ({count} such cell{'s' if count > 1 else ''})"
    return RowError(f"column {name!r}", expected, ((got, int(np.argmax(refused))),), remedy, more)


def _odd_cells(cells: Cells, odd: Mask, expected: str, among: str = "") -> RowError:
    """Return the error about texts (rows,) in a column of numbers or dates, which names the first."""
    row, count = int(np.argmax(odd)), int(odd.sum())
    more = f" ({count} such cell{'s' if count > 1 else ''}{among})" if count > 1 or among else ""
    these = "these cells" if count > 1 else "this cell"
    remedy = f'mend or empty {these}, or fit with feature_types={{{cells.name!r}: "category"}}'
    got = ((f"the text {cells.values[int(cells.codes[row])]!r}", row),)
    return RowError(f"column {cells.name!r}", expected, got, remedy, more)


SPREAD_ROUNDING = 1e-13  # a column whose spread is below this share of its size holds one value, up to rounding
HUGE = 1e300  # in size


def _require_finite(name: str, numbers: Vector) -> None:
    infinite = np.isinf(numbers)
    if infinite.any():
        remedy = "fill these cells or leave them empty"
        raise cell_error(name, infinite, "finite numbers", "infinity (inf)", remedy)


ODD = 0.05  # share of a column's different values that may be slips; chosen without a measurement
# chosen without a measurement
MOST_LEVELS = 10_000  # a category with more levels than this is an identifier, whatever the number of rows
TIED_LEVELS = 4  # times as many levels as wanted are kept where they are equally frequent; chosen without a measurement
# text is an identifier if more than this share of so many cells, or of more, are different: a level with one row or
# two has no effect that could be told from noise; fewer cells say nothing
DIFFERENT, FEWEST_TEXT_CELLS = 0.7, 10  # chosen without a measurement
# chosen without a measurement
MANY_LEVELS = 1_000  # a declared category with more than this is one if a level has less than two rows on average


def fit_column(cells: Cells, wanted: Wanted | None, max_levels: int, prefers_comma: bool = False) -> Column:
    """Return what the column is, its levels and missing cells; a few texts among many numbers or dates are an error."""
    missing = cells.missing
    if missing.all():
        return Column(cells.name, FOUND[cells.stored][0], cells.stored, n_missing=missing.size, varies=False)
    column = decide(cells, wanted, prefers_comma)
    if wanted is None and cells.stored == "text" and column.kind == "category":
        refuse_odd_cells(cells)
    if missing.any():
        column = replace(column, n_missing=int(missing.sum()), markers=cells.markers)
    if column.kind in ("number", "date"):
        numbers = as_numbers(cells, column.unit, column.writing)
        huge = np.abs(numbers) > HUGE  # whose differences and sums would leave the range of float64
        if huge.any():
            remedy = "leave these cells empty, or divide the column by a power of ten"
            raise cell_error(cells.name, huge, f"numbers of at most {HUGE:g} in size", f"{numbers[huge][0]:g}", remedy)
        low, high = float(np.fmin.reduce(numbers)), float(np.fmax.reduce(numbers))
        # halves, since the spread of huge numbers of both signs is no finite number
        is_single = high / 2 - low / 2 <= SPREAD_ROUNDING * max(abs(low), abs(high)) / 2
        return _constant(column, f"{low:g}") if is_single else column
    if column.kind == "ordered":
        return _fit_order(column, cells)
    return _fit_category(column, cells, max_levels, wanted)


def refuse_odd_cells(cells: Cells) -> None:
    """Raise when nearly all different texts read as numbers or dates: one slip of the pen would make levels of them."""
    found, odd = likely(cells.values)
    if found is None or not odd or len(odd) > ODD * len(cells.values):
        return
    slips = np.array([*(value in set(odd) for value in cells.values), False])[cells.codes]
    kind = "numbers" if found.kind == "number" else "dates"
    if slips.any():
        raise _odd_cells(cells, slips, kind, f" among {len(cells.values) - len(odd)} different {kind}")


def _fit_order(column: Column, cells: Cells) -> Column:
    codes, keys = as_levels(cells)
    seen = np.unique(codes[codes >= 0])
    if seen.size == 1:
        return _constant(column, keys[int(seen[0])])
    if cells.stored in ("text", "levels"):
        sizes = {key: number_in(key) for key in keys}
        if None in sizes.values():
            remedy = "make it an ordered categorical, or call it a category"
            got = f"the texts {listed(keys, 3)}"
            raise InputError(describe(f"column {cells.name!r}", "levels whose order is declared", got, remedy))
        keys = sorted(keys, key=lambda key: sizes[key] or 0.0)
    return replace(column, levels=tuple(keys))


def _fit_category(column: Column, cells: Cells, max_levels: int, wanted: Wanted | None) -> Column:
    codes, keys = as_levels(cells)
    counts = np.bincount(codes[codes >= 0], minlength=len(keys))
    frequency = dict(zip(keys, counts.tolist(), strict=True))
    ranked = sorted((key for key in keys if frequency[key]), key=lambda key: (-frequency[key], key))
    n_cells = int(counts.sum())
    is_text = wanted is None and cells.stored == "text"
    many = max(MANY_LEVELS, n_cells / 2)
    if is_text:
        many = DIFFERENT * n_cells if n_cells >= FEWEST_TEXT_CELLS else MOST_LEVELS
    if len(ranked) > min(many, MOST_LEVELS):  # an identifier
        if wanted is None:
            return replace(column, varies=False, levels=(ALL_DIFFERENT,), different=(len(ranked), n_cells))
        got = f"{len(ranked)} levels in {n_cells} cells, which looks like an identifier"
        remedy = "leave the column out, or group its levels first"
        raise InputError(describe(f"column {cells.name!r}", "a category", got, remedy))
    if len(ranked) == 1:
        return _constant(column, ranked[0])
    if len(ranked) <= max_levels:
        return replace(column, levels=tuple(ranked))
    # levels that are as frequent as the last one kept are all kept, or all pooled: their names must not decide
    bar = frequency[ranked[max_levels - 2]]
    kept = [key for key in ranked if frequency[key] >= bar]
    if len(kept) > TIED_LEVELS * max_levels:
        kept = [key for key in kept if frequency[key] > bar]
    pooled = ranked[len(kept) :]
    if not kept:
        got = f"{len(ranked)} levels of {bar} row(s) each"
        remedy = "group its levels first, or leave the column out"
        raise InputError(describe(f"column {cells.name!r}", "a category with frequent levels", got, remedy))
    return replace(column, levels=(*kept, OTHER_LEVELS) if pooled else tuple(kept), pooled=tuple(pooled))


def _constant(column: Column, value: str) -> Column:
    return replace(column, varies=False, levels=(value,))
