"""The page put together: one file, no outside address, one script that its hash allows."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from importlib.resources import files
from string import Template

from sparsenam.explain.report.feature_cards import shapes, shown_outputs
from sparsenam.explain.report.local_records import LocalRecord
from sparsenam.explain.report.local_rows import local_rows
from sparsenam.explain.report.markup import Markup, data_block, element, joined
from sparsenam.explain.report.payload import payload
from sparsenam.explain.report.records import Record
from sparsenam.explain.report.sections import dropped, kept, model_card, selection, summary
from sparsenam.explain.report.thinning import thinned

PARTS = (
    ("summary", "Summary"),
    ("kept", "Kept"),
    ("shapes", "Shapes"),
    ("rows", "Rows"),
    ("dropped", "Dropped"),
    ("selection", "Selection"),
    ("card", "Model card"),
)
SCRIPTS = ("data", "words", "drawing", "reading", "card", "page")  # in this order: later parts use earlier ones


def page(record: Record, local: LocalRecord | None) -> str:
    """Return the whole HTML of a report."""
    record = _light(record)
    shown = shown_outputs(record)
    built = {
        "summary": summary(record),
        "kept": kept(record),
        "shapes": shapes(record, shown),
        "rows": local_rows(local) if local is not None and local.rows else joined(()),
        "dropped": dropped(record),
        "selection": selection(record),
        "card": model_card(record),
    }
    links = [element("a", {"href": f"#{part}"}, words) for part, words in PARTS if built[part]]
    title = f"Report of {record.target}" if record.target else "Model report"
    toggle = {"type": "button", "id": "theme", "class": "with-script", "aria-pressed": "false"}
    script = _script()
    # the template's parts are markup made above; substitute() does not look into what it puts in
    return Template(_file("report.html")).substitute(
        policy=_policy(script),
        title=joined((title,)),
        style=_file("report.css"),
        header=joined((element("h1", None, title), element("button", toggle, "Dark"))),
        links=joined(links),
        sections=Markup("\n".join(built[part] for part, _ in PARTS if built[part])),
        footer=joined(("Made with sparsenam. This file needs no network.",)),
        data=data_block("data", payload(record, shown)),
        script=script,
    )


def _script() -> str:
    """Return the script as one function, so that it leaves no name behind."""
    parts = "".join(_file(f"script/{name}.js") for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _policy(script: str) -> str:
    """Return a policy under which nothing is loaded and no script but this one runs."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def _light(record: Record) -> Record:
    """Return the record with curves of no more points than can be seen."""
    features = tuple(
        feature if feature.curve is None else replace(feature, curve=thinned(feature.curve))
        for feature in record.features
    )
    return replace(record, features=features)


def _file(name: str) -> str:
    return files(__package__ or "sparsenam.explain.report").joinpath(name).read_text("utf-8").replace("\r\n", "\n")
