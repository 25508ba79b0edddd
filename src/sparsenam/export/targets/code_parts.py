"""What the targets that write code share: templates, numbers as literals, safe comments and names, programs to run."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files as package_files

import numpy as np

from sparsenam.export.exporting import Matrix, Rows
from sparsenam.export.portable import Cell, ExportError, PortableCurve, PortableModel, PortableTerm, is_missing, refusal
from sparsenam.tables.text import MARKERS, number_in, numbered

LONGEST_IDENTIFIER = 40  # of an identifier, so that lines stay readable; names beyond it are cut and numbered
HALVES = re.compile("[\ud800-\udfff]")  # of characters, which UTF-8 has not
UNWRITABLE = re.compile("[\0\ud800-\udfff]")
COMPILER_SECONDS = 600.0  # after which a compiler or a program is given up


def check_texts(target: str, model: PortableModel, forbidden: re.Pattern[str], expected: str) -> None:
    """Raise where a name, a level or a label has a character that a target cannot write."""
    texts = [text for column in model.columns for text in (column.name, *(level.text for level in column.levels))]
    for text in [*texts, *model.outputs, *map(str, model.classes), model.written_by]:
        if forbidden.search(text):
            raise refusal(f"export to {target}", expected, repr(text), "rename it in the table and fit again")


@cache
def template(name: str) -> str:
    """Return the text of a template."""
    return (package_files("sparsenam.export.targets") / "templates" / name).read_text("utf-8")


@cache
def sections(name: str) -> dict[str, str]:
    """Return the sections of a template; each begins with a line @@title@@."""
    parts = re.split("^@@([a-z ]+)@@\n", template(name), flags=re.MULTILINE)
    return {title: text.strip("\n") for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def filled(text: str, **parts: object) -> str:
    """Return the text of a template with parts in the places @@PART@@; what the parts say is never looked through."""
    return re.sub("@@([A-Z_]+)@@", lambda found: str(parts[found[1]]), text)


def number_literal(value: float) -> str:
    """Return the shortest decimal that gives the number back to the bit, as Python, JavaScript and C write it."""
    if not math.isfinite(value):
        raise _not_finite(repr(value))
    return repr(float(value))


def _not_finite(got: str) -> ExportError:
    return refusal("model to export", "finite numbers", got, "fit again on columns of a smaller range")


def module_data(
    model: PortableModel, literal: Callable[[object], str], brackets: Sequence[str] = "()"
) -> dict[str, str]:
    """Return the data of a module by their places in its template, with a line for each column, term and pair."""
    columns = [
        (column.name, column.kind, *map(list, (column.by_text.items(), column.by_number.items())), truths)
        for column, truths in ((column, (column.false, column.true)) for column in model.columns)
    ]
    names = effect_names(model)[len(model.columns) :]
    pairs = [
        (name, *((axis.column, axis.reads, axis.knots) for axis in pair.axes), pair.values)
        for name, pair in zip(names, model.pairs, strict=True)
    ]
    data = {
        "WRITTEN_BY": model.written_by,
        "TASK": model.task,
        "FAMILY": model.family,
        "LINK": model.link,
        "OUTPUTS": model.outputs,
        "CLASSES": model.classes,
        "INTERCEPT": model.intercept,
        "MISSING_TEXTS": sorted(MARKERS),
        "BASELINE": model.baseline,
    }
    lines = {"COLUMNS": columns, "TERMS": list(map(_term, model.terms)), "PAIRS": pairs}
    try:
        json.dumps([data, lines], allow_nan=False)
    except ValueError as error:
        raise _not_finite("others") from error
    start, end = brackets
    return {name: literal(value) for name, value in data.items()} | {
        name: start + "".join(f"\n    {literal(part)}," for part in parts) + f"\n{end}" for name, parts in lines.items()
    }


def _term(term: PortableTerm) -> tuple[object, ...]:
    """Return a term: what it reads, its column, knots, pieces or values by code, what an absent cell adds."""
    if not isinstance(term, PortableCurve):
        return (term.reads, term.column, (), term.values, term.absent)
    pieces = zip(term.anchors, zip(*term.slopes, strict=True), zip(*term.bases, strict=True), strict=True)
    return ("curve", term.column, term.knots, tuple(pieces), term.absent)


def number_of_cell(column: str, cell: Cell) -> float:
    """Return a cell of a column of numbers as a number, NaN where it is missing."""
    if cell is None or is_missing(cell):
        return math.nan
    number = number_in(cell) if isinstance(cell, str) else float(cell)
    if number is None:
        raise refusal(f"column {column!r}", "numbers", f"the text {cell!r}", "mend this cell")
    return number


def effect_names(model: PortableModel) -> list[str]:
    """Return the names of the effects, each once, those of all columns and then those of pairs."""
    names = [column.name for column in model.columns]
    return numbered(names + [" × ".join(model.names_of(pair)) for pair in model.pairs])


def in_comment(text: str, longest: int = 60) -> str:
    """Return a text as ASCII in quotes that ends no comment and no line, cut where it is long."""
    shown = ascii(text if len(text) <= longest else text[:longest] + "...")
    for sign in '?"*/':  # trigraphs, quotes, ends
        shown = shown.replace(sign, f"\\x{ord(sign):02x}")
    return shown


def identifiers(names: Sequence[str], taken: Iterable[str], fallback: str) -> list[str]:
    """Return an identifier for each name, of ASCII letters, digits and _, each once and none of those taken.

    Names in capitals are written small, since macros are not; so is a single capital before _, which stands for a
    prefix in the parts of the header.
    """
    used, result = set(taken), list[str]()
    for name in names:
        plain = re.sub(r"[^0-9A-Za-z]+", "_", name.lower() if name.upper() == name else name)[
            :LONGEST_IDENTIFIER
        ].strip("_")
        start = plain if plain[:1].isalpha() else f"{fallback}_{plain}".strip("_")
        start = start[:1].lower() + start[1:] if start[1:2] == "_" else start
        candidate, number = start, 1
        while candidate in used:
            number += 1
            candidate = f"{start}_{number}"
        used.add(candidate)
        result.append(candidate)
    return result


def prefixed(text: str, prefix: str) -> str:
    """Return a text of C in which P_ and U_ at the start of a name became the prefix, as it is and in capitals.

    What stands between double quotes is left as it is; names in comments have none.
    """
    words = {"P": f"{prefix}_", "U": f"{prefix.upper()}_"}
    return re.sub(r"""("[^"]*")|\b([PU])_(?=\w)""", lambda found: found[1] or words[found[2]], text)


def program(target: str, *names: str) -> str:
    """Return the first program there is among some; raise where there is none."""
    for name in names:
        if (found := shutil.which(name)) is not None:
            return found
    got, remedy = "a machine without it", "install it, or check the export where it runs"
    raise refusal(f"check of an export to {target}", f"the program {' or '.join(names)}", got, remedy)


def scores_in(content: bytes, model: PortableModel, rows: Rows) -> Matrix:
    """Return the scores (rows, outputs) that a program wrote as doubles, one after the other."""
    return np.frombuffer(content, dtype="<f8").reshape(len(rows), len(model.outputs)).astype(np.float64)


def run(target: str, command: Sequence[str], given: bytes = b"") -> bytes:
    """Return what a program writes; raise with the first lines that it complains with."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=COMPILER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        got, remedy = type(error).__name__, "run it by hand to see why"
        raise refusal(f"check of an export to {target}", f"{command[0]} to run", got, remedy) from error
    if done.returncode:
        got = " ".join(done.stderr.decode("utf-8", "replace").split())[:500]
        raise refusal(f"check of an export to {target}", f"{command[0]} to succeed", got, "mend this")
    return done.stdout
