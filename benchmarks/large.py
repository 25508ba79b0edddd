"""A table that is not in memory: time, passes and peak memory of a fit from Parquet, in a process of its kind alone.

python benchmarks/large.py gaussian|logistic [--rows 10000000] [--folder DIR] [--out JSON]

Twenty columns, of which eight act. Files of a million rows each are made in the folder, once.
"""

import argparse
import json
import os
import resource
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS, HEIGHT = 20, 1_000_000


def truth(X):
    curves = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + np.abs(X[:, 2]) + X[:, 3] + np.tanh(3 * X[:, 4])
    return curves + 0.3 * X[:, 5] + 0.5 * np.cos(3 * X[:, 6]) + np.exp(-(X[:, 7] ** 2)) - 2.2


def make(folder, rows):
    """Write the files that are not there yet."""
    for number in range(-(-rows // HEIGHT)):
        path = folder / f"part-{number:03d}.parquet"
        if path.exists():
            continue
        generator = np.random.default_rng(number)
        X = generator.standard_normal((min(HEIGHT, rows - number * HEIGHT), COLUMNS))
        score = truth(X)
        columns = {f"x{index}": X[:, index] for index in range(COLUMNS)}
        columns["gaussian"] = score + generator.standard_normal(len(X))
        columns["logistic"] = (generator.random(len(X)) < 1 / (1 + np.exp(-score))).astype(np.int8)
        pq.write_table(pa.table(columns), path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=("gaussian", "logistic"))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "sparsenam-large")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    make(given.folder, given.rows)
    import pyarrow.dataset as ds

    from sparsenam import SNAMClassifier, SNAMRegressor
    from sparsenam.tables import parquet

    passes, reduce = [], parquet.ArrowBlocks.reduce

    def counted(self, function, state, report=None):
        passes.append(function.__name__)
        return reduce(self, function, state, report)

    parquet.ArrowBlocks.reduce = counted
    dataset = ds.dataset(sorted(given.folder.glob("part-*.parquet"))[: -(-given.rows // HEIGHT)])
    names = [f"x{index}" for index in range(COLUMNS)]
    other = "logistic" if given.target == "gaussian" else "gaussian"
    source = dataset.replace_schema(pa.schema([field for field in dataset.schema if field.name != other]))
    model = (SNAMRegressor if given.target == "gaussian" else SNAMClassifier)(random_state=0, verbose=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    cpu, clock = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(source, given.target)
    seconds = {"cpu": round(time.process_time() - cpu, 1), "clock": round(time.perf_counter() - clock, 1)}
    X = np.random.default_rng(12345).standard_normal((100_000, COLUMNS))
    table = pa.table({name: X[:, index] for index, name in enumerate(names)})
    scores = model.predict(table) if given.target == "gaussian" else model.decision_function(table)
    found = {
        "rows": given.rows,
        "columns": COLUMNS,
        "seconds": seconds,
        "passes": len(passes),
        "peak megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
        "megabytes before": round(before),
        "kept": model.get_feature_names_out().tolist(),
        "distance from the truth": round(float(np.sqrt(np.mean((scores - truth(X)) ** 2))), 5),
    }
    print(json.dumps({given.target: found}, indent=1))
    if given.out is not None:
        known = json.loads(given.out.read_text()) if given.out.exists() else {}
        given.out.write_text(json.dumps({**known, given.target: found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
