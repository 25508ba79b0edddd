"""Gram matrices of ramps: exact sums at knots beside dense products, on one thread.

python benchmarks/sums.py [--rows 1000000] [--out JSON]

Dense products are timed on a tenth of the rows, and the time is taken ten times.
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np

from sparsenam.convex.ramps import PlacedRows, place_ramps

SHAPES = {"20 columns, 16 ramps": (20, 16), "131 columns, 32 ramps": (131, 32)}
HEIGHT = 200_000


def measured(rows, columns, ramps):
    generator = np.random.default_rng(0)
    first = generator.standard_normal((columns, HEIGHT))
    placed = [place_ramps(cells, np.ones(HEIGHT), ramps) for cells in first]
    PlacedRows.of(placed, first[:, :10]).gram(np.ones(10))  # compiled before the clock runs
    total, seconds, bytes_held = 0.0, 0.0, 0
    for start in range(0, rows, HEIGHT):
        x = generator.standard_normal((columns, min(HEIGHT, rows - start)))
        weights = generator.random(x.shape[1])
        started = time.process_time()
        where = PlacedRows.of(placed, x)
        total = total + where.gram(weights)
        seconds += time.process_time() - started
        bytes_held = max(bytes_held, where.places.nbytes + where.shares.nbytes)
    x = generator.standard_normal((columns, rows // 10))
    dense = {}
    for name, dtype in (("float32", np.float32), ("float64", np.float64)):
        started = time.process_time()
        for start in range(0, x.shape[1], 20_000):
            parts = [each.columns(cells[start : start + 20_000]) for each, cells in zip(placed, x, strict=True)]
            written = np.hstack(parts).astype(dtype)
            written.T @ written
        dense[name] = round(10 * (time.process_time() - started), 2)
    return {"rows": rows, "at knots": round(seconds, 2), **dense, "megabytes of a block": round(bytes_held / 1e6, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = {name: measured(given.rows, *shape) for name, shape in SHAPES.items()}
    print(json.dumps(found, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
