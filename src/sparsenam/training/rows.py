"""Rows of a table that is not in memory, as a training reads them: some blocks' worth at a time, in random order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Streams
from sparsenam.smooth.all_rows import Reader
from sparsenam.tables.blocks import Block, VisitedBlocks
from sparsenam.tables.sample import Matrix, Vector

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRows:
    """Rows in memory: x (terms, rows), target (rows, outputs) and weights (rows,)."""

    x: Matrix
    target: Matrix
    weights: Vector

    def __len__(self) -> int:
        return self.weights.size

    def take(self, rows: Indices | slice) -> TrainingRows:
        return TrainingRows(self.x[:, rows], self.target[rows], self.weights[rows])

    def followed_by(self, other: TrainingRows) -> TrainingRows:
        return TrainingRows(
            np.concatenate([self.x, other.x], axis=1),
            np.concatenate([self.target, other.target]),
            np.concatenate([self.weights, other.weights]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Which rows of each block are held out: a share of them, drawn from a stream of random numbers."""

    share: float
    streams: Streams

    def rows(self, number: int, length: int) -> tuple[Indices, Indices]:
        """Return the rows of a block that are trained on and those that are held out."""
        order = self.streams.generator(f"validation/{number}").permutation(length)
        held = round(self.share * length)
        return np.sort(order[held:]), np.sort(order[:held])


@dataclass(frozen=True, slots=True, eq=False)
class TrainingBlocks:
    """All rows of a table in blocks, and how a block is read on the scale of the fit.

    ``terms`` (terms,) says which of the encoded terms the rows of x are; weights are divided by ``unit``. Of rows that
    are split, ``validates`` says whether these are the held-out ones.
    """

    blocks: VisitedBlocks
    read: Reader
    terms: Indices
    unit: float = 1.0
    held_out: HeldOut | None = None
    validates: bool = False

    @property
    def n_rows(self) -> int:
        """The number of rows, those of weight 0 included."""
        share = 0.0 if self.held_out is None else self.held_out.share
        return max(1, round((share if self.validates else 1.0 - share) * self.blocks.n_rows))

    def split(self, share: float, streams: Streams) -> tuple[Self, Self]:
        """Return the rows to train on and a share that is held out."""
        held_out = HeldOut(share, streams)
        return replace(self, held_out=held_out), replace(self, held_out=held_out, validates=True)

    def in_order(self) -> Iterator[TrainingRows]:
        for block in self.blocks.visit(range(self.blocks.n_blocks)):
            rows = self._rows(block)
            if len(rows):
                yield rows

    def shuffled(self, generator: np.random.Generator, multiple: int) -> Iterator[TrainingRows]:
        """Yield the rows of blocks in random order, shuffled within each block.

        The number of rows is a multiple of ``multiple`` each time but the last: what is left of a block comes before
        the rows of the next, so that every batch of an epoch but the last is full.
        """
        left: TrainingRows | None = None
        order = generator.permutation(self.blocks.n_blocks)
        for block in self.blocks.visit([int(number) for number in order]):
            rows = self._rows(block)
            rows = rows.take(generator.permutation(len(rows)))
            rows = rows if left is None else left.followed_by(rows)
            whole = len(rows) - len(rows) % multiple
            left = rows.take(slice(whole, None))
            if whole:
                yield rows.take(slice(0, whole))
        if left is not None and len(left):
            yield left

    def _rows(self, block: Block) -> TrainingRows:
        if self.held_out is not None:
            block = block.take(self.held_out.rows(block.number, len(block))[int(self.validates)])
        read = self.read(block)
        # an absent cell is the mean of its term, as in a table in memory
        return TrainingRows(np.nan_to_num(read.x, nan=0.0), read.target, read.weights / self.unit)
