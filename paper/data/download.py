"""Downloads and archives, held in memory under a limit of bytes; nothing is ever unpacked to a path."""

from __future__ import annotations

import gzip
import http.client
import io
import sys
import tarfile
import urllib.request
import zipfile
from typing import IO, Literal, Protocol

from tqdm import tqdm

from sparsenam.errors import InputError, describe

PATIENCE = 2.0  # seconds before the bar appears
TIMEOUT = 30.0  # seconds without a byte
CHUNK = 1 << 16


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def download(url: str, limit: int, title: str) -> bytes:
    """Return what the address holds.

    Raises
    ------
    OSError
        If it cannot be reached, refuses, or breaks off before its announced length.
    InputError
        If it holds more than ``limit`` bytes.
    """
    request = urllib.request.Request(url, headers={"User-Agent": "sparsenam"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            announced = response.headers.get("Content-Length", "")
            length = int(announced) if announced.isdecimal() else None
            content = _received(response, length, limit, url, title)
    except http.client.HTTPException as error:
        raise ConnectionError(f"broken answer: {type(error).__name__}") from error
    if length is not None and len(content) < length:
        raise ConnectionError(f"the download broke off after {len(content)} of {length} bytes")
    return content


def _received(response: IO[bytes], length: int | None, limit: int, url: str, title: str) -> bytes:
    received = bytearray()
    bar = tqdm(total=length, desc=title, unit="B", delay=PATIENCE, disable=None, leave=False, file=sys.stderr)
    with bar:
        while chunk := response.read(CHUNK):
            received += chunk
            if len(received) > limit:
                raise _oversized(url, limit)
            bar.update(len(chunk))
    return bytes(received)


def unpack(
    url: str, packed: bytes, archive: Literal["zip", "tar.gz"] | None, members: list[str | None], limit: int
) -> list[bytes]:
    """Return the members of these exact names; without an archive the download itself, for each of them.

    Raises
    ------
    InputError
        If the archive is damaged, lacks a member, or is larger than ``limit`` bytes when unpacked.
    """
    if archive is None:
        return [packed for _ in members]
    names = [name for name in members if name is not None]
    take = _from_zip if archive == "zip" else _from_tar
    try:
        return take(url, packed, names, limit)
    except InputError:
        raise
    except Exception as error:  # damaged bytes make zipfile and tarfile raise a dozen kinds
        got, remedy = f"a damaged one ({type(error).__name__}: {error})", "try again later or get it by hand"
        raise InputError(describe(url, f"a {archive} archive", got, remedy)) from error


def _from_zip(url: str, packed: bytes, names: list[str], limit: int) -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        held = set(archive.namelist())
        contents: list[bytes] = []
        for name in names:
            if name not in held:
                raise _missing(url, name)
            with archive.open(name) as stream:
                contents.append(_within(url, stream, limit))
    return contents


def _from_tar(url: str, packed: bytes, names: list[str], limit: int) -> list[bytes]:
    # unpacked as a whole first: tarfile would read on through a bomb while it looks for a name
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
        content = _within(url, stream, limit)
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        files = {entry.name: entry for entry in archive if entry.isreg()}  # a link may lead elsewhere
        contents: list[bytes] = []
        for name in names:
            stream = archive.extractfile(files[name]) if name in files else None
            if stream is None:
                raise _missing(url, name)
            contents.append(stream.read())
    return contents


def _within(url: str, stream: _Readable, limit: int) -> bytes:
    content = stream.read(limit + 1)
    if len(content) > limit:
        raise _oversized(url, limit)
    return content


def _oversized(url: str, limit: int) -> InputError:
    remedy = "do not use this download; get the file by hand"
    return InputError(describe(url, f"at most {limit} bytes", "more", remedy))


def _missing(url: str, name: str) -> InputError:
    remedy = "get the file by hand from another copy"
    return InputError(describe(url, f"an archive with the file {name}", "none of this name", remedy))
