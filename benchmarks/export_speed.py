"""How many rows a second exported models score, and whether compilers agree to the bit.

    OMP_NUM_THREADS=1 python benchmarks/export_speed.py [c python javascript]

The model has 10 curves of 30 knots and one output; rows are 10 numbers, some of them missing. Each section is a
function of a folder to write into and returns what it measured, in CPU time; `SECTIONS` has them by name. Sections
that are not run again keep their figures in benchmarks/results/export_speed.json.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from bench import machine

from sparsenam.export.exporting import write_export
from sparsenam.export.portable import PortableColumn, PortableCurve, PortableModel

RESULTS = Path(__file__).parent / "results" / "export_speed.json"
COLUMNS, KNOTS, MISSING = 10, 30, 0.05


def typical_model():
    """Return a model of 10 curves of 30 knots."""
    generator = np.random.default_rng(0)
    curves = []
    for column in range(COLUMNS):
        knots = np.sort(generator.standard_normal(KNOTS))
        values = np.cumsum(generator.standard_normal(KNOTS)) / 5.0
        slopes = np.concatenate([[0.0], np.diff(values) / np.diff(knots), [0.0]])
        starts = np.concatenate([[0], np.arange(KNOTS)])
        curves.append(
            PortableCurve(
                column,
                tuple(knots.tolist()),
                tuple(knots[starts].tolist()),
                (tuple(slopes.tolist()),),
                (tuple(values[starts].tolist()),),
                (0.1,),
            )
        )
    columns = tuple(PortableColumn(f"x{index}", "number") for index in range(COLUMNS))
    return PortableModel("regression", "gaussian", "identity", ("y",), (), (0.5,), columns, tuple(curves))


def typical_rows(count):
    """Return numbers (rows, 10), a twentieth of them NaN."""
    generator = np.random.default_rng(1)
    rows = generator.standard_normal((count, COLUMNS))
    rows[generator.random(rows.shape) < MISSING] = np.nan
    return rows


def version_of(program):
    """Return the first line that a program says of its version."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return said.stdout.splitlines()[0]


def rounded(rows_per_second):
    return float(f"{rows_per_second:.3g}")


C_MAIN = """#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdint.h>
#include <time.h>
#include "model.h"
int main(int count, char **given)
{
    size_t rows = (size_t)atol(given[1]), k;
    int repeat, repeats = atoi(given[2]);
    model_row *table = malloc(rows * sizeof *table);
    double *scores = malloc(rows * sizeof *scores), best = 1e9;
    uint64_t digest = 1469598103934665603u, bits;
    if (count < 3 || fread(table, sizeof *table, rows, stdin) != rows) return 1;
    for (repeat = 0; repeat < repeats; repeat++) {
        struct timespec start, end;
        double seconds;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
        model_all_scores(table, rows, scores);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
        seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
        best = seconds < best ? seconds : best;
    }
    for (k = 0; k < rows; k++) {
        memcpy(&bits, scores + k, sizeof bits);
        digest = (digest ^ bits) * 1099511628211u;
    }
    printf("%.9g %016llx", (double)rows / best, (unsigned long long)digest);
    return 0;
}
"""


def c_section(folder):
    """Return rows a second of the C header by compiler and options, and whether all gave the same bits."""
    count, repeats = 500_000, 15
    write_export(typical_model(), folder / "model.h", None, {})
    (folder / "main.c").write_text(C_MAIN)
    given = typical_rows(count).tobytes()
    speeds, digests = {}, set()
    for compiler in ("gcc", "clang"):
        for options in ("-O2", "-O3 -march=native", "-O3 -march=native -std=c99"):
            if shutil.which(compiler) is None:
                continue
            binary = folder / "run"
            command = [compiler, *options.split(), str(folder / "main.c"), "-o", str(binary), "-lm"]
            subprocess.run(command, check=True)
            done = subprocess.run([str(binary), str(count), str(repeats)], input=given, capture_output=True, check=True)
            speed, digest = done.stdout.split()
            speeds[f"{compiler} {options}"] = rounded(float(speed))
            digests.add(digest)
    compilers = [version_of(compiler) for compiler in ("gcc", "clang") if shutil.which(compiler)]
    same = len(digests) == 1
    return {"compilers": compilers, "rows": count, "rows per CPU second": speeds, "same bits": same}


PYTHON_MAIN = """
import json, runpy, sys, time
predict = runpy.run_path(sys.argv[1])["predict"]
rows = json.load(sys.stdin)
best = 1e9
for repeat in range(5):
    start = time.process_time()
    for row in rows:
        predict(row)
    best = min(best, time.process_time() - start)
print(len(rows) / best)
"""

JAVASCRIPT_MAIN = """
import { readFileSync } from "node:fs";
import { predict } from "./model.mjs";
const rows = JSON.parse(readFileSync(0, "utf8"));
let best = Infinity;
for (let repeat = 0; repeat < 5; repeat++) {
  const start = process.cpuUsage();
  for (const row of rows) predict(row);
  const spent = process.cpuUsage(start);
  best = Math.min(best, (spent.user + spent.system) / 1e6);
}
console.log(rows.length / best);
"""


def _as_json(count):
    cells = typical_rows(count).tolist()
    rows = [{f"x{k}": None if cell != cell else cell for k, cell in enumerate(row)} for row in cells]
    return json.dumps(rows).encode()


def python_section(folder):
    """Return rows a second of the Python module, one row after the other."""
    write_export(typical_model(), folder / "model.py", None, {})
    command = [sys.executable, "-I", "-S", "-c", PYTHON_MAIN, str(folder / "model.py")]
    done = subprocess.run(command, input=_as_json(5_000), capture_output=True, check=True)
    return {"rows": 5_000, "rows per CPU second": rounded(float(done.stdout))}


def javascript_section(folder):
    """Return rows a second of the JavaScript module, one row after the other."""
    write_export(typical_model(), folder / "model.mjs", None, {})
    (folder / "main.mjs").write_text(JAVASCRIPT_MAIN)
    done = subprocess.run(["node", str(folder / "main.mjs")], input=_as_json(50_000), capture_output=True, check=True)
    return {"node": version_of("node"), "rows": 50_000, "rows per CPU second": rounded(float(done.stdout))}


SECTIONS = {"c": c_section, "python": python_section, "javascript": javascript_section}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sections", nargs="*", metavar="section", help=f"of {list(SECTIONS)}; all by default")
    parser.add_argument("--out", type=Path, default=RESULTS)
    wanted = parser.parse_args()
    report = json.loads(wanted.out.read_text()) if wanted.out.exists() else {}
    report |= {"machine": machine(), "model": {"curves": COLUMNS, "knots of each": KNOTS, "missing": MISSING}}
    for name in wanted.sections or SECTIONS:
        with tempfile.TemporaryDirectory() as folder:
            report.setdefault("sections", {})[name] = SECTIONS[name](Path(folder))
            print(name, json.dumps(report["sections"][name]))
    wanted.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
