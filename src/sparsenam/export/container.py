"""The bytes of a model file: safetensors, with a sha256 that sees every changed bit, and JSON read with distrust.

A file is the length of the header (8 bytes), the header (JSON: what each tensor is, and under ``__metadata__`` the
document and the sha256), then the numbers of all tensors. The sha256 is that of the whole file with zeros in the
bytes of the sha256 itself, which is at the start of the header. Any reader of safetensors reads the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.files import write_atomically

Tensors = dict[str, NDArray[Any]]

TYPES = {"F64": "<f8", "I64": "<i8", "F32": "<f4", "U8": "|u1"}
MOST_HEADER = 1 << 26  # bytes
MOST_DATA = 1 << 31
START = b'{"__metadata__":{"sha256":"'
DIGEST = slice(len(START), len(START) + 64)
DEEPEST = 32  # nesting of the JSON
STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


class ModelFileError(InputError):
    """A model file is damaged, foreign or of another version, or a model cannot be put into one."""


class ModelFileWarning(UserWarning):
    """Some settings of an estimator are not in its model file."""


class RefusalError(Exception):
    """What was found in a file instead of what should be there; whoever knows the path makes a sentence of it."""


def refused(path: object, got: str) -> ModelFileError:
    """Return the error for a file that is not as `save` writes it."""
    expected, remedy = "a whole file written by save", "save the model again or get another copy"
    return ModelFileError(describe(f"model file {path}", expected, got, remedy))


def require(condition: bool, got: str) -> None:
    """Raise unless a condition on the content of a file holds."""
    if not condition:
        raise RefusalError(got)


def as_record(value: Any, keys: Iterable[str], got: str) -> dict[str, Any]:
    """Return the value once it is a record with exactly these keys."""
    require(isinstance(value, dict), got)
    record = cast("dict[str, Any]", value)
    require(set(record) == set(keys), got)
    return record


def as_list(value: Any, got: str) -> list[Any]:
    """Return the value once it is a list."""
    require(isinstance(value, list), got)
    return cast("list[Any]", value)


def as_texts(value: Any, got: str) -> list[str]:
    """Return the value once it is a list of texts."""
    texts = as_list(value, got)
    require(all(isinstance(text, str) for text in texts), got)
    return cast("list[str]", texts)


def as_whole_numbers(value: Any, got: str, lowest: int = 0) -> list[int]:
    """Return the value once it is a list of whole numbers, none below the lowest."""
    numbers = as_list(value, got)
    require(all(type(number) is int and number >= lowest for number in numbers), got)
    return cast("list[int]", numbers)


def write_container(path: Path, document: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
    """Write a document and tensors of float64, int64, float32 or uint8 into a file, whole or not at all."""
    header, data = _header(document, tensors)
    length = len(header).to_bytes(8, "little")
    digest = hashlib.sha256(length + header + data).hexdigest().encode()
    if len(header) > MOST_HEADER or len(data) > MOST_DATA:
        got = f"{len(header)} bytes of names and settings and {len(data)} bytes of numbers"
        expected = f"a model of at most {MOST_HEADER} and {MOST_DATA}"
        raise ModelFileError(describe(f"model file {path}", expected, got, "leave out columns of unique texts"))
    try:
        parts = (length, header[: DIGEST.start], digest, header[DIGEST.stop :], data)
        write_atomically(path, *parts, make_folder=False)
    except OSError as error:
        expected, remedy = "a path that can be written to", "make the folder or name another"
        raise ModelFileError(describe(f"model file {path}", expected, f"{error}", remedy)) from error


def read_container(path: Path) -> tuple[dict[str, Any], Tensors]:
    """Return the document and the tensors of a file; raise `ModelFileError` unless it is whole and plain."""
    if not path.is_file():
        expected, got = "a file written by save", "a folder or device" if path.exists() else "nothing there"
        raise ModelFileError(describe(f"model file {path}", expected, got, "correct the path"))
    try:
        with path.open("rb") as file:
            if not START.startswith(file.read(8 + len(START))[8:]):  # a file that was cut short may be one
                expected, got = "a file written by save", "a file of another kind, which is no model file"
                remedy = "give the file that save wrote, or a copy"
                raise ModelFileError(describe(f"model file {path}", expected, got, remedy))
            file.seek(0)
            return _read(file)
    except (RefusalError, OSError) as error:
        raise refused(path, str(error)) from error


def _header(document: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> tuple[bytes, bytes]:
    names = {np.dtype(stored).name: kind for kind, stored in TYPES.items()}
    entries: dict[str, Any] = {"__metadata__": {"sha256": "0" * 64, "sparsenam": _compact_json(document)}}
    parts: list[bytes] = []
    end = 0
    # long numbers first, so that each lies at a multiple of its size
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].dtype.itemsize):
        kind = names[tensor.dtype.name]
        parts.append(np.ascontiguousarray(tensor, dtype=TYPES[kind]).tobytes())
        start, end = end, end + len(parts[-1])
        entries[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [start, end]}
    header = _compact_json(entries).encode()
    return header + b" " * (-len(header) % 8), b"".join(parts)


def _read(file: BinaryIO) -> tuple[dict[str, Any], Tensors]:
    size = os.fstat(file.fileno()).st_size
    require(size > 8 + DIGEST.stop, f"one of {size} bytes")
    length = int.from_bytes(file.read(8), "little")
    require(length <= MOST_HEADER, f"a header of {length} bytes")
    require(8 + length <= size and size - length <= MOST_DATA, f"one of {size} bytes with a header of {length}")
    header, data = file.read(length), file.read(size - 8 - length)
    require(header.startswith(START) and len(header) + len(data) + 8 == size, "one without the mark of sparsenam")
    _check_digest(header, data)
    try:
        entries = parse_object(header.decode())
    except UnicodeDecodeError as error:
        raise RefusalError("a header that is not text") from error
    metadata = as_record(entries.pop("__metadata__", None), ("sha256", "sparsenam"), "a header without a document")
    require(isinstance(metadata["sparsenam"], str), "a header without a document")
    return parse_object(metadata["sparsenam"]), _tensors(entries, data)


def _check_digest(header: bytes, data: bytes) -> None:
    digest = hashlib.sha256(len(header).to_bytes(8, "little"))
    for part in (header[: DIGEST.start], b"0" * 64, header[DIGEST.stop :], data):
        digest.update(part)
    require(digest.hexdigest().encode() == header[DIGEST], "changed bytes (the sha256 is another)")


def _tensors(entries: Mapping[str, Any], data: bytes) -> Tensors:
    """Return the tensors, which must fill the data one after the other and hold finite numbers."""
    found: Tensors = {}
    end = 0
    for name, entry in entries.items():
        damage = f"a damaged tensor {name[:40]!r}"
        record = as_record(entry, ("dtype", "shape", "data_offsets"), damage)
        shape, offsets = as_whole_numbers(record["shape"], damage), as_whole_numbers(record["data_offsets"], damage)
        require(record["dtype"] in TYPES and len(shape) <= 2 and len(offsets) == 2, damage)
        count = 1
        for length in shape:
            require(length <= MOST_DATA, damage)
            count *= length
        size = np.dtype(TYPES[record["dtype"]]).itemsize
        require(offsets == [end, end + size * count] and offsets[1] <= len(data), damage)
        flat = np.frombuffer(data, TYPES[record["dtype"]], count, end)
        found[name] = flat.astype(flat.dtype.newbyteorder("=")).reshape(shape)
        require(bool(np.isfinite(found[name]).all()), f"numbers that are not finite in the tensor {name[:40]!r}")
        end = offsets[1]
    require(end == len(data), "bytes that belong to no tensor")
    return found


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text; raise `RefusalError` unless it is plain and of moderate depth."""
    require(_depth(text) <= DEEPEST, f"a header nested more than {DEEPEST} deep")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise RefusalError(f"a header that is not JSON ({error})") from error
    require(isinstance(value, dict), "a header that is not a JSON object")
    return cast("dict[str, Any]", value)


def _compact_json(value: object) -> str:
    """Return the value as JSON, the same text for the same value."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _depth(text: str) -> int:
    """Return how deep brackets are nested outside of strings."""
    characters = np.frombuffer(STRINGS.sub("", text).encode("utf-8", "replace"), dtype=np.uint8)
    opening = np.isin(characters, list(b"[{")).astype(np.int64)
    return int(np.cumsum(opening - np.isin(characters, list(b"]}"))).max(initial=0))


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("one key twice")
    return found
