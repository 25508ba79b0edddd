"""An explanation as it is printed: what is kept, the largest effect first, what is dropped and why, what to know."""

from __future__ import annotations

from sparsenam.explain.explanation import Explanation
from sparsenam.explain.shapes import kept_text
from sparsenam.text import FindingTable, abbreviations, number_text, share_text

TABLE_WIDTH = 80  # characters of a line of the table, into which long names are shortened
SHORTEST_NAME = 16
MOST_NEAR_NAMED = 20  # columns that the penalty dropped, named in one line
LEGEND = {
    "mean size": "mean absolute effect",
    "range": "largest less smallest effect",
    "entered": "order of entry",
    "in folds": "share of folds that keep it",
    "in halves": "share of half-samples that keep it",
}


def in_words(explanation: Explanation) -> str:
    """Return an explanation as lines of text."""
    card, dropped, lines = explanation.card, explanation.dropped, list[str]()
    if explanation.target is not None:
        rows = "" if card.get("rows") is None else f", {card['rows']} rows"
        lines.append(f"{explanation.task} of {explanation.target} ({card.get('family')}{rows})")
    lines.append(f"{kept_text(explanation)} kept; effects are in {explanation.units}.")
    if explanation.explained is not None:
        fitted = ", before the edits" if explanation.edits else ""
        lines.append(f"Explained in rows held out{fitted}: {explanation.explained} of the loss.")
        lines += [explanation.worth_of_pairs] if explanation.worth_of_pairs else []
    scores: dict[str, float | None] = card.get("scores") or {}
    lines += [f"{name}: {number_text(value)}" for name, value in scores.items()]
    lines += [f"edited {edit.sentence}" for edit in explanation.edits]
    if explanation.features:
        table = _kept(explanation)
        meanings = "; ".join(f"{head}: {LEGEND[head]}" for head in table.heads if head in LEGEND)
        lines += [str(table), meanings]
    near = [f"{column.name} {column.slack:.2f}" for column in dropped if column.by_penalty]
    if near:
        more = f" and {len(near) - MOST_NEAR_NAMED} more" if len(near) > MOST_NEAR_NAMED else ""
        shown = ", ".join(near[:MOST_NEAR_NAMED])
        lines.append(f"dropped, with the share of the gradient that would let each in: {shown}{more}")
    lines += [f"dropped {column.name}: {column.reason}" for column in dropped if not column.by_penalty]
    return "\n".join([*lines, *(f"note: {sentence}" for sentence in explanation.notes)])


def _kept(explanation: Explanation) -> FindingTable:
    """Return columns and pairs as a table, without what is not known of any of them."""
    kept = explanation.features
    parts = [*kept, *explanation.pairs]
    cells = {
        "kind": [*(column.kind_and_form for column in kept), *("pair" for _ in explanation.pairs)],
        "mean size": [number_text(part.mean_absolute) for part in parts],
        "range": [number_text(part.variation) for part in parts],
        "entered": ["" if column.entry is None else str(column.entry) for column in kept],
        "in folds": ["" if column.kept_in is None else share_text(column.kept_in) for column in kept],
        "in halves": ["" if column.stability is None else share_text(column.stability) for column in kept],
    }
    shown = {head: [*column, *[""] * (len(parts) - len(column))] for head, column in cells.items() if any(column)}
    taken = sum(2 + max(map(len, (head, *column))) for head, column in shown.items())
    names = abbreviations([part.name for part in parts], max(TABLE_WIDTH - 2 - taken, SHORTEST_NAME))
    rows = list(zip(names, *shown.values(), strict=True))
    order = sorted(range(len(parts)), key=lambda place: -parts[place].mean_absolute)
    return FindingTable("Kept, the largest effect first", ("kept", *shown), tuple(rows[place] for place in order))
