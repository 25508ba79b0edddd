"""The effects of a model as ONNX operators: all curves at once, all tables at once, and pairs.

A balanced tree (ai.onnx.ml TreeEnsembleRegressor, whose thresholds are compared in double precision) finds the piece of
every number; its leaves are whole numbers, exact in the single precision of its output. Everything after is look-up and
arithmetic in the precision of the graph, in the order that `docs/portable.md` gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from sparsenam.export.portable import PortableAxis, PortableCurve, PortableModel, PortablePair, PortableTable
from sparsenam.tables.text import MARKERS

Real: TypeAlias = type[np.float64] | type[np.float32]  # of the numbers in a graph

LEARNING = "ai.onnx.ml"
# What Python's str.strip takes off; RE2's \s has fewer.
BLANKS = r"[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]*"
# Longer ones are no numbers here: ONNX Runtime's Cast fails on a text beyond the range of doubles.
NUMBERS = r"[+-]?(?:(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{0,99})?|\.[0-9]{1,99})(?:[eE][+-]?[0-9]{1,2})?"


class GraphBuilder:
    """Nodes and constants of a graph in the making; values are known by their names, which start with a prefix."""

    def __init__(self, prefix: str, precision: str) -> None:
        self.prefix = prefix
        self.real: Real = np.float64 if precision == "double" else np.float32
        self.real_type: int = TensorProto.DOUBLE if precision == "double" else TensorProto.FLOAT
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"{self.prefix}{self._count}"

    def constant(self, values: ArrayLike, dtype: DTypeLike | None = None) -> str:
        """Return the name of a constant; numbers are of the graph's precision unless a type is given."""
        array = np.asarray(values, dtype=self.real if dtype is None else dtype)
        self.constants.append(numpy_helper.from_array(array, self.name()))
        return self.constants[-1].name

    def op(self, kind: str, *inputs: str, domain: str = "", output: str | None = None, **attributes: Any) -> str:
        """Return the name of what an operator gives."""
        output = output or self.name()
        self.nodes.append(helper.make_node(kind, list(inputs), [output], domain=domain, **attributes))
        return output

    def joined(self, parts: Sequence[str]) -> str:
        """Return parts side by side: (rows, parts, …)."""
        return self.op("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]

    def pieces(self, inputs: Sequence[str], knots: Sequence[Sequence[float]]) -> str:
        """Return how many knots are not above each input (rows, 1), int32 (rows, inputs).

        The count of an input starts at the number of pieces of all before it. ONNX Runtime evaluates one tree for each
        input more quickly than one operator with a target for each.
        """
        found: list[str] = []
        first = 0
        for x, each in zip(inputs, knots, strict=True):
            found.append(self._tree(x, np.asarray(each, dtype=self.real), first))
            first += len(each) + 1
        return self.op("Cast", self.joined(found), to=TensorProto.INT32)

    def _tree(self, x: str, knots: NDArray[np.floating], first: int) -> str:
        tree = _Tree()
        tree.grow(knots, first, 0, len(knots))
        count, leaves = len(tree.modes), len(tree.leaves)
        numbers: dict[str, Any] = {"nodes_values": tree.values, "target_weights": tree.weights}
        if self.real is np.float64:  # the attributes in single precision cannot hold doubles
            numbers = {f"{name}_as_tensor": numpy_helper.from_array(np.array(each)) for name, each in numbers.items()}
        return self.op(
            "TreeEnsembleRegressor",
            x,
            domain=LEARNING,
            n_targets=1,
            nodes_treeids=[0] * count,
            nodes_nodeids=list(range(count)),
            nodes_featureids=[0] * count,
            nodes_modes=tree.modes,
            nodes_truenodeids=tree.true,
            nodes_falsenodeids=tree.false,
            target_treeids=[0] * leaves,
            target_nodeids=tree.leaves,
            target_ids=[0] * leaves,
            **numbers,
        )


@dataclass(slots=True)
class _Tree:
    """The nodes of a balanced tree, list by list as ONNX has them, and the nodes and weights of its leaves."""

    modes: list[str] = field(default_factory=list[str])
    values: list[float] = field(default_factory=list[float])
    true: list[int] = field(default_factory=list[int])
    false: list[int] = field(default_factory=list[int])
    leaves: list[int] = field(default_factory=list[int])
    weights: list[float] = field(default_factory=list[float])

    def grow(self, knots: NDArray[np.floating], first: int, low: int, high: int) -> int:
        """Add the nodes that part the pieces low to high; return the number of the uppermost."""
        at, middle = len(self.modes), (low + high) // 2
        self.modes.append("LEAF" if low == high else "BRANCH_LT")
        self.values.append(0.0 if low == high else float(knots[middle]))
        self.true.append(0)
        self.false.append(0)
        if low == high:
            self.leaves.append(at)
            self.weights.append(float(first + low))
        else:
            self.true[at] = self.grow(knots, first, low, middle)
            self.false[at] = self.grow(knots, first, middle + 1, high)
        return at


class InputCells:
    """What terms read of the inputs: numbers, codes of levels and whether a cell is missing, each (rows, 1)."""

    def __init__(self, graph: GraphBuilder, model: PortableModel, inputs: Sequence[str], texts: Sequence[bool]) -> None:
        self.graph, self.model, self.inputs, self.texts = graph, model, inputs, texts
        self._known: dict[tuple[str, int], str] = {}

    def missing(self, column: int) -> str:
        """Return 1 where the cell is missing and 0 elsewhere, int64."""
        return self._once("missing", column, self._missing)

    def code(self, column: int) -> str:
        """Return the code of the level, one more than the highest where it is not known, int64."""
        return self._once("code", column, self._code)

    def _once(self, what: str, column: int, make: Callable[[int], str]) -> str:
        if (what, column) not in self._known:
            self._known[what, column] = make(column)
        return self._known[what, column]

    def _missing(self, column: int) -> str:
        graph, cell = self.graph, self.inputs[column]
        if self.texts[column]:
            words = "|".join(re.escape(text) for text in sorted(MARKERS))
            absent = graph.op("RegexFullMatch", cell, pattern=f"{BLANKS}(?:{words}){BLANKS}")
        else:
            absent = graph.op("IsNaN", cell)
        return graph.op("Cast", absent, to=TensorProto.INT64)

    def _code(self, column: int) -> str:
        graph, cell, levels = self.graph, self.inputs[column], self.model.columns[column].levels
        unknown, numbers = self.model.columns[column].n_codes, self.model.columns[column].by_number
        if not self.texts[column]:
            return self._code_of_number(cell, numbers, unknown)
        found = graph.op(
            "LabelEncoder",
            cell,
            domain=LEARNING,
            keys_strings=[level.text for level in levels],
            values_int64s=[level.code for level in levels],
            default_int64=unknown,
        )
        if not numbers:
            return found
        numeric = graph.op("RegexFullMatch", cell, pattern=f"{BLANKS}{NUMBERS}{BLANKS}")
        plain = graph.op("Where", numeric, cell, graph.constant(["nan"], object))
        written = graph.op("Cast", plain, to=graph.real_type)
        return graph.op("Where", numeric, self._code_of_number(written, numbers, unknown), found)

    def _code_of_number(self, x: str, codes: dict[float, int], unknown: int) -> str:
        """Return the codes of numbers that are levels: between a level and the next number there is only the level."""
        levels = np.array(sorted(codes), dtype=self.graph.real)
        knots = np.column_stack([levels, np.nextafter(levels, self.graph.real(np.inf))]).ravel()
        table = [unknown, *(code for level in sorted(codes) for code in (codes[level], unknown))]
        piece = self.graph.pieces([x], [knots.tolist()])
        return self.graph.op("Gather", self.graph.constant(table, np.int64), piece)

    def zeros(self, cell: str, columns: int) -> str:
        """Return zeros (rows, columns, outputs) for as many rows as an input has."""
        graph, outputs = self.graph, len(self.model.intercept)
        rows = graph.op("Shape", cell, start=0, end=1)
        shape = graph.op("Concat", rows, graph.constant([columns, outputs], np.int64), axis=0)
        return graph.op("ConstantOfShape", shape, value=numpy_helper.from_array(np.zeros(1, graph.real)))


def contributions(graph: GraphBuilder, model: PortableModel, cells: InputCells) -> str:
    """Return what each column, then each pair, adds to each score: (rows, columns + pairs, outputs)."""
    curves = [(place, term) for place, term in enumerate(model.terms) if isinstance(term, PortableCurve)]
    tables = [(place, term) for place, term in enumerate(model.terms) if isinstance(term, PortableTable)]
    blocks: list[str] = []
    if curves:
        blocks.append(_curves(graph, [term for _, term in curves], cells))
    if tables:
        blocks.append(_tables(graph, [term for _, term in tables], cells))
    order = {place: at for at, (place, _) in enumerate([*curves, *tables])}
    columns = [[order[place] for place in model.of_column(column)] for column in range(len(model.columns))]
    if columns != [[at] for at in range(len(order))]:  # some have several terms, or none, or stand in another order
        blocks = [_by_column(graph, [*blocks, cells.zeros(cells.inputs[0], 1)], columns, len(order))]
    blocks += [_pair(graph, pair, cells) for pair in model.pairs]
    if not blocks:
        return cells.zeros(cells.inputs[0], 0)
    return graph.joined(blocks)


def _by_column(graph: GraphBuilder, blocks: list[str], columns: list[list[int]], nothing: int) -> str:
    """Return the sums of the terms of each column, in their order; at ``nothing`` the blocks have zeros."""
    terms = graph.op("Concat", *blocks, axis=1)
    total = ""
    for at in range(max(1, *map(len, columns))):
        chosen = graph.constant([each[at] if at < len(each) else nothing for each in columns], np.int64)
        found = graph.op("Gather", terms, chosen, axis=1)
        total = graph.op("Add", total, found) if total else found
    return total


def _curves(graph: GraphBuilder, curves: Sequence[PortableCurve], cells: InputCells) -> str:
    """Return what curves add, (rows, curves, outputs): NaN at infinite numbers."""
    inputs = [cells.inputs[curve.column] for curve in curves]
    x = graph.joined(inputs)
    # a piece on either side holds the infinite numbers alone
    least = float(np.finfo(graph.real).min)
    piece = graph.pieces(inputs, [(least, *curve.knots, np.inf) for curve in curves])
    anchors = np.concatenate([np.pad(curve.anchors, 1) for curve in curves])
    slopes, bases = (
        np.concatenate([np.pad(np.array(each).T, ((1, 1), (0, 0)), constant_values=np.nan) for each in tables])
        for tables in ([curve.slopes for curve in curves], [curve.bases for curve in curves])
    )
    last = graph.constant([2], np.int64)
    across = graph.op("Unsqueeze", graph.op("Sub", x, graph.op("Gather", graph.constant(anchors), piece)), last)
    rise = graph.op("Mul", across, graph.op("Gather", graph.constant(slopes), piece))
    value = graph.op("Add", rise, graph.op("Gather", graph.constant(bases), piece))
    absent = graph.constant(np.array([curve.absent for curve in curves])[None])
    return graph.op("Where", graph.op("Unsqueeze", graph.op("IsNaN", x), last), absent, value)


def _tables(graph: GraphBuilder, tables: Sequence[PortableTable], cells: InputCells) -> str:
    """Return what tables add, (rows, tables, outputs)."""
    counts = [cells.model.columns[table.column].n_codes for table in tables]
    rows = [
        np.array(table.values if table.reads == "missing" else (*table.values[:count], table.absent))
        for table, count in zip(tables, counts, strict=True)
    ]
    codes = [cells.missing(table.column) if table.reads == "missing" else cells.code(table.column) for table in tables]
    code = graph.joined(codes)
    starts = np.cumsum([0, *(len(each) for each in rows[:-1])])
    place = graph.op("Add", code, graph.constant(starts[None], np.int64))
    return graph.op("Gather", graph.constant(np.concatenate(rows)), place)


def _pair(graph: GraphBuilder, pair: PortablePair, cells: InputCells) -> str:
    """Return what a pair adds, (rows, 1, outputs)."""
    values = np.array(pair.values)
    table = graph.constant(values.reshape(-1, values.shape[2]))
    width = graph.constant([[values.shape[1]]], np.int64)
    (i, k, u), (j, m, v) = (_place(graph, axis, cells) for axis in pair.axes)
    low_start, high_start = graph.op("Mul", i, width), graph.op("Mul", k, width)

    def at(start: str, node: str) -> str:
        return graph.op("Gather", table, graph.op("Add", start, node))

    def between(share: str, one: str, other: str) -> str:
        rest = graph.op("Sub", graph.constant(1.0), share)
        return graph.op("Add", graph.op("Mul", rest, one), graph.op("Mul", share, other))

    last = graph.constant([2], np.int64)
    u, v = graph.op("Unsqueeze", u, last), graph.op("Unsqueeze", v, last)
    return between(u, between(v, at(low_start, j), at(low_start, m)), between(v, at(high_start, j), at(high_start, m)))


def _place(graph: GraphBuilder, axis: PortableAxis, cells: InputCells) -> tuple[str, str, str]:
    """Return the nodes about a value of an axis, int64, and the share of the second, each (rows, 1)."""
    knots = np.array(axis.knots)
    beyond = len(knots)  # the node of what is not known
    if axis.reads != "number":
        missing = axis.reads == "missing"
        node, share = axis.place(np.arange(2 if missing else cells.model.columns[axis.column].n_codes))
        code = cells.missing(axis.column) if missing else cells.code(axis.column)
        lower, upper = (
            graph.op("Gather", graph.constant([*nodes, beyond], np.int64), code) for nodes in (node, node + 1)
        )
        return lower, upper, graph.op("Gather", graph.constant([*share, 0.0]), code)
    x = cells.inputs[axis.column]
    absent, unknown = graph.op("IsNaN", x), graph.constant([[beyond]], np.int64)
    node = graph.op("Cast", graph.pieces([x], [knots[1:-1].tolist()]), to=TensorProto.INT64)
    inside = graph.op("Min", graph.op("Max", x, graph.constant(knots[0])), graph.constant(knots[-1]))
    across = graph.op("Sub", inside, graph.op("Gather", graph.constant(knots[:-1]), node))
    share = graph.op("Div", across, graph.op("Gather", graph.constant(np.diff(knots)), node))
    share = graph.op("Add", share, graph.op("Sub", x, x))  # 0, and NaN at infinite numbers
    upper = graph.op("Add", node, graph.constant([[1]], np.int64))
    lower, upper = (graph.op("Where", absent, unknown, nodes) for nodes in (node, upper))
    return lower, upper, graph.op("Where", absent, graph.constant(0.0), share)
