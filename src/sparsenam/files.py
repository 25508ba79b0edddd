"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def write_atomically(path: Path, *parts: bytes, make_folder: bool = True) -> None:
    """Write the parts into a file beside ``path``, then rename it to ``path``.

    A reader never sees a part of it, and a failure leaves what was there before.
    """
    if make_folder:
        path.parent.mkdir(parents=True, exist_ok=True)
    with written_beside(path) as temporary, temporary.open("xb") as file:
        file.writelines(parts)


@contextmanager
def written_beside(path: Path) -> Generator[Path]:
    """Give the name of a file to write beside ``path``, which becomes ``path`` at the end; a failure removes it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
