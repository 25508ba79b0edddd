"""An explanation of a whole model, as plain data that plots, the report and files are made from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from sparsenam.codec import MaybeNaN, Numbers, Plain, to_plain, unpack
from sparsenam.errors import InputError, RefusalError, describe, nearest
from sparsenam.fit.summary import Density
from sparsenam.model.editing import EditKind
from sparsenam.tables.text import date_key
from sparsenam.text import MINUS, MISSING, FeatureKind, Found, Task, date_text, number_text, pair_text, response_units

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sparsenam.explain.local import LocalExplanation

SCHEMA = 1  # of the JSON of explanations
POINTWISE = 1.959963984540054  # standard deviations on either side of a point: 95 %
Kind = TypeVar("Kind")
Effect = TypeVar("Effect", "Feature", "Pair")


class DataFrame(Protocol):
    """The little of a pandas table that is promised."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def to_csv(self, path: str, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Curve:
    """An effect as a function of one column: ``x`` (points,), ``effect`` (points, outputs), straight in between.

    ``deviation`` (points, outputs) are the standard deviations of the effect, and ``whole`` (outputs,) so many of them
    cover the whole curve at 95 %; None where they are not known.
    """

    x: Numbers
    effect: tuple[Numbers, ...]
    deviation: tuple[Numbers, ...] | None = None
    whole: Numbers | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """The effect (outputs,) of one level of a category, the rows that have it, and the effect's standard deviation."""

    name: str
    effect: Numbers
    count: int
    deviation: Numbers | None = None


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
    are dropped columns that could replace this one, each with the share of its effect that it expresses. ``kept_in``
    is the share of the folds whose fits keep it too, None where there were none. ``form`` of a curve is the shape that
    was asked for, else "linear" where it stays within 5 % of its range of a straight line, or "curved".
    ``stability`` is the share of half-samples that keep the column, None where they were not asked.
    """

    name: str
    kind: FeatureKind
    mean_absolute: MaybeNaN
    variation: MaybeNaN
    norm: MaybeNaN
    entry: int | None
    curve: Curve | None
    density: Density | None
    levels: tuple[Level, ...] | None
    missing: Missing | None
    substitutes: dict[str, MaybeNaN]
    reason: str
    kept_in: float | None = None
    form: str | None = None
    stability: float | None = None

    @property
    def kind_and_form(self) -> str:
        """The kind of the column, and the form of its curve unless that is any."""
        return self.kind if self.form in (None, "curved") else f"{self.kind}, {self.form}"

    def text_at(self, x: float) -> str:
        """Return a value on the curve's axis as text: the date of a day, the name of a rank, a number."""
        if self.kind == "date":
            return date_key(x)
        levels = self.levels or ()
        if self.kind == "ordered" and float(x).is_integer() and 0 <= x < len(levels):
            return levels[int(x)].name
        return f"{x:.6g}"

    def fault(self, outputs: int) -> str | None:
        curve, density = self.curve, self.density
        if curve is not None and len(curve.x) != len(curve.effect):
            return f"{len(curve.effect)} effects for {len(curve.x)} points of {self.name!r}"
        if density is not None and len(density.edges) != len(density.counts) + 1:
            return f"{len(density.edges)} edges for {len(density.counts)} bins of {self.name!r}"
        effects = [*(() if curve is None else curve.effect), *(level.effect for level in self.levels or ())]
        effects += [] if self.missing is None else [self.missing.effect]
        wrong = next((len(effect) for effect in effects if len(effect) != outputs), None)
        return None if wrong is None else f"{wrong} numbers for {outputs} outputs in {self.name!r}"


@dataclass(frozen=True, slots=True)
class PairAxis:
    """One column of a pair: the nodes along its axis, and what the column adds there alone.

    Numbers and dates have their nodes at ``x`` (nodes,), with straight lines in between; categories and ordered ones
    have ``levels`` (nodes,). Where ``missing``, one more node follows, that of missing cells. ``main``
    (nodes, outputs) is the column's effect without the pair.
    """

    name: str
    kind: FeatureKind
    x: Numbers | None
    levels: tuple[str, ...] | None
    missing: bool
    main: tuple[Numbers, ...]

    @property
    def size(self) -> int:
        return len(self.x or self.levels or ()) + self.missing

    def text_at(self, node: int) -> str:
        """Return the value at a node as text."""
        if self.missing and node == self.size - 1:
            return MISSING
        if self.levels is not None:
            return self.levels[node]
        x = (self.x or ())[node]
        return date_text(x) if self.kind == "date" else f"{x:.6g}"


@dataclass(frozen=True, slots=True)
class Pair:
    """The joint effect of two columns, beyond what either does alone.

    ``effect`` (nodes of ``one``, nodes of ``other``, outputs) is bilinear between nodes of numbers. ``share``
    (nodes of ``one``, nodes of ``other``) is the share of the training rows at each node, each row shared among the
    four about it: over these shares the effect has mean 0 along each row and each column. `total` adds both columns'
    effects: the summed surface, to look at where the two columns depend on each other so strongly that their effects
    and that of the pair cancel. ``mean_absolute`` and ``variation`` are measured as those of a feature. ``deviation``
    has the standard deviations of ``effect``, None where they are not known.
    """

    one: PairAxis
    other: PairAxis
    mean_absolute: MaybeNaN
    variation: MaybeNaN
    effect: tuple[tuple[Numbers, ...], ...]
    share: tuple[Numbers, ...]
    reason: str
    deviation: tuple[tuple[Numbers, ...], ...] | None = None

    @property
    def name(self) -> str:
        """The names of both columns."""
        return pair_text(self.one.name, self.other.name)

    @property
    def total(self) -> tuple[tuple[Numbers, ...], ...]:
        """The pair's effect and both columns' effects together, in the shape of ``effect``."""
        return tuple(
            tuple(
                tuple(sum(parts) for parts in zip(cell, first, second, strict=True))
                for cell, second in zip(row, self.other.main, strict=True)
            )
            for row, first in zip(self.effect, self.one.main, strict=True)
        )

    def fault(self, outputs: int) -> str | None:
        rows, columns = self.one.size, self.other.size
        for axis in (self.one, self.other):
            if (axis.x is None) == (axis.levels is None) or len(axis.main) != axis.size:
                return f"{len(axis.main)} effects for {axis.size} nodes of {axis.name!r}"
        for part in (self.effect, self.share):
            if len(part) != rows or any(len(row) != columns for row in part):
                return f"another shape than the {rows} × {columns} nodes of {self.name!r}"
        effects = [*self.one.main, *self.other.main, *(effect for row in self.effect for effect in row)]
        wrong = next((len(effect) for effect in effects if len(effect) != outputs), None)
        return None if wrong is None else f"{wrong} numbers for {outputs} outputs in {self.name!r}"


def most_important_first(parts: Iterable[Effect]) -> tuple[Effect, ...]:
    """Return features or pairs in the order in which an explanation has them."""
    return tuple(sorted(parts, key=lambda part: (-part.mean_absolute, part.name)))


@dataclass(frozen=True, slots=True)
class Dropped:
    """A column that the model does not use, and why; ``slack`` is its gradient over the one that lets it in.

    ``by_penalty`` says that the gradient is the reason: a slack of 1 would let the column in.
    """

    name: str
    reason: str
    slack: float | None = None
    by_penalty: bool = False


@dataclass(frozen=True, slots=True)
class EditRecord:
    """An edit as explanations show it: what, why, by whom and when, with the column's effect before and after.

    The curves go over the range of the training data; they are None where there is nothing to draw: after a column was
    dropped, and for the intercept, whose ``column`` is None. Of a category, x are the numbers of its ``levels``.
    Losses are means over the rows that were given to ``edit``, None where none were.
    """

    kind: EditKind
    column: str | None
    request: str
    reason: str
    who: str
    when: str
    before: Curve | None
    after: Curve | None
    levels: tuple[str, ...]
    is_date: bool
    loss_before: float | None
    loss_after: float | None

    @property
    def sentence(self) -> str:
        """The edit in one line: what, why, by whom, when, and what it did to the loss."""
        what = self.request if self.column is None else f"{self.column}: {self.request}"
        loss = "" if self.loss is None else f"; loss {self.loss}"
        return f"{what} ({self.reason}; {self.who}, {self.when}{loss})"

    @property
    def loss(self) -> str | None:
        """The loss on the given rows before and after, as text; None where no rows were given."""
        if self.loss_before is None or self.loss_after is None:
            return None
        return f"{number_text(self.loss_before, 5)} → {number_text(self.loss_after, 5)}"

    def fault(self, outputs: int) -> str | None:
        for curve in filter(None, (self.before, self.after)):
            points = len(self.levels) or len(curve.effect)
            lengths = {len(curve.x), len(curve.effect), points}
            if len(lengths) > 1 or not points or any(len(effect) != outputs for effect in curve.effect):
                return f"an edit of {self.column!r} with a curve of other lengths"
        return None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a model does with each column, in the units of its link.

    The score of a row is ``intercept`` (outputs,) plus the effects of its features and its ``pairs``, which both come
    with the largest mean absolute effect first. ``card`` says how the model was made, with ``explained``, the share of
    the loss that it explains in rows left out, its error and what pairs add of it, and ``notes``, what to know before
    trusting the choice, in sentences; ``curve``, ``chosen``, ``path`` and ``history`` say how alpha and features were
    chosen, where the fit knows. ``edits`` are the changes made after the fit, the first one first; card, curve and path
    are still those of the fit. Printed, it is a summary in a few lines.
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
    pairs: tuple[Pair, ...] = ()
    curve: list[dict[str, MaybeNaN]] | None = None
    chosen: dict[str, int] | None = None
    path: dict[str, Any] | None = None
    history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    edits: tuple[EditRecord, ...] = ()

    @property
    def response(self) -> str:
        """The units of predictions, the inverse link of scores."""
        return response_units(self.task, self.link, self.outputs, self.target)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before trusting the choice, in sentences; none where there is nothing to say."""
        return tuple(str(note) for note in self.card.get("notes") or ())

    @property
    def explained(self) -> str | None:
        """The share of the loss that the model explains in rows held out, with its error, as text."""
        explained = self.card.get("explained")
        if not explained or explained.get("share") is None or explained.get("error") is None:
            return None
        return f"{100 * explained['share']:.1f} % ± {100 * explained['error']:.1f} %".replace("-", MINUS)

    @property
    def worth_of_pairs(self) -> str:
        """How much of that the pairs add, in a sentence; empty where there are none, or where it is not known."""
        explained: Plain = self.card.get("explained") or {}
        if not self.pairs or explained.get("by_pairs") is None:
            return ""
        share = f"{100 * explained['by_pairs']:.1f} %".replace("-", MINUS)
        return f"Pairs add {share} to what is explained; pairs=0 fits the purely additive model."

    def __str__(self) -> str:
        from sparsenam.explain.words import in_words

        return in_words(self)

    def feature(self, name: str) -> Feature:
        """Return a kept feature by its name."""
        for feature in self.features:
            if feature.name == name:
                return feature
        names, dropped = [each.name for each in self.features], any(column.name == name for column in self.dropped)
        got = f"{name!r}, which was dropped" if dropped else repr(name)
        kept = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
        remedy = nearest(name, [] if dropped else names, "choose one of them")
        raise InputError(describe("feature", f"one of the kept features ({kept})", got, remedy))

    def pair(self, one: str, other: str) -> Pair:
        """Return a pair by the names of its columns, in either order."""
        for pair in self.pairs:
            if {pair.one.name, pair.other.name} == {one, other} and one != other:
                return pair
        found = ", ".join(pair.name for pair in self.pairs[:5]) + (" …" if len(self.pairs) > 5 else "")
        got = repr(pair_text(one, other))
        raise InputError(describe("pair", f"one of the pairs ({found or 'the model has none'})", got, "choose another"))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {"schema": SCHEMA, **to_plain(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the explanation that ``to_dict`` wrote, before or after a passage through JSON."""
        made = read_explanation(cls, data)
        wrong = [part.fault(len(made.outputs)) for part in (*made.features, *made.pairs, *made.edits)]
        if len(made.intercept) != len(made.outputs):
            wrong.append(f"{len(made.intercept)} intercepts for {len(made.outputs)} outputs")
        for fault in filter(None, wrong):
            raise InputError(describe("explanation", "what to_dict() returns", fault, "explain the model again"))
        return made

    def to_json(self, indent: int | None = None) -> str:
        """Return ``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def to_records(self) -> list[dict[str, Any]]:
        """Return one record for each column, and one for each pair: whether it is kept, how much it matters, and why.

        Those kept come first, the most important of all first; the kind of a pair is "pair".
        """
        sizes = {"kind": None, "form": None, "mean_absolute": 0.0, "variation": 0.0, "norm": 0.0}
        nothing: Plain = {**sizes, "entry": None, "kept_in": None, "stability": None, "slack": None}

        def record(part: Feature | Pair | Dropped, **known: object) -> Plain:
            measured = {key: getattr(part, key, value) for key, value in nothing.items()}
            kept = not isinstance(part, Dropped)
            return {"feature": part.name, "kept": kept, **measured, **known, "reason": part.reason}

        kept = [*map(record, self.features), *(record(pair, kind="pair", norm=None) for pair in self.pairs)]
        kept.sort(key=lambda record: -record["mean_absolute"])
        return [*kept, *map(record, self.dropped)]

    def to_frame(self) -> DataFrame:
        """Return the records as a pandas table."""
        return as_frame(self.to_records())

    def plot(self, features: Sequence[str] | int | None = None, *, outputs: Sequence[str] | None = None) -> Figure:
        """Return a matplotlib figure of the effects, one panel a column, the largest first.

        ``features`` are names, or how many of the largest; ``outputs`` names of those to draw. `plot_shapes` also
        draws on the caller's own axes.
        """
        try:
            plots = import_module("sparsenam.explain.plots")
        except ImportError as error:
            remedy = "pip install 'sparsenam[plots]', or write report(), which needs nothing"
            raise InputError(describe("plot", "matplotlib", "no such package", remedy)) from error
        return plots.plot_shapes(self, features, outputs=outputs)

    def _repr_html_(self) -> str:
        from sparsenam.explain.report.notebook import at_a_glance

        return at_a_glance(self)

    def report(self, path: str | Path, local: LocalExplanation | None = None, beside: Sequence[Found] = ()) -> Path:
        """Write one self-contained page about the model, and about some rows if given; return its path.

        ``beside`` are results of other methods, such as an audit; each becomes a section.
        """
        from sparsenam.explain.report import write_report

        return write_report(self, path, local, beside)


def read_explanation(kind: type[Kind], data: Mapping[str, object]) -> Kind:
    """Return the explanation that ``to_dict`` wrote; an error says what cannot have been written by it."""
    if data.get("schema") != SCHEMA:
        got, remedy = repr(data.get("schema")), "explain the model again"
        raise InputError(describe("schema of the explanation", f"schema {SCHEMA}", got, remedy))
    try:
        return unpack(kind, {name: value for name, value in data.items() if name != "schema"})
    except RefusalError as error:
        expected = f"what {kind.__name__}.to_dict() returns"
        raise InputError(describe("explanation", expected, str(error), "explain the model again")) from error


def as_frame(records: Sequence[Plain]) -> DataFrame:
    """Return the records as a pandas table; without pandas, an error that says what to do."""
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        remedy = "install pandas, or use to_records(), which needs nothing"
        raise InputError(describe("to_frame", "pandas", "no such package", remedy)) from error
    return pandas.DataFrame.from_records(list(records))
