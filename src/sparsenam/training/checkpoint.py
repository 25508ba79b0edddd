"""The state of a long training in the resume file of its fit: stored every few seconds, and read at the start."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.context import Context, StageResult
from sparsenam.forms import (
    FARTHEST,
    ArrayForm,
    either,
    infinite,
    many,
    maybe,
    number,
    record,
    require,
    text,
    truth,
    whole,
)
from sparsenam.training.network import History
from sparsenam.training.solvers import Memory, Solver
from sparsenam.training.state import Epoch, Parameters

Arrays = dict[str, NDArray[Any]]

SECONDS_BETWEEN = 5.0
LOSS = either(number(), infinite)  # before the first epoch it is infinite
EPOCH = record(
    {
        "number": whole(),
        "loss": LOSS,
        "penalty": number(0.0),
        "rate": number(0.0),
        "stationarity": maybe(number(0.0)),
        "validation": maybe(LOSS),
        "seconds": number(0.0),
        "counts": many(whole(), 2, 2),
    }
)
ENTRY = record(
    {
        "epoch": whole(1),
        "loss": number(),
        "penalty": number(0.0),
        "validation": maybe(LOSS),
        "terms": whole(),
        "rate": number(0.0),
        "seconds": number(0.0),
    }
)
FACTS = record({"last": EPOCH, "best": EPOCH, "finished": truth, "basis": text(), "history": many(ENTRY)})


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


def read_journal(kept: StageResult, start: Parameters, solver: Solver) -> Journal:
    """Return the journal that a stage left, on the device of the start; raise `RefusalError` for what cannot be one.

    ``start`` are the parameters from which the training began, ``solver`` is what moved them.
    """
    FACTS(kept.facts, "")
    forms: dict[str, ArrayForm] = {}
    for name in ("last", "best"):
        forms |= _epoch_forms(kept, name, start, solver)
    kept.check(FACTS, forms)
    last, best = (_epoch(kept, name, start.theta.device) for name in ("last", "best"))
    require(best.number <= last.number, "a best epoch after the last one")
    return Journal(last, best, list(kept.facts["history"]), bool(kept.facts["finished"]))


def epoch_of(kept: StageResult) -> int:
    """Return the last epoch of the journal that a stage left, 0 where there is none."""
    last: Any = kept.facts.get("last")
    number: Any = cast("dict[str, Any]", last).get("number") if isinstance(last, dict) else None
    return number if type(number) is int else 0


def _epoch_forms(kept: StageResult, name: str, start: Parameters, solver: Solver) -> dict[str, ArrayForm]:
    """Return what the arrays of an epoch must be, as many memories as the solver keeps."""
    terms, size = start.theta.shape
    outputs, kinds = start.intercept.shape[0], (str(start.theta.dtype).removeprefix("torch."),)
    active = kept.arrays[f"{name}/active"]
    require(active.ndim == 1 and bool((np.diff(active) > 0).all()), "terms that cannot be")
    theta = (active.size, size)
    finite = ArrayForm(None, kinds, -FARTHEST, FARTHEST)
    forms = {
        "theta": replace(finite, shape=theta),
        "intercept": replace(finite, shape=(outputs,)),
        "all": replace(finite, shape=(terms, size)),
        "active": ArrayForm((None,), ("int64",), 0, terms - 1),
    }
    shapes = _memory_shapes(solver, start, theta)
    for which, tensors in enumerate(shapes):
        if any(key.startswith(f"{name}/memory{which}/") for key in kept.arrays):
            forms |= {f"memory{which}/{index}": replace(finite, shape=shape) for index, shape in enumerate(tensors)}
            require(kept.facts[name]["counts"][which] > 0, "a memory of no step")
        else:
            require(kept.facts[name]["counts"][which] == 0 or not tensors, "steps without a memory")
    if solver.searches_step and f"{name}/memory1/1" in kept.arrays:
        forms["memory1/1"] = replace(finite, lowest=1e-300, shape=(2,))  # momentum and step
    return {f"{name}/{key}": form for key, form in forms.items()}


def _memory_shapes(solver: Solver, start: Parameters, theta: tuple[int, int]) -> list[list[tuple[int, ...]]]:
    """Return the shapes of what a solver remembers of θ and of the intercept."""
    if solver.searches_step:
        return [[theta], [tuple(start.intercept.shape), (2,)]]
    gradients = start.theta.new_zeros(theta), torch.zeros_like(start.intercept)[None]
    return [[tuple(each.shape) for each in solver.rule.move(part, Memory()).memory.tensors] for part in gradients]


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
