"""What went wrong, in one line for the reader; the whole trace only when asked for."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

import typer

from sparsenam.errors import InputError

NOT_DRAWN = 1
BAD_INPUT = 2
INTERRUPTED = 130


@contextmanager
def readable_errors(*, debug: bool) -> Generator[None]:
    """Turn errors that a reader can mend into one line on stderr and exit code 2; with ``debug`` let them pass."""
    try:
        yield
    except (InputError, ImportError, OSError, ArithmeticError) as error:
        if debug:
            raise
        say_error(error)
        raise typer.Exit(BAD_INPUT) from error


def say_error(error: BaseException) -> None:
    """Write an error's message on one line of stderr."""
    words = " ".join(str(error).split()) or type(error).__name__
    sys.stderr.write(f"sparsenam: {words}\n")
