"""A recipe: which data, which splits, which methods with which settings, and what to show of them."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from paper.measures import COLUMNS
from sparsenam.errors import InputError, describe

Settings: TypeAlias = Mapping[str, Any]  # a TOML table
FOLDER = Path(__file__).parent / "recipes"


@dataclass(frozen=True, slots=True)
class MethodRecipe:
    """A row of a table: its name, the method behind it, the method's settings, and what was tuned."""

    name: str
    kind: str
    settings: Settings
    note: str


@dataclass(frozen=True, slots=True)
class Section:
    """One table: a task, the methods that try it, and the measures to show; a single section has no name."""

    name: str
    title: str
    task: Settings
    methods: tuple[MethodRecipe, ...]
    measures: tuple[str, ...]

    def fingerprint(self, method: MethodRecipe) -> str:
        """Return a short hash of what decides the method's numbers; notes and titles do not."""
        return fingerprint({"task": self.task, "kind": method.kind, "settings": method.settings})


@dataclass(frozen=True, slots=True)
class Recipe:
    """All sections of one name, the seeds of their splits, and the TOML table they were read from.

    ``optimizers`` asks for training histories of several solvers; ``time_limit`` is in seconds, for one fit.
    """

    name: str
    title: str
    seeds: tuple[int, ...]
    sections: tuple[Section, ...]
    optimizers: Settings | None
    time_limit: float | None
    notes: tuple[str, ...]
    content: Settings

    def with_splits(self, count: int) -> Recipe:
        """Return the recipe with the first ``count`` seeds, counting on where the recipe has fewer."""
        more = range(max(self.seeds) + 1, max(self.seeds) + 1 + count)
        return replace(self, seeds=(*self.seeds, *more)[:count])

    def with_methods(self, names: Sequence[str]) -> Recipe:
        """Return the recipe with these methods only."""
        known = [method.name for section in self.sections for method in section.methods]
        check_known(names, known, f"methods of {self.name}")
        sections = [
            replace(section, methods=tuple(method for method in section.methods if method.name in names))
            for section in self.sections
        ]
        return replace(self, sections=tuple(sections), optimizers=None)


def check_known(names: Sequence[str], known: Sequence[str], where: str) -> None:
    """Raise for a name that is not known."""
    for name in names:
        if name not in known:
            raise InputError(describe(where, f"names out of {sorted(set(known))}", repr(name), "choose from these"))


def fingerprint(settings: Settings) -> str:
    """Return twelve hexadecimal digits that change when any setting does."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


def read_recipe(name: str, file: Path | None = None) -> dict[str, Any]:
    """Return the content of a recipe file: the one of that name here, or a file of the user's."""
    try:
        return tomllib.loads((file or FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    except OSError as error:
        got = f"no readable file ({error.strerror or error})"
        raise InputError(describe(f"recipe {file or name}", "a TOML file", got, "check the name")) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(describe(f"recipe {file or name}", "TOML", str(error), "correct the file")) from error


def load_recipe(name: str, *, quick: bool = False, file: Path | None = None) -> Recipe:
    """Return the recipe of a name, with its ``[quick]`` overrides where wanted."""
    content = read_recipe(name, file)
    overrides = content.pop("quick", {})
    if not isinstance(overrides, Mapping):
        raise InputError(describe(f"recipe {name}", "a table [quick]", repr(overrides), "correct it"))
    whole = parse_recipe(name, content)
    return parse_recipe(name, _quickened(content, cast(Settings, overrides))) if quick else whole


def parse_recipe(name: str, content: Settings) -> Recipe:
    """Return the recipe that a TOML table describes; raise where a needed entry is missing or one is unknown."""
    known = {"title", "seeds", "time_limit", "task", "measures", "methods", "sections", "optimizers", "notes"}
    check_known(list(content), sorted(known), f"recipe {name}")
    parts = _tables(content, "sections", name) if "sections" in content else [content]
    seeds = _entry(content, "seeds", list, name)
    if not seeds or not all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds):
        raise InputError(describe(f"recipe {name}", "whole numbers as seeds", repr(seeds), "correct them"))
    return Recipe(
        name=name,
        title=_entry(content, "title", str, name),
        seeds=tuple(seeds),
        sections=tuple(_section(part, content, name) for part in parts),
        optimizers=_optimizers(content, name),
        time_limit=_time_limit(content, name),
        notes=_texts(content, "notes", name) if "notes" in content else (),
        content=content,
    )


def _section(part: Settings, content: Settings, name: str) -> Section:
    shared = part if "methods" in part else content
    methods = tuple(_method(table, name) for table in _tables(shared, "methods", name))
    names = [method.name for method in methods]
    if len(set(names)) != len(names):
        raise InputError(describe(f"recipe {name}", "one table for each method", f"{names}", "rename one"))
    measures = _texts(part, "measures", name)
    check_known(measures, list(COLUMNS), f"measures of recipe {name}")
    return Section(
        name=_entry({"name": "", **part}, "name", str, name),
        title=_entry(part, "title", str, name),
        task=_entry(part, "task", dict, name),
        methods=methods,
        measures=measures,
    )


def _method(table: Settings, name: str) -> MethodRecipe:
    check_known(list(table), ["name", "kind", "settings", "note"], f"a method of recipe {name}")
    return MethodRecipe(
        name=_entry(table, "name", str, name),
        kind=_entry(table, "kind", str, name),
        settings=_entry({"settings": {}, **table}, "settings", dict, name),
        note=_entry({"note": "", **table}, "note", str, name),
    )


def _entry(content: Settings, key: str, kind: type, name: str) -> Any:
    value = content.get(key)
    if not isinstance(value, kind):
        raise InputError(describe(f"recipe {name}", f"{key!r} as {kind.__name__}", repr(value), "add it"))
    return cast(Any, value)


def _texts(content: Settings, key: str, name: str) -> tuple[str, ...]:
    values: list[object] = _entry(content, key, list, name)
    if not all(isinstance(value, str) for value in values):
        raise InputError(describe(f"recipe {name}", f"{key!r} as a list of texts", repr(values), "correct it"))
    return tuple(cast("list[str]", values))


def _tables(content: Settings, key: str, name: str) -> list[Settings]:
    tables: list[object] = _entry(content, key, list, name)
    if not all(isinstance(table, Mapping) for table in tables):
        raise InputError(describe(f"recipe {name}", f"tables [[{key}]]", repr(tables), "correct them"))
    return cast("list[Settings]", tables)


def _time_limit(content: Settings, name: str) -> float | None:
    limit = content.get("time_limit")
    if limit is None:
        return None
    if not isinstance(limit, int | float) or isinstance(limit, bool) or not limit > 0:
        raise InputError(describe(f"recipe {name}", "'time_limit' in seconds", repr(limit), "correct it"))
    return float(limit)


def _optimizers(content: Settings, name: str) -> Settings | None:
    if "optimizers" not in content:
        return None
    optimizers: Settings = _entry(content, "optimizers", dict, name)
    where = f"{name}, [optimizers]"
    _texts(optimizers, "solvers", where)
    _entry(optimizers, "lambda", float, where)
    _entry(optimizers, "max_epochs", int, where)
    return optimizers


def _quickened(content: Settings, quick: Settings) -> dict[str, Any]:
    """Return the content with the overrides: seeds, parts of every task, settings of methods by name."""
    check_known(list(quick), ["seeds", "task", "methods", "optimizers", "leave_out"], "[quick]")
    for key in ("task", "methods", "optimizers"):
        _entry({key: {}, **quick}, key, dict, "[quick]")
    _texts({"leave_out": [], **quick}, "leave_out", "[quick]")
    result = dict(content)
    if "seeds" in quick:
        result["seeds"] = quick["seeds"]
    if "optimizers" in quick:
        result["optimizers"] = {**content.get("optimizers", {}), **quick["optimizers"]}
    if "sections" in result:
        result["sections"] = [dict(section) for section in result["sections"]]
    for part in (result, *result.get("sections", [])):
        if "task" in part:
            part["task"] = {**part["task"], **quick.get("task", {})}
        if "methods" in part:
            part["methods"] = _quick_methods(part["methods"], quick)
    return result


def _quick_methods(methods: Sequence[Settings], quick: Settings) -> list[Settings]:
    overrides: Mapping[str, Settings] = quick.get("methods", {})
    for name in overrides:
        _entry(overrides, name, dict, "[quick.methods]")
    check_known(list(overrides), [str(table["name"]) for table in methods], "[quick.methods]")
    return [
        {**table, "settings": {**table.get("settings", {}), **overrides.get(table["name"], {})}}
        for table in methods
        if table["name"] not in quick.get("leave_out", [])
    ]
