"""Explanations of single rows: a waterfall, and the same in words."""

from __future__ import annotations

from sparsenam.explain.report.local_records import LocalRecord, Row
from sparsenam.explain.report.markup import Markup, element
from sparsenam.explain.report.sections import section
from sparsenam.explain.report.waterfall import MOST_STEPS, waterfall_drawing
from sparsenam.explain.report.words import number_words


def local_rows(record: LocalRecord) -> Markup:
    """Return one card for each explained row."""
    words = "Each row's score is the intercept and what its cells add."
    if record.reference:
        words += f" Compared with {record.reference}."
    note = element("p", {"class": "note"}, words)
    cards = [_card(row, record) for row in record.rows]
    return section("rows", "Single rows", note, element("div", {"class": "figures"}, *cards))


def strongest_output(row: Row) -> int:
    """Return the output with the largest score: for classes the predicted one."""
    return max(range(len(row.score)), key=lambda output: row.score[output])


def _card(row: Row, record: LocalRecord) -> Markup:
    output = strongest_output(row)
    names = record.outputs if len(record.outputs) == len(row.prediction) else ()
    if len(row.prediction) == 1 or not names:
        prediction = ", ".join(number_words(value, 3) for value in row.prediction)
    else:
        prediction = ", ".join(
            f"{name}: {number_words(value, 3)}" for name, value in zip(names, row.prediction, strict=True)
        )
    parts = [f"Prediction: {prediction}."]
    if len(record.outputs) > 1:
        parts.append(f" Drawn for {record.outputs[output]}, the output with the largest score.")
    said = [element("li", None, item.words) for item in row.contributions[:MOST_STEPS] if item.words]
    heading = element("h3", None, "Row ", element("bdi", {"class": "name"}, row.label))
    chart = waterfall_drawing(row, output, record.units)
    words = element("ul", {"class": "words"}, *said)
    return element(
        "article", {"class": "card"}, heading, element("p", {"class": "facts-line"}, *parts), chart, words
    )
