"""A recipe: which data, which splits, which methods with which settings, and what to show of them."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import cast

from sparsenam.errors import InputError, describe
from sparsenam.paper.columns import COLUMNS

Words = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class MethodRecipe:
    """A row of a table: its name, the method behind it, the method's settings, and what was tuned."""

    name: str
    kind: str
    settings: Words
    note: str


@dataclass(frozen=True, slots=True)
class Section:
    """One table: a task, the methods that try it, and the measures to show; a single section has no name."""

    name: str
    title: str
    task: Words
    methods: tuple[MethodRecipe, ...]
    measures: tuple[str, ...]

    def fingerprint(self, method: MethodRecipe) -> str:
        """Return a short hash of what decides the method's numbers; notes and titles do not."""
        return fingerprint({"task": self.task, "kind": method.kind, "settings": method.settings})


@dataclass(frozen=True, slots=True)
class Recipe:
    """All sections of one name, the seeds of their splits, and the words they were read from.

    ``optimizers`` asks for training histories (see `sparsenam.paper.optimizers`); ``time_limit`` is in seconds and
    holds for one fit.
    """

    name: str
    title: str
    seeds: tuple[int, ...]
    sections: tuple[Section, ...]
    optimizers: Words | None
    time_limit: float | None
    notes: tuple[str, ...]
    words: Words

    def with_splits(self, count: int) -> Recipe:
        """Return the recipe with the first ``count`` seeds, counting on where the recipe has fewer."""
        more = range(max(self.seeds) + 1, max(self.seeds) + 1 + count)
        return replace(self, seeds=(*self.seeds, *more)[:count])

    def with_methods(self, names: Sequence[str]) -> Recipe:
        """Return the recipe with these methods only."""
        known = [method.name for section in self.sections for method in section.methods]
        check_known(names, known, f"methods of {self.name}")
        kept = [
            replace(section, methods=tuple(method for method in section.methods if method.name in names))
            for section in self.sections
        ]
        return replace(self, sections=tuple(kept), optimizers=None)


def check_known(names: Sequence[str], known: Sequence[str], where: str) -> None:
    """Raise for a name that is not known."""
    for name in names:
        if name not in known:
            raise InputError(describe(where, f"names out of {sorted(set(known))}", repr(name), "choose from these"))


def fingerprint(words: Words) -> str:
    """Return twelve hexadecimal digits that change when any word does."""
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:12]


def read_words(name: str, file: Path | None = None) -> dict[str, object]:
    """Return the words of a recipe file: the package's own of that name, or a file of the user's."""
    try:
        if file is None:
            text = files("sparsenam.paper").joinpath("recipes", f"{name}.toml").read_text(encoding="utf-8")
        else:
            text = file.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except OSError as error:
        got = f"no readable file ({error.strerror or error})"
        raise InputError(describe(f"recipe {file or name}", "a TOML file", got, "check the name")) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(describe(f"recipe {file or name}", "TOML", str(error), "correct the file")) from error


def load_recipe(name: str, *, quick: bool = False, file: Path | None = None) -> Recipe:
    """Return the recipe of a name, with its ``[quick]`` overrides where wanted."""
    words = read_words(name, file)
    overrides = words.pop("quick", {})
    if not isinstance(overrides, Mapping):
        raise InputError(describe(f"recipe {name}", "a table [quick]", repr(overrides), "correct it"))
    whole = parse_recipe(name, words)
    return parse_recipe(name, _quickened(words, cast(Words, overrides))) if quick else whole


def parse_recipe(name: str, words: Words) -> Recipe:
    """Return the recipe that the words describe; raise where a needed word is missing or unknown."""
    known = {"title", "seeds", "time_limit", "task", "measures", "methods", "sections", "optimizers", "notes"}
    check_known(list(words), sorted(known), f"recipe {name}")
    parts = _tables(words, "sections", name) if "sections" in words else [words]
    seeds = cast("list[object]", _taken(words, "seeds", list, name))
    if not seeds or not all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds):
        raise InputError(describe(f"recipe {name}", "whole numbers as seeds", repr(seeds), "correct them"))
    return Recipe(
        name=name,
        title=cast(str, _taken(words, "title", str, name)),
        seeds=tuple(cast("list[int]", seeds)),
        sections=tuple(_section(part, words, name) for part in parts),
        optimizers=_optimizers(words, name),
        time_limit=_time_limit(words, name),
        notes=_texts(words, "notes", name) if "notes" in words else (),
        words=words,
    )


def _section(part: Words, words: Words, name: str) -> Section:
    shared = part if "methods" in part else words
    methods = tuple(_method(table, name) for table in _tables(shared, "methods", name))
    names = [method.name for method in methods]
    if len(set(names)) != len(names):
        raise InputError(describe(f"recipe {name}", "one table for each method", f"{names}", "rename one"))
    measures = _texts(part, "measures", name)
    check_known(measures, list(COLUMNS), f"measures of recipe {name}")
    return Section(
        name=cast(str, _taken({"name": "", **part}, "name", str, name)),
        title=cast(str, _taken(part, "title", str, name)),
        task=cast(Words, _taken(part, "task", dict, name)),
        methods=methods,
        measures=measures,
    )


def _method(table: Words, name: str) -> MethodRecipe:
    check_known(list(table), ["name", "kind", "settings", "note"], f"a method of recipe {name}")
    return MethodRecipe(
        name=cast(str, _taken(table, "name", str, name)),
        kind=cast(str, _taken(table, "kind", str, name)),
        settings=cast(Words, _taken({"settings": {}, **table}, "settings", dict, name)),
        note=cast(str, _taken({"note": "", **table}, "note", str, name)),
    )


def _taken(words: Words, key: str, kind: type, name: str) -> object:
    value = words.get(key)
    if not isinstance(value, kind):
        raise InputError(describe(f"recipe {name}", f"{key!r} as {kind.__name__}", repr(value), "add it"))
    return cast(object, value)


def _texts(words: Words, key: str, name: str) -> tuple[str, ...]:
    values = cast("list[object]", _taken(words, key, list, name))
    if not all(isinstance(value, str) for value in values):
        raise InputError(describe(f"recipe {name}", f"{key!r} as a list of words", repr(values), "correct it"))
    return tuple(cast("list[str]", values))


def _time_limit(words: Words, name: str) -> float | None:
    limit = words.get("time_limit")
    if limit is None:
        return None
    if not isinstance(limit, int | float) or isinstance(limit, bool) or not limit > 0:
        raise InputError(describe(f"recipe {name}", "'time_limit' in seconds", repr(limit), "correct it"))
    return float(limit)


def _optimizers(words: Words, name: str) -> Words | None:
    if "optimizers" not in words:
        return None
    own = cast(Words, _taken(words, "optimizers", dict, name))
    _texts(own, "solvers", f"{name}, [optimizers]")
    _taken(own, "lambda", float, f"{name}, [optimizers]")
    _taken(own, "max_epochs", int, f"{name}, [optimizers]")
    return own


def _tables(words: Words, key: str, name: str) -> list[Words]:
    tables = cast("list[object]", _taken(words, key, list, name))
    if not all(isinstance(table, Mapping) for table in tables):
        raise InputError(describe(f"recipe {name}", f"tables [[{key}]]", repr(tables), "correct them"))
    return cast("list[Words]", tables)


def _quickened(words: Words, quick: Words) -> dict[str, object]:
    """Return the words with the overrides: seeds, parts of every task, settings of methods by name."""
    check_known(list(quick), ["seeds", "task", "methods", "optimizers", "leave_out"], "[quick]")
    for key in ("task", "methods", "optimizers"):
        _taken({key: {}, **quick}, key, dict, "[quick]")
    _texts({"leave_out": [], **quick}, "leave_out", "[quick]")
    result = dict(words)
    if "seeds" in quick:
        result["seeds"] = quick["seeds"]
    if "optimizers" in quick:
        result["optimizers"] = {**cast(Words, words.get("optimizers", {})), **cast(Words, quick["optimizers"])}
    for part in [result] if "sections" not in result else [result, *_copied(result, "sections")]:
        if "task" in part:
            part["task"] = {**cast(Words, part["task"]), **cast(Words, quick.get("task", {}))}
        if "methods" in part:
            part["methods"] = _quick_methods(cast("list[Words]", part["methods"]), quick)
    return result


def _copied(result: dict[str, object], key: str) -> list[dict[str, object]]:
    copies = [dict(table) for table in cast("list[Words]", result[key])]
    result[key] = copies
    return copies


def _quick_methods(methods: Sequence[Words], quick: Words) -> list[Words]:
    overrides = cast("Mapping[str, Words]", quick.get("methods", {}))
    for own in overrides:
        _taken(overrides, own, dict, "[quick.methods]")
    check_known(list(overrides), [str(table["name"]) for table in methods], "[quick.methods]")
    out = cast("list[str]", quick.get("leave_out", []))
    return [
        {**table, "settings": {**cast(Words, table.get("settings", {})), **overrides.get(str(table["name"]), {})}}
        for table in methods
        if table["name"] not in out
    ]
