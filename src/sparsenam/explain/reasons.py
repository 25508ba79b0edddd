"""Why a column is in the model or not, in words."""

from __future__ import annotations

from collections.abc import Mapping

from sparsenam.explain.explanation import Dropped
from sparsenam.explain.story import Story
from sparsenam.tables.columns import Column


def why_kept(story: Story, column: int, entry: int | None) -> str:
    """Return why a column is kept."""
    told, terms = story.table.columns[column], story.kept_terms(column)
    if all(term.kind == "missing" for term in terms):
        return _for_its_gaps(story, told)
    if told.name in story.asked:
        return "it was asked to stay, and is not penalised"
    if story.woken.intersection(term.name for term in terms):
        return "the convex choice dropped it, but the final residuals let it in"
    if story.alpha == 0.0:
        return "no penalty: every column stays"
    if entry is not None:
        return f"it was number {entry} to enter the path"
    return "its effect is worth the penalty"


def why_dropped(story: Story, column: int) -> Dropped:
    """Return a dropped column with the reason."""
    told = story.table.columns[column]
    names = [term.name for term in story.table.terms if term.column == column]
    if told.kind == "constant" and not names:
        return Dropped(told.name, f"constant: one single value ({told.levels[0]})")
    if names and all(name in story.summary.constant for name in names):
        return Dropped(told.name, "constant in the rows that count")
    slack = max((share for name in names if (share := slack_of(story, name)) is not None), default=None)
    twin = next((story.summary.twins[name] for name in names if name in story.summary.twins), None)
    if twin is not None:
        kept = {term.name for place in story.columns_kept for term in story.kept_terms(place)}
        too = "" if twin in kept else ", which is dropped too"
        return Dropped(told.name, f"equal to {twin!r} in every row, up to unit and sign{too}", slack)
    if slack is not None:
        return Dropped(told.name, f"its gradient is {slack:.2f} of the alpha at which it would enter", slack)
    if story.certificate is not None:
        return Dropped(told.name, "the convex problem kept it, but the training under the penalty switched it off")
    if story.threshold is not None:
        return Dropped(told.name, f"its mean absolute effect stayed within the threshold of {story.threshold:g}")
    return Dropped(told.name, "the penalty switched its sub-network off")


def slack_of(story: Story, term: str) -> float | None:
    """Return the certified share of the gradient at which a term, or its group, would enter."""
    slack: Mapping[str, float] = {} if story.certificate is None else story.certificate.slack
    if term in slack:
        return slack[term]
    return next((share for name, share in slack.items() if term in name.split(" + ")), None)


def _for_its_gaps(story: Story, told: Column) -> str:
    others = [own.name for own in story.table.columns if own.missing_term == told.missing_term and own != told]
    shared = f" ({', '.join(map(repr, others))} missing in the same rows)" if others else ""
    return f"its values do not matter, its missing cells do{shared}"
