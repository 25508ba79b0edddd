"""The model as a Python module that needs the standard library alone: data as literals, functions that never change.

Names and levels enter the file as literals of `ascii`, so that nothing of them is read as code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sparsenam.export.exporting import Matrix, Rows
from sparsenam.export.portable import PortableModel
from sparsenam.export.targets.code_parts import Notation, filled, number_literal, refuse_options, run, scores_in
from sparsenam.tables.text import MARKERS

RUNNER = """
import json, runpy, struct, sys
score = runpy.run_path(sys.argv[1])["score"]
for row in json.load(sys.stdin):
    found = score(row)
    found = found if isinstance(found, list) else [found]
    sys.stdout.buffer.write(struct.pack("<%dd" % len(found), *found))
"""  # the numbers as they are, without a way through text


def files(model: PortableModel, path: Path, options: Mapping[str, Any]) -> dict[Path, bytes]:
    """Return the module; it takes no options."""
    refuse_options("python", options)
    return {path: filled("model.py.txt", DATA=data_of(model)).encode()}


def require_engine(path: Path, options: Mapping[str, Any]) -> None:
    """Refuse options; the Python that writes the module can run it."""
    refuse_options("python", options)


def scores(model: PortableModel, path: Path, rows: Rows, options: Mapping[str, Any]) -> Matrix:
    """Return the scores (rows, outputs) of the written module, run by a Python without any packages."""
    refuse_options("python", options)
    found = run("python", [sys.executable, "-I", "-S", "-c", RUNNER, str(path)], json.dumps(rows).encode())
    return scores_in(found, model, rows)


def _tuple(parts: Iterable[str]) -> str:
    return f"({''.join(f'{part}, ' for part in parts).rstrip()})"


PYTHON = Notation(
    literal=ascii,
    listed=_tuple,
    row=lambda *parts: f"({', '.join(parts)})",
    codes=lambda items: f"{{{', '.join(f'{key}: {code}' for key, code in items)}}}",
    margin="    ",
)


def data_of(model: PortableModel) -> str:
    """Return the data of a module: assignments of literals."""
    classes = (number_literal(label) if isinstance(label, float) else ascii(label) for label in model.classes)
    return "\n".join(
        [
            f"WRITTEN_BY = {model.written_by!a}",
            f"TASK = {model.task!a}",
            f"FAMILY = {model.family!a}",
            f"LINK = {model.link!a}",
            f"OUTPUTS = {_tuple(map(ascii, model.outputs))}",
            f"CLASSES = {_tuple(classes)}",
            f"INTERCEPT = {PYTHON.numbers(model.intercept)}",
            f"MISSING_TEXTS = frozenset({_tuple(map(ascii, sorted(MARKERS)))})",
            "# name, kind, codes of levels by text and by number, codes of False and True",
            f"COLUMNS = {PYTHON.lines(map(PYTHON.column, model.columns))}",
            "# a curve: column, knots, (anchor, slopes, bases) of each piece, what a missing number adds",
            "# a level or a cell's being missing: column, nothing, values by code, what an unknown one adds",
            f"TERMS = {PYTHON.lines(map(PYTHON.term, model.terms))}",
            "# name, two sides (column, what is read, nodes), values at nodes, the last where a side is not known",
            f"PAIRS = {PYTHON.pairs(model)}",
            "# time, cumulative hazard up to it",
            f"BASELINE = {_tuple(map(PYTHON.numbers, model.baseline))}",
        ]
    )
