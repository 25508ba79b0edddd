"""Rows of a table that is not in memory, as a training reads them: some blocks' worth at a time, in random order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from sparsenam.codec import Indices
from sparsenam.context import Streams
from sparsenam.smooth.all_rows import Reader
from sparsenam.tables.blocks import Block, VisitedBlocks
from sparsenam.tables.sample import Matrix, Vector


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
class TrainingBlocks:
    """All rows of a table in blocks, and how a block is read on the scale of the fit.

    ``terms`` (terms,) says which of the encoded terms the rows of x are; weights are divided by ``unit``. Rows are
    split where ``streams`` is given, from which the share ``held_out`` of each block is drawn; ``validates`` says
    whether these are the held-out ones.
    """

    blocks: VisitedBlocks
    read: Reader
    terms: Indices
    unit: float = 1.0
    held_out: float = 0.0
    streams: Streams | None = None
    validates: bool = False

    @property
    def n_rows(self) -> int:
        """The number of rows, those of weight 0 included."""
        return max(1, round((self.held_out if self.validates else 1.0 - self.held_out) * self.blocks.n_rows))

    def split(self, share: float, streams: Streams) -> tuple[Self, Self]:
        """Return the rows to train on and a share that is held out."""
        training = replace(self, held_out=share, streams=streams)
        return training, replace(training, validates=True)

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
        if self.streams is not None:
            order = self.streams.generator(f"validation/{block.number}").permutation(len(block))
            held = round(self.held_out * len(block))
            block = block.take(np.sort(order[:held] if self.validates else order[held:]))
        read = self.read(block)
        # an absent cell is the mean of its term, as in a table in memory
        return TrainingRows(np.nan_to_num(read.x, nan=0.0), read.target, read.weights / self.unit)
