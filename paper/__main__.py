"""``python -m paper NAME``: the paper's tables and experiments again, its rows beside ours."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from paper import NAMES
from paper.claims import claims_table
from paper.records import Record, Reporter
from paper.reproduce import Reproduction, Request, reproduce

ALL, CLAIMS = "all", "claims"
NOT_DRAWN = 1
BAD_INPUT = 2
INTERRUPTED = 130
ABOUT = """\
Run what the paper reports and print the paper's row beside ours.

Records are kept as they are made: the same command goes on where it stopped, and a second run only prints. Fits
that failed for want of a package, of memory or of a file are tried again; those that diverged or took too long only
with --retry. A recipe FILE of yours has its report in NAME-FILE.json."""


class Terminal(Reporter):
    """Prints a line for each record on stderr."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0

    def begin(self, name: str, done: int, total: int) -> None:
        """Say how many records are there."""
        self.done, self.total = done, total
        self.say(f"{name}: {done} of {total} records are there.")

    def finish(self, record: Record) -> None:
        """Count a record and give it a line."""
        self.done += 1
        label = f"{record['section']} {record['method']}".strip()
        ending = "" if record["status"] == "done" else f", failed: {record['reason']}"
        count = f"{self.done}/{self.total}"
        self.say(f"  {count} {label}, seed {record['seed']}: {record['wall_seconds']:.1f} s{ending}")

    def say(self, message: str) -> None:
        """Write a line on stderr."""
        print(message, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = _parser().parse_args(arguments)
    methods = None
    if given.methods is not None:
        methods = tuple(part.strip() for part in given.methods.split(",") if part.strip())
    request = Request(
        given.out, given.quick, given.figures, given.recipe, methods, given.splits, given.data, given.retry, given.renew
    )
    reporter, code = Terminal(), 0
    if given.name == ALL and (given.recipe, methods, given.splits) != (None, None, None):
        reporter.say("paper: all: expected no --recipe, --methods or --splits; give a single name with them.")
        return BAD_INPUT
    for name in (*NAMES, CLAIMS) if given.name == ALL else (given.name,):
        try:
            complete = _run(name, request, reporter, debug=given.debug)
            code = code or (0 if complete else NOT_DRAWN)
        except KeyboardInterrupt:
            path = request.report_path(name)
            count = f"{reporter.done} of {reporter.total} records are" if path.exists() else "nothing is"
            reporter.say(f"Stopped: {count} saved in {path}; the same command goes on from there.")
            return INTERRUPTED
        except (ValueError, ImportError, OSError, ArithmeticError) as error:
            if given.debug:
                raise
            # of several names one without its data does not keep the others waiting
            reporter.say(f"paper: {' '.join(str(error).split()) or type(error).__name__}")
            code = BAD_INPUT
    return code


def _parser() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    names = textwrap.fill(", ".join(NAMES), 78, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    about = f"{ABOUT}\n\nNAME is one of\n{names};\nclaims: the paper's claims, from the reports of these; or all."
    parser = argparse.ArgumentParser("python -m paper", description=about, formatter_class=shape)
    parser.add_argument("name", metavar="NAME", help="what to run")
    parser.add_argument("--quick", action="store_true", help="small data, few epochs: seconds, not minutes")
    parser.add_argument(
        "--figures", action="store_true", help="draw too; fits whose curves are not in OUT/cache are made again"
    )
    out = Path("paper/results")
    parser.add_argument("--out", type=Path, default=out, help=f"folder for JSON, Markdown and figures ({out})")
    parser.add_argument("--recipe", type=Path, metavar="FILE", help="a recipe (TOML) instead of NAME's")
    parser.add_argument("--methods", metavar="A,B", help="only these methods")
    parser.add_argument("--splits", type=int, help="how many splits")
    parser.add_argument("--data", type=Path, help="folder with the data files; else fetched once")
    parser.add_argument("--retry", action="store_true", help="try again what failed, whatever the reason")
    parser.add_argument("--renew", action="store_true", help="make records again that are there, by the present code")
    parser.add_argument("--debug", action="store_true", help="show the whole trace of an error")
    return parser


def _run(name: str, request: Request, reporter: Terminal, *, debug: bool) -> bool:
    """Run, print and draw one name; return whether every figure could be drawn."""
    if name == CLAIMS:
        return _judge(request.out, reporter)
    result = reproduce(name, request, reporter)
    for table in result.tables:
        print(f"\n{table.text()}", end="", flush=True)
    reporter.say(f"Written: {result.store.path}, {result.markdown}.")
    return _draw(result, reporter, debug=debug) if request.figures else True


def _judge(folder: Path, reporter: Terminal) -> bool:
    """Print and write the table of the paper's claims from the reports in a folder."""
    table = claims_table(folder)
    print(f"\n{table.text()}", end="", flush=True)
    path = folder / f"{CLAIMS}.md"
    path.write_text(table.markdown(), encoding="utf-8")
    reporter.say(f"Written: {path}.")
    return True


def _draw(result: Reproduction, reporter: Terminal, *, debug: bool) -> bool:
    drawing = result.draw()
    for name, error in drawing.failures.items():
        if debug:
            raise error
        message = " ".join(str(error).split()) or type(error).__name__
        reporter.say(f"The figure {name} could not be drawn: {message}")
    if drawing.paths:
        reporter.say(f"Drawn: {len(drawing.paths)} files in {drawing.paths[0].parent}.")
    elif not drawing.failures:
        reporter.say(f"No figure: no record of {result.name} has anything to draw.")
    return not drawing.failures


if __name__ == "__main__":
    sys.exit(main())
