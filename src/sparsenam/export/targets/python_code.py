"""The model as a Python module that needs the standard library alone: data as literals, functions that never change.

Names and levels enter the file as literals of `ascii`, so that nothing of them is read as code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparsenam.export.exporting import Matrix, Rows
from sparsenam.export.portable import PortableColumn, PortableCurve, PortableModel, PortablePair, PortableTerm
from sparsenam.export.targets.code_parts import (
    by_number,
    by_text,
    effect_names,
    filled,
    number_literal,
    refuse_options,
    run,
)
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
    return {path: filled("model.py.txt", data_of(model)).encode()}


def require_engine(path: Path, options: Mapping[str, Any]) -> None:
    """Refuse options; the Python that writes the module can run it."""
    refuse_options("python", options)


def scores(model: PortableModel, path: Path, rows: Rows, options: Mapping[str, Any]) -> Matrix:
    """Return the scores (rows, outputs) of the written module, run by a Python without any packages."""
    refuse_options("python", options)
    found = run("python", [sys.executable, "-I", "-S", "-c", RUNNER, str(path)], json.dumps(rows).encode())
    return np.frombuffer(found, dtype="<f8").reshape(len(rows), len(model.outputs)).astype(np.float64)


def data_of(model: PortableModel) -> str:
    """Return the data of a module: assignments of literals."""
    baseline = _tuple(_numbers(pair) for pair in model.baseline)
    return "\n".join(
        [
            f"WRITTEN_BY = {model.written_by!a}",
            f"TASK = {model.task!a}",
            f"FAMILY = {model.family!a}",
            f"LINK = {model.link!a}",
            f"OUTPUTS = {_tuple(map(ascii, model.outputs))}",
            f"CLASSES = {_tuple(map(_label, model.classes))}",
            f"INTERCEPT = {_numbers(model.intercept)}",
            f"MISSING_TEXTS = frozenset({_tuple(map(ascii, sorted(MARKERS)))})",
            "# name, kind, codes of levels by text and by number, codes of False and True",
            f"COLUMNS = {_lines(map(_column, model.columns))}",
            "# a curve: column, knots, (anchor, slopes, bases) of each piece, what a missing number adds",
            "# a level or a cell's being missing: column, nothing, values by code, what an unknown one adds",
            f"TERMS = {_lines(map(_term, model.terms))}",
            "# name, two sides (column, what is read, nodes), values at nodes, the last where a side is not known",
            f"PAIRS = {_lines(map(_pair, effect_names(model)[len(model.columns) :], model.pairs))}",
            "# time, cumulative hazard up to it",
            f"BASELINE = {baseline}",
        ]
    )


def _tuple(parts: Iterable[str]) -> str:
    return f"({''.join(f'{part}, ' for part in parts).rstrip()})"


def _lines(parts: Iterable[str]) -> str:
    return "(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def _numbers(values: Iterable[float]) -> str:
    return _tuple(map(number_literal, values))


def _label(label: str | int | float | bool) -> str:
    return number_literal(label) if isinstance(label, float) else ascii(label)


def _column(column: PortableColumn) -> str:
    texts = ", ".join(f"{text!a}: {code}" for text, code in by_text(column).items())
    numbers = ", ".join(f"{number_literal(number)}: {code}" for number, code in by_number(column).items())
    return f"({column.name!a}, {column.kind!a}, {{{texts}}}, {{{numbers}}}, ({column.false}, {column.true}))"


def _term(term: PortableTerm) -> str:
    if isinstance(term, PortableCurve):
        pieces = [
            f"({number_literal(anchor)}, {_numbers(slopes)}, {_numbers(bases)})"
            for anchor, slopes, bases in zip(
                term.anchors, zip(*term.slopes, strict=True), zip(*term.bases, strict=True), strict=True
            )
        ]
        return f'("curve", {term.column}, {_numbers(term.knots)}, {_tuple(pieces)}, {_numbers(term.absent)})'
    values = _tuple(map(_numbers, term.values))
    return f"({term.reads!a}, {term.column}, (), {values}, {_numbers(term.absent)})"


def _pair(name: str, pair: PortablePair) -> str:
    sides = [f"({axis.column}, {axis.reads!a}, {_numbers(axis.knots)})" for axis in pair.axes]
    values = _tuple(_tuple(map(_numbers, row)) for row in pair.values)
    return f"({name!a}, {sides[0]}, {sides[1]}, {values})"
