"""The edits of a model in the report: what was changed after the fit, why, by whom and when, before and after."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparsenam.explain.charts import EFFECT_MARGIN, thinned
from sparsenam.explain.drawing import Axis, axis_over, percent
from sparsenam.explain.explanation import Curve, EditRecord, Explanation
from sparsenam.explain.report import svg
from sparsenam.explain.report.markup import Markup, element, joined, name_element, note, section, table
from sparsenam.explain.report.svg import placed
from sparsenam.text import NOTHING, count_text, number_text, shorten, signed_text

HEIGHT = 72.0  # pixels of a drawing
NARROW = 170.0 / svg.LETTER  # letters that it is wide enough for
SHORTEST = 6  # letters to which a name may be cut
MOST_LEVELS = 24  # of a category that are drawn, those that changed most


def edits(explanation: Explanation) -> Markup:
    """Return the log of edits as a table with a drawing of each; nothing where the model is as it was fitted."""
    if not explanation.edits:
        return joined(())
    with_loss = any(edit.loss is not None for edit in explanation.edits)
    heads = ("Column", "Change", "Before and after", "Why", "Who and when", "Loss before", "Loss after")
    shown = len(heads) if with_loss else len(heads) - 2
    rows = [_row(edit, explanation.outputs)[:shown] for edit in explanation.edits]
    text = (
        "The model was changed after the fit, in this order. The certificate, the held-out losses and the path "
        "speak of the model before. Dashed: the effect before the change; solid: after it."
    )
    if with_loss:
        text += " The loss is the mean over rows that were given for it."
    listed = table("Changes after the fit", heads[:shown], rows, numbers=(5, 6))
    title = f"Edited: {count_text(len(rows), 'change')}"
    return section("edits", title, note(text), element("div", {"class": "edits"}, listed))


def _row(edit: EditRecord, outputs: Sequence[str]) -> tuple[str, ...]:
    name = "intercept" if edit.column is None else name_element(edit.column)
    moment = edit.when[:16].replace("T", " ")
    losses = (number_text(loss, 5) for loss in (edit.loss_before, edit.loss_after))
    return (name, edit.request, _drawing(edit, outputs), edit.reason, f"{edit.who}, {moment} UTC", *losses)


def _drawing(edit: EditRecord, outputs: Sequence[str]) -> Markup:
    """Return the effect before and after, of the output that changed most where there are several."""
    curves = [(curve, kind) for curve, kind in ((edit.before, "before"), (edit.after, "after")) if curve is not None]
    if not curves:
        return joined((NOTHING,))
    output = _most_changed(edit)
    drawn = _levels(edit, output) if edit.levels else _lines(edit, output)
    what = "" if len(outputs) == 1 else f" on {outputs[output]}"
    after = "" if edit.after is not None else "; nothing is left of it"
    title = f"Effect of {edit.column}{what} before (dashed) and after (solid) the change{after}"
    parts = [svg.chart(title, HEIGHT, (8, 10, 20, 46), *drawn, name="edit")]
    if len(outputs) > 1:
        parts.append(element("p", {"class": "facts-line"}, f"drawn for {outputs[output]}"))
    return joined(parts)


def _most_changed(edit: EditRecord) -> int:
    """Return the output whose effect changed most."""
    before, after = edit.before, edit.after
    one = before if before is not None else after
    assert one is not None
    sizes = np.ptp(np.array(one.effect), axis=0)
    if before is not None and after is not None:
        x = np.unique(np.array([*before.x, *after.x]))
        pairs = zip(zip(*before.effect, strict=True), zip(*after.effect, strict=True), strict=True)
        sizes = np.array([_distance(x, before, after, old, new) for old, new in pairs])
    return int(np.argmax(sizes))


def _distance(x: NDArray[np.float64], before: Curve, after: Curve, old: Sequence[float], new: Sequence[float]) -> float:
    return float(np.abs(np.interp(x, before.x, old) - np.interp(x, after.x, new)).max())


def _lines(edit: EditRecord, output: int) -> list[Markup]:
    curves = [(curve, kind) for curve, kind in ((edit.before, "before"), (edit.after, "after")) if curve is not None]
    across = axis_over([x for curve, _ in curves for x in curve.x], kind="date" if edit.is_date else "number")
    upward = axis_over([0.0, *(row[output] for curve, _ in curves for row in curve.effect)], EFFECT_MARGIN)
    lines: list[Markup] = []
    for curve, kind in curves:
        single = thinned(Curve(curve.x, tuple((row[output],) for row in curve.effect)))
        heights = [row[0] for row in single.effect]
        lines.append(svg.curve_line(single.x, heights, (across, upward), f"edit-{kind}", kind))
    bottom = svg.bottom_axis(across, across.fitting(NARROW, 3), HEIGHT)
    return [svg.left_axis(upward, upward.ticks(3)), svg.stretched(*lines), bottom]


def _levels(edit: EditRecord, output: int) -> list[Markup]:
    """Return a ring before and a dot after for each level, joined by a line; pointing at them says which it is."""
    effects = [_by_level(edit.levels, curve, output) for curve in (edit.before, edit.after)]
    moved = sorted(edit.levels, key=lambda level: -abs(effects[0].get(level, 0.0) - effects[1].get(level, 0.0)))
    shown = [level for level in edit.levels if level in set(moved[:MOST_LEVELS])]
    values = [effect[level] for effect in effects for level in shown if level in effect]
    upward = axis_over([0.0, *values], EFFECT_MARGIN)
    parts = [svg.left_axis(upward, upward.ticks(3))]
    places = [percent((place + 0.5) / len(shown)) for place in range(len(shown))]
    parts += [placed(*_level(level, effects, upward), x=x) for level, x in zip(shown, places, strict=True)]
    room = int(NARROW / len(shown))
    if room >= SHORTEST or all(len(level) <= room for level in shown):
        parts += [
            svg.label(x, HEIGHT + 14, shorten(level, room), "middle", full=level)
            for level, x in zip(shown, places, strict=True)
        ]
    return parts


def _by_level(levels: Sequence[str], curve: Curve | None, output: int) -> dict[str, float]:
    """Return the effects of the levels that have one."""
    found = () if curve is None else zip(levels, curve.effect, strict=True)
    return {level: effect[output] for level, effect in found if math.isfinite(effect[output])}


def _level(level: str, effects: Sequence[dict[str, float]], upward: Axis) -> list[Markup]:
    old, new = (effect.get(level) for effect in effects)
    texts = [f"{word} {signed_text(value)}" for word, value in (("before", old), ("after", new)) if value is not None]
    hint = element("title", None, f"{level}: {', '.join(texts)}")
    drawn: list[Markup] = []
    if old is not None and new is not None:
        drawn.append(svg.line(0, upward.percent(old, down=True), 0, upward.percent(new, down=True), "edit-move"))
    for value, kind in ((old, "before"), (new, "after")):
        if value is not None:
            circle = {"class": f"edit-{kind}", "r": 4.0, "cy": upward.percent(value, down=True)}
            drawn.append(element("circle", circle, hint))
    return drawn
