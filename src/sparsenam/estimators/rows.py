"""Which rows an estimator is given: a table in memory, or one in blocks of which a sample is read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import column_or_1d

from sparsenam.context import Streams
from sparsenam.errors import InputError, RowError, describe, rows_named_by, shown
from sparsenam.estimators.base import Surroundings
from sparsenam.families import Family
from sparsenam.fitting.all_rows import check_counts
from sparsenam.fitting.plan import Plan
from sparsenam.tables.blocks import SAMPLE_ROWS, Blocks, MemoryBlocks, TargetColumns, VisitedBlocks, sample_of
from sparsenam.tables.cells import cell_type_of
from sparsenam.tables.sources import blocks_of, require_named_columns, source_of
from sparsenam.threads import thread_count

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class GivenTable:
    """The rows that choose: all of them, or a sample of those in ``blocks``, with their numbers in the table."""

    X: Any
    y: ArrayLike
    weights: ArrayLike | None
    exposure: ArrayLike | None
    blocks: Blocks | None = None
    places: NDArray[np.intp] | None = None

    @property
    def among(self) -> str:
        """Where the rows that choose are a sample, the words that say so."""
        drawn, blocks = _length(self.y), self.blocks
        return "" if blocks is None or drawn >= blocks.n_rows else f" in the sample of {drawn:,} rows"


@dataclass(frozen=True, slots=True, eq=False)
class TableRequest:
    """What ``fit`` was called with; ``at_once`` says that all rows are needed at once, as given folds need them."""

    X: object
    y: ArrayLike
    weights: ArrayLike | None
    exposure: ArrayLike | None
    at_once: bool


def given_table(request: TableRequest, plan: Plan, surroundings: Surroundings) -> GivenTable:
    """Return the table as it is, or for one of more than 200,000 rows a sample of them and all in blocks.

    A table that is not in memory has its target, weights and exposure among its columns, named by y and the others; so
    may a table in memory.
    """
    X, y, weights, exposure = request.X, request.y, request.weights, request.exposure
    strategy, parameters = plan.strategy, plan.parameters
    progress = surroundings.shown(parameters)
    jobs = thread_count(parameters.get("n_jobs"))
    given, blocks = GivenTable(X, y, weights, exposure), _outside(X, y, weights, exposure)
    if blocks is None and isinstance(y, str):
        require_named_columns(X)
        inside = TargetColumns(y, _name(weights), _name(exposure)).block(X, 0)
        given = GivenTable(inside.X, inside.y, inside.weights, inside.exposure)
    pairs, cv = parameters.get("pairs", 0), parameters.get("cv")
    needs = None
    if request.at_once:
        needs = "groups, or several labels"
    elif strategy.at_once:
        needs = strategy.at_once
    elif not strategy.fits_all_rows and blocks is not None and not isinstance(blocks, VisitedBlocks):
        needs = "a network, which is trained on files of Parquet only"
    elif not isinstance(cv, int):
        needs = "folds that are given"
    elif not isinstance(pairs, int) or pairs != 0:
        needs = "pairs"
    if blocks is not None and needs is not None:
        raise _needs_all_rows(needs)
    if blocks is None:
        rows = _length(given.y)
        if needs is not None or not strategy.fits_all_rows or rows <= SAMPLE_ROWS or _length(given.X) != rows:
            return given
        weighing, units = _of_rows(given.weights, "sample_weight", rows), _of_rows(given.exposure, "exposure", rows)
        blocks = MemoryBlocks(given.X, np.asarray(given.y), weighing, units)
    seed = Streams.from_random_state(parameters.get("random_state")).integer("sample of rows")
    blocks, rows = blocks.with_jobs(jobs), blocks.n_rows
    try:
        drawn = sample_of(blocks, seed, report=lambda done: progress.report("sample", done, rows))
    finally:
        progress.close()
    places = np.asarray(drawn.in_table, dtype=np.intp)
    sample = GivenTable(drawn.X, drawn.y, drawn.weights, drawn.exposure, blocks, places)
    for values, name in ((drawn.weights, "sample_weight"), (drawn.exposure, "exposure")):
        if values is None:
            continue
        with rows_named_by(places):
            counts = check_counts(values, name)
        if not counts.any():
            remedy = "leave out the rows where it is 0"
            raise InputError(describe(name, f"some number above 0{sample.among}", "none", remedy))
    return sample


def require_in_memory(X: object, needs: str) -> None:
    """Raise where a table is not in memory, for a fit that needs all its rows at once."""
    if not isinstance(X, np.ndarray) and source_of(X) is not None:
        raise _needs_all_rows(needs)


def _needs_all_rows(needs: str) -> InputError:
    expected, remedy = "a fit that reads its rows block by block", "read a table of some rows into memory"
    return InputError(describe("a table that is not in memory", expected, needs, f"leave that out, or {remedy}"))


def with_all_classes(given: GivenTable) -> GivenTable:
    """Return a table in memory as it is, without a sample of its rows, where the sample lacks a class."""
    blocks = given.blocks
    if not isinstance(blocks, MemoryBlocks):
        return given
    check_labels(blocks.y)
    if len(set(blocks.y.tolist())) == len(set(np.asarray(given.y).tolist())):
        return given
    return GivenTable(blocks.X, blocks.y, blocks.weights, blocks.exposure)


def _outside(X: object, y: ArrayLike, weights: ArrayLike | None, exposure: ArrayLike | None) -> Blocks | None:
    """Return the blocks of a table that is not in memory, None for one that is."""
    if isinstance(X, np.ndarray):
        return None
    if not isinstance(y, str):
        if source_of(X) is None:
            return None
        expected = "the name of the target's column, for a table that is not in memory"
        raise InputError(describe("y", expected, type(y).__name__, "write for example fit(table, 'price')"))
    return blocks_of(X, TargetColumns(y, _name(weights), _name(exposure)))


def _name(column: ArrayLike | None) -> str | None:
    """Return the name of a column of weights or exposures, None where there is none."""
    if column is None or isinstance(column, str):
        return column
    expected, got = "the name of a column, as y is one", type(column).__name__
    raise InputError(describe("sample_weight or exposure", expected, got, "name a column of the table"))


def _of_rows(values: ArrayLike | None, name: str, rows: int) -> Matrix | None:
    """Return one number for each row, where they are given."""
    if values is None:
        return None
    given = np.asarray(values)
    if given.shape != (rows,):
        raise InputError(describe(name, f"{rows} numbers", f"shape {given.shape}", "give one for each row"))
    return check_counts(given, name)


def is_matrix(values: Any) -> bool:
    """Return whether a target has several numbers for each row."""
    shape = getattr(values, "shape", None)
    if isinstance(shape, tuple):
        return len(cast("tuple[Any, ...]", shape)) > 1
    rows = cast("list[Any]", values) if isinstance(values, list) else []
    first: Any = rows[0] if rows else None
    return isinstance(first, list | tuple)


def name_of(y: Any, columns: Collection[str]) -> str | None:
    """Return the name of a target that has one: a column's, or that of a series or a table of one column.

    A target with the name of a column of X is something made of that column, which took its name along.
    """
    names = list(getattr(y, "columns", ()))
    name = y if isinstance(y, str) else names[0] if len(names) == 1 else getattr(y, "name", None)
    return name if isinstance(name, str) and name and name not in columns else None


def _length(values: Any) -> int:
    """Return the number of rows of anything that has one, 0 of others, which checks will refuse."""
    shape = getattr(values, "shape", None)
    if isinstance(shape, tuple) and shape:
        return int(shape[0])  # pyright: ignore[reportUnknownArgumentType]
    return len(values) if hasattr(values, "__len__") else 0


def check_labels(y: NDArray[Any]) -> None:
    """Raise where a row has no class: None, NaN or another mark of a missing cell."""
    if y.ndim != 1 or y.dtype.kind not in "fO":
        return
    labels: list[object] = y.tolist()
    missing = np.array([cell_type_of(type(label)) == "missing" or label != label for label in labels], dtype=bool)
    if missing.any():
        got = (("none", int(np.argmax(missing))),)
        raise RowError("y", "a class in every row", got, "leave out the rows without one")


@dataclass(frozen=True, slots=True, eq=False)
class NumberTarget:
    """Targets that are numbers in the range of a family."""

    check: Callable[[ArrayLike], Matrix]
    family: Family

    def __call__(self, y: NDArray[Any]) -> tuple[Matrix, Matrix]:
        """Return y as (rows, outputs), and factors of 1."""
        numbers = self.check(y)
        target = numbers.reshape(len(numbers), -1)
        self.family.range.check(target, f"the {self.family.name} family")
        return target, np.ones(len(target))


@dataclass(frozen=True, slots=True, eq=False)
class ClassTarget:
    """Targets that are classes, with a factor of the weight for each; one output for two of them if ``binary``."""

    classes: NDArray[np.generic]
    factors: Matrix
    binary: bool

    def __call__(self, y: NDArray[Any]) -> tuple[Matrix, Matrix]:
        """Return y as 0 and 1 (rows, outputs), and the factors of the rows' classes."""
        labels = column_or_1d(y)
        check_labels(labels)
        places = np.clip(np.searchsorted(self.classes, labels), 0, self.classes.size - 1)
        unknown = self.classes[places] != labels
        if unknown.any():
            expected = f"the classes of a sample of {SAMPLE_ROWS:,} rows"
            got = ((f"{shown(labels[unknown][0])}, which it does not hold,", int(np.argmax(unknown))),)
            raise RowError("y", expected, got, "leave out rows of so rare classes")
        target = (places[:, None] == np.arange(self.classes.size)).astype(np.float64)
        return target[:, 1:] if self.binary else target, self.factors[places]
