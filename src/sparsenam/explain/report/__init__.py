"""The report: one HTML file that can be mailed, printed and kept, made from an explanation.

Python draws every chart as SVG; the script adds the cursor with its read-out, zoom, search and order. The file loads
nothing from the network, and its policy lets no script run but its own.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from string import Template

from sparsenam.codec import Plain
from sparsenam.errors import InputError, describe
from sparsenam.explain.drawing import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, YELLOW
from sparsenam.explain.explanation import Explanation
from sparsenam.explain.local import LocalExplanation
from sparsenam.explain.report.drawings import chart_constants, choice_data, shape_data
from sparsenam.explain.report.edits import edits
from sparsenam.explain.report.errors import performance, survival
from sparsenam.explain.report.maps import map_styles, pair_data, pairs
from sparsenam.explain.report.markup import Markup, clean, data_block, element, joined
from sparsenam.explain.report.sections import (
    dropped,
    finding_section,
    kept,
    local_rows,
    model_card,
    selection,
    shapes,
    summary,
)
from sparsenam.explain.report.svg import PENS, styles
from sparsenam.explain.shapes import bent, named_outputs, thinned
from sparsenam.files import said_by, write_atomically
from sparsenam.text import Found

__all__ = ["render_report", "write_report"]

_GROUNDS = ("paper", "ground", "ink", "faint", "edge", "grid", "zero", "density", "link", "focus", "band")
_LINES = ("out-0", "out-1", "out-2", "out-3", "out-4", "plus", "minus")


def _scheme(grounds: str, focus: str, lines: tuple[str, ...]) -> dict[str, str]:
    """Return the colour of each part of the page, of each output's line, and of what adds and what takes."""
    *others, link, band = (f"#{colour}" for colour in grounds.split())
    return dict(zip((*_GROUNDS, *_LINES), (*others, link, focus, band, *lines, *lines[:2]), strict=True))


LIGHT = _scheme(
    "ffffff f4f5f7 1b1f24 565d66 c6ccd3 e3e6ea 6b737c 9aa3ad 00568a e4eef6",
    BLUE,
    (BLUE, VERMILLION, GREEN, PURPLE, "#1b1f24"),
)
DARK = _scheme(
    "1a1d21 111316 e9ecef a9b1ba 474e57 2c3137 8e97a1 69727c 7cc4f0 26333d", SKY, (SKY, ORANGE, GREEN, PURPLE, YELLOW)
)
PRINTED = _scheme(
    "ffffff ffffff 000000 444a51 b9bfc6 e3e6ea 6b737c 9aa3ad 000000 ffffff",
    BLUE,
    (BLUE, VERMILLION, GREEN, PURPLE, "#1b1f24"),
)


def render_report(explanation: Explanation, local: LocalExplanation | None = None, beside: Sequence[Found] = ()) -> str:
    """Return the report as one HTML page that loads nothing, with waterfalls of the rows of ``local``.

    What was found out ``beside``, such as an audit, gets a section each.
    """
    features = tuple(  # with curves of no more points than can be seen
        feature if feature.curve is None else bent(replace(feature, curve=thinned(feature.curve)))
        for feature in explanation.features
    )
    explanation = replace(explanation, features=features)
    shown = named_outputs(explanation, None, len(PENS))
    built = {
        "Summary": summary(explanation),
        "Edits": edits(explanation),
        "Kept": kept(explanation),
        "Shapes": shapes(explanation, shown),
        "Pairs": pairs(explanation, shown),
        "Survival": survival(explanation),
        "Errors": performance(explanation),
        "Rows": local_rows(local) if local is not None and local.rows else joined(()),
        "Dropped": dropped(explanation),
        "Selection": selection(explanation),
        **{finding.title: finding_section(finding) for finding in (found.finding() for found in beside)},
        "Model card": model_card(explanation),
    }
    links = [element("a", {"href": f"#{title.split()[-1].lower()}"}, title) for title in built if built[title]]
    title = f"Report of {explanation.target}" if explanation.target else "Model report"
    toggle = {"type": "button", "id": "theme", "class": "with-script"}
    script = _file("report.js")
    data = {
        **chart_constants(),
        "ratios": explanation.task == "survival",
        "baseline": explanation.card.get("baseline"),
        "performance": _chosen_from(explanation.card.get("performance")),
        "outputs": [clean(name) for name in explanation.outputs],
        "choices": choice_data(explanation, shown),
        "features": [shape_data(feature, shown, explanation) for feature in explanation.features],
        "pairs": [pair_data(explanation, pair, shown) for pair in explanation.pairs],
    }
    # the template's parts are markup made above; substitute() does not look into what it puts in
    return Template(_file("report.html")).substitute(
        policy=_policy(script),
        title=joined((title,)),
        style=_style(),
        header=joined((element("h1", None, title), element("button", toggle, "Use dark colours"))),
        links=joined(links),
        sections=Markup("\n".join(part for part in built.values() if part)),
        footer=joined(("Made with sparsenam. This file needs no network.",)),
        data=data_block("data", data),
        script=script,
    )


def write_report(
    explanation: Explanation,
    path: str | os.PathLike[str],
    local: LocalExplanation | None = None,
    beside: Sequence[Found] = (),
) -> Path:
    """Write the report to a file, whole or not at all, and return its path."""
    target = Path(path)
    content = render_report(explanation, local, beside).encode()
    try:
        write_atomically(target, content, make_folder=False)
    except FileNotFoundError as error:
        expected, remedy = "a path that can be written to", "make the folder or name another"
        raise InputError(describe(f"report {path}", expected, said_by(error), remedy)) from error
    return target


def _policy(script: str) -> str:
    """Return a policy under which nothing is loaded and no script but this one runs."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def _style() -> str:
    """Return the style sheet: the colours of each scheme, those of the pens, and the rules of the page."""
    light, dark, printed = (
        " ".join(f"--{name}: {colour};" for name, colour in colours.items()) for colours in (LIGHT, DARK, PRINTED)
    )
    return (
        f":root {{ {light} }}\n"
        f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {dark} }} }}\n'
        f':root[data-theme="dark"] {{ {dark} color-scheme: dark; }}\n'
        f'@media print {{ :root, :root:not([data-theme="light"]), :root[data-theme] '
        f"{{ {printed} color-scheme: light; }} }}\n{styles()}{map_styles()}{_file('report.css')}"
    )


def _chosen_from(known: Plain | None) -> dict[str, object] | None:
    """Return the numbers from which the script derives what a threshold does; None where there are none."""
    if not known or "thresholds" not in known:
        return None
    return {"of": clean(str(known["of"])), **{key: known[key] for key in ("rows", "positive", "thresholds")}}


def _file(name: str) -> str:
    return files(__package__ or "sparsenam.explain.report").joinpath(name).read_text("utf-8").replace("\r\n", "\n")
