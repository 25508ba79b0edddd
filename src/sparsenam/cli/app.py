"""The commands together; each imports what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from sparsenam.cli import edit, export, fit, models, support, trust
from sparsenam.cli.display import readable_errors, say

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
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole trace of an error.")] = False,
) -> None:
    """Fit the paper's synthetic regression: 24 columns, of which x0, x1, x2 and x3 matter."""
    with readable_errors(debug=debug):
        table = write_demo_table(out)
        say(f"table: {table} (3000 rows, 24 columns of which x0, x1, x2 and x3 matter, noise 1.00)")
    fit.fit(table, target="y", out=out, debug=debug)
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


app.command(epilog=fit.FIT_EPILOG)(fit.fit)
app.command(epilog=models.PREDICT_EPILOG)(models.predict)
app.command(epilog=models.EXPLAIN_EPILOG)(models.explain)
app.command(epilog=models.REPORT_EPILOG)(models.report)
app.command(epilog=edit.EDIT_EPILOG)(edit.edit)
app.command(epilog=export.EXPORT_EPILOG)(export.export)
app.command(epilog=trust.AUDIT_EPILOG)(trust.audit)
app.command(epilog=trust.COMPARE_EPILOG)(trust.compare)
app.command(epilog=fit.PATH_EPILOG)(fit.path)
app.command(epilog=support.STABILITY_EPILOG)(support.stability)
app.command(epilog=support.ALTERNATIVES_EPILOG)(support.alternatives)
app.command()(demo)
