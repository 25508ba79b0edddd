"""The shape of one feature as a drawing that needs no script: a curve over a histogram, or bars of levels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sparsenam.explain.report.markup import Markup, joined
from sparsenam.explain.report.records import Density, Feature, Level
from sparsenam.explain.report.scale import Scale, scale_over
from sparsenam.explain.report.svg import (
    bottom_axis,
    drawing,
    label,
    left_axis,
    line,
    mark,
    polyline,
    rectangle,
)
from sparsenam.explain.report.words import count_words, number_words, shortened, signed_words, value_words

WIDTH, LEFT, RIGHT, TOP, PLOT, STRIP, GUTTER = 420.0, 52.0, 10.0, 10.0, 160.0, 24.0, 58.0
ROW, NAME_WIDTH, COUNT_WIDTH = 22.0, 118.0, 52.0
MOST_LEVELS = 16  # bars that fit a page; the table below the chart has the others


def has_bars(feature: Feature) -> bool:
    """Return whether the feature is drawn as bars of levels, and not as a curve."""
    return feature.curve is None or (bool(feature.levels) and feature.kind in ("category", "ordered"))


def drawn_levels(feature: Feature) -> tuple[Level, ...]:
    """Return the levels that get a bar: the most frequent in their given order, then the missing cells."""
    frequent = sorted(range(len(feature.levels)), key=lambda place: -feature.levels[place].count)[:MOST_LEVELS]
    levels = tuple(feature.levels[place] for place in sorted(frequent))
    return levels if feature.missing is None else (*levels, feature.missing)


def shape_drawing(feature: Feature, shown: Sequence[int], units: str) -> Markup:
    """Return the drawing of a feature for the outputs ``shown``."""
    return _bars(feature, shown, units) if has_bars(feature) else _curve(feature, shown, units)


def _curve(feature: Feature, shown: Sequence[int], units: str) -> Markup:
    curve, missing = feature.curve, feature.missing
    assert curve is not None
    right = WIDTH - RIGHT - (0.0 if missing is None else GUTTER)
    bottom = TOP + PLOT
    effects = [point[output] for point in curve.effects for output in shown]
    gaps = [] if missing is None else [missing.effects[output] for output in shown]
    across = scale_over(curve.x, LEFT, right)
    upward = scale_over([*effects, *gaps, 0.0], bottom, TOP, margin=0.06)
    lines = [
        polyline(
            ((across(x), upward(point[output])) for x, point in zip(curve.x, curve.effects, strict=True)),
            f"line out-{place}",
        )
        for place, output in enumerate(shown)
    ]
    strip = () if feature.density is None else (_strip(feature.density, across, bottom + 4),)
    parts = (
        left_axis(upward, LEFT, WIDTH - RIGHT),
        *strip,
        bottom_axis(across, bottom + 4 + STRIP, lambda tick: value_words(tick, feature.kind, across.digits)),
        *lines,
        *(() if missing is None else (_missing(missing, shown, upward, right, bottom),)),
    )
    title = f"Effect of {feature.name} in {units}"
    return drawing(WIDTH, bottom + STRIP + 26, title, *parts, name="static")


def _strip(density: Density, across: Scale, top: float) -> Markup:
    most = max(max(density.counts, default=0), 1)
    low, high = sorted((across.start, across.stop))
    bars: list[Markup] = []
    for count, first, last in zip(density.counts, density.edges, density.edges[1:], strict=False):
        left, right = (min(max(across(edge), low), high) for edge in (first, last))
        height = STRIP * count / most
        if count and right > left:
            bars.append(rectangle(left, top + STRIP - height, max(right - left - 0.5, 0.5), height, "density"))
    return joined((*bars, line(across.start, top + STRIP, across.stop, top + STRIP, "axis")))


def _missing(missing: Level, shown: Sequence[int], upward: Scale, right: float, bottom: float) -> Markup:
    middle = right + 8 + (GUTTER - 8) / 2
    marks = [
        mark(middle, upward(missing.effects[output]), place, f"missing: {signed_words(missing.effects[output])}")
        for place, output in enumerate(shown)
        if math.isfinite(missing.effects[output])
    ]
    words = (
        label(middle, bottom + 16, "missing", "middle", "tick"),
        label(middle, bottom + 30, number_words(float(missing.count), 7), "middle", "tick faint"),
    )
    return joined((line(right + 4, TOP, right + 4, bottom + STRIP, "divider"), *marks, *words))


def _bars(feature: Feature, shown: Sequence[int], units: str) -> Markup:
    levels = drawn_levels(feature)
    left, right = NAME_WIDTH, WIDTH - COUNT_WIDTH
    bottom = TOP + 12 + ROW * len(levels)
    effects = [level.effects[output] for level in levels for output in shown]
    across = scale_over([*effects, 0.0], left + 12, right - 8)
    parts: list[Markup] = [label(WIDTH - 4, TOP + 4, "rows", "end", "tick faint")]
    for tick in across.ticks(4):
        x = across(tick)
        parts.append(line(x, TOP + 8, x, bottom, "zero" if tick == 0 else "rule"))
        parts.append(label(x, bottom + 15, number_words(tick), "middle", "tick"))
    for place, level in enumerate(levels):
        parts.append(_bar(level, place, shown, across, is_missing=level is feature.missing))
    title = f"Effect of the levels of {feature.name} in {units}"
    return drawing(WIDTH, bottom + 22, title, *parts, name="static")


def _bar(level: Level, place: int, shown: Sequence[int], across: Scale, *, is_missing: bool) -> Markup:
    middle = TOP + 12 + ROW * (place + 0.5)
    name = shortened(level.name, 16)
    count = number_words(float(level.count), 7)
    if len(shown) == 1 and math.isfinite(level.effects[shown[0]]):
        ends = sorted((across(0.0), across(level.effects[shown[0]])))
        kind = "bar hollow" if is_missing else "bar"
        drawn = [rectangle(ends[0], middle - 7, max(ends[1] - ends[0], 1.5), 14, kind)]
    else:
        finite = [(rank, output) for rank, output in enumerate(shown) if math.isfinite(level.effects[output])]
        drawn = [mark(across(level.effects[output]), middle, rank) for rank, output in finite]
    hint = f"{level.name}: {count_words(level.count, 'row')}"
    return joined(
        (
            label(NAME_WIDTH - 4, middle + 4, name, "end", "level faint" if is_missing else "level", hint),
            *drawn,
            label(WIDTH - 4, middle + 4, count, "end", "tick faint"),
        )
    )
