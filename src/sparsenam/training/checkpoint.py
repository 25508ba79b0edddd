"""The state of a long training in the resume file of its fit: stored every few seconds, and read at the start."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch

from sparsenam.codec import pack, unpack
from sparsenam.context import Context, StageResult
from sparsenam.errors import require
from sparsenam.training.network import StoredHistory
from sparsenam.training.solvers import Memory, Solver
from sparsenam.training.state import Epoch, Parameters

SECONDS_BETWEEN = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Journal:
    """The epochs so far: the last one, the best one, the numbers of all, and what the training rests on."""

    last: Epoch
    best: Epoch
    history: StoredHistory
    finished: bool = False
    basis: str = ""


def stored(journals: Iterable[Journal], context: Context, stage: str, basis: str) -> Iterator[Journal]:
    """Pass the journals on and store one every few seconds, and the last."""
    journal, moment = None, time.monotonic()
    try:
        for latest in journals:
            journal = latest if latest.last.whole else journal
            if journal is not None and time.monotonic() - moment >= SECONDS_BETWEEN:
                _keep(context, stage, basis, journal)
                moment = time.monotonic()
            yield latest
    finally:  # an interrupted fit keeps its last whole epoch too
        if journal is not None:
            _keep(context, stage, basis, journal)


def read_journal(kept: StageResult, start: Parameters, solver: Solver) -> Journal:
    """Return the journal that a stage left, on the device of the start; raise `RefusalError` for what cannot be one.

    ``start`` are the parameters from which the training began, ``solver`` is what moved them.
    """
    journal = unpack(Journal, kept.facts, kept.arrays)
    require(journal.best.number <= journal.last.number, "a best epoch after the last one")
    last, best = (_checked(epoch, start, solver) for epoch in (journal.last, journal.best))
    return replace(journal, last=last, best=best)


def epoch_of(kept: StageResult) -> int:
    """Return the last epoch of the journal that a stage left, 0 where there is none."""
    last: Any = kept.facts.get("last")
    number: Any = cast("dict[str, Any]", last).get("number") if isinstance(last, dict) else None
    return number if type(number) is int else 0


def _checked(epoch: Epoch, start: Parameters, solver: Solver) -> Epoch:
    """Return an epoch in the precision and on the device of the start; it must be one of this training."""
    found, (terms, size) = epoch.parameters, start.theta.shape
    active, theta = found.active, (found.active.size, size)
    rising = bool((np.diff(active) > 0).all()) and (not active.size or int(active[-1]) < terms)
    shapes = [tuple(part.shape) for part in (found.theta, found.intercept, found.last)]
    require(rising and shapes == [theta, tuple(start.intercept.shape), (terms, size)], "terms that cannot be")
    memories = [
        _memory(memory, expected, start)
        for memory, expected in zip(epoch.memories, _memory_shapes(solver, start, theta), strict=True)
    ]
    if solver.searches_step and memories[1].tensors:
        require(bool((memories[1].tensors[1] >= 1e-300).all()), "a step that cannot be")  # momentum and step
    parts = (found.theta.to(start.theta), found.intercept.to(start.theta), active, found.last.to(start.theta))
    return replace(epoch, parameters=Parameters(*parts), memories=(memories[0], memories[1]))


def _memory(memory: Memory, shapes: list[tuple[int, ...]], start: Parameters) -> Memory:
    """Return what a rule remembers, whose numbers are stored one after the other, in its shapes."""
    if not memory.tensors:
        require(memory.count == 0 or not shapes, "steps without a memory")
        return memory
    sizes = [int(np.prod(shape)) for shape in shapes]
    require(memory.count > 0 and [part.numel() for part in memory.tensors] == sizes, "a memory that cannot be")
    parts = zip(memory.tensors, shapes, strict=True)
    return Memory(memory.count, tuple(part.reshape(shape).to(start.theta) for part, shape in parts))


def _memory_shapes(solver: Solver, start: Parameters, theta: tuple[int, int]) -> list[list[tuple[int, ...]]]:
    """Return the shapes of what a solver remembers of θ and of the intercept."""
    if solver.searches_step:
        return [[theta], [tuple(start.intercept.shape), (2,)]]
    gradients = start.theta.new_zeros(theta), torch.zeros_like(start.intercept)[None]
    return [[tuple(each.shape) for each in solver.rule.move(part, Memory()).memory.tensors] for part in gradients]


def _keep(context: Context, stage: str, basis: str, journal: Journal) -> None:
    reached = [entry for entry in journal.history if (entry["epoch"] or 0) <= journal.last.number]
    facts, arrays = pack(replace(journal, history=reached, basis=basis))
    context.keep(stage, StageResult(arrays, facts))
