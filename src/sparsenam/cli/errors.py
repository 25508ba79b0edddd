"""What went wrong, in one line for the reader; the whole trace only when asked for."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

import typer

NOT_DRAWN = INTERNAL = 1
BAD_INPUT = 2
INTERRUPTED = 130


@contextmanager
def readable_errors(*, debug: bool) -> Generator[None]:
    """Turn errors that a reader can mend into one line on stderr and exit code 2; with ``debug`` let them pass.

    Warnings within become single lines too, each said once.
    """
    try:
        with readable_warnings(debug=debug):
            yield
    except (ValueError, ImportError, OSError, ArithmeticError) as error:
        if debug:
            raise
        say_error(error)
        raise typer.Exit(BAD_INPUT) from error
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if debug:
            raise
        words = f"an error inside the program ({type(error).__name__}: {error}); --debug shows where"
        say_error(RuntimeError(words))
        raise typer.Exit(INTERNAL) from error


@contextmanager
def readable_warnings(*, debug: bool) -> Generator[None]:
    """Write warnings meant for users as single lines on stderr; with ``debug`` leave all as Python shows them."""
    if debug:
        yield
        return
    said: set[str] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        words = " ".join(str(message).split())
        if issubclass(category, UserWarning) and words not in said:
            said.add(words)
            sys.stderr.write(f"sparsenam: warning: {words}\n")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def say_error(error: BaseException) -> None:
    """Write an error's message on one line of stderr."""
    words = " ".join(str(error).split()) or type(error).__name__
    sys.stderr.write(f"sparsenam: {words}\n")
