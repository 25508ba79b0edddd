"""Tables and lists of the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from sparsenam.explain.report.markup import Markup, element, joined
from sparsenam.explain.report.words import NOTHING, number_words

MOST_ITEMS = 200  # entries of one nested list that are printed


def name_element(name: str) -> Markup:
    """Return a column's name, kept apart from the direction of the text around it."""
    return element("bdi", {"class": "name"}, name if name.strip() else f"“{name}”")


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> Markup:
    """Return a table in a frame that scrolls by itself; ``numbers`` are the columns set to the right."""
    names = ["number" if place in numbers else None for place in range(len(heads))]
    head = [element("th", {"scope": "col", "class": name}, text) for name, text in zip(names, heads, strict=True)]
    body = [
        element(
            "tr",
            None,
            *(
                element("td" if place else "th", {"class": names[place], "scope": None if place else "row"}, cell)
                for place, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    inner = element(
        "table",
        None,
        element("caption", None, caption),
        element("thead", None, element("tr", None, *head)),
        element("tbody", None, *body),
    )
    return element("div", {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": caption}, inner)


def facts(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Return a list of names and what they are."""
    return element(
        "dl",
        {"class": "facts"},
        *(element("div", None, element("dt", None, name), element("dd", None, text)) for name, text in pairs),
    )


def value_text(value: object) -> str:
    """Return a setting as short text; nested data in its own lines is the caller's work."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number_words(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return _listed([f"{key}: {value_text(item)}" for key, item in items])
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _listed([value_text(item) for item in cast("Sequence[object]", value)])
    return str(value)


def settings_table(caption: str, settings: Mapping[str, object]) -> Markup:
    """Return a table of names and values; nothing when there are none."""
    if not settings:
        return joined(())
    return table(caption, ("Name", "Value"), [(key, value_text(value)) for key, value in settings.items()])


def _listed(parts: list[str]) -> str:
    left = len(parts) - MOST_ITEMS
    return ", ".join(parts[:MOST_ITEMS]) + (f" and {left} more" if left > 0 else "") or "none"
