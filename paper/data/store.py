"""Public data files: found in a folder or fetched once, and used only if their sha256 is right."""

from __future__ import annotations

import gzip
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs

from paper.data.download import download, unpack
from sparsenam.errors import InputError, describe
from sparsenam.files import write_atomically

VARIABLE = "SPARSENAM_DATA"


@dataclass(frozen=True, slots=True)
class Copy:
    """A name under which a file may lie in a folder, and the sha256 it must have there."""

    name: str
    sha256: str
    compressed: bool = False


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file: its copies, of which the last, plain one is what the cache keeps, and its archive member.

    ``member`` is the exact name inside the source's archive, or None if the download is the file itself.
    With ``unix_lines`` the line ends CRLF count as LF, since public copies differ in nothing else.
    """

    copies: tuple[Copy, ...]
    member: str | None = None
    unix_lines: bool = False

    @property
    def plain(self) -> Copy:
        """The copy that the cache keeps."""
        return self.copies[-1]


@dataclass(frozen=True, slots=True)
class Source:
    """Where files come from: addresses tried in turn, the kind of archive, and the most bytes any part may have."""

    title: str
    urls: tuple[str, ...]
    files: tuple[DataFile, ...]
    archive: Literal["zip", "tar.gz"] | None = None
    limit: int = 100_000_000


def read_files(source: Source, folder: str | Path | None = None) -> tuple[bytes, ...]:
    """Return the content of each of the source's files, in their order.

    A file is taken from ``folder``, else from the folder that the variable SPARSENAM_DATA names, else from the
    user's cache; what is in none of them is downloaded into the cache.

    Raises
    ------
    InputError
        If a file has another sha256 than the published one, or is nowhere to be had.
    """
    folders = [*_named_folders(folder), cache_folder()]
    found = [_find(file, folders, source.limit) for file in source.files]
    if any(content is None for content in found):
        fetched = _fetch(source)
        for file, content, old in zip(source.files, fetched, found, strict=True):
            if old is None:
                _keep(cache_folder() / file.plain.name, content)
        found = [new if old is None else old for old, new in zip(found, fetched, strict=True)]
    return tuple(content for content in found if content is not None)


def cache_folder() -> Path:
    """Return the user's cache folder of this library; it need not exist."""
    return Path(platformdirs.user_cache_dir("sparsenam", appauthor=False))


def _named_folders(folder: str | Path | None) -> list[Path]:
    """Return the folders that the caller and the environment name; a name without a folder is an error."""
    named = [("folder", folder), (f"the variable {VARIABLE}", os.environ.get(VARIABLE))]
    folders = [(where, Path(path)) for where, path in named if path]
    for where, path in folders:
        if not path.is_dir():
            remedy = "make the folder, correct the name or leave it out"
            raise InputError(describe(where, "an existing folder", str(path), remedy))
    return [path for _, path in folders]


def _find(file: DataFile, folders: list[Path], limit: int) -> bytes | None:
    """Return the content of the first copy there is, or None; the first one must be right."""
    for folder in folders:
        for copy in file.copies:
            if (folder / copy.name).is_file():
                return _read(folder / copy.name, copy, file.unix_lines, limit)
    return None


def _read(path: Path, copy: Copy, unix_lines: bool, limit: int) -> bytes:
    with path.open("rb") as stream:
        content = stream.read(limit + 1)
    content = _checked(str(path), content, copy.sha256, unix_lines, "delete it or replace it by the published file")
    return gzip.decompress(content) if copy.compressed else content


def _checked(where: str, content: bytes, expected: str, unix_lines: bool, remedy: str) -> bytes:
    """Return the content, with LF line ends if asked for, once its sha256 is the expected one."""
    content = content.replace(b"\r\n", b"\n") if unix_lines else content
    got = hashlib.sha256(content).hexdigest()
    if got != expected:
        raise InputError(describe(where, f"a file with sha256 {expected}", f"sha256 {got}", remedy))
    return content


def _fetch(source: Source) -> list[bytes]:
    """Return the files of the source from the first of its addresses that answers."""
    reasons: list[str] = []
    for url in source.urls:
        try:
            packed = download(url, source.limit, source.title)
        except OSError as error:  # no network, no such page, too slow, broken off
            reasons.append(f"{type(error).__name__} ({error}) from {url}")
            continue
        contents = unpack(url, packed, source.archive, [file.member for file in source.files], source.limit)
        return [
            _checked(f"{file.plain.name} from {url}", content, file.plain.sha256, file.unix_lines, _by_hand(source))
            for file, content in zip(source.files, contents, strict=True)
        ]
    expected = "its files in a folder or a download"
    raise InputError(describe(source.title, expected, " and ".join(reasons), _by_hand(source)))


def _by_hand(source: Source) -> str:
    """Return how to get the files without this library: which, from where, to where, with which sums."""
    files = " and ".join(
        f"{file.plain.name} ({f'{file.member} in the archive, ' if file.member else ''}sha256 {file.plain.sha256})"
        for file in source.files
    )
    return (
        f"get {files} from {' or '.join(source.urls)} and put what you got into {cache_folder()} "
        f"or into the folder that {VARIABLE} names"
    )


def _keep(path: Path, content: bytes) -> None:
    try:
        write_atomically(path, content)
    except OSError as error:
        expected = "a folder that can be written to"
        remedy = f"free it or put {path.name} into the folder that {VARIABLE} names"
        raise InputError(describe(f"the cache {path.parent}", expected, str(error), remedy)) from error
