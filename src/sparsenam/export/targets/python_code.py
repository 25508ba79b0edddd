"""The model as a Python module that needs the standard library alone: data as literals, functions that never change.

Names and levels enter the file as literals of `ascii`, so that nothing of them is read as code.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sparsenam.export.exporting import Matrix, Options, Rows
from sparsenam.export.portable import PortableModel
from sparsenam.export.targets.code_parts import filled, module_data, run, scores_in, template

RUNNER = """
import json, runpy, struct, sys
score = runpy.run_path(sys.argv[1])["score"]
for row in json.load(sys.stdin):
    found = score(row)
    found = found if isinstance(found, list) else [found]
    sys.stdout.buffer.write(struct.pack("<%dd" % len(found), *found))
"""  # the numbers as they are, without a way through text


def files(model: PortableModel, path: Path, options: Options) -> dict[Path, bytes]:
    """Return the module; it takes no options."""
    return {path: filled(template("model.py.txt"), **module_data(model, ascii)).encode()}


def require_engine(path: Path, options: Options) -> None:
    """Do nothing: the Python that writes the module can run it."""


def scores(model: PortableModel, path: Path, rows: Rows, options: Options) -> Matrix:
    """Return the scores (rows, outputs) of the written module, run by a Python without any packages."""
    found = run("python", [sys.executable, "-I", "-S", "-c", RUNNER, str(path)], json.dumps(rows).encode())
    return scores_in(found, model, rows)
