"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path


def write_atomically(path: Path, *parts: bytes, make_folder: bool = True) -> None:
    """Write the parts into a file beside ``path``, then rename it to ``path``.

    A reader never sees a part of it, and a failure leaves what was there before.
    """
    if make_folder:
        path.parent.mkdir(parents=True, exist_ok=True)
    with written_beside(path) as temporary, temporary.open("xb") as file:
        file.writelines(parts)


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files beside their paths, then rename all; a failure before that leaves what was there."""
    with ExitStack() as stack:
        written: list[tuple[Path, Path]] = []
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = _name_beside(path)
            stack.callback(temporary.unlink, missing_ok=True)
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            written.append((temporary, path))
        for path in contents:
            if path.is_dir():  # the one thing that stops a rename beside a file that could be written
                raise IsADirectoryError(f"{path} is a folder")
        for temporary, path in written:
            os.replace(temporary, path)


@contextmanager
def written_beside(path: Path) -> Generator[Path]:
    """Give the name of a file to write beside ``path``, which becomes ``path`` at the end; a failure removes it."""
    temporary = _name_beside(path)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _name_beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
