"""The rows of a table in blocks that are fitted, and those that are held out of the fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Generic, Literal

import numpy as np

from sparsenam.errors import InputError, describe
from sparsenam.tables.blocks import Block, ColumnBlocks, Report, State, Sum, TargetColumns
from sparsenam.tables.cells import from_array
from sparsenam.tables.columns import Array, Mask

Part = Literal["fit", "held"]


@dataclass(frozen=True, slots=True)
class Draw:
    """Which rows are held out: a ``share`` of those whose target (and weights, and exposure) is known.

    A row's random key depends on the seed, the block's number and the row's place in it, as those of `sample_of` do.
    """

    columns: TargetColumns
    share: float
    seed: int

    def rows(self, block: Block) -> tuple[Mask, Mask]:
        """Return which rows of a block are fitted and which are held out, each (rows,)."""
        known = np.ones(len(block), dtype=np.bool_)
        given = [values for values in (block.y, block.weights, block.exposure) if values is not None]
        for name, values in zip(self.columns.used, given, strict=True):
            known &= ~from_array(name, values).missing
        held = np.random.default_rng((self.seed, block.number)).random(len(block)) < self.share
        return known & ~held, known & held


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows are fitted, held out, and without a target."""

    fit: int
    held: int
    unknown: int

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(self.fit + other.fit, self.held + other.held, self.unknown + other.unknown)


def count_rows(blocks: ColumnBlocks, draw: Draw) -> RowCounts:
    """Return how many rows are which: one pass, over target, weights and exposure only."""
    return blocks.only(()).reduce(counted, draw)


def counted(block: Block, draw: Draw) -> RowCounts:
    """Return how many rows of a block are which."""
    fit, held = draw.rows(block)
    return RowCounts(int(fit.sum()), int(held.sum()), int((~fit & ~held).sum()))


@dataclass(frozen=True, slots=True, eq=False)
class SomeRows:
    """The rows of one part of a table; ``n_rows`` is how many `count_rows` found."""

    blocks: ColumnBlocks
    draw: Draw
    part: Part
    n_rows: int

    @property
    def n_blocks(self) -> int:
        return self.blocks.n_blocks  # some may have no row of this part

    @property
    def names(self) -> tuple[str, ...]:
        return self.blocks.names

    def only(self, names: Iterable[str]) -> SomeRows:
        return replace(self, blocks=self.blocks.only(names))

    def with_jobs(self, jobs: int) -> SomeRows:
        return replace(self, blocks=self.blocks.with_jobs(jobs))

    @property
    def target_columns(self) -> TargetColumns:
        return self.draw.columns

    def reduce(self, function: Callable[[Block, State], Sum], state: State, report: Report = None) -> Sum:
        everything = self.blocks.n_rows

        def scaled(done: int) -> None:
            if report is not None:  # the rows done so far are known of the whole table only
                report(self.n_rows * done // everything)

        found = self.blocks.reduce(of_part, (function, state, self.draw, self.part), scaled)
        if found.value is None:
            raise InputError(describe("table", "rows with a target", "none", "give a table with such rows"))
        return found.value


@dataclass(frozen=True, slots=True, eq=False)
class PartSum(Generic[Sum]):
    """A sum over some blocks, None where they have no row of a part."""

    value: Sum | None

    def __add__(self, other: PartSum[Sum]) -> PartSum[Sum]:
        if self.value is None or other.value is None:
            return other if self.value is None else self
        return PartSum(self.value + other.value)


def of_part(block: Block, state: tuple[Callable[[Block, State], Sum], State, Draw, Part]) -> PartSum[Sum]:
    """Return the sum over a block's rows of a part."""
    function, inner, draw, part = state
    fit, held = draw.rows(block)
    rows = np.flatnonzero(fit if part == "fit" else held)
    if not rows.size:
        return PartSum(None)
    some = block.take(rows)
    return PartSum(function(replace(some, y=_plain(some.y)), inner))


def _plain(values: Array) -> Array:
    """Return objects of one type, as a column with missing cells is read, in numpy's type for them."""
    return np.array(values.tolist()) if values.dtype.kind == "O" else values
