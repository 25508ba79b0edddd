"""The parts of the report that are about the whole model: summary, kept, dropped, selection, model card."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from sparsenam.explain.report.markup import Markup, element, joined
from sparsenam.explain.report.reading import mapping_of, number_of
from sparsenam.explain.report.records import Feature, Record
from sparsenam.explain.report.selection_charts import path_drawing, trials_drawing
from sparsenam.explain.report.svg import rectangle
from sparsenam.explain.report.tables import facts, name_element, settings_table, table, value_text
from sparsenam.explain.report.words import NOTHING, count_words, number_words

MOST_HISTORY = 12


def section(identifier: str, title: str, *children: str) -> Markup:
    """Return one part of the report with its heading."""
    heading = element("h2", {"id": f"{identifier}-title"}, title)
    return element("section", {"id": identifier, "aria-labelledby": f"{identifier}-title"}, heading, *children)


def summary(record: Record) -> Markup:
    """Return what the model is, in a sentence and a few facts."""
    kept, dropped = len(record.features), len(record.dropped)
    strongest = [name_element(feature.name) for feature in record.features[:3]]
    words: list[str] = [f"The model keeps {kept} of {count_words(kept + dropped, 'column')}."]
    if strongest:
        words.append(" Strongest: ")
        words += [part for name in strongest for part in (name, ", ")][:-1]
        words.append(".")
    sentence = element("p", {"class": "lead"}, *words)
    return section("summary", "Summary", sentence, facts(_summary_facts(record)), _scores(record))


def _summary_facts(record: Record) -> list[tuple[str, str]]:
    card = record.card
    pairs = [("Task", record.task)]
    if record.target is not None:
        pairs.append(("Target", record.target))
    pairs += [
        ("Rows", _whole_words(card.get("rows"))),
        ("Columns", value_text(card.get("columns"))),
        ("Kept", f"{len(record.features)} of {len(record.features) + len(record.dropped)}"),
        ("Effects are in", record.units or NOTHING),
    ]
    if len(record.outputs) > 1:
        pairs.append(("Outputs", value_text(record.outputs)))
    intercepts = [number_words(value) for value in record.intercept]
    named = zip(record.outputs, intercepts, strict=True)
    text = intercepts[0] if len(intercepts) == 1 else ", ".join(f"{name}: {value}" for name, value in named)
    pairs.append(("Intercept", text))
    return pairs


def _scores(record: Record) -> Markup:
    scores = record.card.get("scores")
    if not isinstance(scores, Mapping):
        return joined(())
    pairs = [(str(name), value_text(value)) for name, value in cast("Mapping[object, object]", scores).items()]
    return joined((element("h3", None, "Scores"), facts(pairs)))


def kept(record: Record) -> Markup:
    """Return the kept columns with a bar for the importance of each."""
    largest = max((_finite(feature.importance) for feature in record.features), default=0.0)
    total = sum(_finite(feature.importance) for feature in record.features)
    heads = ("Column", "Importance", "", "Share", "Variation", "Norm", "Entered", "Why")
    if not any(feature.reason for feature in record.features):
        heads = heads[:-1]
    rows = [
        _kept_row(place, feature, largest, total)[: len(heads)] for place, feature in enumerate(record.features)
    ]
    note = element(
        "p",
        {"class": "note"},
        "Importance is the mean absolute effect over the rows. Variation is its largest effect less its "
        "smallest. Norm is the size of the column's weights. Entered is its place on the path: 1 came first.",
    )
    listed = table("Kept columns, most important first", heads, rows, numbers=(2, 3, 4, 5, 6))
    return section("kept", f"Kept: {count_words(len(record.features), 'column')}", note, listed)


def _kept_row(place: int, feature: Feature, largest: float, total: float) -> tuple[str, ...]:
    size = _finite(feature.importance)
    attributes = {"viewBox": "0 0 100 10", "preserveAspectRatio": "none", "class": "meter", "aria-hidden": "true"}
    bar = element("svg", attributes, rectangle(0, 0, 100 * size / largest if largest > 0 else 0, 10, "bar"))
    return (
        element("a", {"href": f"#feature-{place}"}, name_element(feature.name)),
        bar,
        number_words(feature.importance, 3),
        f"{number_words(100 * size / total, 2)} %" if total > 0 else NOTHING,
        number_words(feature.variation, 3),
        number_words(feature.norm, 3),
        NOTHING if feature.entry is None else str(feature.entry),
        feature.reason or NOTHING,
    )


def dropped(record: Record) -> Markup:
    """Return the dropped columns with the reason of each."""
    if not record.dropped:
        return section("dropped", "Dropped: none", element("p", None, "The model uses every column."))
    with_slack = any(item.slack is not None for item in record.dropped)
    heads = ("Column", "Why", "Way to entering") if with_slack else ("Column", "Why")
    rows = [
        (name_element(item.name), item.reason or NOTHING, number_words(item.slack, 2))[: len(heads)]
        for item in record.dropped
    ]
    words = "A way of 1 means that the column is about to enter; near 0 it has nothing to add."
    note = (element("p", {"class": "note"}, words),) if with_slack else ()
    listed = table("Dropped columns", heads, rows, numbers=(2,))
    return section("dropped", f"Dropped: {count_words(len(record.dropped), 'column')}", *note, listed)


def selection(record: Record) -> Markup:
    """Return the cross-validation curve and the path; nothing when there is neither."""
    figures: list[Markup] = []
    if len(record.trials) > 1:
        words = "Mean held-out loss with its standard error: lower is better. On top: columns kept."
        figures.append(_figure(trials_drawing(record), words))
    if record.path is not None and len(record.path.alphas) > 1:
        alpha = record.card.get("alpha")
        taken = None if alpha is None else number_of(alpha, "card, alpha")
        words = "Norm of each column as the penalty grows weaker. The largest are named."
        figures.append(_figure(path_drawing(record.path, taken), words))
    if not figures:
        return joined(())
    return section("selection", "How much to keep", element("div", {"class": "figures"}, *figures))


def model_card(record: Record) -> Markup:
    """Return the facts that let a reader judge and repeat the fit."""
    card = record.card
    seconds = card.get("seconds")
    time = NOTHING if seconds is None else f"{number_words(number_of(seconds, 'card, seconds'), 3)} s"
    pairs = [
        ("Estimator", value_text(card.get("estimator"))),
        ("Rows × columns", f"{_whole_words(card.get('rows'))} × {value_text(card.get('columns'))}"),
        ("Penalty weight α", value_text(card.get("alpha"))),
        ("Link", record.link),
        ("Time to fit", time),
        ("Made", value_text(card.get("created"))[:16].replace("T", " ")),
    ]
    without = element("p", {"class": "note"}, "No certificate of optimality was given.")
    certificate = without if card.get("certificate") is None else _part(card, "certificate", "Certificate")
    second = element("div", None, _part(card, "versions", "Versions"), certificate)
    parts = element("div", {"class": "tables"}, _part(card, "settings", "Settings"), second)
    return section("card", "Model card", facts(pairs), parts, _history(record))


def _part(card: Mapping[str, object], key: str, caption: str) -> Markup:
    value = card.get(key)
    return joined(()) if value is None else settings_table(caption, mapping_of(value, f"card, {key}"))


def _history(record: Record) -> Markup:
    if not record.history:
        return joined(())
    heads = list(dict.fromkeys(key for item in record.history[-MOST_HISTORY:] for key in item))
    rows = [[value_text(item.get(head)) for head in heads] for item in record.history[-MOST_HISTORY:]]
    count = len(record.history)
    caption = f"Training, last {len(rows)} of {count} records" if count > len(rows) else "Training"
    return table(caption, heads, rows)


def _figure(drawn: Markup, words: str) -> Markup:
    return element("figure", None, drawn, element("figcaption", None, words))


def _whole_words(value: object) -> str:
    return number_words(number_of(value, "card"), 12)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
