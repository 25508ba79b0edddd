"""The edits of a model in the report: what was changed after the fit, why, by whom and when, before and after."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from sparsenam.explain.drawing import Axis, axis_over, percent
from sparsenam.explain.explanation import Curve, EditRecord, Explanation
from sparsenam.explain.report import svg
from sparsenam.explain.report.markup import Markup, element, joined, name_element, note, section, table
from sparsenam.explain.report.svg import placed
from sparsenam.explain.shapes import EFFECT_MARGIN, thinned
from sparsenam.text import NOTHING, count_text, number_text, shorten, signed_text

EDIT_HEIGHT = 72.0  # pixels of a drawing
NARROW_EDIT_LETTERS = 170.0 / svg.LETTER  # letters that it is wide enough for
SHORTEST = 6  # letters to which a name may be cut
MOST_LEVELS_DRAWN = 24  # of a category that are drawn, those that changed most


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
        "are those of the model before. Dashed: the effect before the change; solid: after it."
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
    curves = {kind: curve for kind, curve in (("before", edit.before), ("after", edit.after)) if curve is not None}
    if not curves:
        return joined((NOTHING,))
    output = _most_changed(list(curves.values()))
    drawn = _levels(edit.levels, curves, output) if edit.levels else _lines(edit, curves, output)
    what = "" if len(outputs) == 1 else f" on {outputs[output]}"
    after = "" if edit.after is not None else "; nothing is left of it"
    title = f"Effect of {edit.column}{what} before (dashed) and after (solid) the change{after}"
    chart = svg.chart(title, EDIT_HEIGHT, (8, 10, 20, 46), *drawn, name="edit")
    which = () if len(outputs) == 1 else (element("p", {"class": "facts-line"}, f"drawn for {outputs[output]}"),)
    return joined((chart, *which))


def _most_changed(curves: Sequence[Curve]) -> int:
    """Return the output whose effect changed most, or varies most where there is one curve."""
    if len(curves) == 1:
        return int(np.argmax(np.ptp(np.array(curves[0].effect), axis=0)))
    x = np.unique(np.concatenate([curve.x for curve in curves]))
    old, new = (
        np.array([np.interp(x, curve.x, column) for column in zip(*curve.effect, strict=True)]) for curve in curves
    )
    return int(np.argmax(np.abs(old - new).max(axis=1)))


def _lines(edit: EditRecord, curves: Mapping[str, Curve], output: int) -> list[Markup]:
    across = axis_over([x for curve in curves.values() for x in curve.x], kind="date" if edit.is_date else "number")
    upward = axis_over([0.0, *(row[output] for curve in curves.values() for row in curve.effect)], EFFECT_MARGIN)
    lines: list[Markup] = []
    for kind, curve in curves.items():
        single = thinned(Curve(curve.x, tuple((row[output],) for row in curve.effect)))
        heights = [row[0] for row in single.effect]
        lines.append(svg.curve_line(single.x, heights, (across, upward), f"edit-{kind}", kind))
    bottom = svg.bottom_axis(across, across.fitting(NARROW_EDIT_LETTERS, 3), EDIT_HEIGHT)
    return [svg.left_axis(upward, upward.ticks(3)), svg.stretched(*lines), bottom]


def _levels(levels: Sequence[str], curves: Mapping[str, Curve], output: int) -> list[Markup]:
    """Return a ring before and a dot after for each level, joined by a line; a hint names the level."""
    effects: dict[str, dict[str, float]] = {level: {} for level in levels}
    for kind, curve in curves.items():
        for level, row in zip(levels, curve.effect, strict=True):
            if math.isfinite(row[output]):
                effects[level][kind] = row[output]
    changes = {level: abs(known.get("before", 0.0) - known.get("after", 0.0)) for level, known in effects.items()}
    moved = set(sorted(levels, key=lambda level: -changes[level])[:MOST_LEVELS_DRAWN])
    shown = [level for level in levels if level in moved]
    upward = axis_over([0.0, *(value for level in shown for value in effects[level].values())], EFFECT_MARGIN)
    parts = [svg.left_axis(upward, upward.ticks(3))]
    places = {level: percent((place + 0.5) / len(shown)) for place, level in enumerate(shown)}
    parts += [placed(*_level(level, effects[level], upward), x=x) for level, x in places.items()]
    room = int(NARROW_EDIT_LETTERS / len(shown))
    if room >= SHORTEST or all(len(level) <= room for level in shown):
        names = [(x, level, shorten(level, room)) for level, x in places.items()]
        parts += [svg.label(x, EDIT_HEIGHT + 14, text, "middle", full=level) for x, level, text in names]
    return parts


def _level(level: str, effects: Mapping[str, float], upward: Axis) -> list[Markup]:
    texts = [f"{kind} {signed_text(value)}" for kind, value in effects.items()]
    hint = element("title", None, f"{level}: {', '.join(texts)}")
    heights = {kind: upward.percent(value, down=True) for kind, value in effects.items()}
    move = (svg.line(0, heights["before"], 0, heights["after"], "edit-move"),) if len(heights) == 2 else ()
    dots = [element("circle", {"class": f"edit-{kind}", "r": 4.0, "cy": y}, hint) for kind, y in heights.items()]
    return [*move, *dots]
