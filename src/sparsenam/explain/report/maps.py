"""Pairs in the report: each a map of cells that a pointer or arrow keys read out, alone or with both mains added.

Cells of one colour are one path, so that a map of 40 × 40 cells stays small; colours are shares of the page's colours
of what adds and what takes, so that every scheme has its map.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from sparsenam.explain.charts import effect_label
from sparsenam.explain.drawing import percent
from sparsenam.explain.explanation import Explanation, Pair
from sparsenam.explain.report import svg
from sparsenam.explain.report.markup import (
    Markup,
    card,
    check,
    clean,
    element,
    in_numbers,
    joined,
    name_element,
    note,
    section,
    select,
    some,
)
from sparsenam.explain.report.svg import UNITS, placed
from sparsenam.explain.surfaces import CellAxis, Surface, surface
from sparsenam.text import abbreviations, number_text, shorten, signed_text

Matrix = NDArray[np.float64]
MAP_CELLS, MAP_CELLS_OF_SEVERAL = 40, 20  # along an axis of numbers, for one output and for several
MAP_HEIGHT, LEVEL_HEIGHT = 300.0, 26.0  # pixels: of a map of numbers, of a level at least
COLOUR_STEPS = 12  # colours on either side of 0
VEILS = (0.72, 0.5, 0.25)  # how much of the paper covers a cell without rows, with few, with some
FULL = (0.02, 0.3, 0.7)  # how full cells are at most that have these
TABLE_CELLS = 7  # rows and columns of the table below a map
LEVEL_NAMES_WIDTH = 112.0  # pixels for names of levels at the left
MAP_NAME_LETTERS = 15
LEAST_LETTERS = 8  # of a level's name below a map
NARROW_MAP_LETTERS = 34.0  # letters that fit below a map on a small screen
LEAST_ROWS_OF_CELL = 0.5  # rows: a cell that a hat touches with less has none


def pairs(explanation: Explanation, shown: Sequence[int]) -> Markup:
    """Return a card with a map for each pair; nothing where the model has none."""
    if not explanation.pairs:
        return joined(())
    with_script = (
        "Point at a map to read it, or Tab to it and use the arrow keys. The summed surface adds what either column "
        "does alone: look at it where two columns depend on each other, so that their effects cancel."
    )
    text = note(
        "Each map shows what two columns do together beyond what either does alone, in "
        f"{explanation.units or 'units of the score'}; over the rows, its mean along each line is 0. Colours are pale "
        "where rows are few. ",
        element("span", {"class": "with-script"}, with_script),
    )
    cards = [_card(index, pair, explanation, shown) for index, pair in enumerate(explanation.pairs)]
    return section("pairs", "Pairs", text, element("div", {"class": "figures", "id": "maps"}, *cards))


def pair_data(explanation: Explanation, pair: Pair, shown: Sequence[int]) -> dict[str, object]:
    """Return the numbers from which the script reads a map out: cells, effects, mains, and shares of the rows."""
    made = _surfaces(explanation, pair, shown)
    first, rows = made[0], explanation.card.get("rows")
    least = LEAST_ROWS_OF_CELL / rows if rows else 0.0
    row, column = np.unravel_index(int(np.argmax(first.share)), first.share.shape)
    return {
        "name": clean(pair.name),
        "axes": [_axis_data(axis) for axis in (first.one, first.other)],
        "effect": [[_digits(line) for line in cells.effect] for cells in made],
        "mains": [[_digits(main) for main in cells.mains] for cells in made],
        "share": [_digits(line, 2) for line in np.where(first.share < least, 0.0, first.share)],
        "first": [int(row), int(column)],
    }


def map_styles() -> str:
    """Return the style sheet's rules for the colours of cells."""
    rules = [
        f".map .{sign}{step} {{ fill: var(--{name}); fill-opacity: {step / COLOUR_STEPS:.3f}; }}"
        for sign, name in (("p", "plus"), ("m", "minus"))
        for step in range(1, COLOUR_STEPS + 1)
    ]
    rules += [f".map .v{index} {{ fill: var(--paper); fill-opacity: {veil:g}; }}" for index, veil in enumerate(VEILS)]
    return "\n".join(rules) + "\n"


def _surfaces(explanation: Explanation, pair: Pair, shown: Sequence[int]) -> list[Surface]:
    most = MAP_CELLS if len(shown) == 1 else MAP_CELLS_OF_SEVERAL
    return [surface(explanation, pair, output, most) for output in shown]


def _card(index: int, pair: Pair, explanation: Explanation, shown: Sequence[int]) -> Markup:
    made = _surfaces(explanation, pair, shown)
    names = (name_element(pair.one.name), " × ", name_element(pair.other.name))
    facts = ("pair", f"importance {number_text(pair.mean_absolute, 3)}", f"rank {index + 1}", pair.reason)
    parts = [" · ".join((*facts, *filter(None, [made[0].out_of_view])))]
    if len(shown) > 1:
        parts.append(element("span", {"class": "without-script"}, f" · drawn for {explanation.outputs[shown[0]]}"))
    controls = [check("Summed surface", **{"class": "summed"})]
    if len(shown) > 1:
        names_of = [explanation.outputs[output] for output in shown]
        controls.append(select("Output", names_of, **{"class": "of-output"}))
    return card(
        f"pair-{index}",
        names,
        parts,
        element("div", {"class": "map-controls with-script"}, *controls),
        _chart(pair, made, explanation),
        element("div", {"class": "foot with-script"}, element("output", {"class": "readout"})),
        _numbers(pair, made[0], explanation.outputs[shown[0]] if len(shown) > 1 else ""),
    )


def _chart(pair: Pair, made: Sequence[Surface], explanation: Explanation) -> Markup:
    """Return the map: a layer for each output and surface, only the first shown, the veil, and the axes."""
    one, other = made[0].one, made[0].other
    height = MAP_HEIGHT if one.names is None else max(LEVEL_HEIGHT * len(one.spans), MAP_HEIGHT / 2)
    layers: list[Markup] = []
    for rank, cells in enumerate(made):
        for kind, values in (("effect", cells.effect), ("total", cells.total)):
            hidden = rank > 0 or kind == "total"
            drawn = (_layer(cells, values), _scale(cells.largest(values), height))
            attributes = {"class": "layer", "data_rank": rank, "data_surface": kind, "hidden": hidden}
            layers.append(element("g", attributes, *drawn))
    frame = element("rect", {"class": "area", "width": "100%", "height": "100%"})
    cursor = element("rect", {"class": "cursor cell", "hidden": True})
    parts = (*layers, _veil(made[0]), frame, _left(one), _bottom(other, height), cursor)
    title = (
        f"Joint effect of {pair.one.name} (upward) and {pair.other.name} (across), {effect_label(explanation.units)}"
    )
    left = LEVEL_NAMES_WIDTH if one.names is not None else 62.0
    return svg.chart(title, height, (24, 12, 86, left), *parts, name="map")


def _layer(cells: Surface, values: Matrix) -> Markup:
    """Return the cells in their colours, one path a colour."""
    steps = np.clip(np.round(COLOUR_STEPS * values / cells.largest(values)), -COLOUR_STEPS, COLOUR_STEPS).astype(int)
    return _painted(cells, steps, {step: _colour(step) for step in np.unique(steps).tolist() if step})


def _colour(step: int) -> str:
    """Return the class of a colour: p1 to p12 for effects that add, m1 to m12 for those that take."""
    return f"{'p' if step > 0 else 'm'}{abs(step)}" if step else "none"


def _veil(cells: Surface) -> Markup:
    """Return what makes cells with few rows pale."""
    veils = np.searchsorted(FULL, cells.fullness, side="left")
    return _painted(cells, veils, {veil: f"v{veil}" for veil in range(len(VEILS))})


def _painted(cells: Surface, kinds: NDArray[np.intp], names: Mapping[int, str]) -> Markup:
    """Return the cells of each kind that has a name as one path of that class."""
    paths = _paths(cells, kinds)
    drawn = [element("path", {"d": paths[kind], "class": name}) for kind, name in names.items() if kind in paths]
    return svg.stretched(*drawn, shape_rendering="crispEdges")


def _paths(cells: Surface, classes: NDArray[np.intp]) -> dict[int, str]:
    """Return for each class the outline of its cells, neighbours in a row as one."""
    found: dict[int, list[str]] = {}
    tops = [round(UNITS * (1 - cells.one.axis.fraction(float(stop)))) for stop in cells.one.spans[:, 1]]
    bottoms = [round(UNITS * (1 - cells.one.axis.fraction(float(start)))) for start in cells.one.spans[:, 0]]
    lefts, rights = (
        [round(UNITS * cells.other.axis.fraction(float(end))) for end in cells.other.spans[:, side]] for side in (0, 1)
    )
    for row, line in enumerate(classes.tolist()):
        for part in cells.other.parts():
            runs = groupby(range(part.start, part.stop), key=lambda column: line[column])
            for kind, run in runs:
                columns = list(run)
                left, right = lefts[columns[0]], rights[columns[-1]]
                step = f"M{left} {tops[row]}h{right - left}v{bottoms[row] - tops[row]}h{left - right}z"
                found.setdefault(kind, []).append(step)
    return {kind: "".join(steps) for kind, steps in found.items()}


def _scale(largest: float, height: float) -> Markup:
    width = 100.0 / (2 * COLOUR_STEPS + 1)
    boxes = [
        element(
            "rect",
            {
                "x": f"{width * (step + COLOUR_STEPS):.3g}%",
                "width": f"{width:.3g}%",
                "y": height + 52,
                "height": 10.0,
                "class": _colour(step),
            },
        )
        for step in range(-COLOUR_STEPS, COLOUR_STEPS + 1)
    ]
    ends = (("0%", -largest, "start"), ("50%", 0.0, "middle"), ("100%", largest, "end"))
    labels = [svg.label(x, height + 78, signed_text(value), anchor) for x, value, anchor in ends]
    return joined((*boxes, *labels))


def _left(axis: CellAxis) -> Markup:
    found = axis.ticks(6)
    ticks = [
        placed(
            svg.line(-4, 0, 0, 0, "axis"),
            svg.label(-8, 4, text, "end", full=tick.text),
            y=axis.axis.percent(tick.value, down=True),
        )
        for tick, text in zip(found, abbreviations([tick.text for tick in found], MAP_NAME_LETTERS), strict=True)
    ]
    return joined((*ticks, svg.label(0, -10, f"↑ {shorten(axis.name, 40)}", "start", "tick strong", full=axis.name)))


def _bottom(axis: CellAxis, height: float) -> Markup:
    ticks = axis.ticks(5, NARROW_MAP_LETTERS * (axis.values.high - axis.values.low) / (axis.axis.high - axis.axis.low))
    texts = [tick.text for tick in ticks]
    if axis.names is not None:  # of many levels some have a name, which is still told from all others
        letters = max(LEAST_LETTERS, int(NARROW_MAP_LETTERS / len(ticks)) - 2)
        every = math.ceil(len(ticks) * (letters + 2) / NARROW_MAP_LETTERS)
        texts = abbreviations(texts, letters)[::every]
        ticks = ticks[::every]
    drawn = [
        placed(
            svg.line(0, height, 0, height + 4, "axis"),
            svg.label(0, height + 16, text, "middle", full=tick.text),
            x=percent(axis.axis.fraction(tick.value)),
            name="slot",
        )
        for tick, text in zip(ticks, texts, strict=True)
    ]
    name = svg.label("50%", height + 36, f"{shorten(axis.name, 40)} →", "middle", "tick strong", full=axis.name)
    return joined((element("g", {"class": "across"}, *drawn), name))


def _numbers(pair: Pair, cells: Surface, output: str) -> Markup:
    """Return some cells as a table, for readers who do not see the map."""
    rows, columns = (some(len(axis.spans), TABLE_CELLS) for axis in (cells.one, cells.other))
    heads = [pair.name, *(cells.other.texts[column] for column in columns)]
    lines = [
        (cells.one.texts[row], *(signed_text(float(cells.effect[row, column])) for column in columns))
        for row in reversed(rows)
    ]
    return in_numbers(f"Joint effect{f' on {output}' if output else ''} in some cells", heads, lines)


def _axis_data(axis: CellAxis) -> dict[str, object]:
    spans = [[round(axis.axis.fraction(float(end)), 5) for end in span] for span in axis.spans]
    return {"name": clean(axis.name), "spans": spans, "texts": [clean(text) for text in axis.texts]}


def _digits(values: NDArray[np.float64], digits: int = 3) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values.tolist()]
