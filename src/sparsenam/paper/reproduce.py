"""From a name to its report: run what is missing, write JSON and Markdown, and then draw."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparsenam.errors import InputError, describe
from sparsenam.paper import NAMES
from sparsenam.paper.comparison import comparison_works
from sparsenam.paper.drawing import Drawing, check_can_draw, draw_report
from sparsenam.paper.optimizers import optimizer_recipes, optimizer_works
from sparsenam.paper.recipe import Recipe, check_known, load_recipe
from sparsenam.paper.reporter import Reporter
from sparsenam.paper.runner import Work, run_all
from sparsenam.paper.store import Store, read_report
from sparsenam.paper.summaries import summary_tables
from sparsenam.paper.tables import Table, comparison_tables
from sparsenam.paper.theory import load_settings, summaries, theory_works


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the reader of a report may ask for."""

    out: Path
    quick: bool = False
    figures: bool = False
    recipe: Path | None = None
    methods: tuple[str, ...] | None = None
    splits: int | None = None
    data: Path | None = None
    retry: bool = False


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Where a report lies, and its tables."""

    name: str
    report: Path
    markdown: Path
    tables: tuple[Table, ...]


def reproduce(name: str, wishes: Wishes, reporter: Reporter) -> Reproduction:
    """Bring the report of a name and its tables up to date; `draw` makes the figures."""
    _check(name, wishes)
    store = (_run_theory if name == "theory" else _run_comparison)(name, wishes, reporter)
    report = store.report()
    tables = summary_tables(report) if name == "theory" else comparison_tables(report)
    markdown = store.path.with_suffix(".md")
    markdown.write_text("\n".join(table.markdown() for table in tables), encoding="utf-8")
    return Reproduction(name, store.path, markdown, tuple(tables))


def draw(result: Reproduction) -> Drawing:
    """Draw the figures of a report into the folder ``figures`` beside it."""
    return draw_report(read_report(result.report), result.report.parent / "figures", result.report.stem)


def report_path(name: str, wishes: Wishes) -> Path:
    """Return where the report of a name lies; a recipe of one's own has a report of its own."""
    own = "" if wishes.recipe is None else f"-{wishes.recipe.stem}"
    return wishes.out / f"{name}{own}{'-quick' if wishes.quick else ''}.json"


def _check(name: str, wishes: Wishes) -> None:
    """Raise for wishes that cannot be met, before anything is run."""
    check_known([name], NAMES, "name")
    if wishes.splits is not None and wishes.splits < 1:
        raise InputError(describe("splits", "at least 1", f"{wishes.splits}", "choose another"))
    if wishes.methods is not None and not wishes.methods:
        raise InputError(describe("methods", "at least one name", "none", "name some, or leave it out"))
    if wishes.recipe is not None and wishes.recipe.stem == "quick":
        got = f"{wishes.recipe}"
        raise InputError(describe("recipe", "a name that no other report has", got, "rename the file"))
    if wishes.figures:
        check_can_draw()
    try:
        wishes.out.mkdir(parents=True, exist_ok=True)
        writable = os.access(wishes.out, os.W_OK)
    except OSError as error:
        got = f"{wishes.out} ({error.strerror})"
        raise InputError(describe("out", "a folder that can be written", got, "give another")) from error
    if not writable:
        raise InputError(describe("out", "a folder that can be written", f"{wishes.out}", "give another"))


def _run_comparison(name: str, wishes: Wishes, reporter: Reporter) -> Store:
    recipe = load_recipe(name, quick=wishes.quick, file=wishes.recipe)
    current = {
        (section.name, method.name): section.fingerprint(method)
        for section in recipe.sections
        for method in section.methods
    }
    if recipe.optimizers is not None:
        current |= optimizer_recipes(recipe.optimizers, recipe.sections[0].task)
    asked = recipe if wishes.methods is None else recipe.with_methods(wishes.methods)
    asked = asked if wishes.splits is None else asked.with_splits(wishes.splits)
    works = list(comparison_works(asked, wishes.data))
    if asked.optimizers is not None:
        works += optimizer_works(asked.optimizers, asked.sections[0].task, asked.seeds[0], wishes.data)
    store = Store(report_path(name, wishes), _header(recipe.name, recipe.title, wishes, recipe.words, asked))
    run_all(works, store, reporter, current, recipe.time_limit, retry=wishes.retry)
    return store


def _run_theory(name: str, wishes: Wishes, reporter: Reporter) -> Store:
    if wishes.splits is not None:
        expected = "none for theory, whose cells have their own"
        raise InputError(describe("splits", expected, f"{wishes.splits}", "leave it out"))
    settings = load_settings(wishes.recipe, quick=wishes.quick)
    works = list(theory_works(settings))
    current = {(work.section, work.method): work.recipe for work in works}
    asked = works if wishes.methods is None else _of_experiments(works, wishes.methods, settings)
    store = Store(report_path(name, wishes), _header(name, "Theory", wishes, settings, None))
    run_all(asked, store, reporter, current, retry=wishes.retry)
    store.set("summaries", summaries(settings, works, store.records()))
    return store


def _of_experiments(works: list[Work], names: tuple[str, ...], settings: Mapping[str, object]) -> list[Work]:
    check_known(names, list(settings), "experiments of theory")
    return [work for work in works if work.section in names]


def _header(
    name: str, title: str, wishes: Wishes, words: Mapping[str, object], asked: Recipe | None
) -> dict[str, object]:
    return {
        "name": name,
        "title": title,
        "quick": wishes.quick,
        "seeds": None if asked is None else list(asked.seeds),
        "recipe": words,
    }
