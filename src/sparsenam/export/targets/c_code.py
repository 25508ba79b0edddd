"""The model as a C99 header: one struct for a row, static functions, constant tables, no allocation.

A number is a double and a category an int, found once by a look-up of its text, number or truth value: whoever scores
many rows does not compare texts again and again. Names of columns become members of the struct; names and levels as
texts are written in octal where they are not letters or digits.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sparsenam.export.exporting import Matrix, Options, Rows
from sparsenam.export.portable import (
    Cell,
    PortableAxis,
    PortableColumn,
    PortableCurve,
    PortableModel,
    PortablePair,
    PortableTerm,
    refusal,
)
from sparsenam.export.targets.code_parts import (
    UNWRITABLE,
    check_texts,
    effect_names,
    filled,
    identifiers,
    in_comment,
    number_literal,
    number_of_cell,
    prefixed,
    program,
    run,
    scores_in,
    sections,
    template,
)
from sparsenam.tables.text import MARKERS

# words of C and C++, and macros that are written small
RESERVED = """
alignas alignof and and_eq asm assert atomic auto bitand bitor bool break case catch char char16_t char32_t
char8_t class co_await co_return co_yield compl complex concept const const_cast consteval constexpr constinit
continue decltype default delete do double dynamic_cast else enum errno explicit export extern false far float
for friend goto i386 if imaginary inline int interface linux long mutable namespace near new noexcept noreturn
not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
return short signed sizeof small static static_assert static_cast stderr stdin stdout struct switch template
this thread_local throw true try typedef typeid typename typeof union unix unsigned using virtual void
volatile wchar_t while xor xor_eq
"""
COMPILERS = ("cc", "gcc", "clang")
SCORES = """        double scores[U_OUTPUTS];
        P_scores(&row, scores);
        fwrite(scores, sizeof scores, 1, stdout);"""
START = "int main(void) { P_run(); return 0; }\n"
CODE = """        P_read(&kind, sizeof kind);
        if (kind == 0) row.NAME = U_MISSING;
        else if (kind == 1) row.NAME = P_text_NAME(P_read_text(text, sizeof text));
        else if (kind == 2) row.NAME = P_number_NAME(P_read_number());
        else row.NAME = kind == 5 ? U_UNKNOWN : P_truth_NAME(kind == 4);"""
KINDS = {"missing": 0, "text": 1, "number": 2, "false": 3, "true": 4, "unknown": 5}


PARTS = sections("model_parts.h.txt")


@dataclass(frozen=True, slots=True)
class Naming:
    """The words of a header: what all its names begin with, and the members of a row, one for each column."""

    prefix: str
    members: tuple[str, ...]


def files(model: PortableModel, path: Path, options: Options) -> dict[Path, bytes]:
    """Return the header; ``prefix`` is what its names begin with, by default made from the file's name."""
    return {path: header(model, naming_of(model, path, options)).encode("ascii")}


def require_engine(path: Path, options: Options) -> None:
    """Raise where there is no compiler."""
    program("c", *COMPILERS)


def scores(model: PortableModel, path: Path, rows: Rows, options: Options) -> Matrix:
    """Return the scores (rows, outputs) of the written header, compiled by cc."""
    naming, compiler = naming_of(model, path, options), program("c", *COMPILERS)
    with TemporaryDirectory() as folder:
        header, source, binary = (Path(folder) / name for name in ("model.h", "run.c", "run"))
        header.write_bytes(path.read_bytes())
        text = reader_of(model, "model.h", naming.prefix, naming.members) + prefixed(START, naming.prefix)
        source.write_text(text, encoding="ascii")
        run("c", [compiler, "-std=c99", "-O1", str(source), "-o", str(binary), "-lm"])
        found = run("c", [str(binary)], rows_as_bytes(model, rows))
    return scores_in(found, model, rows)


def naming_of(model: PortableModel, path: Path, options: Options) -> Naming:
    """Return the words of a header; raise for a prefix that is none."""
    prefix = options.get("prefix", identifiers([path.stem], RESERVED.split(), "model")[0])
    if not isinstance(prefix, str) or re.fullmatch(r"[A-Za-z][0-9A-Za-z_]*", prefix) is None:
        remedy = 'write for example prefix="model"'
        raise refusal("export to c: prefix", "a name of letters, digits and _", repr(prefix), remedy)
    return Naming(prefix, tuple(identifiers([column.name for column in model.columns], RESERVED.split(), "column")))


def header(model: PortableModel, naming: Naming) -> str:
    """Return the text of a header; raise for levels that C's texts cannot hold."""
    check_texts("c", model, UNWRITABLE, "names and levels that C's texts can hold")
    terms = [_term(place, term, model, naming) for place, term in enumerate(model.terms)]
    pairs = [_pair(place, pair, model, naming) for place, pair in enumerate(model.pairs)]
    row = _row(model, naming)
    lookups = [
        _lookup(column, member)
        for column, member in zip(model.columns, naming.members, strict=True)
        if column.kind == "category"
    ]
    data = "\n\n".join([row, *lookups, _names(model), *terms, *pairs])
    parts = {
        "WRITTEN_BY": in_comment(model.written_by),
        "GUARD": f"{naming.prefix.upper()}_H",
        "MISSING_TEXTS": ", ".join(text_literal(marker) for marker in sorted(MARKERS)),
        "DATA": data,
        "TASK": PARTS[f"task {_kind(model)}"],
    }
    return prefixed(filled(template("model.h.txt"), **parts, **_sums(model)), naming.prefix)


def text_literal(text: str) -> str:
    """Return a text as a C literal of its UTF-8 bytes; letters, digits and blanks as they are, others in octal."""
    plain = re.compile(rb"[0-9A-Za-z _.,;:+=<>()\[\]{}|!#%&^~'-]")
    return '"' + "".join(chr(byte) if plain.match(bytes([byte])) else f"\\{byte:03o}" for byte in text.encode()) + '"'


def _kind(model: PortableModel) -> str:
    return "several" if model.task == "regression" and len(model.outputs) > 1 else model.task


def _row(model: PortableModel, naming: Naming) -> str:
    units = {"number": "a number", "date": "days since 1970-01-01", "duration": "seconds", "category": "a code"}
    members, missing = list[str](), list[str]()
    for column, member in zip(model.columns, naming.members, strict=True):
        kind = "int" if column.kind == "category" else "double"
        members.append(f"    {kind} {member}; /* {in_comment(column.name)}: {units[column.kind]} */")
        missing.append(f"    row.{member} = {'U_MISSING' if kind == 'int' else 'NAN'};")
    return filled(
        PARTS["row"],
        OUTPUTS=len(model.outputs),
        COLUMNS=len(model.columns),
        EFFECTS=len(model.columns) + len(model.pairs),
        CLASSES=len(model.classes),
        MEMBERS="\n".join(members) or "    char unused;",
        MISSING="\n".join(missing) or "    row.unused = 0;",
    )


def _lookup(column: PortableColumn, member: str) -> str:
    """Return the functions that find the code of a level, by its text, its number or its truth value."""
    texts = sorted((text.encode("utf-8", "surrogatepass"), text, code) for text, code in column.by_text.items())
    numbers = sorted(column.by_number.items())
    false, true = ("U_UNKNOWN" if code is None else code for code in (column.false, column.true))
    return filled(
        PARTS["lookup"],
        COLUMN=in_comment(column.name),
        MEMBER=member,
        TEXTS=", ".join(f"{{{text_literal(text)}, {code}}}" for _, text, code in texts) or "{NULL, 0}",
        TEXT_COUNT=len(texts),
        NUMBERS=", ".join(f"{{{number_literal(number)}, {code}}}" for number, code in numbers) or "{0.0, 0}",
        NUMBER_COUNT=len(numbers),
        TRUE=true,
        FALSE=false,
    )


def _names(model: PortableModel) -> str:
    lists = {"effect": effect_names(model), "output": model.outputs, "class": [str(each) for each in model.classes]}
    return "\n\n".join(
        filled(PARTS["names"], WHAT=what, NAMES=", ".join(map(text_literal, names)), COUNT=len(names))
        for what, names in lists.items()
        if names
    )


def _table(kind: str, name: str, values: Sequence[Sequence[float]]) -> str:
    rows = ", ".join(f"{{{', '.join(map(number_literal, row))}}}" for row in values)
    return f"    static const {kind} {name}[{len(values)}][{len(values[0])}] = {{{rows}}};"


def _list(name: str, values: Iterable[float], padding: int = 0) -> str:
    literals = [*map(number_literal, values), *["INFINITY"] * padding]
    return f"    static const double {name}[{len(literals)}] = {{{', '.join(literals)}}};"


def _read(column: PortableColumn, member: str, reads: str) -> str:
    """Return an expression of what is read of a row: a number, a code, or whether the cell is missing."""
    if reads == "missing":
        return f"row->{member} == U_MISSING" if column.kind == "category" else f"isnan(row->{member}) != 0"
    return f"row->{member}"


def _term(place: int, term: PortableTerm, model: PortableModel, naming: Naming) -> str:
    column, member = model.columns[term.column], naming.members[term.column]
    shared: dict[str, object] = {
        "COLUMN": in_comment(column.name),
        "PLACE": place,
        "ABSENT": _list("absent", term.absent),
        "OUTPUTS": len(model.outputs),
    }
    if not isinstance(term, PortableCurve):
        values, code = _table("double", "values", term.values), _read(column, member, term.reads)
        return filled(PARTS["table"], **shared, VALUES=values, CODE=code, COUNT=len(term.values))
    half = 1
    while 2 * half - 1 < len(term.knots):
        half *= 2
    return filled(
        PARTS["curve"],
        **shared,
        KNOTS=_list("knots", term.knots, 2 * half - 1 - len(term.knots)),
        PIECES=_table("double", "pieces", list(zip(term.anchors, *term.slopes, *term.bases, strict=True))),
        MEMBER=member,
        HALF=half,
        BASES=1 + len(model.outputs),
    )


def _side(axis: PortableAxis, name: str, model: PortableModel, naming: Naming) -> str:
    column, member = model.columns[axis.column], naming.members[axis.column]
    value = _read(column, member, axis.reads)
    if axis.reads == "level":
        value = f"row->{member} >= 0 ? (double)row->{member} : NAN"
    return f"    P_place {name} = P_place_of({name}_knots, {len(axis.knots)}, {value});"


def _pair(place: int, pair: PortablePair, model: PortableModel, naming: Naming) -> str:
    one, other = pair.axes
    rows, ends = len(pair.values[0]), ("low", "high")
    return filled(
        PARTS["pair"],
        ONE=in_comment(model.names_of(pair)[0]),
        OTHER=in_comment(model.names_of(pair)[1]),
        PLACE=place,
        ONE_KNOTS=_list("one_knots", one.knots),
        OTHER_KNOTS=_list("other_knots", other.knots),
        VALUES=_table("double", "values", [node for row in pair.values for node in row]),
        ONE_PLACE=_side(one, "one", model, naming),
        OTHER_PLACE=_side(other, "other", model, naming),
        OUTPUTS=len(model.outputs),
        CORNERS=", ".join(f"values[{rows} * one.{i} + other.{j}][k]" for i in ends for j in ends),
    )


def _sums(model: PortableModel) -> dict[str, str]:
    """Return the parts of the functions that add terms and pairs up, to scores and to effects."""
    names = [f"P_term_{place}" for place in range(len(model.terms))]
    names += [f"P_pair_{place}" for place in range(len(model.pairs))]
    places = [*(term.column for term in model.terms), *range(len(model.columns), len(model.columns) + len(model.pairs))]
    effects = [f"    {name}(row, effects + {at} * U_OUTPUTS);" for name, at in zip(names, places, strict=True)]
    return {
        "INTERCEPT": _list("intercept", model.intercept),
        "ADDED": "\n".join(f"    {name}(row, scores);" for name in names) or "    (void)row;",
        "PARTS": "\n".join(effects) or "    (void)row;",
        "LINK": PARTS[f"link {model.link}"],
        "TIMES": _list("times", [time for time, _ in model.baseline] or [0.0]),
        "HAZARDS": _list("hazards", [hazard for _, hazard in model.baseline] or [0.0]),
        "EVENTS": str(len(model.baseline)),
    }


def reader_of(model: PortableModel, header: str, prefix: str, members: Sequence[str], answer: str = SCORES) -> str:
    """Return functions that read rows from the standard input and write an answer to each."""
    columns = zip(model.columns, members, strict=True)
    lines = [
        CODE.replace("NAME", member) if column.kind == "category" else f"        row.{member} = P_read_number();"
        for column, member in columns
    ]
    return prefixed(filled(template("run.c.txt"), HEADER=header, READ="\n".join(lines), ANSWER=answer), prefix)


def rows_as_bytes(model: PortableModel, rows: Rows) -> bytes:
    """Return rows for `reader_of`: each begins with a 1, and a 0 comes after the last."""
    parts = list[bytes]()
    for row in rows:
        parts.append(struct.pack("=i", 1))
        for column in model.columns:
            cell = row[column.name]
            if column.kind == "category":
                parts.append(_category(cell))
            else:
                parts.append(struct.pack("=d", number_of_cell(column.name, cell)))
    return b"".join([*parts, struct.pack("=i", 0)])


def _category(cell: Cell) -> bytes:
    if cell is None:
        return struct.pack("=i", KINDS["missing"])
    if isinstance(cell, bool):
        return struct.pack("=i", KINDS["true" if cell else "false"])
    if isinstance(cell, str):
        text = cell.encode("utf-8", "surrogatepass")
        if b"\0" in text:  # no text of C, so no level either
            return struct.pack("=i", KINDS["unknown"])
        return struct.pack("=ii", KINDS["text"], len(text)) + text
    return struct.pack("=id", KINDS["number"], float(cell))
