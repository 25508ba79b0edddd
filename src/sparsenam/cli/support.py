"""``sparsenam stability`` and ``alternatives``: what a saved model's choice of columns is worth, on a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsenam.cli.display import note, readable_errors, say, say_json
from sparsenam.cli.models import Debug, ModelFile, load_model
from sparsenam.errors import InputError, describe

STABILITY_EPILOG = """\b
Examples:
  sparsenam stability model.snam houses.csv --target price
  sparsenam stability model.snam houses.csv --target price --pairs 50 --out model.snam --report report.html"""
ALTERNATIVES_EPILOG = """\b
Examples:
  sparsenam alternatives model.snam houses.csv --target price
  sparsenam alternatives model.snam houses.csv --target price --tolerance 0.05 --report report.html"""

COUNTS, AMOUNTS = ("poisson", "negative_binomial"), ("gamma", "tweedie")  # families that may have exposures

TableFile = Annotated[
    Path, typer.Argument(help="The table of the fit, or one like it: CSV, TSV or Parquet.", show_default=False)
]
Target = Annotated[str, typer.Option(help="Column that the model predicts; of survival, the times.")]
Event = Annotated[str | None, typer.Option(help="Column that says whether the event happened, for survival.")]
Exposure = Annotated[str | None, typer.Option(help="Column of exposures, for rates.")]
Report = Annotated[Path | None, typer.Option(help="HTML page to write, with the result as a section.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


def stability(
    model: ModelFile,
    table: TableFile,
    target: Target,
    pairs: Annotated[int, typer.Option(help="Pairs of random halves of the rows.")] = 25,
    event: Event = None,
    exposure: Exposure = None,
    out: Annotated[Path | None, typer.Option(help="Model file to write, with the result in it.")] = None,
    report: Report = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say how often half of the rows would choose each column, and which columns replace one another."""
    with readable_errors(debug=debug):
        estimator, rows, y, more = _labelled(model, table, target, event, exposure)
        found = estimator.stability(rows, y, n_pairs=pairs, **more)
        _show(estimator, found, report, as_json=as_json)
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
    report: Report = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List other sets of columns that predict about as well as those of the model."""
    with readable_errors(debug=debug):
        estimator, rows, y, more = _labelled(model, table, target, event, exposure)
        allowed = "auto" if tolerance is None else tolerance
        _show(estimator, estimator.alternatives(rows, y, allowed, most, **more), report, as_json=as_json)


def _labelled(
    model: Path, table: Path, target: str, event: str | None, exposure: str | None
) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Return a saved model, its columns of a table, the target, and the exposure where one is named."""
    from sparsenam.cli.models import inputs_of
    from sparsenam.cli.problem import TargetRequest, pose
    from sparsenam.cli.tables import read_file

    estimator = load_model(model)
    of_times, of_classes = hasattr(estimator, "event_times_"), hasattr(estimator, "classes_")
    if of_times != (event is not None):
        expected = "the column of events" if of_times else "a model of survival"
        raise InputError(describe("--event", expected, event or "none", "name it" if of_times else "leave it out"))
    family = None if of_classes or of_times else estimator.model_.family.name
    task = "classification" if of_classes else "auto" if of_times else "regression"
    task = "count" if family in COUNTS else task
    request = TargetRequest(target, task, family if family in AMOUNTS else None, event, exposure)
    problem = pose(read_file(table), request)
    for sentence in problem.notes:
        note(sentence)
    rows = problem.rows
    y = _as_classes(estimator, rows.y) if of_classes else rows.y
    return (
        estimator,
        inputs_of(estimator, rows.table, table).native,
        y,
        {} if rows.exposure is None else {"exposure": rows.exposure},
    )


def _as_classes(estimator: Any, y: Any) -> Any:
    """Return the classes of a file, which are text, as those of the model, which may be numbers."""
    by_text = {str(label): label for label in estimator.classes_.tolist()}
    return [by_text.get(str(label), label) for label in y.tolist()]


def _show(estimator: Any, found: Any, report: Path | None, *, as_json: bool) -> None:
    """Print a result, and write the report with it where one is asked for."""
    from sparsenam.cli.run import write_report

    say_json(found.to_dict()) if as_json else say(str(found))
    if report is not None:
        write_report(estimator.explain(), report, None, [found])
        note(f"report: {report}")
