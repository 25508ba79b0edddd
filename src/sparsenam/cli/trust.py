"""``sparsenam audit`` and ``compare``: who pays for a dropped column, and what changed between two models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsenam.cli.display import note, readable_errors, say, say_json
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

TableFile = Annotated[Path, typer.Argument(help="CSV, TSV or Parquet file, .gz too.", show_default=False)]
Groups = Annotated[str | None, typer.Option(help="Columns whose values divide the rows, with commas between.")]
Event = Annotated[str | None, typer.Option(help="Column of 0/1: the event happened (survival).")]
Exposure = Annotated[str | None, typer.Option(help="Column of exposures; else 1 for every row.")]
Report = Annotated[Path | None, typer.Option(help="HTML file to write, with the model's report around it.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


def audit(
    model: ModelFile,
    table: TableFile,
    target: Annotated[str, typer.Option(help="Column to predict.", show_default=False)],
    groups: Groups = None,
    event: Event = None,
    exposure: Exposure = None,
    report: Report = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say which dropped columns cost which subgroups of rows, and how right the model is in each."""
    with readable_errors(debug=debug):
        estimator = load_model(model)
        rows, y, units = _target_of(estimator, table, target, event, exposure)
        inputs = inputs_of(estimator, rows, table, beside=_beside(groups, target, event, exposure))
        found = estimator.audit(inputs.native, y, _groups(rows, inputs.names, groups), exposure=units)
        _show(found, estimator, report, as_json=as_json)


def compare(
    model_a: ModelFile,
    model_b: Annotated[Path, typer.Argument(help="The later model.", show_default=False)],
    table: TableFile,
    target: Annotated[str | None, typer.Option(help="Column that both predict, to compare their losses.")] = None,
    groups: Groups = None,
    event: Event = None,
    exposure: Exposure = None,
    report: Report = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say what changed from one model to another: columns, curves, and predictions by subgroup."""
    with readable_errors(debug=debug):
        import sparsenam
        from sparsenam.cli.tables import read_file

        models = [load_model(path) for path in (model_a, model_b)]
        rows, y, units = read_file(table), None, None
        if target is not None:
            rows, y, units = _target_of(models[0], table, target, event, exposure)
        elif event is not None or exposure is not None:
            raise InputError(describe("--target", "a column, for --event or --exposure", "none", "name it"))
        names = list(dict.fromkeys(str(name) for each in models for name in each.encoder_.names))
        inputs = rows.select([name for name in names if name in rows.names])
        chosen = _groups(rows, inputs.names, groups)
        found = sparsenam.compare(models[0], models[1], inputs.native, y, chosen, exposure=units)
        _show(found, models[1], report, as_json=as_json)


def _show(found: Any, estimator: Any, report: Path | None, *, as_json: bool) -> None:
    """Print what was found, and write it into a report of the model."""
    if report is not None:
        from sparsenam.cli.run import write_report

        if not report.parent.is_dir() or report.is_dir():
            remedy = "make the folder or choose another"
            raise InputError(describe("--report", "a file in a folder", str(report), remedy))
        write_report(estimator.explain(), report, beside=[found])
    say_json(found.to_dict()) if as_json else say(str(found))
    if report is not None and not as_json:
        say()
        say(f"report: {report}")


def _target_of(
    estimator: Any, path: Path, target: str, event: str | None, exposure: str | None
) -> tuple[FileTable, Any, Any]:
    """Return the rows of a table whose target is known, the target as the model reads it, and exposures."""
    from sparsenam.cli.problem import TargetRequest, pose
    from sparsenam.cli.tables import read_file

    whole = read_file(path)
    task = "classification" if hasattr(estimator, "classes_") else "regression"
    if hasattr(estimator, "event_times_"):
        task = "survival"
    task = "count" if exposure is not None and task == "regression" else task
    problem = pose(whole, TargetRequest(target, task, None, event, exposure))
    for sentence in problem.notes:
        note(sentence)
    y = problem.rows.y
    if task == "classification" and y.dtype.kind != estimator.classes_.dtype.kind:
        y = y.astype(estimator.classes_.dtype)
    return problem.rows.table, y, problem.rows.exposure


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
