"""Pieces that every chart is made of: the frame, axes, labels, lines and marks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise

from sparsenam.explain.report.markup import Markup, element, joined
from sparsenam.explain.report.scale import Scale
from sparsenam.explain.report.words import number_words

Point = tuple[float, float]
MARKS = 5  # as many as there are colours that stand out on white
LETTER = 6.8  # width of a digit
_MARK_PATHS = (
    "M{x} {y}m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",  # circle
    "M{x} {y}m-3.5 -3.5h7v7h-7z",  # square
    "M{x} {y}m0 -4.5l4.5 8h-9z",  # triangle
    "M{x} {y}m0 -5l5 5l-5 5l-5 -5z",  # diamond
    "M{x} {y}m-4 -1.2h2.8v-2.8h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8z",  # plus
)


def drawing(width: float, height: float, title: str, *children: str, name: str = "") -> Markup:
    """Return an SVG that scales with its place; the title is what a screen reader says."""
    attributes = {
        "viewBox": f"0 0 {width:g} {height:g}",
        "role": "img",
        "aria-label": title,
        "class": f"chart {name}".strip(),
    }
    return element("svg", attributes, *children)


def label(x: float, y: float, text: str, anchor: str = "start", name: str = "", full: str | None = None) -> Markup:
    """Return a label; ``full`` is shown in its stead where the mouse rests."""
    hint = (element("title", None, full),) if full is not None and full != text else ()
    return element("text", {"x": x, "y": y, "text-anchor": anchor, "class": name or None}, text, *hint)


def line(x1: float, y1: float, x2: float, y2: float, name: str) -> Markup:
    """Return a straight line of a class."""
    return element("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": name})


def rectangle(x: float, y: float, width: float, height: float, name: str) -> Markup:
    """Return a rectangle of a class."""
    size = {"width": round(max(width, 0.0), 2), "height": round(max(height, 0.0), 2)}
    return element("rect", {"x": round(x, 2), "y": round(y, 2), **size, "class": name})


def polyline(points: Iterable[Point], name: str, hint: str | None = None) -> Markup:
    """Return a line through the points, broken where a point is not finite."""
    steps: list[str] = []
    pen_up = True
    for x, y in points:
        if not (math.isfinite(x) and math.isfinite(y)):
            pen_up = True
            continue
        steps.append(f"{'M' if pen_up else 'L'}{x:g} {y:g}")
        pen_up = False
    children = () if hint is None else (element("title", None, hint),)
    return element("path", {"d": "".join(steps), "class": name}, *children)


def mark(x: float, y: float, output: int, hint: str | None = None) -> Markup:
    """Return the mark of an output: its own shape beside its own colour."""
    children = () if hint is None else (element("title", None, hint),)
    path = _MARK_PATHS[output % MARKS].format(x=f"{x:g}", y=f"{y:g}")
    return element("path", {"d": path, "class": f"mark out-{output % MARKS}"}, *children)


def left_axis(scale: Scale, left: float, right: float, about: int = 5) -> Markup:
    """Return the labels and grid lines of a vertical axis; the line at zero stands out."""
    parts: list[Markup] = []
    for tick in scale.ticks(about):
        y = scale(tick)
        parts.append(line(left, y, right, y, "zero" if tick == 0 else "rule"))
        parts.append(label(left - 6, y + 4, number_words(tick, scale.digits), "end", "tick"))
    return joined(parts)


def bottom_axis(scale: Scale, y: float, words: Callable[[float], str], about: int = 5) -> Markup:
    """Return the labels and short marks of a horizontal axis at height ``y``; labels stay within the axis."""
    parts: list[Markup] = []
    for tick, text, place in spaced_ticks(scale, words, about):
        parts.append(line(scale(tick), y, scale(tick), y + 4, "axis"))
        parts.append(label(place, y + 16, text, "middle", "tick"))
    return joined(parts)


def spaced_ticks(scale: Scale, words: Callable[[float], str], about: int) -> list[tuple[float, str, float]]:
    """Return ticks, their words and the places of these: as many as asked, or fewer so that no two touch."""
    found: list[tuple[float, str, float]] = []
    for wanted in range(about, 0, -1):
        found = []
        for tick in scale.ticks(wanted):
            text = words(tick)
            half = LETTER * len(text) / 2
            found.append(
                (tick, text, round(min(max(scale(tick), scale.start - 20 + half), scale.stop + 4 - half), 1))
            )
        pairs = pairwise(found)
        if all(right[2] - left[2] >= LETTER * (len(left[1]) + len(right[1])) / 2 + 6 for left, right in pairs):
            break
    return found
