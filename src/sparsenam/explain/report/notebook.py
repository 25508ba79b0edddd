"""A model at a glance, for a notebook: a sentence, and a table of what is kept with a small drawing of each shape."""

from __future__ import annotations

import numpy as np

from sparsenam.explain.charts import shape_chart
from sparsenam.explain.explanation import Explanation, Feature
from sparsenam.explain.report.markup import Markup, element, name_element, table
from sparsenam.explain.report.svg import polyline
from sparsenam.explain.shapes import kept_text, named_outputs
from sparsenam.text import number_text, share_text, shorten

SKETCH_WIDTH, SKETCH_HEIGHT = 120.0, 28.0  # pixels of a small drawing
HALF_BAR = 0.4  # of the room of a level
MOST_TABLE_ROWS = 25  # rows of the table
MOST_COLUMN_NAMES = 10  # of columns in a sentence
STYLE = (
    ".sparsenam table { border-collapse: collapse; } .sparsenam caption { text-align: left; } "
    ".sparsenam th, .sparsenam td { text-align: left; padding: 0.2rem 0.8rem; font-weight: 400; } "
    ".sparsenam .number { text-align: right; } .sparsenam svg { display: block; overflow: visible; } "
    ".sparsenam path, .sparsenam line { fill: none; stroke: currentColor; stroke-width: 1.6; } "
    ".sparsenam line { stroke-width: 0.5; opacity: 0.6; } .sparsenam rect { fill: currentColor; opacity: 0.7; }"
)


def at_a_glance(explanation: Explanation) -> Markup:
    """Return the explanation as a fragment of a page that needs no script and takes the colours around it."""
    features = explanation.features[:MOST_TABLE_ROWS]
    total = sum(part.mean_absolute for part in (*explanation.features, *explanation.pairs)) or 1.0
    output = named_outputs(explanation, None, 1)[0]
    rows = [
        (
            name_element(feature.name),
            number_text(feature.mean_absolute, 3),
            share_text(feature.mean_absolute / total),
            small_shape(feature, output),
            feature.reason,
        )
        for feature in features
    ]
    rows += [
        (name_element(pair.name), number_text(pair.mean_absolute, 3), share_text(pair.mean_absolute / total), "", "")
        for pair in explanation.pairs[: MOST_TABLE_ROWS - len(features)]
    ]
    drawn = "Shape" if len(explanation.outputs) == 1 else f"Shape for {shorten(explanation.outputs[output])}"
    listed = table(f"Effects in {explanation.units}", ("Kept", "Importance", "Share", drawn, "Why"), rows, (1, 2))
    lead = element("p", None, headline(explanation))
    return element("div", {"class": "sparsenam"}, element("style", None, Markup(STYLE)), lead, listed)


def headline(explanation: Explanation) -> str:
    """Return what is kept, dropped and explained, in a sentence or two."""
    text = f"Keeps {kept_text(explanation)}."
    if explanation.explained is None:
        return text
    return f"{text} Explains {explanation.explained} of the held-out loss. {explanation.worth_of_pairs}".rstrip()


def kept_in_words(explanation: Explanation) -> str:
    """Return the sentence with the names of the most important columns, for a terminal."""
    names = [feature.name for feature in explanation.features]
    more = f" and {len(names) - MOST_COLUMN_NAMES} more" if len(names) > MOST_COLUMN_NAMES else ""
    return f"{headline(explanation)} Kept: {', '.join(names[:MOST_COLUMN_NAMES]) or 'none'}{more}."


def small_shape(feature: Feature, output: int) -> Markup:
    """Return the curve or the bars of one output without labels, over a line at zero."""
    chart = shape_chart(feature, [output], whole=True)

    def across(x: float) -> float:
        return SKETCH_WIDTH * chart.across.fraction(x)

    def down(y: float) -> float:
        return SKETCH_HEIGHT * (1.0 - min(max(chart.upward.fraction(y), 0.0), 1.0))

    drawn = [element("line", {"x1": 0.0, "y1": down(0.0), "x2": SKETCH_WIDTH, "y2": down(0.0)})]
    bars = [(float(place), bar.stop) for place, bar in enumerate(chart.bars)]
    for x, y in bars + [(mark.x, mark.y) for mark in chart.marks if chart.names]:
        left, (top, bottom) = across(x - HALF_BAR), sorted((down(0.0), down(np.nan_to_num(y).item())))
        size = {"width": across(x + HALF_BAR) - left, "height": bottom - top}
        drawn.append(element("rect", {"x": left, "y": top, **size}))
    for line in chart.lines:
        drawn.append(polyline([(across(x), down(y)) for x, y in zip(line.x, line.y, strict=True)], "curve"))
    size = {"width": SKETCH_WIDTH, "height": SKETCH_HEIGHT, "role": "img", "aria-label": f"Shape of {feature.name}"}
    return element("svg", size, *drawn)
