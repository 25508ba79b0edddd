"""The fit of one column: from its cells to what is decided about it."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from sparsenam.errors import InputError, describe
from sparsenam.tables.cells import Cells, Vector
from sparsenam.tables.columns import OTHER_LEVELS, Column, as_levels, as_numbers
from sparsenam.tables.kinds import Wanted, decide
from sparsenam.tables.notices import OddCellWarning, listed
from sparsenam.tables.scaling import ROUNDING
from sparsenam.tables.text import date_in, number_in

ODD = 0.05  # share of a column's different values that may be slips
MOST_LEVELS = 10_000  # a category with more levels than this is an identifier, whatever the number of rows
TIED = 4  # times as many levels as wanted are kept where they are equally frequent
MANY_LEVELS = 1_000  # with more than this it is one if a level has less than two rows on average


def fit_column(cells: Cells, wanted: Wanted | None, max_levels: int) -> Column:
    """Return what the column is, its levels and its missing cells; a column without any cell is an error."""
    missing = cells.missing
    if missing.all():
        remedy = "leave the column out or fill it"
        raise InputError(describe(f"column {cells.name!r}", "at least one value", "missing cells only", remedy))
    decision = decide(cells, wanted)
    if wanted is None and cells.stored == "text" and decision.kind == "category":
        _warn_of_odd_cells(cells)
    column = Column(cells.name, decision.kind, decision.words, int(missing.sum()), unit=decision.unit)
    if decision.kind in ("number", "date"):
        column = _fit_numbers(column, cells)
    elif decision.kind == "ordered":
        column = _fit_order(column, cells)
    else:
        column = _fit_category(column, cells, max_levels)
    if cells.markers:
        return replace(column, words=f"{column.words}; {listed(list(cells.markers))} taken as missing")
    return column


def _warn_of_odd_cells(cells: Cells) -> None:
    """Warn when nearly all cells read as numbers or dates: one slip of the pen makes a category of them."""
    for parse, kind in ((number_in, "numbers"), (date_in, "dates")):
        odd = [value for value in cells.values if parse(value) is None]
        if odd and len(odd) <= ODD * len(cells.values):
            message = (
                f"column {cells.name!r}: of {len(cells.values)} different values all but {len(odd)} read as {kind} "
                f"({listed(odd, 3)}): taken as a category; mend these cells or set feature_types."
            )
            warnings.warn(message, OddCellWarning, stacklevel=6)


def _fit_numbers(column: Column, cells: Cells) -> Column:
    numbers = as_numbers(cells, column.unit)
    value = _single_value(numbers)
    return column if value is None else _constant(column, f"{value:g}")


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
    order = ", ".join(keys) if len(keys) <= 8 else f"{', '.join(keys[:4])} … {keys[-1]}"
    return replace(column, levels=tuple(keys), words=f"{column.words}: {order}")


def _fit_category(column: Column, cells: Cells, max_levels: int) -> Column:
    codes, keys = as_levels(cells)
    counts = np.bincount(codes[codes >= 0], minlength=len(keys))
    frequency = dict(zip(keys, counts.tolist(), strict=True))
    ranked = sorted((key for key in keys if frequency[key]), key=lambda key: (-frequency[key], key))
    n_cells = int(counts.sum())
    if len(ranked) > MOST_LEVELS or len(ranked) > max(MANY_LEVELS, n_cells / 2):
        got = f"{len(ranked)} levels in {n_cells} cells, which looks like an identifier"
        remedy = "leave the column out, or group its levels first"
        raise InputError(describe(f"column {cells.name!r}", "a category", got, remedy))
    if len(ranked) == 1:
        return _constant(column, ranked[0])
    words = f"{column.words}: {len(ranked)} levels"
    if len(ranked) == n_cells > 10:
        words += ", a different one in every cell (is it an identifier?)"
    if len(ranked) <= max_levels:
        return replace(column, levels=tuple(ranked), words=words)
    # levels that are as frequent as the last one kept are all kept, or all pooled: their names must not decide
    bar = frequency[ranked[max_levels - 2]]
    kept = [key for key in ranked if frequency[key] >= bar]
    if len(kept) > TIED * max_levels:
        kept = [key for key in kept if frequency[key] > bar]
    pooled = ranked[len(kept) :]
    if not kept:
        got = f"{len(ranked)} levels of {bar} row(s) each"
        remedy = "group its levels first, or leave the column out"
        raise InputError(describe(f"column {cells.name!r}", "a category with frequent levels", got, remedy))
    if not pooled:
        return replace(column, levels=tuple(kept), words=words)
    words += f", of which the {len(pooled)} rarest are pooled as {OTHER_LEVELS!r}"
    return replace(column, levels=(*kept, OTHER_LEVELS), pooled=tuple(pooled), words=words)


def _single_value(numbers: Vector) -> float | None:
    low, high = float(np.fmin.reduce(numbers)), float(np.fmax.reduce(numbers))
    # halves, since the spread of huge numbers of both signs is no finite number
    spread, size = high / 2 - low / 2, max(abs(low), abs(high)) / 2
    return low if spread <= ROUNDING * size else None


def _constant(column: Column, value: str) -> Column:
    outcome = "left out" if not column.n_missing else "only where it is missing counts"
    words = f"{column.words}; one single value ({value}): {outcome}"
    return replace(column, kind="constant", words=words, levels=(value,))
