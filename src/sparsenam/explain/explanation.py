"""An explanation of a whole model, as plain data that plots, the report and files are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from sparsenam.errors import InputError, describe
from sparsenam.explain.plain import (
    SCHEMA,
    DataFrame,
    Numbers,
    as_frame,
    check_schema,
    not_written_by,
    numbers,
    plain_data,
    rows_of_numbers,
    to_json,
)
from sparsenam.explain.text import Task, response_units
from sparsenam.tables.text import date_key

if TYPE_CHECKING:
    from sparsenam.explain.local import LocalExplanation

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
    has one level, its present cells. ``entry`` is the rank of entry on the path, 1 for the first. ``substitutes``
    are dropped columns that could replace this one, each with the share of its effect that it expresses.
    """

    name: str
    kind: FeatureKind
    mean_absolute: float
    variation: float
    norm: float
    entry: int | None
    curve: Curve | None
    density: Density | None
    levels: tuple[Level, ...] | None
    missing: Missing | None
    substitutes: dict[str, float]
    reason: str

    def text_at(self, x: float) -> str:
        """Return a value on the curve's axis as text: the date of a day, the name of a rank, a number."""
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
        return plain_data({**data, "importance": sizes})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the feature that ``to_dict`` wrote."""
        curve, density, levels, missing = (data[key] for key in ("curve", "density", "levels", "missing"))
        return cls(
            name=data["name"],
            kind=data["kind"],
            mean_absolute=float(data["importance"]["mean_absolute"]),
            variation=float(data["importance"]["variation"]),
            norm=float(data["norm"]),
            entry=data["entry"],
            curve=None if curve is None else Curve(numbers(curve["x"]), rows_of_numbers(curve["effect"])),
            density=None if density is None else Density(numbers(density["edges"]), tuple(density["counts"])),
            levels=None
            if levels is None
            else tuple(Level(level["name"], numbers(level["effect"]), int(level["count"])) for level in levels),
            missing=None if missing is None else Missing(numbers(missing["effect"]), int(missing["count"])),
            substitutes=dict(data["substitutes"]),
            reason=data.get("reason", ""),
        )

    def check(self, outputs: int) -> None:
        """Raise unless all parts of the shape are of the same length, with one effect for each output."""
        curve, density = self.curve, self.density
        if curve is not None and len(curve.x) != len(curve.effect):
            raise ValueError(f"{len(curve.effect)} effects for {len(curve.x)} points of {self.name!r}")
        if density is not None and len(density.edges) != len(density.counts) + 1:
            raise ValueError(f"{len(density.edges)} edges for {len(density.counts)} bins of {self.name!r}")
        effects = [*(() if curve is None else curve.effect), *(level.effect for level in self.levels or ())]
        effects += [] if self.missing is None else [self.missing.effect]
        wrong = next((len(effect) for effect in effects if len(effect) != outputs), None)
        if wrong is not None:
            raise ValueError(f"{wrong} numbers for {outputs} outputs in {self.name!r}")


@dataclass(frozen=True, slots=True)
class Dropped:
    """A column that the model does not use, and why; ``slack`` is its gradient over the one that lets it in."""

    name: str
    reason: str
    slack: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {**plain_data(asdict(self)), "norm": 0.0}


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
        """The units of predictions, the inverse link of scores."""
        return response_units(self.task, self.link, self.outputs)

    def feature(self, name: str) -> Feature:
        """Return a kept feature by its name."""
        for feature in self.features:
            if feature.name == name:
                return feature
        dropped = any(column.name == name for column in self.dropped)
        got = f"{name!r}, which was dropped" if dropped else repr(name)
        more = " …" if len(self.features) > 5 else ""
        kept = ", ".join(feature.name for feature in self.features[:5]) + more
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
            "features": [feature.to_dict() for feature in self.features],
            "dropped": [column.to_dict() for column in self.dropped],
            **{key: plain_data(getattr(self, key)) for key in ("card", "curve", "chosen", "path", "history")},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the explanation that ``to_dict`` wrote, before or after a passage through JSON."""
        check_schema(data, "explain the model again")
        try:
            made = cls(
                task=data["task"],
                target=data["target"],
                outputs=tuple(data["outputs"]),
                link=data["link"],
                units=data["units"],
                intercept=numbers(data["intercept"]),
                features=tuple(Feature.from_dict(feature) for feature in data["features"]),
                dropped=tuple(Dropped(item["name"], item["reason"], item["slack"]) for item in data["dropped"]),
                **{key: data[key] for key in ("card", "curve", "chosen", "path", "history")},
            )
            if len(made.intercept) != len(made.outputs):
                raise ValueError(f"{len(made.intercept)} intercepts for {len(made.outputs)} outputs")
            for feature in made.features:
                feature.check(len(made.outputs))
        except (KeyError, TypeError, ValueError) as error:
            raise not_written_by("Explanation", error) from error
        return made

    def to_json(self, indent: int | None = None) -> str:
        """Return ``to_dict`` as JSON text."""
        return to_json(self.to_dict(), indent)

    def to_records(self) -> list[dict[str, Any]]:
        """Return one record for each column: whether it is kept, how much it matters, and why."""
        sizes = ("kind", "mean_absolute", "variation", "norm", "entry")
        nothing = dict(zip(sizes, (None, 0.0, 0.0, 0.0, None), strict=True))
        kept = [
            {
                "feature": feature.name,
                "kept": True,
                **{key: getattr(feature, key) for key in sizes},
                "slack": None,
                "reason": feature.reason,
            }
            for feature in self.features
        ]
        dropped = [
            {"feature": item.name, "kept": False, **nothing, "slack": item.slack, "reason": item.reason}
            for item in self.dropped
        ]
        return kept + dropped

    def to_frame(self) -> DataFrame:
        """Return the records as a pandas table."""
        return as_frame(self.to_records())

    def report(self, path: str | Path, local: LocalExplanation | None = None) -> Path:
        """Write one self-contained page about the model, and about some rows if given; return its path."""
        from sparsenam.explain.report import write_report

        return write_report(self, path, local)
