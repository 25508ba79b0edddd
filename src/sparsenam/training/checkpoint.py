"""Checkpoints: the state of a long fit in one file without pickle, written atomically."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import TypedDict, cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from sparsenam.errors import CheckpointError, describe
from sparsenam.training.solvers import Memory
from sparsenam.training.state import Epoch, Parameters

SECONDS_BETWEEN = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Journal:
    """The epochs so far: the last one, the best one, and the numbers of all."""

    last: Epoch
    best: Epoch
    history: list[dict[str, float | int | None]]
    finished: bool = False


class EpochFacts(TypedDict):
    """What a checkpoint says of an epoch besides tensors."""

    number: int
    loss: float
    penalty: float
    rate: float
    stationarity: float | None
    validation: float | None
    seconds: float
    count0: int
    count1: int


class Facts(TypedDict):
    """What a checkpoint says of a journal besides tensors."""

    identity: str
    finished: bool
    history: list[dict[str, float | int | None]]
    last: EpochFacts
    best: EpochFacts


def fingerprint(data: Iterable[Tensor], words: str) -> str:
    """Return a digest of data and settings, to tell whether a checkpoint belongs to a fit."""
    digest = hashlib.sha256(words.encode())
    for tensor in data:
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def stable_words(value: object) -> str:
    """Return words for a setting that hold no address of memory, so that another process says the same."""
    if isinstance(value, Mapping):
        pairs = cast(Mapping[object, object], value).items()
        return "{" + ", ".join(f"{stable_words(key)}: {stable_words(item)}" for key, item in pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(stable_words(item) for item in cast(Sequence[object], value)) + "]"
    if isinstance(value, np.ndarray):
        return hashlib.sha256(cast(NDArray[np.generic], value).tobytes()).hexdigest()
    if isinstance(value, np.generic):
        return stable_words(cast(object, value.item()))
    if value is None or isinstance(value, str | bool):
        return repr(value)
    if isinstance(value, int | float):
        return repr(float(value))
    if isinstance(value, frozenset | set):
        return stable_words(sorted(stable_words(item) for item in cast(Iterable[object], value)))
    if isinstance(value, bytes | complex):
        return repr(value)
    if isinstance(value, CodeType):
        return f"{value.co_code!r} {value.co_names!r} {stable_words(value.co_consts)}"
    if isinstance(value, FunctionType):  # two lambdas have one name, but not one code or one surrounding
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell.cell_contents is not value]
        own = [value.__code__, value.__defaults__, value.__kwdefaults__, cells]
        return f"{value.__module__}.{value.__qualname__} {stable_words(own)}"
    if isinstance(value, MethodType):
        return stable_words([value.__func__, value.__self__])
    if isinstance(value, partial):
        return stable_words([value.func, value.args, value.keywords])
    if is_dataclass(value):
        own: object = {field.name: getattr(value, field.name) for field in fields(value)}
    else:
        own = vars(value) if hasattr(value, "__dict__") else ""
    return f"{type(value).__qualname__} {getattr(value, '__name__', '')}{stable_words(own)}"


def kept(journals: Iterable[Journal], path: Path, identity: str) -> Iterator[Journal]:
    """Pass the journals on and store one every few seconds, and the last."""
    journal, stored = None, time.monotonic()
    try:
        for latest in journals:
            journal = latest if latest.last.whole else journal
            if journal is not None and time.monotonic() - stored >= SECONDS_BETWEEN:
                write(path, journal, identity)
                stored = time.monotonic()
            yield latest
    finally:  # an interrupted fit keeps its last whole epoch too
        if journal is not None:
            write(path, journal, identity)


def write(path: Path, journal: Journal, identity: str) -> None:
    """Store a journal; the file at ``path`` is at every moment a whole one."""
    facts: Facts = {
        "identity": identity,
        "finished": journal.finished,
        "history": [entry for entry in journal.history if (entry["epoch"] or 0) <= journal.last.number],
        "last": _facts(journal.last),
        "best": _facts(journal.best),
    }
    tensors = _tensors(journal.last, "last") | _tensors(journal.best, "best")
    partial = path.with_name(path.name + ".partial")
    save_file(tensors, partial, metadata={"sparsenam": json.dumps(facts)})
    os.replace(partial, path)


def read(path: Path, identity: str, device: torch.device) -> Journal | None:
    """Return the stored journal, None when there is no file; refuse a damaged or foreign one."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            facts: Facts = json.loads((file.metadata() or {})["sparsenam"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            found = facts["identity"]
            last, best = _epoch(facts["last"], tensors, "last"), _epoch(facts["best"], tensors, "best")
            journal = Journal(last, best, facts["history"], facts["finished"])
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        got = f"a file that does not read ({error})"
        raise CheckpointError(
            describe(f"checkpoint {path}", "a checkpoint", got, "delete it to start anew")
        ) from error
    if found != identity:
        got = "one of other data or settings"
        raise CheckpointError(
            describe(f"checkpoint {path}", "a checkpoint of this fit", got, "delete it or name another file")
        )
    return journal


def _facts(epoch: Epoch) -> EpochFacts:
    return {
        "number": epoch.number,
        "loss": epoch.loss,
        "penalty": epoch.penalty,
        "rate": epoch.rate,
        "stationarity": epoch.stationarity,
        "validation": epoch.validation,
        "seconds": epoch.seconds,
        "count0": epoch.memories[0].count,
        "count1": epoch.memories[1].count,
    }


def _tensors(epoch: Epoch, name: str) -> dict[str, Tensor]:
    parameters = epoch.parameters
    tensors = {
        f"{name}/theta": parameters.theta.clone().contiguous(),
        f"{name}/intercept": parameters.intercept.clone().contiguous(),
        f"{name}/active": torch.tensor(parameters.active),
        f"{name}/everyone": parameters.everyone.clone().contiguous(),
    }
    for which, memory in enumerate(epoch.memories):
        for place, tensor in enumerate(memory.tensors):
            tensors[f"{name}/memory{which}/{place}"] = tensor.clone().contiguous()
    return tensors


def _epoch(facts: EpochFacts, tensors: dict[str, Tensor], name: str) -> Epoch:
    memories: list[Memory] = []
    for which, count in enumerate((facts["count0"], facts["count1"])):
        prefix = f"{name}/memory{which}/"
        stored = sorted((int(key.removeprefix(prefix)), key) for key in tensors if key.startswith(prefix))
        memories.append(Memory(count, tuple(tensors[key] for _, key in stored)))
    parameters = Parameters(
        tensors[f"{name}/theta"],
        tensors[f"{name}/intercept"],
        tensors[f"{name}/active"].cpu().numpy().astype(np.intp),
        tensors[f"{name}/everyone"],
    )
    return Epoch(
        number=facts["number"],
        loss=facts["loss"],
        penalty=facts["penalty"],
        parameters=parameters,
        memories=(memories[0], memories[1]),
        rate=facts["rate"],
        stationarity=facts["stationarity"],
        validation=facts["validation"],
        seconds=facts["seconds"],
    )
