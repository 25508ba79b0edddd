"""The shapes of features in the report, which a script reads out and zooms, and the waterfalls of single rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from sparsenam.explain.charts import Chart, shape_chart
from sparsenam.explain.drawing import Axis, percent
from sparsenam.explain.explanation import POINTWISE, Explanation, Feature, Level, Missing
from sparsenam.explain.report import svg
from sparsenam.explain.report.markup import Markup, clean, element, joined
from sparsenam.explain.report.svg import UNITS, placed
from sparsenam.explain.shapes import EFFECT_MARGIN, axis_of, curve_bands, drawn_levels, effect_axis, has_levels
from sparsenam.text import MISSING, abbreviations, count_text, signed_text, whole_text

Ranks = Sequence[tuple[int, int | None]]  # each output with its rank among those shown, None for others
PLOT, STRIP, STRIP_GAP = 160.0, 24.0, 4.0  # heights in pixels: of a curve, of the rows below it, between them
CURVE_SHARE, GUTTER = 0.8, 0.91  # of the width: the curve beside a missing cell's effect, and where that is drawn
ROW, STEP_ROW, NAMES_WIDTH, COUNTS_WIDTH = 22.0, 24.0, 140.0, 52.0  # pixels
LEVEL_NAME_LETTERS = 19  # of a level
MOST_AXIS_LABELS = 9  # labels of an axis at most
DEEPEST_ZOOM = 1 / 16  # of the range of a curve, or of the part without tails, that a zoom shows
FLATTEST = 1 / 6  # of the range of the effects


def draw_shape(feature: Feature, shown: Sequence[int], explanation: Explanation) -> Markup:
    """Return the drawing of a feature: of the outputs ``shown``, and hidden that of all others."""
    ranks = {output: rank for rank, output in enumerate(shown)}
    outputs = [(output, ranks.get(output)) for output in range(len(explanation.outputs))]
    if has_levels(feature):
        return _level_chart(feature, shown, outputs, explanation.units)
    return _curve_chart(feature, shown, outputs, explanation.units)


def shape_data(feature: Feature, shown: Sequence[int], explanation: Explanation) -> dict[str, object]:
    """Return the numbers from which the script reads a drawing out, and the ticks to zoom with."""
    effects = effect_axis([feature], shown)
    everything = effect_axis([feature], range(len(explanation.outputs)))
    data: dict[str, object] = {
        "name": clean(feature.name),
        "entry": feature.entry,
        "importance": _rounded([feature.mean_absolute], 6)[0],
        "effects": _axis_data(effects) | {"levels": svg.tick_levels(everything, finest=FLATTEST)},
        "limits": _limits(feature, effects),
    }
    if has_levels(feature):
        bars = [_level_data(level) for level in drawn_levels(feature)]
        fixed = len(bars) if feature.kind == "ordered" else int(feature.missing is not None)
        return {**data, "bars": bars, "fixed": fixed}
    curve, density = feature.curve, feature.density
    assert curve is not None
    whole, dense = axis_of(feature, whole=True), axis_of(feature, whole=False)
    within = (whole,) if dense.high - dense.low > (whole.high - whole.low) / 2 else (whole, dense)
    deepest = DEEPEST_ZOOM * (within[-1].place(within[-1].high) - within[-1].place(within[-1].low))
    missing = None if feature.missing is None else Level(MISSING, feature.missing.effect, feature.missing.count)
    return {
        **data,
        "date": feature.kind == "date",
        "unit": whole.unit if whole.kind == "skewed" else None,
        "x": _rounded(curve.x, 8),
        "y": [_rounded(effect) for effect in curve.effect],
        "values": _axis_data(whole) | {"deepest": deepest, "levels": svg.tick_levels(*within, finest=DEEPEST_ZOOM)},
        "density": None if density is None else {"edges": _rounded(density.edges, 8), "counts": density.counts},
        "missing": None if missing is None else _level_data(missing),
    }


def _limits(feature: Feature, axis: Axis) -> list[list[float | None]] | list[float]:
    """Return what a drawing of one output must hold beside the effects: a band's limits, point by point, or none."""
    if has_levels(feature):
        known = any(level.deviation is not None for level in drawn_levels(feature))
        return [axis.low, axis.high] if known else []
    curve = feature.curve
    if curve is None or len(curve.effect[0]) > 1 or not (bands := curve_bands(curve, 0)):
        return []
    lower, upper = bands[0]
    return [_rounded([max(low, axis.low), min(high, axis.high)]) for low, high in zip(lower, upper, strict=True)]


def choice_data(explanation: Explanation, shown: Sequence[int]) -> list[dict[str, object]]:
    """Return the choices of outputs to look at, each with the axis that holds all features' effects on them."""
    count = len(explanation.outputs)
    choices = [list(shown), *([output] for output in range(count) if count > 1)]
    made: list[dict[str, object]] = []
    for outputs in choices:
        axis = effect_axis(explanation.features, outputs)
        made.append({"outputs": outputs, "levels": svg.tick_levels(axis, finest=1.0), **_axis_data(axis)})
    return made


def chart_constants() -> dict[str, object]:
    """Return the sizes that the script needs to move what is drawn here."""
    shares = {"share": CURVE_SHARE, "gutter": GUTTER, "margin": EFFECT_MARGIN}
    return {"units": UNITS, "row": ROW, "tick": svg.TICK_HEIGHT, **shares}


def _curve_chart(feature: Feature, shown: Sequence[int], outputs: Ranks, units: str) -> Markup:
    chart, missing = shape_chart(feature, range(len(outputs)), whole=True), feature.missing
    axes = across, upward = chart.across, effect_axis([feature], shown)
    base = PLOT + STRIP_GAP + STRIP
    lines: list[Markup] = []
    dots: list[Markup] = []
    for line, (output, rank) in zip(chart.lines, outputs, strict=True):
        data = {"data_output": output, "hidden": rank is None}
        lines.append(svg.curve_line(line.x, line.y, axes, f"line out-{rank or 0}", "", **data))
        dots.append(placed(element("circle", {"class": f"dot out-{rank or 0}", "r": 4.5}), name=None, **data))
    bands = [svg.band(band, axes, "limits", data_output=0) for band in chart.bands]
    area = element(
        "svg",
        {"width": percent(1.0 if missing is None else CURVE_SHARE), "height": "100%"},
        element("rect", {"class": "area", "width": "100%", "height": "100%"}),
        svg.stretched(*bands, *lines, *_veil(chart)),
        *((_strip(chart),) if chart.counts else ()),
        svg.line(0, base, "100%", base, "axis"),
        svg.bottom_axis(across, across.fitting(svg.NARROW_CHART_LETTERS), base, spare=MOST_AXIS_LABELS),
    )
    cursor = placed(svg.line(0, 0, 0, base - STRIP_GAP, "hair"), *dots, name="cursor", hidden=True)
    drag = element("rect", {"class": "drag", "height": base, "hidden": True})
    gap = () if missing is None else (_missing(missing, outputs, upward),)
    parts = (svg.left_axis(upward, upward.ticks(5), MOST_AXIS_LABELS), area, *gap, cursor, drag)
    title = f"Effect of {feature.name} in {units}"
    return svg.chart(title, PLOT, (10, 22, base - PLOT + 22, 52), *parts, name="curve")


def _veil(chart: Chart) -> list[Markup]:
    """Return what makes a curve pale where there are hardly any rows, up to its ends."""
    first, last = chart.counts[0][0] if chart.counts else -math.inf, chart.counts[-1][1] if chart.counts else math.inf
    found: list[Markup] = []
    for start, stop in chart.pale:
        left = 0.0 if start <= first else UNITS * chart.across.fraction(start)
        right = UNITS if stop >= last else UNITS * chart.across.fraction(stop)
        found.append(svg.rectangle(left, 0, right - left, UNITS, "thin"))
    return found


def _strip(chart: Chart) -> Markup:
    """Return how often values occur, as bars below the curve."""
    steps: list[str] = []
    for start, stop, height in chart.counts:
        left, right = (UNITS * min(max(chart.across.fraction(edge), 0.0), 1.0) for edge in (start, stop))
        if height and right > left:
            right -= min(1.4, 0.2 * (right - left))
            steps.append(f"M{round(left, 2):g} 1V{round(1 - height, 3):g}H{round(right, 2):g}V1z")
    bars = element("path", {"d": "".join(steps), "class": "density"})
    return svg.stretched(bars, rows=1.0, y=PLOT + STRIP_GAP, height=STRIP)


def _missing(missing: Missing, outputs: Ranks, upward: Axis) -> Markup:
    count = svg.label(0, PLOT + 30, whole_text(missing.count), "middle", "tick faint")
    parts = [svg.label(0, PLOT + 16, MISSING, "middle"), count]
    for output, rank in outputs:
        effect = missing.effect[output]
        if math.isfinite(effect):
            drawn = svg.mark(rank or 0, f"{MISSING}: {signed_text(effect)}")
            data = {"data_output": output, "data_at": effect, "hidden": rank is None}
            parts.append(placed(drawn, y=upward.percent(effect, down=True), name="at", **data))
    divider = placed(svg.line(0, 0, 0, PLOT + STRIP, "divider"), x=percent(CURVE_SHARE + 0.01))
    return joined((divider, placed(*parts, x=percent(GUTTER))))


def _level_chart(feature: Feature, shown: Sequence[int], outputs: Ranks, units: str) -> Markup:
    levels = drawn_levels(feature)
    across, height = effect_axis([feature], shown), ROW * len(levels)
    missing = None if feature.missing is None else len(levels) - 1
    texts = abbreviations([level.name for level in levels], LEVEL_NAME_LETTERS)
    bars: list[Markup] = []
    names: list[Markup] = []
    for row, level in enumerate(levels):
        drawn, marks = _level_marks(level, shown, outputs, across, is_missing=row == missing)
        bars.append(placed(*drawn, y=float(row), name="row", data_row=row))
        hint, kind = f"{level.name}: {count_text(level.count, 'row')}", "level faint" if row == missing else "level"
        labels = (
            svg.label(-10, ROW / 2 + 4, texts[row], "end", kind, full=hint),
            svg.label("100%", ROW / 2 + 4, whole_text(level.count), "end", "tick faint", dx=COUNTS_WIDTH),
        )
        names.append(placed(*marks, *labels, y=ROW * row, name="row", data_row=row))
    parts = (
        element("rect", {"class": "cursor band", "height": ROW, "hidden": True}),
        element("rect", {"class": "area", "width": "100%", "height": "100%"}),
        svg.bottom_axis(
            across, across.fitting(svg.NARROW_CHART_LETTERS * 0.6, 4), height, rule=height + 4, spare=MOST_AXIS_LABELS
        ),
        svg.stretched(*bars, rows=float(max(len(levels), 1))),
        *names,
        svg.label("100%", -8, "rows", "end", "tick faint", dx=COUNTS_WIDTH),
    )
    title = f"Effect of the levels of {feature.name} in {units}"
    return svg.chart(title, height, (22, COUNTS_WIDTH + 4, 22, NAMES_WIDTH + 8), *parts, name="levels")


def _level_marks(
    level: Level, shown: Sequence[int], outputs: Ranks, across: Axis, *, is_missing: bool
) -> tuple[list[Markup], list[Markup]]:
    """Return the bars of a level, in a row of height 1, and its marks, one for each output."""
    bars: list[Markup] = []
    marks: list[Markup] = []
    for output, rank in outputs:
        effect, several = level.effect[output], len(shown) > 1
        if not math.isfinite(effect):
            continue
        left, right = sorted((UNITS * across.fraction(0.0), UNITS * across.fraction(effect)))
        kind = "bar hollow" if is_missing else "bar"
        box = (left, 0.18, max(right - left, 4.0), 0.64)
        bars.append(svg.rectangle(*box, kind, data_output=output, hidden=several))
        if level.deviation is not None and len(outputs) == 1:
            half = POINTWISE * level.deviation[output]
            ends = [UNITS * across.fraction(effect + side * half) for side in (-1.0, 1.0)]
            bars.append(svg.rectangle(ends[0], 0.46, ends[1] - ends[0], 0.08, "sure", data_output=output))
        if several and rank is not None:
            place = {"x": across.percent(effect), "y": ROW / 2}
            marks.append(placed(svg.mark(rank), **place, name="at", data_output=output, data_at=effect))
    return bars, marks


def waterfall_chart(chart: Chart) -> Markup:
    """Return how one row's score comes about: from the intercept, each cell's share added in turn."""
    across, bars = chart.across, chart.bars
    height = STEP_ROW * len(bars)
    boxes: list[Markup] = []
    labels: list[Markup] = []
    for row, bar in enumerate(bars):
        middle, is_sum = STEP_ROW * (row + 0.5), bar.pen is None
        left, right = sorted((UNITS * across.fraction(bar.start), UNITS * across.fraction(bar.stop)))
        if is_sum:
            labels.append(placed(svg.rectangle(-2, middle - 9, 4, 18, "total"), x=across.percent(bar.stop)))
        else:
            boxes.append(svg.rectangle(left, row + 0.17, max(right - left, 3.0), 0.66, ("plus", "minus")[bar.pen or 0]))
            link = svg.line(0, middle - STEP_ROW * 0.5 - 8, 0, middle + 8, "link")
            labels.append(placed(link, x=across.percent(bar.start)))
        full = f"{bar.name} = {bar.value}" if bar.value else bar.name
        name = svg.label(-10, middle + 4, bar.label(22), "end", "level strong" if is_sum else "level", full=full)
        end = across.percent(max(bar.start, bar.stop))
        labels += [name, svg.label(end, middle + 4, bar.text, "start", "tick strong", dx=6 if is_sum else 5)]
    axis = svg.bottom_axis(across, across.fitting(svg.NARROW_CHART_LETTERS * 0.4, 4), height, rule=height)
    parts = (axis, svg.stretched(*boxes, rows=float(len(bars))), *labels)
    longest = max(len(bar.text) for bar in bars[1:-1] or bars)
    right = max(56, round(8 + svg.LETTER * longest))  # for the number behind the last bar
    return svg.chart(chart.title, height, (8, right, 22, 172), *parts, name="waterfall")


def _axis_data(axis: Axis) -> dict[str, object]:
    return {"low": axis.place(axis.low), "high": axis.place(axis.high)}


def _level_data(level: Level) -> dict[str, object]:
    return {"name": clean(level.name), "y": _rounded(level.effect), "count": level.count}


def _rounded(values: Iterable[float], digits: int = 5) -> list[float | None]:
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values]
