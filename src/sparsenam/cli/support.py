"""``sparsenam stability`` and ``alternatives``: what a saved model's choice of columns is worth, on a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsenam.cli.csv_text import MAX_BYTES
from sparsenam.cli.display import MaxBytes, note, readable_errors
from sparsenam.cli.labelled import (
    AsJson,
    Event,
    Exposure,
    Report,
    TableFile,
    Target,
    Weights,
    check_report,
    read_labelled,
    show_result,
)
from sparsenam.cli.models import Debug, ModelFile, inputs_of, load_model

if TYPE_CHECKING:
    from sparsenam.cli.problem import LabelledRows

STABILITY_EPILOG = """\b
Examples:
  sparsenam stability model.snam houses.csv --target price
  sparsenam stability model.snam houses.csv --target price --pairs 50 --out model.snam --report report.html"""
ALTERNATIVES_EPILOG = """\b
Examples:
  sparsenam alternatives model.snam houses.csv --target price
  sparsenam alternatives model.snam houses.csv --target price --tolerance 0.05 --report report.html"""


def stability(
    model: ModelFile,
    table: TableFile,
    target: Target,
    pairs: Annotated[int, typer.Option(help="Pairs of random halves of the rows.")] = 25,
    event: Event = None,
    exposure: Exposure = None,
    weights: Weights = None,
    out: Annotated[Path | None, typer.Option(help="Model file to write, with the result in it.")] = None,
    report: Report = None,
    max_bytes: MaxBytes = MAX_BYTES,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say how often half of the rows would choose each column, and which columns replace one another."""
    with readable_errors(debug=debug, table=table):
        check_report(report)
        estimator, rows, inputs, more = _asked(model, table, target, event, exposure, weights, max_bytes)
        with rows.named():
            found = estimator.stability(inputs, rows.y, n_pairs=pairs, **more)
        show_result(found, estimator, report, as_json=as_json)
        if out is not None:
            estimator.save(out)
            note(f"model: {out}")


def alternatives(
    model: ModelFile,
    table: TableFile,
    target: Target,
    tolerance: Annotated[
        float | None, typer.Option(help="Share of what the model explains that may be lost; else next to nothing.")
    ] = None,
    most: Annotated[int, typer.Option(help="Most models to list.")] = 20,
    event: Event = None,
    exposure: Exposure = None,
    weights: Weights = None,
    report: Report = None,
    max_bytes: MaxBytes = MAX_BYTES,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List other sets of columns that predict about as well as those of the model."""
    with readable_errors(debug=debug, table=table):
        check_report(report)
        estimator, rows, inputs, more = _asked(model, table, target, event, exposure, weights, max_bytes)
        allowed = "auto" if tolerance is None else tolerance
        with rows.named():
            found = estimator.alternatives(inputs, rows.y, allowed, most, **more)
        show_result(found, estimator, report, as_json=as_json)


def _asked(
    model: Path,
    table: Path,
    target: str,
    event: str | None,
    exposure: str | None,
    weights: str | None,
    max_bytes: int,
) -> tuple[Any, LabelledRows, Any, dict[str, Any]]:
    """Return a saved model, rows with their target, the model's columns, and exposure and weights where named."""
    estimator = load_model(model)
    rows = read_labelled(estimator, table, target, event, exposure, weights, max_bytes)
    return estimator, rows, inputs_of(estimator, rows.table, table, every=True).native, rows.beside
