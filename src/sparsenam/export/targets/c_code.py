"""The model as a C99 header: one struct for a row, static functions, constant tables, no allocation.

A number is a double and a category an int, found once by a look-up of its text, number or truth value: whoever scores
many rows does not compare texts again and again. Names of columns become members of the struct; names and levels as
texts are written in octal where they are not letters or digits.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sparsenam.errors import describe
from sparsenam.export.exporting import Cell, Matrix, Rows
from sparsenam.export.portable import (
    ExportError,
    PortableAxis,
    PortableColumn,
    PortableCurve,
    PortableModel,
    PortablePair,
    PortableTerm,
)
from sparsenam.export.targets.code_parts import (
    by_number,
    by_text,
    effect_names,
    filled,
    identifiers,
    in_comment,
    number_literal,
    number_of_cell,
    prefixed,
    program,
    refuse_options,
    run,
    scores_in,
    section,
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


@dataclass(frozen=True, slots=True)
class Naming:
    """The words of a header: what all its names begin with, and the members of a row, one for each column."""

    prefix: str
    members: tuple[str, ...]


def files(model: PortableModel, path: Path, options: Mapping[str, Any]) -> dict[Path, bytes]:
    """Return the header; ``prefix`` is what its names begin with, by default made from the file's name."""
    return {path: header(model, naming_of(model, path, options)).encode("ascii")}


def require_engine(path: Path, options: Mapping[str, Any]) -> None:
    """Raise where there is no compiler."""
    refuse_options("c", options, ("prefix",))
    compiler_of_headers()


def scores(model: PortableModel, path: Path, rows: Rows, options: Mapping[str, Any]) -> Matrix:
    """Return the scores (rows, outputs) of the written header, compiled by cc."""
    naming = naming_of(model, path, options)
    return run_header(model, path, rows, naming.prefix, naming.members)


def naming_of(model: PortableModel, path: Path, options: Mapping[str, Any]) -> Naming:
    """Return the words of a header; raise for options that are none."""
    refuse_options("c", options, ("prefix",))
    prefix = options.get("prefix", identifiers([path.stem], RESERVED.split(), "model")[0])
    if not isinstance(prefix, str) or re.fullmatch(r"[A-Za-z][0-9A-Za-z_]*", prefix) is None:
        remedy = 'write for example prefix="model"'
        raise ExportError(describe("export to c: prefix", "a name of letters, digits and _", repr(prefix), remedy))
    return Naming(prefix, tuple(identifiers([column.name for column in model.columns], RESERVED.split(), "column")))


def header(model: PortableModel, naming: Naming) -> str:
    """Return the text of a header; raise for levels that C's texts cannot hold."""
    terms = [_term(place, term, model, naming) for place, term in enumerate(model.terms)]
    pairs = [_pair(place, pair, model, naming) for place, pair in enumerate(model.pairs)]
    row = _row(model, naming)
    lookups = [
        _lookup(column, member) for column, member in zip(model.columns, naming.members, strict=True) if _coded(column)
    ]
    data = "\n\n".join([row, *lookups, _names(model), *terms, *pairs])
    parts = {
        "WRITTEN_BY": in_comment(model.written_by),
        "GUARD": f"{naming.prefix.upper()}_H",
        "MISSING_TEXTS": ", ".join(text_literal(marker) for marker in sorted(MARKERS)),
        "DATA": data,
        "TASK": section("model_parts.h.txt", f"task {_kind(model)}"),
    }
    return prefixed(filled("model.h.txt", **parts, **_sums(model)), naming.prefix)


def text_literal(text: str) -> str:
    """Return a text as a C literal of its UTF-8 bytes; letters, digits and blanks as they are, others in octal."""
    if "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        got, remedy = f"the text {text!r}", "rename it before the fit"
        raise ExportError(describe("export to c", "names and levels that C's texts can hold", got, remedy))
    plain = re.compile(rb"[0-9A-Za-z _.,;:+=<>()\[\]{}|!#%&^~'-]")
    return '"' + "".join(chr(byte) if plain.match(bytes([byte])) else f"\\{byte:03o}" for byte in text.encode()) + '"'


def _coded(column: PortableColumn) -> bool:
    return column.kind == "category"


def _kind(model: PortableModel) -> str:
    return "several" if model.task == "regression" and len(model.outputs) > 1 else model.task


def _row(model: PortableModel, naming: Naming) -> str:
    counts = {
        "OUTPUTS": len(model.outputs),
        "COLUMNS": len(model.columns),
        "EFFECTS": len(model.columns) + len(model.pairs),
        "CLASSES": len(model.classes),
    }
    units = {"number": "a number", "date": "days since 1970-01-01", "duration": "seconds", "category": "a code"}
    members, missing = list[str](), list[str]()
    for column, member in zip(model.columns, naming.members, strict=True):
        kind = "int" if _coded(column) else "double"
        members.append(f"    {kind} {member}; /* {in_comment(column.name)}: {units[column.kind]} */")
        missing.append(f"    row.{member} = {'U_MISSING' if _coded(column) else 'NAN'};")
    if not members:
        members, missing = ["    char unused;"], ["    row.unused = 0;"]
    return "\n".join(
        [
            f"enum {{ {', '.join(f'U_{name} = {count}' for name, count in counts.items())} }};",
            "",
            "/* What the model reads of a row: NAN and U_MISSING are missing cells. */",
            "typedef struct {",
            *members,
            "} P_row;",
            "",
            "static inline P_row P_missing_row(void)",
            "{",
            "    P_row row;",
            *missing,
            "    return row;",
            "}",
        ]
    )


def _lookup(column: PortableColumn, member: str) -> str:
    """Return the functions that find the code of a level, by its text, its number or its truth value."""
    texts = sorted((text.encode("utf-8", "surrogatepass"), text, code) for text, code in by_text(column).items())
    numbers = sorted(by_number(column).items())
    known_texts = [f"{{{text_literal(text)}, {code}}}" for _, text, code in texts]
    known_numbers = [f"{{{number_literal(number)}, {code}}}" for number, code in numbers]
    table = f"    static const P_known_number numbers[] = {{{', '.join(known_numbers or ['{0.0, 0}'])}}};"
    false, true = ("U_UNKNOWN" if code is None else str(code) for code in (column.false, column.true))
    return "\n".join(
        [
            f"/* Codes of {in_comment(column.name)}. */",
            f"static inline int P_text_{member}(const char *text)",
            "{",
            f"    static const P_known_text texts[] = {{{', '.join(known_texts or ['{NULL, 0}'])}}};",
            table,
            f"    return P_code_of_text(texts, {len(texts)}, numbers, {len(numbers)}, text);",
            "}",
            "",
            f"static inline int P_number_{member}(double number)",
            "{",
            table,
            f"    return P_code_of_number(numbers, {len(numbers)}, number);",
            "}",
            "",
            f"static inline int P_truth_{member}(int truth)",
            "{",
            f"    return truth ? {true} : {false};",
            "}",
        ]
    )


def _names(model: PortableModel) -> str:
    lists = {
        "effect": effect_names(model),
        "output": list(model.outputs),
        "class": [str(each) for each in model.classes],
    }
    parts = list[str]()
    for what, names in lists.items():
        if names:
            parts.append(
                f"static inline const char *P_{what}_name(int place)\n{{\n    static const char *const names[] = "
                f"{{{', '.join(map(text_literal, names))}}};\n"
                f"    return place >= 0 && place < {len(names)} ? names[place] : NULL;\n}}"
            )
    return "\n\n".join(parts)


def _table(kind: str, name: str, values: Sequence[Sequence[float]]) -> str:
    rows = ", ".join(f"{{{', '.join(map(number_literal, row))}}}" for row in values)
    return f"    static const {kind} {name}[{len(values)}][{len(values[0])}] = {{{rows}}};"


def _list(name: str, values: Iterable[float], padding: int = 0) -> str:
    literals = [*map(number_literal, values), *["INFINITY"] * padding]
    return f"    static const double {name}[{len(literals)}] = {{{', '.join(literals)}}};"


def _read(column: PortableColumn, member: str, reads: str) -> str:
    """Return an expression of what is read of a row: a number, a code, or whether the cell is missing."""
    if reads == "missing":
        return f"row->{member} == U_MISSING" if _coded(column) else f"isnan(row->{member}) != 0"
    return f"row->{member}"


def _term(place: int, term: PortableTerm, model: PortableModel, naming: Naming) -> str:
    column, member = model.columns[term.column], naming.members[term.column]
    start = [
        f"/* {in_comment(column.name)} */",
        f"static inline void P_term_{place}(const P_row *row, double *total)",
        "{",
        _list("absent", term.absent),
    ]
    each = f"for (k = 0; k < {len(model.outputs)}; k++) total[k] +="
    if isinstance(term, PortableCurve):
        half = 1
        while 2 * half - 1 < len(term.knots):
            half *= 2
        pieces = list(zip(term.anchors, *term.slopes, *term.bases, strict=True))
        lines = [
            _list("knots", term.knots, 2 * half - 1 - len(term.knots)),
            _table("double", "pieces", pieces),
            f"    double x = row->{member};",
            "    int k;",
            "    if (isfinite(x)) {",
            f"        const double *piece = pieces[P_piece(knots, {half}, x)];",
            "        double across = x - piece[0];",
            f"        {each} P_product(piece[1 + k], across) + piece[{1 + len(model.outputs)} + k];",
            "    } else {",
            f"        {each} isnan(x) ? absent[k] : NAN;",
            "    }",
        ]
    else:
        lines = [
            _table("double", "values", term.values),
            f"    int code = {_read(column, member, term.reads)}, k;",
            f"    const double *value = code >= 0 && code < {len(term.values)} ? values[code] : absent;",
            f"    {each} value[k];",
        ]
    return "\n".join([*start, *lines, "}"])


def _side(axis: PortableAxis, name: str, model: PortableModel, naming: Naming) -> str:
    column, member = model.columns[axis.column], naming.members[axis.column]
    value = _read(column, member, axis.reads)
    if axis.reads == "level":
        value = f"row->{member} >= 0 ? (double)row->{member} : NAN"
    return f"    P_place {name} = P_place_of({name}_knots, {len(axis.knots)}, {value});"


def _pair(place: int, pair: PortablePair, model: PortableModel, naming: Naming) -> str:
    names = [in_comment(model.columns[axis.column].name) for axis in pair.axes]
    rows, width = len(pair.values[0]), len(model.outputs)
    corners = [
        f"values[{rows} * one.{i} + other.{j}][k]"
        for i, j in (("low", "low"), ("low", "high"), ("high", "low"), ("high", "high"))
    ]
    return "\n".join(
        [
            f"/* {names[0]} and {names[1]} */",
            f"static inline void P_pair_{place}(const P_row *row, double *total)",
            "{",
            _list("one_knots", pair.axes[0].knots),
            _list("other_knots", pair.axes[1].knots),
            _table("double", "values", [node for row in pair.values for node in row]),
            _side(pair.axes[0], "one", model, naming),
            _side(pair.axes[1], "other", model, naming),
            "    int k;",
            f"    for (k = 0; k < {width}; k++)",
            f"        total[k] += P_bilinear(one.share, other.share, {', '.join(corners)});",
            "}",
        ]
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
        "LINK": section("model_parts.h.txt", f"link {model.link}"),
        "TIMES": _list("times", [time for time, _ in model.baseline] or [0.0]),
        "HAZARDS": _list("hazards", [hazard for _, hazard in model.baseline] or [0.0]),
        "EVENTS": str(len(model.baseline)),
    }


def compiler_of_headers() -> str:
    """Return the compiler of C that there is; raise where there is none."""
    return program("c", "cc", "gcc", "clang")


def run_header(model: PortableModel, path: Path, rows: Rows, prefix: str, members: Sequence[str]) -> Matrix:
    """Return the scores (rows, outputs) of a header; its names begin with the prefix, a row has the members."""
    compiler = compiler_of_headers()
    with TemporaryDirectory() as folder:
        header, source, binary = (Path(folder) / name for name in ("model.h", "run.c", "run"))
        header.write_bytes(path.read_bytes())
        text = reader_of(model, "model.h", prefix, members) + prefixed(START, prefix)
        source.write_text(text, encoding="ascii")
        run("c", [compiler, "-std=c99", "-O1", str(source), "-o", str(binary), "-lm"])
        found = run("c", [str(binary)], rows_as_bytes(model, rows))
    return scores_in(found, model, rows)


def reader_of(model: PortableModel, header: str, prefix: str, members: Sequence[str], answer: str = SCORES) -> str:
    """Return functions that read rows from the standard input and write an answer to each."""
    columns = zip(model.columns, members, strict=True)
    lines = [
        CODE.replace("NAME", member) if column.kind == "category" else f"        row.{member} = P_read_number();"
        for column, member in columns
    ]
    return prefixed(filled("run.c.txt", HEADER=header, READ="\n".join(lines), ANSWER=answer), prefix)


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
