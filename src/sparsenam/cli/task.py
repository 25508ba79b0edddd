"""What kind of question the target asks: guessed from its cells, in words, or told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.tables.cells import Cells
from sparsenam.tables.columns import as_levels, as_numbers, decide

Kind = Literal["regression", "count", "classification", "survival"]
KINDS = get_args(Kind)
FEW_VALUES = 10  # whole numbers with at most so many values are taken for classes
ROWS_A_VALUE = 5  # if each has as many rows on average
FAMILIES: dict[Kind, tuple[str, ...]] = {
    "regression": ("gaussian", "huber", "quantile", "gamma", "tweedie"),
    "count": ("poisson", "negative_binomial"),
    "classification": ("auto", "binomial", "multinomial"),
    "survival": (),
}


@dataclass(frozen=True, slots=True)
class Task:
    """The kind of question, the family of the fit, and why, in words."""

    kind: Kind
    family: str | None
    why: str


def find_task(cells: Cells, wanted: str, family: str | None, *, has_event: bool, has_exposure: bool) -> Task:
    """Return what was told, else what the target's cells, shape (rows,) with those missing, suggest."""
    if wanted != "auto" and wanted not in KINDS:
        expected = f"auto, {', '.join(KINDS[:-1])} or {KINDS[-1]}"
        raise InputError(describe("--task", expected, repr(wanted), "choose one"))
    kind, why = (cast("Kind", wanted), "as told") if wanted != "auto" else ("regression", "")
    if wanted == "auto":
        kind, why = _guess(cells, family, has_event=has_event, has_exposure=has_exposure)
    if has_event != (kind == "survival"):
        got = "no column of events" if kind == "survival" else f"--event for {kind}"
        remedy = "name the column that says whether the event happened" if kind == "survival" else "leave it out"
        raise InputError(describe("--event", "a column exactly for --task survival", got, remedy))
    logarithmic = kind == "count" or family in ("gamma", "tweedie")
    if has_exposure and not logarithmic:
        expected = "a task with a rate: --task count, or --family gamma or tweedie"
        raise InputError(describe("--exposure", expected, kind, "leave it out or choose one of these"))
    allowed = FAMILIES[kind]
    if family is not None and family not in allowed:
        expected = f"one of {', '.join(allowed)} for {kind}" if allowed else f"none for {kind}"
        raise InputError(describe("--family", expected, repr(family), "choose one or leave it out"))
    return Task(kind, family or (allowed[0] if allowed else None), why)


def _guess(cells: Cells, family: str | None, *, has_event: bool, has_exposure: bool) -> tuple[Kind, str]:
    if has_event:
        return "survival", "an event column was named"
    for kind, families in FAMILIES.items():
        if family is not None and family in families and family != "auto":
            return kind, f"the family is {family}"
    if has_exposure:
        return "count", "an exposure was named"
    found = decide(cells, None).kind
    if found == "date":
        remedy = "name a column of numbers or classes"
        raise InputError(describe(f"target {cells.name!r}", "numbers or classes", "dates", remedy))
    if found != "number":
        levels = np.unique(cells.numbers[~cells.missing]).size if cells.stored == "truth" else len(cells.values)
        return "classification", f"the target holds {levels} classes that are no numbers"
    numbers = as_numbers(cells, "")
    numbers = numbers[~np.isnan(numbers)]
    values = np.unique(numbers)
    if values.size == 2:
        return "classification", f"the target holds two values, {values[0]:g} and {values[1]:g}"
    whole = bool((values == np.round(values)).all())
    if whole and values.size <= FEW_VALUES and numbers.size >= ROWS_A_VALUE * values.size:
        return "classification", f"the target holds {values.size} whole numbers; --task regression if they measure"
    if whole and values.size and values[0] >= 0:
        return "regression", f"{values.size} different whole numbers; --task count if they count something"
    return "regression", f"the target holds {values.size} different numbers"


def numbers_of(cells: Cells, option: str) -> NDArray[np.float64]:
    """Return the cells as numbers (rows,), NaN where missing; raise one sentence when they are none."""
    if decide(cells, None).kind not in ("number", "category") or (cells.stored == "text" and _is_words(cells)):
        got = f"{cells.values[0]!r}" if cells.values else decide(cells, None).description
        raise InputError(describe(f"{option} {cells.name!r}", "numbers", got, "name another column"))
    return as_numbers(cells, "")


def classes_of(cells: Cells) -> NDArray[np.generic]:
    """Return each row's class (rows,): whole numbers where all are, text otherwise."""
    codes, names = as_levels(cells)
    if decide(cells, None).kind == "number":
        numbers = as_numbers(cells, "")
        if (numbers == np.round(numbers)).all():
            return numbers.astype(np.int64)
    return np.array(names, dtype=str)[codes]


def events_of(cells: Cells) -> NDArray[np.bool_]:
    """Return whether the event happened in each row (rows,): from 0/1, false/true or no/yes."""
    codes, names = as_levels(cells)
    meanings = {"0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
    unknown = [name for name in names if name.strip().lower() not in meanings | {"0.0": 0, "1.0": 0}]
    if unknown:
        got, expected = repr(unknown[0]), "0 or 1, false or true, no or yes"
        raise InputError(describe(f"--event {cells.name!r}", expected, got, "correct these cells"))
    happened = np.array([meanings[name.strip().lower().removesuffix(".0")] for name in names], dtype=np.bool_)
    return happened[codes]


def _is_words(cells: Cells) -> bool:
    return decide(cells, None).kind != "number"
