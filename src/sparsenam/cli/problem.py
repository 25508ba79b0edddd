"""A table as a problem: columns to learn from, the target, and rows held out for the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.cli.table import Table
from sparsenam.cli.task import Task, classes_of, events_of, find_task, numbers_of
from sparsenam.errors import InputError, describe
from sparsenam.estimators import survival_target
from sparsenam.streams import Streams
from sparsenam.tables.cells import Cells
from sparsenam.tables.text import listed

FEWEST_ROWS = 10


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user said about a table's columns."""

    target: str
    task: str = "auto"
    family: str | None = None
    event: str | None = None
    exposure: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some rows of a problem: the table (rows, features), y (rows,) and the exposure (rows,), if there is one."""

    table: Table
    y: NDArray[Any]
    exposure: NDArray[np.float64] | None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.y)

    def take(self, rows: NDArray[np.intp]) -> Part:
        """Return some of the rows."""
        return Part(self.table.take(rows), self.y[rows], None if self.exposure is None else self.exposure[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """All rows whose target is known, the task, and what should be said about them."""

    task: Task
    target: str
    all: Part
    notes: tuple[str, ...]


def pose(table: Table, wishes: Wishes) -> Problem:
    """Return the problem that the wishes make of a table; rows without a target are dropped."""
    named = [("--target", wishes.target), ("--event", wishes.event), ("--exposure", wishes.exposure)]
    asked = [table.require(name, option) for option, name in named if name is not None]
    if len(set(asked)) < len(asked):
        raise InputError(
            describe("--target, --event and --exposure", "different columns", "one twice", "correct the names")
        )
    missing = np.any([table.cells(name).missing for name in asked], axis=0)
    notes: list[str] = []
    if missing.any():
        count = int(missing.sum())
        notes.append(f"{count} row{'s' if count > 1 else ''} without {listed(asked)} left out.")
        table = table.take(np.flatnonzero(~missing))
    if table.rows < FEWEST_ROWS:
        got = f"{table.rows} rows"
        raise InputError(describe("the table", f"at least {FEWEST_ROWS} rows with a target", got, "give more rows"))
    features = table.without(asked)
    if not features.names:
        raise InputError(describe("the table", "columns besides the target", "none", "give a wider table"))
    exposed = wishes.exposure is not None
    cells = table.cells(wishes.target)
    task = find_task(cells, wishes.task, wishes.family, has_event=wishes.event is not None, has_exposure=exposed)
    y = _target(table, cells, task, wishes)
    exposure = numbers_of(table.cells(wishes.exposure), "--exposure") if wishes.exposure is not None else None
    return Problem(task, wishes.target, Part(features, y, exposure), tuple(notes))


def _target(table: Table, cells: Cells, task: Task, wishes: Wishes) -> NDArray[Any]:
    if task.kind == "classification":
        return classes_of(cells)
    numbers = numbers_of(cells, "--target")
    if task.kind != "survival":
        return numbers
    assert wishes.event is not None
    return survival_target(events_of(table.cells(wishes.event)), numbers)


def split(problem: Problem, share: float, seed: int) -> tuple[Part, Part | None]:
    """Return the rows to fit on and those held out: every class, or the events, in its share of both."""
    if not 0 <= share < 1:
        raise InputError(describe("--test", "a share from 0 to below 1", f"{share:g}", "write for example 0.2"))
    part = problem.all
    if share == 0:
        return part, None
    generator = Streams(seed).generator("held out")
    labels = _strata(problem)
    held = np.zeros(part.rows, dtype=np.bool_)
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        held[rows[: _rounded(share * rows.size, rows.size, generator.random)]] = True
    if not held.any():
        held[generator.integers(part.rows)] = True
    return part.take(np.flatnonzero(~held)), part.take(np.flatnonzero(held))


def _strata(problem: Problem) -> NDArray[Any]:
    y = problem.all.y
    if problem.task.kind == "classification":
        return y
    return y["event"] if problem.task.kind == "survival" else np.zeros(len(y), dtype=np.intp)


def _rounded(wanted: float, rows: int, draw: Callable[[], float]) -> int:
    """Return a whole number whose mean is the one wanted, so that rare classes are not always left out."""
    return min(int(wanted) + (draw() < wanted % 1), max(rows - 1, 0))
