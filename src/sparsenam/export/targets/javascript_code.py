"""The model as an ES module of JavaScript with its types beside it: data as literals, functions that never change.

Names and levels are ASCII literals as JSON escapes them, and are looked up in Maps, where no name is special.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory

from sparsenam.export.exporting import Matrix, Options, Rows
from sparsenam.export.portable import Cell, Label, PortableModel
from sparsenam.export.targets.code_parts import filled, module_data, program, run, scores_in, template

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


def files(model: PortableModel, path: Path, options: Options) -> dict[Path, bytes]:
    """Return the module and its types, .d.mts beside .mjs and .d.ts beside others; it takes no options."""
    parts, single = module_data(model, json.dumps, "[]"), len(model.outputs) == 1
    parts["CLASSES"] = f"[{', '.join(map(_label, model.classes))}]"
    parts["ONE_OR_ALL"] = parts["INTERCEPT"][1:-1] if single else parts["INTERCEPT"]
    label = " | ".join(sorted(set(map(_label_type, model.classes))))
    types = {
        "SCORE": "number" if single else "number[]",
        "PREDICTION": {"classes": f"{label} | null", "labels": "(0 | 1)[] | null"}.get(model.task, "Score"),
        "TASK": json.dumps(model.task),
        "LABEL": label or "never",
        "INTERCEPT": "number" if single else "readonly number[]",
    }
    beside = path.with_suffix(".d.mts" if path.suffix.lower() == ".mjs" else ".d.ts")
    return {
        path: filled(template("model.mjs"), **parts).encode(),
        beside: filled(template("model.d.ts.txt"), **types).encode(),
    }


def require_engine(path: Path, options: Options) -> None:
    """Raise where there is no node, which runs the module."""
    program("javascript", "node")


def scores(model: PortableModel, path: Path, rows: Rows, options: Options) -> Matrix:
    """Return the scores (rows, outputs) of the written module, run by node."""
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


def _label(label: Label) -> str:
    return f"{label}n" if _label_type(label) == "bigint" else json.dumps(label)


def _label_type(label: Label) -> str:
    if isinstance(label, bool):
        return "boolean"
    if isinstance(label, int) and abs(label) > 2**53:  # a number would be rounded
        return "bigint"
    return "string" if isinstance(label, str) else "number"
