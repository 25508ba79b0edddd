"""The effects of a model as PMML expressions: curves and tables are look-ups by halving, pairs are arithmetic.

Every number is written so that it is read back to the bit, and the arithmetic is that of `docs/portable.md`, step by
step. Texts are compared by the attribute of a NormDiscrete, which keeps blanks and line ends, as the text of an
element may not. An expression is missing, which is PMML's NaN, where a number that it reads is infinite.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from sparsenam.export.portable import PortableAxis, PortableCurve, PortableModel, PortablePair, PortableTerm
from sparsenam.export.targets.typed_cells import takes_texts
from sparsenam.tables.text import MARKERS

LARGEST_FLOAT = sys.float_info.max
STRETCH = 50  # sums in one expression
# Numbers as texts; without brackets, at which some readers of XML part a text.
NUMBERS = r"^\s*(?:\+|-)?(?:(?:0|(?!0)\d+)(?:\.\d*)?|\.\d+)(?:(?:e|E)(?:\+|-)?\d+)?\s*$"


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
        """Return the name of a new derived field."""
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
        """Return what a term adds to an output."""
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
        codes = 2 if axis.reads == "missing" else self._codes(axis.column)
        inside = np.clip(np.arange(float(codes)), knots[0], knots[-1])
        nodes = np.minimum(np.searchsorted(knots, inside, side="right") - 1, last - 2)
        shares = (inside - knots[nodes]) / (knots[nodes + 1] - knots[nodes])
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

    def _codes(self, column: int) -> int:
        return 1 + max(level.code for level in self.model.columns[column].levels)

    def _is_missing(self, column: int) -> Element:
        described = self.model.columns[column]
        missing = apply("isMissing", field(described.name))
        if not takes_texts(described):
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
        numbers = {level.number: level.code + 1.0 for level in described.levels if level.number is not None}
        if not takes_texts(described):
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


def sub(parent: Element, tag: str, **attributes: Any) -> Element:
    """Return a new element inside another."""
    return SubElement(parent, tag, {key: str(value) for key, value in attributes.items()})
