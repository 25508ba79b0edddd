"""The state of a long training in the resume file of its fit: stored every few seconds, and read at the start."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.context import Context, StageResult
from sparsenam.training.solvers import Memory
from sparsenam.training.state import Epoch, Parameters

Arrays = dict[str, NDArray[Any]]
History = list[dict[str, float | int | None]]

SECONDS_BETWEEN = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Journal:
    """The epochs so far: the last one, the best one, and the numbers of all."""

    last: Epoch
    best: Epoch
    history: History
    finished: bool = False


def stored(journals: Iterable[Journal], context: Context, stage: str, basis: str) -> Iterator[Journal]:
    """Pass the journals on and store one every few seconds, and the last; ``basis`` says what the training rests on."""
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


def read_journal(kept: StageResult, device: torch.device) -> Journal:
    """Return the journal that a stage left, its tensors on a device."""
    last, best = (_epoch(kept, name, device) for name in ("last", "best"))
    return Journal(last, best, list(kept.facts["history"]), bool(kept.facts["finished"]))


def _keep(context: Context, stage: str, basis: str, journal: Journal) -> None:
    epochs = {"last": journal.last, "best": journal.best}
    facts: dict[str, Any] = {name: _facts(epoch) for name, epoch in epochs.items()}
    facts |= {"finished": journal.finished, "basis": basis}
    facts["history"] = [entry for entry in journal.history if (entry["epoch"] or 0) <= journal.last.number]
    arrays = {f"{name}/{key}": array for name, epoch in epochs.items() for key, array in _arrays(epoch).items()}
    context.keep(stage, StageResult(arrays, facts))


def _facts(epoch: Epoch) -> dict[str, Any]:
    return {
        "number": epoch.number,
        "loss": epoch.loss,
        "penalty": epoch.penalty,
        "rate": epoch.rate,
        "stationarity": epoch.stationarity,
        "validation": epoch.validation,
        "seconds": epoch.seconds,
        "counts": [memory.count for memory in epoch.memories],
    }


def _arrays(epoch: Epoch) -> Arrays:
    parameters = epoch.parameters
    tensors = {"theta": parameters.theta, "intercept": parameters.intercept, "all": parameters.last}
    for which, memory in enumerate(epoch.memories):
        tensors |= {f"memory{which}/{index}": tensor for index, tensor in enumerate(memory.tensors)}
    arrays: Arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    return arrays | {"active": parameters.active}


def _epoch(kept: StageResult, name: str, device: torch.device) -> Epoch:
    facts = dict(kept.facts[name])
    counts = facts.pop("counts")

    def tensor(key: str) -> Tensor:
        return torch.as_tensor(kept.arrays[f"{name}/{key}"], device=device)

    def memory(which: int) -> Memory:
        prefix = f"{name}/memory{which}/"
        count = sum(key.startswith(prefix) for key in kept.arrays)
        return Memory(counts[which], tuple(tensor(f"memory{which}/{index}") for index in range(count)))

    active = kept.arrays[f"{name}/active"].astype(np.intp)
    parameters = Parameters(tensor("theta"), tensor("intercept"), active, tensor("all"))
    return Epoch(parameters=parameters, memories=(memory(0), memory(1)), **facts)
