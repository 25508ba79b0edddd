"""``sparsenam audit`` and ``compare``: who pays for a dropped column, and what changed between two models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsenam.cli.csv_text import MAX_BYTES
from sparsenam.cli.display import MaxBytes, readable_errors
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
from sparsenam.errors import InputError, describe

if TYPE_CHECKING:
    from sparsenam.cli.tables import FileTable

AUDIT_EPILOG = """\b
Examples:
  sparsenam audit model.snam loans.csv --target repaid
  sparsenam audit model.snam loans.csv --target repaid --groups sex,region --report audit.html"""
COMPARE_EPILOG = """\b
Examples:
  sparsenam compare spring.snam summer.snam loans.csv
  sparsenam compare spring.snam summer.snam loans.csv --target repaid --groups region --json"""

Groups = Annotated[str | None, typer.Option(help="Columns whose values divide the rows, with commas between.")]


def audit(
    model: ModelFile,
    table: TableFile,
    target: Target,
    groups: Groups = None,
    event: Event = None,
    exposure: Exposure = None,
    weights: Weights = None,
    report: Report = None,
    max_bytes: MaxBytes = MAX_BYTES,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say which dropped columns cost which subgroups of rows, and how right the model is in each."""
    with readable_errors(debug=debug, table=table):
        check_report(report)
        estimator = load_model(model)
        rows = read_labelled(estimator, table, target, event, exposure, weights, max_bytes)
        beside = _beside(groups, target, event, exposure, weights)
        inputs = inputs_of(estimator, rows.table, table, beside=beside, every=True)
        chosen = _groups(rows.table, inputs.names, groups)
        with rows.named():
            found = estimator.audit(inputs.native, rows.y, chosen, **rows.beside)
        show_result(found, estimator, report, as_json=as_json)


def compare(
    model_a: ModelFile,
    model_b: Annotated[Path, typer.Argument(help="The later model.", show_default=False)],
    table: TableFile,
    target: Annotated[str | None, typer.Option(help="Column that both predict, to compare their losses.")] = None,
    groups: Groups = None,
    event: Event = None,
    exposure: Exposure = None,
    weights: Weights = None,
    report: Report = None,
    max_bytes: MaxBytes = MAX_BYTES,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say what changed from one model to another: columns, curves, and predictions by subgroup."""
    with readable_errors(debug=debug, table=table):
        import sparsenam
        from sparsenam.cli.tables import read_file

        check_report(report)
        if target is None and (event, exposure, weights) != (None, None, None):
            expected = "a column, for --event, --exposure or --weights"
            raise InputError(describe("--target", expected, "none", "name it"))
        models = [load_model(path) for path in (model_a, model_b)]
        if target is None:
            rows, y, numbers, beside = read_file(table, max_bytes), None, None, dict[str, Any]()
        else:
            labelled = read_labelled(models[0], table, target, event, exposure, weights, max_bytes)
            rows, y, numbers, beside = labelled.table, labelled.y, labelled.numbers, labelled.beside
        names = list(dict.fromkeys(str(name) for each in models for name in each.encoder_.names))
        present = frozenset(rows.names)
        inputs = rows.select([name for name in names if name in present])
        chosen = _groups(rows, inputs.names, groups)
        with rows.naming_rows(numbers):
            found = sparsenam.compare(models[0], models[1], inputs.native, y, chosen, **beside)
        show_result(found, models[1], report, as_json=as_json)


def _beside(groups: str | None, *columns: str | None) -> tuple[str, ...]:
    """Return the names of columns that are used beside those of the model."""
    return (*_split(groups), *(name for name in columns if name is not None))


def _split(groups: str | None) -> list[str]:
    return [] if groups is None else [name.strip() for name in groups.split(",") if name.strip()]


def _groups(rows: FileTable, inputs: tuple[str, ...], groups: str | None) -> Any:
    """Return names of the model's columns, or labels where some of the names are other columns of the table."""
    names = _split(groups)
    if groups is None:
        return None
    if not names:
        raise InputError(describe("--groups", "names of columns", repr(groups), "write for example sex,region"))
    for name in names:
        rows.require(name, "--groups")
    return names if set(names) <= set(inputs) else rows.select(names).native
