"""The theory experiments as records: one for each cell of their grids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from sparsenam.errors import InputError, describe
from sparsenam.paper.recipe import Words, fingerprint, read_words
from sparsenam.paper.runner import Job, Work
from sparsenam.paper.store import Record, key_of

EXPERIMENTS = ("estimation", "recovery", "identification", "flows")


class Experiment(Protocol):
    """What a module of `sparsenam.paper.experiments` offers."""

    def cells(self, settings: Words) -> list[dict[str, object]]: ...
    def inputs(self, cell: Words, settings: Words) -> dict[str, object]: ...
    def run_cell(self, cell: Words, inputs: Words) -> dict[str, object]: ...
    def summarise(self, results: Sequence[Words], settings: Words) -> dict[str, object]: ...


def load_settings(file: Path | None, *, quick: bool) -> dict[str, Words]:
    """Return the settings of each experiment, with its quick overrides where wanted."""
    words = read_words("theory", file)
    settings: dict[str, Words] = {}
    for name in EXPERIMENTS:
        own = words.get(name)
        if not isinstance(own, Mapping):
            raise InputError(describe("recipe theory", f"a table [{name}]", repr(own), "add it"))
        table = dict(cast(Words, own))
        overrides = cast(Words, table.pop("quick", {}))
        settings[name] = merged(table, overrides) if quick else table
    return settings


def merged(words: Words, overrides: Words) -> dict[str, object]:
    """Return the words with the overrides in their place, tables within tables too."""
    result = dict(words)
    for key, value in overrides.items():
        inner = result.get(key)
        both = isinstance(value, Mapping) and isinstance(inner, Mapping)
        result[key] = merged(cast(Words, inner), cast(Words, value)) if both else value
    return result


def theory_works(settings: Mapping[str, Words]) -> Iterator[Work]:
    """Yield a record to make for each cell.

    Its fingerprint has only what the cell depends on: one repeat or one n more leaves the other cells as they are.
    """
    for name, own in settings.items():
        experiment = experiment_of(name)
        for cell in experiment.cells(own):
            inputs = experiment.inputs(cell, own)
            recipe = fingerprint({"cell": cell, "inputs": inputs})
            repeat = int(cast(int, cell.get("repeat", 0)))
            yield Work(name, _label(cell), repeat, recipe, lambda e=experiment, c=cell, i=inputs: _job(e, c, i))


def summaries(settings: Mapping[str, Words], works: Sequence[Work], records: Sequence[Record]) -> dict[str, object]:
    """Return each experiment's summary of the cells that are done."""
    done = {key_of(record): record["result"] for record in records if record["status"] == "done"}
    found: dict[str, object] = {}
    for name, own in settings.items():
        results = [done[work.key] for work in works if work.section == name and work.key in done]
        if results:
            found[name] = experiment_of(name).summarise(cast("Sequence[Words]", results), own)
    return found


def experiment_of(name: str) -> Experiment:
    """Return the module of an experiment."""
    return cast(Experiment, import_module(f"sparsenam.paper.experiments.{name}"))


def _job(experiment: Experiment, cell: Words, inputs: Words) -> Job:
    return lambda: {"result": experiment.run_cell(cell, inputs)}


def _label(cell: Words) -> str:
    return ", ".join(f"{key} {value}" for key, value in cell.items())
