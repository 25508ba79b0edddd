"""An experiment is a list of independent cells, so that it can be stopped and taken up again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]  # JSON-able: numbers, strings, None, and lists and dicts of them
Progress: TypeAlias = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Experiment:
    """Which cells there are, what one gives, and what they say together."""

    cells: Callable[[Record], list[Record]]
    run_cell: Callable[[Record, Record], Record]
    summarise: Callable[[Sequence[Record], Record], Record]


def run(
    experiment: Experiment, settings: Record, progress: Progress | None = None, done: Sequence[Record] = ()
) -> Record:
    """Return the summary after running the cells that ``done`` does not hold.

    Every record holds its ``cell``, by which finished ones are known. ``progress(done, total, what)`` is called
    before each cell and at the end.
    """
    cells = experiment.cells(settings)
    finished = [record for record in done if record["cell"] in cells]
    known = [record["cell"] for record in finished]
    for cell in cells:
        if cell in known:
            continue
        if progress is not None:
            progress(len(finished), len(cells), describe_cell(cell))
        finished.append(experiment.run_cell(cell, settings))
    if progress is not None:
        progress(len(cells), len(cells), "done")
    return experiment.summarise(finished, settings)


def describe_cell(cell: Record) -> str:
    """Return a cell in a few words."""
    return ", ".join(f"{name} {value}" for name, value in cell.items())


def values_by(records: Sequence[Record], name: str, **wanted: object) -> list[Any]:
    """Return one value of every record whose cell has the wanted entries, in the order of the cells' repeats."""
    chosen = [record for record in records if wanted.items() <= record["cell"].items()]
    return [record[name] for record in sorted(chosen, key=lambda record: record["cell"].get("repeat", 0))]


def sizes_done(records: Sequence[Record], sizes: Sequence[int], **wanted: object) -> list[int]:
    """Return the n for which some record with the wanted entries is there."""
    return [n for n in sizes if values_by(records, "cell", n=n, **wanted)]
