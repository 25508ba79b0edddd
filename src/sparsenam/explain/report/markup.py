"""HTML and SVG text in which no cell of a table can become markup; tables, lists, cards and controls made of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import final

from sparsenam.text import NOTHING, number_text

# control characters, line separators, halves of surrogate pairs, marks that turn the direction of the text
UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
VOID = frozenset({"input", "meta", "br"})
MOST_ITEMS = 200  # entries of one nested list that are printed
Setting = Mapping[str, "Setting"] | Sequence["Setting"] | str | float | None  # plain data


@final
class Markup(str):
    """Text that is markup already; all other text is escaped on its way into an element."""

    __slots__ = ()


def clean(text: str) -> str:
    """Return the text without characters that a page cannot hold or that would reorder it."""
    return UNSHOWN.sub(REPLACEMENT, text)


def element(name: str, attributes: Mapping[str, object] | None = None, *children: str) -> Markup:
    """Return one element; attributes that are None or False are left out, True is an empty attribute.

    An underscore in the name of an attribute stands for a hyphen.
    """
    opening = "".join(_attribute(key, value) for key, value in (attributes or {}).items())
    if name in VOID:
        return Markup(f"<{name}{opening}>")
    return Markup(f"<{name}{opening}>{joined(children)}</{name}>")


def joined(children: Iterable[str]) -> Markup:
    """Return the children one after another, text escaped, markup as it is."""
    return Markup(
        "".join(child if isinstance(child, Markup) else escape(clean(child), quote=True) for child in children)
    )


def data_block(identifier: str, data: object) -> Markup:
    """Return a script element that holds JSON and cannot be closed, or read as a comment, by what is in it."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":  # all within strings: JSON itself has none of them
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" id="{escape(identifier)}">{text}</script>')


def section(identifier: str, title: str, *children: str) -> Markup:
    """Return one part of the report with its heading."""
    heading = element("h2", {"id": f"{identifier}-title"}, title)
    return element("section", {"id": identifier, "aria-labelledby": f"{identifier}-title"}, heading, *children)


def card(identifier: str, name: Sequence[str], facts: Sequence[str], *children: str) -> Markup:
    """Return one card of a section: a name, a line of facts, and what it shows."""
    heading = element("h3", {"id": f"{identifier}-name"}, *name)
    attributes = {"class": "card", "id": identifier, "aria-labelledby": f"{identifier}-name"}
    return element("article", attributes, heading, element("p", {"class": "facts-line"}, *facts), *children)


def select(label: str, options: Iterable[str | tuple[str, str]], **attributes: str) -> Markup:
    """Return a choice among (value, text); the value of a text alone is its number."""
    pairs = [(str(index), one) if isinstance(one, str) else one for index, one in enumerate(options)]
    listed = [element("option", {"value": value}, text) for value, text in pairs]
    return labelled(label, element("select", attributes, *listed))


def labelled(text: str, control: Markup) -> Markup:
    """Return a control after its label."""
    return element("label", None, element("span", None, text), control)


def check(text: str, **attributes: str) -> Markup:
    """Return a box to tick before its label."""
    box = element("input", {"type": "checkbox", **attributes})
    return element("label", {"class": "check"}, box, element("span", None, text))


def in_numbers(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Return a drawing as a table to unfold, for readers who do not see it."""
    listed = table(caption, heads, rows, range(1, len(heads)))
    return element("details", {"class": "numbers"}, element("summary", None, "Numbers"), listed)


def some(count: int, most: int) -> list[int]:
    """Return up to so many indices below a number, ends included."""
    steps = min(most, count)
    return sorted({round(step * (count - 1) / max(steps - 1, 1)) for step in range(steps)})


def note(*children: str) -> Markup:
    """Return a small paragraph that explains what follows."""
    return element("p", {"class": "note"}, *children)


def name_element(name: str) -> Markup:
    """Return a column's name, kept apart from the direction of the text around it."""
    return element("bdi", {"class": "name"}, name if name.strip() else f"“{name}”")


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> Markup:
    """Return a table in a frame that scrolls on its own; ``numbers`` are the columns set to the right."""
    names = ["number" if index in numbers else None for index in range(len(heads))]

    def line(row: Sequence[str]) -> Markup:
        cells = zip(("th", *["td"] * len(row)), names, ("row", *[None] * len(row)), row, strict=False)
        return element("tr", None, *(element(tag, {"class": name, "scope": of}, text) for tag, name, of, text in cells))

    head = [element("th", {"scope": "col", "class": name}, text) for name, text in zip(names, heads, strict=True)]
    parts = element("thead", None, element("tr", None, *head)), element("tbody", None, *map(line, rows))
    inner = element("table", None, element("caption", None, caption), *parts)
    return element("div", {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": caption}, inner)


def figure(drawn: Markup, text: str, *more: Markup) -> Markup:
    """Return a drawing with its caption, and ``more`` below."""
    return element("figure", None, drawn, element("figcaption", None, text), *more)


def facts(pairs: Iterable[tuple[str, str | None]]) -> Markup:
    """Return a list of names and what they are, without those that are None."""
    known = [(element("dt", None, name), element("dd", None, text)) for name, text in pairs if text is not None]
    return element("dl", {"class": "facts"}, *(element("div", None, *pair) for pair in known))


def setting_text(value: Setting) -> str:
    """Return a setting, a number or nested data as short text."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, Mapping):
        return _listed([f"{key}: {setting_text(item)}" for key, item in value.items()])
    if isinstance(value, list | tuple):
        return _listed([setting_text(item) for item in value])
    return str(value)


def settings_table(caption: str, settings: Mapping[str, Setting] | None) -> Markup:
    """Return a table of names and values; nothing when there are none."""
    if not settings:
        return joined(())
    return table(caption, ("Name", "Value"), [(key, setting_text(value)) for key, value in settings.items()])


def _listed(parts: list[str]) -> str:
    more = len(parts) - MOST_ITEMS
    return ", ".join(parts[:MOST_ITEMS]) + (f" and {more} more" if more > 0 else "") or "none"


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {key.replace('_', '-')}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {key.replace("_", "-")}="{escape(clean(text), quote=True)}"'
