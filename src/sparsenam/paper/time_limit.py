"""A limit on the time of one fit."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class TimeLimitError(TimeoutError):
    """A fit took longer than its recipe allows."""


@contextmanager
def limited_to(seconds: float | None) -> Generator[None]:
    """Raise `TimeLimitError` inside the block after so many seconds.

    The system's alarm does it, which rings in the main thread of POSIX systems only: elsewhere there is no limit.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if seconds is None or not in_main_thread or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeLimitError(f"longer than the limit of {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
