"""How good predictions are: calibration, ROC curve and a threshold to choose, residuals, survival curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from sparsenam.codec import Plain
from sparsenam.explain.charts import Chart, Line, Mark
from sparsenam.explain.drawing import Axis, axis_over
from sparsenam.explain.explanation import Explanation
from sparsenam.explain.report.markup import Markup, element, facts, figure, joined, note, section, table
from sparsenam.explain.report.svg import draw, line, placed
from sparsenam.text import count_text, number_text, share_text, whole_text

ERRORS_HEIGHT = 220.0  # pixels
ERRORS_MARGIN = 0.05  # of the range of what is drawn
SHARE = Axis(0.0, 1.0)
DIAGONAL = Line((0.0, 1.0), (0.0, 1.0), None)
RATIOS = {0.5: "half the hazard", 1.0: "the average row", 2.0: "twice the hazard"}
MOMENTS = 5  # times of the table of survival
LISTED = (0.5, 0.8, 0.9, 0.95)  # shares of the errors


def performance(explanation: Explanation) -> Markup:
    """Return how predictions compare with the target; nothing where that was not measured."""
    known: Plain | None = explanation.card.get("performance")
    if not known:
        return joined(())
    stale = " The figures are those of the model before its edits." if explanation.edits else ""
    text = f"Measured on {whole_text(known['rows'])} {known['rows_are']}.{stale}"
    figures = _of_classes(known) if known["kind"] == "classes" else _of_numbers(known)
    return section("errors", "Errors", note(text), element("div", {"class": "figures"}, *figures))


def survival(explanation: Explanation) -> Markup:
    """Return survival curves of three rows that differ in their hazard, and a time to read them at."""
    baseline: dict[str, list[float]] | None = explanation.card.get("baseline")
    if not baseline or not baseline["times"]:
        return joined(())
    times, hazard = baseline["times"], baseline["hazard"]
    x = [0.0, *(time for time in times for _ in (0, 1))]  # a step at each time
    lines = [
        Line(x, [1.0, 1.0, *(math.exp(-ratio * height) for height in hazard for _ in (0, 1))][:-1], rank, name)
        for rank, (ratio, name) in enumerate(RATIOS.items())
    ]
    title = "Survival over time of rows that differ in their hazard"
    drawn = draw(Chart(title, axis_over([0.0, *times]), SHARE, ("time →", ""), lines), "curves", ERRORS_HEIGHT)
    keys = [
        element("svg", {"class": "key", "aria-hidden": "true"}, line(0, 7, 34, 7, f"line out-{one.pen}"))
        for one in lines
    ]
    legend = [element("li", None, key, f" {one.name}") for key, one in zip(keys, lines, strict=True)]
    text = "Share without the event over time, for the average row and for rows of half and of twice its hazard."
    curves = figure(joined((drawn, element("ul", {"class": "legend"}, *legend))), text)
    beside = element("div", None, _chooser("time", "Time", len(times) - 1), _moments(times, hazard))
    return section("survival", "Survival", element("div", {"class": "figures"}, curves, beside))


def _moments(times: Sequence[float], hazard: Sequence[float]) -> Markup:
    chosen = sorted({round((len(times) - 1) * step / MOMENTS) for step in range(1, MOMENTS + 1)})
    rows = [
        (number_text(times[index]), *(share_text(math.exp(-ratio * hazard[index])) for ratio in RATIOS))
        for index in chosen
    ]
    return table("Share without the event", ("Time", *RATIOS.values()), rows, range(1, 4))


def _of_classes(known: Plain) -> list[Markup]:
    """Return calibration, and the ROC curve with a threshold to choose where the rows are known."""
    found, name = known["calibration"], str(known["of"])
    marks = [
        Mark(x, y, 0, f"predicted {share_text(x)}, observed {share_text(y)}, {count_text(int(count), 'row')}")
        for x, y, count in zip(found["predicted"], found["observed"], found["counts"], strict=True)
    ]
    lines = (DIAGONAL, Line(found["predicted"], found["observed"]))
    chart = Chart("Calibration", SHARE, SHARE, ("predicted →", ""), lines, marks=marks)
    text = (
        f"Calibration of {name!r}: observed share (upward) against predicted probability. On the grey line they agree."
    )
    figures = [figure(draw(chart, "calibration", ERRORS_HEIGHT), text)]
    if "thresholds" not in known:
        return figures
    right, wrong = known["thresholds"]["right"], known["thresholds"]["wrong"]
    positive, negative = max(int(known["positive"]), 1), max(int(known["rows"]) - int(known["positive"]), 1)
    x, y = [*(b / negative for b in wrong), 0.0], [*(a / positive for a in right), 0.0]
    area = sum((x1 - x2) * (y1 + y2) / 2 for (x1, y1), (x2, y2) in pairwise(zip(x, y, strict=True)))
    chart = Chart("ROC curve", SHARE, SHARE, ("false positive rate →", ""), (DIAGONAL, Line(x, y)))
    dot = placed(element("circle", {"class": "dot out-1", "r": 5}), name="threshold-dot", hidden=True)
    text = (
        f"ROC curve: true positive rate of {name!r} (upward) against false positive rate. Area "
        f"{number_text(area, 3)}: 1 is perfect, 0.5 is chance."
    )
    chooser = _chooser("threshold", f"Call {name!r} from", len(right) - 1)
    return [*figures, figure(draw(chart, "roc", ERRORS_HEIGHT, dot), text, chooser)]


def _of_numbers(known: Plain) -> list[Markup]:
    """Return residuals over predictions, or how large errors are where the rows are not known, and some as numbers."""
    errors = known["errors"]
    if "points" in known:
        x, y = known["points"]["predicted"], known["points"]["residual"]
        across, upward = axis_over(x, ERRORS_MARGIN), axis_over([0.0, *y], ERRORS_MARGIN)
        dots = [
            element("circle", {"class": "point", "r": 2.5, "cx": across.percent(a), "cy": upward.percent(b, down=True)})
            for a, b in zip(x, y, strict=True)
        ]
        chart = Chart("Residuals over predictions", across, upward, ("predicted →", ""))
        text = "Residuals (observed minus predicted) over predictions. Look for a bend or a funnel."
        drawn = figure(draw(chart, "residuals", ERRORS_HEIGHT, *dots, left=70.0), text)
    else:
        text, lines = "Share of rows by the size of their error", (Line(errors["within"], errors["share"]),)
        chart = Chart(
            text, axis_over([0.0, *errors["within"]], ERRORS_MARGIN), SHARE, ("error of at most →", ""), lines
        )
        drawn = figure(draw(chart, "residuals", ERRORS_HEIGHT), f"{text}.")
    listed = [
        (f"{share_text(share)} of the errors are within", number_text(within, 3))
        for share, within in zip(errors["share"], errors["within"], strict=True)
        if any(abs(share - one) < 1e-9 for one in LISTED)
    ]
    return [drawn, element("div", None, facts(listed))]


def _chooser(name: str, label: str, high: int) -> Markup:
    """Return a slider from 0 to ``high`` that the script reads, and the place for its result."""
    middle = (high + 1) // 2
    slider = element("input", {"type": "range", "id": name, "min": 0, "max": high, "value": middle})
    labelled = element("label", None, element("span", None, label), " ", slider)
    return element("p", {"class": "chooser with-script"}, labelled, element("output", {"id": f"{name}-says"}))
