"""Running a written C header: a small program beside it, compiled, and rows given to it as bytes."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sparsenam.export.exporting import Cell, Matrix, Rows
from sparsenam.export.portable import PortableModel
from sparsenam.export.targets.code_parts import number_of_cell, prefixed, program, run

MAIN = """#include <stdio.h>
#include "HEADER"

static int P_read(void *to, size_t size) { return fread(to, size, 1, stdin) == 1; }

static double P_read_number(void) { double number = 0.0; P_read(&number, sizeof number); return number; }

static const char *P_read_text(char *text, size_t most)
{
    int length = 0;
    P_read(&length, sizeof length);
    if (length < 0 || (size_t)length >= most) exit(2);
    if (length > 0) P_read(text, (size_t)length);
    text[length] = 0;
    return text;
}

static void P_run(void)
{
    static char text[1 << 20];
    int kind;
    (void)text; (void)P_read_number; (void)P_read_text;
    while (P_read(&kind, sizeof kind) && kind == 1) {
        P_row row = P_missing_row();
READ
ANSWER
    }
}
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
    return np.frombuffer(found, dtype=np.float64).reshape(len(rows), len(model.outputs)).copy()


def reader_of(model: PortableModel, header: str, prefix: str, members: Sequence[str], answer: str = SCORES) -> str:
    """Return functions that read rows from the standard input and write an answer to each."""
    columns = zip(model.columns, members, strict=True)
    lines = [
        CODE.replace("NAME", member) if column.kind == "category" else f"        row.{member} = P_read_number();"
        for column, member in columns
    ]
    parts = {"HEADER": header, "READ": "\n".join(lines), "ANSWER": answer}
    return prefixed(re.sub("|".join(parts), lambda found: parts[found[0]], MAIN), prefix)


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
