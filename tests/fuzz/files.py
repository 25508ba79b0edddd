"""Changed model files, checkpoints and stage files: a documented refusal in one sentence, or work as before.

Half of the cases change bytes. The other half change what the file says, document or tensors, and sign it again, as
someone would who means harm: then another valid model may come out, which must predict, explain, report and save.
A case may take two seconds of the processor and 300 MB beyond what the process had.
"""

from __future__ import annotations

import copy
import hashlib
import json
import multiprocessing
import os
import re
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.file_kinds import CHECKPOINTS, MODELS, Kind, resume, write_checkpoint, write_model
from sparsenam.container import DIGEST
from sparsenam.errors import CheckpointError, DivergenceError, InputError

SECONDS, MEMORY = 2.0, 300 << 20
BATCH = 250  # cases of a child
SHARE_OF_CHECKPOINTS = 0.15
HOSTILE: list[Any] = [
    None, True, False, -1, 0, 1, 2**31, 2**53, 10**30, 1e308, -1e308, 1e-320, -0.5, 0.5, float("nan"), float("inf"),
    "", "x" * 5000, "x0", "nan", "inf", "../a", "\ud800", "\x00", [], {}, [[]], [1], ["a"], {"a": 1}, {"tuple": 3},
    {"float": "inf"}, {"float": "nan"}, {"mapping": []}, {"object": {"class": "Network", "parameters": {}}},
]  # fmt: skip
NUMBERS = [0.0, -1.0, 1.0, 1e-320, 1e-300, 1e16, 1e150, 1e300, -1e300, 1.7e308, np.nan, np.inf, -np.inf]


class OutOfTimeError(BaseException):
    """A case took far longer than it may; no `except Exception` catches it."""


def attack(seed: int, count: int, say: Callable[[str], None]) -> list[str]:
    """Return what did not hold, a sentence each."""
    findings: list[str] = []
    ends: Counter[str] = Counter()
    slowest = largest = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = [(kind, write_model(kind, folder / f"{kind.name}.snam")) for kind in MODELS]
        checkpoints = [(kind, write_checkpoint(kind, folder / f"{kind.name}.stages")) for kind in CHECKPOINTS]
        for start in range(0, count, BATCH):
            numbers = range(start, min(start + BATCH, count))
            found, came, seconds, megabytes = _in_child(partial(_batch, seed, numbers, models, checkpoints, folder))
            findings, ends = findings + found, ends + came
            slowest, largest = max(slowest, seconds), max(largest, megabytes)
            if (start // BATCH) % 8 == 7 or found:
                say("\n".join([f"  files: {numbers.stop} cases, {len(findings)} findings", *found]))
    tally = ", ".join(f"{number} {end}" for end, number in ends.most_common())
    say(f"  files: {tally}; at most {slowest:.2f} s of the processor, and {largest:.0f} MB more in a process")
    return findings


Batch = tuple[list[str], Counter[str], float, float]  # findings, how cases ended, seconds of one and megabytes of all


def _in_child(work: Callable[[], Batch]) -> Batch:
    """Return what the work says, done in a forked process, which may die of it."""
    near, far = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("fork")

    def run() -> None:
        size = int(re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        far.send(work())
        far.close()

    child = context.Process(target=run)
    child.start()
    far.close()
    try:
        return near.recv()
    except EOFError:
        child.join()
        return [f"a process died with exit code {child.exitcode}"], Counter(), 0.0, 0.0
    finally:
        child.join()


def _batch(seed, numbers, models, checkpoints, folder: Path) -> Batch:
    findings, path = [], folder / f"case-{os.getpid()}"
    ends, slowest, before = Counter(), 0.0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in numbers:
        generator = np.random.default_rng([seed, number])
        of_checkpoint = generator.random() < SHARE_OF_CHECKPOINTS
        kinds = checkpoints if of_checkpoint else models
        kind, (content, answer) = kinds[generator.integers(len(kinds))]
        signed = number % 2 == 1
        said, changed = _signed_change(content, generator) if signed else _changed_bytes(content, generator)
        path.write_bytes(changed)
        try_case = partial(_try_checkpoint if of_checkpoint else _try_model, kind, path, answer, signed=signed)
        started = time.process_time()
        end, found = _limited(try_case)
        slowest = max(slowest, time.process_time() - started)
        ends[end] += 1
        if found is not None:
            findings.append(f"case {number} of seed {seed}, {kind.name}, {said}: {found}")
        path.unlink(missing_ok=True)
    return findings, ends, slowest, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def _limited(case: Callable[[], tuple[str, str | None]]) -> tuple[str, str | None]:
    """Return how a case ended, and what it found: too much time or memory, or an error that is not documented."""

    def stop(*_: object) -> None:
        raise OutOfTimeError

    started = time.process_time()
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, 4 * SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            end, found = case()
    except OutOfTimeError:
        end, found = "stopped", f"more than {4 * SECONDS} s"
    except Exception as error:  # what an attack is for
        frames = traceback.extract_tb(error.__traceback__)
        where = next((f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames) if "sparsenam" in f.filename), "")
        end, found = "not held", f"{type(error).__name__} at {where}: {str(error)[:120]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    taken = time.process_time() - started
    return end, found or (f"{taken:.1f} s" if taken > SECONDS else None)


def _one_sentence(error: Exception) -> str | None:
    words = str(error)
    right = ": expected " in words and words.endswith(".") and "\n" not in words
    return None if right else f"no sentence: {words[:120]}"


def _try_model(kind: Kind, path: Path, answer: np.ndarray, *, signed: bool) -> tuple[str, str | None]:
    import sparsenam
    from sparsenam.export import ModelFileError

    try:
        model = sparsenam.load(path)
    except ModelFileError as error:
        return "refused", _one_sentence(error)
    if not signed:
        same = np.array_equal(kind.predict(model), answer)
        return "the same", None if same else "changed bytes, and another prediction"
    return _use(kind, model, path, answer)


def _use(kind: Kind, model: Any, path: Path, answer: np.ndarray) -> tuple[str, str | None]:
    """Predict, explain, report, save and load: whatever was loaded must do all of it."""
    import sparsenam

    predicted = None
    try:
        predicted = np.asarray(kind.predict(model))
        model.effects(kind.table())
    except InputError as error:  # another table was asked for
        if found := _one_sentence(error):
            return "not held", found
    if predicted is not None and predicted.dtype.kind == "f" and not np.isfinite(predicted).all():
        return "not held", "predictions that are not finite, without a word"
    explanation = model.explain()
    str(explanation)
    report = path.with_suffix(".html")
    known = model.residuals_ is not None and model.residuals_.edits == len(model.edits_)
    found = [each for each in (model.fdr_, model.stability_) if each is not None]
    explanation.report(report, beside=[*found, *([model.uncertainty()] if known else [])])
    report.unlink()
    again = path.with_suffix(".again")
    model.save(again)
    loaded = sparsenam.load(again)
    again.unlink()
    if predicted is None:
        return "a model of another table", None
    if not np.array_equal(np.asarray(kind.predict(loaded)), predicted):
        return "not held", "another prediction after a second save"
    return "the same" if np.array_equal(predicted, answer) else "another model", None


def _try_checkpoint(kind: Kind, path: Path, answer: np.ndarray, *, signed: bool) -> tuple[str, str | None]:
    try:
        model = resume(kind, path)
    except CheckpointError as error:
        return "refused", _one_sentence(error)
    except DivergenceError:
        return "diverged", None if signed else "changed bytes, and a fit that diverges"
    predicted = np.asarray(kind.predict(model))
    if np.array_equal(predicted, answer):
        return "the same", None
    if not signed:
        return "not held", "changed bytes, and another fit"
    sound = bool(np.isfinite(predicted).all())
    return "another model", None if sound else "predictions that are not finite, without a word"


def _changed_bytes(content: bytes, generator: np.random.Generator) -> tuple[str, bytes]:
    data, place = bytearray(content), int(generator.integers(len(content)))
    header = 8 + int.from_bytes(content[:8], "little")
    place = int(generator.integers(header)) if generator.random() < 0.5 else place
    how = generator.choice(["bits", "cut", "insert", "delete", "zeros", "swap", "append", "length"])
    if how == "bits":
        for _ in range(int(generator.integers(1, 9))):
            data[int(generator.integers(len(data)))] ^= 1 << int(generator.integers(8))
    elif how == "cut":
        del data[place:]
    elif how == "insert":
        data[place:place] = generator.bytes(int(generator.integers(1, 65)))
    elif how == "delete":
        del data[place : place + int(generator.integers(1, 65))]
    elif how == "zeros":
        data[place : place + 64] = bytes(len(data[place : place + 64]))
    elif how == "swap":
        data = data[place:] + data[:place]
    elif how == "append":
        data += generator.bytes(int(generator.integers(1, 65)))
    else:
        data[:8] = int(generator.integers(2**63)).to_bytes(8, "little")
    return f"{how} at byte {place}", bytes(data)


def parts_of(content: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Return document, entries of tensors, and data of a file."""
    length = int.from_bytes(content[:8], "little")
    entries = json.loads(content[8 : 8 + length])
    document = json.loads(entries.pop("__metadata__")["sparsenam"])
    return document, entries, content[8 + length :]


def sign(document: Any, entries: dict[str, Any], data: bytes, text: str | None = None) -> bytes:
    """Return a file with a right digest, whatever it says; ``text`` stands for the document's JSON."""
    text = json.dumps(document, separators=(",", ":")) if text is None else text
    everything = {"__metadata__": {"sha256": "0" * 64, "sparsenam": text}, **entries}
    header = json.dumps(everything, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    content = bytearray(len(header).to_bytes(8, "little") + header + data)
    place = slice(8 + DIGEST.start, 8 + DIGEST.stop)
    content[place] = hashlib.sha256(content).hexdigest().encode()
    return bytes(content)


def _signed_change(content: bytes, generator: np.random.Generator) -> tuple[str, bytes]:
    document, entries, data = parts_of(content)
    said = []
    for _ in range(1 if generator.random() < 0.7 else 3):
        if generator.random() < 0.65 or not entries:
            said.append(_change_document(document, generator))
        else:
            done, data = _change_tensor(entries, data, generator)
            said.append(done)
    return "; ".join(said), sign(document, entries, data)


def _somewhere(value: Any, generator: np.random.Generator) -> tuple[Any, Any, str]:
    """Return a container within plain data, a key of it, and the way there."""
    where = ""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        sizes = np.sqrt([len(str(value[key])) for key in keys])  # where more is said, more is changed
        key = keys[generator.choice(len(keys), p=sizes / sizes.sum())] if sizes.any() else keys[0]
        inside = value[key]
        where += f"/{key}"[:40]
        if not isinstance(inside, dict | list) or not inside or generator.random() < 0.05:
            return value, key, where
        value = inside


def _change_document(document: Any, generator: np.random.Generator) -> str:
    if not document:
        return "nothing left to change"
    owner, key, where = _somewhere(document, generator)
    how = generator.choice(["hostile", "other", "like", "like", "like", "like", "delete", "double", "key"])
    value = owner[key]
    if how == "like":
        owner[key] = _like(document, value, generator)
    elif how == "delete":
        del owner[key]
    elif how == "double" and isinstance(owner, list):
        owner.insert(key, copy.deepcopy(value))
    elif how == "key" and isinstance(owner, dict):
        owner[str(HOSTILE[generator.integers(len(HOSTILE))])[:50]] = owner.pop(key)
    elif how == "other":
        there, other, _ = _somewhere(document, generator)
        owner[key] = copy.deepcopy(there[other])
    else:
        how, owner[key] = "hostile", copy.deepcopy(HOSTILE[generator.integers(len(HOSTILE))])
    return f"{how} {where} = {str(owner[key])[:40]!r}" if _has(owner, key) else f"{how} {where}"


def _like(document: Any, value: Any, generator: np.random.Generator) -> Any:
    """Return another value of the same type: a number near by or far off, another text of the document, …"""
    if type(value) is bool:
        return not value
    if type(value) is int:
        return value + int(generator.integers(-3, 4)) * int(10 ** generator.integers(0, 5))
    if type(value) is float:
        changes = [
            -value,
            value * 1e6,
            value * 1e-6,
            value * generator.normal(),
            value + generator.normal(),
            1.0 - value,
        ]
        return float(changes[generator.integers(len(changes))])
    for _ in range(50):
        there, other, _ = _somewhere(document, generator)
        if type(there[other]) is type(value):
            return copy.deepcopy(there[other])
    return value


def _has(owner: Any, key: Any) -> bool:
    return key in owner if isinstance(owner, dict) else key < len(owner)


def _change_tensor(entries: dict[str, Any], data: bytes, generator: np.random.Generator) -> tuple[str, bytes]:
    name = list(entries)[generator.integers(len(entries))]
    entry, types = entries[name], {"F64": "<f8", "I64": "<i8", "F32": "<f4", "I32": "<i4", "U8": "|u1"}
    how = generator.choice(["values"] * 8 + ["entry", "drop", "rename", "shape", "type"])
    if entry.keys() != {"dtype", "shape", "data_offsets"} or str(entry["dtype"]) not in types:
        how = "drop"
    if how == "entry":
        field = ["dtype", "shape", "data_offsets"][generator.integers(3)]
        entry[field] = copy.deepcopy(HOSTILE[generator.integers(len(HOSTILE))])
        return f"{how} {name} {field}", data
    if how == "rename":
        entries[["norms", "model.terms", "x", "bands.pairs"][generator.integers(4)]] = entries.pop(name)
        return f"{how} {name}", data
    arrays = {}
    for each, record in entries.items():
        try:
            start, end = record["data_offsets"]
            arrays[each] = np.frombuffer(data[start:end], types[record["dtype"]]).reshape(record["shape"]).copy()
        except (TypeError, ValueError, KeyError):
            return "nothing to change", data
    array = arrays[name]
    if how == "drop":
        del arrays[name]
    elif how == "type":
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(list(types.values())[generator.integers(len(types))])
    elif how == "shape" and array.size:
        changes = [array[:-1] if array.ndim else array[None], array.ravel(), array[None], np.concatenate([array] * 2)
                   if array.ndim else array, array.T]  # fmt: skip
        arrays[name] = changes[generator.integers(len(changes))]
    elif array.size:
        how = "values"
        for _ in range(int(generator.integers(1, 4))):
            with np.errstate(all="ignore"):
                new = np.array(NUMBERS[generator.integers(len(NUMBERS))])
                if generator.random() < 0.7:
                    new = array.flat[generator.integers(array.size)] * generator.normal()
                array.flat[generator.integers(array.size)] = new.astype(array.dtype)
    parts, end = [], 0
    entries.clear()
    names = {np.dtype(stored).name: kind for kind, stored in types.items()}
    for each, value in arrays.items():
        parts.append(np.ascontiguousarray(value).tobytes())
        start, end = end, end + len(parts[-1])
        entries[each] = {"dtype": names[value.dtype.name], "shape": list(value.shape), "data_offsets": [start, end]}
    return f"{how} {name}", b"".join(parts)
