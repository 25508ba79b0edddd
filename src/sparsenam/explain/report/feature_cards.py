"""The shapes: one card for each kept column, with controls that only a script shows."""

from __future__ import annotations

from collections.abc import Sequence

from sparsenam.explain.report.markup import Markup, element, joined
from sparsenam.explain.report.records import Curve, Feature, Record
from sparsenam.explain.report.sections import section
from sparsenam.explain.report.shapes import MOST_LEVELS, drawn_levels, has_bars, shape_drawing
from sparsenam.explain.report.svg import MARKS, mark
from sparsenam.explain.report.tables import name_element, table
from sparsenam.explain.report.words import number_words, signed_words, value_words

PLACES = 9  # rows of a curve's table
MOST_ROWS = 500  # rows of a table of levels


def shown_outputs(record: Record) -> tuple[int, ...]:
    """Return the outputs that are drawn at first: at most as many as there are colours, those with most effect."""
    sizes = [0.0] * len(record.outputs)
    for feature in record.features:
        points = feature.curve.effects if feature.curve is not None else [level.effects for level in feature.levels]
        for output in range(len(sizes)):
            finite = [effects[output] for effects in points if effects[output] == effects[output]]
            sizes[output] += max(finite, default=0.0) - min(finite, default=0.0)
    return tuple(sorted(sorted(range(len(sizes)), key=lambda output: -sizes[output])[:MARKS]))


def shapes(record: Record, shown: Sequence[int]) -> Markup:
    """Return the section of all shapes."""
    if not record.features:
        return section(
            "shapes", "Shapes", element("p", None, "No column was kept: the prediction is the same for all.")
        )
    words = f"Each drawing shows what a column adds to the score, in {record.units or 'units of the score'}. "
    note = element(
        "p",
        {"class": "note"},
        words + "The grey bars below a curve show where the rows are. ",
        element(
            "span",
            {"class": "with-script"},
            "Point at a drawing to read it; drag to zoom. With the keyboard: Tab to a drawing, arrows to move, "
            "+ and \N{MINUS SIGN} to zoom, 0 to reset, / to search.",
        ),
    )
    cards = [_card(place, feature, record, shown) for place, feature in enumerate(record.features)]
    grid = element("div", {"class": "grid", "id": "grid"}, *cards)
    nothing = element("p", {"id": "nothing", "hidden": True}, "No column has this in its name.")
    return section("shapes", "Shapes", note, _controls(record), _legend(record, shown), grid, nothing)


def _controls(record: Record) -> Markup:
    search = {"type": "search", "id": "search", "autocomplete": "off", "spellcheck": "false"}
    orders = (("importance", "importance"), ("name", "name"), ("entry", "entry on the path"))
    if all(feature.entry is None for feature in record.features):
        orders = orders[:2]
    choices = [element("option", {"value": value}, words) for value, words in orders]
    parts = [
        element("label", None, element("span", None, "Search"), element("input", search)),
        element("label", None, element("span", None, "Sort by"), element("select", {"id": "order"}, *choices)),
    ]
    if len(record.outputs) > 1:
        together = "all" if len(record.outputs) <= MARKS else f"the {MARKS} strongest"
        options = [element("option", {"value": "shown"}, together)]
        options += [element("option", {"value": place}, name) for place, name in enumerate(record.outputs)]
        select = element("select", {"id": "output"}, *options)
        parts.append(element("label", None, element("span", None, "Output"), select))
    same = element("input", {"type": "checkbox", "id": "same"})
    parts.append(element("label", {"class": "check"}, same, element("span", None, "Same scale for all")))
    parts.append(element("span", {"id": "found", "role": "status"}))
    return element("div", {"class": "controls with-script", "role": "search"}, *parts)


def _legend(record: Record, shown: Sequence[int]) -> Markup:
    if len(record.outputs) < 2:
        return joined(())
    items: list[Markup] = []
    for place, output in enumerate(shown):
        line = element("path", {"d": "M0 7H34", "class": f"line out-{place}"})
        key = element(
            "svg", {"viewBox": "0 0 34 14", "class": "key", "aria-hidden": "true"}, line, mark(17, 7, place)
        )
        items.append(element("li", None, key, " ", element("bdi", None, record.outputs[output])))
    return element("ul", {"class": "legend", "id": "legend", "aria-label": "Outputs"}, *items)


def _card(place: int, feature: Feature, record: Record, shown: Sequence[int]) -> Markup:
    heading = element("h3", {"id": f"feature-{place}-name"}, name_element(feature.name))
    drawing = element("div", {"class": "shape", "data-feature": place}, shape_drawing(feature, shown, record.units))
    read_out = element("output", {"class": "readout with-script"})
    button = element("button", {"type": "button", "class": "reset", "hidden": True}, "Reset zoom")
    attributes = {
        "class": "card",
        "id": f"feature-{place}",
        "aria-labelledby": f"feature-{place}-name",
    }
    foot = element("div", {"class": "foot with-script"}, read_out, button)
    return element("article", attributes, heading, _facts(place, feature), drawing, foot, _numbers(feature, record))


def _facts(place: int, feature: Feature) -> Markup:
    parts: list[str] = [f"{feature.kind} · importance {number_words(feature.importance, 3)} · rank {place + 1}"]
    if has_bars(feature) and len(feature.levels) > MOST_LEVELS:
        parts.append(f" · the {MOST_LEVELS} most frequent of {len(feature.levels)} levels")
    if feature.stand_ins:
        strongest = sorted(feature.stand_ins.items(), key=lambda item: -item[1])[:4]
        parts.append(" · could be replaced by ")
        for name, share in strongest:
            parts += [name_element(name), f" ({number_words(share, 2)} of its effect)", ", "]
        parts.pop()
    return element("p", {"class": "facts-line"}, *parts)


def _numbers(feature: Feature, record: Record) -> Markup:
    """Return the shape as a table, for readers who do not see the drawing."""
    effects = record.outputs if len(record.outputs) > 1 else ("Effect",)
    if has_bars(feature):
        levels = (*feature.levels[:MOST_ROWS], *(() if feature.missing is None else (feature.missing,)))
        rows = [
            (level.name, *(signed_words(effect) for effect in level.effects), number_words(float(level.count), 7))
            for level in levels
        ]
        heads, numbers = ("Level", *effects, "Rows"), range(1, len(effects) + 2)
        left = len(feature.levels) - MOST_ROWS
        drawn = f"; {MOST_LEVELS} drawn" if len(feature.levels) > MOST_LEVELS else ""
        caption = f"{len(feature.levels)} levels{drawn}" + (f"; {left} not listed" if left > 0 else "")
    else:
        assert feature.curve is not None
        rows = [
            (value_words(x, feature.kind), *(signed_words(effect) for effect in point))
            for x, point in places_of(feature.curve)
        ]
        if feature.missing is not None:
            rows.append(("missing", *(signed_words(effect) for effect in feature.missing.effects)))
        heads, numbers, caption = ("Value", *effects), range(1, len(effects) + 1), "Effects at some values"
    summary = element("summary", None, "Numbers")
    details = element("details", {"class": "numbers"}, summary, table(caption, heads, rows, tuple(numbers)))
    return joined((details, _not_drawn(feature)))


def _not_drawn(feature: Feature) -> Markup:
    """Return the levels without a bar in one paragraph, for paper, where the table is folded away."""
    drawn = set(drawn_levels(feature))
    levels = [level for level in feature.levels[:MOST_ROWS] if level not in drawn]
    if not levels or not has_bars(feature):
        return joined(())
    words = [f"{level.name} {' / '.join(signed_words(effect) for effect in level.effects)}" for level in levels]
    return element("p", {"class": "on-paper"}, f"Not drawn: {'; '.join(words)}.")


def places_of(curve: Curve) -> list[tuple[float, tuple[float, ...]]]:
    """Return some points of the curve, ends included, evenly spread over its points."""
    last = len(curve.x) - 1
    count = min(PLACES, last + 1)
    chosen = sorted({round(step * last / max(count - 1, 1)) for step in range(count)})
    return [(curve.x[place], curve.effects[place]) for place in chosen]
