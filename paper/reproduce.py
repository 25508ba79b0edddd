"""From a name to its report: run what is missing, write JSON and Markdown, and then draw."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paper import NAMES
from paper.experiments import load_settings, theory_works
from paper.figures import Drawing, draw_report, explanation_of
from paper.fitted import measure
from paper.methods import METHODS, train_with_solver
from paper.recipe import MethodRecipe, Recipe, Section, Settings, check_known, fingerprint, load_recipe
from paper.records import Job, Reporter, Store, Work, run_all
from paper.tables import OPTIMIZERS, Table, tables_of
from paper.tasks import Split, Task
from sparsenam.errors import InputError, describe


@dataclass(frozen=True, slots=True)
class Request:
    """What the reader of a report may ask for."""

    out: Path
    quick: bool = False
    figures: bool = False
    recipe: Path | None = None
    methods: tuple[str, ...] | None = None
    splits: int | None = None
    data: Path | None = None
    retry: bool = False
    renew: bool = False

    def report_path(self, name: str) -> Path:
        """Return where the report of a name is written; a recipe of the user's has a report to itself."""
        recipe = "" if self.recipe is None else f"-{self.recipe.stem}"
        return self.out / f"{name}{recipe}{'-quick' if self.quick else ''}.json"


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The records of a name, its tables, and where these are written."""

    name: str
    store: Store
    markdown: Path
    tables: tuple[Table, ...]

    def draw(self) -> Drawing:
        """Draw the figures of the report into the folder ``figures`` beside it."""
        return draw_report(self.store, self.store.path.parent / "figures")


def reproduce(name: str, request: Request, reporter: Reporter) -> Reproduction:
    """Bring the report of a name and its tables up to date."""
    _check(name, request)
    store = (_run_theory if name == "theory" else _run_comparison)(name, request, reporter)
    tables = tuple(tables_of(store.report()))
    markdown = store.path.with_suffix(".md")
    markdown.write_text("\n".join(table.markdown() for table in tables), encoding="utf-8")
    return Reproduction(name, store, markdown, tables)


def _check(name: str, request: Request) -> None:
    """Raise for a request that cannot be met, before anything is run."""
    check_known([name], NAMES, "name")
    if request.splits is not None and request.splits < 1:
        raise InputError(describe("splits", "at least 1", f"{request.splits}", "choose another"))
    if request.methods is not None and not request.methods:
        raise InputError(describe("methods", "at least one name", "none", "name some, or leave it out"))
    if request.recipe is not None and request.recipe.stem == "quick":
        got = f"{request.recipe}"
        raise InputError(describe("recipe", "a name that no other report has", got, "rename the file"))
    try:
        request.out.mkdir(parents=True, exist_ok=True)
        writable = os.access(request.out, os.W_OK)
    except OSError as error:
        got = f"{request.out} ({error.strerror})"
        raise InputError(describe("out", "a folder that can be written", got, "give another")) from error
    if not writable:
        raise InputError(describe("out", "a folder that can be written", f"{request.out}", "give another"))


def _run_comparison(name: str, request: Request, reporter: Reporter) -> Store:
    recipe = load_recipe(name, quick=request.quick, file=request.recipe)
    current = {
        (section.name, method.name): section.fingerprint(method)
        for section in recipe.sections
        for method in section.methods
    }
    if recipe.optimizers is not None:
        current |= optimizer_recipes(recipe.optimizers, recipe.sections[0].task)
    asked = recipe if request.methods is None else recipe.with_methods(request.methods)
    asked = asked if request.splits is None else asked.with_splits(request.splits)
    works = list(comparison_works(asked, request.data, drawn=request.figures))
    header = _header(recipe.name, recipe.title, request, recipe.content) | {"seeds": list(asked.seeds)}
    store = Store(request.report_path(name), header)
    run_all(works, store, reporter, current, recipe.time_limit, retry=request.retry, renew=request.renew)
    return store


def _run_theory(name: str, request: Request, reporter: Reporter) -> Store:
    if request.splits is not None:
        expected = "none for theory, whose cells have repeats"
        raise InputError(describe("splits", expected, f"{request.splits}", "leave it out"))
    settings = load_settings(request.recipe, quick=request.quick)
    works = list(theory_works(settings, drawn=request.figures))
    current = {(work.section, work.method): work.recipe for work in works}
    if request.methods is not None:
        check_known(request.methods, list(settings), "experiments of theory")
        works = [work for work in works if work.section in request.methods]
    store = Store(request.report_path(name), _header(name, "Theory", request, settings))
    run_all(works, store, reporter, current, retry=request.retry, renew=request.renew)
    return store


def _header(name: str, title: str, request: Request, recipe: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "title": title, "quick": request.quick, "seeds": None, "recipe": recipe}


def comparison_works(recipe: Recipe, folder: Path | None, *, drawn: bool = False) -> Iterator[Work]:
    """Yield a record to make for each section, seed and method, and for each solver; the first seed is drawn."""
    first = recipe.seeds[0]
    for section in recipe.sections:
        task = Task(section.task, folder)
        check_known([method.kind for method in section.methods], list(METHODS), f"kinds of methods of {recipe.name}")
        for seed in recipe.seeds:
            for method in section.methods:
                yield _work(section, task, method, seed, drawn=drawn and seed == first)
    if recipe.optimizers is not None:
        settings, task = recipe.optimizers, recipe.sections[0].task
        table = Task(task, folder)
        for (section, solver), mark in optimizer_recipes(settings, task).items():
            yield Work(section, solver, first, mark, lambda s=solver: _training(settings, table, s, first), drawn=drawn)


def _work(section: Section, task: Task, method: MethodRecipe, seed: int, *, drawn: bool) -> Work:
    def ready() -> Job:
        split = task.split(seed)
        return lambda: compare(method, split, seed)

    return Work(section.name, method.name, seed, section.fingerprint(method), ready, drawn=drawn)


def compare(method: MethodRecipe, split: Split, seed: int) -> dict[str, Any]:
    """Fit one method on one split; return its measures, kept columns, chosen settings and curves."""
    started = time.perf_counter()
    fitted = METHODS[method.kind](split, method.settings, seed)
    seconds = time.perf_counter() - started
    return {
        "measures": {**measure(fitted, split), "seconds": seconds},
        "support": [split.names[index] for index in fitted.support],
        "support_rule": fitted.support_rule,
        "chosen": dict(fitted.chosen),
        "drawing": explanation_of(fitted, split).to_dict(),
    }


def optimizer_recipes(settings: Settings, task: Settings) -> dict[tuple[str, str], str]:
    """Return the fingerprint of every solver's training (the paper's figure of optimizers)."""
    rest = {key: value for key, value in settings.items() if key != "solvers"}
    return {
        (OPTIMIZERS, solver): fingerprint({"task": task, "solver": solver, **rest}) for solver in settings["solvers"]
    }


def _training(settings: Settings, task: Task, solver: str, seed: int) -> Job:
    split = task.split(seed)

    def job() -> dict[str, Any]:
        history = train_with_solver(split.train, solver, settings, seed)
        return {"end": history[-1], "drawing": {"history": history}}

    return job
