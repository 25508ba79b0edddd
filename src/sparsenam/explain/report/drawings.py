"""The charts of the report: shapes, waterfalls, the cross-validation curve and the path."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from sparsenam.explain import charts
from sparsenam.explain.drawing import Axis, alpha_axis, axis_over, percent
from sparsenam.explain.explanation import Explanation, Feature, Level, Missing
from sparsenam.explain.local import RowExplanation
from sparsenam.explain.report import svg
from sparsenam.explain.report.markup import Markup, clean, element, joined
from sparsenam.explain.report.svg import UNITS, placed
from sparsenam.fit.summary import Density
from sparsenam.text import (
    MISSING,
    SURVIVAL_UNITS,
    TIMES,
    abbreviations,
    count_text,
    number_text,
    pair_text,
    shorten,
    signed_text,
    whole_text,
)

Ranks = Sequence[tuple[int, int | None]]  # each output with its rank among those shown, None for others
PLOT, STRIP, GAP = 160.0, 24.0, 4.0  # heights in pixels: of a curve, of the rows below it, between them
CURVE_SHARE, GUTTER = 0.8, 0.91  # of the width: the curve beside a missing cell's effect, and where that is drawn
ROW, STEP_ROW, NAMES, COUNTS = 22.0, 24.0, 140.0, 52.0  # pixels
NAME_LETTERS = 19  # of a level
ROUNDING = 1e-9  # of an axis
SPARE = 9  # labels of an axis at most
DEEPEST = 1 / 16  # of the range of a curve, or of the part without tails, that a zoom shows
FLATTEST = 1 / 6  # of the range of the effects
CHOICE_HEIGHT = 200.0  # of the curve and the path
NAME_DISTANCE = 0.075  # of the height, between two names beside the path
NEAR_END = 0.3  # of the width: a word about a point nearer to an end goes inward
SIZE_DISTANCE = 0.08  # of the width, between two numbers of columns


def shape_chart(feature: Feature, shown: Sequence[int], explanation: Explanation) -> Markup:
    """Return the drawing of a feature: of the outputs ``shown``, and hidden that of all others."""
    ranks = {output: rank for rank, output in enumerate(shown)}
    outputs = [(output, ranks.get(output)) for output in range(len(explanation.outputs))]
    if charts.has_levels(feature):
        return _level_chart(feature, shown, outputs, explanation.units)
    return _curve_chart(feature, shown, outputs, explanation.units)


def shape_data(feature: Feature, shown: Sequence[int], explanation: Explanation) -> dict[str, object]:
    """Return the numbers from which the script reads a drawing out, and the ticks to zoom with."""
    effects = charts.effect_axis([feature], shown)
    everything = charts.effect_axis([feature], range(len(explanation.outputs)))
    data: dict[str, object] = {
        "name": clean(feature.name),
        "entry": feature.entry,
        "importance": _rounded([feature.mean_absolute], 6)[0],
        "effects": _axis_data(effects) | {"levels": svg.tick_levels(everything, finest=FLATTEST)},
        "limits": _limits(feature, effects),
    }
    if charts.has_levels(feature):
        bars = [_level_data(level) for level in charts.drawn_levels(feature)]
        fixed = len(bars) if feature.kind == "ordered" else int(feature.missing is not None)
        return {**data, "bars": bars, "fixed": fixed}
    curve, density = feature.curve, feature.density
    assert curve is not None
    whole, dense = charts.axis_of(feature, whole=True), charts.axis_of(feature, whole=False)
    within = (whole,) if dense.high - dense.low > (whole.high - whole.low) / 2 else (whole, dense)
    deepest = DEEPEST * (within[-1].place(within[-1].high) - within[-1].place(within[-1].low))
    missing = None if feature.missing is None else Level(MISSING, feature.missing.effect, feature.missing.count)
    return {
        **data,
        "date": feature.kind == "date",
        "unit": whole.unit if whole.kind == "skewed" else None,
        "x": _rounded(curve.x, 8),
        "y": [_rounded(effect) for effect in curve.effect],
        "values": _axis_data(whole) | {"deepest": deepest, "levels": svg.tick_levels(*within, finest=DEEPEST)},
        "density": None if density is None else {"edges": _rounded(density.edges, 8), "counts": density.counts},
        "missing": None if missing is None else _level_data(missing),
    }


def _limits(feature: Feature, axis: Axis) -> list[list[float | None]] | list[float]:
    """Return what a drawing of one output must hold beside the effects: a band's limits, point by point, or none."""
    if charts.has_levels(feature):
        known = any(level.deviation is not None for level in charts.drawn_levels(feature))
        return [axis.low, axis.high] if known else []
    curve = feature.curve
    if curve is None or len(curve.effect[0]) > 1 or not (bands := charts.curve_bands(curve, 0)):
        return []
    lower, upper = bands[0]
    return [_rounded([max(low, axis.low), min(high, axis.high)]) for low, high in zip(lower, upper, strict=True)]


def choice_data(explanation: Explanation, shown: Sequence[int]) -> list[dict[str, object]]:
    """Return the choices of outputs to look at, each with the axis that holds all features' effects on them."""
    count = len(explanation.outputs)
    choices = [list(shown), *([output] for output in range(count) if count > 1)]
    made: list[dict[str, object]] = []
    for outputs in choices:
        axis = charts.effect_axis(explanation.features, outputs)
        made.append({"outputs": outputs, "levels": svg.tick_levels(axis, finest=1.0), **_axis_data(axis)})
    return made


def chart_constants() -> dict[str, object]:
    """Return the sizes that the script needs to move what is drawn here."""
    shares = {"share": CURVE_SHARE, "gutter": GUTTER, "margin": charts.EFFECT_MARGIN}
    return {"units": UNITS, "row": ROW, "tick": svg.TICK_HEIGHT, **shares}


def _curve_chart(feature: Feature, shown: Sequence[int], outputs: Ranks, units: str) -> Markup:
    curve, missing = feature.curve, feature.missing
    assert curve is not None
    across, upward = charts.axis_of(feature, whole=True), charts.effect_axis([feature], shown)
    base = PLOT + GAP + STRIP
    bands: list[Markup] = []
    lines: list[Markup] = []
    dots: list[Markup] = []
    for output, rank in outputs:
        heights = [effect[output] for effect in curve.effect]
        data = {"data_output": output, "hidden": rank is None}
        if len(outputs) == 1:  # the bands of several would hide each other
            for limits in charts.curve_bands(curve, output):
                bands.append(svg.band(curve.x, limits, (across, upward), "limits", **data))
        lines.append(svg.curve_line(curve.x, heights, (across, upward), f"line out-{rank or 0}", None, **data))
        dots.append(placed(element("circle", {"class": f"dot out-{rank or 0}", "r": 4.5}), **data))
    area = element(
        "svg",
        {"width": percent(1.0 if missing is None else CURVE_SHARE), "height": "100%"},
        element("rect", {"class": "area", "width": "100%", "height": "100%"}),
        svg.stretched(*bands, *lines, *_veil(feature, across)),
        *(() if feature.density is None else (_strip(feature.density, across),)),
        svg.line(0, base, "100%", base, "axis"),
        svg.bottom_axis(across, across.fitting(svg.NARROW), base, spare=SPARE),
    )
    cursor = placed(svg.line(0, 0, 0, base - GAP, "hair"), *dots, name="cursor", hidden=True)
    drag = element("rect", {"class": "drag", "height": base, "hidden": True})
    gap = () if missing is None else (_missing(missing, outputs, upward),)
    parts = (svg.left_axis(upward, upward.ticks(5), SPARE), area, *gap, cursor, drag)
    title = f"Effect of {feature.name} in {units}"
    return svg.chart(title, PLOT, (10, 22, base - PLOT + 22, 52), *parts, name="curve")


def _veil(feature: Feature, across: Axis) -> list[Markup]:
    """Return what makes a curve pale where hardly any rows speak for it."""
    ends = charts.thin_spans(feature)
    last = feature.density.edges[-1] if feature.density is not None else math.inf
    first = feature.density.edges[0] if feature.density is not None else -math.inf
    found: list[Markup] = []
    for start, stop in ends:
        left = 0.0 if start <= first else UNITS * across.fraction(start)
        right = UNITS if stop >= last else UNITS * across.fraction(stop)
        found.append(svg.rectangle(left, 0, right - left, UNITS, "thin"))
    return found


def _strip(density: Density, across: Axis) -> Markup:
    """Return how often values occur, as bars below the curve."""
    steps: list[str] = []
    for height, first, last in zip(
        charts.density_heights(density, across), density.edges, density.edges[1:], strict=False
    ):
        left, right = (UNITS * min(max(across.fraction(edge), 0.0), 1.0) for edge in (first, last))
        if height and right > left:
            right -= min(1.4, 0.2 * (right - left))
            steps.append(f"M{round(left, 2):g} 1V{round(1 - height, 3):g}H{round(right, 2):g}V1z")
    bars = element("path", {"d": "".join(steps), "class": "density"})
    return svg.stretched(bars, rows=1.0, y=PLOT + GAP, height=STRIP)


def _missing(missing: Missing, outputs: Ranks, upward: Axis) -> Markup:
    """Return the effect of a missing cell, beside the curve."""
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
    levels = charts.drawn_levels(feature)
    across, height = charts.effect_axis([feature], shown), ROW * len(levels)
    missing = None if feature.missing is None else len(levels) - 1
    texts = abbreviations([level.name for level in levels], NAME_LETTERS)
    bars: list[Markup] = []
    names: list[Markup] = []
    for row, level in enumerate(levels):
        drawn, marks = _level_marks(level, shown, outputs, across, is_missing=row == missing)
        bars.append(placed(*drawn, y=float(row), name="row", data_row=row))
        labels = _level_labels(level, texts[row], is_missing=row == missing)
        names.append(placed(*marks, labels, y=ROW * row, name="row", data_row=row))
    parts = (
        element("rect", {"class": "cursor band", "height": ROW, "hidden": True}),
        element("rect", {"class": "area", "width": "100%", "height": "100%"}),
        svg.bottom_axis(across, across.fitting(svg.NARROW * 0.6, 4), height, rule=height + 4, spare=SPARE),
        svg.stretched(*bars, rows=float(max(len(levels), 1))),
        *names,
        svg.label("100%", -8, "rows", "end", "tick faint", dx=COUNTS),
    )
    title = f"Effect of the levels of {feature.name} in {units}"
    return svg.chart(title, height, (22, COUNTS + 4, 22, NAMES + 8), *parts, name="levels")


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
            half = charts.POINTWISE * level.deviation[output]
            ends = [UNITS * across.fraction(effect + side * half) for side in (-1.0, 1.0)]
            bars.append(svg.rectangle(ends[0], 0.46, ends[1] - ends[0], 0.08, "sure", data_output=output))
        if several and rank is not None:
            place = {"x": across.percent(effect), "y": ROW / 2}
            marks.append(placed(svg.mark(rank), **place, name="at", data_output=output, data_at=effect))
    return bars, marks


def _level_labels(level: Level, text: str, *, is_missing: bool) -> Markup:
    y = ROW / 2 + 4
    hint = f"{level.name}: {count_text(level.count, 'row')}"
    name = svg.label(-10, y, text, "end", "level faint" if is_missing else "level", full=hint)
    return joined((name, svg.label("100%", y, whole_text(level.count), "end", "tick faint", dx=COUNTS)))


def waterfall_chart(row: RowExplanation, output: int, units: str) -> Markup:
    """Return how one row's score comes about: from the intercept, each cell's share added in turn."""
    steps = charts.waterfall(row, output)
    first, last = row.intercept[output], row.score[output]
    across = axis_over([first, last, *(step.stop for step in steps)], charts.EFFECT_MARGIN)
    height = STEP_ROW * (len(steps) + 2)
    bars: list[Markup] = []
    labels: list[Markup] = []
    for index, step in enumerate(steps, start=1):
        left, right = sorted((UNITS * across.fraction(step.start), UNITS * across.fraction(step.stop)))
        kind = "plus" if step.stop >= step.start else "minus"
        bars.append(svg.rectangle(left, index + 0.17, max(right - left, 3.0), 0.66, kind))
        labels.append(_step_labels(step, index, across))
    if abs(first) < ROUNDING * (across.high - across.low):  # Cox's model has none, but for rounding
        first = 0.0
    start = "start: average row" if units == SURVIVAL_UNITS else "start: intercept"
    total = (_total(start, first, 0, across), _total("score", last, len(steps) + 1, across))
    axis = svg.bottom_axis(across, across.fitting(svg.NARROW * 0.4, 4), height, rule=height)
    parts = (axis, svg.stretched(*bars, rows=float(len(steps) + 2)), *labels, *total)
    title = f"How the score of row {row.row} comes about, in {units}"
    longest = max((len(signed_text(step.stop - step.start)) for step in steps), default=0)
    right = max(56, round(8 + svg.LETTER * longest))  # for the number behind the last bar
    return svg.chart(title, height, (8, right, 22, 172), *parts, name="waterfall")


def _step_labels(step: charts.Step, index: int, across: Axis) -> Markup:
    middle = STEP_ROW * (index + 0.5)
    name = shorten(f"{shorten(step.name, 11)} = {shorten(step.value, 8)}" if step.value else step.name, 22)
    if TIMES in step.name and TIMES in step.value:  # two names leave no room for values
        name = pair_text(*(shorten(part, 10) for part in step.name.split(TIMES, 1)))
    full = f"{step.name} = {step.value}" if step.value else step.name
    end = across.percent(max(step.start, step.stop))
    link = placed(svg.line(0, middle - STEP_ROW * 0.5 - 8, 0, middle + 8, "link"), x=across.percent(step.start))
    share = svg.label(end, middle + 4, signed_text(step.stop - step.start), "start", "tick strong", dx=5)
    return joined((link, svg.label(-10, middle + 4, name, "end", "level", full=full), share))


def _total(name: str, value: float, index: int, across: Axis) -> Markup:
    y = STEP_ROW * (index + 0.5)
    bar = placed(svg.rectangle(-2, y - 9, 4, 18, "total"), x=across.percent(value))
    text = svg.label(across.percent(value), y + 4, number_text(value, 3), "start", "tick strong", dx=6)
    return joined((svg.label(-10, y + 4, name, "end", "level strong"), bar, text))


def loss_chart(curve: charts.LossCurve) -> Markup:
    """Return the cross-validation curve with its standard errors; best and taken points are marked."""
    across = alpha_axis(curve.alphas) or axis_over(curve.alphas)
    upward = axis_over([*(curve.mean - curve.error), *(curve.mean + curve.error)], charts.EFFECT_MARGIN)
    axes = (across, upward)
    errors = [
        svg.curve_line([alpha, alpha], [mean - error, mean + error], axes, "error")
        for alpha, mean, error in zip(curve.alphas, curve.mean, curve.error, strict=True)
    ]
    sizes = [
        svg.label(across.percent(alpha), -26, text, "middle", "tick faint")
        for alpha, text in curve.size_labels(across, SIZE_DISTANCE)
    ]
    losses = svg.stretched(*errors, svg.curve_line(curve.alphas, curve.mean, axes, "line out-0"))
    marks = [_choice(curve, index, text, axes) for index, text in curve.marks]
    parts = (_alpha_axes(axes), svg.label(-6, -26, "kept", "end", "tick faint"), *sizes, losses, *marks)
    title = "Cross-validation curve over the penalty weight"
    return svg.chart(title, CHOICE_HEIGHT, (40, 14, 40, 58), *parts, name="losses")


def _choice(curve: charts.LossCurve, index: int, text: str, axes: svg.Axes) -> Markup:
    across, upward = axes
    if not math.isfinite(curve.mean[index]):
        return joined(())
    # two labels side by side point away from each other
    others = [other for other, _ in curve.marks if other != index]
    place = across.fraction(float(curve.alphas[index]))
    alone = "end" if place > 1 - NEAR_END else "start" if place < NEAR_END else "middle"
    anchor = alone if not others else "end" if index < others[0] else "start"
    if (anchor, alone) in {("start", "end"), ("end", "start")}:  # the other label has the better end
        anchor = "middle"
    height = upward.percent(float(curve.mean[index]), down=True)
    drawn = placed(svg.mark(1 if text == "best" else 3, text), y=height)
    parts = (svg.line(0, -4, 0, "100%", "chosen"), drawn, svg.label(0, -10, text, anchor, "tick strong"))
    return placed(*parts, x=across.percent(float(curve.alphas[index])))


def path_chart(path: charts.PathLines) -> Markup:
    """Return each column's group norm over the penalty weight; the largest at the end are named."""
    across = alpha_axis(path.alphas) or axis_over(path.alphas)
    upward = axis_over([0.0, *path.norms.ravel()], 0.02)
    axes = (across, upward)
    ranks = {column: rank for rank, column in enumerate(path.named)}
    lines: list[Markup] = []
    for column in reversed(path.order):  # the large ones last, on top
        name = f"line out-{ranks[column]}" if column in ranks else "line other"
        lines.append(svg.curve_line(path.alphas, path.norms[:, column], axes, name, path.names[column]))
    parts = [_alpha_axes(axes, svg.NARROW * 0.3), svg.stretched(*lines)]
    ends = (path.norms[-1, path.named] - upward.low) / (upward.high - upward.low)
    texts = abbreviations([path.names[column] for column in path.named], 14)
    for column, name, end in zip(path.named, texts, charts.spread(ends, NAME_DISTANCE), strict=True):
        full = path.names[column]
        beside = (placed(svg.mark(ranks[column]), x=9), svg.label(18, 4, name, full=full))
        parts.append(placed(placed(*beside, x="100%"), y=percent(1 - float(end))))
    if path.taken is not None:
        taken = (svg.line(0, 0, 0, "100%", "chosen"), svg.label(0, -8, "taken", "middle", "tick strong"))
        parts.append(placed(*taken, x=across.percent(path.taken)))
    title = "Norm of each column over the penalty weight"
    return svg.chart(title, CHOICE_HEIGHT, (40, 118, 40, 58), *parts, name="path")


def _alpha_axes(axes: svg.Axes, letters: float = svg.NARROW * 0.6) -> Markup:
    across, upward = axes
    below = svg.bottom_axis(across, across.fitting(letters), CHOICE_HEIGHT)
    name = svg.label("100%", CHOICE_HEIGHT + 34, charts.ALPHA_LABEL, "end")
    return joined((svg.left_axis(upward, upward.ticks(5)), below, name))


def _axis_data(axis: Axis) -> dict[str, object]:
    return {"low": axis.place(axis.low), "high": axis.place(axis.high)}


def _level_data(level: Level) -> dict[str, object]:
    return {"name": clean(level.name), "y": _rounded(level.effect), "count": level.count}


def _rounded(values: Iterable[float], digits: int = 5) -> list[float | None]:
    """Return numbers with few digits, None for those that JSON cannot hold."""
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values]
