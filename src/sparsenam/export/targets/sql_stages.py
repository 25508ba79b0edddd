"""A portable model as queries on queries: cells, levels, places among knots, effects, scores, means and classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sparsenam.export.portable import (
    PortableAxis,
    PortableColumn,
    PortableCurve,
    PortableModel,
    PortablePair,
    PortableTable,
    PortableTerm,
    Reads,
)
from sparsenam.export.targets.sql_dialects import LARGEST_FINITE, Dialect, Names, tree
from sparsenam.tables.text import has_leading_zero, number_in

LARGEST_SCORE = 1e307  # engines that fail beyond the range of numbers never come near it
KNOTS_IN_ONE_CASE = 64  # knots that one CASE finds as fast as a search does; 1000 take DuckDB 0.07 s a column to plan
SUMMED = 400  # terms in one sum: DuckDB and SQLite take expressions 1000 deep

Columns = dict[str, str]  # alias, quoted, and expression


@dataclass(slots=True)
class Stages:
    """The queries of a model: each reads the one before it, the first the table.

    ``columns`` are those of the last query so far; keys are handed on from each to the next.
    """

    model: PortableModel
    dialect: Dialect
    names: Names
    keys: tuple[str, ...]
    source: str
    queries: list[Columns] = field(default_factory=list[Columns])
    read: dict[tuple[int, Reads], str] = field(default_factory=dict[tuple[int, Reads], str])
    terms: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])

    def add(self, columns: Columns, kept: Iterable[str] = ()) -> None:
        """Add a query of the keys, of columns kept from the one before, and of new ones."""
        keys = {key: f"{self.source}.{key}" if not self.queries else key for key in self.keys}
        self.queries.append({**keys, **{name: name for name in kept}, **columns})

    def add_cells(self) -> None:
        """Add what the model reads of each column: its number, the code of its level, whether it is missing."""
        model, dialect = self.model, self.dialect
        parts = [*model.terms, *(axis for pair in model.pairs for axis in pair.axes)]
        wanted: list[tuple[int, Reads]] = sorted({(part.column, _reads(part)) for part in parts})
        cells = {index: self.names.new("cell", str(index + 1)) for index in sorted({index for index, _ in wanted})}
        columns = {name: _cell(dialect, model.columns[index], self.source) for index, name in cells.items()}
        self.add(columns or {self.names.new("cell"): "1"})
        codes: Columns = {}
        for index, reads in wanted:
            column = model.columns[index]
            self.read[index, reads] = cells[index]
            if reads == "missing":
                self.read[index, reads] = name = self.names.new("missing", str(index + 1))
                codes[name] = f"CASE WHEN {cells[index]} IS NULL THEN 1 ELSE 0 END"
            elif column.kind == "category":
                self.read[index, reads] = name = self.names.new("level", str(index + 1))
                codes[name] = _code(dialect, column, cells[index])
        if codes:
            self.add(codes, [name for name in dict.fromkeys(self.read.values()) if name not in codes])

    def add_effects(self) -> None:
        """Add what every term and pair adds to each output."""
        model, dialect, places = self.model, self.dialect, dict[str, str]()
        spots, searched = list[str](), dict[str, PortableCurve]()
        for term in model.terms:
            curved = isinstance(term, PortableCurve) and dialect.arrays and len(term.knots) > 0
            spots.append(self.names.new("piece") if curved else "")
            if not curved or not isinstance(term, PortableCurve):
                continue
            if dialect.searches and len(term.knots) > KNOTS_IN_ONE_CASE:
                searched[spots[-1]] = term
            else:
                places[spots[-1]] = dialect.piece(self.read[term.column, "number"], term.knots)
        self._add_searches(searched)
        sides = [
            [side_of(dialect, axis, self.read[axis.column, axis.reads], self.names) for axis in pair.axes]
            for pair in model.pairs
        ]
        for side in (side for both in sides for side in both):
            places |= side.places
        if places:
            self.add(places, [*dict.fromkeys(self.read.values()), *searched])
        effects: Columns = {}
        for index, (term, spot) in enumerate(zip(model.terms, spots, strict=True)):
            aliases = self._aliases(index)
            for output, alias in enumerate(aliases):
                effects[alias] = self._effect(term, output, spot)
            self.terms.append(aliases)
        for pair, (one, other) in zip(model.pairs, sides, strict=True):
            joined = " x ".join(model.names_of(pair))
            aliases = tuple(self.names.new("effect", joined, *name) for name in self.suffixes)
            for output, alias in enumerate(aliases):
                effects[alias] = pair_effect(dialect, pair, output, one, other)
            self.terms.append(aliases)
        self.add(effects or {self.names.new("effect"): "0"})

    def _add_searches(self, curves: Mapping[str, PortableCurve]) -> None:
        """Add queries that halve where a number lies among many knots; each knot is written once."""
        step = 1 << max((len(curve.knots).bit_length() - 1 for curve in curves.values()), default=0)
        known: list[str] = []
        while curves and step:
            found: Columns = {}
            for name, curve in curves.items():
                if step <= len(curve.knots):
                    x, before = self.read[curve.column, "number"], name if name in known else "0"
                    probed = self.dialect.array(curve.knots[step - 1 :: 2 * step])
                    higher = f"CASE WHEN {x} >= ({probed})[{before} // {2 * step} + 1] THEN {step} ELSE 0 END"
                    found[name] = f"{before} + {higher}"
            self.add(found, [*dict.fromkeys(self.read.values()), *(name for name in known if name not in found)])
            known, step = list(dict.fromkeys([*known, *found])), step // 2

    @property
    def suffixes(self) -> list[tuple[str, ...]]:
        """What is added to names of what there is for each output: nothing where there is one."""
        return [()] if len(self.model.outputs) == 1 else [(name,) for name in self.model.outputs]

    def _aliases(self, index: int) -> tuple[str, ...]:
        column = self.model.terms[index].column
        alone = len(self.model.of_column(column)) == 1
        first = ("effect", self.model.columns[column].name) if alone else ("term", str(index + 1))
        return tuple(self.names.new(*first, *suffix) for suffix in self.suffixes)

    def _effect(self, term: PortableTerm, output: int, spot: str) -> str:
        dialect, absent = self.dialect, self.dialect.number(term.absent[output])
        if isinstance(term, PortableTable):
            code = self.read[term.column, term.reads]
            found = dialect.item([values[output] for values in term.values], code) if term.values else absent
            return f"CASE WHEN {code} IS NULL THEN {absent} ELSE {found} END"
        x, most = self.read[term.column, "number"], self._largest(term)
        cases = (
            f"WHEN {x} IS NULL THEN {absent} WHEN NOT {x} BETWEEN {dialect.number(-most)} AND {dialect.number(most)}"
        )
        slopes = [0.0 if dialect.stiff and abs(slope) < 1e-250 else slope for slope in term.slopes[output]]
        anchors, bases = term.anchors, term.bases[output]
        if not dialect.arrays or not term.knots:
            leaves = [_line(dialect, x, *piece) for piece in zip(slopes, anchors, bases, strict=True)]
            return f"CASE {cases} THEN NULL ELSE {tree(x, [dialect.number(knot) for knot in term.knots], leaves)} END"
        slope, anchor, base = (dialect.item(values, spot) for values in (slopes, anchors, bases))
        near = ""
        steps = [abs(slope) for slope in slopes if slope]
        if dialect.stiff and steps:  # a product that is too small for a number would be an error
            near = f" WHEN ABS({x} - {anchor}) < {dialect.number(1e-300 / min(steps))} THEN {base}"
        return f"CASE {cases} THEN NULL{near} ELSE {slope} * ({x} - {anchor}) + {base} END"

    def _largest(self, curve: PortableCurve) -> float:
        """Return the largest number for which no sum of effects can leave the range of numbers."""
        steepest = max(max(abs(slopes[0]), abs(slopes[-1])) for slopes in curve.slopes)
        room = LARGEST_SCORE / (len(self.model.terms) + len(self.model.pairs) + 1)
        return LARGEST_FINITE if steepest * LARGEST_FINITE <= room else min(LARGEST_FINITE, room / steepest)

    def add_scores(self) -> tuple[list[str], list[str]]:
        """Add the scores, and the effects of columns with several terms; return the names of effects and of scores."""
        effects, model, dialect = list[str](), self.model, self.dialect
        scores = [self.names.new("score", *suffix) for suffix in self.suffixes]
        totals: Columns = {}
        for column in sorted({term.column for term in model.terms}):
            places = model.of_column(column)
            for output, suffix in enumerate(self.suffixes):
                parts = [self.terms[place][output] for place in places]
                alias = parts[0] if len(parts) == 1 else self.names.new("effect", model.columns[column].name, *suffix)
                totals |= {} if len(parts) == 1 else {alias: " + ".join(parts)}
                effects.append(alias)
        effects += [alias for aliases in self.terms[len(model.terms) :] for alias in aliases]
        kept = [alias for aliases in self.terms for alias in aliases]
        carried: list[str] = []
        for first in range(0, len(self.terms), SUMMED):  # sums in the order of the terms, whatever their number
            last = first + SUMMED >= len(self.terms)
            sums: Columns = {}
            for output, score in enumerate(scores):
                parts = [carried[output]] if carried else []
                parts += [aliases[output] for aliases in self.terms[first : first + SUMMED]]
                parts += [dialect.number(model.intercept[output])] if last else []
                sums[score if last else self.names.new("sum")] = " + ".join(parts)
            self.add(sums | (totals if last else {}), [alias for alias in kept if not last or alias in effects])
            carried = list(sums)
        if not self.terms:
            self.add({score: dialect.number(start) for score, start in zip(scores, model.intercept, strict=True)})
        return effects, scores


def _reads(part: PortableTerm | PortableAxis) -> Reads:
    return "number" if isinstance(part, PortableCurve) else part.reads


def _line(dialect: Dialect, x: str, slope: float, anchor: float, base: float) -> str:
    if slope == 0.0:
        return dialect.number(base)
    return f"{dialect.number(slope)} * ({x} - {dialect.number(anchor)}) + {dialect.number(base)}"


def _cell(dialect: Dialect, column: PortableColumn, source: str) -> str:
    """Return what is read of the table: a number, days, seconds, or a text; NULL where it is missing."""
    name = f"{source}.{dialect.identifier(column.name)}"
    if column.kind == "number":
        return dialect.number_cell(name)
    if column.kind == "date":
        return dialect.date_cell(name)
    if column.kind == "duration":
        return dialect.duration_cell(name)
    return dialect.text_cell(name, _truth(column) if not dialect.truth_as_numbers else None)


def _truth(column: PortableColumn) -> tuple[str, str] | None:
    """Return the texts that stand for truth values, those of their levels; None where none would be found anyway."""
    texts = {level.text for level in column.levels}
    if column.false is None and column.true is None and not {"false", "true"} & texts:
        return None
    unknown = "unknown"
    while unknown in texts:
        unknown += "?"
    found = {level.code: level.text for level in reversed(column.levels)}
    false, true = (unknown if code is None else found[code] for code in (column.false, column.true))
    return false, true


def _code(dialect: Dialect, column: PortableColumn, cell: str) -> str:
    """Return the code of a category's cell, NULL where it is missing or no known level."""
    numbers = column.by_number
    if dialect.truth_as_numbers:
        given = {0.0: column.false, 1.0: column.true}
        numbers = {number: code for number, code in given.items() if code is not None} | numbers
    texts = {
        level.text: level.code
        for level in reversed(column.levels)
        if level.number is None and (number_in(level.text) is None or has_leading_zero(level.text))
    }
    by_text = _choice(dialect.trimmed(cell), [(dialect.text(text), code) for text, code in reversed(texts.items())])
    if not numbers:
        return by_text
    written, number = dialect.number_in(cell)
    by_number = _choice(number, [(dialect.number(value), code) for value, code in sorted(numbers.items())])
    return f"CASE WHEN {written} THEN {by_number} ELSE {by_text} END"


def _choice(given: str, codes: Sequence[tuple[str, int]]) -> str:
    if not codes:
        return "CAST(NULL AS INTEGER)"
    return f"CASE {given} {' '.join(f'WHEN {value} THEN {code}' for value, code in codes)} END"


@dataclass(frozen=True, slots=True)
class Side:
    """An axis of a pair: the names of its node and of the next one's share, if it has shares; how they are found."""

    node: str
    share: str | None
    nodes: int
    places: dict[str, str]


def side_of(dialect: Dialect, axis: PortableAxis, x: str, names: Names) -> Side:
    """Return the side of an axis that reads x; the last node stands for what is not known."""
    knots, number, node = list(axis.knots), dialect.number, names.new("node")
    known = f"CASE WHEN {x} IS NULL THEN {len(knots)} ELSE"
    if axis.reads != "number":
        return Side(node, None, len(knots) + 1, {node: f"{known} {x} END"})
    inner = dialect.piece(x, knots[1:-1]) if len(knots) > 2 else "0"
    widths = [right - left for left, right in pairwise(knots)]
    shares = [f"({x} - {number(left)}) / {number(width)}" for left, width in zip(knots[:-1], widths, strict=True)]
    if dialect.stiff:  # a share that is too small for a number would be an error
        least = number(1e-200 * min(widths))
        shares = [
            f"CASE WHEN {x} - {number(left)} < {least} THEN {number(0.0)} ELSE {share} END"
            for left, share in zip(knots[:-1], shares, strict=True)
        ]
    cases = [
        f"WHEN {x} IS NULL THEN {number(0.0)}",
        f"WHEN NOT {x} BETWEEN {number(-LARGEST_FINITE)} AND {number(LARGEST_FINITE)} THEN NULL",
        f"WHEN {x} <= {number(knots[0])} THEN {number(0.0)}",
        f"WHEN {x} >= {number(knots[-1])} THEN {number(1.0)}",
    ]
    share, inside = names.new("share"), tree(x, [number(knot) for knot in knots[1:-1]], shares)
    places = {node: f"{known} {inner} END", share: f"CASE {' '.join(cases)} ELSE {inside} END"}
    return Side(node, share, len(knots) + 1, places)


def pair_effect(dialect: Dialect, pair: PortablePair, output: int, one: Side, other: Side) -> str:
    """Return what a pair adds: between nodes where a side has shares, at a node where it has none."""
    grid = [[node[output] for node in row] for row in pair.values]
    if dialect.stiff:  # shares of smaller values would be errors
        grid = [[0.0 if abs(value) < 1e-100 else value for value in row] for row in grid]
    width = other.nodes + 1  # the next of the last node has a share of 0
    padded = [[*row, 0.0] for row in [*grid, [0.0] * other.nodes]]
    if dialect.arrays:
        flat = [value for row in padded for value in row]
        at = [
            [dialect.item(flat, f"({one.node} + {a}) * {width} + {other.node} + {b}") for b in (0, 1)] for a in (0, 1)
        ]
        return _between(dialect, at, one.share, other.share)
    rows: list[str] = []
    for a in range(one.nodes):
        leaves: list[str] = []
        for b in range(other.nodes):
            at = [[dialect.number(padded[a + i][b + j]) for j in (0, 1)] for i in (0, 1)]
            last, final = a == one.nodes - 1, b == other.nodes - 1
            leaves.append(_between(dialect, at, None if last else one.share, None if final else other.share))
        rows.append(tree(other.node, [str(b) for b in range(1, other.nodes)], leaves))
    return tree(one.node, [str(a) for a in range(1, one.nodes)], rows)


def _between(dialect: Dialect, at: Sequence[Sequence[str]], u: str | None, v: str | None) -> str:
    one = dialect.number(1.0)
    low, high = (side[0] if v is None else f"({one} - {v}) * {side[0]} + {v} * {side[1]}" for side in at)
    return low if u is None else f"({one} - {u}) * ({low}) + {u} * ({high})"
