"""The portable form of a model: columns, curves, tables and links as plain data, from which every target is written.

`docs/portable.md` describes it as JSON. It knows no estimator, and what is written from it knows no more than it says.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.codec import Bounds, Count, Size, Tags, is_numeric, to_plain
from sparsenam.errors import InputError, describe
from sparsenam.families import FAMILIES
from sparsenam.model import AdditiveModel, FittedCurve
from sparsenam.model.networks import SubNetworks
from sparsenam.model.pairs import PairFunction
from sparsenam.tables.columns import Column
from sparsenam.tables.encoder import TableEncoder, Term
from sparsenam.tables.text import MARKERS, has_leading_zero, is_marker, number_in, number_key

Task = Literal["regression", "classes", "labels", "survival"]
Link = Literal["identity", "log", "logit", "softmax"]
Kind = Literal["number", "date", "duration", "category"]
Reads = Literal["number", "level", "missing"]
Label: TypeAlias = str | bool | int | float
Cell: TypeAlias = float | str | bool | None
Vector = tuple[float, ...]

FORMAT, VERSION = "sparsenam portable model", 1
HIGHEST_EXPONENT = 600.0  # eˢ is constant beyond it, so never infinite


def is_missing(cell: Cell) -> bool:
    """Return whether a cell is missing, or a text that says so."""
    return cell is None or (is_marker(cell) if isinstance(cell, str) else isinstance(cell, float) and math.isnan(cell))


class ExportError(InputError):
    """A model cannot be carried into a target, or a portable form is not one."""


def refusal(where: str, expected: str, got: str, remedy: str) -> ExportError:
    """Return the error of an export: where, what was expected, what was got, and what to do."""
    return ExportError(describe(where, expected, got, remedy))


@dataclass(frozen=True, slots=True)
class PortableLevel:
    """A level of a category: its text, the number that it writes if it does, and its code, which levels may share."""

    text: str
    number: float | None
    code: Annotated[int, Bounds(0, 2**31 - 2)]


@dataclass(frozen=True, slots=True)
class PortableColumn:
    """A column that the model reads.

    ``kind`` says what a cell is: a number; a date, in days since 1970-01-01 in universal time; a duration, in seconds;
    or a category, whose cells are found among ``levels``. ``false`` and ``true`` are the codes of truth values, where
    the category takes them.
    """

    name: str
    kind: Kind
    levels: tuple[PortableLevel, ...] = ()
    false: Count | None = None
    true: Count | None = None

    @property
    def n_codes(self) -> int:
        return 1 + max((level.code for level in self.levels), default=-1)

    @property
    def by_text(self) -> dict[str, int]:
        """The codes of levels by their texts; of two of the same text the first counts."""
        return {level.text: level.code for level in reversed(self.levels)}

    @property
    def by_number(self) -> dict[float, int]:
        """The codes of levels by the numbers that they write."""
        return {level.number: level.code for level in reversed(self.levels) if level.number is not None}

    @property
    def takes_texts(self) -> bool:
        """Whether typed cells are texts: those of a category, unless all its levels are numbers or truth values."""
        if self.kind != "category":
            return False
        both = {"False", "True"}
        truths = both if {level.text for level in self.levels} == {*both, "0", "1"} else set[str]()
        return not self.levels or any(level.number is None and level.text not in truths for level in self.levels)

    def code(self, cell: Cell) -> int | None:
        """Return the code of a category's cell; None where it is no known level."""
        if isinstance(cell, bool | np.bool_):
            return self.true if cell else self.false
        if isinstance(cell, str):
            number = None if has_leading_zero(cell) else number_in(cell)
            if number is None or not math.isfinite(number):
                return self.by_text.get(cell)
            cell = number
        return None if cell is None else self.by_number.get(cell)


@dataclass(frozen=True, slots=True)
class PortableCurve:
    """What a number adds: on piece k, the number of knots not above x, slopes[o][k] (x - anchors[k]) + bases[o][k].

    ``knots`` (m,) rise; ``anchors`` are (m + 1,), ``slopes`` and ``bases`` (outputs, m + 1); ``absent`` (outputs,) is
    added where the number is missing.
    """

    column: Count
    knots: Vector
    anchors: Vector
    slopes: tuple[Vector, ...]
    bases: tuple[Vector, ...]
    absent: Vector


@dataclass(frozen=True, slots=True)
class PortableTable:
    """What a level adds, or a cell's being missing: ``values`` (codes, outputs).

    Where ``reads`` is "missing" the codes are 0 for a cell that is there and 1 for a missing one. ``absent`` (outputs,)
    is added where a category's cell is missing or no known level.
    """

    column: Count
    reads: Literal["level", "missing"]
    values: tuple[Vector, ...]
    absent: Vector


@dataclass(frozen=True, slots=True)
class PortableAxis:
    """One side of a pair: a column's number, the code of its level, or 1 where it is missing and 0 elsewhere."""

    column: Count
    reads: Reads
    knots: Vector

    def place(self, x: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the knot below each of some values (n,), at the edge beyond it, and the share of the next knot."""
        knots = np.array(self.knots)
        inside = np.clip(np.asarray(x, dtype=np.float64), knots[0], knots[-1])
        node = np.minimum(np.searchsorted(knots, inside, side="right") - 1, len(knots) - 2)
        return node, (inside - knots[node]) / (knots[node + 1] - knots[node])


@dataclass(frozen=True, slots=True)
class PortablePair:
    """What two columns add together: bilinear between nodes, as at the edge beyond it.

    ``values`` (a + 1, b + 1, outputs) are those at the nodes; the last of either side where that side is not known.
    """

    axes: tuple[PortableAxis, PortableAxis]
    values: tuple[tuple[Vector, ...], ...]


PortableTerm: TypeAlias = Annotated[PortableCurve | PortableTable, Tags(("curve", "table"))]


@dataclass(frozen=True, slots=True)
class PortableModel:
    """A fitted model as plain data.

    The scores (outputs,) are 0, plus each term's effect in order, plus each pair's, plus ``intercept``. ``link`` makes
    means of them: identity; log, eˢ with s at most 600; logit, (1 + tanh(s/2))/2; softmax over the outputs. ``classes``
    are the labels: of a score's logit the second has the mean as its probability, of softmax and of several labels the
    outputs are those of the classes. Of a survival model the score is the log hazard ratio to ``baseline``, pairs of a
    time and the cumulative hazard up to it.
    """

    task: Task
    family: str
    link: Link
    outputs: Annotated[tuple[str, ...], Bounds(1)]
    classes: tuple[Label, ...]
    intercept: Vector
    columns: tuple[PortableColumn, ...]
    terms: tuple[PortableTerm, ...]
    pairs: tuple[PortablePair, ...] = ()
    baseline: tuple[tuple[float, Size], ...] = ()
    written_by: str = "sparsenam"

    def to_json(self) -> str:
        """Return the model as strict JSON, one that gives the same numbers back to the bit."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    def to_dict(self) -> dict[str, object]:
        """Return the model as plain data: dictionaries, lists, texts and numbers."""
        return {"format": FORMAT, "version": VERSION, "missing_texts": sorted(MARKERS), **to_plain(self)}

    def names_of(self, pair: PortablePair) -> list[str]:
        return [self.columns[axis.column].name for axis in pair.axes]

    def of_column(self, column: int) -> list[int]:
        """Return the places of a column's terms among all."""
        return [place for place, term in enumerate(self.terms) if term.column == column]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """What a model predicts: its task, the labels of classes, and a baseline hazard (times, cumulative hazards)."""

    task: Task = "regression"
    classes: NDArray[np.generic] | None = None
    baseline: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None


def portable_model(model: AdditiveModel, encoder: TableEncoder, target: Target, written_by: str) -> PortableModel:
    """Return the portable form of a fitted model; one sentence says what cannot be carried."""
    _check(model)
    kept = [int(term) for term in model.terms]
    read = {*kept, *(term for pair in model.pairs for term in pair.terms)}
    used = sorted({encoder.terms[term].column for term in read})
    place = {column: index for index, column in enumerate(used)}
    terms = [_term(curve, encoder.terms[term], place, encoder) for curve, term in zip(model.curves, kept, strict=True)]
    classes = () if target.classes is None else tuple(_label(label) for label in target.classes)
    link = cast(Link, model.family.link)
    times, hazards = target.baseline or (np.zeros(0), np.zeros(0))
    return PortableModel(
        task=target.task,
        family=model.family.name,
        link="identity" if target.task == "survival" else "softmax" if model.family.couples_outputs else link,
        outputs=_outputs(target.task, classes, model.intercept.size),
        classes=classes,
        intercept=_numbers(model.intercept),
        columns=tuple(_column(encoder.columns[column]) for column in used),
        terms=tuple(terms),
        pairs=tuple(_pair(pair, encoder, place) for pair in model.pairs),
        baseline=tuple(zip(_numbers(times), _numbers(hazards), strict=True)),
        written_by=written_by,
    )


def _check(model: AdditiveModel) -> None:
    if not any(type(model.family) is kind for kind in FAMILIES.values()):
        got, remedy = f"the custom loss {model.family.name}, which is code", "export a model of a family with a name"
        raise refusal("model to export", f"one of the families {sorted(FAMILIES)}", got, remedy)
    if isinstance(model.functions, SubNetworks):
        got = f"networks with the activation {model.functions.name!r}"
        remedy = "fit without network=, or with activation='relu'"
        raise refusal("model to export", "piecewise linear effects", got, remedy)


def _label(label: object) -> Label:
    value: object = label.item() if is_numeric(label) else label
    if not isinstance(value, str | int | float):
        expected = "classes that are text, whole numbers, numbers or truth values"
        raise refusal("model to export", expected, type(value).__name__, "fit with text labels")
    return value


def _outputs(task: Task, classes: Sequence[Label], count: int) -> tuple[str, ...]:
    if task == "classes":
        return tuple(str(label) for label in (classes[1:] if count == 1 else classes))
    if task == "labels":
        return tuple(str(label) for label in classes)
    return ("y",) if count == 1 else tuple(f"y{index}" for index in range(count))


def _numbers(values: NDArray[np.float64]) -> Vector:
    return tuple(float(value) for value in values)


def _column(column: Column) -> PortableColumn:
    if column.kind == "date":
        return PortableColumn(column.name, "date")
    if column.kind == "number":
        return PortableColumn(column.name, "duration" if column.unit == "seconds" else "number")
    if column.kind == "constant":  # only whether it is missing counts
        return PortableColumn(column.name, "category")
    codes = {level: code for code, level in enumerate(column.levels)}
    codes |= dict.fromkeys(column.pooled, len(column.levels) - 1)
    levels = [PortableLevel(text, number_of_level(text), code) for text, code in codes.items()]
    false, true = (codes.get(name) for name in ("False", "True"))
    if set(column.levels) == {"False", "True"}:  # truth values may be kept as numbers, and numbers as truth values
        levels += [PortableLevel("0", 0.0, codes["False"]), PortableLevel("1", 1.0, codes["True"])]
    elif set(column.levels) == {"0", "1"}:
        false, true = codes["0"], codes["1"]
    return PortableColumn(column.name, "category", tuple(levels), false, true)


def number_of_level(text: str) -> float | None:
    """Return the number whose level has this name, if it is that of a number."""
    number = None if has_leading_zero(text) else number_in(text)
    if number is None or not math.isfinite(number) or number_key(number) != text:
        return None
    return number


def _reads(term: Term, encoder: TableEncoder) -> Reads:
    if term.kind == "missing":
        return "missing"
    return "level" if encoder.columns[term.column].levels else "number"


def _term(curve: FittedCurve, term: Term, place: Mapping[int, int], encoder: TableEncoder) -> PortableTerm:
    column, reads = encoder.columns[term.column], _reads(term, encoder)
    absent = _numbers(curve.absent)
    if reads == "number":
        anchors, bases, slopes = curve.lines
        return PortableCurve(
            place[term.column],
            _numbers(curve.knots),
            _numbers(anchors),
            tuple(_numbers(part) for part in slopes),
            tuple(_numbers(part) for part in bases),
            absent,
        )
    codes = np.arange(2.0 if reads == "missing" else float(len(column.levels)))
    if term.kind == "binary" and len(term.levels) == 1 and len(column.levels) > 1:  # one level of several
        codes = (codes == column.levels.index(term.levels[0])).astype(np.float64)
    return PortableTable(place[term.column], reads, tuple(_numbers(values) for values in curve(codes)), absent)


def _pair(pair: PairFunction, encoder: TableEncoder, place: Mapping[int, int]) -> PortablePair:
    sides = [
        PortableAxis(place[encoder.terms[term].column], _reads(encoder.terms[term], encoder), _numbers(knots))
        for term, knots in zip(pair.terms, pair.knots, strict=True)
    ]
    values = tuple(tuple(_numbers(node) for node in row) for row in pair.values)
    return PortablePair((sides[0], sides[1]), values)
