"""The model as an ES module of JavaScript with its types beside it: data as literals, functions that never change.

Names and levels are ASCII literals as JSON escapes them, and are looked up in Maps, where no name is special.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sparsenam.export.exporting import Cell, Matrix, Rows
from sparsenam.export.portable import Label, PortableModel
from sparsenam.export.targets.code_parts import (
    Notation,
    filled,
    number_literal,
    program,
    refuse_options,
    run,
    scores_in,
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
        path: filled("model.mjs", DATA=data_of(model)).encode(),
        types: filled("model.d.ts.txt", DATA=types_of(model)).encode(),
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
    return scores_in(found, model, rows)


def _cell(cell: Cell) -> Cell | list[float]:
    if not isinstance(cell, float) or math.isfinite(cell):
        return cell
    return None if math.isnan(cell) else [math.copysign(1.0, cell)]


def _array(*parts: str) -> str:
    return f"[{','.join(parts)}]"


JAVASCRIPT = Notation(
    literal=json.dumps,
    listed=lambda parts: _array(*parts),
    row=_array,
    codes=lambda items: f"new Map({_array(*(f'[{key},{code}]' for key, code in items))})",
    margin="  ",
)


def data_of(model: PortableModel) -> str:
    """Return the data of a module: constants that are literals."""
    intercept = JAVASCRIPT.numbers(model.intercept)
    return "\n".join(
        [
            f"export const writtenBy = {json.dumps(model.written_by)};",
            f"export const task = {json.dumps(model.task)};",
            f"export const outputs = {json.dumps(model.outputs)};",
            f"export const classes = {_array(*map(_label, model.classes))};",
            f"export const intercept = {intercept if len(model.intercept) > 1 else intercept[1:-1]};",
            f"export const missingTexts = {json.dumps(sorted(MARKERS))};",
            f"const LINK = {json.dumps(model.link)};",
            f"const INTERCEPT = {intercept};",
            "const MISSING = new Set(missingTexts);",
            "// name, kind, codes of levels by text and by number, codes of false and true",
            f"const COLUMNS = {JAVASCRIPT.lines(map(JAVASCRIPT.column, model.columns))};",
            "// a curve: column, knots, [anchor, slopes, bases] of each piece, what a missing number adds",
            "// a level or a cell's being missing: column, nothing, values by code, what an unknown one adds",
            f"const TERMS = {JAVASCRIPT.lines(map(JAVASCRIPT.term, model.terms))};",
            "// name, two sides [column, what is read, nodes], values at nodes, the last where a side is not known",
            f"const PAIRS = {JAVASCRIPT.pairs(model)};",
            "// time, cumulative hazard up to it",
            f"const BASELINE = {_array(*map(JAVASCRIPT.numbers, model.baseline))};",
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
