"""What the report shows, as frozen data read from the dict of an Explanation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparsenam.errors import InputError, describe
from sparsenam.explain.report.reading import (
    REMEDY,
    effects_of,
    entry,
    items_of,
    mapping_of,
    number_of,
    numbers_of,
    text_or_none,
)

SCHEMA = 1
Effects = tuple[float, ...]  # one number for each output


@dataclass(frozen=True)
class Level:
    """One level of a category, or the missing cells of a column."""

    name: str
    effects: Effects
    count: int


@dataclass(frozen=True)
class Curve:
    """A shape: ``x`` (m,) increasing, ``effects`` m times (outputs,)."""

    x: tuple[float, ...]
    effects: tuple[Effects, ...]


@dataclass(frozen=True)
class Density:
    """A histogram of the training rows: ``edges`` (b + 1,), ``counts`` (b,)."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Feature:
    """A column that the model kept."""

    name: str
    kind: str
    importance: float
    variation: float
    norm: float
    entry: int | None
    curve: Curve | None
    density: Density | None
    levels: tuple[Level, ...]
    missing: Level | None
    stand_ins: Mapping[str, float]
    reason: str


@dataclass(frozen=True)
class Dropped:
    """A column that the model does without."""

    name: str
    reason: str
    slack: float | None


@dataclass(frozen=True)
class Trial:
    """One penalty weight of the cross-validation curve."""

    alpha: float
    features: float
    mean: float
    standard_error: float


@dataclass(frozen=True)
class Path:
    """Group norms (alphas, names) along the path."""

    alphas: tuple[float, ...]
    names: tuple[str, ...]
    norms: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Record:
    """All that the report says about a model."""

    task: str
    target: str | None
    outputs: tuple[str, ...]
    link: str
    units: str
    intercept: Effects
    features: tuple[Feature, ...]
    dropped: tuple[Dropped, ...]
    card: Mapping[str, object]
    trials: tuple[Trial, ...]
    best: int | None
    taken: int | None
    path: Path | None
    history: tuple[Mapping[str, object], ...]


def read_record(source: Mapping[str, object]) -> Record:
    """Return the record of an explanation's dict."""
    check_schema(source, "explanation")
    outputs = tuple(str(name) for name in items_of(entry(source, "outputs", "explanation"), "outputs"))
    chosen = mapping_of(source.get("chosen") or {}, "chosen")
    features = items_of(entry(source, "features", "explanation"), "features")
    return Record(
        task=str(entry(source, "task", "explanation")),
        target=text_or_none(source.get("target")),
        outputs=outputs,
        link=str(source.get("link", "identity")),
        units=str(source.get("units", "")),
        intercept=effects_of(entry(source, "intercept", "explanation"), len(outputs), "intercept"),
        features=tuple(_feature(mapping_of(item, "features"), len(outputs)) for item in features),
        dropped=tuple(
            _dropped(mapping_of(item, "dropped")) for item in items_of(source.get("dropped", ()), "dropped")
        ),
        card=mapping_of(source.get("card") or {}, "card"),
        trials=tuple(_trial(mapping_of(item, "curve")) for item in items_of(source.get("curve") or (), "curve")),
        best=_whole(chosen.get("best")),
        taken=_whole(chosen.get("taken")),
        path=_path(source.get("path")),
        history=tuple(mapping_of(item, "history") for item in items_of(source.get("history") or (), "history")),
    )


def check_schema(source: Mapping[str, object], where: str) -> None:
    """Raise unless the dict is of the schema that the report was written for."""
    if (schema := entry(source, "schema", where)) != SCHEMA:
        remedy = "write the report with the version of sparsenam that made the explanation"
        raise InputError(describe(where, f"schema {SCHEMA}", f"schema {schema!r}", remedy))


def _feature(source: Mapping[str, object], outputs: int) -> Feature:
    name = str(entry(source, "name", "feature"))
    where = f"feature '{name}'"
    importance = mapping_of(entry(source, "importance", where), f"{where}, importance")
    missing = source.get("missing")
    stand_ins = mapping_of(source.get("stand_ins") or {}, f"{where}, stand_ins")
    return Feature(
        name=name,
        kind=str(source.get("kind", "number")),
        importance=number_of(importance.get("mean_absolute"), where),
        variation=number_of(importance.get("variation"), where),
        norm=number_of(source.get("norm"), where),
        entry=_whole(source.get("entry")),
        curve=_curve(source.get("curve"), outputs, f"{where}, curve"),
        density=_density(source.get("density"), f"{where}, density"),
        levels=tuple(
            _level(item, outputs, where) for item in items_of(source.get("levels") or (), f"{where}, levels")
        ),
        missing=None
        if missing is None
        else _level({"name": "missing", **mapping_of(missing, where)}, outputs, where),
        stand_ins={key: number_of(share, where) for key, share in stand_ins.items()},
        reason=str(source.get("reason") or ""),
    )


def _curve(value: object, outputs: int, where: str) -> Curve | None:
    if value is None:
        return None
    source = mapping_of(value, where)
    x = numbers_of(entry(source, "x", where), where)
    effects = tuple(effects_of(item, outputs, where) for item in items_of(entry(source, "effect", where), where))
    if len(x) != len(effects):
        raise InputError(describe(where, f"{len(x)} effects, one for each x", f"{len(effects)}", REMEDY))
    return Curve(x, effects) if x else None


def _density(value: object, where: str) -> Density | None:
    if value is None:
        return None
    source = mapping_of(value, where)
    edges = numbers_of(entry(source, "edges", where), where)
    counts = numbers_of(entry(source, "counts", where), where)
    if len(edges) != len(counts) + 1:
        raise InputError(describe(where, f"{len(counts) + 1} edges of {len(counts)} bins", f"{len(edges)}", REMEDY))
    return Density(edges, tuple(round(count) for count in counts))


def _level(value: object, outputs: int, where: str) -> Level:
    source = mapping_of(value, where)
    effects = effects_of(entry(source, "effect", where), outputs, where)
    return Level(str(source.get("name")), effects, _whole(source.get("count")) or 0)


def _dropped(source: Mapping[str, object]) -> Dropped:
    slack = source.get("slack")
    return Dropped(
        str(entry(source, "name", "dropped")),
        str(source.get("reason") or ""),
        None if slack is None else number_of(slack, "slack"),
    )


def _trial(source: Mapping[str, object]) -> Trial:
    keys = ("alpha", "features", "mean", "standard_error")
    return Trial(*(number_of(entry(source, key, "curve"), f"curve, {key}") for key in keys))


def _path(value: object) -> Path | None:
    if value is None:
        return None
    source = mapping_of(value, "path")
    norms = items_of(entry(source, "norms", "path"), "path, norms")
    return Path(
        numbers_of(entry(source, "alphas", "path"), "path, alphas"),
        tuple(str(name) for name in items_of(entry(source, "names", "path"), "path, names")),
        tuple(numbers_of(row, "path, norms") for row in norms),
    )


def _whole(value: object) -> int | None:
    return None if value is None else int(number_of(value, "a whole number"))
