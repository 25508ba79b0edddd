"""``sparsenam demo``: the whole way from a table to a report, on data that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparsenam.cli.errors import readable_errors

FOLDER = Path("sparsenam-demo")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table, the model and the report.")] = FOLDER,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole trace of an error.")] = False,
) -> None:
    """Fit the paper's synthetic regression: 24 columns, of which x0, x1, x2 and x3 matter."""
    from sparsenam.cli.fit import fit

    with readable_errors(debug=debug):
        table = write_demo_table(out)
        typer.echo(f"table: {table} (3000 rows, 24 columns of which x0, x1, x2 and x3 matter, noise 1.00)")
    fit(table, target="y", out=out, debug=debug)
    typer.echo(f"open {(out / 'report.html').resolve().as_uri()}")


def write_demo_table(folder: Path) -> Path:
    """Write the synthetic regression as a CSV file and return its path."""
    from sparsenam.datasets import make_regression
    from sparsenam.files import write_atomically

    task = make_regression(seed=0)
    lines = [",".join([*(f"x{place}" for place in range(task.X.shape[1])), "y"])]
    lines += [",".join(f"{value:.6f}" for value in (*row, y)) for row, y in zip(task.X, task.y, strict=True)]
    path = folder / "demo.csv"
    write_atomically(path, ("\n".join(lines) + "\n").encode())
    return path
