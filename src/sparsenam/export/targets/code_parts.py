"""What the targets that write code share: templates, numbers as literals, safe comments and names, programs to run."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files as package_files

import numpy as np

from sparsenam.export.exporting import Matrix, Options, Rows
from sparsenam.export.portable import (
    Cell,
    Label,
    PortableColumn,
    PortableCurve,
    PortableModel,
    PortablePair,
    PortableTerm,
    is_missing,
    refusal,
)
from sparsenam.tables.text import MARKERS, number_in, numbered

LONGEST_IDENTIFIER = 40  # of an identifier, so that lines stay readable; names beyond it are cut and numbered
COMPILER_SECONDS = 600.0  # after which a compiler or a program is given up


def refuse_options(target: str, options: Options, known: Sequence[str] = ()) -> None:
    """Raise for options that a target does not know."""
    unknown = sorted(set(options) - set(known))
    if unknown:
        expected = f"options among {list(known)}" if known else "no options"
        raise refusal(f"export to {target}", expected, f"the option(s) {unknown}", "leave them out")


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
        raise refusal("model to export", "finite numbers", repr(value), "fit again on columns of a smaller range")
    return repr(float(value))


@dataclass(frozen=True, slots=True)
class Notation:
    """How a language writes plain data, labels, a list of any length, a row of fixed length, and codes by key."""

    literal: Callable[[object], str]
    label: Callable[[Label], str]
    listed: Callable[[Iterable[str]], str]
    row: Callable[..., str]
    codes: Callable[[Iterable[tuple[str, int]]], str]
    margin: str

    def parts(self, model: PortableModel) -> dict[str, str]:
        """Return the data of a module by their places in its template."""
        names = effect_names(model)[len(model.columns) :]
        return {
            "WRITTEN_BY": self.literal(model.written_by),
            "TASK": self.literal(model.task),
            "FAMILY": self.literal(model.family),
            "LINK": self.literal(model.link),
            "OUTPUTS": self.listed(map(self.literal, model.outputs)),
            "CLASSES": self.listed(map(self.label, model.classes)),
            "INTERCEPT": self.numbers(model.intercept),
            "MISSING_TEXTS": self.listed(map(self.literal, sorted(MARKERS))),
            "COLUMNS": self.lines(map(self.column, model.columns)),
            "TERMS": self.lines(map(self.term, model.terms)),
            "PAIRS": self.lines(map(self.pair, names, model.pairs)),
            "BASELINE": self.listed(map(self.numbers, model.baseline)),
        }

    def numbers(self, values: Iterable[float]) -> str:
        return self.listed(map(number_literal, values))

    def lines(self, parts: Iterable[str]) -> str:
        """Return a list with a line for each part."""
        start, end = self.row()
        return f"{start}\n" + "".join(f"{self.margin}{part},\n" for part in parts) + end

    def column(self, column: PortableColumn) -> str:
        """Return a column: name, kind, codes of levels by text and by number, codes of False and True."""
        texts = self.codes((self.literal(text), code) for text, code in column.by_text.items())
        numbers = self.codes((number_literal(number), code) for number, code in column.by_number.items())
        truths = self.literal((column.false, column.true))
        return self.row(self.literal(column.name), self.literal(column.kind), texts, numbers, truths)

    def term(self, term: PortableTerm) -> str:
        """Return a term: what it reads, its column, knots, pieces or values by code, what an absent cell adds."""
        if not isinstance(term, PortableCurve):
            values = self.listed(map(self.numbers, term.values))
            start = self.literal(term.reads), str(term.column), self.row()
            return self.row(*start, values, self.numbers(term.absent))
        across = zip(term.anchors, zip(*term.slopes, strict=True), zip(*term.bases, strict=True), strict=True)
        pieces = [
            self.row(number_literal(anchor), self.numbers(slopes), self.numbers(bases))
            for anchor, slopes, bases in across
        ]
        knots, absent = self.numbers(term.knots), self.numbers(term.absent)
        return self.row('"curve"', str(term.column), knots, self.listed(pieces), absent)

    def pair(self, name: str, pair: PortablePair) -> str:
        """Return a pair: name, two sides (column, what is read, nodes), values at nodes."""
        sides = [self.row(str(axis.column), self.literal(axis.reads), self.numbers(axis.knots)) for axis in pair.axes]
        values = self.listed(self.listed(map(self.numbers, row)) for row in pair.values)
        return self.row(self.literal(name), *sides, values)


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
