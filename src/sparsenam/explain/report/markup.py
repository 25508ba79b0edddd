"""HTML and SVG text in which nothing a table says can become markup."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import final

# control characters, line separators, halves of surrogate pairs, marks that turn the direction of the text
UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
VOID = frozenset({"input", "meta", "br"})


@final
class Markup(str):
    """Text that is markup already; all other text is escaped on its way into an element."""

    __slots__ = ()


def clean(text: str) -> str:
    """Return the text without characters that a page cannot hold or that would reorder it."""
    return UNSHOWN.sub(REPLACEMENT, text)


def element(name: str, attributes: Mapping[str, object] | None = None, *children: str) -> Markup:
    """Return one element; attributes that are None or False are left out, True is an empty attribute."""
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


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {key}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {key}="{escape(clean(text), quote=True)}"'
