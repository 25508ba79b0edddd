"""``sparsenam fit``: a table in; a model, a report and the test error out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsenam.cli.errors import INTERRUPTED, readable_errors

if TYPE_CHECKING:
    from sparsenam.cli.files import Folder
    from sparsenam.cli.problem import Problem
    from sparsenam.cli.running import Left

FOLDER = Path("sparsenam-model")
EPILOG = """\b
Examples:
  sparsenam fit houses.csv --target price
  sparsenam fit loans.parquet --target default --types zip=category --out loans
  sparsenam fit claims.csv.gz --target claims --task count --exposure years
  sparsenam fit patients.tsv --target months --event died --max-seconds 60"""


def fit(
    table: Annotated[Path, typer.Argument(help="CSV, TSV or Parquet file, .gz too.", show_default=False)],
    target: Annotated[str, typer.Option(help="Column to predict; for survival the time.", show_default=False)],
    task: Annotated[str, typer.Option(help="auto, regression, count, classification or survival.")] = "auto",
    out: Annotated[Path, typer.Option(help="Folder for model.snam, report.html and metrics.json.")] = FOLDER,
    test: Annotated[float, typer.Option(help="Share of rows held out to measure the error; 0 for none.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed; the same seed gives the same model.", min=0)] = 0,
    max_seconds: Annotated[float | None, typer.Option(help="Most seconds for the fit.")] = None,
    keep: Annotated[str | None, typer.Option(help="Columns never to drop, with commas between.")] = None,
    types: Annotated[str | None, typer.Option(help="What columns are, as in zip=category,day=date.")] = None,
    exposure: Annotated[str | None, typer.Option(help="Column of time or size over which y was counted.")] = None,
    event: Annotated[str | None, typer.Option(help="Column of 0/1: the event happened (survival).")] = None,
    alpha: Annotated[str, typer.Option(help="Weight of the penalty; auto chooses by cross-validation.")] = "auto",
    family: Annotated[str | None, typer.Option(help="gaussian, huber, quantile, gamma, poisson, …")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a fit that was stopped.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole trace of an error.")] = False,
) -> None:
    """Fit a sparse additive model to a table and measure it on rows held out.

    Ctrl-C leaves the best model so far; the same command with --resume goes on to the model of an unbroken run.
    """
    with readable_errors(debug=debug):
        # the heavy rooms are loaded here and not at the top: "sparsenam --help" must not wait for PyTorch
        from sparsenam.cli.display import note
        from sparsenam.cli.files import Folder
        from sparsenam.cli.options import as_alpha, as_list, as_types
        from sparsenam.cli.problem import Wishes, pose
        from sparsenam.cli.reading import read_file
        from sparsenam.cli.running import Plan, Stopped, run_fit

        wishes = Wishes(target, task, family, event, exposure)
        kinds = tuple(as_types(types).items())
        plan = Plan(wishes, test, seed, as_alpha(alpha), tuple(as_list(keep)), kinds, max_seconds)
        problem = pose(read_file(table), wishes)
        folder = Folder(out)
        fingerprint = plan.fingerprint(table.read_bytes())
        say_task(problem)
        if resume:
            finished = folder.finished_fit(fingerprint)
            if finished is not None:
                note("This fit is finished already.")
                say_outcome(finished, folder)
                return
            if not folder.stage.exists():
                note(f"No stage of a stopped fit in {out}: starting from the beginning.")
        had_model = folder.model.exists()
        try:
            outcome = run_fit(problem, plan, folder, fingerprint, resume=resume)
        except Stopped as stopped:
            note(stopped_words(stopped.left, folder, had_model=had_model))
            raise typer.Exit(INTERRUPTED) from stopped
        say_outcome(outcome.metrics, folder)


def say_task(problem: Problem) -> None:
    """Say what the table asks for, and what was left out."""
    from sparsenam.cli.display import note, say

    for words in problem.notes:
        note(words)
    say(f"task: {problem.task.kind} ({problem.task.why})")


def say_outcome(metrics: Mapping[str, Any], folder: Folder) -> None:
    """Say what was kept, how large the error is, and where everything lies."""
    from sparsenam.cli.display import say

    kept, dropped = metrics["kept"], metrics["dropped"]
    say(f"kept: {', '.join(kept) or 'nothing'} ({len(kept)} of {metrics['columns']} columns)")
    say(f"dropped: {len(dropped)}")
    say(error_words(metrics["test"], metrics["rows"]["test"]))
    say(f"fit: {metrics['rows']['fit']} rows in {metrics['seconds']:.1f} s")
    say(f"model: {folder.model}")
    say(f"report: {folder.report}")
    say(f"metrics: {folder.metrics}")


def error_words(test: Mapping[str, Any] | None, rows: int) -> str:
    """Return the test error in one line, beside that of the baseline."""
    if test is None:
        return "test: no rows held out"
    more = "".join(
        f", {name.replace('_', ' ')} {test[name]:.4g}"
        for name in ("log_loss", "auc", "r2")
        if test.get(name) is not None
    )
    return (
        f"test {test['measure']}: {test['model']:.4g} on {rows} rows "
        f"(baseline, {test['baseline_is']}: {test['baseline']:.4g}){more}"
    )


def stopped_words(left: Left, folder: Folder, *, had_model: bool) -> str:
    """Return what a stopped fit leaves and how to go on."""
    if left == "nothing":
        older = f" ({folder.model} is of an earlier fit)" if had_model else ""
        return f"Stopped before there was a model{older}; the same command with --resume starts again."
    if left == "older":
        return (
            f"Stopped: {folder.model} is still that of the earlier fit; --resume goes on from the chosen features."
        )
    if left == "complete":
        return f"Stopped: {folder.model} is complete, its report is not; --resume goes on from the chosen features."
    return (
        f"Stopped: {folder.model} is a preliminary model, of the chosen features but not yet trained; "
        "the same command with --resume goes on from here."
    )
