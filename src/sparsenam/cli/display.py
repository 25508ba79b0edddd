"""What the commands print: lines, explanations, JSON, and errors and warnings as one line each."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import traceback
import warnings
from _thread import interrupt_main
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from threading import Timer, main_thread
from typing import TYPE_CHECKING

import typer

from sparsenam.cli import INTERRUPTED, leave_at_once
from sparsenam.errors import ClusterError, InputError, describe

if TYPE_CHECKING:
    from sparsenam.explain import Explanation, LocalExplanation

INTERNAL = 1  # exit codes
BAD_INPUT = 2
# characters that move the cursor, colour the text or turn its direction, but for line ends and tabs
COMMANDING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
TYPES = re.compile(r"""feature_types=\{['"](.+?)['"]: "([^"]+)"\}""")
SETTINGS = re.compile(r"\b(always_keep|shapes|feature_types|max_features|max_seconds)(?=:| of column )")
ELSEWHERE = re.compile(r"^-$|[*?[]|:/")  # standard input, a pattern of names, or an address
OPTIONS = {"always_keep": "--keep", "shapes": "--shape", "feature_types": "--types"}  # others are as they are written


def plain_number(value: float) -> str:
    """Return a number to four digits, large ones to the unit, as the report has them but for the blanks within."""
    return f"{value:.0f}" if 9999.5 <= abs(value) < 1e12 else f"{value:.4g}"


def say(message: str = "") -> None:
    """Write a line on stdout; characters that command a terminal are written as escapes."""
    _echo(visible(message))


def say_wrapped(message: str) -> None:
    """Write a line on stdout; on a terminal it is broken between words, where the terminal would break it anywhere."""
    if sys.stdout.isatty():
        message = fill(visible(message), get_terminal_size().columns, subsequent_indent="  ", break_on_hyphens=False)
    say(message)


def note(message: str) -> None:
    """Write a line on stderr; characters that command a terminal are written as escapes."""
    _echo(visible(message), err=True)


def note_trace() -> None:
    """Write the trace of the exception that is being handled on stderr."""
    note(traceback.format_exc().rstrip())


def say_json(content: Mapping[str, object]) -> None:
    """Write plain data as JSON on stdout."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    _echo(COMMANDING.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def visible(text: str) -> str:
    """Return a text with escapes in place of characters that command a terminal."""
    return COMMANDING.sub(lambda found: ascii(found[0])[1:-1], text)


def _echo(text: str, *, err: bool = False) -> None:
    """Write a line; where nobody reads any more, the work goes on without a word."""
    try:
        typer.echo(text, err=err)
    except OSError as error:
        with suppress(OSError):  # what waits to be written goes nowhere, at the end of the process too
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2 if err else 1)
            os.close(nowhere)
        if not err and not isinstance(error, BrokenPipeError):
            raise OSError(error.errno, error.strerror, "standard output") from error


def show_explanation(explanation: Explanation) -> None:
    """Print what is kept, largest first, the dropped columns with the reason, and what to know of the choice."""
    for line in str(explanation).split("\n"):
        say_wrapped(line)


def show_rows(local: LocalExplanation) -> None:
    """Print what each column adds to each row."""
    from sparsenam.text import prediction_label

    say_wrapped(f"Effects are in {local.units}, from {local.reference}.")
    label = prediction_label(local.units, local.outputs)
    for row in local.rows:
        values = [plain_number(value) for value in row.prediction]
        if len(values) > 1:  # one alone is explained by the units
            values = [f"{name} {value}" for name, value in zip(local.outputs, values, strict=True)]
        say()
        say_wrapped(f"row {row.row}: {label} {', '.join(values)}")
        for contribution in row.contributions:
            say(f"  {contribution.text}")


@contextmanager
def readable_errors(*, debug: bool, table: Path | None = None) -> Generator[None]:
    """Turn errors that a reader can mend into one line on stderr and exit code 2; with ``debug`` let them pass.

    Warnings within become single lines too, each said once, and Ctrl-C stops the work instead of the process. A
    ``table`` that is not there is said at once: the libraries that read one take seconds to load.
    """
    try:
        if table is not None and not table.exists() and not ELSEWHERE.search(str(table)):
            raise InputError(describe(str(table), "a file", "none of that name", "correct the path"))
        with _readable_warnings(debug=debug), _stoppable():
            yield
    except (typer.Exit, typer.Abort):
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
            note(f"sparsenam: {_sentence(error)}")
            raise typer.Exit(BAD_INPUT) from error
        cause = f"{type(error).__name__}: {_one_line(error)}"
        note(f"sparsenam: an error inside the program ({cause}); --debug shows where")
        raise typer.Exit(INTERNAL) from error


@contextmanager
def _stoppable() -> Generator[None]:
    """Let Ctrl-C raise KeyboardInterrupt within, once all that the commands need is loaded."""
    import_module("sparsenam.cli.run")
    try:
        ends_process = signal.getsignal(signal.SIGINT) is leave_at_once
    except ValueError:
        ends_process = False
    if not ends_process:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.unraisablehook = _raised_again
    try:
        yield
    finally:
        sys.unraisablehook = sys.__unraisablehook__
        signal.signal(signal.SIGINT, leave_at_once)


def _raised_again(lost: sys.UnraisableHookArgs) -> None:
    """Send a Ctrl-C again that came where Python only prints exceptions: in a callback, or as an object is deleted."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        Timer(0.05, _interrupt).start()
    else:
        sys.__unraisablehook__(lost)


def _interrupt() -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)  # which wakes a sleeping call, too
    else:
        interrupt_main()


@contextmanager
def _readable_warnings(*, debug: bool) -> Generator[None]:
    """Write warnings meant for users as single lines on stderr; with ``debug`` leave all as Python shows them."""
    if debug:
        yield
        return
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: object, **more: object) -> None:
        text = _one_line(message)
        if issubclass(category, UserWarning) and text not in shown:
            shown.add(text)
            note(f"sparsenam: warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def _sentence(error: Exception) -> str:
    """Return what an error says, in one sentence; that of the system with the file that it is about."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        expected, got = "a file or folder that can be used", error.strerror.lower()
        return describe(_one_line(str(error.filename)), expected, got, "mend that or name another")
    text = _one_line(error) or type(error).__name__
    return SETTINGS.sub(lambda found: OPTIONS.get(found[1], "--" + found[1].replace("_", "-")), text, count=1)


def _one_line(message: object) -> str:
    """Return a message in one line, with options of the command for parameters of the library."""

    def as_option(found: re.Match[str]) -> str:
        text = f"{found[1]}={found[2]}"
        return f"--types {text}" if re.fullmatch(r"[\w=.-]+", text) else f'--types "{text}"'

    return TYPES.sub(as_option, " ".join(str(message).split()))
