"""The command ``sparsenam``; it needs the extra ``cli``, which brings typer."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in typing, which is not loaded yet
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130  # exit code


def leave_at_once(number: int, frame: object) -> NoReturn:
    """End the process in one sentence: libraries are being loaded, which an exception could leave half loaded."""
    try:
        os.write(2, b"Stopped before anything was done; the same command starts again.\n")
    finally:
        os._exit(INTERRUPTED)


try:  # what Python has not loaded yet takes some milliseconds
    import signal
    from io import TextIOWrapper
except KeyboardInterrupt:
    leave_at_once(2, None)


def main() -> None:
    """Run the command; without typer, say what to install and exit with 1."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as it is in the background of a script
        signal.signal(signal.SIGINT, leave_at_once)
    from importlib.util import find_spec

    _open_streams()
    if find_spec("typer") is None:
        remedy = 'install it with: pip install "sparsenam[cli]"'
        sys.exit(f"sparsenam: expected the package typer, got no typer; {remedy}.")
    from sparsenam.cli.app import app
    from sparsenam.cli.display import note_trace

    try:
        app(prog_name="sparsenam")
    except KeyboardInterrupt:  # a second one, while the first was answered
        sys.exit(INTERRUPTED)
    except Exception:  # only --debug lets one come so far
        note_trace()
        sys.exit(1)
    finally:
        if signal.getsignal(signal.SIGINT) is leave_at_once:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the work is done; let the interpreter end in peace


def _open_streams() -> None:
    """Let closed standard streams lead nowhere, and characters that a stream cannot write be written as escapes.

    Without this the first file that is opened would take the place of a closed stream, and what is printed.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  # it is where it was closed
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # open to the end
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            try:
                stream.reconfigure(errors="backslashreplace")
            except OSError:  # the stream is of no use, which is said where it is used
                continue
