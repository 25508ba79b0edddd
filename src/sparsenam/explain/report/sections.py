"""The parts of the report: summary, kept columns, shapes, single rows, dropped columns, selection, model card."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sparsenam.explain.charts import loss_chart, path_chart, shown_output, waterfall
from sparsenam.explain.explanation import Explanation, Feature, Level, Pair
from sparsenam.explain.local import Contribution, LocalExplanation, RowExplanation, describe_effect
from sparsenam.explain.report.drawings import draw_shape, waterfall_chart
from sparsenam.explain.report.markup import (
    Markup,
    card,
    check,
    element,
    facts,
    figure,
    in_numbers,
    joined,
    labelled,
    name_element,
    note,
    section,
    select,
    setting_text,
    settings_table,
    some,
    table,
)
from sparsenam.explain.report.svg import PENS, UNITS, draw, mark, placed, rectangle, stretched
from sparsenam.explain.shapes import drawn_levels, has_levels, kept_text, levels_note
from sparsenam.text import (
    MISSING,
    NOTHING,
    SURVIVAL_UNITS,
    Finding,
    count_text,
    number_text,
    prediction_label,
    ratio_text,
    share_text,
    signed_text,
    value_text,
    whole_text,
)

MOST_HISTORY = 12
MOST_TEXTS = 12  # sentences below a waterfall
OPTIONAL = {  # columns of the table of what is kept that not every fit has, and what they are
    "In folds": " In folds is the share of the folds, each fitted without some rows, that keep the column too.",
    "In halves": " In halves is the share of random halves of the rows that keep it.",
    "Why": "",
}
TABLE_POINTS = 9  # rows of a curve's table
MOST_LEVEL_ROWS = 500  # rows of a table of levels
CHOICE_HEIGHT = 200.0  # pixels of the cross-validation curve and the path
ABOUT_RATIOS = (
    "An effect of +0.69 doubles the hazard, one of \N{MINUS SIGN}0.69 halves it: the hazard ratio, compared with "
    "the average row, is e to the power of the effect. "
)
ABOUT_BANDS = (
    "The dark band about a curve holds the true curve at 95 % of its points, the light one all of it in 95 of 100 "
    "studies like this one; thin lines on bars are the same for levels. "
)


def summary(explanation: Explanation) -> Markup:
    """Return what the model is, in a sentence and a few facts."""
    features, card = explanation.features, explanation.card
    count = len(features) + len(explanation.dropped)
    lead: list[str] = [f"The model keeps {kept_text(explanation)}.", f" {explanation.worth_of_pairs}".rstrip()]
    if features:
        names = [part for feature in features[:3] for part in (name_element(feature.name), ", ")]
        lead += [" Strongest: ", *names[:-1], "."]
    if explanation.edits:
        changes = element("a", {"href": "#edits"}, count_text(len(explanation.edits), "change"))
        lead += [" It was edited after the fit: ", changes, "."]
    fitted = _fitted(explanation)
    pairs = [
        ("Task", str(explanation.task)),
        ("Target", explanation.target),
        ("Rows", _whole(card.get("rows"))),
        ("Columns", setting_text(card.get("columns"))),
        ("Kept", f"{len(features)} of {count}"),
        ("Effects are in", explanation.units or NOTHING),
        ("Pairs", str(len(explanation.pairs)) if explanation.pairs else None),
        (f"Held-out loss explained{fitted}", explanation.explained),
        ("Outputs", setting_text(explanation.outputs) if len(explanation.outputs) > 1 else None),
    ]
    if explanation.task != "survival":  # there it is part of the baseline hazard
        pairs.append(("Intercept", _by_output(explanation.outputs, explanation.intercept, 4)))
    scores: dict[str, float | None] = card.get("scores") or {}
    listed = [(name, setting_text(value)) for name, value in scores.items()]
    below = (element("h3", None, f"Scores{fitted}"), facts(listed)) if listed else ()
    parts = (element("p", {"class": "lead"}, *lead), _notes(explanation), facts(pairs), *below)
    return section("summary", "Summary", *parts)


def _fitted(explanation: Explanation) -> str:
    """Return what to add to a heading about the fit and not about an edited model."""
    return ", before the edits" if explanation.edits else ""


def _notes(explanation: Explanation) -> Markup:
    if not explanation.notes:
        return joined(())
    listed = [element("li", None, sentence) for sentence in explanation.notes]
    title = element("h3", None, "Before you trust the choice")
    return element("div", {"class": "notes", "role": "note"}, title, element("ul", None, *listed))


def kept(explanation: Explanation) -> Markup:
    """Return the kept columns and the pairs with a bar for the importance of each."""
    heads = ("Column", "Importance", "", "Share", "Variation", "Norm", "Entered", *OPTIONAL)
    parts: list[tuple[str, Feature | Pair]] = [
        *((f"#feature-{index}", feature) for index, feature in enumerate(explanation.features)),
        *((f"#pair-{index}", pair) for index, pair in enumerate(explanation.pairs)),
    ]
    sizes = {link: size if math.isfinite(size := part.mean_absolute) else 0.0 for link, part in parts}
    parts.sort(key=lambda part: -sizes[part[0]])
    rows = [_kept_row(link, part, sizes[link], max(sizes.values()), sum(sizes.values())) for link, part in parts]
    empty = {head for cell, head in enumerate(heads) if head in OPTIONAL and all(row[cell] == NOTHING for row in rows)}
    shown = [cell for cell, head in enumerate(heads) if head not in empty]
    text = (
        "Importance is the mean absolute effect over the rows. Variation is its largest effect less its "
        "smallest. Norm is the size of the column's weights. Entered is its rank on the path: 1 came first."
    )
    text += "".join(OPTIONAL[heads[cell]] for cell in shown if heads[cell] in OPTIONAL)
    if explanation.pairs:
        text += " A pair is what two columns do together beyond what either does alone."
    numbers = [place for place, cell in enumerate(shown) if place > 1 and heads[cell] != "Why"]
    caption = f"Kept columns{' and pairs' if explanation.pairs else ''}, most important first"
    listed = table(caption, [heads[cell] for cell in shown], [[row[cell] for cell in shown] for row in rows], numbers)
    return section("kept", f"Kept: {count_text(len(explanation.features), 'column')}", note(text), listed)


def _kept_row(link: str, part: Feature | Pair, size: float, largest: float, total: float) -> tuple[str, ...]:
    bar = stretched(rectangle(0, 0, UNITS * size / (largest or 1.0), 1, "bar"), rows=1.0)
    norm, entry, *shares = (
        (part.norm, part.entry, part.kept_in, part.stability) if isinstance(part, Feature) else (None,) * 4
    )
    return (
        element("a", {"href": link}, name_element(part.name)),
        element("svg", {"class": "meter", "aria-hidden": "true"}, bar),
        number_text(part.mean_absolute, 3),
        f"{number_text(100 * size / total, 2)} %" if total > 0 else NOTHING,
        number_text(part.variation, 3),
        number_text(norm, 3),
        NOTHING if entry is None else str(entry),
        *(NOTHING if share is None else share_text(share) for share in shares),
        part.reason or NOTHING,
    )


def shapes(explanation: Explanation, shown: Sequence[int]) -> Markup:
    """Return all shapes: one card for each kept column, with controls that only a script shows."""
    if not explanation.features:
        empty = element("p", None, "No column was kept: the prediction is the same for all.")
        return section("shapes", "Shapes", empty)
    with_script = (
        "Point at a drawing to read it; drag to zoom. With the keyboard: Tab to a drawing, arrows to move, "
        "+ and \N{MINUS SIGN} to zoom, 0 to reset, / to search."
    )
    has_bands = any(feature.curve and feature.curve.deviation for feature in explanation.features)
    text = note(
        f"Each drawing shows what a column adds to the score, in {explanation.units or 'units of the score'}. "
        "The grey bars below a curve show where the rows are; where there are hardly any, the curve is pale. ",
        ABOUT_RATIOS if explanation.task == "survival" else "",
        ABOUT_BANDS if has_bands and len(explanation.outputs) == 1 else "",
        element("span", {"class": "with-script"}, with_script),
    )
    cards = [_card(index, feature, explanation, shown) for index, feature in enumerate(explanation.features)]
    grid = element("div", {"class": "grid", "id": "grid"}, *cards)
    nothing = element("p", {"id": "nothing", "hidden": True}, "No column has this in its name.")
    controls, legend = _controls(explanation), _legend(explanation, shown)
    return section("shapes", "Shapes", text, controls, legend, grid, nothing)


def _controls(explanation: Explanation) -> Markup:
    search = {"type": "search", "id": "search", "autocomplete": "off", "spellcheck": "false"}
    orders = {"importance": "importance", "name": "name", "entry": "entry on the path"}
    if all(feature.entry is None for feature in explanation.features):
        del orders["entry"]
    parts = [labelled("Search", element("input", search)), select("Sort by", orders.items(), id="order")]
    if len(explanation.outputs) > 1:
        together = "all" if len(explanation.outputs) <= len(PENS) else f"the {len(PENS)} strongest"
        parts.append(select("Output", (together, *explanation.outputs), id="output"))
    if any(has_levels(feature) and feature.kind != "ordered" for feature in explanation.features):
        by_effect, by_count = {"given": "effect", "count": "frequency"}, {"given": "frequency", "effect": "effect"}
        by = by_effect if len(explanation.outputs) == 1 else by_count
        parts.append(select("Levels by", by.items(), id="levels"))
    parts += [check("Same scale for all", id="same"), element("span", {"id": "found", "role": "status"})]
    return element("div", {"class": "controls with-script", "role": "search"}, *parts)


def _legend(explanation: Explanation, shown: Sequence[int]) -> Markup:
    if len(explanation.outputs) < 2:
        return joined(())
    items: list[Markup] = []
    for rank, output in enumerate(shown):
        line = element("path", {"d": "M0 7H34", "class": f"line out-{rank}"})
        key = element("svg", {"class": "key", "aria-hidden": "true"}, line, placed(mark(rank), x=17, y=7))
        items.append(element("li", None, key, " ", element("bdi", None, explanation.outputs[output])))
    return element("ul", {"class": "legend", "id": "legend", "aria-label": "Outputs"}, *items)


def _card(index: int, feature: Feature, explanation: Explanation, shown: Sequence[int]) -> Markup:
    drawing = element("div", {"class": "shape"}, draw_shape(feature, shown, explanation))
    read_out = element("output", {"class": "readout with-script"})
    button = element("button", {"type": "button", "class": "reset", "hidden": True}, "Reset zoom")
    foot = element("div", {"class": "foot with-script"}, read_out, button)
    parts = (drawing, foot, _numbers(feature, explanation), _not_drawn(feature))
    return card(f"feature-{index}", [name_element(feature.name)], _facts(index, feature), *parts)


def _facts(index: int, feature: Feature) -> list[str]:
    importance = number_text(feature.mean_absolute, 3)
    parts: list[str] = [f"{feature.kind_and_form} · importance {importance} · rank {index + 1}"]
    if text := levels_note(feature):
        parts.append(f" · {text}")
    if feature.substitutes:
        strongest = sorted(feature.substitutes.items(), key=lambda item: -item[1])[:4]
        parts.append(" · could be replaced by ")
        for name, share in strongest:
            parts += [name_element(name), f" ({number_text(share, 2)} of its effect)", ", "]
        parts.pop()
    return parts


def _numbers(feature: Feature, explanation: Explanation) -> Markup:
    """Return the shape as a table, for readers who do not see the drawing."""
    outputs, ratios = explanation.outputs, explanation.task == "survival"
    effects = outputs if len(outputs) > 1 else ("Effect", "Hazard ratio") if ratios else ("Effect",)

    def effect_texts(effect: Sequence[float]) -> list[str]:
        return [*map(signed_text, effect), *([ratio_text(effect[0])] if ratios else [])]

    missing = () if feature.missing is None else (feature.missing,)
    if has_levels(feature):
        levels = (feature.levels or ())[:MOST_LEVEL_ROWS]
        listed = [*levels, *(Level(MISSING, cell.effect, cell.count) for cell in missing)]
        rows = [(level.name, *effect_texts(level.effect), whole_text(level.count)) for level in listed]
        heads, count = ("Level", *effects, "Rows"), len(feature.levels or ())
        drawn = f"; {len(drawn_levels(feature)) - len(missing)} drawn" if levels_note(feature) else ""
        caption = f"{count} levels{drawn}" + (
            f"; {count - MOST_LEVEL_ROWS} not listed" if count > MOST_LEVEL_ROWS else ""
        )
    else:
        curve = feature.curve
        assert curve is not None
        points = [(curve.x[index], curve.effect[index]) for index in some(len(curve.x), TABLE_POINTS)]
        rows = [(value_text(x, feature.kind), *effect_texts(effect)) for x, effect in points]
        rows += [(MISSING, *effect_texts(cell.effect)) for cell in missing]
        heads, caption = ("Value", *effects), "Effects at some values"
    return in_numbers(caption, heads, rows)


def _not_drawn(feature: Feature) -> Markup:
    """Return the levels without a bar in one paragraph, for paper, where the table is folded away."""
    drawn = set(drawn_levels(feature)) if has_levels(feature) else set(feature.levels or ())
    levels = [level for level in (feature.levels or ())[:MOST_LEVEL_ROWS] if level not in drawn]
    if not levels:
        return joined(())
    texts = [f"{level.name} {' / '.join(map(signed_text, level.effect))}" for level in levels]
    return element("p", {"class": "on-paper"}, f"Not drawn: {'; '.join(texts)}.")


def local_rows(local: LocalExplanation) -> Markup:
    """Return one card for each explained row: a waterfall, and the same as sentences."""
    start = "" if local.units == SURVIVAL_UNITS else "the intercept and "
    text = f"Each row's score is {start}what its cells add."
    if local.reference:
        text += f" Compared with {local.reference}."
    cards = [_row_card(row, local) for row in local.rows]
    return section("rows", "Single rows", note(text), element("div", {"class": "figures"}, *cards))


def _row_card(row: RowExplanation, local: LocalExplanation) -> Markup:
    output = shown_output(local, row)
    label = prediction_label(local.units, local.outputs)
    said = _by_output(local.outputs, row.prediction, 3)
    if label != "prediction" and said == "1" and row.prediction[0] < 1.0:
        said = "above 0.999"  # nothing is certain
    parts = [f"{label[0].upper()}{label[1:]}: {said}."]
    if len(local.outputs) > 1:
        parts.append(f" Drawn for {local.outputs[output]}, the output with the largest score.")
    listed = sorted(row.contributions, key=lambda part: -abs(part.effect[output]))[:MOST_TEXTS]
    texts = [element("li", None, _words(part, local, output)) for part in listed if part.text]
    return element(
        "article",
        {"class": "card"},
        element("h3", None, "Row ", element("bdi", {"class": "name"}, str(row.row))),
        element("p", {"class": "facts-line"}, *parts),
        waterfall_chart(waterfall(local, row, output)),
        element("ul", {"class": "texts"}, *texts),
    )


def _words(part: Contribution, local: LocalExplanation, output: int) -> str:
    """Return what a part adds to the output that is drawn, which may not be the one that it moves most."""
    if len(local.outputs) < 2:
        return part.text
    return f"{part.feature} = {part.value} {describe_effect(part.effect, local.outputs, output)}"


def dropped(explanation: Explanation) -> Markup:
    """Return the dropped columns with the reason of each."""
    columns = explanation.dropped
    if not columns:
        return section("dropped", "Dropped: none", element("p", None, "The model uses every column."))
    with_slack = any(column.slack is not None for column in columns)
    heads = ("Column", "Why", "Way to entering") if with_slack else ("Column", "Why")
    rows = [
        (name_element(column.name), column.reason or NOTHING, number_text(column.slack, 2))[: len(heads)]
        for column in columns
    ]
    text = "A way of 1 means that the column is about to enter; near 0 it has nothing to add."
    listed = table("Dropped columns", heads, rows, numbers=(2,))
    notes = (note(text),) if with_slack else ()
    return section("dropped", f"Dropped: {count_text(len(columns), 'column')}", *notes, listed)


def selection(explanation: Explanation) -> Markup:
    """Return the cross-validation curve and the path; nothing when there is neither."""
    figures: list[Markup] = []
    losses, path = loss_chart(explanation), path_chart(explanation, len(PENS))
    if losses is not None and len(losses.errors) > 1:
        text = "Mean held-out loss with its standard error: lower is better. On top: columns kept."
        figures.append(figure(draw(losses, "losses", CHOICE_HEIGHT), text))
    if path is not None and len(path.lines) and len(path.lines[0].x) > 1:
        text = "Norm of each column as the penalty grows weaker. The largest are named."
        figures.append(figure(draw(path, "path", CHOICE_HEIGHT), text))
    if not figures:
        return joined(())
    title = f"How much to keep{_fitted(explanation)}"
    return section("selection", title, element("div", {"class": "figures"}, *figures))


def finding_section(finding: Finding) -> Markup:
    """Return what was found out beside the explanation: a sentence in plain words, then tables."""
    tables = [table(each.caption, each.heads, each.rows, numbers=range(1, len(each.heads))) for each in finding.tables]
    identifier = finding.title.split()[-1].lower()
    return section(identifier, finding.title, element("p", None, finding.sentence), *tables, *map(note, finding.notes))


def model_card(explanation: Explanation) -> Markup:
    """Return the facts that let a reader judge and repeat the fit."""
    known = explanation.card
    seconds = known.get("seconds")
    pairs = [
        ("Estimator", setting_text(known.get("estimator"))),
        ("Rows × columns", f"{_whole(known.get('rows'))} × {setting_text(known.get('columns'))}"),
        ("Penalty weight α", setting_text(known.get("alpha"))),
        ("Family", setting_text(known.get("family"))),
        ("Link", explanation.link),
        ("Time to fit", NOTHING if seconds is None else f"{number_text(seconds, 3)} s"),
        ("Made", setting_text(known.get("created"))[:16].replace("T", " ")),
    ]
    certificate = settings_table(f"Certificate{_fitted(explanation)}", known.get("certificate"))
    second = (
        settings_table("Source of the rows", known.get("source")),
        settings_table("Versions", known.get("versions")),
        certificate or note("No certificate of optimality was given."),
    )
    parts = (settings_table("Settings", known.get("settings")), element("div", None, *second))
    return section(
        "card", "Model card", facts(pairs), element("div", {"class": "tables"}, *parts), _history(explanation)
    )


def _history(explanation: Explanation) -> Markup:
    """Return the last epochs of a network; nothing for Cox's model, which is the last of many small fits."""
    history = explanation.history[-MOST_HISTORY:]
    if not history or explanation.task == "survival":
        return joined(())
    known = dict.fromkeys(key for epoch in history for key in epoch if epoch[key] is not None)
    rows = [[setting_text(epoch.get(head)) for head in known] for epoch in history]
    heads = ["terms of columns" if head == "terms" else head.replace("_", " ") for head in known]
    count = len(explanation.history)
    last = f", last {len(rows)} of {count} epochs" if count > len(rows) else ""
    text = "The model may be that of an earlier epoch, where held-out rows were predicted best."
    return joined((table(f"Training of the network{last}", heads, rows), note(text)))


def _by_output(outputs: Sequence[str], values: Sequence[float], digits: int) -> str:
    texts = [number_text(value, digits) for value in values]
    if len(texts) == 1:
        return texts[0]
    return ", ".join(f"{name}: {text}" for name, text in zip(outputs, texts, strict=True))


def _whole(value: float | None) -> str:
    return NOTHING if value is None else whole_text(value)
