"""A table as a problem: what kind of target it has, rows to learn from, and rows held out for the test."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparsenam.cli.tables import FileTable
from sparsenam.context import ProgressBar, ResumeFile, Streams
from sparsenam.errors import InputError, RowError, describe, nearest
from sparsenam.estimators import AdditiveEstimator, fit_with, survival_target
from sparsenam.fit.response import Classes
from sparsenam.survival import read_survival
from sparsenam.tables.columns import (
    NUMBER_WAYS,
    Cells,
    Wanted,
    as_levels,
    as_numbers,
    check_feature_types,
    decide,
    read_numbers,
    refuse_odd_cells,
)
from sparsenam.tables.text import SAID, SHAPES, likely, listed, parser_of, prefers_comma

TaskName = Literal["regression", "count", "classification", "survival"]

FEWEST_ROWS_TO_FIT = 10
FEW_VALUES = 10  # whole numbers with at most so many values are taken for classes
ROWS_A_VALUE = 5  # if each has as many rows on average
ROWS_A_CLASS = 3  # on average, without which more texts than that are taken for no classes
FAMILIES: dict[TaskName, tuple[str, ...]] = {
    "regression": ("gaussian", "huber", "quantile", "gamma", "tweedie"),
    "count": ("poisson", "negative_binomial"),
    "classification": ("auto", "binomial", "multinomial"),
    "survival": (),
}
EVENTS = {"0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """What the user says about the target: its column, and the task, family and further columns where given."""

    target: str
    task: str = "auto"
    family: str | None = None
    event: str | None = None
    exposure: str | None = None
    weights: str | None = None
    quantile: float | None = None  # level of the family quantile

    @property
    def used(self) -> tuple[tuple[str, str], ...]:
        """The columns that are not inputs, each after the option that names it."""
        options = {"--target": self.target, "--event": self.event, "--exposure": self.exposure}
        named = options | {"--weights": self.weights}
        return tuple((option, name) for option, name in named.items() if name is not None)

    @property
    def columns(self) -> list[str]:
        """The names of these columns; raise where one is named twice."""
        names = [name for _, name in self.used]
        if len(set(names)) < len(names):
            where = ", ".join(option for option, _ in self.used)
            raise InputError(describe(where, "different columns", "one twice", "correct the names"))
        return names


@dataclass(frozen=True, slots=True)
class TargetKind:
    """What is to be predicted: the task, the family of the fit, and the reason for the task."""

    task: TaskName
    family: str | None
    reason: str
    quantile: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRows:
    """The table (rows, columns), y (rows,), exposure and weights (rows,) if there are, and the rows' numbers."""

    table: FileTable
    y: Classes
    exposure: NDArray[np.float64] | None
    numbers: NDArray[np.intp]
    weights: NDArray[np.float64] | None = None

    def take(self, rows: NDArray[np.intp]) -> LabelledRows:
        exposure, weights = (None if each is None else each[rows] for each in (self.exposure, self.weights))
        return LabelledRows(self.table.take(rows), self.y[rows], exposure, self.numbers[rows], weights)

    def named(self) -> AbstractContextManager[None]:
        """Let errors within name the file, and rows by their numbers in it."""
        return self.table.naming_rows(self.numbers)


@dataclass(frozen=True, slots=True, eq=False)
class FileProblem:
    """What is to be predicted from which columns, how many rows are fitted and held out, and where they came from.

    ``seen`` has rows to fit whose y a prediction without columns is made from.
    """

    kind: TargetKind
    target: str
    names: tuple[str, ...]
    counts: dict[str, int]
    seen: LabelledRows
    notes: tuple[str, ...]
    source: dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class TableProblem(FileProblem):
    """A table in memory: all rows whose target is known, and of these the rows to fit and those held out."""

    rows: LabelledRows
    held_out: LabelledRows | None = None

    def fit(self, estimator: AdditiveEstimator, resume: ResumeFile | None = None) -> None:
        """Fit an estimator on the rows to fit, with a progress bar on a terminal."""
        rows = self.seen
        with rows.named():
            told = {"sample_weight": rows.weights, "exposure": rows.exposure}
            fit_with(estimator, rows.table.native, rows.y, progress=ProgressBar(), resume=resume, **told)

    def held(self) -> LabelledRows | None:
        return self.held_out

    def some(self, count: int) -> LabelledRows:
        return self.seen.take(np.arange(min(count, len(self.seen.y))))


def dropping(table: FileTable, names: Sequence[str], used: Collection[str | None]) -> FileTable:
    """Return a table without the columns that the user leaves out; raise where one is not there, or has a part."""
    for name in names:
        if table.require(name, "--drop") in used:
            raise InputError(describe("--drop", "columns that are not used", repr(name), "take it out of one option"))
    return table.without(names) if names else table


def pose(table: FileTable, request: TargetRequest) -> TableProblem:
    """Return the problem that a request makes of a table; rows without a target are dropped."""
    for option, name in request.used:
        table.require(name, option)
    named, notes = request.columns, list(table.notes)
    with table.naming_rows():
        missing = np.any([table.cells(name).missing for name in named], axis=0)
    numbers = np.flatnonzero(~missing)
    if missing.any():
        notes.append(left_out(int(missing.sum()), named))
        table = table.take(numbers)
    inputs = table.without(named)
    check_size(table.path, table.n_rows, inputs.names)
    with table.naming_rows(numbers):
        cells = table.cells(request.target)
        commas = has_commas(table)
        kind = find_kind(cells, request, commas)
        decision = decide(cells, None, commas)
        if decision.doubt and kind.task != "classification":
            said = f"such as {decision.doubt!r} read in two ways; taken as {SHAPES[decision.writing]}"
            notes.append(f"target {request.target!r}: cells {said}.")
        if kind.task == "classification" and (alike := _spelt_alike(cells.values)):
            notes.append(f"Classes of {request.target!r} that differ by capitals only: {', '.join(alike[:5])}.")
        y = classes_of(cells) if kind.task == "classification" else numbers_of(cells, "--target", commas)
        if request.event is not None:
            y = survival_target(_events_of(table.cells(request.event)), y)
        exposure, weights = (
            None if name is None else numbers_of(table.cells(name), option, commas)
            for option, name in (("--exposure", request.exposure), ("--weights", request.weights))
        )
        if weights is not None and (weights < 0).any():
            row = int(np.argmax(weights < 0))
            got = ((f"{weights[row]:g}", row),)
            raise RowError(f"--weights {request.weights!r}", "numbers of at least 0", got, "correct these cells")
    rows = LabelledRows(inputs, y, exposure, numbers, weights)
    source = {"file": table.path.name, "digest": table.digest.hex()} | ({"reading": " ".join(notes)} if notes else {})
    counts = {"fit": len(y), "test": 0}
    return TableProblem(kind, request.target, inputs.names, counts, rows, tuple(notes), source, rows)


def left_out(count: int, columns: list[str]) -> str:
    """Return the sentence about rows in which some columns are missing."""
    return f"{count:,} row{'s' if count > 1 else ''} without {listed(columns)} left out."


def check_size(path: Path, n_rows: int, names: Sequence[str]) -> None:
    """Raise where a table has too few rows with a target, or no columns to predict from."""
    if n_rows < FEWEST_ROWS_TO_FIT:
        expected, got = f"at least {FEWEST_ROWS_TO_FIT} rows with a target", f"{n_rows} rows"
        raise InputError(describe(str(path), expected, got, "give more rows"))
    if not names:
        raise InputError(describe(str(path), "columns besides the target", "none", "give a wider table"))


def _spelt_alike(values: Sequence[str]) -> list[str]:
    """Return the texts that are one but for small and capital letters, those of each in one text."""
    by_letters: dict[str, list[str]] = {}
    for value in sorted(values):
        by_letters.setdefault(value.casefold(), []).append(value)
    return [" and ".join(map(repr, alike)) for alike in by_letters.values() if len(alike) > 1]


def has_commas(table: FileTable) -> bool:
    """Return whether columns of text have decimal commas, and none a decimal point."""
    return prefers_comma(cells.values for name in table.names if (cells := table.cells(name)).stored == "text")


def settled_types(problem: TableProblem, types: Mapping[str, str] | None) -> dict[str, Wanted]:
    """Return the kinds of columns for the fit: those asked for, and those that some rows alone would not show.

    A cell that cannot be read is found here, before the fit, in whichever row it is.
    """
    whole, fitted = problem.rows.table, problem.seen.table
    wanted = check_feature_types(types, whole.names, named=True)
    commas, fitted_commas = has_commas(whole), has_commas(fitted)
    with problem.rows.named():
        for name in whole.names:
            cells = whole.cells(name)
            asked = wanted.get(name)
            if cells.missing.all():
                continue  # the fit says what is wrong with it
            decision = decide(cells, asked, commas)
            if decision.kind == "category" and asked is None and cells.stored == "text":
                refuse_odd_cells(cells)
            if decision.kind in ("number", "date"):
                as_numbers(cells, decision.unit, decision.writing)
            if asked is not None or cells.stored != "text":
                continue
            some = decide(fitted.cells(name), None, fitted_commas)
            if (some.kind, some.writing) != (decision.kind, decision.writing):
                said: list[Wanted] = [words for words, ways in SAID.items() if decision.writing in ways]
                wanted[name] = said[0] if said else decision.reads
    return wanted


def split(problem: TableProblem, share: float, seed: int) -> TableProblem:
    """Return a problem with some of its rows held out: every class, or the events, in its share of both parts."""
    check_share(share)
    if share == 0:
        return problem
    rows = problem.rows
    generator = Streams(seed).generator("held out")
    strata: Classes = np.zeros(len(rows.y), dtype=np.intp)
    if problem.kind.task in ("classification", "survival"):
        strata = rows.y if problem.kind.task == "classification" else read_survival(rows.y)[:, 0]
    held = np.zeros(len(rows.y), dtype=np.bool_)
    for stratum in np.unique(strata):
        members = generator.permutation(np.flatnonzero(strata == stratum))
        # rounded at random, so that rare classes are not always left out
        count = int(share * members.size) + (generator.random() < share * members.size % 1)
        held[members[: min(count, max(members.size - 1, 0))]] = True
    if not held.any():
        held[generator.integers(len(rows.y))] = True
    seen, held_out = rows.take(np.flatnonzero(~held)), rows.take(np.flatnonzero(held))
    return replace(problem, seen=seen, held_out=held_out, counts={"fit": len(seen.y), "test": len(held_out.y)})


def check_share(share: float) -> None:
    """Raise unless a share of rows can be held out."""
    if not 0 <= share < 1:
        raise InputError(describe("--test", "a share from 0 to below 1", f"{share:g}", "write for example 0.2"))


def find_kind(cells: Cells, request: TargetRequest, commas: bool = False) -> TargetKind:
    """Return the kind that was asked for, else the one that the target's cells, shape (rows,), suggest."""
    known: dict[str, TaskName] = {name: name for name in FAMILIES}
    task, reason = known.get(request.task), "as asked for"
    if task is None and request.task != "auto":
        *names, last = FAMILIES
        remedy = nearest(request.task, FAMILIES, "choose one")
        raise InputError(describe("--task", f"auto, {', '.join(names)} or {last}", repr(request.task), remedy))
    if task is None:
        task, reason = _guess(cells, request, commas)
    _check_options(task, request)
    family = request.family or next(iter(FAMILIES[task]), None)
    return TargetKind(task, family, reason, request.quantile)


def _check_options(task: TaskName, request: TargetRequest) -> None:
    family, families = request.family, FAMILIES[task]
    if request.quantile is not None and family != "quantile":
        got = f"--family {family or next(iter(families), task)}"
        raise InputError(describe("--quantile", "--family quantile or no other", got, "leave one of them out"))
    if request.quantile is not None and not 0.0 < request.quantile < 1.0:
        expected, got = "a level above 0 and below 1", f"{request.quantile:g}"
        raise InputError(describe("--quantile", expected, got, "0.5 is the median"))
    if (request.event is not None) != (task == "survival"):
        got = "no column of events" if task == "survival" else f"--event for {task}"
        remedy = "name the column that says whether the event happened" if task == "survival" else "leave it out"
        raise InputError(describe("--event", "a column exactly for --task survival", got, remedy))
    if request.exposure is not None and task != "count" and family not in ("gamma", "tweedie"):
        expected = "a task with a rate: --task count, or --family gamma or tweedie"
        raise InputError(describe("--exposure", expected, task, "leave it out or choose one of these"))
    if family is not None and family not in families:
        expected = f"one of {', '.join(families)} for {task}" if families else f"none for {task}"
        every = [name for names in FAMILIES.values() for name in names]
        remedy = nearest(family, set(every) - {family}, "choose one or leave it out")
        raise InputError(describe("--family", expected, repr(family), remedy))


def _guess(cells: Cells, request: TargetRequest, commas: bool) -> tuple[TaskName, str]:
    if request.event is not None:
        return "survival", "an event column was named"
    for task, families in FAMILIES.items():
        if request.family is not None and request.family in families and request.family != "auto":
            return task, f"the family is {request.family}"
    if request.exposure is not None:
        return "count", "an exposure was named"
    kind = decide(cells, None).kind
    if kind == "date":
        remedy = "name a column of numbers or classes"
        raise InputError(describe(f"target {cells.name!r}", "numbers or classes", "dates", remedy))
    if kind != "number":
        _refuse_slips(cells)
        levels = np.unique(cells.numbers[~cells.missing]).size if cells.stored == "truth" else len(cells.values)
        rows = int((~cells.missing).sum())
        if levels > FEW_VALUES and ROWS_A_CLASS * levels > rows:
            got = f"{levels} different texts in {rows} rows, such as {cells.values[0]!r}"
            remedy = "mend the cells if they are numbers, or ask for --task classification"
            raise InputError(describe(f"target {cells.name!r}", "numbers, or classes of several rows", got, remedy))
        return "classification", f"the target holds {levels} classes that are no numbers"
    numbers = read_numbers(cells, commas)
    numbers = numbers[~np.isnan(numbers)]
    values = np.unique(numbers)
    if values.size == 2:
        return "classification", f"the target holds two values, {values[0]:g} and {values[1]:g}"
    is_whole = bool((values == np.round(values)).all())
    counts = ", --task count if they count" if is_whole and values.size and values[0] >= 0 else ""
    if is_whole and 1 < values.size <= FEW_VALUES and numbers.size >= ROWS_A_VALUE * values.size:
        return (
            "classification",
            f"the target holds {values.size} whole numbers; --task regression if they measure" + counts,
        )
    if values.size == 1:
        return "regression", f"the target holds one value, {values[0]:g}"
    if is_whole and values.size and values[0] >= 0:
        return "regression", f"{values.size} different whole numbers; --task count if they count something"
    return "regression", f"the target holds {values.size} different numbers"


def _refuse_slips(cells: Cells) -> None:
    """Raise where a target is of classes only because of a few texts among many different numbers, or dates."""
    if cells.stored != "text":
        return
    counts = np.bincount(cells.codes[cells.codes >= 0], minlength=len(cells.values))
    found, odd = likely(cells.values)
    if found is None or not odd:
        return
    name = "numbers" if found.kind == "number" else "dates"
    reads = np.array([value not in set(odd) for value in cells.values], dtype=np.bool_)
    parse = parser_of(found.writing, is_date=found.kind == "date")
    different = {parse(value) for value in cells.values} - {None}
    are_classes = len(different) <= FEW_VALUES and all(value == round(value or 0.0) for value in different)
    if are_classes or counts[reads].sum() <= counts[~reads].sum():
        return
    row = int(np.argmax(np.isin(cells.codes, np.flatnonzero(~reads))))
    got, more = f"the text {cells.values[cells.codes[row]]!r}", f" among {len(different)} different {name}"
    remedy = "mend this cell or leave it empty, or say --task classification"
    raise RowError(f"target {cells.name!r}", f"{name}, or classes", ((got, row),), remedy, more)


def numbers_of(cells: Cells, option: str, commas: bool = False) -> NDArray[np.float64]:
    """Return the cells as numbers (rows,), NaN where missing; raise one sentence that names a row which has none."""
    kind = decide(cells, None, commas).kind
    if cells.stored == "text" and kind != "number" and cells.values:
        odd = set(likely(cells.values, NUMBER_WAYS)[1])
        odds = np.array([*(value in odd for value in cells.values), False], dtype=np.bool_)
        row = int(np.argmax(odds[cells.codes]))
        got = f"the text {cells.values[cells.codes[row]]!r}"
        raise RowError(f"{option} {cells.name!r}", "numbers", ((got, row),), "mend this cell or name another column")
    if kind not in ("number", "category") or (cells.stored == "text" and kind != "number"):
        got = f"a column of kind {kind}"
        raise InputError(describe(f"{option} {cells.name!r}", "numbers", got, "name another column"))
    return read_numbers(cells, commas)


def classes_of(cells: Cells) -> NDArray[np.generic]:
    """Return each row's class (rows,): whole numbers where all are, text otherwise."""
    codes, names = as_levels(cells)
    if decide(cells, None).kind == "number":
        numbers = read_numbers(cells)
        if (numbers == np.round(numbers)).all():
            return numbers.astype(np.int64)
    return np.array(names, dtype=str)[codes]


def _events_of(cells: Cells) -> NDArray[np.bool_]:
    codes, names = as_levels(cells)
    keys = [name.strip().lower().removesuffix(".0") for name in names]
    unknown = [code for code, key in enumerate(keys) if key not in EVENTS]
    if unknown:
        got = ((repr(names[unknown[0]]), int(np.argmax(codes == unknown[0]))),)
        raise RowError(f"--event {cells.name!r}", "0 or 1, false or true, no or yes", got, "correct these cells")
    return np.array([EVENTS[key] for key in keys], dtype=np.bool_)[codes]
