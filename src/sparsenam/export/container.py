"""The bytes of a model file: safetensors, with a sha256 that sees every changed bit.

A file is the length of the header (8 bytes), the header (JSON: what each tensor is, and under ``__metadata__`` the
document and the sha256), then the numbers of all tensors. The sha256 is that of the whole file with zeros in its
own place, which is at the start of the header. Any reader of safetensors reads the file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import describe
from sparsenam.export.checks import as_record, as_whole_numbers, require
from sparsenam.export.problems import ModelFileError, RefusalError, refused
from sparsenam.export.strict_json import parse_object, write
from sparsenam.files import write_atomically

Tensors = Mapping[str, NDArray[np.float64] | NDArray[np.int64]]

TYPES = {"F64": "<f8", "I64": "<i8"}
MOST_HEADER = 1 << 26  # bytes
MOST_DATA = 1 << 31
START = b'{"__metadata__":{"sha256":"'
DIGEST = slice(len(START), len(START) + 64)


def write_container(path: Path, document: Mapping[str, Any], tensors: Tensors) -> None:
    """Write a document and tensors of float64 or int64 into a file, whole or not at all."""
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
        expected, remedy = "a place that can be written to", "make the folder or name another"
        raise ModelFileError(describe(f"model file {path}", expected, f"{error}", remedy)) from error


def read_container(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the document and the tensors of a file; raise `ModelFileError` unless it is whole and plain."""
    if not path.is_file():
        expected, got = "a file written by save", "a folder or device" if path.exists() else "nothing there"
        raise ModelFileError(describe(f"model file {path}", expected, got, "correct the path"))
    try:
        with path.open("rb") as file:
            return _read(file)
    except (RefusalError, OSError) as error:
        raise refused(path, str(error)) from error


def _header(document: Mapping[str, Any], tensors: Tensors) -> tuple[bytes, bytes]:
    names: dict[str, str] = {"float64": "F64", "int64": "I64"}
    entries: dict[str, Any] = {"__metadata__": {"sha256": "0" * 64, "sparsenam": write(document)}}
    parts: list[bytes] = []
    end = 0
    for name, tensor in tensors.items():
        kind = names[tensor.dtype.name]
        parts.append(np.ascontiguousarray(tensor, dtype=TYPES[kind]).tobytes())
        start, end = end, end + len(parts[-1])
        entries[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [start, end]}
    header = write(entries).encode()
    return header + b" " * (-len(header) % 8), b"".join(parts)


def _read(file: BinaryIO) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
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
    told = as_record(entries.pop("__metadata__", None), ("sha256", "sparsenam"), "a header without a document")
    require(isinstance(told["sparsenam"], str), "a header without a document")
    return parse_object(told["sparsenam"]), _tensors(entries, data)


def _check_digest(header: bytes, data: bytes) -> None:
    digest = hashlib.sha256(len(header).to_bytes(8, "little"))
    for part in (header[: DIGEST.start], b"0" * 64, header[DIGEST.stop :], data):
        digest.update(part)
    require(digest.hexdigest().encode() == header[DIGEST], "changed bytes (the sha256 is another)")


def _tensors(entries: Mapping[str, Any], data: bytes) -> dict[str, NDArray[Any]]:
    """Return the tensors, which must fill the data one after the other and hold finite numbers."""
    found: dict[str, NDArray[Any]] = {}
    end = 0
    for name, entry in entries.items():
        words = f"a damaged tensor {name[:40]!r}"
        told = as_record(entry, ("dtype", "shape", "data_offsets"), words)
        shape, offsets = as_whole_numbers(told["shape"], words), as_whole_numbers(told["data_offsets"], words)
        require(told["dtype"] in ("F64", "I64") and len(shape) <= 2 and len(offsets) == 2, words)
        count = 1
        for length in shape:
            require(length <= MOST_DATA, words)
            count *= length
        require(offsets == [end, end + 8 * count] and offsets[1] <= len(data), words)
        flat = np.frombuffer(data, TYPES[told["dtype"]], count, end)
        found[name] = flat.astype(flat.dtype.newbyteorder("=")).reshape(shape)
        require(bool(np.isfinite(found[name]).all()), f"numbers that are not finite in the tensor {name[:40]!r}")
        end = offsets[1]
    require(end == len(data), "bytes that belong to no tensor")
    return found
