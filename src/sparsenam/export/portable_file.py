"""Reading the portable form back: strictly, every field by its type, its range and its size."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NoReturn, TypeVar, cast, get_args

from sparsenam.errors import describe
from sparsenam.export.portable import (
    FORMAT,
    VERSION,
    ExportError,
    Kind,
    Label,
    Link,
    PortableAxis,
    PortableColumn,
    PortableCurve,
    PortableLevel,
    PortableModel,
    PortablePair,
    PortableTable,
    PortableTerm,
    Reads,
    Task,
    Vector,
)
from sparsenam.tables.text import MARKERS

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the document with the way to it, which errors say."""

    value: Any
    way: tuple[str | int, ...] = field(default=())

    def fail(self, expected: str, got: str | None = None) -> NoReturn:
        """Raise: one sentence with the way, what was expected and what was got."""
        shown = got if got is not None else repr(self.value)
        shown = shown if len(shown) <= 80 else f"{shown[:77]}…"
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.way).lstrip(".")
        where = f"portable model: {where}" if where else "portable model"
        raise ExportError(describe(where, expected, shown, "write it again with portable().to_json()"))

    def fields(self, *names: str) -> list[Node]:
        """Return the values of an object that has exactly these names."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        found = cast("dict[str, Any]", self.value)
        if set(found) != set(names):
            odd = sorted(set(found) ^ set(names))
            self.fail(f"an object with the fields {list(names)}", f"one that differs in {odd}")
        return [Node(found[name], (*self.way, name)) for name in names]

    def list_of(self, read: Callable[[Node], Item], length: int | None = None) -> tuple[Item, ...]:
        """Return the items of a list, each read; of a given length if it is one."""
        if not isinstance(self.value, list):
            self.fail("a list")
        items = cast("list[Any]", self.value)
        if length is not None and len(items) != length:
            self.fail(f"a list of {length}", f"one of {len(items)}")
        return tuple(read(Node(item, (*self.way, place))) for place, item in enumerate(items))

    def text(self) -> str:
        """Return a text."""
        return self.value if isinstance(self.value, str) else self.fail("a text")

    def word(self, words: Sequence[str]) -> str:
        """Return a text that is one of some."""
        return self.value if isinstance(self.value, str) and self.value in words else self.fail(f"one of {list(words)}")

    def number(self) -> float:
        """Return a finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self.fail("a number")
        try:
            number = float(self.value)
        except OverflowError:
            number = math.inf
        return number if math.isfinite(number) else self.fail("a finite number")

    def index(self, below: int) -> int:
        """Return a whole number from 0 to below a limit."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not 0 <= self.value < below:
            self.fail(f"a whole number from 0 to {below - 1}")
        return self.value

    def numbers(self, length: int | None = None) -> Vector:
        """Return a list of finite numbers."""
        return self.list_of(Node.number, length)

    def rising(self, least: int) -> Vector:
        """Return a list of rising numbers."""
        values = self.numbers()
        if len(values) < least or not _rises(values):
            self.fail(f"at least {least} rising numbers")
        return values


def read_portable(text: str | bytes) -> PortableModel:
    """Return the model that `PortableModel.to_json` wrote; one sentence says what is wrong with any other text."""
    try:
        record: Any = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        if isinstance(error, ExportError):
            raise
        got, remedy = f"a text that is none ({error})", "write it again with portable().to_json()"
        raise ExportError(describe("portable model", "strict JSON", got, remedy)) from error
    return model_of(record)


def model_of(record: object) -> PortableModel:
    """Return the model of plain data, as `PortableModel.to_dict` gives them."""
    names = ("format", "version", "missing_texts", "task", "family", "link", "outputs", "classes", "intercept")
    nodes = Node(record).fields(*names, "columns", "terms", "pairs", "baseline", "written_by")
    form, version, missing, task, family, link, outputs, classes, intercept, columns, terms, pairs, baseline, by = nodes
    form.word((FORMAT,))
    if isinstance(version.value, bool) or version.value != VERSION:
        version.fail(f"version {VERSION}")
    if missing.list_of(Node.text) != tuple(sorted(MARKERS)):
        missing.fail(f"{sorted(MARKERS)}")
    output_names = outputs.list_of(Node.text)
    width = len(output_names)
    if not width:
        outputs.fail("at least one output")
    read_columns = columns.list_of(_column)
    if len({column.name for column in read_columns}) < len(read_columns):
        columns.fail("names that differ", "one name twice")
    model = PortableModel(
        task=cast(Task, task.word(get_args(Task))),
        family=family.text(),
        link=cast(Link, link.word(get_args(Link))),
        outputs=output_names,
        classes=classes.list_of(_label),
        intercept=intercept.numbers(width),
        columns=read_columns,
        terms=terms.list_of(lambda node: _term(node, read_columns, width)),
        pairs=pairs.list_of(lambda node: _pair(node, read_columns, width)),
        baseline=baseline.list_of(_event),
        written_by=by.text(),
    )
    _check_task(model, task, baseline)
    return model


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        Node(None).fail("objects whose names differ", f"one with a name twice among {[name for name, _ in pairs]}")
    return found


def _no_constant(name: str) -> NoReturn:
    Node(None).fail("finite numbers", name)


def _rises(values: Iterable[float]) -> bool:
    return all(one < other for one, other in pairwise(values))


def _label(node: Node) -> Label:
    if isinstance(node.value, float):
        return node.number()
    return node.value if isinstance(node.value, str | int) else node.fail("a text, a number or a truth value")


def _event(node: Node) -> tuple[float, float]:
    time, hazard = node.numbers(2)
    return (time, hazard) if hazard >= 0 else node.fail("a time and a cumulative hazard of at least 0")


def _column(node: Node) -> PortableColumn:
    name, kind, levels, false, true = node.fields("name", "kind", "levels", "false", "true")
    found = levels.list_of(_level)
    read_kind = cast(Kind, kind.word(get_args(Kind)))
    if found and read_kind != "category":
        levels.fail(f"no levels in a column of kind {read_kind!r}", f"{len(found)}")
    if len({level.text for level in found}) < len(found):
        levels.fail("texts that differ", "one text twice")
    numbers = [level.number for level in found if level.number is not None]
    if len(set(numbers)) < len(numbers):
        levels.fail("numbers that differ", "one number twice")
    count = max((level.code for level in found), default=-1) + 1
    codes = [None if truth.value is None else truth.index(count) for truth in (false, true)]
    return PortableColumn(name.text(), read_kind, found, codes[0], codes[1])


def _level(node: Node) -> PortableLevel:
    text, number, code = node.fields("text", "number", "code")
    return PortableLevel(text.text(), None if number.value is None else number.number(), code.index(2**31 - 1))


def _reading(node: Node, column: PortableColumn) -> Reads:
    allowed = ("level" if column.kind == "category" else "number", "missing")
    return cast(Reads, node.word(allowed))


def _term(node: Node, columns: Sequence[PortableColumn], width: int) -> PortableTerm:
    kind = cast("dict[str, Any]", node.value).get("type") if isinstance(node.value, dict) else None
    if kind == "curve":
        names = ("type", "column", "knots", "anchors", "slopes", "bases", "absent")
        _, place, knots, anchors, slopes, bases, absent = node.fields(*names)
        column = place.index(len(columns))
        if columns[column].kind == "category":
            place.fail("a column of numbers", "one of levels")
        read_knots = knots.rising(0)
        pieces = len(read_knots) + 1
        read_slopes, read_bases = (part.list_of(lambda row: row.numbers(pieces), width) for part in (slopes, bases))
        return PortableCurve(
            column, read_knots, anchors.numbers(pieces), read_slopes, read_bases, absent.numbers(width)
        )
    if kind != "table":
        node.fail('an object whose type is "curve" or "table"')
    _, place, reads, values, absent = node.fields("type", "column", "reads", "values", "absent")
    column = place.index(len(columns))
    read = reads.word(("level", "missing"))
    _reading(reads, columns[column])
    found = values.list_of(lambda row: row.numbers(width), 2 if read == "missing" else None)
    if not found or (read == "level" and any(level.code >= len(found) for level in columns[column].levels)):
        values.fail("values for all codes of the column", f"{len(found)}")
    return PortableTable(column, "missing" if read == "missing" else "level", found, absent.numbers(width))


def _axis(node: Node, columns: Sequence[PortableColumn]) -> PortableAxis:
    place, reads, knots = node.fields("column", "reads", "knots")
    column = place.index(len(columns))
    return PortableAxis(column, _reading(reads, columns[column]), knots.rising(2))


def _pair(node: Node, columns: Sequence[PortableColumn], width: int) -> PortablePair:
    axes, values = node.fields("axes", "values")
    one, other = axes.list_of(lambda axis: _axis(axis, columns), 2)
    across = len(other.knots) + 1
    rows = values.list_of(lambda row: row.list_of(lambda at: at.numbers(width), across), len(one.knots) + 1)
    return PortablePair((one, other), rows)


def _check_task(model: PortableModel, task: Node, baseline: Node) -> None:
    """Raise unless link, outputs, classes and baseline are those of a task."""
    width, count = len(model.outputs), len(model.classes)
    fits = {
        "regression": not count and model.link != "softmax",
        "classes": (width, count, model.link) == (1, 2, "logit") or (width == count > 1 and model.link == "softmax"),
        "labels": width == count and model.link == "logit",
        "survival": not count and width == 1 and model.link == "identity",
    }
    if not fits[model.task]:
        got = f"{model.task!r} with the link {model.link!r}, {width} output(s) and {count} class(es)"
        task.fail("a task with a link, outputs and classes that belong together", got)
    hazards = [hazard for _, hazard in model.baseline]
    if not _rises(time for time, _ in model.baseline) or hazards != sorted(hazards):
        baseline.fail("rising times and cumulative hazards that do not fall", "others")
    if model.baseline and model.task != "survival":
        baseline.fail("no baseline without the task 'survival'", f"{len(model.baseline)} times")
