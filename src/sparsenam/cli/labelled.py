"""What the commands share that ask a saved model about a table with its target: options, reading and showing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsenam.cli.display import note, say, say_json
from sparsenam.errors import InputError, describe

if TYPE_CHECKING:
    from sparsenam.cli.problem import LabelledRows, TargetRequest

TableFile = Annotated[Path, typer.Argument(help="The table of the fit, or one like it, or -.", show_default=False)]
Target = Annotated[
    str, typer.Option(help="Column that the model predicts; of survival, the times.", show_default=False)
]
Event = Annotated[str | None, typer.Option(help="Column that says whether the event happened, for survival.")]
Exposure = Annotated[str | None, typer.Option(help="Column of exposures, for rates; else 1 for every row.")]
Report = Annotated[Path | None, typer.Option(help="HTML page to write: the model's report, with the result in it.")]
Weights = Annotated[str | None, typer.Option(help="Column of weights of the rows, as in the fit.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


def read_labelled(
    estimator: Any,
    path: Path,
    target: str,
    event: str | None,
    exposure: str | None,
    weights: str | None,
    max_bytes: int,
) -> LabelledRows:
    """Return the rows of a file whose target is known, with the target and exposures as the model reads them."""
    from dataclasses import replace

    from sparsenam.cli.problem import pose
    from sparsenam.cli.tables import read_file

    request = replace(request_for(estimator, target, event, exposure), weights=weights)
    problem = pose(read_file(path, max_bytes), request)
    for sentence in problem.notes:
        note(sentence)
    if not hasattr(estimator, "classes_"):
        return problem.rows
    return replace(problem.rows, y=_as_classes(estimator, problem.rows.y))


def request_for(estimator: Any, target: str, event: str | None, exposure: str | None) -> TargetRequest:
    """Return what a model says about its target; raise where an option does not go with it."""
    from sparsenam.cli.problem import TargetRequest

    of_times, of_classes = hasattr(estimator, "event_times_"), hasattr(estimator, "classes_")
    if of_times != (event is not None):
        expected = "the column of events" if of_times else "a model of survival"
        raise InputError(describe("--event", expected, event or "none", "name it" if of_times else "leave it out"))
    family = estimator.model_.family
    task = "count" if family.response == "count" else "regression"
    task = "classification" if of_classes else "survival" if of_times else task
    return TargetRequest(target, task, family.name if family.response == "amount" else None, event, exposure)


def check_report(path: Path | None) -> None:
    """Raise where a report could not be written, before the work is done."""
    if path is not None and (not path.parent.is_dir() or path.is_dir()):
        remedy = "make the folder or choose another"
        raise InputError(describe("--report", "a file in a folder", str(path), remedy))


def show_result(found: Any, estimator: Any, report: Path | None, *, as_json: bool) -> None:
    """Print what was found, and write it into a report of the model."""
    say_json(found.to_dict()) if as_json else say(str(found))
    if report is not None:
        estimator.explain().report(report, beside=[found])
        note(f"report: {report}")


def _as_classes(estimator: Any, y: Any) -> Any:
    """Return the classes of a file (rows,), which may be text, as those of the model, which may be numbers."""
    import numpy as np

    from sparsenam.tables.text import number_key

    by_text: dict[str, Any] = {}
    for label in estimator.classes_.tolist():
        by_text |= {} if isinstance(label, str) else {number_key(float(label)): label}
        by_text[str(label)] = label
    labels: list[object] = [by_text.get(str(label), label) for label in y.tolist()]
    return np.array(labels, dtype=object if len({type(label) for label in labels}) > 1 else None)
