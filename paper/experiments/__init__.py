"""Experiments on the paper's theorems as records: one for each cell of their grids.

Every module has ``cells(settings)``, the cells there are; ``inputs(cell, settings)``, the settings that decide a
cell's numbers, and no others; ``run_cell(cell, inputs)``, its result; and ``summarise(results, settings)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from paper.experiments import consistency, estimation, flows, identification, recovery
from paper.experiments.cells import Result
from paper.recipe import Settings, fingerprint, read_recipe
from paper.records import Job, Record, Report, Work, key_of
from sparsenam.errors import InputError, describe


class Experiment(Protocol):
    """What each module of this package offers."""

    def cells(self, settings: Settings) -> list[Result]: ...
    def inputs(self, cell: Result, settings: Settings) -> Result: ...
    def run_cell(self, cell: Result, inputs: Result) -> Result: ...
    def summarise(self, results: Sequence[Result], settings: Settings) -> Result: ...


EXPERIMENTS: Mapping[str, Experiment] = {
    "estimation": cast(Experiment, estimation),
    "recovery": cast(Experiment, recovery),
    "identification": cast(Experiment, identification),
    "consistency": cast(Experiment, consistency),
    "flows": cast(Experiment, flows),
}


def load_settings(file: Path | None, *, quick: bool) -> dict[str, Settings]:
    """Return the settings of each experiment, with its quick overrides where wanted."""
    content = read_recipe("theory", file)
    settings: dict[str, Settings] = {}
    for name in EXPERIMENTS:
        table = content.get(name)
        if not isinstance(table, Mapping):
            raise InputError(describe("recipe theory", f"a table [{name}]", repr(table), "add it"))
        full = dict(cast(Settings, table))
        overrides: Settings = full.pop("quick", {})
        settings[name] = _merged(full, overrides) if quick else full
    return settings


def _merged(settings: Settings, overrides: Settings) -> dict[str, Any]:
    """Return the settings with the overrides in them, tables within tables too."""
    result = dict(settings)
    for key, value in overrides.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = _merged(result[key], cast(Settings, value)) if both else value
    return result


def theory_works(settings: Mapping[str, Settings], *, drawn: bool = False) -> Iterator[Work]:
    """Yield a record to make for each cell; ``drawn`` asks for the traces that the figures need.

    Its fingerprint has only what the cell depends on: one repeat or one n more leaves the other cells as they are.
    """
    for name, table in settings.items():
        experiment = EXPERIMENTS[name]
        for cell in experiment.cells(table):
            inputs = experiment.inputs(cell, table)
            label = ", ".join(f"{key} {value}" for key, value in cell.items())
            yield Work(
                name,
                label,
                int(cell.get("repeat", 0)),
                fingerprint({"cell": cell, "inputs": inputs}),
                lambda e=experiment, c=cell, i=inputs: _job(e, c, i),
                drawn=drawn and name == "flows",
            )


def _job(experiment: Experiment, cell: Result, inputs: Result) -> Job:
    def job() -> Result:
        result = dict(experiment.run_cell(cell, inputs))
        drawing = result.pop("drawing", None)
        return {"result": result} if drawing is None else {"result": result, "drawing": drawing}

    return job


def summaries_of(report: Report) -> dict[str, Result]:
    """Return each experiment's summary of the cells that are done, in the order of the cells."""
    done: dict[Any, Record] = {key_of(record): record for record in report["records"] if record["status"] == "done"}
    settings: Mapping[str, Settings] = report["recipe"]
    results: dict[str, list[Result]] = {name: [] for name in settings}
    for work in theory_works(settings):
        if work.key in done:
            results[work.section].append(done[work.key]["result"])
    return {name: EXPERIMENTS[name].summarise(found, settings[name]) for name, found in results.items() if found}
