"""Who hears what a run is doing; the command line has one that draws, a program may have its own."""

from __future__ import annotations

from typing import Protocol

from sparsenam.paper.store import Record


class Reporter(Protocol):
    """Hears of every step of a run."""

    def begin(self, name: str, done: int, total: int) -> None:
        """A name begins, with so many of its records there already."""
        ...

    def start(self, label: str) -> None:
        """A record is being made."""
        ...

    def finish(self, record: Record) -> None:
        """A record is stored."""
        ...

    def tell(self, message: str) -> None:
        """Something the reader should know."""
        ...


class Silence:
    """Hears everything and says nothing."""

    def begin(self, name: str, done: int, total: int) -> None: ...
    def start(self, label: str) -> None: ...
    def finish(self, record: Record) -> None: ...
    def tell(self, message: str) -> None: ...
