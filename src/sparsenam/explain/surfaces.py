"""What is drawn of a pair: a grid of cells, each with the mean of the surface and the share of the rows in it.

A surface has more nodes than a page has room for, at places that are dense where the rows are. A drawing has few
cells of one width. Both are linear in the nodes: what a cell shows is the mean of the surface over it, and a node's
rows are where its hat is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.explain.drawing import Axis, Tick, axis_over
from sparsenam.explain.explanation import Explanation, Pair, PairAxis
from sparsenam.explain.shapes import MOST_BARS, axis_of
from sparsenam.fit.summary import FEW_DISTINCT_VALUES
from sparsenam.text import MISSING, share_text, value_text

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

INSIDE = 4  # points of a cell along each axis, over which the surface is averaged
BAND = 0.07  # of the range of numbers: the width of the cell of missing values, which lies apart
ABSENT_CELL_GAP = 0.02  # of the range, between the two
FILLED = 0.25  # of the rows that a cell would have if all had as many: with so many its colour is full
SEEN = 0.1  # how full a cell is at least that sets the scale of colours
FEWEST_BEYOND = 0.005  # of the rows: fewer out of view are not mentioned


@dataclass(frozen=True, slots=True, eq=False)
class CellAxis:
    """The cells along one axis: ``spans`` (cells, 2) from start to stop in its units, and the text of each.

    ``reads`` (cells, nodes) gives the mean of a function over each cell from its values at the nodes, ``holds``
    (cells, nodes) the share of a node's rows in each. Levels are at 0.5, 1.5, …; ``values`` is the part of the axis
    without the cell of missing values.
    """

    name: str
    axis: Axis
    values: Axis
    spans: Matrix
    texts: tuple[str, ...]
    names: tuple[str, ...] | None
    reads: Matrix
    holds: Matrix

    def ticks(self, about: int = 5, letters: float | None = None) -> list[Tick]:
        """Return the names of levels, or round values and the word for missing ones.

        Where the values have a width of so many ``letters``, those too near to another or to that word are left out.
        """
        if self.names is not None:
            return [Tick(float(middle), name) for middle, name in zip(self.middles, self.names, strict=True)]
        found = self.values.ticks(about) if letters is None else self.values.fitting(letters, about)
        if not self.is_missing_apart:
            return found
        last = Tick(float(self.middles[-1]), MISSING)
        unit = 0.0 if letters is None else (self.values.high - self.values.low) / letters
        near = [unit * (len(tick.text + MISSING) / 2 + 1) for tick in found]
        return [*(tick for tick, room in zip(found, near, strict=True) if last.value - tick.value >= room), last]

    @property
    def middles(self) -> Vector:
        return self.spans.mean(axis=1)

    def edges(self, part: slice) -> Vector:
        """Return where the cells of one of `parts` begin and the last one ends."""
        return np.append(self.spans[part, 0], self.spans[part, 1][-1])

    @property
    def is_missing_apart(self) -> bool:
        """Whether the last cell is that of missing values, apart from the others."""
        return self.names is None and self.axis.high > self.values.high

    def parts(self) -> list[slice]:
        """Return the cells that lie side by side: all, or those of values and that of missing ones."""
        last = len(self.spans) - 1
        return [slice(0, last), slice(last, last + 1)] if self.is_missing_apart else [slice(0, last + 1)]


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """One pair as cells, for one output: ``one`` goes upward, ``other`` across.

    ``effect``, ``total`` and ``share`` are (cells of ``one``, cells of ``other``): the pair alone, with both columns'
    effects, and the share of the rows. ``mains`` are what the two columns add alone, (cells,) each.
    """

    one: CellAxis
    other: CellAxis
    effect: Matrix
    share: Matrix
    mains: tuple[Vector, Vector]

    @property
    def total(self) -> Matrix:
        """The pair's effect and both columns' effects together."""
        return self.effect + self.mains[0][:, None] + self.mains[1][None, :]

    @property
    def fullness(self) -> Matrix:
        """How many rows a cell has, from 0 for none to 1 for so many that its colour is full."""
        return np.clip(self.share * self.share.size / FILLED, 0.0, 1.0)

    @property
    def is_seen(self) -> NDArray[np.bool_]:
        """Which cells have so many rows that they set the scale of colours."""
        return self.fullness > SEEN

    def largest(self, values: Matrix) -> float:
        """Return the largest size of values in cells with rows: where the scale of colours ends."""
        seen = float(np.abs(values[self.is_seen]).max(initial=0.0))
        return seen or float(np.abs(values).max(initial=0.0)) or 1.0

    @property
    def beyond(self) -> float:
        """The share of the rows that no cell holds: those in long tails, and of rare levels."""
        return max(0.0, 1.0 - float(self.share.sum()))

    @property
    def out_of_view(self) -> str:
        """How many rows no cell holds, in words; nothing where they are hardly any."""
        return f"{share_text(self.beyond)} of the rows out of view" if self.beyond > FEWEST_BEYOND else ""


def surface(explanation: Explanation, pair: Pair, output: int, most: int) -> Surface:
    """Return a pair as at most ``most`` cells of numbers along each axis, beside those of missing values."""
    share = np.array(pair.share)
    one, other = (
        _level_cells(axis, share.sum(axis=1 - side)) if axis.x is None else _number_cells(explanation, axis, most)
        for side, axis in enumerate((pair.one, pair.other))
    )
    # what is no number, as only damaged files have it, is drawn as nothing
    effect, first, second = (
        np.nan_to_num(np.array(part)[..., output], nan=0.0, posinf=0.0, neginf=0.0)
        for part in (pair.effect, pair.one.main, pair.other.main)
    )
    mains = (one.reads @ first, other.reads @ second)
    return Surface(one, other, one.reads @ effect @ other.reads.T, one.holds @ share @ other.holds.T, mains)


def _level_cells(axis: PairAxis, weights: Vector) -> CellAxis:
    """Return a cell for each of the most frequent levels, in their order, and for missing values."""
    levels = len(axis.levels or ())
    frequent = np.sort(np.argsort(-weights[:levels], kind="stable")[:MOST_BARS])
    nodes = [*frequent.tolist(), *([levels] if axis.missing else [])]
    picks = np.eye(axis.size)[nodes]
    starts = np.arange(float(len(nodes)))
    names = tuple(axis.text_at(node) for node in nodes)
    whole = Axis(0.0, float(len(nodes)))
    return CellAxis(axis.name, whole, whole, np.stack([starts, starts + 1], axis=1), names, names, picks, picks)


def _number_cells(explanation: Explanation, axis: PairAxis, most: int) -> CellAxis:
    """Return even cells over the range of the data without long tails, or one for each value where there are few."""
    x = np.array(axis.x)
    feature = next((feature for feature in explanation.features if feature.name == axis.name), None)
    density = None if feature is None else feature.density
    kind = "date" if axis.kind == "date" else "number"
    few = density is not None and len(density.counts) <= FEW_DISTINCT_VALUES
    if density is not None and few:
        edges = np.array(density.edges)
    else:
        shown = axis_over(x, kind=kind) if feature is None else axis_of(feature, whole=False)
        edges = np.linspace(shown.low, shown.high, most + 1)
    seen = (float(x[0]), float(x[-1])) if density is None else (density.edges[0], density.edges[-1])
    values = Axis(float(edges[0]), float(edges[-1]), kind)
    spans, whole = np.stack([edges[:-1], edges[1:]], axis=1), values
    reads, holds = _reads(x, spans), _nodes_within(x, edges) if few else _hats_within(x, edges, seen)
    texts = _span_texts(spans, axis.kind, few=few)
    if axis.missing:
        width = values.high - values.low
        start = values.high + ABSENT_CELL_GAP * width
        whole = Axis(values.low, start + BAND * width, kind)
        spans = np.vstack([spans, [start, whole.high]])
        reads, holds = (np.pad(matrix, ((0, 1), (0, 1))) for matrix in (reads, holds))
        reads[-1, -1] = holds[-1, -1] = 1.0
        texts = (*texts, MISSING)
    return CellAxis(axis.name, whole, values, spans, texts, None, reads, holds)


def _reads(x: Vector, spans: Matrix) -> Matrix:
    """Return the mean over each span (cells, 2) of the hats of the nodes x (nodes,), shape (cells, nodes)."""
    shares = (np.arange(INSIDE) + 0.5) / INSIDE
    points = (spans[:, :1] + shares * np.diff(spans, axis=1)).ravel()
    hats = np.stack([np.interp(points, x, unit) for unit in np.eye(x.size)], axis=1)
    return hats.reshape(len(spans), INSIDE, x.size).mean(axis=1)


def _nodes_within(x: Vector, edges: Vector) -> Matrix:
    """Return which cell (cells, nodes) each node lies in; those beyond the ends are in the outermost cells."""
    cells = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, edges.size - 2)
    return np.eye(edges.size - 1)[:, cells]


def _hats_within(x: Vector, edges: Vector, seen: tuple[float, float]) -> Matrix:
    """Return the part of each node's hat that lies over each cell, shape (cells, nodes).

    All of a hat is over the values ``seen``, from the lowest to the highest: the outermost nodes lie beyond them.
    """
    before, after = np.append(x[0], x[:-1]), np.append(x[1:], x[-1])
    rising, falling = x - before, after - x

    def area_up_to(points: Vector) -> Matrix:
        with np.errstate(invalid="ignore", divide="ignore"):
            up = np.where(rising > 0, np.clip(points[:, None] - before, 0.0, rising) ** 2 / (2 * rising), 0.0)
            down = np.where(falling > 0, np.clip(after - points[:, None], 0.0, falling) ** 2 / (2 * falling), 0.0)
        return up + falling / 2 - down

    parts = np.diff(area_up_to(np.clip(edges, *seen)), axis=0)
    whole = np.diff(area_up_to(np.array(seen)), axis=0)[0]
    return np.where(whole > 0, parts / np.where(whole > 0, whole, 1.0), _nodes_within(x, edges))


def _span_texts(spans: Matrix, kind: str, *, few: bool) -> tuple[str, ...]:
    """Return where each cell is: its value where it holds one, else from where to where."""
    span = float(spans[-1, 1] - spans[0, 0])
    size = float(np.abs(spans).max())
    digits = max(4, math.ceil(math.log10(max(size / span, 1.0) * len(spans))) + 2)
    widths = np.diff(spans, axis=1)
    if few and float(np.ptp(widths)) < 1e-9 * span:  # the values are in the middle
        return tuple(value_text(_rounded(middle, span), kind, digits) for middle in spans.mean(axis=1).tolist())
    texts = [[value_text(_rounded(end, span), kind, digits) for end in ends] for ends in spans.tolist()]
    return tuple(f"{first} to {last}" for first, last in texts)


def _rounded(value: float, span: float) -> float:
    """Return a value to a ten-thousandth of the range, so that 0 is 0."""
    unit = 10.0 ** math.floor(math.log10(span) - 4)
    return round(value / unit) * unit


def chosen_pair(explanation: Explanation, pair: int | Sequence[str] | Pair) -> Pair:
    """Return a pair by its rank, 0 for the most important, or by the names of its columns."""
    if isinstance(pair, Pair):
        return explanation.pair(pair.one.name, pair.other.name)
    if isinstance(pair, int):
        if 0 <= pair < len(explanation.pairs):
            return explanation.pairs[pair]
        expected = f"a number below {len(explanation.pairs)}" if explanation.pairs else "a model with pairs"
        raise InputError(describe("pair", expected, str(pair), "choose another, or fit with pairs='auto'"))
    if isinstance(pair, str) or len(pair) != 2:
        raise InputError(describe("pair", "the names of two columns", repr(pair), "write (one, other)"))
    return explanation.pair(pair[0], pair[1])
