"""``sparsenam report``: a page about a model, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparsenam.cli.errors import readable_errors
from sparsenam.errors import InputError, describe

REPORT = Path("report.html")
EPILOG = """\b
Examples:
  sparsenam report sparsenam-model/model.snam
  sparsenam report sparsenam-model/model.snam houses.csv --rows 0,5 --out houses.html"""


def report(
    model: Annotated[Path, typer.Argument(help="A model.snam of sparsenam fit.", show_default=False)],
    table: Annotated[Path | None, typer.Argument(help="Rows to show; else those of the fit.")] = None,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = REPORT,
    rows: Annotated[str | None, typer.Option(help="Rows of the table to explain one by one, from 0.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole trace of an error.")] = False,
) -> None:
    """Write a page that shows what the model does with each column; it opens without a network."""
    with readable_errors(debug=debug):
        import numpy as np

        from sparsenam.cli.display import say
        from sparsenam.cli.files import write_report
        from sparsenam.cli.loading import load_model, read_for
        from sparsenam.cli.options import as_rows

        if not out.parent.is_dir() or out.is_dir():
            raise InputError(describe("--out", "a file in a folder", str(out), "make the folder or choose another"))
        if rows is not None and table is None:
            raise InputError(describe("--rows", "a table to take the rows from", "none", "name it after the model"))
        estimator = load_model(model)
        own = None if table is None else read_for(estimator, table)[1]
        local = None
        if own is not None:
            first = ",".join(str(place) for place in range(min(5, own.rows)))
            places = as_rows(first if rows is None else rows, own.rows)
            local = estimator.explain_local(own.take(np.array(places, dtype=np.intp)).native)
        write_report(estimator.explain(None if own is None else own.native), out, local)
        say(f"report: {out}")
