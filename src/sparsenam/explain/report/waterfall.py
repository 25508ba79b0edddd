"""One row's score as steps: from the intercept, each cell's share added in turn, to the score."""

from __future__ import annotations

from dataclasses import dataclass

from sparsenam.explain.report.local_records import Row
from sparsenam.explain.report.markup import Markup, joined
from sparsenam.explain.report.scale import Scale, scale_over
from sparsenam.explain.report.svg import drawing, label, line, rectangle
from sparsenam.explain.report.words import number_words, shortened, signed_words

WIDTH, NAME_WIDTH, RIGHT, TOP, ROW = 420.0, 146.0, 56.0, 8.0, 24.0
MOST_STEPS = 12


@dataclass(frozen=True)
class Step:
    """A bar of the waterfall from ``start`` to ``stop``."""

    name: str
    value: str
    start: float
    stop: float


def steps_of(row: Row, output: int) -> tuple[Step, ...]:
    """Return the steps from the intercept to the score, the largest first; small ones are taken together."""
    ordered = sorted(row.contributions, key=lambda item: -abs(item.effects[output]))
    shown = ordered if len(ordered) <= MOST_STEPS else ordered[: MOST_STEPS - 1]
    at = row.intercept[output]
    steps: list[Step] = []
    for item in shown:
        effect = item.effects[output]
        steps.append(Step(item.feature, item.value, at, at + effect))
        at += effect
    if rest := ordered[len(shown) :]:
        steps.append(Step(f"{len(rest)} others", "", at, at + sum(item.effects[output] for item in rest)))
    return tuple(steps)


def waterfall_drawing(row: Row, output: int, units: str) -> Markup:
    """Return the waterfall of one row for one output."""
    steps = steps_of(row, output)
    first, last = row.intercept[output], row.score[output]
    ends = [first, last, *(step.stop for step in steps)]
    across = scale_over(ends, NAME_WIDTH + 8, WIDTH - RIGHT, margin=0.04)
    bottom = TOP + ROW * (len(steps) + 2)
    parts: list[Markup] = []
    for tick in across.ticks(4):
        parts.append(line(across(tick), TOP, across(tick), bottom, "zero" if tick == 0 else "rule"))
        parts.append(label(across(tick), bottom + 15, number_words(tick), "middle", "tick"))
    parts.append(_total("start: intercept", first, 0, across))
    parts += [_step(step, place + 1, across) for place, step in enumerate(steps)]
    parts.append(_total("score", last, len(steps) + 1, across))
    title = f"How the score of row {row.label} comes about, in {units}"
    return drawing(WIDTH, bottom + 22, title, *parts, name="waterfall")


def _step(step: Step, place: int, across: Scale) -> Markup:
    middle = TOP + ROW * (place + 0.5)
    left, right = sorted((across(step.start), across(step.stop)))
    kind = "plus" if step.stop >= step.start else "minus"
    name = f"{shortened(step.name, 11)} = {shortened(step.value, 8)}" if step.value else step.name
    full = f"{step.name} = {step.value}" if step.value else step.name
    words = signed_words(step.stop - step.start)
    return joined(
        (
            label(NAME_WIDTH, middle + 4, shortened(name, 22), "end", "level", full),
            line(across(step.start), middle - ROW * 0.5 - 8, across(step.start), middle + 8, "link"),
            rectangle(left, middle - 8, max(right - left, 1.5), 16, kind),
            label(max(right, across.start) + 5, middle + 4, words, "start", "tick strong"),
        )
    )


def _total(name: str, value: float, place: int, across: Scale) -> Markup:
    middle = TOP + ROW * (place + 0.5)
    x = across(value)
    return joined(
        (
            label(NAME_WIDTH, middle + 4, name, "end", "level strong"),
            rectangle(x - 2, middle - 9, 4, 18, "total"),
            label(x + 6, middle + 4, number_words(value, 3), "start", "tick strong"),
        )
    )
