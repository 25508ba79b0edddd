"""Checkpoints: the state of a long fit in one file without pickle, written atomically."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from sparsenam.errors import CheckpointError, describe
from sparsenam.training.rules import Memory
from sparsenam.training.state import Epoch, Parameters

SECONDS_BETWEEN = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Journal:
    """The epochs so far: the last one, the best one, and the numbers of all."""

    last: Epoch
    best: Epoch
    history: list[dict[str, float | int | None]]


def fingerprint(*parts: object) -> str:
    """Return a digest of data and settings, to tell whether a checkpoint belongs to a fit."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            digest.update(part.detach().cpu().contiguous().numpy().tobytes())
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()


def kept(journals: Iterable[Journal], path: Path | None, identity: str) -> Iterator[Journal]:
    """Pass the journals on and store one every few seconds, and the last."""
    journal, stored = None, time.monotonic()
    for journal in journals:
        if path is not None and time.monotonic() - stored >= SECONDS_BETWEEN:
            write(path, journal, identity)
            stored = time.monotonic()
        yield journal
    if path is not None and journal is not None:
        write(path, journal, identity)


def write(path: Path, journal: Journal, identity: str) -> None:
    """Store a journal; the file at ``path`` is at every moment a whole one."""
    tensors: dict[str, Tensor] = {}
    facts = {"identity": identity, "history": journal.history}
    for name, epoch in (("last", journal.last), ("best", journal.best)):
        parameters = epoch.parameters
        tensors |= {
            f"{name}/theta": parameters.theta.contiguous(),
            f"{name}/intercept": parameters.intercept.contiguous(),
            f"{name}/active": torch.from_numpy(parameters.active),
            f"{name}/everyone": parameters.everyone.contiguous(),
        }
        facts[name] = {"number": epoch.number, "loss": epoch.loss, "penalty": epoch.penalty, "rate": epoch.rate}
        facts[name] |= {"stationarity": epoch.stationarity, "validation": epoch.validation, "seconds": epoch.seconds}
        for which, memory in enumerate(epoch.memories):
            facts[name][f"count{which}"] = memory.count
            for place, tensor in enumerate(memory.tensors):
                tensors[f"{name}/memory{which}/{place}"] = tensor.contiguous()
    partial = path.with_name(path.name + ".partial")
    save_file(tensors, partial, metadata={"sparsenam": json.dumps(facts)})
    os.replace(partial, path)


def read(path: Path, identity: str) -> Journal | None:
    """Return the stored journal, None when there is no file; refuse a damaged or foreign one."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads(file.metadata()["sparsenam"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            found = facts["identity"]
            journal = Journal(_epoch(facts, tensors, "last"), _epoch(facts, tensors, "best"), facts["history"])
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        got = f"a file that does not read ({error})"
        raise CheckpointError(describe(f"checkpoint {path}", "a checkpoint", got, "delete it to start anew")) from error
    if found != identity:
        got = "one of other data or settings"
        raise CheckpointError(
            describe(f"checkpoint {path}", "a checkpoint of this fit", got, "delete it or name another file")
        )
    return journal


def _epoch(facts: dict[str, dict[str, float]], tensors: dict[str, Tensor], name: str) -> Epoch:
    own = dict(facts[name])
    memories: list[Memory] = []
    for which in (0, 1):
        prefix = f"{name}/memory{which}/"
        stored = sorted((int(key.removeprefix(prefix)), key) for key in tensors if key.startswith(prefix))
        memories.append(Memory(int(own.pop(f"count{which}")), tuple(tensors[key] for _, key in stored)))
    parameters = Parameters(
        tensors[f"{name}/theta"],
        tensors[f"{name}/intercept"],
        tensors[f"{name}/active"].numpy().astype(np.intp),
        tensors[f"{name}/everyone"],
    )
    return Epoch(parameters=parameters, memories=(memories[0], memories[1]), **own)  # pyright: ignore[reportArgumentType]
