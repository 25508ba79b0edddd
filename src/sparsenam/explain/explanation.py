"""An explanation of a whole model, as plain data that pictures, pages and files are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from sparsenam.errors import InputError, describe
from sparsenam.explain.frames import DataFrame, as_frame
from sparsenam.explain.local import LocalExplanation
from sparsenam.explain.plain import SCHEMA, Numbers, numbers, plain, rows_of_numbers, to_json
from sparsenam.explain.units import Task, response_units
from sparsenam.tables.text import date_key

FeatureKind = Literal["number", "category", "ordered", "date"]


@dataclass(frozen=True, slots=True)
class Curve:
    """An effect as a function of one column: ``x`` (points,), ``effect`` (points, outputs), straight in between."""

    x: Numbers
    effect: tuple[Numbers, ...]


@dataclass(frozen=True, slots=True)
class Density:
    """How often values occur: ``edges`` (bins + 1,), ``counts`` (bins,)."""

    edges: Numbers
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """The effect (outputs,) of one level of a category, and the rows that have it."""

    name: str
    effect: Numbers
    count: int


@dataclass(frozen=True, slots=True)
class Missing:
    """The effect (outputs,) of a missing cell, and the rows that miss it."""

    effect: Numbers
    count: int


@dataclass(frozen=True, slots=True)
class Feature:
    """A column that the model uses.

    ``mean_absolute`` is the mean of |effect| over rows and outputs, ``variation`` max - min of the effect over the
    rows (the paper's), the largest over outputs. Numbers and dates have a ``curve`` and a ``density``, categories
    ``levels``, ordered ones both a curve at the ranks and levels. A column of which only the missing cells matter
    has one level, its present cells. ``entry`` is the place of entry on the path, 1 for the first.
    """

    name: str
    kind: FeatureKind
    terms: tuple[str, ...]
    mean_absolute: float
    variation: float
    norm: float
    entry: int | None
    curve: Curve | None
    density: Density | None
    levels: tuple[Level, ...] | None
    missing: Missing | None
    stand_ins: dict[str, float]
    reason: str

    def text_at(self, x: float) -> str:
        """Return a place on the curve's axis in words: the date of a day, the name of a rank, a number."""
        if self.kind == "date":
            return date_key(x)
        levels = self.levels or ()
        if self.kind == "ordered" and float(x).is_integer() and 0 <= x < len(levels):
            return levels[int(x)].name
        return f"{x:.6g}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        data = asdict(self)
        sizes = {"mean_absolute": data.pop("mean_absolute"), "variation": data.pop("variation")}
        return plain({**data, "importance": sizes})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the feature that ``to_dict`` wrote."""
        curve, density, levels, missing = (data[key] for key in ("curve", "density", "levels", "missing"))
        return cls(
            name=data["name"],
            kind=data["kind"],
            terms=tuple(data["terms"]),
            mean_absolute=float(data["importance"]["mean_absolute"]),
            variation=float(data["importance"]["variation"]),
            norm=float(data["norm"]),
            entry=data["entry"],
            curve=None if curve is None else Curve(numbers(curve["x"]), rows_of_numbers(curve["effect"])),
            density=None if density is None else Density(numbers(density["edges"]), tuple(density["counts"])),
            levels=None
            if levels is None
            else tuple(Level(own["name"], numbers(own["effect"]), int(own["count"])) for own in levels),
            missing=None if missing is None else Missing(numbers(missing["effect"]), int(missing["count"])),
            stand_ins=dict(data["stand_ins"]),
            reason=data.get("reason", ""),
        )


@dataclass(frozen=True, slots=True)
class Dropped:
    """A column that the model does not use, and why; ``slack`` is its gradient over the one that lets it in."""

    name: str
    reason: str
    slack: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {**plain(asdict(self)), "norm": 0.0}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a model does with each column, in the units of its link.

    The score of a row is ``intercept`` (outputs,) plus its features' effects. ``features`` come with the largest
    mean absolute effect first. ``card`` says how the model was made; ``curve``, ``chosen``, ``path`` and
    ``history`` how alpha and features were chosen, where the fit knows.
    """

    task: Task
    target: str | None
    outputs: tuple[str, ...]
    link: str
    units: str
    intercept: Numbers
    features: tuple[Feature, ...]
    dropped: tuple[Dropped, ...]
    card: dict[str, Any]
    curve: list[dict[str, float]] | None = None
    chosen: dict[str, int] | None = None
    path: dict[str, Any] | None = None
    history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def response(self) -> str:
        """What the inverse link of a score is, in words."""
        return response_units(self.task, self.link, self.outputs)

    def feature(self, name: str) -> Feature:
        """Return a kept feature by its name."""
        for own in self.features:
            if own.name == name:
                return own
        dropped = any(own.name == name for own in self.dropped)
        got = f"{name!r}, which was dropped" if dropped else repr(name)
        kept = ", ".join(own.name for own in self.features[:5]) + (" …" if len(self.features) > 5 else "")
        raise InputError(describe("feature", f"one of the kept features ({kept})", got, "choose one of them"))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {
            "schema": SCHEMA,
            "task": self.task,
            "target": self.target,
            "outputs": list(self.outputs),
            "link": self.link,
            "units": self.units,
            "intercept": list(self.intercept),
            "features": [own.to_dict() for own in self.features],
            "dropped": [own.to_dict() for own in self.dropped],
            **{key: plain(getattr(self, key)) for key in ("card", "curve", "chosen", "path", "history")},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the explanation that ``to_dict`` wrote, before or after a passage through JSON."""
        if data.get("schema") != SCHEMA:
            got, remedy = repr(data.get("schema")), "explain the model again"
            raise InputError(describe("schema of the explanation", str(SCHEMA), got, remedy))
        return cls(
            task=data["task"],
            target=data["target"],
            outputs=tuple(data["outputs"]),
            link=data["link"],
            units=data["units"],
            intercept=numbers(data["intercept"]),
            features=tuple(Feature.from_dict(own) for own in data["features"]),
            dropped=tuple(Dropped(own["name"], own["reason"], own["slack"]) for own in data["dropped"]),
            **{key: data[key] for key in ("card", "curve", "chosen", "path", "history")},
        )

    def to_json(self, indent: int | None = None) -> str:
        """Return ``to_dict`` as JSON text."""
        return to_json(self.to_dict(), indent)

    def to_records(self) -> list[dict[str, Any]]:
        """Return one record for each column: whether it is kept, how much it matters, and why."""
        kept = [
            {
                "feature": own.name,
                "kept": True,
                "kind": own.kind,
                "mean_absolute": own.mean_absolute,
                "variation": own.variation,
                "norm": own.norm,
                "entry": own.entry,
                "slack": None,
                "reason": own.reason,
            }
            for own in self.features
        ]
        nothing = {"kind": None, "mean_absolute": 0.0, "variation": 0.0, "norm": 0.0, "entry": None}
        gone = [
            {"feature": own.name, "kept": False, **nothing, "slack": own.slack, "reason": own.reason}
            for own in self.dropped
        ]
        return kept + gone

    def to_frame(self) -> DataFrame:
        """Return the records as a pandas table."""
        return as_frame(self.to_records())

    def report(self, path: str | Path, local: LocalExplanation | None = None) -> Path:
        """Write one self-contained page about the model, and about some rows if given; return its path."""
        from sparsenam.explain.report import write_report

        return write_report(self.to_dict(), path, None if local is None else local.to_dict())
