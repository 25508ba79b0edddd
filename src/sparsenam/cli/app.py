"""The commands together; each imports what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from sparsenam.cli import fit, models, questions
from sparsenam.cli.display import say
from sparsenam.cli.options import as_command

EPILOG = """\b
Examples:
  sparsenam demo
  sparsenam fit houses.csv --target price
  sparsenam predict sparsenam-model/model.snam new.csv
  sparsenam explain sparsenam-model/model.snam new.csv --rows 0,5

sparsenam COMMAND --help says more about each command."""

app = typer.Typer(
    name="sparsenam",
    help="Sparse Neural Additive Models: one small network per column, and whole columns switched off.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: loading rich would take half of the time
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"sparsenam {version('sparsenam')}")
        raise typer.Exit


@app.callback()
def sparsenam(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Take the options that come before a command."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table, the model and the report.")] = Path("sparsenam-demo"),
) -> None:
    """Fit the paper's synthetic regression: 24 columns, of which x0, x1, x2 and x3 matter."""
    table = write_demo_table(out)
    say(f"table: {table} (3000 rows, 24 columns of which x0, x1, x2 and x3 matter, noise 1.00)")
    fit.fit(fit.FitOptions(table=table, target="y", out=out))
    say(f"open {(out / 'report.html').resolve().as_uri()}")


def write_demo_table(folder: Path) -> Path:
    """Write the synthetic regression as a CSV file and return its path."""
    from sparsenam.datasets import make_regression
    from sparsenam.files import write_atomically

    task = make_regression(seed=0)
    lines = [",".join([*(f"x{index}" for index in range(task.X.shape[1])), "y"])]
    lines += [",".join(f"{value:.6f}" for value in (*row, y)) for row, y in zip(task.X, task.y, strict=True)]
    path = folder / "demo.csv"
    write_atomically(path, ("\n".join(lines) + "\n").encode())
    return path


COMMANDS = (
    (fit.fit, fit.FIT_EPILOG),
    (models.predict, models.PREDICT_EPILOG),
    (models.explain, models.EXPLAIN_EPILOG),
    (models.report, models.REPORT_EPILOG),
    (models.edit, models.EDIT_EPILOG),
    (models.export, models.EXPORT_EPILOG),
    (questions.audit, questions.AUDIT_EPILOG),
    (questions.compare, questions.COMPARE_EPILOG),
    (fit.path, fit.PATH_EPILOG),
    (questions.stability, questions.STABILITY_EPILOG),
    (questions.alternatives, questions.ALTERNATIVES_EPILOG),
    (demo, None),
)
for function, epilog in COMMANDS:
    app.command(epilog=epilog)(as_command(function))
