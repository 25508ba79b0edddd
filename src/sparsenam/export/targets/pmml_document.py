"""A model as a PMML 4.4 document: a regression on the score, which derived fields compute exactly.

Columns are fields of their names: numbers, dates (days since 1970) and durations (seconds) are doubles; a category is
of strings, or of doubles where all its levels are numbers or truth values (0 and 1).

Curves and tables are look-ups by halving, pairs are arithmetic. Every number is written so that it is read back to the
bit, and the arithmetic is that of `docs/portable.md`, step by step. Texts are compared by the attribute of a
NormDiscrete, which keeps blanks and line ends, as the text of an element may not. An expression is missing, which is
PMML's NaN, where a number that it reads is infinite.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from sparsenam.export.exporting import Matrix, Options, Rows
from sparsenam.export.portable import (
    HIGHEST_EXPONENT,
    Label,
    PortableAxis,
    PortableCurve,
    PortableModel,
    PortablePair,
    PortableTerm,
    refusal,
)
from sparsenam.export.targets.code_parts import check_texts
from sparsenam.export.targets.typed_cells import cell_of
from sparsenam.tables.text import MARKERS

NAMESPACE = "http://www.dmg.org/PMML-4_4"
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
DOUBLE = {"optype": "continuous", "dataType": "double"}
UNITS = {"date": "days since 1970-01-01", "duration": "seconds"}
LARGEST_FLOAT = sys.float_info.max
STRETCH = 50  # sums in one expression
# Numbers as texts; without brackets, at which some readers of XML part a text.
NUMBERS = r"^\s*(?:\+|-)?(?:(?:0|(?!0)\d+)(?:\.\d*)?|\.\d+)(?:(?:e|E)(?:\+|-)?\d+)?\s*$"


def files(model: PortableModel, path: Path, options: Options) -> dict[Path, bytes]:
    """Return the document; it takes no options."""
    _check(model)
    document = _document(model)
    indent(document, " ")
    return {path: tostring(document, encoding="utf-8", xml_declaration=True)}


def require_engine(path: Path, options: Options) -> None:
    """Raise where there is no pypmml, or no Java for it."""
    if find_spec("pypmml") is None:
        got, remedy = "an environment without pypmml", "pip install pypmml"
        raise refusal(f"check of {path}", "something that runs PMML", got, remedy)
    if which("java") is None:
        raise refusal(f"check of {path}", "Java, which runs PMML", "none", "install Java 8 or newer")


def scores(model: PortableModel, path: Path, rows: Rows, options: Options) -> Matrix:
    """Return the scores that PMML4S computes from the file, by pypmml and Java."""
    require_engine(path, options)
    from pypmml import Model  # pyright: ignore

    loaded: Any = Model.fromFile(str(path))  # pyright: ignore
    wanted = output_names(model)["score"]
    cells = [{column.name: cell_of(column, row[column.name]) for column in model.columns} for row in rows]
    # JSON, which is quick, has no infinite numbers
    plain = [all(not isinstance(cell, float) or math.isfinite(cell) for cell in row.values()) for row in cells]
    together = [row for row, single in zip(cells, plain, strict=True) if single]
    found: list[dict[str, float | None]] = json.loads(loaded.predict(json.dumps(together))) if together else []
    answers = iter(found)
    lines = [next(answers) if single else loaded.predict(row) for row, single in zip(cells, plain, strict=True)]
    numbers = [[line.get(name) for name in wanted] for line in lines]
    return np.array([[math.nan if value is None else value for value in line] for line in numbers], dtype=np.float64)


def output_names(model: PortableModel) -> dict[str, list[str]]:
    """Return the names of the outputs: the scores, the means where there are several, probabilities, the prediction."""
    several = len(model.intercept) > 1
    columns = {column.name for column in model.columns}

    def free(name: str) -> str:
        while name in columns:
            name += "_"
        return name

    found = {"score": [free(f"score({name})" if several else "score") for name in model.outputs]}
    if model.task in ("classes", "labels"):
        found["probability"] = [free(f"probability({label})") for label in model.classes]
    elif several:
        found["mean"] = [free(f"prediction({name})") for name in model.outputs]
    if model.task == "classes" or not several:
        found["prediction"] = [free("prediction")]
    return found


def _check(model: PortableModel) -> None:
    check_texts("pmml", model, NOT_XML, "names and levels of characters that XML 1.0 has")
    if any(not column.name for column in model.columns):
        raise refusal("export to pmml", "columns with names", "an empty name", "rename it and fit again")


def _names(model: PortableModel) -> Callable[[str], str]:
    """Return a function that gives names which no column and no output has."""
    taken = {column.name for column in model.columns}
    taken.update(name for names in output_names(model).values() for name in names)
    count = 0

    def named(purpose: str) -> str:
        nonlocal count
        count += 1
        name = f"{purpose}.{count}"
        while name in taken:
            name += "_"
        return name

    return named


def _document(model: PortableModel) -> Element:
    named = _names(model)
    document = Element("PMML", version="4.4", xmlns=NAMESPACE)
    header = sub(document, "Header", description="an additive model: its scores are sums of effects of columns")
    name, _, version = model.written_by.partition(" ")
    sub(header, "Application", name=name, version=version or "0")
    dictionary = sub(document, "DataDictionary", numberOfFields=len(model.columns) + 1)
    target = named("target")
    for column in model.columns:
        kind = "string" if column.takes_texts else "double"
        optype = "categorical" if column.kind == "category" else "continuous"
        made = sub(dictionary, "DataField", name=column.name, optype=optype, dataType=kind)
        if column.kind in UNITS:
            made.set("displayName", f"{column.name} ({UNITS[column.kind]})")
    of_target = sub(dictionary, "DataField", name=target, **_target_type(model))
    if model.task == "classes":
        for label in model.classes:
            sub(of_target, "Value", value=_written(label))
    function = "classification" if model.task == "classes" else "regression"
    regression = sub(document, "RegressionModel", functionName=function, modelName="sparsenam")
    schema = sub(regression, "MiningSchema")
    for column in model.columns:
        sub(schema, "MiningField", name=column.name, invalidValueTreatment="asIs")
    sub(schema, "MiningField", name=target, usageType="target")
    writer = EffectWriter(model, named)
    totals = _totals(model, writer)
    _write_output(model, sub(regression, "Output"), totals)
    transformations = sub(regression, "LocalTransformations")
    _write_tables(model, regression, writer, totals)
    transformations.extend(writer.derived)
    return document


def _totals(model: PortableModel, writer: EffectWriter) -> list[str]:
    """Return the derived fields of the scores."""
    pairs = [writer.pair(pair) for pair in model.pairs]
    totals: list[str] = []
    for output, intercept in enumerate(model.intercept):
        parts = [field(writer.derive("effect", writer.term(term, output))) for term in model.terms]
        parts += [field(writer.derive("effect", pair(output))) for pair in pairs]
        totals.append(writer.total([*parts, constant(intercept)]))
    return totals


def _write_output(model: PortableModel, output: Element, totals: list[str]) -> None:
    names = output_names(model)
    for name, total in zip(names["score"], totals, strict=True):
        sub(output, "OutputField", name=name, feature="transformedValue", **DOUBLE).append(field(total))
    for name in names.get("prediction", []):
        sub(output, "OutputField", name=name, feature="predictedValue", **_target_type(model))
    for name, total in zip(names.get("mean", []), totals, strict=False):
        sub(output, "OutputField", name=name, feature="transformedValue", **DOUBLE).append(field(total))
    for at, name in enumerate(names.get("probability", [])):
        if model.task == "classes":
            label = _written(model.classes[at])
            sub(output, "OutputField", name=name, feature="probability", value=label, **DOUBLE)
            continue
        grown = apply("exp", apply("-", constant(0.0), field(totals[at])))
        share = apply("/", constant(1.0), apply("+", constant(1.0), grown))
        sub(output, "OutputField", name=name, feature="transformedValue", **DOUBLE).append(share)


def _write_tables(model: PortableModel, regression: Element, writer: EffectWriter, totals: list[str]) -> None:
    """Add the regression on the scores, by the link; those of classes are first lowered by the highest of them."""
    if model.task != "classes":
        regression.set("normalizationMethod", "exp" if model.link == "log" else "none")
        predictor = totals[0]
        if model.link == "log":
            highest = apply("greaterThan", field(predictor), constant(HIGHEST_EXPONENT))
            limited = apply("if", highest, constant(HIGHEST_EXPONENT), field(predictor))
            predictor = writer.derive("limited", limited)
        sub(sub(regression, "RegressionTable", intercept=0), "NumericPredictor", name=predictor, coefficient=1)
        return
    regression.set("normalizationMethod", "softmax")
    fields = totals if len(totals) > 1 else [writer.derive("total", constant(0.0)), *totals]
    highest = writer.derive("highest", apply("max", *(field(name) for name in fields)))
    for name, label in zip(fields, model.classes, strict=True):
        lowered = writer.derive("lowered", apply("-", field(name), field(highest)))
        table = sub(regression, "RegressionTable", intercept=0, targetCategory=_written(label))
        sub(table, "NumericPredictor", name=lowered, coefficient=1)


def _target_type(model: PortableModel) -> dict[str, str]:
    if model.task != "classes":
        return DOUBLE
    kinds: dict[type, str] = {bool: "boolean", int: "integer", float: "double"}
    return {"optype": "categorical", "dataType": kinds.get(type(model.classes[0]), "string")}


def _written(label: Label) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)


def constant(value: float | str) -> Element:
    """Return a constant."""
    made = Element("Constant", dataType="string" if isinstance(value, str) else "double")
    made.text = value if isinstance(value, str) else repr(float(value))
    return made


def field(name: str) -> Element:
    """Return a reference to a field."""
    return Element("FieldRef", field=name)


def apply(function: str, *arguments: Element) -> Element:
    """Return a function of expressions."""
    made = Element("Apply", function=function)
    made.extend(arguments)
    return made


def added(parts: Sequence[Element]) -> Element:
    """Return a sum of whole numbers, in halves, so that many are not nested deeply."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return apply("+", added(parts[:middle]), added(parts[middle:]))


def chosen(name: str, knots: Sequence[float], leaf: Callable[[int], Element], low: int = 0) -> Element:
    """Return the leaf of the number of knots that are not above a field, found by halving."""
    if not knots:
        return leaf(low)
    middle = len(knots) // 2
    below = chosen(name, knots[:middle], leaf, low)
    above = chosen(name, knots[middle + 1 :], leaf, low + middle + 1)
    return apply("if", apply("lessThan", field(name), constant(knots[middle])), below, above)


class EffectWriter:
    """Derived fields of a model, made as they are needed; ``named`` gives names that no column has."""

    def __init__(self, model: PortableModel, named: Callable[[str], str]) -> None:
        self.model, self.named = model, named
        self.derived: list[Element] = []
        self._known: dict[tuple[str, int], str] = {}

    def derive(self, purpose: str, expression: Element, kind: str = "double") -> str:
        name, numeric = self.named(purpose), kind == "double"
        made = Element("DerivedField", name=name, optype="continuous" if numeric else "categorical", dataType=kind)
        made.append(expression)
        self.derived.append(made)
        return name

    def total(self, parts: Sequence[Element]) -> str:
        """Return the field of a sum from left to right, in stretches, so that many parts are not nested deeply."""
        total = parts[0]
        for count, part in enumerate(parts[1:], start=1):
            total = apply("+", total, part)
            if count % STRETCH == 0:
                total = field(self.derive("sum", total))
        return self.derive("total", total)

    def term(self, term: PortableTerm, output: int) -> Element:
        name = self.model.columns[term.column].name
        absent = constant(term.absent[output])
        if isinstance(term, PortableCurve):
            slopes, bases = term.slopes[output], term.bases[output]

            def piece(at: int) -> Element:
                across = apply("-", field(name), constant(term.anchors[at]))
                return apply("+", apply("*", constant(slopes[at]), across), constant(bases[at]))

            return apply("if", apply("isMissing", field(name)), absent, _finite(name, chosen(name, term.knots, piece)))
        values = [row[output] for row in term.values]
        if term.reads == "missing":
            return apply("if", self._is_missing(term.column), constant(values[1]), constant(values[0]))
        leaves = [absent, *(constant(value) for value in values)]
        return chosen(self._code(term.column), _halves(len(values)), leaves.__getitem__)

    def pair(self, pair: PortablePair) -> Callable[[int], Element]:
        """Return a function from an output to what a pair adds to it."""
        (nodes, i, u), (other_nodes, j, v) = (self._place(axis) for axis in pair.axes)
        values = np.array(pair.values)

        def between(share: str, one: Element, other: Element) -> Element:
            rest = apply("-", constant(1.0), field(share))
            return apply("+", apply("*", rest, one), apply("*", field(share), other))

        def cell(row: int, column: int, output: int) -> Element:
            sides = [values[at, :, output] for at in (row, min(row + 1, nodes))]
            pairs = [[constant(side[column]), constant(side[min(column + 1, other_nodes)])] for side in sides]
            return between(u, between(v, *pairs[0]), between(v, *pairs[1]))

        def of_output(output: int) -> Element:
            def across(row: int) -> Element:
                return chosen(j, _halves(other_nodes), lambda column: cell(row, column, output))

            return chosen(i, _halves(nodes), across)

        return of_output

    def _place(self, axis: PortableAxis) -> tuple[int, str, str]:
        """Return the node of what is not known, and the fields of the node below a value and of the next one's share.

        The node before the last stands for no value: from the last knot on the share of it is 1.
        """
        knots = np.array(axis.knots)
        last, name = len(knots), self.model.columns[axis.column].name
        if axis.reads == "number":
            absent = apply("isMissing", field(name))
            inside = apply("min", apply("max", field(name), constant(knots[0])), constant(knots[-1]))
            within = self.derive("inside", _finite(name, inside))

            def share(at: int) -> Element:
                across = apply("-", field(within), constant(knots[at]))
                return apply("/", across, constant(knots[at + 1] - knots[at]))

            between = list(knots[1:-1])
            node = apply("if", absent, constant(last), chosen(within, between, lambda at: constant(at)))
            part = apply("if", apply("isMissing", field(name)), constant(0.0), chosen(within, between, share))
            return last, self.derive("node", node), self.derive("share", part)
        codes = 2 if axis.reads == "missing" else self.model.columns[axis.column].n_codes
        nodes, shares = axis.place(np.arange(codes))
        if axis.reads == "missing":
            code = self.derive("code", apply("if", self._is_missing(axis.column), constant(2.0), constant(1.0)))
        else:
            code = self._code(axis.column)
        tables = [[float(last), *nodes.tolist()], [0.0, *shares.tolist()]]
        node, part = (
            self.derive(what, chosen(code, _halves(codes), lambda at, table=table: constant(table[at])))
            for what, table in zip(("node", "share"), tables, strict=True)
        )
        return last, node, part

    def _is_missing(self, column: int) -> Element:
        described = self.model.columns[column]
        missing = apply("isMissing", field(described.name))
        if not described.takes_texts:
            return missing
        key = ("trimmed", column)
        if key not in self._known:
            trimmed = self.derive("trimmed", apply("trimBlanks", field(described.name)), "string")
            blank = self.derive("blank", Element("NormDiscrete", field=trimmed, value="", mapMissingTo="0"))
            words = [constant(text) for text in sorted(MARKERS) if text]
            says = apply("if", apply("isIn", field(trimmed), *words), constant(1.0), field(blank))
            self._known[key] = self.derive("missing", apply("if", missing, constant(1.0), says))
        return apply("greaterThan", field(self._known[key]), constant(0.5))

    def _code(self, column: int) -> str:
        """Return the field of a level's code plus 1, 0 where it is not known."""
        if ("code", column) not in self._known:
            self._known["code", column] = self._write_code(column)
        return self._known["code", column]

    def _write_code(self, column: int) -> str:
        described = self.model.columns[column]
        numbers = {number: code + 1.0 for number, code in described.by_number.items()}
        if not described.takes_texts:
            found = _of_numbers(described.name, numbers)
            return self.derive("code", apply("if", apply("isMissing", field(described.name)), constant(0.0), found))
        parts: list[Element] = []
        trimmed = self.derive("trimmed", apply("trimBlanks", field(described.name)), "string")
        for level in described.levels:
            equal = Element("NormDiscrete", field=trimmed, value=level.text, mapMissingTo="0")
            parts.append(apply("*", constant(level.code + 1.0), field(self.derive("level", equal))))
        texts = self.derive("code", added(parts))
        if not numbers:
            return texts
        numeric = apply("matches", field(described.name), constant(NUMBERS))
        digits = apply("if", numeric, apply("trimBlanks", field(described.name)))
        number = self.derive("number", field(self.derive("digits", digits, "string")))
        found = apply("if", apply("isMissing", field(number)), field(texts), _of_numbers(number, numbers))
        return self.derive("code", found)


def _halves(count: int) -> list[float]:
    """Return knots that part the whole numbers from 0 to a count."""
    return [at + 0.5 for at in range(count)]


def _finite(name: str, expression: Element) -> Element:
    """Return the expression where a number is finite, and what is missing elsewhere."""
    above = apply("greaterOrEqual", field(name), constant(-LARGEST_FLOAT))
    below = apply("lessOrEqual", field(name), constant(LARGEST_FLOAT))
    return apply("if", apply("and", above, below), expression)


def _of_numbers(name: str, codes: dict[float, float]) -> Element:
    """Return the code plus 1 of a number, 0 where it is none of the levels."""
    levels = sorted(codes)

    def equal(at: int) -> Element:
        if at == 0:
            return constant(0.0)
        level = levels[at - 1]
        return apply("if", apply("equal", field(name), constant(level)), constant(codes[level]), constant(0.0))

    return chosen(name, levels, equal)


def sub(parent: Element, tag: str, **attributes: object) -> Element:
    """Return a new element inside another."""
    return SubElement(parent, tag, {key: str(value) for key, value in attributes.items()})
