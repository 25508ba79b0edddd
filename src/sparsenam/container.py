"""The bytes of every file that is read again: safetensors, with a sha256 that sees every changed bit.

A file is the length of the header (8 bytes), the header (JSON: what each tensor is, and under ``__metadata__`` the
document and the sha256), then the numbers of all tensors. The sha256 is that of the whole file with zeros in the
bytes of the sha256 itself, which is at the start of the header. Any reader of safetensors reads the file. Model files,
checkpoints and stages of the command are such files; what their documents say is declared where they are read.

Reading takes time and memory in proportion to the file: JSON is measured before it is parsed, and every size that
a file states is compared with the bytes that are there before anything is made of it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import RefusalError, require

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Numeric: TypeAlias = NDArray[Any]  # an array of one of the types below
Tensors: TypeAlias = dict[str, Numeric]

TYPES = {"F64": "<f8", "I64": "<i8", "F32": "<f4", "I32": "<i4", "U8": "|u1"}
MOST_HEADER = 1 << 26  # bytes: 100,000 columns take about half of it
MOST_VALUES = 1 << 21  # of the JSON: what is read takes 250 bytes an object, 120 a key and 40 a value
MOST_KEYS, MOST_OBJECTS = 1_250_000, 320_000  # 90,000 columns that all miss cells, 160,000 that miss none
MOST_DATA = 1 << 31
MOST_AXES = 8
START = b'{"__metadata__":{"sha256":"'
DIGEST = slice(len(START), len(START) + 64)
DEEPEST = 32  # nesting of the JSON
NO_STRUCTURE = bytes(set(range(256)) - set(b'"[]{},:'))
STEPS = np.zeros(256, dtype=np.int8)  # how each character changes the depth
STEPS[list(b"[{")], STEPS[list(b"]}")] = 1, -1


def is_list(value: object) -> TypeGuard[list[Json]]:
    """Return whether a value that JSON gave is a list."""
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[dict[str, Json]]:
    """Return whether a value that JSON gave is an object."""
    return isinstance(value, dict)


def _as_record(value: object, keys: Iterable[str], got: str) -> dict[str, Json]:
    """Return the value once it is a record with exactly these keys."""
    if not is_object(value) or set(value) != set(keys):
        raise RefusalError(got)
    return value


def _as_sizes(value: object, got: str) -> list[int]:
    """Return the value once it is a list of whole numbers, none below 0."""
    sizes = [size for size in value if type(size) is int and size >= 0] if is_list(value) else None
    if sizes is None or sizes != value:
        raise RefusalError(got)
    return sizes


class ForeignFileError(RefusalError):
    """A file is of another kind."""


def packed(document: object, tensors: Mapping[str, Numeric]) -> tuple[bytes, ...]:
    """Return the parts of a file with a document and tensors; raise `RefusalError` for what no file can hold."""
    header, data = _header(document, tensors)
    if len(header) > MOST_HEADER or len(data) > MOST_DATA:
        raise RefusalError(f"{len(header)} bytes of names and settings and {len(data)} bytes of numbers")
    length = len(header).to_bytes(8, "little")
    return length, header[: DIGEST.start], _digest(header, data), header[DIGEST.stop :], data


def unpacked(path: Path) -> tuple[dict[str, Json], Tensors]:
    """Return the document and the tensors of a file; raise `RefusalError` unless it is whole, plain and finite."""
    with path.open("rb") as file:
        if not START.startswith(file.read(8 + len(START))[8:]):  # a file that was cut short may be one
            raise ForeignFileError("a file of another kind")
        file.seek(0)
        return _read(file)


def _header(document: object, tensors: Mapping[str, Numeric]) -> tuple[bytes, bytes]:
    names = {np.dtype(stored).name: kind for kind, stored in TYPES.items()}
    content = compact_json(document)
    measure_json(content)
    entries: dict[str, object] = {"__metadata__": {"sha256": "0" * 64, "sparsenam": content.decode()}}
    parts: list[bytes] = []
    end = 0
    # long numbers first, so that each lies at a multiple of its size
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].dtype.itemsize):
        require(tensor.dtype.name in names, f"numbers of the type {tensor.dtype} in the array {name[:40]!r}")
        kind = names[tensor.dtype.name]
        parts.append(np.asarray(tensor, dtype=TYPES[kind], order="C").tobytes())
        start, end = end, end + len(parts[-1])
        entries[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [start, end]}
    header = compact_json(entries)
    return header + b" " * (-len(header) % 8), b"".join(parts)


def _read(file: BinaryIO) -> tuple[dict[str, Json], Tensors]:
    size = os.fstat(file.fileno()).st_size
    require(size > 8 + DIGEST.stop, f"one of {size} bytes")
    length = int.from_bytes(file.read(8), "little")
    require(length <= MOST_HEADER, f"a header of {length} bytes")
    require(8 + length <= size and size - length <= MOST_DATA, f"one of {size} bytes with a header of {length}")
    header, data = file.read(length), file.read(size - 8 - length)
    require(header.startswith(START) and len(header) + len(data) + 8 == size, "one without the mark of sparsenam")
    require(_digest(header, data) == header[DIGEST], "changed bytes (the sha256 is another)")
    entries = parse_object(header)
    del header  # the document in it is as long again
    metadata = _as_record(entries.pop("__metadata__", None), ("sha256", "sparsenam"), "a header without a document")
    content = metadata.pop("sparsenam")
    if not isinstance(content, str):
        raise RefusalError("a header without a document")
    document = parse_object(content)
    del content
    return document, _tensors(entries, data)


def _digest(header: bytes, data: bytes) -> bytes:
    """Return the sha256 of a file whose header has zeros in its place."""
    digest = hashlib.sha256(len(header).to_bytes(8, "little"))
    for part in (header[: DIGEST.start], b"0" * 64, header[DIGEST.stop :], data):
        digest.update(part)
    return digest.hexdigest().encode()


def _tensors(entries: Mapping[str, Json], data: bytes) -> Tensors:
    """Return the tensors, which must fill the data one after the other."""
    found: Tensors = {}
    end = 0
    for name, entry in entries.items():
        damage = f"a damaged tensor {name[:40]!r}"
        record = _as_record(entry, ("dtype", "shape", "data_offsets"), damage)
        shape, offsets = _as_sizes(record["shape"], damage), _as_sizes(record["data_offsets"], damage)
        stored = TYPES.get(str(record["dtype"]))
        if stored is None or len(shape) > MOST_AXES or len(offsets) != 2:
            raise RefusalError(damage)
        # an axis of length 0 must not hide others that no array can have
        require(math.prod(max(length, 1) for length in shape) <= MOST_DATA, damage)
        count, size = math.prod(shape), np.dtype(stored).itemsize
        require(offsets == [end, end + size * count] and offsets[1] <= len(data), damage)
        flat = np.frombuffer(data, stored, count, end)
        found[name] = flat.astype(flat.dtype.newbyteorder("=")).reshape(shape)
        require(bool(np.isfinite(found[name]).all()), f"numbers that are not finite in the tensor {name[:40]!r}")
        end = offsets[1]
    require(end == len(data), "bytes that belong to no tensor")
    return found


def parse_object(content: bytes | str) -> dict[str, Json]:
    """Return the JSON object in some text; raise `RefusalError` unless it is plain, of moderate size and depth."""
    require(content.isascii(), "a header that is not ASCII")  # one other character would make all four times as long
    written, read = measure_json(content.encode() if isinstance(content, str) else content), 0

    def counted(found: dict[str, Json]) -> dict[str, Json]:
        nonlocal read
        read += len(found)
        return found

    try:
        value: object = json.loads(content, parse_constant=_refuse_constant, object_hook=counted)
    except (ValueError, RecursionError) as error:
        raise RefusalError(f"a header that is not JSON ({str(error)[:80]})") from error
    if not is_object(value):
        raise RefusalError("a header that is not a JSON object")
    require(read == written, "a header with one key twice")  # a list of all pairs would take as much memory again
    return value


def compact_json(value: object) -> bytes:
    """Return the value as JSON, the same text for the same value."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (ValueError, RecursionError) as error:
        raise RefusalError(f"what JSON cannot hold ({str(error)[:80]})") from error


def measure_json(content: bytes) -> int:
    """Return the number of keys; raise `RefusalError` for JSON that is nested too deep or has too many values.

    Two backslashes are one character of a text, and so are a backslash and a quote; without them every quote begins or
    ends a text. Brackets and commas count between texts.
    """
    bare = content.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, delete=NO_STRUCTURE)
    signs = np.frombuffer(bare, dtype=np.uint8)
    outside = signs[np.cumsum(signs == ord('"'), dtype=np.uint8) % 2 == 0]  # a sum modulo 256 is odd where the sum is
    objects, lists, commas, keys = (int(np.count_nonzero(outside == ord(sign))) for sign in "{[,:")
    deepest = int(np.cumsum(STEPS[outside], dtype=np.int32).max(initial=0))
    require(deepest <= DEEPEST, f"a header nested more than {DEEPEST} deep")
    require(objects + lists + commas <= MOST_VALUES, f"a header of more than {MOST_VALUES} values")
    moderate = keys <= MOST_KEYS and objects <= MOST_OBJECTS
    require(moderate, f"a header of more than {MOST_KEYS} keys or {MOST_OBJECTS} objects of values")
    return keys


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")
