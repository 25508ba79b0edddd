"""A run as the terminal shows it: a line that counts, a line for each record, and the tables."""

from __future__ import annotations

from types import TracebackType
from typing import Self, cast

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from sparsenam.paper.store import Record
from sparsenam.paper.tables import Table

FILE_WIDTH = 200


class TerminalReporter:
    """Progress on stderr, tables on stdout."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0
        self._errors = Console(stderr=True, highlight=False)
        self._console = Console(highlight=False)
        if not self._console.is_terminal:  # a file has no edge to wrap at
            self._console.width = FILE_WIDTH
        self._progress: Progress | None = None
        self._task = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pause()

    def begin(self, name: str, done: int, total: int) -> None:
        """Show the counting line of a name."""
        self.pause()
        self.done, self.total = done, total
        self.tell(f"{name}: {done} of {total} records are there.")
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._progress = Progress(*columns, TimeElapsedColumn(), console=self._errors, transient=True)
        self._task = self._progress.add_task(name, total=total, completed=done)
        self._progress.start()

    def start(self, label: str) -> None:
        """Name the record that is being made."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=label)

    def finish(self, record: Record) -> None:
        """Count a record and give it a line."""
        self.done += 1
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=self.done)
        label = f"{record['section']} {record['method']}".strip()
        ending = "" if record["status"] == "done" else f", failed: {record['reason']}"
        seconds = cast(float, record["wall_seconds"])
        self.tell(f"  {label}, seed {record['seed']}: {seconds:.1f} s{ending}")

    def tell(self, message: str) -> None:
        """Write a line on stderr."""
        self._errors.print(Text(message), soft_wrap=True)

    def pause(self) -> None:
        """Take the counting line away."""
        if self._progress is not None:
            self._progress.stop()
        self._progress = None

    def show(self, table: Table) -> None:
        """Print a table on stdout."""
        self._console.print()
        if table.rows:
            self._console.print(rich_table(table))
        for note in table.notes:
            self._console.print(Text(f"· {note}"), soft_wrap=True)


def rich_table(table: Table) -> RichTable:
    """Return the table for a terminal, the paper's rows dimmed."""
    drawn = RichTable(title=Text(table.title), title_justify="left", box=box.SIMPLE_HEAD)
    for place, heading in enumerate(table.headings):
        drawn.add_column(Text(heading), justify="left" if place == 0 else "right", no_wrap=place == 0)
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row), style="dim" if row[0].startswith("paper:") else "")
    return drawn
