"""``sparsenam reproduce``: the paper's tables and experiments again, its rows beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparsenam.cli.errors import BAD_INPUT, INTERRUPTED, NOT_DRAWN, readable_errors, say_error
from sparsenam.errors import InputError, describe
from sparsenam.paper import NAMES

if TYPE_CHECKING:
    from sparsenam.cli.progress import TerminalReporter
    from sparsenam.paper.reproduce import Reproduction, Wishes

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
    retry: Annotated[bool, typer.Option("--retry", help="Try again what failed, whatever the reason.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole trace of an error.")] = False,
) -> None:
    """Run what the paper reports and print the paper's row beside ours.

    Records are kept as they are made: the same command goes on where it stopped, and a second run only prints.
    Fits that failed for want of a package, of memory or of a file are tried again; those that diverged or took too
    long only with --retry. A recipe of your own, FILE, has its report in NAME-FILE.json.
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
        wishes = Wishes(out, quick, figures, recipe, chosen, splits, data, retry)
        code = 0
        with TerminalReporter() as reporter:
            for each in names:
                try:
                    complete = _reproduce_one(each, wishes, reporter, debug=debug)
                    code = code or (0 if complete else NOT_DRAWN)
                except InputError as error:
                    # of several names one without its data does not keep the others waiting
                    if name != ALL or debug:
                        raise
                    reporter.pause()
                    say_error(error)
                    code = BAD_INPUT
    if code:
        raise typer.Exit(code)


def _reproduce_one(name: str, wishes: Wishes, reporter: TerminalReporter, *, debug: bool) -> bool:
    """Run, print and draw one name; tell whether every figure could be drawn."""
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
    reporter.tell(f"Written: {result.report}, {result.markdown}.")
    return _draw(result, reporter, debug=debug) if wishes.figures else True


def _draw(result: Reproduction, reporter: TerminalReporter, *, debug: bool) -> bool:
    from sparsenam.paper.reproduce import draw

    drawing = draw(result)
    for name, error in drawing.failures.items():
        if debug:
            raise error
        words = " ".join(str(error).split()) or type(error).__name__
        reporter.tell(f"The figure {name} could not be drawn: {words}")
    if drawing.paths:
        reporter.tell(f"Drawn: {len(drawing.paths)} files in {drawing.paths[0].parent}.")
    elif not drawing.failures:
        reporter.tell(f"No figure: no record of {result.name} has anything to draw.")
    return not drawing.failures
