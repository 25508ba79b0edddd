"""Pieces of SVG that every chart is made of.

A chart is as wide as the page lets it be, and its letters are always of the same size: across, everything is at a
share of the width, which SVG writes in per cent. What is stretched (lines, bars) is in an inner drawing of 1000
units; what is not (letters, marks) is put at its share. A script can then zoom by changing what the inner drawing
shows and by moving the rest, and draws nothing itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from sparsenam.explain.charts import Band, Chart, Mark, spread
from sparsenam.explain.drawing import BLACK, LABEL_SPACE, Axis, Pen, Tick, pen, percent
from sparsenam.explain.report.markup import Markup, element, joined
from sparsenam.text import abbreviations

Axes = tuple[Axis, Axis]  # the one across and the one upward
NO_TICK = Tick(math.nan, "")
UNITS = 1000.0  # of a stretched drawing from end to end
LETTER = 6.8  # width of a digit in pixels
TICK_HEIGHT = 20.0  # pixels that a label of a vertical axis needs
NARROW_CHART_LETTERS = 300.0 / LETTER  # letters that a chart is wide enough for even on a small screen
PENS: tuple[Pen, ...] = (*(pen(number) for number in range(4)), Pen(BLACK, "--", "P"))  # all stand out on white
LINE_NAME_DISTANCE = 0.075  # of the height, between two names beside lines
NEAR_END = 0.3  # of the width: a word above a line nearer to an end goes inward
END_LETTERS = 14  # of a name beside a line
DASHES = {"-": "none", "--": "8 3", "-.": "9 3 2 3", ":": "2.5 2.5"}
_MARKS = {
    "o": "M0 0m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
    "s": "M0 0m-3.5 -3.5h7v7h-7z",
    "^": "M0 0m0 -4.5l4.5 8h-9z",
    "D": "M0 0m0 -5l5 5l-5 5l-5 -5z",
    "P": "M0 0m-4 -1.2h2.8v-2.8h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8z",
}


def chart(title: str, height: float, room: tuple[float, float, float, float], *children: str, name: str) -> Markup:
    """Return a chart whose inside is ``height`` pixels high, with room above, right, below and left for labels.

    The title is for screen readers.
    """
    above, right, below, left = room
    style = f"height:{height + above + below:g}px;padding:{above:g}px {right:g}px {below:g}px {left:g}px"
    attributes = {"role": "img", "aria-label": title, "class": f"chart {name}", "style": style}
    return element("svg", attributes, *children)


def placed(*children: str, name: str | None = None, **more: object) -> Markup:
    """Return the children moved to ``x`` and ``y``: numbers are pixels, text is a share in per cent."""
    place = {key: more.pop(key, None) for key in ("x", "y")}
    return element("svg", {**place, "class": name, **more}, *children)


def stretched(*children: str, rows: float = UNITS, **more: object) -> Markup:
    """Return a drawing of 1000 × ``rows`` units that fills the width and height given to it."""
    box = {"width": "100%", "height": "100%", "viewBox": f"0 0 {UNITS:g} {rows:g}", "preserveAspectRatio": "none"}
    return element("svg", {"class": "stretch", **box, **more}, *children)


def label(x: float | str, y: float, text: str, anchor: str = "start", name: str = "tick", **more: object) -> Markup:
    """Return a label; ``full`` is shown as a hint, ``dx`` moves it by pixels."""
    full = str(more.pop("full", text))
    attributes = {"x": x, "y": y, "text-anchor": anchor, "class": name, **more}
    return element("text", attributes, text, *_hint("" if full == text else full))


def line(x1: float | str, y1: float | str, x2: float | str, y2: float | str, name: str) -> Markup:
    """Return a straight line of a class."""
    return element("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": name})


def rectangle(x: float, y: float, width: float, height: float, name: str, **more: object) -> Markup:
    """Return a rectangle of a class."""
    box = {"x": round(x, 2), "y": round(y, 2), "width": round(width, 2), "height": round(height, 2)}
    return element("rect", {**box, "class": name, **more})


def polyline(points: Iterable[tuple[float, float]], name: str, hint: str = "", **more: object) -> Markup:
    """Return a line through the points, broken where a point is not finite."""
    steps: list[str] = []
    pen_is_down = False
    for x, y in points:
        is_finite = math.isfinite(x) and math.isfinite(y)
        if is_finite:
            steps.append(f"{'L' if pen_is_down else 'M'}{round(x, 2):g} {round(y, 1):g}")
        pen_is_down = is_finite
    return element("path", {"d": "".join(steps), "class": name, **more}, *_hint(hint))


def curve_line(x: Iterable[float], y: Iterable[float], axes: Axes, name: str, hint: str = "", **more: object) -> Markup:
    """Return a line in the units of a stretched drawing."""
    return polyline(_scaled(x, y, axes), name, hint, **more)


def _scaled(x: Iterable[float], y: Iterable[float], axes: Axes) -> list[tuple[float, float]]:
    across, upward = axes
    points = zip(x, y, strict=True)
    return [(UNITS * across.fraction(one), UNITS * (1 - upward.fraction(other))) for one, other in points]


def band(area: Band, axes: Axes, name: str, **more: object) -> Markup:
    """Return the area between two lines in the units of a stretched drawing, left out where a limit is not finite."""
    ends = zip(_scaled(area.x, area.high, axes), _scaled(area.x, area.low, axes), strict=True)
    known = [pair for pair in ends if all(math.isfinite(value) for point in pair for value in point)]
    outline = [*(high for high, _ in known), *(low for _, low in reversed(known))]
    path = "L".join(f"{round(x, 2):g} {round(y, 1):g}" for x, y in outline)
    return element("path", {"d": f"M{path}z" if outline else "", "class": name, **more})


def _hint(text: str) -> list[Markup]:
    return [element("title", None, text)] if text else []


def mark(rank: int, hint: str = "") -> Markup:
    """Return the mark of an output around the origin: its shape beside its colour."""
    return element("path", {"d": _MARKS[PENS[rank].mark], "class": f"mark out-{rank}"}, *_hint(hint))


def left_axis(axis: Axis, ticks: Sequence[Tick], spare: int = 0) -> Markup:
    """Return the labels and grid lines of a vertical axis, the line at zero darker; ``spare`` ones stay hidden."""

    def slot(tick: Tick, **place: str | bool) -> Markup:
        rule = line(0, 0, "100%", 0, "zero" if tick.value == 0 else "rule")
        return placed(rule, label(-6, 4, tick.text, "end"), name="slot", **place)

    shown = [slot(tick, y=axis.percent(tick.value, down=True)) for tick in ticks]
    return element("g", {"class": "upward"}, *shown, *[slot(NO_TICK, hidden=True)] * (spare - len(shown)))


def bottom_axis(axis: Axis, ticks: Sequence[Tick], y: float, rule: float | None = None, spare: int = 0) -> Markup:
    """Return the labels of a horizontal axis at ``y`` pixels, with short lines, or long ones up from there."""

    def slot(tick: Tick, **place: str | bool) -> Markup:
        kind = "axis" if rule is None else "zero" if tick.value == 0 else "rule"
        across = line(0, y, 0, y + 4, kind) if rule is None else line(0, y - rule, 0, y, kind)
        return placed(across, label(0, y + 16, tick.text, "middle"), name="slot", **place)

    shown = [slot(tick, x=axis.percent(tick.value)) for tick in ticks]
    return element("g", {"class": "across"}, *shown, *[slot(NO_TICK, hidden=True)] * (spare - len(shown)))


def draw(drawn: Chart, name: str, height: float, *more: Markup, left: float = 58.0) -> Markup:
    """Return a chart of lines and marks with both axes, ``height`` pixels high, of a class, with ``more`` on top."""
    axes = across, upward = drawn.across, drawn.upward
    room = (40.0 if drawn.tops or drawn.guides else 16.0, 118.0 if drawn.ends else 14.0, 40.0, left)
    tops = across.apart(drawn.tops, NARROW_CHART_LETTERS)
    errors = [curve_line([x, x], [low, high], axes, "error") for x, low, high in drawn.errors]
    lines = [
        curve_line(line.x, line.y, axes, "line other" if line.pen is None else f"line out-{line.pen}", line.name)
        for line in drawn.lines
    ]
    marks = [
        placed(mark(one.pen, one.text), x=across.percent(one.x), y=upward.percent(one.y, down=True))
        for one in drawn.marks
    ]
    parts = (
        left_axis(upward, upward.ticks(5)),
        bottom_axis(across, across.fitting(NARROW_CHART_LETTERS * (0.3 if drawn.ends else 0.55), 4), height),
        label("100%", height + 34, drawn.labels[0], "end"),
        *([label(-6, -26, drawn.top_label, "end", "tick faint")] if drawn.tops else []),
        *(label(across.percent(tick.value), -26, tick.text, "middle", "tick faint") for tick in tops),
        stretched(*errors, *lines),
        *marks,
        *_ends(drawn),
        *(_guide(one, drawn) for one in drawn.guides),
    )
    return chart(drawn.title, height, room, *parts, *more, name=name)


def _ends(drawn: Chart) -> list[Markup]:
    heights = spread(np.array([drawn.upward.fraction(end.y) for end in drawn.ends]), LINE_NAME_DISTANCE)
    texts = abbreviations([end.text for end in drawn.ends], END_LETTERS)
    found: list[Markup] = []
    for end, text, height in zip(drawn.ends, texts, heights.tolist(), strict=True):
        beside = (placed(mark(end.pen), x=9), label(18, 4, text, full=end.text))
        found.append(placed(placed(*beside, x="100%"), y=percent(1 - height)))
    return found


def _guide(guide: Mark, drawn: Chart) -> Markup:
    """Return a vertical line with its mark and its word, which leaves room for that of another one."""
    place = drawn.across.fraction(guide.x)
    others = [drawn.across.fraction(other.x) for other in drawn.guides if other is not guide]
    alone = "end" if place > 1 - NEAR_END else "start" if place < NEAR_END else "middle"
    anchor = alone if not others else "end" if place < others[0] else "start"  # two words point away from each other
    if (anchor, alone) in {("start", "end"), ("end", "start")}:  # the other word needs that side
        anchor = "middle"
    height = drawn.upward.percent(guide.y, down=True)
    at = placed(mark(guide.pen, guide.text), y=height) if math.isfinite(guide.y) else ""
    parts = (line(0, -4, 0, "100%", "chosen"), at, label(0, -10, guide.text, anchor, "tick strong"))
    return placed(*parts, x=percent(place))


def tick_levels(*axes: Axis, finest: float) -> list[dict[str, object]]:
    """Return the ticks of axes from few to many, for the script to choose from when it zooms.

    ``gap`` is their least distance, ``room`` the pixels that it must have on a horizontal axis.
    """
    found: list[dict[str, object]] = []
    for axis, ticks in ((one, ticks) for one in axes for ticks in one.levels(finest) if len(ticks) > 1):
        values = [axis.place(tick.value) for tick in ticks]
        gap = min(second - first for first, second in pairwise(values))
        found.append(
            {
                "gap": gap,
                "room": round(LETTER * (max(len(tick.text) for tick in ticks) + LABEL_SPACE)),
                "at": values,
                "text": [tick.text for tick in ticks],
            }
        )
    return found


def styles() -> str:
    """Return the style sheet's rules for the pens of outputs."""
    rules: list[str] = []
    for rank, look in enumerate(PENS):
        colour = f"var(--out-{rank})"
        rules.append(f".line.out-{rank} {{ stroke: {colour}; stroke-dasharray: {DASHES[look.style]}; }}")
        rules.append(f".mark.out-{rank}, .dot.out-{rank} {{ fill: {colour}; }}")
    return joined(Markup(rule + "\n") for rule in rules)
