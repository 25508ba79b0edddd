"""What the commands show: a fit as it goes, and lines and tables when it is done."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as RichTable
from rich.text import Text

FILE_WIDTH = 200
# shares of a fit's time, from fits of 3,000 to 20,000 rows; where the path ends early the bar jumps
SHARES = {"choose": (0.0, 0.5), "smooth": (0.5, 0.8), "polish": (0.8, 1.0)}
WORDS = {"choose": "choosing features", "smooth": "fitting smooth effects", "polish": "training the network"}
USUAL_LAPS = 40  # of the smooth fit, which ends by itself


class FitProgress:
    """A bar with the time left on a terminal, and a line for each step anywhere else; both on stderr."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        left = (TimeRemainingColumn(elapsed_when_finished=True), TextColumn("left"))
        self._progress = Progress(*columns, *left, console=self._console, transient=True)
        self._task = self._progress.add_task("starting", total=1.0)
        self._last = ""
        self._furthest = 0.0
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._progress.stop()

    def step(self, step: str, done: int, most: int) -> None:
        """Draw how far a step of the fit is; the bar never goes back."""
        begin, end = SHARES[step]
        within = min(done / most, 1.0) if most else 1.0 - 0.5 ** (done / USUAL_LAPS)
        self._furthest = max(self._furthest, begin + (end - begin) * within)
        self._progress.update(self._task, completed=self._furthest, description=WORDS[step])
        if step != self._last and not self._console.is_terminal:
            percent = f"{100 * self._furthest:.0f} %"
            self.tell(f"{WORDS[step]} … ({percent}, {time.monotonic() - self._started:.1f} s{self._left()})")
        self._last = step

    def chosen(self, count: int, *, recalled: bool) -> None:
        """Say how many features there are to fit."""
        where = "taken from the stopped fit" if recalled else "chosen"
        self.tell(f"{count} feature{'' if count == 1 else 's'} {where}.")

    def tell(self, message: str) -> None:
        """Write a line on stderr."""
        self._console.print(Text(message), soft_wrap=True)

    def _left(self) -> str:
        if self._furthest == 0.0:
            return ""
        spent = time.monotonic() - self._started
        return f", about {spent * (1.0 - self._furthest) / self._furthest:.0f} s left"


def say(message: str = "") -> None:
    """Write a line on stdout."""
    _stdout().print(Text(message), soft_wrap=True)


def note(message: str) -> None:
    """Write a line on stderr."""
    Console(stderr=True, highlight=False).print(Text(message), soft_wrap=True)


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Print a table on stdout, the first column to the left and numbers to the right."""
    drawn = RichTable(title=None if title is None else Text(title), title_justify="left", box=box.SIMPLE_HEAD)
    for place, heading in enumerate(headings):
        drawn.add_column(Text(heading), justify="left" if place == 0 else "right", no_wrap=place == 0)
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    _stdout().print(drawn)


def _stdout() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:  # a file has no edge to wrap at
        console.width = FILE_WIDTH
    return console
