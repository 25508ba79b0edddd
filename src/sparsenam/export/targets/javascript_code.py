"""The model as an ES module of JavaScript with its types beside it: data as literals, functions that never change.

Names and levels are ASCII literals as JSON escapes them, and are looked up in Maps, where no name is special.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np

from sparsenam.export.exporting import Cell, Matrix, Rows
from sparsenam.export.portable import Label, PortableColumn, PortableCurve, PortableModel, PortablePair, PortableTerm
from sparsenam.export.targets.code_parts import (
    by_number,
    by_text,
    effect_names,
    filled,
    number_literal,
    program,
    refuse_options,
    run,
)
from sparsenam.tables.text import MARKERS

RUNNER = """
import { readFileSync, writeSync } from "node:fs";
import { score } from "./model.mjs";
const { names, rows } = JSON.parse(readFileSync(0, "utf8"));
const plain = (cell) => (Array.isArray(cell) ? cell[0] * Infinity : cell);
const scores = rows.map((cells) => score(new Map(cells.map((cell, place) => [names[place], plain(cell)]))));
const found = Float64Array.from(scores.flat());
const bytes = new Uint8Array(found.buffer);
for (let done = 0; done < bytes.length; ) done += writeSync(1, bytes, done);
"""  # [1] and [-1] are the infinite numbers, which JSON cannot write


def files(model: PortableModel, path: Path, options: Mapping[str, Any]) -> dict[Path, bytes]:
    """Return the module and its types, .d.mts beside .mjs and .d.ts beside others; it takes no options."""
    refuse_options("javascript", options)
    types = path.with_suffix(".d.mts" if path.suffix.lower() == ".mjs" else ".d.ts")
    return {
        path: filled("model.mjs", data_of(model)).encode(),
        types: filled("model.d.ts.txt", types_of(model)).encode(),
    }


def require_engine(path: Path, options: Mapping[str, Any]) -> None:
    """Raise where there is no node, which runs the module."""
    refuse_options("javascript", options)
    program("javascript", "node")


def scores(model: PortableModel, path: Path, rows: Rows, options: Mapping[str, Any]) -> Matrix:
    """Return the scores (rows, outputs) of the written module, run by node."""
    refuse_options("javascript", options)
    node = program("javascript", "node")
    names = [column.name for column in model.columns]
    cells = [[_cell(row[name]) for name in names] for row in rows]
    with TemporaryDirectory() as folder:
        (Path(folder) / "model.mjs").write_bytes(path.read_bytes())  # under .js node might take it for CommonJS
        runner = Path(folder) / "run.mjs"
        runner.write_text(RUNNER, encoding="utf-8")
        found = run("javascript", [node, str(runner)], json.dumps({"names": names, "rows": cells}).encode())
    return np.frombuffer(found, dtype="<f8").reshape(len(rows), len(model.outputs)).astype(np.float64)


def _cell(cell: Cell) -> Cell | list[float]:
    if not isinstance(cell, float) or math.isfinite(cell):
        return cell
    return None if math.isnan(cell) else [math.copysign(1.0, cell)]


def data_of(model: PortableModel) -> str:
    """Return the data of a module: constants that are literals."""
    intercept = _numbers(model.intercept)
    return "\n".join(
        [
            f"export const writtenBy = {json.dumps(model.written_by)};",
            f"export const task = {json.dumps(model.task)};",
            f"export const outputs = {json.dumps(model.outputs)};",
            f"export const classes = {_array(map(_label, model.classes))};",
            f"export const intercept = {intercept if len(model.intercept) > 1 else intercept[1:-1]};",
            f"export const missingTexts = {json.dumps(sorted(MARKERS))};",
            f"const LINK = {json.dumps(model.link)};",
            f"const INTERCEPT = {intercept};",
            "const MISSING = new Set(missingTexts);",
            "// name, kind, codes of levels by text and by number, codes of false and true",
            f"const COLUMNS = {_lines(map(_column, model.columns))};",
            "// a curve: column, knots, [anchor, slopes, bases] of each piece, what a missing number adds",
            "// a level or a cell's being missing: column, nothing, values by code, what an unknown one adds",
            f"const TERMS = {_lines(map(_term, model.terms))};",
            "// name, two sides [column, what is read, nodes], values at nodes, the last where a side is not known",
            f"const PAIRS = {_lines(map(_pair, effect_names(model)[len(model.columns) :], model.pairs))};",
            "// time, cumulative hazard up to it",
            f"const BASELINE = {_array(map(_numbers, model.baseline))};",
        ]
    )


def types_of(model: PortableModel) -> str:
    """Return the types that depend on the model."""
    score = "number" if len(model.outputs) == 1 else "number[]"
    label = " | ".join(sorted(set(map(_label_type, model.classes))))
    predictions = {"classes": f"{label} | null", "labels": "(0 | 1)[] | null"}
    return "\n".join(
        [
            f"export type Score = {score};",
            f"export type Prediction = {predictions.get(model.task, 'Score')};",
            "export const writtenBy: string;",
            f"export const task: {json.dumps(model.task)};",
            "export const outputs: readonly string[];",
            f"export const classes: readonly ({label or 'never'})[];",
            f"export const intercept: {'number' if score == 'number' else 'readonly number[]'};",
        ]
    )


def _array(parts: Iterable[str]) -> str:
    return f"[{','.join(parts)}]"


def _lines(parts: Iterable[str]) -> str:
    return "[\n" + "".join(f"  {part},\n" for part in parts) + "]"


def _numbers(values: Iterable[float]) -> str:
    return _array(map(number_literal, values))


def _label(label: Label) -> str:
    if _label_type(label) == "bigint":
        return f"{label}n"
    return number_literal(label) if isinstance(label, float) else json.dumps(label)


def _label_type(label: Label) -> str:
    if isinstance(label, bool):
        return "boolean"
    if isinstance(label, int) and abs(label) > 2**53:  # a number would be rounded
        return "bigint"
    return "string" if isinstance(label, str) else "number"


def _map(codes: Mapping[Any, int]) -> str:
    items = cast("Iterable[tuple[str | float, int]]", codes.items())
    entries = [f"[{json.dumps(key) if isinstance(key, str) else number_literal(key)},{code}]" for key, code in items]
    return f"new Map({_array(entries)})"


def _column(column: PortableColumn) -> str:
    start = f"{json.dumps(column.name)},{json.dumps(column.kind)}"
    truths = json.dumps([column.false, column.true])
    return f"[{start},{_map(by_text(column))},{_map(by_number(column))},{truths}]"


def _term(term: PortableTerm) -> str:
    if isinstance(term, PortableCurve):
        slopes, bases = zip(*term.slopes, strict=True), zip(*term.bases, strict=True)
        pieces = [
            f"[{number_literal(anchor)},{_numbers(slope)},{_numbers(base)}]"
            for anchor, slope, base in zip(term.anchors, slopes, bases, strict=True)
        ]
        return f'["curve",{term.column},{_numbers(term.knots)},{_array(pieces)},{_numbers(term.absent)}]'
    values = _array(map(_numbers, term.values))
    return f"[{json.dumps(term.reads)},{term.column},[],{values},{_numbers(term.absent)}]"


def _pair(name: str, pair: PortablePair) -> str:
    sides = [f"[{axis.column},{json.dumps(axis.reads)},{_numbers(axis.knots)}]" for axis in pair.axes]
    values = _array(_array(map(_numbers, row)) for row in pair.values)
    return f"[{json.dumps(name)},{sides[0]},{sides[1]},{values}]"
