"""Exported code of many models, run at once: one node process, one compilation, and Python in this process."""

import json
import math
import runpy
import shutil
import subprocess
from dataclasses import dataclass

import numpy as np

from sparsenam.export.exporting import write_export
from sparsenam.export.targets.c_code import naming_of, reader_of, rows_as_bytes


@dataclass(frozen=True, eq=False)
class Answers:
    """What exported code says of rows: scores, sums of effects and intercept, and means, each (rows, outputs)."""

    scores: np.ndarray
    sums: np.ndarray
    means: np.ndarray


def _listed(value):
    return list(value) if isinstance(value, list | tuple) else [value]


def _answers_of(table, model):
    """Return answers from numbers (rows, 3 outputs)."""
    width = len(model.outputs)
    return Answers(*(table[:, width * part : width * (part + 1)] for part in range(3)))


def run_python(cases, folder, every=5):
    """Return the answers of the Python modules; sums and means for every few rows, NaN in others."""
    found = []
    for place, case in enumerate(cases):
        (path,) = write_export(case.portable, folder / f"model{place}.py", None, {})
        module = runpy.run_path(str(path))
        table = np.full((len(case.rows), 3, len(case.portable.outputs)), np.nan)
        for index, row in enumerate(case.rows):
            table[index, 0] = module["score"](row)
            if index % every == 0:
                table[index, 1:] = python_parts(module, row)
        found.append(_answers_of(table.reshape(len(case.rows), -1), case.portable))
    return found


def python_parts(module, row):
    """Return the sums of effects and intercept, and the means, of one row."""
    sums = np.sum([_listed(effect) for effect in module["effects"](row).values()], axis=0) + module["INTERCEPT"]
    if module["TASK"] in ("classes", "labels"):
        return [sums, module["probabilities"](row)[-len(sums) :]]
    return [sums, _listed(module["predict"](row))]


JAVASCRIPT = """
import { readFileSync, writeFileSync } from "node:fs";
const plain = (cell) => (Array.isArray(cell) ? cell[0] * Infinity : cell);
const listed = (value) => (Array.isArray(value) ? value : [value]);
const found = [];
const every = Number(process.argv[4]);
for (const { path, names, rows } of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  const model = await import(path);
  for (const [index, cells] of rows.entries()) {
    const row = new Map(cells.map((cell, place) => [names[place], plain(cell)]));
    const sums = [...listed(model.intercept)];
    found.push(...listed(model.score(row)));
    if (index % every > 0) {
      found.push(...sums.map(() => NaN), ...sums.map(() => NaN));
      continue;
    }
    for (const effect of model.effects(row).values()) listed(effect).forEach((value, k) => (sums[k] += value));
    const classed = model.task === "classes" || model.task === "labels";
    const means = classed ? model.probabilities(row).slice(-sums.length) : listed(model.predict(row));
    found.push(...sums, ...means);
  }
}
writeFileSync(process.argv[3], new Uint8Array(Float64Array.from(found).buffer));
"""


def _json_cell(cell):
    if isinstance(cell, float) and not math.isfinite(cell):
        return None if math.isnan(cell) else [math.copysign(1.0, cell)]
    return cell


def run_javascript(cases, folder, every=5):
    """Return the answers of the JavaScript modules; sums and means for every few rows, NaN in others."""
    given = []
    for place, case in enumerate(cases):
        path, _ = write_export(case.portable, folder / f"model{place}.mjs", None, {})
        names = [column.name for column in case.portable.columns]
        rows = [[_json_cell(row[name]) for name in names] for row in case.rows]
        given.append({"path": str(path), "names": names, "rows": rows})
    (folder / "given.json").write_text(json.dumps(given))
    (folder / "run.mjs").write_text(JAVASCRIPT)
    command = ["node", str(folder / "run.mjs"), str(folder / "given.json"), str(folder / "found"), str(every)]
    subprocess.run(command, check=True, timeout=120)
    return _split(cases, np.fromfile(folder / "found", dtype="<f8"))


C_ANSWER = """        double scores[3 * U_OUTPUTS], effects[U_EFFECTS * U_OUTPUTS + 1];
        int output, effect;
        P_scores(&row, scores);
        P_effects(&row, effects);
        for (output = 0; output < U_OUTPUTS; output++) {
            double sum = P_intercept(output);
            for (effect = 0; effect < U_EFFECTS; effect++) sum += effects[effect * U_OUTPUTS + output];
            scores[U_OUTPUTS + output] = sum;
        }
        P_means(&row, scores + 2 * U_OUTPUTS);
        fwrite(scores, sizeof scores, 1, stdout);"""


def run_c(cases, folder, options=("-O0",), compiler="cc"):
    """Return the answers of the C headers, all in one program."""
    parts, given = [], []
    for place, case in enumerate(cases):
        chosen = {"prefix": f"model{place}"}
        (path,) = write_export(case.portable, folder / f"header{place}.h", None, chosen)
        naming = naming_of(case.portable, path, chosen)
        parts.append(reader_of(case.portable, path.name, naming.prefix, naming.members, C_ANSWER))
        given.append(rows_as_bytes(case.portable, case.rows))
    calls = "".join(f"model{place}_run(); " for place in range(len(cases)))
    (folder / "run.c").write_text("\n".join([*parts, f"int main(void) {{ {calls}return 0; }}\n"]))
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
    command = [compiler, *options, *strict, str(folder / "run.c"), "-o", str(folder / "run"), "-lm"]
    subprocess.run(command, check=True, timeout=120)
    done = subprocess.run([str(folder / "run")], input=b"".join(given), capture_output=True, check=True, timeout=120)
    return _split(cases, np.frombuffer(done.stdout))


def _split(cases, numbers):
    sizes = [3 * len(case.portable.outputs) * len(case.rows) for case in cases]
    assert numbers.size == sum(sizes)
    parts = np.split(numbers, np.cumsum(sizes)[:-1])
    pairs = zip(cases, parts, strict=True)
    return [_answers_of(part.reshape(len(case.rows), -1), case.portable) for case, part in pairs]


def has(program):
    """Return whether a program is there."""
    return shutil.which(program) is not None
