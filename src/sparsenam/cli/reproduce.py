"""``sparsenam reproduce``: the paper's tables and experiments again, its rows beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparsenam.cli.errors import BAD_INPUT, INTERRUPTED, readable_errors, say_error
from sparsenam.errors import InputError, describe
from sparsenam.paper import NAMES

if TYPE_CHECKING:
    from sparsenam.cli.progress import TerminalReporter
    from sparsenam.paper.reproduce import Wishes

ALL = "all"
FOLDER = Path("sparsenam-reproduction")


def reproduce(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}, or all.", show_default=False)],
    quick: Annotated[bool, typer.Option("--quick", help="Small data, few epochs: seconds, not minutes.")] = False,
    figures: Annotated[bool, typer.Option("--figures", help="Draw the paper's figures too.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for JSON, Markdown and figures.")] = FOLDER,
    recipe: Annotated[Path | None, typer.Option(help="A recipe (TOML) in the place of NAME's own.")] = None,
    methods: Annotated[str | None, typer.Option(help="Only these methods, with commas between.")] = None,
    splits: Annotated[int | None, typer.Option(help="How many splits.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the data files; else fetched once.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole trace of an error.")] = False,
) -> None:
    """Run what the paper reports and print the paper's row beside ours.

    Records are kept as they are made: the same command goes on where it stopped, and a second run only prints.
    """
    with readable_errors(debug=debug):
        names = NAMES if name == ALL else (name,)
        if name == ALL and (recipe is not None or methods is not None or splits is not None):
            raise InputError(
                describe(
                    "reproduce all",
                    "no --recipe, --methods or --splits",
                    "one of them",
                    "give a single name with it",
                )
            )
        # the heavy rooms are loaded here and not at the top: "sparsenam --help" must not wait for PyTorch
        from sparsenam.cli.progress import TerminalReporter
        from sparsenam.paper.reproduce import Wishes

        chosen = None if methods is None else tuple(part.strip() for part in methods.split(",") if part.strip())
        wishes = Wishes(out, quick, figures, recipe, chosen, splits, data)
        failed = False
        with TerminalReporter() as reporter:
            for each in names:
                try:
                    _reproduce_one(each, wishes, reporter)
                except InputError as error:
                    # of several names one without its data does not keep the others waiting
                    if name != ALL or debug:
                        raise
                    reporter.pause()
                    say_error(error)
                    failed = True
    if failed:
        raise typer.Exit(BAD_INPUT)


def _reproduce_one(name: str, wishes: Wishes, reporter: TerminalReporter) -> None:
    from sparsenam.paper.reproduce import report_path
    from sparsenam.paper.reproduce import reproduce as run

    try:
        result = run(name, wishes, reporter)
    except KeyboardInterrupt as interrupt:
        reporter.pause()
        where = report_path(name, wishes)
        count = f"{reporter.done} of {reporter.total} records are" if where.exists() else "nothing is"
        reporter.tell(f"Stopped: {count} saved in {where}; the same command goes on from there.")
        raise typer.Exit(INTERRUPTED) from interrupt
    reporter.pause()
    for table in result.tables:
        reporter.show(table)
    drawn = f" and {len(result.figures)} files in {result.figures[0].parent}" if result.figures else ""
    reporter.tell(f"Written: {result.report}, {result.markdown}{drawn}.")
