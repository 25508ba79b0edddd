"""Figures as files."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Protocol, cast

import matplotlib
from matplotlib.figure import Figure

from sparsenam.errors import InputError, describe
from sparsenam.files import write_atomically

DPI = 150


class _Saves(Protocol):
    def savefig(self, stream: IO[bytes], *, format: str, dpi: int, metadata: dict[str, str | None]) -> None: ...


class _Settings(Protocol):
    def rc_context(self, settings: dict[str, str], /) -> AbstractContextManager[None]: ...


def save_figure(figure: Figure, folder: str | Path, name: str) -> tuple[Path, Path]:
    """Write ``name.png`` and ``name.svg`` into the folder, each whole or not at all, and return their paths.

    The same figure gives the same bytes on every day.
    """
    if not name or name != Path(name).name:
        raise InputError(describe("save_figure", "a name without folders", repr(name), "give the folder apart"))
    stem = Path(folder) / name
    return _save(figure, Path(f"{stem}.png"), {}), _save(figure, Path(f"{stem}.svg"), {"Date": None})


def _save(figure: Figure, path: Path, metadata: dict[str, str | None]) -> Path:
    stream = io.BytesIO()
    # without a salt the ids inside an SVG are random
    with cast(_Settings, matplotlib).rc_context({"svg.hashsalt": path.name}):
        cast(_Saves, figure).savefig(stream, format=path.suffix[1:], dpi=DPI, metadata=metadata)
    write_atomically(path, stream.getvalue())
    return path
