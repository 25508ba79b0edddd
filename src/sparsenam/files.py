"""Files that appear whole or not at all.

A file is written beside its place and then renamed. One that was there before keeps its permissions; where the path is
a symbolic link, the file that it leads to is written and the link stays. What a killed process left of a file that it
was writing is removed by the next write into the same folder.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

PART = re.compile(r"\..+\.([0-9a-f]{8})-([0-9]+)-[0-9a-f]{8}\.part", re.DOTALL)  # machine and process that write it
LONGEST_FILE_NAME = 180  # bytes of a name that are repeated in that of its part, of the 255 that most disks allow
ABANDONED = 24 * 3600.0  # seconds after which a part is taken for left over, whichever machine wrote it


def write_atomically(path: Path, *parts: bytes, make_folder: bool = True) -> None:
    """Write the parts into a file beside ``path``, then rename it to ``path``.

    A reader never sees a part of it, and a failure leaves what was there before.
    """
    if make_folder:
        path.parent.mkdir(parents=True, exist_ok=True)
    with written_beside(path) as temporary, temporary.open("wb") as file:
        file.writelines(parts)


def said_by(error: OSError) -> str:
    """Return what the system says of a file, without its number and the path."""
    return (error.strerror or str(error)).lower()


def write_together(contents: Mapping[Path, bytes | Callable[[Path], object]], replaced: Iterable[Path] = ()) -> None:
    """Write several files beside their paths, then rename all, in this order; a failure before leaves what was there.

    A content is bytes, or a function that writes a file at the path it is given. The files in ``replaced`` are removed
    before the first is renamed, so that none of them ever stands beside a new file.
    """
    with ExitStack() as stack:
        parts: list[_Part] = []
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = stack.enter_context(_begun(path))
            if callable(content):
                content(part.temporary)
            else:
                part.temporary.write_bytes(content)
            part.complete()
            parts.append(part)
        for path in replaced:
            remove(path)
        for part in parts:
            os.replace(part.temporary, part.place)


@contextmanager
def written_beside(path: Path) -> Generator[Path]:
    """Give the name of a file to write beside ``path``, which becomes ``path`` at the end; a failure removes it."""
    with _begun(path) as part:
        yield part.temporary
        part.complete()
        os.replace(part.temporary, part.place)


@contextmanager
def folder_beside(path: Path) -> Generator[Path]:
    """Give a folder beside ``path`` for what is only needed on the way to it; it is removed at the end."""
    remove_leftovers(path.parent)
    folder = _name_beside(path)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove(path: Path) -> None:
    """Remove a file, if it is there; of a symbolic link the file that it leads to."""
    Path(os.path.realpath(path)).unlink(missing_ok=True)


def check_folder(folder: Path) -> None:
    """Raise `OSError` unless a file can be written into a folder that is there."""
    try:
        with TemporaryFile(dir=folder) as file:
            file.write(b"\0")
    except OSError as error:
        error.filename = str(folder)
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove what processes that are gone left of files that they were writing into a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = PART.fullmatch(entry.name)
            if found is None or not _is_left_over(entry, found[1], int(found[2])):
                continue
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)


@dataclass(frozen=True, slots=True)
class _Part:
    """A file that is being written: where it will be, where it is, and the file whose permissions it takes."""

    place: Path
    temporary: Path
    before: os.stat_result | None

    def complete(self) -> None:
        """Bring the content to the disk, and give it the permissions of what was there before."""
        with self.temporary.open("rb+") as file:
            os.fsync(file.fileno())
        if self.before is not None:
            if hasattr(os, "chown"):
                with suppress(OSError):  # only the system's user may give files away
                    os.chown(self.temporary, self.before.st_uid, self.before.st_gid)
            os.chmod(self.temporary, stat.S_IMODE(self.before.st_mode))


@contextmanager
def _begun(path: Path) -> Generator[_Part]:
    """Begin a file beside ``path``, which is removed at the end if it is still there; errors of it name ``path``."""
    place = Path(os.path.realpath(path))
    remove_leftovers(place.parent)
    temporary = _name_beside(place)
    try:
        before = place.stat() if place.exists() else None
        if before is not None and stat.S_ISDIR(before.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        # nobody may read what will replace a file before it has the permissions of that file
        mode = 0o666 if before is None else 0o600
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        try:
            yield _Part(place, temporary, before)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        if error.errno is not None and (error.filename is None or str(error.filename) == str(temporary)):
            error.filename = str(path)
            del error.filename2  # None would be printed as a second name
        raise


def _name_beside(path: Path) -> Path:
    name = (
        path.name if len(os.fsencode(path.name)) <= LONGEST_FILE_NAME else f"{zlib.crc32(os.fsencode(path.name)):08x}"
    )
    return path.with_name(f".{name}.{_machine()}-{os.getpid()}-{secrets.token_hex(4)}.part")


@cache
def _machine() -> str:
    """Return what stands for this machine since its start, and for the processes that can be seen from this one."""
    facts = [os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")]
    with suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    with suppress(OSError):
        facts.append(os.readlink("/proc/self/ns/pid"))
    return f"{zlib.crc32(repr(facts).encode()):08x}"


def _is_left_over(entry: os.DirEntry[str], machine: str, process: int) -> bool:
    """Return whether nobody is writing a part any more: its process is gone, or it has not grown for a day."""
    if machine == _machine() and os.name == "posix":
        try:
            os.kill(process, 0)  # sends nothing, only asks
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            return False
    with suppress(OSError):
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > ABANDONED
    return False
