"""The commands together; each imports what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

import typer

from sparsenam.cli.reproduce import reproduce

app = typer.Typer(
    name="sparsenam",
    help="Sparse Neural Additive Models: one small network per feature, and whole features switched off.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: loading rich would take half of the time
    pretty_exceptions_enable=False,
)


@app.callback()
def sparsenam() -> None:
    """Keep commands by name even while there is only one."""


app.command()(reproduce)
