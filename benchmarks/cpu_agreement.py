"""Compare the supports of all folds along the path between kinds of CPU, which round differently.

    python benchmarks/cpu_agreement.py [result.json]

OPENBLAS_CORETYPE and ATEN_CPU_CAPABILITY make one machine compute as older ones do. For each task and kind, write
the points at which a support differs from that of this machine's kind, with the norms there, and the largest
difference of norms anywhere, as JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = {
    "this machine": {},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "Nehalem": {"OPENBLAS_CORETYPE": "Nehalem", "ATEN_CPU_CAPABILITY": "default"},
}
FOLDS, RAMPS = 5, 16


def tasks():
    import numpy as np

    from sparsenam.datasets import make_classification, make_regression

    task = make_regression(3000, 24)
    yield "regression 3000 x 24", task.X, task.y, "gaussian", np.float64
    task = make_regression(3000, 24, correlation=0.7, seed=1)
    yield "correlated regression 3000 x 24", task.X, task.y, "gaussian", np.float64
    task = make_regression(2000, 20, seed=4)
    yield "regression with 6 columns twice", np.hstack([task.X, task.X[:, :6]]), task.y, "gaussian", np.float64
    task = make_classification(3000, 24)
    yield "classification 3000 x 24", task.X, task.y, "binomial", np.float64
    task = make_regression(500, 1000)
    yield "regression 500 x 1000", task.X, task.y, "gaussian", np.float32


def walk(path):
    """Store ‖θⱼ‖ of every batch at every point of every task, (points, batches, groups)."""
    import numpy as np

    from sparsenam.convex.design import grouped_design
    from sparsenam.convex.path import convex_path
    from sparsenam.convex.problem import convex_problem
    from sparsenam.convex.ramps import place_ramps
    from sparsenam.families import FAMILIES
    from sparsenam.selection.choose import PATH_TOL

    found = {}
    for name, X, y, family, dtype in tasks():
        x, ones = ((X - X.mean(axis=0)) / X.std(axis=0)).T.copy(), np.ones(len(y))
        target = ((y - y.mean()) / y.std() if family == "gaussian" else y)[:, None].astype(float)
        ramps = [place_ramps(cells, ones, RAMPS) for cells in x]
        design = grouped_design(lambda j, r=ramps, x=x: r[j].columns(x[j]), len(x), ones, dtype=dtype)
        labels = np.random.default_rng(0).permutation(len(y)) % FOLDS
        weights = np.stack([ones, *(np.where(labels == fold, 0.0, 1.0) for fold in range(FOLDS))])
        points = convex_path(convex_problem(design, target, FAMILIES[family](), weights), tol=PATH_TOL)
        found[name] = np.stack([np.sqrt((point.theta**2).sum(axis=(2, 3))) for point in points])
    np.savez(path, **found)


def differences(mine, theirs):
    import numpy as np

    where = np.argwhere((mine > 0) != (theirs > 0))
    keys = ("point", "batch", "group")
    return {
        "points": len(mine),
        "largest_difference_of_norms": float(np.abs(mine - theirs).max()),
        "supports_differ_at": [
            dict(zip(keys, map(int, at), strict=True)) | {"norms": [float(mine[tuple(at)]), float(theirs[tuple(at)])]}
            for at in where
        ],
    }


def main():
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        stored = {}
        for kind, settings in KINDS.items():
            path = Path(folder) / f"{kind}.npz"
            subprocess.run([sys.executable, __file__, "--walk", path], env=os.environ | settings, check=True)
            stored[kind] = np.load(path)
        mine = stored.pop("this machine")
        report = {
            kind: {name: differences(mine[name], theirs[name]) for name in mine.files}
            for kind, theirs in stored.items()
        }
    text = json.dumps(report, indent=2)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    if "--walk" in sys.argv:
        walk(sys.argv[2])
    else:
        main()
