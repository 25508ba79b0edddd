"""The commands together; each imports what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from sparsenam.cli import explain, fit, path, predict, report
from sparsenam.cli.demo import demo

EPILOG = """\b
Examples:
  sparsenam demo
  sparsenam fit houses.csv --target price
  sparsenam predict sparsenam-model/model.snam new.csv
  sparsenam explain sparsenam-model/model.snam new.csv --rows 0,5

sparsenam COMMAND --help says more about each command."""

app = typer.Typer(
    name="sparsenam",
    help="Sparse Neural Additive Models: one small network per feature, and whole features switched off.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: loading rich would take half of the time
    pretty_exceptions_enable=False,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sparsenam {version('sparsenam')}")
        raise typer.Exit


@app.callback()
def sparsenam(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Take the options that come before a command."""


app.command(epilog=fit.EPILOG)(fit.fit)
app.command(epilog=predict.EPILOG)(predict.predict)
app.command(epilog=explain.EPILOG)(explain.explain)
app.command(epilog=report.EPILOG)(report.report)
app.command(epilog=path.EPILOG)(path.path)
app.command()(demo)
