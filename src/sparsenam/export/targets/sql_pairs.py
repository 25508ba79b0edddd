"""Pairs in SQL: where a cell lies among the nodes of a side, and what two sides add together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sparsenam.export.portable import PortableAxis, PortablePair
from sparsenam.export.targets.sql_dialects import LARGEST, Dialect, Names, tree


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
        f"WHEN NOT {x} BETWEEN {number(-LARGEST)} AND {number(LARGEST)} THEN NULL",
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
