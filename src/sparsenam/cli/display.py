"""What the commands print: lines, tables, JSON, and errors and warnings as one line each."""

from __future__ import annotations

import json
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import typer

from sparsenam.errors import ClusterError

INTERNAL = 1  # exit codes
BAD_INPUT = 2
INTERRUPTED = 130
FILE_WIDTH = 200  # columns of text where stdout is no terminal and has no edge to wrap at


def say(message: str = "") -> None:
    """Write a line on stdout."""
    typer.echo(message)


def note(message: str) -> None:
    """Write a line on stderr."""
    typer.echo(message, err=True)


def say_json(content: Mapping[str, Any]) -> None:
    """Write plain data as JSON on stdout."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout, the first column to the left and numbers to the right."""
    # loaded here and not at the top: "sparsenam --help" must not wait for it
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for index, heading in enumerate(headings):
        table.add_column(Text(heading), justify="left" if index == 0 else "right", no_wrap=index == 0)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    console.print(table)


@contextmanager
def readable_errors(*, debug: bool) -> Generator[None]:
    """Turn errors that a reader can mend into one line on stderr and exit code 2; with ``debug`` let them pass.

    Warnings within become single lines too, each said once.
    """
    try:
        with _readable_warnings(debug=debug):
            yield
    except (typer.Exit, typer.Abort, BrokenPipeError):  # a pipe that its reader closed is no error
        raise
    except KeyboardInterrupt as stop:
        if debug:
            raise
        note("Stopped before the end; the same command starts again.")
        raise typer.Exit(INTERRUPTED) from stop
    except Exception as error:
        if debug:
            raise
        if isinstance(error, ValueError | ImportError | OSError | ArithmeticError | ClusterError):
            note(f"sparsenam: {_one_line(error) or type(error).__name__}")
            raise typer.Exit(BAD_INPUT) from error
        cause = f"{type(error).__name__}: {_one_line(error)}"
        note(f"sparsenam: an error inside the program ({cause}); --debug shows where")
        raise typer.Exit(INTERNAL) from error


@contextmanager
def _readable_warnings(*, debug: bool) -> Generator[None]:
    """Write warnings meant for users as single lines on stderr; with ``debug`` leave all as Python shows them."""
    if debug:
        yield
        return
    shown: set[str] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = _one_line(message)
        if issubclass(category, UserWarning) and text not in shown:
            shown.add(text)
            note(f"sparsenam: warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def _one_line(message: object) -> str:
    return " ".join(str(message).split())
