"""What predictions are worth: calibration, ROC curve and a threshold to choose, residuals, survival curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sparsenam.explain.drawing import Axis, axis_over
from sparsenam.explain.explanation import Explanation
from sparsenam.explain.report import svg
from sparsenam.explain.report.markup import Markup, element, facts, joined, note, section, table
from sparsenam.explain.report.svg import placed
from sparsenam.text import count_text, number_text, share_text, whole_text

HEIGHT = 220.0  # pixels
MARGIN = 0.05  # of the range of what is drawn
RATIOS = {0.5: "half the hazard", 1.0: "the average row", 2.0: "twice the hazard"}
MOMENTS = 5  # times of the table of survival


def performance(explanation: Explanation) -> Markup:
    """Return how predictions compare with what came true; nothing where the model does not know."""
    known: dict[str, Any] | None = explanation.card.get("performance")
    if not known:
        return joined(())
    stale = " The figures are those of the model before its edits." if explanation.edits else ""
    text = f"Measured on {whole_text(known['rows'])} {known['rows_are']}.{stale}"
    drawn = _of_classes(known) if known["kind"] == "classes" else _of_numbers(known)
    return section("errors", "Errors", note(text), drawn)


def survival(explanation: Explanation) -> Markup:
    """Return survival curves of three rows that differ in their hazard, and a time to read them at."""
    baseline: dict[str, list[float]] | None = explanation.card.get("baseline")
    if not baseline or not baseline["times"]:
        return joined(())
    times, hazard = baseline["times"], baseline["hazard"]
    across, upward = axis_over([0.0, *times]), Axis(0.0, 1.0)
    lines: list[Markup] = []
    ends: list[Markup] = []
    for rank, (ratio, name) in enumerate(RATIOS.items()):
        x, y = [0.0], [1.0]
        for time, height in zip(times, hazard, strict=True):
            x += [time, time]
            y += [y[-1], math.exp(-ratio * height)]
        lines.append(svg.curve_line(x, y, (across, upward), f"line out-{rank}", name))
        key = element("svg", {"class": "key", "aria-hidden": "true"}, svg.line(0, 7, 34, 7, f"line out-{rank}"))
        ends.append(element("li", None, key, f" {name}"))
    parts = (*_axes(across, upward, "time →"), svg.stretched(*lines))
    drawn = svg.chart(
        "Survival over time of rows that differ in their hazard", HEIGHT, (16, 14, 40, 58), *parts, name="curves"
    )
    text = "Share without the event over time, for the average row and for rows of half and of twice its hazard."
    figure = element(
        "figure", None, drawn, element("ul", {"class": "legend"}, *ends), element("figcaption", None, text)
    )
    chooser = _chooser("time", "Time", 0, len(times) - 1, len(times) // 2)
    return section(
        "survival",
        "Survival",
        element("div", {"class": "figures"}, figure, element("div", None, chooser, _moments(times, hazard))),
    )


def _moments(times: Sequence[float], hazard: Sequence[float]) -> Markup:
    """Return survival at a few times as a table."""
    last = len(times) - 1
    chosen = sorted({round(last * step / MOMENTS) for step in range(1, MOMENTS + 1)})
    rows = [
        (number_text(times[index]), *(share_text(math.exp(-ratio * hazard[index])) for ratio in RATIOS))
        for index in chosen
    ]
    return table("Share without the event", ("Time", *RATIOS.values()), rows, range(1, 4))


def _of_classes(known: dict[str, Any]) -> Markup:
    figures = [_calibration(known["calibration"], str(known["of"]))]
    if "thresholds" not in known:
        return element("div", {"class": "figures"}, *figures)
    right, wrong = known["thresholds"]["right"], known["thresholds"]["wrong"]
    positive, negative = max(int(known["positive"]), 1), max(int(known["rows"]) - int(known["positive"]), 1)
    points = [(b / negative, a / positive) for a, b in zip(right, wrong, strict=True)] + [(0.0, 0.0)]
    area = sum((x1 - x2) * (y1 + y2) / 2 for (x1, y1), (x2, y2) in pairwise(points))
    unit = Axis(0.0, 1.0)
    line = svg.curve_line([x for x, _ in points], [y for _, y in points], (unit, unit), "line out-0")
    even = svg.curve_line([0.0, 1.0], [0.0, 1.0], (unit, unit), "line other")
    at = placed(element("circle", {"class": "dot out-1", "r": 5}), name="threshold-dot", hidden=True)
    parts = (*_axes(unit, unit, "share of the others called so →"), svg.stretched(even, line), at)
    drawn = svg.chart("ROC curve", HEIGHT, (16, 14, 40, 58), *parts, name="roc")
    text = (
        f"ROC curve: upward the share of {known['of']!r} that is called so. Area {number_text(area, 3)}: 1 is perfect, "
        "0.5 is chance."
    )
    chooser = _chooser("threshold", f"Call {known['of']!r} from", 0, len(right) - 1, len(right) // 2)
    figures.append(element("figure", None, drawn, element("figcaption", None, text), chooser))
    return element("div", {"class": "figures"}, *figures)


def _calibration(found: dict[str, list[float]], name: str) -> Markup:
    """Return what was predicted beside what came true: on the diagonal, probabilities mean what they say."""
    unit = Axis(0.0, 1.0)
    even = svg.curve_line([0.0, 1.0], [0.0, 1.0], (unit, unit), "line other")
    line = svg.curve_line(found["predicted"], found["observed"], (unit, unit), "line out-0")
    dots = [
        placed(
            svg.mark(0, f"predicted {share_text(x)}, came true {share_text(y)}, {count_text(int(count), 'row')}"),
            x=unit.percent(x),
            y=unit.percent(y, down=True),
        )
        for x, y, count in zip(found["predicted"], found["observed"], found["counts"], strict=True)
    ]
    parts = (*_axes(unit, unit, "predicted →"), svg.stretched(even, line), *dots)
    drawn = svg.chart("Calibration", HEIGHT, (16, 14, 40, 58), *parts, name="calibration")
    text = (
        f"Calibration of {name!r}: upward the share that came true. On the grey line probabilities mean what they say."
    )
    return element("figure", None, drawn, element("figcaption", None, text))


def _of_numbers(known: dict[str, Any]) -> Markup:
    figures: list[Markup] = []
    errors = known["errors"]
    if "points" in known:
        predicted, residual = known["points"]["predicted"], known["points"]["residual"]
        across, upward = axis_over(predicted, MARGIN), axis_over([0.0, *residual], MARGIN)
        dots = [
            element("circle", {"class": "point", "r": 2.5, "cx": across.percent(x), "cy": upward.percent(y, down=True)})
            for x, y in zip(predicted, residual, strict=True)
        ]
        parts = (*_axes(across, upward, "predicted →"), *dots)
        drawn = svg.chart("Residuals over predictions", HEIGHT, (16, 14, 40, 70), *parts, name="residuals")
        text = "Residuals (what came true less what was predicted) over predictions. Look for a bend or a funnel."
        figures.append(element("figure", None, drawn, element("figcaption", None, text)))
    else:
        across, upward = axis_over([0.0, *errors["within"]], MARGIN), Axis(0.0, 1.0)
        line = svg.curve_line(errors["within"], errors["share"], (across, upward), "line out-0")
        parts = (*_axes(across, upward, "error of at most →"), svg.stretched(line))
        drawn = svg.chart(
            "Share of rows by the size of their error", HEIGHT, (16, 14, 40, 58), *parts, name="residuals"
        )
        figures.append(
            element("figure", None, drawn, element("figcaption", None, "Share of rows by the size of their error."))
        )
    shown = [0.5, 0.8, 0.9, 0.95]
    listed = [
        (f"{share_text(share)} of the errors are within", number_text(within, 3))
        for share, within in zip(errors["share"], errors["within"], strict=True)
        if any(abs(share - one) < 1e-9 for one in shown)
    ]
    return element("div", {"class": "figures"}, *figures, element("div", None, facts(listed)))


def _axes(across: Axis, upward: Axis, name: str) -> tuple[Markup, Markup, Markup]:
    ticks = upward.ticks(5)
    below = svg.bottom_axis(across, across.fitting(svg.NARROW * 0.55, 4), HEIGHT)
    return svg.left_axis(upward, ticks), below, svg.label("100%", HEIGHT + 34, name, "end")


def _chooser(name: str, label: str, low: int, high: int, at: int) -> Markup:
    slider = element("input", {"type": "range", "id": name, "min": low, "max": high, "value": at})
    labelled = element("label", None, element("span", None, label), " ", slider)
    return element("p", {"class": "chooser with-script"}, labelled, element("output", {"id": f"{name}-says"}))
