"""``sparsenam explain``: what a model does with each column, and with single rows, in words."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sparsenam.cli.errors import readable_errors
from sparsenam.errors import InputError, describe

EPILOG = """\b
Examples:
  sparsenam explain sparsenam-model/model.snam
  sparsenam explain sparsenam-model/model.snam houses.csv --rows 0,5
  sparsenam explain sparsenam-model/model.snam --json > explanation.json"""


def explain(
    model: Annotated[Path, typer.Argument(help="A model.snam of sparsenam fit.", show_default=False)],
    table: Annotated[Path | None, typer.Argument(help="Rows to explain; else those of the fit.")] = None,
    rows: Annotated[str | None, typer.Option(help="Rows of the table to explain one by one, from 0.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of words.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole trace of an error.")] = False,
) -> None:
    """Say which columns a model uses and how much each matters; with --rows, what each adds to single rows."""
    with readable_errors(debug=debug):
        import numpy as np

        from sparsenam.cli.loading import load_model, read_for
        from sparsenam.cli.options import as_rows

        if rows is not None and table is None:
            raise InputError(describe("--rows", "a table to take the rows from", "none", "name it after the model"))
        estimator = load_model(model)
        own = None if table is None else read_for(estimator, table)[1]
        if rows is None or own is None:
            explanation = estimator.explain(None if own is None else own.native).to_dict()
            _write_json(explanation) if as_json else show_columns(explanation)
            return
        places = as_rows(rows, own.rows)
        local = estimator.explain_local(own.take(np.array(places, dtype=np.intp)).native).to_dict()
        for place, record in zip(places, local["rows"], strict=True):
            record["row"] = place  # the rows' places in the file, not among those explained
        _write_json(local) if as_json else show_rows(local)


def show_columns(explanation: dict[str, Any]) -> None:
    """Print the kept columns, largest first, and the dropped ones with the reason."""
    from sparsenam.cli.display import say, show_table

    features, dropped = explanation["features"], explanation["dropped"]
    say(f"{len(features)} columns kept, {len(dropped)} dropped; effects are in {explanation['units']}.")
    headings = ("kept", "kind", "mean absolute effect", "largest difference", "place of entry")
    lines = [
        (
            own["name"],
            own["kind"],
            f"{own['mean_absolute']:.4g}",
            f"{own['variation']:.4g}",
            "" if own["entry"] is None else str(own["entry"]),
        )
        for own in features
    ]
    if lines:
        show_table(headings, lines)
    for own in dropped:
        say(f"dropped {own['name']}: {own['reason']}")


def show_rows(local: dict[str, Any]) -> None:
    """Print what each column adds to each row."""
    from sparsenam.cli.display import say

    say(f"Effects are in {local['units']}, from {local['reference']}.")
    outputs = local["outputs"]
    for row in local["rows"]:
        say()
        say(f"row {row['row']}: {_predicted(outputs, row['prediction'])}")
        for own in row["contributions"]:
            say(f"  {own['text']}")


def _predicted(outputs: list[str], values: list[float]) -> str:
    """Return the prediction in words: with one output the number alone, which the units explain."""
    if len(values) == 1:
        return f"prediction {values[0]:.4g}"
    named = [f"{name} {value:.4g}" for name, value in zip(outputs, values, strict=True)]
    return f"prediction {', '.join(named)}"


def _write_json(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
