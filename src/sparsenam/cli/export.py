"""``sparsenam export``: a saved model written for the place where predictions run, and compared with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsenam.cli.display import say
from sparsenam.cli.models import inputs_of, load_model
from sparsenam.cli.options import MAX_BYTES, MaxBytes, ModelFile
from sparsenam.errors import InputError, describe

EXPORT_EPILOG = """\b
Examples:
  sparsenam export model.snam model.json
  sparsenam export model.snam model.sql --dialect duckdb --table loans --check loans.csv
  sparsenam export model.snam card.xlsx --pdo 20 --base-score 600 --base-odds 50
  sparsenam export model.snam points.csv --to scorecard --option good=paid

What the options of a target mean is said on the pages on exporting."""
WORDS = {"true": True, "false": False}
ARGUMENTS = ("to", "path", "X")  # of the method that exports, which are no options of a target


def export(
    model: ModelFile,
    path: Annotated[Path, typer.Argument(help="File to write; its suffix says the target.", show_default=False)],
    to: Annotated[str | None, typer.Option(help="Target, where the suffix does not say it.")] = None,
    check: Annotated[Path | None, typer.Option(help="Table of rows on which to compare what was written.")] = None,
    dialect: Annotated[str | None, typer.Option(help="SQL: the dialect.")] = None,
    table: Annotated[str | None, typer.Option(help="SQL: the table to read.")] = None,
    precision: Annotated[str | None, typer.Option(help="Precision of numbers, where a target has a choice.")] = None,
    pdo: Annotated[float | None, typer.Option(help="Scorecard: points to double the odds.")] = None,
    base_score: Annotated[float | None, typer.Option(help="Scorecard: the score at the base odds.")] = None,
    base_odds: Annotated[
        float | None, typer.Option(help="Scorecard: the odds, good to bad, at the base score.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help="Any other option, as name=value.")] = None,
    max_bytes: MaxBytes = MAX_BYTES,
) -> None:
    """Write a saved model for the place where predictions run: code, SQL, ONNX, PMML, a scorecard.

    With --check the largest difference between the scores of what was written and those of the model is said, over the
    rows of a table and as a share of the largest score, or of 1 where that is less.
    """
    from sparsenam.cli.tables import read_file

    named = {"dialect": dialect, "table": table, "precision": _value(precision), "pdo": pdo}
    named |= {"base_score": base_score, "base_odds": base_odds}
    options = options_of(option or [], {name: value for name, value in named.items() if value is not None})
    for read, what in ((model, "the model file"), (check, "the table to check on")):
        _refuse_overwriting(path, read, what)
    estimator = load_model(model)
    rows = None if check is None else inputs_of(estimator, read_file(check, max_bytes), check)
    if rows is not None:  # what speaks against the check is said before anything is written
        _require_check(estimator, rows, path, to, options)
    for file in estimator.export(path, to=to, **options):
        say(f"written: {file}")
    if rows is not None:
        difference = estimator.export_difference(path, rows.native, to=to, **options)
        say(f"largest difference of the score over its scale: {difference:.3g}")


def _refuse_overwriting(path: Path, read: Path | None, what: str) -> None:
    """Raise where the file to write is one that is read."""
    if read is not None and path.exists() and read.exists() and path.samefile(read):
        raise InputError(describe(f"path {path}", "a file to write", what, "name another"))


def _require_check(estimator: Any, rows: Any, path: Path, to: str | None, options: dict[str, Any]) -> None:
    """Raise where the target cannot be run here, or the model refuses the rows."""
    from sparsenam.export.exporting import target_for

    target_for(path, to).load().require_engine(path, options)
    with rows.naming_rows():
        estimator.fit_.reader().encode(rows.native)


def options_of(texts: list[str], named: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a target: those with a name on the command line, and the others, name=value each."""
    options = dict(named)
    for text in texts:
        name, mark, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not mark or not name.isidentifier():
            raise InputError(describe("--option", "name=value", repr(text), "write for example dialect=duckdb"))
        if name in options or name in ARGUMENTS:
            raise InputError(describe("--option", "an option of the target, once", repr(name), "leave it out"))
        options[name] = value if name == "good" else _value(value)  # a class's name stays text
    return options


def _value(text: str | None) -> Any:
    """Return a text as a number or a truth value where it writes one."""
    if text is None or text.lower() in WORDS:
        return WORDS.get((text or "").lower())
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
