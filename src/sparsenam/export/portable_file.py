"""Reading the portable form back: strictly, every field by its type, its range and its size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NoReturn

from sparsenam.codec import DamageError, unpack
from sparsenam.container import Json, is_object
from sparsenam.export.portable import (
    FORMAT,
    VERSION,
    ExportError,
    PortableColumn,
    PortableCurve,
    PortableModel,
    PortablePair,
    PortableTable,
    Reads,
    Vector,
    refusal,
)
from sparsenam.tables.text import MARKERS

HEAD = {"format": FORMAT, "version": VERSION, "missing_texts": sorted(MARKERS)}


def read_portable(text: str | bytes) -> PortableModel:
    """Return the model that `PortableModel.to_json` wrote; one sentence says what is wrong with any other text."""
    try:
        record: object = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        if isinstance(error, ExportError):
            raise
        got, remedy = f"a text that is none ({error})", "write it again with portable().to_json()"
        raise refusal("portable model", "strict JSON", got, remedy) from error
    return model_of(record)


def model_of(record: object) -> PortableModel:
    """Return the model of plain data, as `PortableModel.to_dict` gives them."""
    if not is_object(record):
        _refuse("", "an object", repr(record))
    given = dict(record)
    for name, expected in HEAD.items():
        found = given.pop(name, None)
        if type(found) is not type(expected) or found != expected:
            _refuse(name, repr(expected), repr(found))
    try:
        model = unpack(PortableModel, given, complete=True)
    except DamageError as error:
        _refuse(error.where, error.expected, error.got)
    _check_task(model)
    _require(len(model.intercept) == len(model.outputs), "intercept", "one number for each output")
    names = [column.name for column in model.columns]
    _require(len(set(names)) == len(names), "columns", "names that differ")
    for place, column in enumerate(model.columns):
        _check_column(column, f"columns[{place}]")
    for place, term in enumerate(model.terms):
        _check_term(term, model.columns, len(model.outputs), f"terms[{place}]")
    for place, pair in enumerate(model.pairs):
        _check_pair(pair, model.columns, len(model.outputs), f"pairs[{place}]")
    return model


def _refuse(where: str, expected: str, got: str) -> NoReturn:
    shown = got if len(got) <= 80 else f"{got[:77]}…"
    where = f"portable model: {where}" if where else "portable model"
    raise refusal(where, expected, shown, "write it again with portable().to_json()")


def _require(condition: bool, where: str, expected: str) -> None:
    if not condition:
        _refuse(where, expected, "others")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        _refuse("", "objects whose names differ", f"one with a name twice among {[name for name, _ in pairs]}")
    return found


def _no_constant(name: str) -> NoReturn:
    _refuse("", "finite numbers", name)


def _rises(values: Iterable[float]) -> bool:
    return all(one < other for one, other in pairwise(values))


def _check_column(column: PortableColumn, where: str) -> None:
    levels = column.levels
    _require(not levels or column.kind == "category", f"{where}.levels", "no levels but of a category")
    _require(len({level.text for level in levels}) == len(levels), f"{where}.levels", "texts that differ")
    numbers = [level.number for level in levels if level.number is not None]
    _require(len(set(numbers)) == len(numbers), f"{where}.levels", "numbers that differ")
    for name, code in (("false", column.false), ("true", column.true)):
        _require(code is None or code < column.n_codes, f"{where}.{name}", f"a code below {column.n_codes}")


def _check_reading(column: int, reads: Reads, columns: Sequence[PortableColumn], where: str) -> None:
    """Raise unless there is such a column, of which this can be read."""
    _require(column < len(columns), f"{where}.column", f"a whole number below {len(columns)}")
    allowed = ("level" if columns[column].kind == "category" else "number", "missing")
    _require(reads in allowed, f"{where}.reads", f"one of {list(allowed)}")


def _check_term(term: PortableCurve | PortableTable, columns: Sequence[PortableColumn], width: int, where: str) -> None:
    _check_reading(term.column, term.reads if isinstance(term, PortableTable) else "number", columns, where)
    _require(len(term.absent) == width, f"{where}.absent", f"{width} numbers")
    if isinstance(term, PortableTable):
        codes = max(1, columns[term.column].n_codes)
        enough = len(term.values) == 2 if term.reads == "missing" else len(term.values) >= codes
        _require(enough and _all_of(term.values, width), f"{where}.values", f"{width} numbers for each code")
        return
    pieces = len(term.knots) + 1
    _require(_rises(term.knots), f"{where}.knots", "rising numbers")
    _require(len(term.anchors) == pieces, f"{where}.anchors", f"{pieces} numbers")
    for name, rows in (("slopes", term.slopes), ("bases", term.bases)):
        right = len(rows) == width and _all_of(rows, pieces)
        _require(right, f"{where}.{name}", f"{width} lists of {pieces} numbers")


def _check_pair(pair: PortablePair, columns: Sequence[PortableColumn], width: int, where: str) -> None:
    for side, axis in enumerate(pair.axes):
        _check_reading(axis.column, axis.reads, columns, f"{where}.axes[{side}]")
        rising = len(axis.knots) >= 2 and _rises(axis.knots)
        _require(rising, f"{where}.axes[{side}].knots", "at least 2 rising numbers")
    down, across = (len(axis.knots) + 1 for axis in pair.axes)
    right = len(pair.values) == down and all(len(row) == across and _all_of(row, width) for row in pair.values)
    _require(right, f"{where}.values", f"{down} × {across} lists of {width} numbers")


def _all_of(rows: Iterable[Vector], length: int) -> bool:
    return all(len(row) == length for row in rows)


def _check_task(model: PortableModel) -> None:
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
        _refuse("task", "a task with a link, outputs and classes that belong together", got)
    hazards = [hazard for _, hazard in model.baseline]
    rising = _rises(time for time, _ in model.baseline) and hazards == sorted(hazards)
    _require(rising, "baseline", "rising times and cumulative hazards that do not fall")
    none = not model.baseline or model.task == "survival"
    _require(none, "baseline", "no baseline without the task 'survival'")
